r"""AbstractFamily: an exponential family in natural parameters.

$$p(x \mid \eta) = h(x) \exp(\eta \cdot t(x) - A(\eta)), \qquad E[t(x)] = \nabla A(\eta).$$
"""

import abc
import copy
import dataclasses
import functools
import types
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Self, final

import jax
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.formula import Formula
from streambayes._core.precision import as_real, in_float64, is_concrete

__all__ = [
    "AbstractFamily",
    "AbstractInFormulas",
    "check_finite",
    "check_held",
    "check_positive",
    "check_positive_definite",
    "check_size",
    "on_one_batch",
]


class AbstractFamily(abc.ABC):
    """A batch of distributions of one exponential family.

    Fields are arrays; batch axes lead, event axes trail. ``natural`` names the fields that are
    natural parameters and their number of event axes; statistics have an entry for each, in that
    order. ``kl``, ``entropy`` and ``log_prob`` are given here by definition; a family states a form
    of its own only where the definition loses digits, and the laws in ``streambayes.testing`` hold
    the two together. Public methods compute in float64 wherever they are called from.
    """

    natural: ClassVar[dict[str, int]]

    def __init_subclass__(cls, **options: Any) -> None:
        super().__init_subclass__(**options)
        _compute_in_float64(cls)

    def __post_init__(self) -> None:
        for field in dataclasses.fields(self):  # type: ignore[arg-type]  # subclasses are pytrees
            object.__setattr__(self, field.name, as_real(getattr(self, field.name)))

    @abc.abstractmethod
    def log_normalizer(self) -> Array:
        r"""$A(\eta)$, shape ``batch_shape``."""

    @abc.abstractmethod
    def expected_stats(self) -> Any:
        r"""$E[t(x)] = \nabla A(\eta)$: a named tuple with an entry for each natural parameter."""

    @abc.abstractmethod
    def sufficient_stats(self, x: Any) -> Any:
        """$t(x)$, in the form of ``expected_stats``."""

    @abc.abstractmethod
    def log_base_measure(self, x: Any) -> Array:
        r"""$\ln h(x)$."""

    @abc.abstractmethod
    def expected_log_base_measure(self) -> Array:
        r"""$E[\ln h(x)]$, shape ``batch_shape``."""

    @abc.abstractmethod
    def is_proper(self) -> Array:
        """Whether the parameters lie in the domain, shape ``batch_shape``."""

    @abc.abstractmethod
    def sample(self, rng: np.random.Generator, num_samples: int) -> Any:
        """Independent draws; the sample axis leads. Nothing is compiled for them."""

    def kl(self, other: Self) -> Array:
        r"""$KL(q \| p) = (\lambda - \eta) \cdot E_q[t] - A(\lambda) + A(\eta)$, shape ``batch_shape``."""
        gap = (self - other).dot(self.expected_stats())
        return gap - self.log_normalizer() + other.log_normalizer()

    def log_normalizer_formula(self) -> Formula:
        """``log_normalizer``, for evaluation together with other families."""
        return Formula.known(self.log_normalizer())

    def expected_stats_formula(self) -> Formula:
        """``expected_stats``, likewise."""
        return Formula.known(self.expected_stats())

    def kl_formula(self, other: Self) -> Formula:
        """``kl``, likewise."""
        return Formula.known(self.kl(other))

    def factored(self) -> Self:
        """The same, with what several methods begin with computed once: XLA would compute it for each of them."""
        return self

    def entropy(self) -> Array:
        r"""$A(\eta) - \eta \cdot E[t] - E[\ln h]$, shape ``batch_shape``."""
        energy = self.dot(self.expected_stats()) + self.expected_log_base_measure()
        return self.log_normalizer() - energy

    def log_prob(self, x: Any) -> Array:
        r"""Log density $\eta \cdot t(x) + \ln h(x) - A(\eta)$; axes of ``x`` before the batch axes lead."""
        return self.dot(self.sufficient_stats(x)) + self.log_base_measure(x) - self.log_normalizer()

    @final
    @property
    def batch_shape(self) -> tuple[int, ...]:
        """Shape of the array of distributions."""
        name, event = next(iter(self.natural.items()))
        shape = np.shape(getattr(self, name))
        return tuple(shape[: len(shape) - event])

    @final
    def naturals(self) -> tuple[Array, ...]:
        """The natural parameters in the order of ``natural``."""
        return tuple(getattr(self, name) for name in self.natural)

    @final
    def with_naturals(self, values: Iterable[Array]) -> Self:
        """A family of this kind with other natural parameters, in the order of ``natural``."""
        return self._replace(dict(zip(self.natural, values, strict=True)))

    @final
    def dot(self, stats: Iterable[Array]) -> Array:
        r"""$\eta \cdot t$ per member of the batch."""
        terms = [
            (value * stat).sum(tuple(range(-event, 0))) if event else value * stat
            for (value, stat, event) in zip(
                self.naturals(), stats, self.natural.values(), strict=True
            )
        ]
        return functools.reduce(xp.add, terms)

    @final
    def _keeping(self, found: Any) -> Self:
        """A copy that holds what was computed of it; what JAX makes of the copy does not."""
        kept = copy.copy(self)
        kept.__dict__["_found"] = found
        return kept

    @final
    def _kept(self) -> Any:
        """What the copy holds; nothing in others."""
        return self.__dict__.get("_found")

    @final
    def __add__(self, other: Self) -> Self:
        return self._map(xp.add, other)

    @final
    def __sub__(self, other: Self) -> Self:
        return self._map(xp.subtract, other)

    @final
    def scaled(self, weight: Any) -> Self:
        """Natural parameters times a weight per member."""
        return self._map(lambda mine, w: w * mine, None, weight)

    @final
    def lerp(self, other: Self, weight: Any) -> Self:
        """``weight`` of this and the rest of ``other``: a power prior in natural parameters."""
        return self._map(lambda mine, theirs, w: w * mine + (1.0 - w) * theirs, other, weight)

    @final
    def select(self, condition: Any, other: Self) -> Self:
        """This where the condition holds, ``other`` elsewhere, per member."""
        return self._map(lambda mine, theirs, w: xp.where(w, mine, theirs), other, condition)

    @final
    def broadcast_to(self, shape: tuple[int, ...]) -> Self:
        """The same distributions over a larger batch shape."""
        fields = {}
        for name, value in vars(self).items():
            event = self.natural.get(name, 0)
            fields[name] = xp.broadcast_to(
                value, (*shape, *np.shape(value)[np.ndim(value) - event :])
            )
        return self._replace(fields)

    def __eq__(self, other: object) -> bool:
        if type(other) is not type(self):
            return False
        pairs = zip(jax.tree.leaves(self), jax.tree.leaves(other), strict=True)
        return all(np.array_equal(mine, theirs) for mine, theirs in pairs)

    def __hash__(self) -> int:
        return hash((type(self), *(np.asarray(leaf).tobytes() for leaf in jax.tree.leaves(self))))

    def _map(self, rule: Callable[..., Array], other: Self | None, *weights: Any) -> Self:
        fields = {}
        for name, event in self.natural.items():
            values = [getattr(self, name)] + ([] if other is None else [getattr(other, name)])
            extended = [xp.reshape(w, xp.shape(w) + (1,) * event) for w in weights]
            fields[name] = rule(*values, *extended)
        return self._replace(fields)

    def _replace(self, fields: dict[str, Any]) -> Self:
        """This with other arrays of float64, which need no check."""
        made = object.__new__(type(self))
        made.__dict__.update(self.__dict__, **fields)
        return made


