"""The model of one column of categories."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.batch import Batch
from streambayes._core.column import CATEGORY, Column
from streambayes._core.numerics import sum_of_others
from streambayes._core.pytree import definition
from streambayes._core.scale import Scale
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
    Beta,
    BetaMarginal,
    Dirichlet,
)
from streambayes.models._conjugate import AbstractConjugate

__all__ = ["Categorical"]

_BLOCK = "probabilities"


class CategorySums(NamedTuple):
    """How often each category occurred."""

    occurrences: Array


@final
@definition
class Categorical(AbstractConjugate[CategorySums]):
    r"""$x_i \sim \mathrm{Categorical}(p)$, $p \sim \mathrm{Dirichlet}(1, \dots, 1)$.

    Args:
        column: The column.
        categories: Its possible values, or how many there are: then 0, 1, 2, ...
    """

    column: str
    categories: tuple[str | int, ...]

    def __init__(self, column: str, categories: Sequence[str | int] | int) -> None:
        values = tuple(range(categories)) if isinstance(categories, int) else tuple(categories)
        if len(values) < 2 or len(set(values)) < len(values):
            message = f"Categorical: at least two distinct categories are needed, got {values}"
            raise ValueError(message)
        object.__setattr__(self, "column", column)
        object.__setattr__(self, "categories", values)

    @property
    def columns(self) -> tuple[Column, ...]:
        return (Column(self.column, CATEGORY, self.categories),)

    def prior(self) -> dict[str, AbstractFamily]:
        return {_BLOCK: Dirichlet.from_concentration(np.ones(len(self.categories)))}

    def labels(self) -> dict[str, np.ndarray]:
        return {_BLOCK: np.array(self.column, dtype=object)}

    def sums(self, batch: Batch) -> CategorySums:
        hits = self._hits(batch) & batch.mask[:, None]
        return CategorySums(hits.sum(0).astype(float))

    def expected_log_joint(self, expectations: Mapping[str, Any], summary: CategorySums) -> Array:
        joint: Array = (expectations[_BLOCK].log_probabilities * summary.occurrences).sum()
        return joint

    def counts(self, summary: CategorySums) -> dict[str, Array]:
        return {_BLOCK: summary.occurrences.sum()}

    def log_predictive(self, belief: AbstractBelief, batch: Batch) -> Array:
        hits = self._hits(batch)

        def log_density(dirichlet: Dirichlet) -> Array:
            return jnp.where(hits, jnp.log(dirichlet.mean()), 0.0).sum(-1)

        return belief.log_mean(_BLOCK, log_density)

    def marginals(
        self, belief: AbstractBelief, scale: Scale
    ) -> list[tuple[np.ndarray, AbstractMarginal]]:
        del scale

        def each(
            dirichlet: Dirichlet,
        ) -> AbstractMarginal:  # a probability of a Dirichlet is a Beta
            alpha = dirichlet.concentration
            return BetaMarginal(Beta(alpha=alpha, beta=sum_of_others(alpha)))

        names = [f"probability of {self.column}={category}" for category in self.categories]
        return [(np.array(names, dtype=object), belief.marginal(_BLOCK, each))]

    def _hits(self, batch: Batch) -> Array:
        return batch.column(self.column)[:, None] == jnp.arange(len(self.categories))
