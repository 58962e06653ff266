"""The factor of normal variables without continuous parents: a mean and a precision."""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.numerics import HALF_LOG_TWO_PI
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
    NormalGamma,
    SpreadMarginal,
    StudentMarginal,
)
from streambayes.models._base import Section
from streambayes.models.network._factor import AbstractTotals, ByName, Moments, Units
from streambayes.models.network._smooth import along_line, is_short

__all__ = ["NormalFactor"]


class NormalSums(NamedTuple):
    """Rows, sums and sums of squares in the shape of the blocks."""

    num_rows: Array
    total: Array
    squares: Array


@final
class NormalFactor(AbstractTotals):
    r"""$x \mid c \sim N(\mu_c, 1 / \tau_c)$, $(\mu_c, \tau_c) \sim \mathrm{NormalGamma}(1, 1, 0, 1)$."""

    def prior(self) -> dict[str, AbstractFamily]:
        one = NormalGamma.from_shape_rate_mean_scale(1.0, self.left_over, 0.0, self.left_over)
        return {self.entry: one.broadcast_to(self.shape)}

    def labels(self) -> dict[str, np.ndarray]:
        return {self.entry: self.text("{}")}

    def rows(self, moments: Moments, weights: ByName) -> tuple[Array, ...]:
        present = weights.of(self.names)  # a row counts once where it counts for all names
        means, squares = self.stacked(moments.means), moments.squares_of(self.names)
        return present * means, present * squares, present

    @property
    def powers(self) -> list[tuple[str | None, int]]:
        firsts: list[tuple[str | None, int]] = [(name, 1) for name in self.names]
        return [*firsts, *((name, 2) for name in self.names), (None, 0)]

    def packed(self, totals: Array) -> NormalSums:
        size = len(self.names)
        wide = (*self.configurations, size)
        total, squares, num_rows = jnp.split(totals, [size, 2 * size], axis=-1)
        num_rows = jnp.broadcast_to(num_rows, wide)
        return NormalSums(*(part.reshape(self.shape) for part in (num_rows, total, squares)))

    def log_density(self, expectations: Mapping[str, Any], sums: NormalSums) -> Array:
        precision_mean, precision_mean_square, precision, log_precision = expectations[self.entry]
        per_row = 0.5 * (log_precision - precision_mean_square) - HALF_LOG_TWO_PI
        fit = precision_mean * sums.total - 0.5 * precision * sums.squares
        density: Array = (sums.num_rows * per_row + fit).sum()
        return density

    def counts(self, sums: NormalSums) -> dict[str, Array]:
        return {self.entry: sums.num_rows}

    def log_predictive(self, belief: AbstractBelief, moments: Moments, observed: ByName) -> Array:
        values = self.against_blocks(self.stacked(moments.means))

        def exact(values: Array) -> Array:
            return belief.log_mean(self.entry, lambda family: family.log_predictive(values))

        if is_short(belief, moments):
            return self.over_names(exact(values), observed)
        one: Any = belief.summary().params[self.entry]
        gamma = one.precision
        density = along_line(
            exact,
            values,
            self.against_blocks(self.stacked(observed)),
            one.location,
            jnp.sqrt(gamma.rate / gamma.shape),
        )
        return self.over_names(density, observed)

    def predictive(
        self, belief: AbstractBelief, moments: Moments, observed: ByName, name: str
    ) -> Any:
        del observed

        def one(family: NormalGamma) -> AbstractMarginal:
            each = family.broadcast_to((moments.num_rows, *self.shape))
            gamma = each.precision
            spread = jnp.sqrt(gamma.rate / gamma.shape * (1.0 + 1.0 / each.scale))
            return StudentMarginal(2.0 * gamma.shape, each.location, spread)

        return self.of_name(belief.predictive(self.entry, one), name)

    def in_units(self, entry: str, family: Any, units: Units) -> Any:
        del entry
        return family.rescaled(*self.own_units(units))

    def from_units(self, entry: str, family: Any, units: Units) -> Any:
        del entry
        shift, factor = self.own_units(units)
        return family.rescaled(-shift / factor, 1.0 / factor)

    def marginals(self, belief: AbstractBelief, units: Units) -> list[Section]:
        shift, factor = self.own_units(units)

        # moved to the user's units here: natural parameters there would lose digits far from 0
        def mean(family: NormalGamma) -> AbstractMarginal:
            gamma = family.precision
            spread = xp.sqrt(gamma.rate / (gamma.shape * family.scale))
            return StudentMarginal(2.0 * gamma.shape, family.location, spread).moved(shift, factor)

        def spread(family: NormalGamma) -> AbstractMarginal:
            return SpreadMarginal.of(family.precision).in_unit(factor)

        return [
            (
                self.parameters(self.text("mean of {}", "median of {}"), belief, mean),
                self.parameters(
                    self.text("standard deviation of {}", "geometric standard deviation of {}"),
                    belief,
                    spread,
                ),
            )
        ]

    def shown(self, parameters: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
        mean, precision = parameters[self.entry]
        return [self.told(mean, 1.0 / np.sqrt(precision))]

    def draw(
        self,
        rng: np.random.Generator,
        parameters: Mapping[str, Any],
        values: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        mean, precision = self.of_rows(parameters[self.entry], values)
        return self.by_name(mean + rng.standard_normal(mean.shape) / np.sqrt(precision))
