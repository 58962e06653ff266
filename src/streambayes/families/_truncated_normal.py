"""The normal distribution of fixed variance truncated to [0, 1], for rho."""

from typing import Any, Self, final

import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.pytree import pytree
from streambayes.families._base import check_finite, check_positive, on_one_batch
from streambayes.families._rho import AbstractRho, RhoStats

__all__ = ["TruncatedNormal"]

_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(96)
_DEPTH = 50.0  # nats below the mode where the density is cut


@final
@pytree
class TruncatedNormal(AbstractRho):
    r"""$p(\rho) \propto e^{\omega\rho} e^{-\rho^2 / 2v}$ on $[0, 1]$ with fixed $v$, $\omega = m / v$.

    Closed forms in normal tail probabilities lose every digit at steep slopes, so the moments are
    Gauss-Legendre sums over the part of [0, 1] within 50 nats of the mode, exact to rounding.
    """

    slope: Array
    variance_before: Array

    @classmethod
    def from_mean_variance(cls, mean: Any, variance: Any) -> Self:
        """Normal with this mean and variance before truncation."""
        mean, variance = on_one_batch("TruncatedNormal", mean=(mean, 0), variance=(variance, 0))
        check_finite("TruncatedNormal", "mean", mean)
        check_positive("TruncatedNormal", "variance", variance)
        return cls(slope=mean / variance, variance_before=variance)

    def with_slope(self, slope: Array) -> Self:
        return type(self)(slope=slope, variance_before=self.variance_before)

    def log_normalizer(self) -> Array:
        mode = self._mode()
        at_mode = self.slope * mode - 0.5 * xp.square(mode) / self.variance_before
        return at_mode + self._log_mass()

    def expected_stats(self) -> RhoStats:
        return RhoStats(self._mode() + self._mean_offset())

    def variance(self) -> Array:
        offset, log_mass = self._quadrature()
        deviation = offset - self._mean_offset()[..., None]
        return (xp.softmax(log_mass, axis=-1) * xp.square(deviation)).sum(-1)

    def cdf(self, x: Any) -> Array:
        """Probability that rho is at most ``x``."""
        low, high = self._window()
        offset = xp.clip(xp.asarray(x) - self._mode(), low, high)
        _, below = self._quadrature_between(low, offset)
        _, total = self._quadrature_between(low, high)
        return xp.exp(xp.logsumexp(below, axis=-1) - xp.logsumexp(total, axis=-1))

    def log_base_measure(self, x: Any) -> Array:
        return -0.5 * xp.square(xp.asarray(x)) / self.variance_before

    def expected_log_base_measure(self) -> Array:
        square = xp.square(self.mean()) + self.variance()
        return -0.5 * square / self.variance_before

    def is_proper(self) -> Array:
        return xp.isfinite(self.slope) & (self.variance_before > 0)

    def entropy(self) -> Array:
        offset, log_mass = self._quadrature()
        expected = (xp.softmax(log_mass, axis=-1) * self._log_density(offset)).sum(-1)
        return self._log_mass() - expected

    def log_prob(self, x: Any) -> Array:
        x = xp.asarray(x)
        log_density = self._log_density((x - self._mode())[..., None])[..., 0] - self._log_mass()
        return xp.where((x >= 0) & (x <= 1), log_density, -xp.inf)

    def sample(self, rng: np.random.Generator, num_samples: int) -> Array:
        target = rng.random((num_samples, *self.batch_shape))
        mode, (low, high) = self._mode(), self._window()
        start = (
            xp.broadcast_to(mode + low, target.shape),
            xp.broadcast_to(mode + high, target.shape),
        )

        def halve(_: int, bracket: tuple[Array, Array]) -> tuple[Array, Array]:
            below, above = bracket
            middle = 0.5 * (below + above)
            short = self.cdf(middle) < target
            return xp.where(short, middle, below), xp.where(short, above, middle)

        below, above = xp.fori_loop(0, 60, halve, start)
        middle: Array = 0.5 * (below + above)
        return middle

    def _mode(self) -> Array:
        return xp.clip(self.slope * self.variance_before, 0.0, 1.0)

    def _window(self) -> tuple[Array, Array]:
        """Ends of the part that carries the mass, as offsets from the mode."""
        mode = self._mode()
        pull = xp.abs(self.slope - mode / self.variance_before)
        # pull * d + d^2 / 2v = depth
        reach = 2.0 * _DEPTH / (pull + xp.sqrt(pull**2 + 2.0 * _DEPTH / self.variance_before))
        return -xp.minimum(mode, reach), xp.minimum(1.0 - mode, reach)

    def _log_density(self, offset: Array) -> Array:
        """Log density relative to the mode, at offsets from it on a last axis."""
        tilt = (self.slope - self._mode() / self.variance_before)[..., None]
        return tilt * offset - 0.5 * xp.square(offset) / self.variance_before[..., None]

    def _quadrature(self) -> tuple[Array, Array]:
        return self._quadrature_between(*self._window())

    def _quadrature_between(self, low: Array, high: Array) -> tuple[Array, Array]:
        """Nodes as offsets from the mode and log of weight times density, on a last axis."""
        half = 0.5 * (high - low)[..., None]
        offset = low[..., None] + half * (_NODES + 1.0)
        return offset, self._log_density(offset) + xp.log(half * _WEIGHTS)

    def _log_mass(self) -> Array:
        """Log of the integral of the density relative to its mode."""
        return xp.logsumexp(self._quadrature()[1], axis=-1)

    def _kl_of_far_slopes(self, other: Self) -> Array:
        # ln q - ln p is linear in rho: its expectation is its value at the mean
        offset = self._mean_offset()
        mine = self._log_density(offset[..., None])[..., 0] - self._log_mass()
        offset = offset + (self._mode() - other._mode())
        return mine - other._log_density(offset[..., None])[..., 0] + other._log_mass()

    def _mean_offset(self) -> Array:
        offset, log_mass = self._quadrature()
        return (xp.softmax(log_mass, axis=-1) * offset).sum(-1)