def _compute_in_float64(cls: type[Any]) -> None:
    for name, member in list(vars(cls).items()):
        if name not in ("__add__", "__sub__") and name.startswith("_"):
            continue
        if getattr(member, "__isabstractmethod__", False):
            continue
        if isinstance(member, types.FunctionType):
            setattr(cls, name, in_float64(member))
        elif isinstance(member, classmethod):
            setattr(cls, name, classmethod(in_float64(member.__func__)))
        elif isinstance(member, property) and member.fget is not None:
            setattr(cls, name, property(in_float64(member.fget), doc=member.__doc__))


_compute_in_float64(AbstractFamily)


class AbstractInFormulas(AbstractFamily):
    """A family with special functions: it states formulas, which are evaluated alone or with those of others."""

    @abc.abstractmethod
    def log_normalizer_formula(self) -> Formula:
        """What follows from values of special functions for ``log_normalizer``."""

    @abc.abstractmethod
    def expected_stats_formula(self) -> Formula:
        """Likewise for ``expected_stats``."""

    @abc.abstractmethod
    def kl_formula(self, other: Self) -> Formula:
        """Likewise for ``kl``."""

    @final
    def log_normalizer(self) -> Array:
        value: Array = self.log_normalizer_formula().value()
        return value

    @final
    def expected_stats(self) -> Any:
        return self.expected_stats_formula().value()

    @final
    def kl(self, other: Self) -> Array:
        value: Array = self.kl_formula(other).value()
        return value


