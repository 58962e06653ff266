"""The normal distribution of several variables."""

from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from jax import Array

from streambayes._core import linalg, numerics
from streambayes._core.arrays import xp
from streambayes._core.pytree import pytree
from streambayes.families._base import (
    AbstractFamily,
    check_finite,
    check_positive_definite,
    check_size,
    on_one_batch,
)

__all__ = ["MultivariateNormal"]


class MultivariateNormalStats(NamedTuple):
    """First two moments."""

    value: Array
    outer: Array


@final
@pytree
class MultivariateNormal(AbstractFamily):
    r"""Normal with mean $m$ and precision matrix $P$ in information form, $(Pm, -P / 2)$."""

    natural: ClassVar[dict[str, int]] = {"precision_mean": 1, "negative_half_precision": 2}

    precision_mean: Array
    negative_half_precision: Array

    @classmethod
    def from_mean_precision(cls, mean: Any, precision: Any) -> Self:
        r"""Normal with covariance the inverse of ``precision``, shapes (\*batch, d) and (\*batch, d, d)."""
        mean, precision = on_one_batch(
            "MultivariateNormal", mean=(mean, 1), precision=(precision, 2)
        )
        _check(mean, precision)
        precision = symmetric(precision)
        return cls(precision_mean=times(precision, mean), negative_half_precision=-0.5 * precision)

    @property
    def precision(self) -> Array:
        """$P$."""
        return -2.0 * self.negative_half_precision

    def mean(self) -> Array:
        """$m = P^{-1} (Pm)$."""
        return self.parts()[1]

    def covariance(self) -> Array:
        """$P^{-1}$."""
        return linalg.solve(self._factor(), xp.eye(self.precision_mean.shape[-1]))

    def rescaled(self, matrix: Any, inverse: Any, offset: Any) -> Self:
        r"""The distribution of $Tx + t$: the same belief in other units.

        Args:
            matrix: $T$, shape (\*batch, d, d).
            inverse: $T^{-1}$, which a caller often knows exactly.
            offset: $t$, shape (\*batch, d).
        """
        matrix, inverse, offset, product, precision = on_one_batch(
            "MultivariateNormal",
            matrix=(matrix, 2),
            inverse=(inverse, 2),
            offset=(offset, 1),
            precision_mean=(self.precision_mean, 1),
            precision=(self.precision, 2),
        )
        check_size("MultivariateNormal", "matrix", matrix, product.shape[-1])
        check_size("MultivariateNormal", "inverse", inverse, product.shape[-1])
        # P'm' = T^-T Pm + P't, without the mean
        product, precision = congruent(product, precision, inverse)
        _check(times(matrix, self.mean()) + offset, precision)
        return type(self)(
            precision_mean=product + times(precision, offset),
            negative_half_precision=-0.5 * precision,
        )

    def log_normalizer(self) -> Array:
        factor = self._factor()
        half = linalg.solve_lower(factor, self.precision_mean[..., None])[..., 0]
        return 0.5 * (xp.square(half).sum(-1) - linalg.log_det(factor))

    def expected_stats(self) -> MultivariateNormalStats:
        factor, mean = self.parts()
        covariance = linalg.solve(factor, xp.eye(mean.shape[-1]))
        return MultivariateNormalStats(mean, covariance + outer(mean))

    def sufficient_stats(self, x: Any) -> MultivariateNormalStats:
        return MultivariateNormalStats(xp.asarray(x), outer(xp.asarray(x)))

    def log_base_measure(self, x: Any) -> Array:
        return xp.full(
            xp.asarray(x).shape[:-1], -xp.asarray(x).shape[-1] * numerics.HALF_LOG_TWO_PI
        )

    def expected_log_base_measure(self) -> Array:
        size = self.precision_mean.shape[-1]
        return xp.full(self.batch_shape, -size * numerics.HALF_LOG_TWO_PI)

    def is_proper(self) -> Array:
        return linalg.is_positive_definite(self.precision)

    def kl(self, other: Self) -> Array:
        factor, mean = self.parts()
        other_factor, other_mean = other.parts()
        distance = linalg.square_norm(mean - other_mean, other_factor)
        gap = other.precision - self.precision
        return 0.5 * (matrix_excess(factor, gap, other_factor) + distance)

    def factored(self) -> Self:
        return self._keeping(self._factor())

    def entropy(self) -> Array:
        size = self.precision_mean.shape[-1]
        return size * (numerics.HALF_LOG_TWO_PI + 0.5) - 0.5 * linalg.log_det(self._factor())

    def log_prob(self, x: Any) -> Array:
        factor, mean = self.parts()
        distance = linalg.square_norm(xp.asarray(x) - mean, factor)
        return 0.5 * (linalg.log_det(factor) - distance) + self.log_base_measure(x)

    def sample(self, rng: np.random.Generator, num_samples: int) -> Array:
        noise = rng.standard_normal((num_samples, *self.precision_mean.shape))
        # P = L L^T: x = m + L^-T e has covariance P^-1
        factor, mean = self.parts()
        return mean + linalg.solve_lower_transposed(factor, noise[..., None])[..., 0]

    def parts(self) -> tuple[linalg.Factor, Array]:
        """The factor and the mean: one factor serves, since XLA would form as many as are written."""
        factor = self._factor()
        return factor, linalg.solve(factor, self.precision_mean[..., None])[..., 0]

    def _factor(self) -> linalg.Factor:
        factor: linalg.Factor = self._kept() or linalg.cholesky(self.precision)
        return factor


