"""The Beta-Binomial model."""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from streambayes._core.batch import Batch
from streambayes._core.column import BINARY, COUNT, Column
from streambayes._core.numerics import log_gamma_ratio, masked_sum
from streambayes._core.pytree import definition
from streambayes._core.scale import Scale
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    Beta,
    BetaMarginal,
)
from streambayes.models._base import Parameters, Section
from streambayes.models._conjugate import AbstractConjugate

__all__ = ["BetaBinomial"]


class BinomialSums(NamedTuple):
    """Sums over the rows of a batch."""

    successes: Array
    failures: Array
    log_arrangements: Array


@final
@definition
class BetaBinomial(AbstractConjugate[BinomialSums]):
    r"""Draws $x_i \sim \mathrm{Bernoulli}(p)$, or counts $x_i \sim \mathrm{Binomial}(n_i, p)$; $p \sim \mathrm{Beta}(1, 1)$.

    A row with a missing cell is left out.

    Args:
        column: The column of 0 and 1, or of numbers of successes when ``trials`` is given.
        trials: The column of numbers of trials.
    """

    column: str
    trials: str | None = None

    def __post_init__(self) -> None:
        if self.trials == self.column:
            message = (
                f"BetaBinomial: successes and trials must be two columns, got {self.column!r} twice"
            )
            raise ValueError(message)

    @property
    def columns(self) -> tuple[Column, ...]:
        if self.trials is None:
            return (Column(self.column, BINARY),)
        return (Column(self.column, COUNT), Column(self.trials, COUNT))

    def check(self, values: Mapping[str, np.ndarray]) -> None:
        if self.trials is None:
            return
        over = values[self.column] > values[self.trials]
        if over.any():
            row = int(np.argmax(over))
            message = (
                f"column {self.column!r}, row {row}: {values[self.column][row]:g} successes in "
                f"{values[self.trials][row]:g} trials of column {self.trials!r}"
            )
            raise ValueError(message)

    def prior(self) -> dict[str, AbstractFamily]:
        return {self.column: Beta.from_concentrations(1.0, 1.0)}

    def labels(self) -> dict[str, np.ndarray]:
        return {self.column: np.array(self.column, dtype=object)}

    def sums(self, batch: Batch) -> BinomialSums:
        successes, trials = self._counts(batch)
        mask = batch.observed.all(0)
        return BinomialSums(
            masked_sum(successes, mask),
            masked_sum(trials - successes, mask),
            jnp.zeros(())
            if self.trials is None
            else masked_sum(_log_choose(trials, successes), mask),
        )

    def expected_log_joint(self, expectations: Mapping[str, Any], summary: BinomialSums) -> Array:
        success, failure = expectations[self.column]
        joint: Array = (
            summary.successes * success + summary.failures * failure + summary.log_arrangements
        )
        return joint

    def counts(self, summary: BinomialSums) -> dict[str, Array]:
        return {self.column: summary.successes + summary.failures}

    def num_observations(self, batch: Batch) -> Array:
        return masked_sum(self._counts(batch)[1], batch.observed.all(0))

    def log_predictive(self, belief: AbstractBelief, batch: Batch, local: tuple[()]) -> Array:
        del local
        there = batch.observed.all(0)
        successes, trials = self._counts(batch)

        def of_draw(beta: Beta) -> Array:
            total = jnp.log(beta.alpha + beta.beta)
            return jnp.where(successes > 0, jnp.log(beta.alpha), jnp.log(beta.beta)) - total

        def of_count(beta: Beta) -> Array:
            total = beta.alpha + beta.beta
            return (
                log_gamma_ratio(beta.alpha, successes)
                + log_gamma_ratio(beta.beta, trials - successes)
                - log_gamma_ratio(total, trials)
            )

        density = belief.log_mean(self.column, of_draw if self.trials is None else of_count)
        if self.trials is not None:
            density = density + _log_choose(trials, successes)
        return jnp.where(there, density, 0.0)

    def marginals(self, belief: AbstractBelief, scale: Scale) -> list[Section]:
        del scale
        name = np.array(f"probability of {self.column}", dtype=object)
        marginal = belief.marginal(self.column, BetaMarginal)
        return [(Parameters.of(name, marginal, self.labels()[self.column]),)]

    def _counts(self, batch: Batch) -> tuple[Array, Array]:
        successes = batch.column(self.column)
        if self.trials is None:
            return successes, jnp.ones_like(successes)
        return successes, batch.column(self.trials)


def _log_choose(trials: Array, successes: Array) -> Array:
    chosen = gammaln(successes + 1.0) + gammaln(trials - successes + 1.0)
    return gammaln(trials + 1.0) - chosen
