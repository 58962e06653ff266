"""Blocks: the parameters of a model, by name, with the number of rows behind each."""

from collections.abc import Callable, Iterable
from typing import Any, Self, final

import jax
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.formula import evaluated
from streambayes._core.pytree import pytree
from streambayes.families._base import AbstractFamily

__all__ = ["Blocks"]


@final
@pytree
class Blocks:
    """Natural parameters per block, and the rows each block has learned from.

    An entry is a family over an array of blocks; ``counts`` has that array's shape. Prior, message of
    a batch, tempered prior and posterior are all of this type, and counts obey the same arithmetic as
    natural parameters: a prior has none, a message brings its rows, tempering scales both alike. So
    ``counts`` of a posterior is the data it still retains.
    """

    params: dict[str, AbstractFamily]
    counts: dict[str, Array]

    @classmethod
    def of_prior(cls, params: dict[str, Any]) -> Self:
        """Blocks that have seen no rows."""
        counts = {name: xp.zeros(family.batch_shape) for name, family in params.items()}
        return cls(params=dict(params), counts=counts)

    def __add__(self, other: Self) -> Self:
        return self._map(
            lambda name: (
                self.params[name] + other.params[name],
                self.counts[name] + other.counts[name],
            )
        )

    def scaled(self, weight: Any) -> Self:
        """Parameters and counts times a scalar, or an array per block."""
        w = self._per_block(weight)
        return self._map(
            lambda name: (self.params[name].scaled(w[name]), w[name] * self.counts[name])
        )

    def lerp(self, other: Self, weight: Any) -> Self:
        """``weight`` of this and the rest of ``other``; a scalar, or an array per block."""
        w = self._per_block(weight)
        return self._map(
            lambda name: (
                self.params[name].lerp(other.params[name], w[name]),
                w[name] * self.counts[name] + (1.0 - w[name]) * other.counts[name],
            )
        )

    def select(self, condition: Any, other: Self) -> Self:
        """This where the condition holds, ``other`` elsewhere; a scalar, or an array per block."""
        chosen = self._per_block(condition)
        return self._map(
            lambda name: (
                self.params[name].select(chosen[name], other.params[name]),
                xp.where(chosen[name], self.counts[name], other.counts[name]),
            )
        )

    def replaced(self, part: Self) -> Self:
        """This with the blocks that ``part`` names taken from it."""
        return type(self)(
            params={**self.params, **part.params}, counts={**self.counts, **part.counts}
        )

    def only(self, names: Iterable[str]) -> Self:
        """The named blocks."""
        return type(self)(
            params={name: self.params[name] for name in names},
            counts={name: self.counts[name] for name in names},
        )

    def factored(self) -> Self:
        """The same, with what several functions of a block begin with computed once."""
        return self._map(lambda name: (self.params[name].factored(), self.counts[name]))

    def expectations(self) -> dict[str, Any]:
        """Expected statistics of every block: all that a model sees of what is believed."""
        formulas = [family.expected_stats_formula() for family in self.params.values()]
        return dict(zip(self.params, evaluated(formulas), strict=True))

    def log_normalizers(self) -> dict[str, Array]:
        """Log-normalizer of every block."""
        formulas = [family.log_normalizer_formula() for family in self.params.values()]
        return dict(zip(self.params, evaluated(formulas), strict=True))

    def kl(self, other: Self) -> dict[str, Array]:
        """Divergence from ``other`` per block."""
        formulas = [family.kl_formula(other.params[name]) for name, family in self.params.items()]
        return dict(zip(self.params, evaluated(formulas), strict=True))

    def is_proper(self) -> Array:
        """Whether every block lies in its domain, a scalar."""
        return xp.all(xp.stack([family.is_proper().all() for family in self.params.values()]))

    def is_finite(self) -> Array:
        """Whether every parameter is finite, a scalar."""
        return xp.all(xp.stack([xp.isfinite(x).all() for x in jax.tree.leaves(self.params)]))

    def _per_block(self, weight: Any) -> dict[str, Any]:
        if isinstance(weight, dict):
            return weight
        return dict.fromkeys(self.params, weight)

    def _map(self, rule: Callable[[str], tuple[AbstractFamily, Array]]) -> Self:
        pairs = {name: rule(name) for name in self.params}
        return type(self)(
            params={name: pair[0] for name, pair in pairs.items()},
            counts={name: pair[1] for name, pair in pairs.items()},
        )
