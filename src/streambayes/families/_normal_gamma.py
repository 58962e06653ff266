"""The joint distribution of a normal's mean and precision."""

from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from jax import Array

from streambayes._core import numerics
from streambayes._core.arrays import xp
from streambayes._core.formula import Formula
from streambayes._core.pytree import pytree
from streambayes.families._base import (
    AbstractInFormulas,
    check_finite,
    check_held,
    check_positive,
    on_one_batch,
)
from streambayes.families._gamma import Gamma, GammaStats

__all__ = ["MeanPrecision", "NormalGamma"]


class MeanPrecision(NamedTuple):
    """One point of the distribution."""

    mean: Array
    precision: Array


class NormalGammaStats(NamedTuple):
    r"""What is expected of $\mu\tau$, $\mu^2\tau$, $\tau$ and $\ln\tau$."""

    precision_mean: Array
    precision_mean_square: Array
    precision: Array
    log_precision: Array


@final
@pytree
class NormalGamma(AbstractInFormulas):
    r"""$\tau \sim \mathrm{Gamma}(a, b)$, $\mu \mid \tau \sim N(m, 1 / \kappa\tau)$.

    Natural parameters $(\kappa m, -\kappa / 2, -b - \kappa m^2 / 2, a - 1/2)$.
    """

    natural: ClassVar[dict[str, int]] = {
        "scaled_mean": 0,
        "negative_half_scale": 0,
        "negative_rate": 0,
        "shape_minus_half": 0,
    }

    scaled_mean: Array
    negative_half_scale: Array
    negative_rate: Array
    shape_minus_half: Array

    @classmethod
    def from_shape_rate_mean_scale(cls, shape: Any, rate: Any, mean: Any, scale: Any) -> Self:
        r"""Gamma(shape, rate) over the precision; ``scale`` is $\kappa$, the mean's pseudo-rows."""
        shape, rate, mean, scale = on_one_batch(
            "NormalGamma", shape=(shape, 0), rate=(rate, 0), mean=(mean, 0), scale=(scale, 0)
        )
        check_positive("NormalGamma", "shape", shape)
        check_positive("NormalGamma", "rate", rate)
        check_finite("NormalGamma", "mean", mean)
        check_positive("NormalGamma", "scale", scale)
        check_held("NormalGamma", rate, 0.5 * scale * mean**2)
        return cls(scale * mean, -0.5 * scale, -rate - 0.5 * scale * mean**2, shape - 0.5)

    @property
    def scale(self) -> Array:
        r"""$\kappa$."""
        return -2.0 * self.negative_half_scale

    @property
    def location(self) -> Array:
        """$m$."""
        return self.scaled_mean / self.scale

    @property
    def precision(self) -> Gamma:
        """The marginal of the precision."""
        rate = -self.negative_rate - 0.5 * self.scaled_mean * self.location
        return Gamma(shape_minus_one=self.shape_minus_half - 0.5, negative_rate=-rate)

    def rescaled(self, shift: Any, factor: Any) -> Self:
        r"""The distribution of $(s + f\mu, \tau / f^2)$: the same belief in other units."""
        gamma = self.precision
        return type(self).from_shape_rate_mean_scale(
            gamma.shape, gamma.rate * factor**2, shift + factor * self.location, self.scale
        )

    def log_normalizer_formula(self) -> Formula:
        spread = 0.5 * xp.log(self.scale)
        return self.precision.log_normalizer_formula().then(lambda value: value - spread)

    def expected_stats_formula(self) -> Formula:
        mean, scale = self.location, self.scale

        def answer(stats: GammaStats) -> NormalGammaStats:
            log_precision, precision = stats
            return NormalGammaStats(
                mean * precision, mean**2 * precision + 1.0 / scale, precision, log_precision
            )

        return self.precision.expected_stats_formula().then(answer)

    def sufficient_stats(self, x: MeanPrecision) -> NormalGammaStats:
        mean, precision = x
        return NormalGammaStats(
            mean * precision, mean**2 * precision, xp.asarray(precision), xp.log(precision)
        )

    def log_base_measure(self, x: MeanPrecision) -> Array:
        return xp.full(xp.asarray(x.mean).shape, -numerics.HALF_LOG_TWO_PI)

    def expected_log_base_measure(self) -> Array:
        return xp.full(self.batch_shape, -numerics.HALF_LOG_TWO_PI)

    def is_proper(self) -> Array:
        return (self.scale > 0) & self.precision.is_proper()

    def kl_formula(self, other: Self) -> Formula:
        gamma = self.precision
        distance = other.scale * gamma.mean() * xp.square(self.location - other.location)
        return gamma.kl_formula(other.precision).beside(
            numerics.ratio_excess(self.scale, other.scale),
            lambda precisions, spread: precisions + 0.5 * (spread + distance),
        )

    def entropy(self) -> Array:
        gamma = self.precision
        log_precision: Array = gamma.expected_stats().log_value
        conditional = 0.5 - 0.5 * (xp.log(self.scale) + log_precision)
        return gamma.entropy() + numerics.HALF_LOG_TWO_PI + conditional

    def log_prob(self, x: MeanPrecision) -> Array:
        mean, precision = x
        scaled = self.scale * precision
        distance = scaled * xp.square(mean - self.location)
        conditional = 0.5 * (xp.log(scaled) - distance) - numerics.HALF_LOG_TWO_PI
        return self.precision.log_prob(precision) + conditional

    def log_predictive(self, x: Any) -> Array:
        r"""Log density of a new row: Student-t, $2a$ degrees of freedom, scale $b (\kappa + 1) / a\kappa$."""
        gamma = self.precision
        spread = 2.0 * gamma.rate * (1.0 + 1.0 / self.scale)
        distance = xp.square(xp.asarray(x) - self.location) / spread
        constant = numerics.log_gamma_half_step(gamma.shape) - 0.5 * xp.log(xp.pi * spread)
        return constant - (gamma.shape + 0.5) * xp.log1p(distance)

    def sample(self, rng: np.random.Generator, num_samples: int) -> MeanPrecision:
        precision = self.precision.sample(rng, num_samples)
        noise = rng.standard_normal(xp.shape(precision))
        return MeanPrecision(self.location + noise / xp.sqrt(self.scale * precision), precision)
