"""The joint distribution of a multivariate normal's mean and precision matrix."""

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
from streambayes.families._multivariate_normal import (
    identity_excess,
    matrix_excess,
    outer,
    symmetric,
)
from streambayes.families._normal_gamma import MeanPrecision

__all__ = ["NormalWishart"]


class NormalWishartStats(NamedTuple):
    r"""What is expected of $\Lambda\mu$, $\mu^\top\Lambda\mu$, $\Lambda$ and $\ln|\Lambda|$."""

    precision_mean: Array
    precision_mean_square: Array
    precision: Array
    log_det_precision: Array


@final
@pytree
class NormalWishart(AbstractInFormulas):
    r"""$\Lambda \sim \mathrm{Wishart}(\nu, V^{-1})$, $\mu \mid \Lambda \sim N(m, (\kappa\Lambda)^{-1})$.

    $V$ is the inverse scale matrix, $E[\Lambda] = \nu V^{-1}$. Natural parameters
    $(\kappa m, -\kappa / 2, -(V + \kappa m m^\top) / 2, (\nu - d) / 2)$.
    """

    natural: ClassVar[dict[str, int]] = {
        "scaled_mean": 1,
        "negative_half_scale": 0,
        "negative_half_scatter": 2,
        "half_excess_degrees": 0,
    }

    scaled_mean: Array
    negative_half_scale: Array
    negative_half_scatter: Array
    half_excess_degrees: Array

    @classmethod
    def from_degrees_scatter_mean_scale(
        cls, degrees: Any, scatter: Any, mean: Any, scale: Any
    ) -> Self:
        r"""Wishart with ``degrees`` $> d - 1$ and inverse scale ``scatter`` $V$; ``scale`` is $\kappa$."""
        degrees, scatter, mean, scale = on_one_batch(
            "NormalWishart",
            degrees=(degrees, 0),
            scatter=(scatter, 2),
            mean=(mean, 1),
            scale=(scale, 0),
        )
        size = mean.shape[-1]
        check_positive("NormalWishart", f"degrees less {size - 1}", degrees - (size - 1))
        check_positive_definite("NormalWishart", "scatter", scatter)
        check_finite("NormalWishart", "mean", mean)
        check_positive("NormalWishart", "scale", scale)
        check_size("NormalWishart", "scatter", scatter, size)
        scatter = symmetric(scatter)
        diagonal = xp.diagonal(scatter, axis1=-2, axis2=-1)
        check_held("NormalWishart", diagonal, scale[..., None] * xp.square(mean))
        return cls(
            scaled_mean=scale[..., None] * mean,
            negative_half_scale=-0.5 * scale,
            negative_half_scatter=-0.5 * (scatter + scale[..., None, None] * outer(mean)),
            half_excess_degrees=0.5 * (degrees - size),
        )

    @property
    def scale(self) -> Array:
        r"""$\kappa$."""
        return -2.0 * self.negative_half_scale

    @property
    def location(self) -> Array:
        r"""$m$, shape (\*batch, d)."""
        return self.scaled_mean / self.scale[..., None]

    @property
    def degrees(self) -> Array:
        r"""$\nu$."""
        return 2.0 * self.half_excess_degrees + self.scaled_mean.shape[-1]

    @property
    def scatter(self) -> Array:
        r"""$V$, shape (\*batch, d, d)."""
        mean = self.location
        return (
            -2.0 * self.negative_half_scatter - mean[..., :, None] * self.scaled_mean[..., None, :]
        )

    def rescaled(self, shift: Any, factor: Any) -> Self:
        r"""The belief about $s + f \odot \mu$ in the units of the vector ``factor``."""
        scatter = self.scatter * outer(xp.broadcast_to(factor, self.scaled_mean.shape))
        location = shift + factor * self.location
        return type(self).from_degrees_scatter_mean_scale(
            self.degrees, scatter, location, self.scale
        )

    def log_normalizer_formula(self) -> Formula:
        size = self.scaled_mean.shape[-1]
        log_det = linalg.log_det(self._factor())
        spread = 0.5 * self.degrees * (size * xp.log(2.0) - log_det)

        def answer(each: Array) -> Array:
            gammas = each.sum(-1) + 0.25 * size * (size - 1) * xp.log(xp.pi)
            return gammas + spread - 0.5 * size * xp.log(self.scale)

        return Formula.of(xp.gammaln, self._half_degrees()).then(answer)

    def expected_stats_formula(self) -> Formula:
        size = self.scaled_mean.shape[-1]
        factor = self._factor()
        mean = self.location
        precision = self.degrees[..., None, None] * linalg.solve(factor, xp.eye(size))
        weighted = (precision * mean[..., None, :]).sum(-1)

        def answer(each: Array) -> NormalWishartStats:
            log_det = each.sum(-1) + size * xp.log(2.0)
            return NormalWishartStats(
                weighted,
                (mean * weighted).sum(-1) + size / self.scale,
                precision,
                log_det - linalg.log_det(factor),
            )

        return Formula.of(xp.digamma, self._half_degrees()).then(answer)

    def sufficient_stats(self, x: MeanPrecision) -> NormalWishartStats:
        mean, precision = x
        weighted = (precision * mean[..., None, :]).sum(-1)
        log_det = linalg.log_det(linalg.cholesky(precision))
        return NormalWishartStats(weighted, (mean * weighted).sum(-1), precision, log_det)

    def log_base_measure(self, x: MeanPrecision) -> Array:
        # |Lambda|^((nu - d - 1) / 2) and |kappa Lambda|^(1/2): all powers of the determinant are natural
        size = self.scaled_mean.shape[-1]
        return xp.full(xp.asarray(x.mean).shape[:-1], -size * numerics.HALF_LOG_TWO_PI)

    def expected_log_base_measure(self) -> Array:
        size = self.scaled_mean.shape[-1]
        return xp.full(self.batch_shape, -size * numerics.HALF_LOG_TWO_PI)

    def is_proper(self) -> Array:
        enough = self.degrees > self.scaled_mean.shape[-1] - 1
        return (self.scale > 0) & enough & linalg.is_positive_definite(self.scatter)

    def kl_formula(self, other: Self) -> Formula:
        size = self.scaled_mean.shape[-1]
        factor, other_factor = self._factor(), other._factor()
        # E[Lambda] against E'[Lambda], M = (nu / nu') V^-1 V'; M - I from differences alone
        ratio = (self.degrees / other.degrees)[..., None, None]
        fewer = ((self.degrees - other.degrees) / other.degrees)[..., None, None]
        gap = other.scatter - self.scatter + fewer * other.scatter
        means = (
            0.5 * other.degrees * matrix_excess(factor, gap, other_factor.scaled(xp.sqrt(ratio)))
        )
        halves, other_halves = self._half_degrees(), other._half_degrees()
        drop = numerics.deviance_drop(other_halves, halves, 0.5 * xp.arange(size))
        shapes = numerics.ratio_excess(halves, other_halves).beside(
            numerics.stirling_bregman(halves, other_halves),
            lambda ratios, errors: (0.5 * ratios + errors + drop).sum(-1),
        )
        white = linalg.solve_lower(factor, (self.location - other.location)[..., None])[..., 0]
        distance = other.scale * self.degrees * xp.square(white).sum(-1)
        return shapes.beside(
            numerics.ratio_excess(self.scale, other.scale),
            lambda degrees, spread: means + degrees + 0.5 * (size * spread + distance),
        )

    def factored(self) -> Self:
        return self._keeping(self._factor())

    def entropy(self) -> Array:
        size = self.scaled_mean.shape[-1]
        halves = self._half_degrees()
        order = xp.arange(size)
        log_det = linalg.log_det(self._factor())
        gammas = numerics.gamma_entropy(halves) + 0.5 * (
            (size - 1 - order) * xp.digamma(halves) + order
        )
        wishart = (
            gammas.sum(-1)
            + 0.25 * size * (size - 1) * xp.log(xp.pi)
            + 0.5 * (size + 1) * (size * xp.log(2.0) - log_det)
        )
        expected_log_det = xp.digamma(halves).sum(-1) + size * xp.log(2.0) - log_det
        normal = size * (numerics.HALF_LOG_TWO_PI + 0.5 - 0.5 * xp.log(self.scale))
        return wishart + normal - 0.5 * expected_log_det

    def log_prob(self, x: MeanPrecision) -> Array:
        mean, precision = xp.asarray(x.mean), xp.asarray(x.precision)
        size = self.scaled_mean.shape[-1]
        factor, root = self._factor(), linalg.cholesky(precision)
        log_det = linalg.log_det(root)
        # Lambda against its mean nu V^-1: M = L^T Lambda L / nu, V = L L^T
        half = (factor.lower[..., :, :, None] * root.lower[..., :, None, :]).sum(-3)
        moved = (half[..., :, None, :] * half[..., None, :, :]).sum(-1)
        degrees = self.degrees[..., None, None]
        white = moved / degrees - xp.eye(size)
        trace = xp.square(half).sum((-1, -2)) / self.degrees
        log_ratio = log_det + linalg.log_det(factor) - size * xp.log(self.degrees)
        fit = 0.5 * self.degrees * identity_excess(white, trace, log_ratio)
        # (nu / 2) ln(nu / 2) - nu / 2 - ln Gamma(nu / 2 - s), s = 0, 1/2, ..., by Stirling's formula
        halves, steps = self._half_degrees(), 0.5 * xp.arange(size)
        middle = 0.5 * self.degrees[..., None]
        excess: Array = numerics.ratio_excess(middle, halves).value()
        gammas = (
            middle * excess
            + (steps + 0.5) * xp.log(halves)
            - numerics.stirling_error(halves)
            - numerics.HALF_LOG_TWO_PI
        ).sum(-1) - 0.25 * size * (size - 1) * xp.log(xp.pi)
        distance = self.scale * linalg.square_norm(mean - self.location, root)
        normal = 0.5 * (size * xp.log(self.scale) + log_det - distance)
        return gammas - fit - 0.5 * (size + 1) * log_det + normal + self.log_base_measure(x)

    def log_predictive(self, x: Any) -> Array:
        r"""Log density of a new row: multivariate Student-t with $\nu - d + 1$ degrees of freedom."""
        size = self.scaled_mean.shape[-1]
        spread = (1.0 + 1.0 / self.scale)[..., None, None] * self.scatter
        factor = linalg.cholesky(spread)
        white = linalg.solve_lower(factor, (xp.asarray(x) - self.location)[..., None])[..., 0]
        half = 0.5 * (self.degrees + 1.0)
        constant = numerics.log_gamma_ratio(half - 0.5 * size, xp.asarray(0.5 * size))
        constant = constant - 0.5 * (size * xp.log(xp.pi) + linalg.log_det(factor))
        return constant - half * xp.log1p(xp.square(white).sum(-1))

    def sample(self, rng: np.random.Generator, num_samples: int) -> MeanPrecision:
        size = self.scaled_mean.shape[-1]
        shape = (num_samples, *self.batch_shape)
        # Bartlett: Lambda = L^-T A A^T L^-1 with V = L L^T
        squares = rng.standard_gamma(self._half_degrees(), (*shape, size))
        below = rng.standard_normal((*shape, size, size))
        bartlett = xp.tril(below, -1) + xp.sqrt(2.0 * squares)[..., None, :] * xp.eye(size)
        factor = self._factor()
        root = linalg.solve_lower_transposed(factor, bartlett)
        precision = (root[..., :, None, :] * root[..., None, :, :]).sum(-1)
        noise = rng.standard_normal((*shape, size, 1))
        spread = linalg.solve_lower_transposed(linalg.cholesky(precision), noise)[..., 0]
        mean = self.location + spread / xp.sqrt(self.scale)[..., None]
        return MeanPrecision(mean, precision)

    def _factor(self) -> linalg.Factor:
        factor: linalg.Factor = self._kept() or linalg.cholesky(self.scatter)
        return factor

    def _half_degrees(self) -> Array:
        r"""$(\nu + 1 - j) / 2$ for $j = 1..d$: arguments of the multivariate gamma function."""
        size = self.scaled_mean.shape[-1]
        return 0.5 * (self.degrees[..., None] - xp.arange(size))
