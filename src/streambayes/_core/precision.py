"""Float64 inside the library's own calls, whatever the user's JAX settings; nothing global changes."""

import contextlib
import functools
import threading
from collections.abc import Callable, Iterator
from typing import Any, ParamSpec, TypeVar

import jax
import numpy as np

from streambayes._core.arrays import holds_jax

__all__ = ["as_real", "compiled", "float64_scope", "in_float64", "is_concrete", "to_host"]

P = ParamSpec("P")
R = TypeVar("R")


class _Depth(threading.local):
    value = 0


_depth = _Depth()


@contextlib.contextmanager
def float64_scope() -> Iterator[None]:
    """Pin JAX's precision and promotion rules for this thread while the library computes.

    What is not a number is found in the results, so NumPy says as little of it as JAX does.
    """
    if _depth.value:
        yield
        return
    _depth.value += 1
    try:
        with (
            jax.enable_x64(True),
            jax.default_matmul_precision("highest"),
            jax.numpy_rank_promotion("allow"),
            jax.numpy_dtype_promotion("standard"),
            np.errstate(all="ignore"),
        ):
            yield
    finally:
        _depth.value -= 1


def in_float64(function: Callable[P, R]) -> Callable[P, R]:
    """Run a public function in the float64 scope and hand NumPy arrays to the caller outside it.

    A JAX array of float64 in the hands of a program that runs JAX in float32 is truncated at its
    first use; a NumPy array is not.
    """

    @functools.wraps(function)
    def scoped(*args: P.args, **kwargs: P.kwargs) -> R:
        if _depth.value:
            return function(*args, **kwargs)
        with float64_scope():
            return to_host(function(*args, **kwargs))

    return scoped


def compiled(function: Callable[P, R]) -> Callable[P, R]:
    """Compile a function of JAX's arrays as a whole, for callers outside of a compiled program too.

    Operation by operation, the first call of a formula of hundreds of them takes seconds.
    """
    whole: Callable[P, R] = jax.jit(function, inline=True)

    @functools.wraps(function)
    def either(*args: P.args, **kwargs: P.kwargs) -> R:
        return (whole if holds_jax(args) else function)(*args, **kwargs)

    return either


def to_host(tree: R) -> R:
    """The same tree with NumPy arrays for JAX arrays."""
    result: R = jax.tree.map(
        lambda leaf: (
            np.asarray(leaf) if isinstance(leaf, jax.Array) and is_concrete(leaf) else leaf
        ),
        tree,
    )
    return result


def is_concrete(value: Any) -> bool:
    """Whether a value holds numbers, rather than a placeholder of a JAX transformation."""
    return not isinstance(value, jax.core.Tracer)


def as_real(value: Any) -> Any:
    """A float64 array: NumPy outside the scope, inside it JAX where it was; placeholders pass."""
    if isinstance(value, jax.Array) and _depth.value:
        return value.astype(np.float64)
    if isinstance(value, jax.Array) and not is_concrete(value):
        return value
    return np.asarray(value, dtype=np.float64)