def _check(mean: Any, precision: Any) -> None:
    check_finite("MultivariateNormal", "mean", mean)
    check_positive_definite("MultivariateNormal", "precision", precision)
    check_size("MultivariateNormal", "precision", precision, mean.shape[-1])


def outer(vector: Array) -> Array:
    r"""$v v^\top$."""
    return vector[..., :, None] * vector[..., None, :]


def symmetric(matrix: Array) -> Array:
    """The matrix without what rounding leaves of asymmetry."""
    return 0.5 * (matrix + xp.swapaxes(matrix, -1, -2))


def times(matrix: Array, vector: Array) -> Array:
    """$Mv$."""
    return (matrix * vector[..., None, :]).sum(-1)


def congruent(vector: Array, matrix: Array, basis: Array) -> tuple[Array, Array]:
    r"""$A^\top v$ and $A^\top M A$ for the matrix $A$ and a symmetric $M$."""
    turned = xp.swapaxes(basis, -1, -2)
    return times(turned, vector), symmetric(turned @ matrix @ basis)


def matrix_excess(factor: linalg.Factor, gap: Array, other: linalg.Factor) -> Array:
    r"""$\mathrm{tr}(M) - d - \ln|M| \ge 0$ for $M = L^{-1} Q L^{-\top}$, $Q = RR^\top$.

    Args:
        factor: $L$.
        gap: $Q - LL^\top$, whitened instead of $Q$ so that close matrices keep their digits.
        other: $R$.
    """
    half = linalg.solve_lower(factor, gap)
    white = linalg.solve_lower(factor, xp.swapaxes(half, -1, -2))
    trace = xp.square(linalg.solve_lower(factor, other.lower)).sum((-1, -2))
    return identity_excess(white, trace, linalg.log_det(other) - linalg.log_det(factor))


def identity_excess(white: Array, trace: Array, log_det: Array) -> Array:
    r"""$\mathrm{tr}(M) - d - \ln|M| \ge 0$ from $M - I$ where that is small, else from the other two."""
    size = white.shape[-1]
    near = xp.abs(white).max((-1, -2)) < 0.25
    white = xp.where(near[..., None, None], white, 0.0)
    root = linalg.lower(white + xp.eye(size))
    # the pivots of I + E, as 1 + e_j: sum of e_j - ln(1 + e_j) plus what the off-diagonal takes away
    below = xp.square(xp.tril(root, -1)).sum(-1)
    pivots = xp.diagonal(white, axis1=-2, axis2=-1) - below
    return xp.where(near, (numerics.excess(pivots) + below).sum(-1), trace - size - log_det)
