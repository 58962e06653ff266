"""The Gamma distribution."""

from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from jax import Array

from streambayes._core import numerics
from streambayes._core.arrays import xp
from streambayes._core.formula import Formula
from streambayes._core.pytree import pytree
from streambayes.families._base import AbstractInFormulas, check_positive, on_one_batch

__all__ = ["Gamma"]


class GammaStats(NamedTuple):
    """What is expected of a positive quantity."""

    log_value: Array
    value: Array


@final
@pytree
class Gamma(AbstractInFormulas):
    r"""Gamma over a rate or precision, $p(x) \propto x^{a - 1} e^{-bx}$ with shape $a$, rate $b$."""

    natural: ClassVar[dict[str, int]] = {"shape_minus_one": 0, "negative_rate": 0}

    shape_minus_one: Array
    negative_rate: Array

    @classmethod
    def from_shape_rate(cls, shape: Any, rate: Any) -> Self:
        """Gamma with mean ``shape / rate``."""
        shape, rate = on_one_batch("Gamma", shape=(shape, 0), rate=(rate, 0))
        check_positive("Gamma", "shape", shape)
        check_positive("Gamma", "rate", rate)
        return cls(shape_minus_one=shape - 1.0, negative_rate=-rate)

    @property
    def shape(self) -> Array:
        """$a$."""
        return self.shape_minus_one + 1.0

    @property
    def rate(self) -> Array:
        """$b$."""
        return -self.negative_rate

    def log_normalizer_formula(self) -> Formula:
        log_rate = xp.log(self.rate)
        return Formula.of(xp.gammaln, self.shape).then(lambda value: value - self.shape * log_rate)

    def expected_stats_formula(self) -> Formula:
        log_rate, mean = xp.log(self.rate), self.shape / self.rate
        return Formula.of(xp.digamma, self.shape).then(
            lambda value: GammaStats(value - log_rate, mean)
        )

    def sufficient_stats(self, x: Any) -> GammaStats:
        return GammaStats(xp.log(xp.asarray(x)), xp.asarray(x))

    def log_base_measure(self, x: Any) -> Array:
        return xp.zeros(xp.asarray(x).shape)

    def expected_log_base_measure(self) -> Array:
        return xp.zeros(self.batch_shape)

    def is_proper(self) -> Array:
        return (self.shape > 0) & (self.rate > 0)

    def kl_formula(self, other: Self) -> Formula:
        # Stirling's formula splits the divergence into parts of which none is negative: the ratio of
        # the means, that of the shapes, and what the formula leaves
        means = numerics.product_excess(other.shape, self.shape, self.rate, other.rate)
        shapes = numerics.ratio_excess(self.shape, other.shape)
        both = means.beside(shapes, lambda m, s: other.shape * m + 0.5 * s)
        return both.beside(numerics.stirling_bregman(self.shape, other.shape), xp.add)

    def entropy(self) -> Array:
        return numerics.gamma_entropy(self.shape) - xp.log(self.rate)

    def log_prob(self, x: Any) -> Array:
        x = xp.asarray(x)
        inside = self._log_prob_inside(xp.where(x > 0.0, x, 1.0))
        at_zero = xp.xlogy(self.shape_minus_one, xp.zeros_like(x)) - self.log_normalizer()
        return xp.where(x > 0.0, inside, xp.where(x == 0.0, at_zero, -xp.inf))

    def _log_prob_inside(self, x: Array) -> Array:
        fit = numerics.deviance(self.shape, self.rate * x) + numerics.stirling_error(self.shape)
        large = 0.5 * xp.log(self.shape) - numerics.HALF_LOG_TWO_PI - fit - xp.log(xp.asarray(x))
        return xp.where(self.shape < 1.0, super().log_prob(x), large)  # small: nothing cancels

    def mean(self) -> Array:
        """$a / b$."""
        return self.shape / self.rate

    def sample(self, rng: np.random.Generator, num_samples: int) -> Array:
        shape = (num_samples, *self.batch_shape)
        return xp.divide(rng.standard_gamma(self.shape, shape), self.rate)