def on_one_batch(owner: str, **values: tuple[Any, int]) -> list[Any]:
    """Real arrays over their common batch shape; each value comes with its number of event axes."""
    arrays = {name: as_real(value) for name, (value, _) in values.items()}
    shapes = {name: tuple(xp.shape(array)) for name, array in arrays.items()}
    events = {name: len(shapes[name]) - event for name, (_, event) in values.items()}
    batches = [shapes[name][:start] for name, start in events.items() if start >= 0]
    try:
        batch = np.broadcast_shapes(*batches)
    except ValueError:
        batches = []
    if len(batches) < len(values):
        axes = ", ".join(f"{event} of {name}" for name, (_, event) in values.items())
        message = f"{owner}: shapes must agree before the event axes ({axes}), got {shapes}"
        raise ValueError(message)
    return [
        xp.broadcast_to(array, (*batch, *shapes[name][events[name] :]))
        for name, array in arrays.items()
    ]


def check_positive(owner: str, name: str, value: Any) -> None:
    """Raise ``ValueError`` unless all entries are positive and finite; placeholders pass."""
    if is_concrete(value) and not (np.all(np.isfinite(value)) and np.all(np.asarray(value) > 0)):
        message = f"{owner}: {name} must be positive and finite, got {value}"
        raise ValueError(message)


def check_finite(owner: str, name: str, value: Any) -> None:
    """Raise ``ValueError`` unless all entries are finite; placeholders pass."""
    if is_concrete(value) and not np.all(np.isfinite(value)):
        message = f"{owner}: {name} must be finite, got {value}"
        raise ValueError(message)


def check_positive_definite(owner: str, name: str, matrix: Any) -> None:
    """Raise ``ValueError`` unless all matrices are symmetric and positive definite."""
    if not is_concrete(matrix):
        return
    try:
        np.linalg.cholesky(matrix)
        fits = np.isfinite(matrix).all() and np.allclose(matrix, np.swapaxes(matrix, -1, -2))
    except np.linalg.LinAlgError:
        fits = False
    if not fits:
        message = f"{owner}: {name} must be symmetric and positive definite, got {matrix}"
        raise ValueError(message)


def check_held(owner: str, spread: Any, offset: Any) -> None:
    """Raise ``ValueError`` where a spread would drown in the square of an offset it is stored with."""
    if is_concrete(spread) and is_concrete(offset):
        lost = np.finfo(np.float64).eps * np.asarray(offset) > 1e-6 * np.asarray(spread)
        if np.any(lost):
            message = (
                f"{owner}: the mean is too far from 0 for natural parameters in float64 to hold the "
                "spread around it; measure the values from an origin nearer to their mean"
            )
            raise ValueError(message)


def check_size(owner: str, name: str, matrix: Any, size: int) -> None:
    """Raise ``ValueError`` unless the matrices belong to vectors of this size."""
    if xp.shape(matrix)[-2:] != (size, size):
        message = f"{owner}: {name} must be {size} x {size}, as the mean, got {xp.shape(matrix)}"
        raise ValueError(message)
