"""Distributions over rho, the share of the past that is kept, on [0, 1]."""

import abc
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes.families._base import AbstractFamily

__all__ = ["AbstractRho", "RhoStats"]


_NODES, _WEIGHTS = np.polynomial.legendre.leggauss(8)


class RhoStats(NamedTuple):
    """What is expected of rho."""

    rho: Array


class AbstractRho(AbstractFamily):
    r"""A family on [0, 1] with $t(\rho) = \rho$: what the paper's Lemma 2 asks of a prior over rho."""

    natural: ClassVar[dict[str, int]] = {"slope": 0}

    slope: Array

    @abc.abstractmethod
    def with_slope(self, slope: Array) -> Self:
        """The same family at another slope."""

    @abc.abstractmethod
    def variance(self) -> Array:
        """Variance of rho."""

    def mean(self) -> Array:
        r"""$E[\rho]$."""
        mean: Array = self.expected_stats().rho
        return mean

    def sufficient_stats(self, x: Any) -> RhoStats:
        return RhoStats(xp.asarray(x))

    def kl(self, other: Self) -> Array:
        r"""$KL = d^2 \int_0^1 (1 - u)\,\mathrm{Var}(\omega + ud)\,du$ with $d$ the gap between the slopes.

        An integral of positive values, for slopes so close that the definition is a difference of
        nearly equal ones.
        """
        gap = other.slope - self.slope
        close = xp.abs(gap) * xp.sqrt(self.variance()) < 0.5
        step = xp.where(close, gap, 0.0)
        share = (0.5 * (_NODES + 1.0)).reshape((-1,) + (1,) * xp.ndim(gap))
        weight = (0.5 * _WEIGHTS).reshape(share.shape) * (1.0 - share)
        between = self.with_slope(self.slope + share * step)
        near = xp.square(step) * (weight * between.variance()).sum(0)
        return xp.where(close, near, self._kl_of_far_slopes(other))

    def _kl_of_far_slopes(self, other: Self) -> Array:
        return AbstractFamily.kl(self, other)
