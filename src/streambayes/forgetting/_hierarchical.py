"""Hierarchical power priors: the share of the past that is kept is learned from each batch."""

import abc
from collections.abc import Mapping
from typing import Any, final

import jax
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.pytree import definition, number, pytree
from streambayes.families import (
    AbstractBelief,
    AbstractRho,
    Blocks,
    TruncatedExponential,
)
from streambayes.forgetting._base import AbstractTempered, Clock, Report, total

__all__ = ["HPP", "MHPP"]


@final
@pytree
class HierarchicalAnchor:
    """The two ends of the power prior and the current posterior over the share between them.

    ``omega`` is one slope for the model, or a dictionary of slopes per block; ``rho`` is what is
    expected of the share.
    """

    previous: Blocks
    prior: Blocks
    omega: Any
    rho: Any

    @property
    def tempered(self) -> Blocks:
        """The power prior, formed where it is used: kept, each of its arrays would repeat rho's program."""
        return self.previous.lerp(self.prior, self.rho)


class AbstractHierarchical(AbstractTempered[HierarchicalAnchor]):
    r"""Prior of batch t: $E[\rho_t]\lambda_{t-1} + (1 - E[\rho_t])\alpha_u$ with learned $\rho_t$.

    $q(\rho_t \mid \omega_t)$ is in the family of its prior and, with expectations under the current
    posterior (paper, Lemma 2, with the sign of algorithmic consistency),

    $$\omega_t = KL(q(\beta_t) \| p_u) - KL(q(\beta_t) \| q_{t-1}) + \omega_{prior}.$$

    Each batch starts from the prior over $\rho$, runs sweeps until the bound settles, updates
    $\omega$, and so on until the bound settles across rounds. ``bound`` is the paper's $\hat L$.
    """

    rho_prior: AbstractRho
    max_rounds: int

    @final
    def __post_init__(self) -> None:
        if not isinstance(self.rho_prior, AbstractRho):
            message = (
                f"{type(self).__name__}: rho_prior must be a TruncatedExponential or a "
                f"TruncatedNormal, got {self.rho_prior!r}"
            )
            raise TypeError(message)
        if self.rho_prior.batch_shape != ():
            message = f"{type(self).__name__}: rho_prior must be a single distribution"
            raise ValueError(message)
        if not isinstance(self.max_rounds, int | np.integer) or self.max_rounds < 1:
            message = (
                f"{type(self).__name__}: max_rounds must be a whole number of at least 1, got "
                f"{self.max_rounds!r}"
            )
            raise ValueError(message)

    @abc.abstractmethod
    def pooled(self, per_block: Mapping[str, Array]) -> Any:
        """Evidence per block, pooled over the blocks that share one rho."""

    @final
    def open(self, memory: Blocks, prior: Blocks, clock: Clock) -> HierarchicalAnchor:
        del clock
        return self._anchor(memory, prior, self.pooled(jax.tree.map(xp.zeros_like, memory.counts)))

    @final
    def weigh(
        self, anchor: HierarchicalAnchor, belief: AbstractBelief, expectations: Mapping[str, Any]
    ) -> dict[str, Array]:
        """Per block, how far the belief is from the prior and from yesterday: an axis of two leads."""
        del expectations
        ends = jax.tree.map(lambda *parts: xp.stack(parts), anchor.prior, anchor.previous)
        return belief.summary().kl(ends)  # one program for the two

    @final
    def refine(self, anchor: HierarchicalAnchor, weighed: dict[str, Array]) -> HierarchicalAnchor:
        gain = {
            name: from_prior - from_previous
            for name, (from_prior, from_previous) in weighed.items()
        }
        return self._anchor(anchor.previous, anchor.prior, self.pooled(gain))

    @final
    def divergence(self, anchor: HierarchicalAnchor, weighed: dict[str, Array]) -> Array:
        rho = anchor.rho
        per_block = rho if isinstance(rho, dict) else dict.fromkeys(weighed, rho)
        mixed = {
            name: (1.0 - per_block[name]) * from_prior + per_block[name] * from_previous
            for name, (from_prior, from_previous) in weighed.items()
        }
        against = jax.tree.map(
            lambda slope: self.rho_prior.with_slope(slope).kl(self.rho_prior).sum(), anchor.omega
        )
        return total(mixed) + sum(jax.tree.leaves(against))

    @final
    def close(
        self, anchor: HierarchicalAnchor, belief: AbstractBelief, clock: Clock
    ) -> tuple[Blocks, Report]:
        del clock
        spread = jax.tree.map(
            lambda slope: xp.sqrt(self.rho_prior.with_slope(slope).variance()), anchor.omega
        )
        return belief.summary(), Report(rho=anchor.rho, omega=anchor.omega, rho_sd=spread)

    def _setting(self) -> str:
        """What distinguishes it from the default in a table."""
        if self.rho_prior == TruncatedExponential.from_gamma(0.1):
            return ""
        kind = type(self.rho_prior).__name__
        return f" {kind} E[rho]={float(self.rho_prior.mean()):.3g}"

    def _anchor(self, previous: Blocks, prior: Blocks, gain: Any) -> HierarchicalAnchor:
        omega = jax.tree.map(lambda evidence: evidence + self.rho_prior.slope, gain)
        rho = jax.tree.map(lambda slope: self.rho_prior.with_slope(slope).mean(), omega)
        return HierarchicalAnchor(previous=previous, prior=prior, omega=omega, rho=rho)


@final
@definition
class HPP(AbstractHierarchical):
    """Hierarchical power prior: one learned rho for the whole model (SVB-HPP).

    Args:
        rho_prior: Prior over rho; the paper's, a truncated exponential with gamma = 0.1, by default.
        max_rounds: The most rounds of sweeps and updates of rho per batch.
    """

    rho_prior: AbstractRho = number(default=TruncatedExponential.from_gamma(0.1))
    max_rounds: int = 100

    @property
    def name(self) -> str:
        return f"HPP{self._setting()}"

    def pooled(self, per_block: Mapping[str, Array]) -> Array:
        return total(per_block)


@final
@definition
class MHPP(AbstractHierarchical):
    """Multiple hierarchical power prior: one learned rho for each block (SVB-MHPP).

    Args:
        rho_prior: Prior over each rho; the paper's, a truncated exponential with gamma = 0.1, by
            default.
        max_rounds: The most rounds of sweeps and updates of rho per batch.
    """

    rho_prior: AbstractRho = number(default=TruncatedExponential.from_gamma(0.1))
    max_rounds: int = 100

    @property
    def name(self) -> str:
        return f"MHPP{self._setting()}"

    def pooled(self, per_block: Mapping[str, Array]) -> dict[str, Array]:
        return dict(per_block)
