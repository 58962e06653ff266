"""Functions of arrays that compute where the arrays are: NumPy's by NumPy and SciPy, JAX's by JAX.

What a person asks for once is computed from NumPy arrays and compiles nothing; the same formulas within a program
see JAX's placeholders and become part of it.
"""

import functools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import jax.scipy.special
import numpy as np
from jax import Array

from streambayes._core import gamma

__all__ = ["holds_jax", "xp"]


_PLAIN = frozenset({np.ndarray, np.float64, np.int64, np.bool_, float, int, bool, str, slice})


def holds_jax(values: Any) -> bool:
    """Whether there is a JAX array among values, in tuples, lists or dicts of any depth."""
    if type(values) in _PLAIN:
        return False
    if isinstance(values, tuple | list):
        return any(map(holds_jax, values))
    if isinstance(values, dict):
        return any(map(holds_jax, values.values()))
    return isinstance(values, jax.Array)


class _Functions:
    """The functions of ``jax.numpy`` that NumPy has, too, and those below: ``xp.log``, ``xp.gammaln``, ..."""

    inf, nan, pi = np.inf, np.nan, np.pi
    shape: Callable[..., tuple[int, ...]]
    ndim: Callable[..., int]
    broadcast_arrays: Callable[..., list[Array]]
    broadcast_shapes: Callable[..., tuple[int, ...]]
    split: Callable[..., list[Array]]
    frexp: Callable[..., tuple[Array, Array]]
    largest: Callable[..., tuple[Array, Array]]
    while_loop: Callable[..., Any]
    fori_loop: Callable[..., Any]

    def __getattr__(self, name: str) -> Callable[..., Array]:
        on_host = _ON_HOST.get(name) or getattr(_special() if name in _SPECIAL else np, name)
        in_jax = _IN_JAX.get(name) or getattr(jnp, name)

        @functools.wraps(on_host)
        def either(*args: Any, **kwargs: Any) -> Any:
            for arg in args:
                if type(arg) not in _PLAIN and holds_jax(arg):
                    return in_jax(*args, **kwargs)
            return on_host(*args, **kwargs)

        setattr(self, name, either)
        return either


def _logsumexp(values: Any, axis: Any = None, keepdims: bool = False) -> Any:
    highest = np.max(values, axis=axis, keepdims=True)
    highest = np.where(np.isfinite(highest), highest, 0.0)
    total = np.log(np.exp(values - highest).sum(axis, keepdims=True)) + highest
    return total if keepdims else total.squeeze(axis)


def _log_softmax(values: Any, axis: Any = -1) -> Any:
    shifted = values - np.max(values, axis=axis, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(axis, keepdims=True))


def _softmax(values: Any, axis: Any = -1) -> Any:
    weights = np.exp(values - np.max(values, axis=axis, keepdims=True))
    return weights / weights.sum(axis, keepdims=True)


def _while_loop(goes_on: Callable[[Any], Any], body: Callable[[Any], Any], at: Any) -> Any:
    while True:
        going = goes_on(at)
        if holds_jax(going):  # functions may bring JAX's arrays in
            return jax.lax.while_loop(goes_on, body, at)
        if not going:
            return at
        at = body(at)


def _fori_loop(start: int, stop: int, body: Callable[[Any, Any], Any], at: Any) -> Any:
    for number in range(start, stop):
        after = body(number, at)
        if holds_jax(after):  # as above, or a program would have the body as often as it runs
            return jax.lax.fori_loop(number, stop, body, at)
        at = after
    return at


def _largest(values: Any, size: int) -> tuple[Any, Any]:
    places = np.argsort(-values, axis=-1, kind="stable")[..., :size]
    return np.take_along_axis(values, places, -1), places


def _put(array: Any, place: Any, value: Any) -> Any:
    changed = np.array(array)
    changed[place] = value
    return changed


def _special() -> Any:
    import scipy.special  # it changes the filters of warnings, which an import of the library must not

    return scipy.special


_SPECIAL = (
    "betainc", "digamma", "entr", "gammainc", "gammaln", "ndtr", "ndtri", "xlog1py", "xlogy"
)  # fmt: skip
_ON_HOST: dict[str, Callable[..., Any]] = {
    "logsumexp": _logsumexp,
    "log_softmax": _log_softmax,
    "softmax": _softmax,
    "while_loop": _while_loop,
    "fori_loop": _fori_loop,
    "put": _put,
    "entry": lambda array, index, axis: np.take(array, [index], axis),
    "largest": _largest,
}
_IN_JAX: dict[str, Callable[..., Any]] = {
    **{name: getattr(jax.scipy.special, name) for name in _SPECIAL},
    "logsumexp": jax.nn.logsumexp,
    "log_softmax": jax.nn.log_softmax,
    "softmax": jax.nn.softmax,
    "while_loop": jax.lax.while_loop,
    "fori_loop": jax.lax.fori_loop,
    "put": lambda array, place, value: jnp.asarray(array).at[place].set(value),
    "entry": jax.lax.dynamic_index_in_dim,
    "largest": jax.lax.top_k,
    "digamma": gamma.digamma,
    "gammaln": gamma.gammaln,
}
xp = _Functions()
