"""The joint distribution of a regression's coefficients and the precision of its noise."""

from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from jax import Array

from streambayes._core import linalg, numerics
from streambayes._core.arrays import xp
from streambayes._core.formula import Formula
from streambayes._core.pytree import pytree
from streambayes.families._base import (
    AbstractInFormulas,
    check_finite,
    check_held,
    check_positive,
    check_positive_definite,
    check_size,
    on_one_batch,
)
from streambayes.families._gamma import Gamma, GammaStats
from streambayes.families._multivariate_normal import (
    congruent,
    matrix_excess,
    outer,
    symmetric,
    times,
)
from streambayes.families._normal_gamma import MeanPrecision

__all__ = ["MultivariateNormalGamma"]


class MultivariateNormalGammaStats(NamedTuple):
    r"""What is expected of $\tau b$, $\tau b b^\top$, $\tau$ and $\ln\tau$."""

    precision_mean: Array
    precision_outer: Array
    precision: Array
    log_precision: Array


@final
@pytree
class MultivariateNormalGamma(AbstractInFormulas):
    r"""$\tau \sim \mathrm{Gamma}(a, r)$, $b \mid \tau \sim N(m, (\tau K)^{-1})$, $b$ of size $p$.

    Natural parameters $(Km, -K / 2, -r - m^\top K m / 2, a - 1 + p / 2)$.
    """

    natural: ClassVar[dict[str, int]] = {
        "scaled_mean": 1,
        "negative_half_scale": 2,
        "negative_rate": 0,
        "shape_plus_half_size_minus_one": 0,
    }

    scaled_mean: Array
    negative_half_scale: Array
    negative_rate: Array
    shape_plus_half_size_minus_one: Array

    @classmethod
    def from_shape_rate_mean_scale(cls, shape: Any, rate: Any, mean: Any, scale: Any) -> Self:
        r"""Gamma(shape, rate) over the precision; ``scale`` is $K$, the sum of $xx^\top$ over pseudo-rows."""
        shape, rate, mean, scale = on_one_batch(
            "MultivariateNormalGamma",
            shape=(shape, 0),
            rate=(rate, 0),
            mean=(mean, 1),
            scale=(scale, 2),
        )
        _check(shape, rate, mean, scale)
        scale = symmetric(scale)
        product = times(scale, mean)
        return cls(
            scaled_mean=product,
            negative_half_scale=-0.5 * scale,
            negative_rate=-rate - 0.5 * (mean * product).sum(-1),
            shape_plus_half_size_minus_one=shape + (0.5 * mean.shape[-1] - 1.0),
        )

    @property
    def scale(self) -> Array:
        r"""$K$, shape (\*batch, p, p)."""
        return -2.0 * self.negative_half_scale

    @property
    def location(self) -> Array:
        r"""$m = K^{-1} (Km)$, shape (\*batch, p)."""
        return self._parts().location

    @property
    def precision(self) -> Gamma:
        """The marginal of the precision."""
        return self._parts().precision

    def rescaled(self, matrix: Any, inverse: Any, offset: Any, factor: Any) -> Self:
        r"""The distribution of $(Tb + t, \tau / f^2)$: the same belief in other units.

        Args:
            matrix: $T$, shape (\*batch, p, p).
            inverse: $T^{-1}$, which a caller often knows exactly.
            offset: $t$, shape (\*batch, p).
            factor: $f$.
        """
        matrix, inverse, offset, factor, product, scale, negative_rate, power = on_one_batch(
            "MultivariateNormalGamma",
            matrix=(matrix, 2),
            inverse=(inverse, 2),
            offset=(offset, 1),
            factor=(factor, 0),
            scaled_mean=(self.scaled_mean, 1),
            scale=(self.scale, 2),
            negative_rate=(self.negative_rate, 0),
            shape_plus_half_size_minus_one=(self.shape_plus_half_size_minus_one, 0),
        )
        check_size("MultivariateNormalGamma", "matrix", matrix, product.shape[-1])
        check_size("MultivariateNormalGamma", "inverse", inverse, product.shape[-1])
        # K'm' = v + K't and m'K'm' = f^2 mKm + t(v + K'm') with v = f^2 T^-T Km: neither m nor r is needed
        product, scale = congruent(
            factor[..., None] * product, scale, factor[..., None, None] * inverse
        )
        square, moved = xp.square(factor), product + times(scale, offset)
        gamma, mean = self.precision, times(matrix, self.location) + offset
        _check(gamma.shape, square * gamma.rate, mean, scale)
        return type(self)(
            scaled_mean=moved,
            negative_half_scale=-0.5 * scale,
            negative_rate=square * negative_rate - 0.5 * (offset * (product + moved)).sum(-1),
            shape_plus_half_size_minus_one=power,
        )

    def log_normalizer_formula(self) -> Formula:
        factor, _, gamma = self._parts()
        spread = 0.5 * linalg.log_det(factor)
        return gamma.log_normalizer_formula().then(lambda value: value - spread)

    def expected_stats_formula(self) -> Formula:
        factor, mean, gamma = self._parts()
        covariance = linalg.solve(factor, xp.eye(mean.shape[-1]))

        def answer(stats: GammaStats) -> MultivariateNormalGammaStats:
            log_precision, precision = stats
            return MultivariateNormalGammaStats(
                precision[..., None] * mean,
                precision[..., None, None] * outer(mean) + covariance,
                precision,
                log_precision,
            )

        return gamma.expected_stats_formula().then(answer)

    def sufficient_stats(self, x: MeanPrecision) -> MultivariateNormalGammaStats:
        mean, precision = xp.asarray(x.mean), xp.asarray(x.precision)
        return MultivariateNormalGammaStats(
            precision[..., None] * mean,
            precision[..., None, None] * outer(mean),
            precision,
            xp.log(precision),
        )

    def log_base_measure(self, x: MeanPrecision) -> Array:
        # tau^(a - 1) and |tau K|^(1/2): all powers of the precision are natural
        *batch, size = xp.shape(x.mean)
        return xp.full(batch, -size * numerics.HALF_LOG_TWO_PI)

    def expected_log_base_measure(self) -> Array:
        size = self.scaled_mean.shape[-1]
        return xp.full(self.batch_shape, -size * numerics.HALF_LOG_TWO_PI)

    def is_proper(self) -> Array:
        return linalg.is_positive_definite(self.scale) & self.precision.is_proper()

    def kl_formula(self, other: Self) -> Formula:
        factor, location, gamma = self._parts()
        other_factor, other_location, other_gamma = other._parts()
        spread = matrix_excess(factor, other.scale - self.scale, other_factor)
        distance = gamma.mean() * linalg.square_norm(location - other_location, other_factor)
        return gamma.kl_formula(other_gamma).then(
            lambda precisions: precisions + 0.5 * (spread + distance)
        )

    def factored(self) -> Self:
        return self._keeping(self._parts())

    def entropy(self) -> Array:
        factor, _, gamma = self._parts()
        size = self.scaled_mean.shape[-1]
        log_precision: Array = gamma.expected_stats().log_value
        log_det = linalg.log_det(factor) + size * log_precision
        return gamma.entropy() + size * (numerics.HALF_LOG_TWO_PI + 0.5) - 0.5 * log_det

    def log_prob(self, x: MeanPrecision) -> Array:
        mean, precision = xp.asarray(x.mean), xp.asarray(x.precision)
        factor, location, gamma = self._parts()
        log_det = linalg.log_det(factor) + mean.shape[-1] * xp.log(precision)
        distance = precision * linalg.square_norm(mean - location, factor)
        conditional = 0.5 * (log_det - distance) + self.log_base_measure(x)
        return gamma.log_prob(precision) + conditional

    def sample(self, rng: np.random.Generator, num_samples: int) -> MeanPrecision:
        factor, location, gamma = self._parts()
        precision = gamma.sample(rng, num_samples)
        noise = rng.standard_normal((num_samples, *self.scaled_mean.shape))
        # K = L L^T: L^-T e has covariance K^-1
        spread = linalg.solve_lower_transposed(factor, noise[..., None])[..., 0]
        return MeanPrecision(location + spread / xp.sqrt(precision)[..., None], precision)

    def _parts(self) -> "_Parts":
        """What all else follows from: one factor serves, since XLA would form as many as are written."""
        kept: _Parts | None = self._kept()
        if kept is not None:
            return kept
        factor, size = linalg.cholesky(self.scale), self.scaled_mean.shape[-1]
        half = linalg.solve_lower(factor, self.scaled_mean[..., None])
        gamma = Gamma(
            shape_minus_one=self.shape_plus_half_size_minus_one - 0.5 * size,
            negative_rate=self.negative_rate + 0.5 * xp.square(half[..., 0]).sum(-1),
        )
        return _Parts(factor, linalg.solve_lower_transposed(factor, half)[..., 0], gamma)


class _Parts(NamedTuple):
    factor: linalg.Factor
    location: Array
    precision: Gamma


def _check(shape: Any, rate: Any, mean: Any, scale: Any) -> None:
    check_positive("MultivariateNormalGamma", "shape", shape)
    check_positive("MultivariateNormalGamma", "rate", rate)
    check_finite("MultivariateNormalGamma", "mean", mean)
    check_positive_definite("MultivariateNormalGamma", "scale", scale)
    check_size("MultivariateNormalGamma", "scale", scale, mean.shape[-1])
    # what rounding makes of m'Km is of the size of its terms, however much of them cancels
    far = xp.abs(mean)
    check_held("MultivariateNormalGamma", rate, 0.5 * (far * times(xp.abs(scale), far)).sum(-1))
