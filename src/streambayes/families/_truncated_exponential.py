"""The exponential distribution truncated to [0, 1], for rho."""

from typing import Any, Self, final

import jax
import jax.numpy as jnp
from jax import Array

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
        size = jnp.abs(self.slope)
        large = size > _SMALL
        s = jnp.where(large, size, 1.0)
        # ln((e^w - 1) / w) = max(w, 0) + ln((1 - e^-|w|) / |w|) = w/2 + ln(sinh(w/2) / (w/2))
        far = jnp.maximum(self.slope, 0.0) + jnp.log(-jnp.expm1(-s) / s)
        square = jnp.where(large, 0.0, size) ** 2
        near = 0.5 * self.slope + square * (
            1 / 24 + square * (-1 / 2880 + square * (1 / 181440 - square / 9676800))
        )
        return jnp.where(large, far, near)

    def expected_stats(self) -> RhoStats:
        large = jnp.abs(self.slope) > _SMALL
        w = jnp.where(large, self.slope, 1.0)
        s = jnp.where(large, 0.0, self.slope)
        square = s * s
        series = 0.5 + s * (1 / 12 + square * (-1 / 720 + square * (1 / 30240 - square / 1209600)))
        return RhoStats(jnp.where(large, -1.0 / jnp.expm1(-w) - 1.0 / w, series))

    def variance(self) -> Array:
        r"""$1/\omega^2 - e^{-|\omega|} / (1 - e^{-|\omega|})^2$."""
        size = jnp.abs(self.slope)
        large = size > _SMALL
        s = jnp.where(large, size, 1.0)
        far = 1.0 / s**2 - jnp.exp(-s) / jnp.square(jnp.expm1(-s))
        square = jnp.where(large, 0.0, size) ** 2
        near = 1 / 12 + square * (-1 / 240 + square * (1 / 6048 - square / 172800))
        return jnp.where(large, far, near)

    def log_base_measure(self, x: Any) -> Array:
        return jnp.zeros(jnp.shape(x))

    def expected_log_base_measure(self) -> Array:
        return jnp.zeros(self.batch_shape)

    def is_proper(self) -> Array:
        return jnp.isfinite(self.slope)

    def sample(self, key: Array, num_samples: int) -> Array:
        uniform = jax.random.uniform(key, (num_samples, *self.batch_shape), dtype=float)
        size = jnp.abs(self.slope)
        safe = jnp.where(size > 1e-12, size, 1.0)
        # the distribution decaying from 0, mirrored for positive slopes
        decay = -jnp.log1p(uniform * jnp.expm1(-safe)) / safe
        decay = jnp.where(size > 1e-12, decay, uniform)
        return jnp.where(self.slope > 0, 1.0 - decay, decay)
