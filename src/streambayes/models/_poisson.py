"""The model of one column of counts."""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array
from jax.scipy.special import gammaln

from streambayes._core.batch import Batch
from streambayes._core.column import COUNT, Column
from streambayes._core.numerics import log_gamma_ratio, masked_sum
from streambayes._core.pytree import definition
from streambayes._core.scale import Scale
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
    Gamma,
    GammaMarginal,
)
from streambayes.models._conjugate import AbstractConjugate

__all__ = ["Poisson"]

_BLOCK = "rate"


class PoissonSums(NamedTuple):
    """Sums over the rows of a batch."""

    num_rows: Array
    total: Array
    log_factorials: Array


@final
@definition
class Poisson(AbstractConjugate[PoissonSums]):
    r"""$x_i \sim \mathrm{Poisson}(r)$, $r \sim \mathrm{Gamma}(1, 1)$.

    Args:
        column: The column of counts.
    """

    column: str

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column(self.column, COUNT),)

    def prior(self) -> dict[str, AbstractFamily]:
        return {_BLOCK: Gamma.from_shape_rate(1.0, 1.0)}

    def labels(self) -> dict[str, np.ndarray]:
        return {_BLOCK: np.array(self.column, dtype=object)}

    def sums(self, batch: Batch) -> PoissonSums:
        counts, mask = batch.column(self.column), batch.mask
        return PoissonSums(
            batch.num_rows.astype(float),
            masked_sum(counts, mask),
            masked_sum(gammaln(counts + 1.0), mask),
        )

    def expected_log_joint(self, expectations: Mapping[str, Any], summary: PoissonSums) -> Array:
        log_rate, rate = expectations[_BLOCK]
        joint: Array = summary.total * log_rate - summary.num_rows * rate - summary.log_factorials
        return joint

    def counts(self, summary: PoissonSums) -> dict[str, Array]:
        return {_BLOCK: summary.num_rows}

    def log_predictive(self, belief: AbstractBelief, batch: Batch) -> Array:
        counts = batch.column(self.column)

        def log_density(gamma: Gamma) -> Array:  # negative binomial
            arrangements = log_gamma_ratio(gamma.shape, counts) - gammaln(counts + 1.0)
            stay = -gamma.shape * jnp.log1p(1.0 / gamma.rate)
            return arrangements + stay - counts * jnp.log1p(gamma.rate)

        return belief.log_mean(_BLOCK, log_density)

    def marginals(
        self, belief: AbstractBelief, scale: Scale
    ) -> list[tuple[np.ndarray, AbstractMarginal]]:
        del scale
        name = np.array(f"rate of {self.column}", dtype=object)
        return [(name, belief.marginal(_BLOCK, GammaMarginal))]
