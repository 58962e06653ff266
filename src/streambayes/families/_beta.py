"""The Beta distribution."""

from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from jax import Array

from streambayes._core import numerics
from streambayes._core.arrays import xp
from streambayes._core.draws import draw_log_gamma
from streambayes._core.formula import Formula
from streambayes._core.pytree import pytree
from streambayes.families._base import AbstractInFormulas, check_positive, on_one_batch

__all__ = ["Beta"]


class BetaStats(NamedTuple):
    """What is expected of a probability and of its complement."""

    log_probability: Array
    log_complement: Array


@final
@pytree
class Beta(AbstractInFormulas):
    r"""Beta over a probability, $p(x) \propto x^{\alpha - 1} (1 - x)^{\beta - 1}$.

    The natural parameters are the concentrations themselves, with base measure $1 / x(1 - x)$.
    """

    natural: ClassVar[dict[str, int]] = {"alpha": 0, "beta": 0}

    alpha: Array
    beta: Array

    @classmethod
    def from_concentrations(cls, alpha: Any, beta: Any) -> Self:
        """Beta with pseudo-counts ``alpha`` of successes and ``beta`` of failures."""
        alpha, beta = on_one_batch("Beta", alpha=(alpha, 0), beta=(beta, 0))
        check_positive("Beta", "alpha", alpha)
        check_positive("Beta", "beta", beta)
        return cls(alpha=alpha, beta=beta)

    def log_normalizer_formula(self) -> Formula:
        return numerics.log_beta(self._concentration())

    def expected_stats_formula(self) -> Formula:
        pairs = self._concentration()
        return Formula.of(numerics.digamma_difference, pairs, pairs[..., ::-1]).then(
            lambda found: BetaStats(-found[..., 0], -found[..., 1])
        )

    def sufficient_stats(self, x: Any) -> BetaStats:
        return BetaStats(xp.log(xp.asarray(x)), xp.log1p(-xp.asarray(x)))

    def log_base_measure(self, x: Any) -> Array:
        return -xp.log(xp.asarray(x)) - xp.log1p(-xp.asarray(x))

    def expected_log_base_measure(self) -> Array:
        return -sum(self.expected_stats(), xp.zeros(()))

    def is_proper(self) -> Array:
        return (self.alpha > 0) & (self.beta > 0)

    def kl_formula(self, other: Self) -> Formula:
        return numerics.log_beta_bregman(self._concentration(), other._concentration())

    def entropy(self) -> Array:
        total = self.alpha + self.beta
        parts = numerics.gamma_entropy(self.alpha) + numerics.gamma_entropy(self.beta)
        return parts - numerics.gamma_entropy(total) - xp.digamma(total)

    def log_prob(self, x: Any) -> Array:
        x = xp.asarray(x)
        edge = (x <= 0.0) | (x >= 1.0)
        inside = self._log_prob_inside(xp.where(edge, 0.5, x))
        ends = xp.clip(x, 0.0, 1.0)
        at_edge = xp.xlogy(self.alpha - 1.0, ends) + xp.xlog1py(self.beta - 1.0, -ends)
        at_edge = xp.where(ends == x, at_edge - self.log_normalizer(), -xp.inf)
        return xp.where(edge, at_edge, inside)

    def _log_prob_inside(self, x: Array) -> Array:
        total = self.alpha + self.beta
        fit = numerics.deviance(self.alpha, total * x) + numerics.deviance(
            self.beta, total * (1.0 - x)
        )
        width = 0.5 * (xp.log(self.alpha) + xp.log(self.beta) - xp.log(total))
        rest = (
            numerics.stirling_error(self.alpha)
            + numerics.stirling_error(self.beta)
            - numerics.stirling_error(total)
        )
        large = width - numerics.HALF_LOG_TWO_PI - fit - rest + self.log_base_measure(x)
        return xp.where(total < 1.0, super().log_prob(x), large)  # small: nothing cancels

    def mean(self) -> Array:
        """Expected probability, shape ``batch_shape``."""
        return self.alpha / (self.alpha + self.beta)

    def sample(self, rng: np.random.Generator, num_samples: int) -> Array:
        shape = (num_samples, *self.batch_shape)
        success = draw_log_gamma(rng, self.alpha, shape)
        failure = draw_log_gamma(rng, self.beta, shape)
        return 1.0 / (1.0 + xp.exp(failure - success))

    def _concentration(self) -> Array:
        return xp.stack(xp.broadcast_arrays(self.alpha, self.beta), axis=-1)
