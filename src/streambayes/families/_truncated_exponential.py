"""The exponential distribution truncated to [0, 1], for rho."""

from typing import Any, Self, final

import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.precision import as_real
from streambayes._core.pytree import pytree
from streambayes.families._base import check_finite
from streambayes.families._rho import AbstractRho, RhoStats

__all__ = ["TruncatedExponential"]

_SMALL = 0.1  # below, series; above, closed forms with at most three digits of cancellation


@final
@pytree
class TruncatedExponential(AbstractRho):
    r"""$p(\rho) \propto e^{\omega\rho}$ on $[0, 1]$: prior and posterior of rho.

    $E[\rho] = 1 / (1 - e^{-\omega}) - 1 / \omega$, with value 1/2 at $\omega = 0$ (paper, section
    4.3). The paper's prior $\gamma e^{-\gamma\rho} / (1 - e^{-\gamma})$ has slope $-\gamma$.
    """

    slope: Array

    @classmethod
    def from_gamma(cls, gamma: Any) -> Self:
        r"""The paper's prior over rho with parameter $\gamma$; positive values favour forgetting."""
        gamma = as_real(gamma)
        check_finite("TruncatedExponential", "gamma", gamma)
        return cls(slope=-gamma)

    def with_slope(self, slope: Array) -> Self:
        return type(self)(slope=slope)

    def log_normalizer(self) -> Array:
        # smooth at 0, where the parts are not: w/2 + ln(sinh(w/2) / (w/2))
        far = xp.maximum(self.slope, 0.0) + self._log_mass()
        small, even = self._even_part()
        return xp.where(small, 0.5 * self.slope + even, far)

    def expected_stats(self) -> RhoStats:
        distance = self._mean_distance()
        return RhoStats(xp.where(self.slope > 0, 1.0 - distance, distance))

    def variance(self) -> Array:
        r"""$1/\omega^2 - e^{-|\omega|} / (1 - e^{-|\omega|})^2$."""
        size = xp.abs(self.slope)
        large = size > _SMALL
        s = xp.where(large, size, 1.0)
        far = 1.0 / s**2 - xp.exp(-s) / xp.square(xp.expm1(-s))
        square = xp.where(large, 0.0, size) ** 2
        near = 1 / 12 + square * (-1 / 240 + square * (1 / 6048 - square / 172800))
        return xp.where(large, far, near)

    def log_base_measure(self, x: Any) -> Array:
        return xp.zeros(xp.asarray(x).shape)

    def expected_log_base_measure(self) -> Array:
        return xp.zeros(self.batch_shape)

    def is_proper(self) -> Array:
        return xp.isfinite(self.slope)

    def entropy(self) -> Array:
        return self._log_mass() + xp.abs(self.slope) * self._mean_distance()

    def log_prob(self, x: Any) -> Array:
        x = xp.asarray(x)
        distance = xp.where(self.slope > 0, 1.0 - x, x)
        inside = (x >= 0) & (x <= 1)
        return xp.where(inside, -xp.abs(self.slope) * distance - self._log_mass(), -xp.inf)

    def sample(self, rng: np.random.Generator, num_samples: int) -> Array:
        uniform = rng.random((num_samples, *self.batch_shape))
        size = xp.abs(self.slope)
        safe = xp.where(size > 1e-12, size, 1.0)
        # the distribution decaying from 0, mirrored for positive slopes
        decay = -xp.log1p(uniform * xp.expm1(-safe)) / safe
        decay = xp.where(size > 1e-12, decay, uniform)
        return xp.where(self.slope > 0, 1.0 - decay, decay)

    def _log_mass(self) -> Array:
        r"""$\ln((1 - e^{-|\omega|}) / |\omega|)$: the integral of the density relative to its mode."""
        size = xp.abs(self.slope)
        large = size > _SMALL
        s = xp.where(large, size, 1.0)
        small, even = self._even_part()
        return xp.where(small, even - 0.5 * size, xp.log(-xp.expm1(-s) / s))

    def _even_part(self) -> tuple[Array, Array]:
        r"""Whether $\omega$ is small, and $\ln(\sinh(\omega / 2) / (\omega / 2))$ where it is."""
        small = xp.abs(self.slope) <= _SMALL
        square = xp.square(xp.where(small, self.slope, 0.0))
        series = 1 / 24 + square * (-1 / 2880 + square * (1 / 181440 - square / 9676800))
        return small, square * series

    def _mean_distance(self) -> Array:
        r"""$1 / |\omega| - 1 / (e^{|\omega|} - 1)$: how far from its mode rho is expected."""
        size = xp.abs(self.slope)
        large = size > _SMALL
        s = xp.where(large, size, 1.0)
        near = xp.where(large, 0.0, size)
        square = near * near
        series = 1 / 12 + square * (-1 / 720 + square * (1 / 30240 - square / 1209600))
        return xp.where(large, 1.0 / s - 1.0 / xp.expm1(s), 0.5 - near * series)

    def _kl_of_far_slopes(self, other: Self) -> Array:
        mine = self._mean_distance()
        theirs = xp.where((self.slope > 0) == (other.slope > 0), mine, 1.0 - mine)
        energy = xp.abs(other.slope) * theirs - xp.abs(self.slope) * mine
        return energy + other._log_mass() - self._log_mass()
