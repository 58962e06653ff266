"""Distributions over rho, the share of the past that is kept, on [0, 1]."""

import abc
from typing import Any, ClassVar, NamedTuple, Self

import jax.numpy as jnp
from jax import Array

from streambayes.families._base import AbstractFamily

__all__ = ["AbstractRho", "RhoStats"]


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
        return RhoStats(jnp.asarray(x))
