"""The normal distribution of one variable."""

from typing import Any, ClassVar, NamedTuple, Self, final

import numpy as np
from jax import Array

from streambayes._core import numerics
from streambayes._core.arrays import xp
from streambayes._core.formula import Formula
from streambayes._core.pytree import pytree
from streambayes.families._base import AbstractFamily, check_finite, check_positive, on_one_batch

__all__ = ["Normal"]


class NormalStats(NamedTuple):
    """First two moments."""

    value: Array
    square: Array


@final
@pytree
class Normal(AbstractFamily):
    r"""Normal with mean $m$ and precision $\tau$ in information form, $(\tau m, -\tau / 2)$."""

    natural: ClassVar[dict[str, int]] = {"precision_mean": 0, "negative_half_precision": 0}

    precision_mean: Array
    negative_half_precision: Array

    @classmethod
    def from_mean_precision(cls, mean: Any, precision: Any) -> Self:
        """Normal with variance ``1 / precision``."""
        mean, precision = on_one_batch("Normal", mean=(mean, 0), precision=(precision, 0))
        check_finite("Normal", "mean", mean)
        check_positive("Normal", "precision", precision)
        return cls(precision_mean=precision * mean, negative_half_precision=-0.5 * precision)

    @property
    def precision(self) -> Array:
        r"""$\tau$."""
        return -2.0 * self.negative_half_precision

    def mean(self) -> Array:
        """$m$."""
        return self.precision_mean / self.precision

    def rescaled(self, shift: Any, factor: Any) -> Self:
        r"""The distribution of $s + f x$."""
        return type(self).from_mean_precision(
            shift + factor * self.mean(), self.precision / factor**2
        )

    def log_normalizer(self) -> Array:
        return 0.5 * (self.precision_mean * self.mean() - xp.log(self.precision))

    def expected_stats(self) -> NormalStats:
        mean = self.mean()
        return NormalStats(mean, mean * mean + 1.0 / self.precision)

    def sufficient_stats(self, x: Any) -> NormalStats:
        return NormalStats(xp.asarray(x), xp.square(xp.asarray(x)))

    def log_base_measure(self, x: Any) -> Array:
        return xp.full(xp.asarray(x).shape, -numerics.HALF_LOG_TWO_PI)

    def expected_log_base_measure(self) -> Array:
        return xp.full(self.batch_shape, -numerics.HALF_LOG_TWO_PI)

    def is_proper(self) -> Array:
        return self.precision > 0

    def kl(self, other: Self) -> Array:
        value: Array = self.kl_formula(other).value()
        return value

    def kl_formula(self, other: Self) -> Formula:
        distance = other.precision * xp.square(self.mean() - other.mean())
        return numerics.ratio_excess(self.precision, other.precision).then(
            lambda spread: 0.5 * (spread + distance)
        )

    def entropy(self) -> Array:
        return numerics.HALF_LOG_TWO_PI + 0.5 - 0.5 * xp.log(self.precision)

    def log_prob(self, x: Any) -> Array:
        distance = self.precision * xp.square(xp.asarray(x) - self.mean())
        return 0.5 * (xp.log(self.precision) - distance) - numerics.HALF_LOG_TWO_PI

    def sample(self, rng: np.random.Generator, num_samples: int) -> Array:
        noise = rng.standard_normal((num_samples, *self.batch_shape))
        return self.mean() + noise / xp.sqrt(self.precision)
