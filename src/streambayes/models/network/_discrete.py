"""The factor of a discrete variable: a probability table."""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.draws import draw_choice
from streambayes._core.numerics import sum_of_others
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
    Beta,
    BetaMarginal,
    Dirichlet,
)
from streambayes.models._base import Section
from streambayes.models.network._factor import AbstractTotals, ByName, Moments, Units
from streambayes.models.network._structure import Structure
from streambayes.models.network._variables import AbstractVariable, BernoulliVariable

__all__ = ["DiscreteFactor"]


class Occurrences(NamedTuple):
    r"""How often each value occurred, shape (\*configurations, num_values)."""

    occurrences: Array


@final
class DiscreteFactor(AbstractTotals):
    r"""$p(x = k \mid c) = \theta_{ck}$; each $\theta_c$ is a Dirichlet, or a Beta for 0 and 1."""

    def __init__(self, variable: AbstractVariable, structure: Structure) -> None:
        super().__init__(variable, structure)
        self._values = variable.categories
        self._binary = isinstance(variable, BernoulliVariable)

    def prior(self) -> dict[str, AbstractFamily]:
        if self._binary:
            ones = np.ones(self.shape)
            return {self.entry: Beta.from_concentrations(ones, ones)}
        return {self.entry: Dirichlet.from_concentration(np.ones((*self.shape, len(self._values))))}

    def labels(self) -> dict[str, np.ndarray]:
        return {self.entry: self.text("{}")}

    def rows(self, moments: Moments, weights: ByName) -> tuple[Array, ...]:
        return (weights[self.entry] * moments.shares[self.entry],)

    def packed(self, totals: Array) -> Occurrences:
        return Occurrences(totals)

    def log_density(self, expectations: Mapping[str, Any], sums: Occurrences) -> Array:
        stats = expectations[self.entry]
        table = (
            jnp.stack([stats.log_complement, stats.log_probability], -1)
            if self._binary
            else stats.log_probabilities
        )
        density: Array = (table * sums.occurrences).sum()
        return density

    def counts(self, sums: Occurrences) -> dict[str, Array]:
        return {self.entry: sums.occurrences.sum(-1)}

    def predictive(
        self, belief: AbstractBelief, moments: Moments, observed: ByName, name: str
    ) -> Array:
        del observed, name
        table = self.log_table(belief)
        return jnp.broadcast_to(table, (moments.num_rows, *table.shape))

    def log_table(self, belief: AbstractBelief) -> Array:
        r"""Log predictive probabilities, shape (\*configurations, num_values)."""
        table = belief.log_mean(self.entry, lambda family: jnp.log(self._means(family)))
        return jnp.moveaxis(table, 0, -1)

    def log_predictive(self, belief: AbstractBelief, moments: Moments, observed: ByName) -> Array:
        chosen = jnp.where(observed[self.entry], moments.shares[self.entry], 0.0)
        return jnp.einsum("...k,kn->...n", self.log_table(belief), chosen)

    def marginals(self, belief: AbstractBelief, units: Units) -> list[Section]:
        del units
        if self._binary:
            return [(self.parameters(self.text("probability of {}=1"), belief, BetaMarginal),)]

        def each(
            dirichlet: Dirichlet,
        ) -> AbstractMarginal:  # a probability of a Dirichlet is a Beta
            alpha = dirichlet.concentration
            return BetaMarginal(Beta(alpha=alpha, beta=sum_of_others(alpha)))

        names = [self.text(f"probability of {{}}={value}") for value in self._values]
        return [(self.parameters(np.stack(names, -1), belief, each),)]

    def shown(self, parameters: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
        return [(parameters[self.entry],)]

    def draw(
        self,
        rng: np.random.Generator,
        parameters: Mapping[str, Any],
        values: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        probabilities = parameters[self.entry]
        if self._binary:
            probabilities = np.stack([1.0 - probabilities, probabilities], -1)
        table = self.of_rows(probabilities, values)
        return {self.entry: draw_choice(rng, table, (len(table),)).astype(float)}

    def _means(self, family: Any) -> Array:
        r"""Expected probabilities, shape (num_values, \*configurations): values where rows would be."""
        if self._binary:
            return jnp.stack([family.beta / (family.alpha + family.beta), family.mean()])
        return jnp.moveaxis(family.mean(), -1, 0)
