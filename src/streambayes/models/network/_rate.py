"""Factors with one rate per configuration: counts and waiting times."""

import abc
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
    AbstractPredictive,
    Gamma,
    GammaMarginal,
    Lomax,
    NegativeBinomial,
)
from streambayes.models._base import Section
from streambayes.models.network._factor import AbstractTotals, ByName, Moments, Units

__all__ = ["ExponentialFactor", "PoissonFactor"]


class RateSums(NamedTuple):
    """Rows and sums of their values in the shape of the blocks; what does not depend on the rate."""

    num_rows: Array
    total: Array
    constant: Array


class AbstractRate(AbstractTotals):
    r"""One rate $r \sim \mathrm{Gamma}(1, 1)$ for each variable and configuration."""

    @abc.abstractmethod
    def log_base(self, values: Array) -> Array:
        """Log-density of values apart from the rate."""

    @abc.abstractmethod
    def predictive_of(self, rate: Gamma) -> AbstractPredictive:
        """The predictive distribution of a new value."""

    @abc.abstractmethod
    def draw_values(self, rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
        """Values of given rates."""

    @final
    def prior(self) -> dict[str, AbstractFamily]:
        return {self.entry: Gamma.from_shape_rate(np.ones(self.shape), np.ones(self.shape))}

    @final
    def labels(self) -> dict[str, np.ndarray]:
        return {self.entry: self.text("{}")}

    @final
    def rows(self, moments: Moments, weights: ByName) -> tuple[Array, ...]:
        values, present = self.stacked(moments.means), self.stacked(weights)
        return present, present * values, present * self.log_base(values)

    @final
    def packed(self, totals: Array) -> RateSums:
        rows, total, base = jnp.split(totals, 3, axis=-1)
        return RateSums(rows.reshape(self.shape), total.reshape(self.shape), base.sum())

    @final
    def counts(self, sums: RateSums) -> dict[str, Array]:
        return {self.entry: sums.num_rows}

    @final
    def log_predictive(self, belief: AbstractBelief, moments: Moments, observed: ByName) -> Array:
        values = self.against_blocks(self.stacked(moments.means))
        density = belief.log_mean(
            self.entry, lambda family: self.predictive_of(family).log_prob(values)
        )
        return self.over_names(density, observed)

    @final
    def predictive(
        self, belief: AbstractBelief, moments: Moments, observed: ByName, name: str
    ) -> Any:
        del observed

        def one(family: Gamma) -> AbstractMarginal:
            return self.predictive_of(family.broadcast_to((moments.num_rows, *self.shape)))

        return self.of_name(belief.predictive(self.entry, one), name)

    @final
    def shown(self, parameters: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
        return [(parameters[self.entry],)]

    @final
    def draw(
        self,
        rng: np.random.Generator,
        parameters: Mapping[str, Any],
        values: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        return self.by_name(self.draw_values(rng, self.of_rows(parameters[self.entry], values)))


@final
class PoissonFactor(AbstractRate):
    r"""$p(x \mid c) = r_c^x e^{-r_c} / x!$."""

    def log_density(self, expectations: Mapping[str, Any], sums: RateSums) -> Array:
        log_rate, rate = expectations[self.entry]
        density: Array = (sums.total * log_rate - sums.num_rows * rate).sum() + sums.constant
        return density

    def log_base(self, values: Array) -> Array:
        return -gammaln(values + 1.0)

    def predictive_of(self, rate: Gamma) -> AbstractPredictive:
        return NegativeBinomial(rate)

    def draw_values(self, rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
        counts: np.ndarray = rng.poisson(rate).astype(float)
        return counts

    def marginals(self, belief: AbstractBelief, units: Units) -> list[Section]:
        del units
        return [(self.parameters(self.text("rate of {}"), belief, GammaMarginal),)]


@final
class ExponentialFactor(AbstractRate):
    r"""$p(x \mid c) = r_c e^{-r_c x}$, $x \ge 0$."""

    def log_density(self, expectations: Mapping[str, Any], sums: RateSums) -> Array:
        log_rate, rate = expectations[self.entry]
        density: Array = (sums.num_rows * log_rate - sums.total * rate).sum()
        return density

    def log_base(self, values: Array) -> Array:
        return jnp.zeros_like(values)

    def predictive_of(self, rate: Gamma) -> AbstractPredictive:
        return Lomax(rate)

    def draw_values(self, rng: np.random.Generator, rate: np.ndarray) -> np.ndarray:
        times: np.ndarray = rng.standard_exponential(rate.shape) / rate
        return times

    def in_units(self, entry: str, family: Any, units: Units) -> Any:
        del entry
        _, factor = self.own_units(units)
        return Gamma.from_shape_rate(family.shape, family.rate * factor)

    def from_units(self, entry: str, family: Any, units: Units) -> Any:
        del entry
        _, factor = self.own_units(units)
        return Gamma.from_shape_rate(family.shape, family.rate / factor)

    def marginals(self, belief: AbstractBelief, units: Units) -> list[Section]:
        _, factor = self.own_units(units)

        def rate(family: Gamma) -> AbstractMarginal:
            return GammaMarginal(Gamma(family.shape_minus_one, family.negative_rate * factor))

        return [(self.parameters(self.text("rate of {}"), belief, rate),)]
