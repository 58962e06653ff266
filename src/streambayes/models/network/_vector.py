"""The factor of several columns with a full covariance."""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core import linalg
from streambayes._core.arrays import xp
from streambayes._core.numerics import HALF_LOG_TWO_PI, log_gamma_ratio
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
    Gamma,
    NormalWishart,
    SpreadMarginal,
    StudentMarginal,
)
from streambayes.models._base import Section
from streambayes.models.network._factor import (
    AbstractFactor,
    ByName,
    Moments,
    Units,
    VectorMoments,
)
from streambayes.models.network._structure import Structure
from streambayes.models.network._variables import AbstractVariable

__all__ = ["VectorFactor"]


class VectorSums(NamedTuple):
    r"""Rows, sums and products per configuration; entropy of the missing cells, a scalar."""

    num_rows: Array
    total: Array
    products: Array
    entropy: Array


@final
class VectorFactor(AbstractFactor):
    r"""$x \mid c \sim N(\mu_c, \Lambda_c^{-1})$, $(\mu_c, \Lambda_c) \sim \mathrm{NormalWishart}(d + 1, I, 0, 1)$.

    A row's missing cells have a normal distribution of their own for each configuration, so that
    for given parameters they are integrated out exactly.
    """

    def __init__(self, variable: AbstractVariable, structure: Structure) -> None:
        super().__init__(variable, structure)
        self.shape = self.configurations
        self._size = len(self.names)

    def prior(self) -> dict[str, AbstractFamily]:
        one = NormalWishart.from_degrees_scatter_mean_scale(
            self._size + 1.0,
            self.left_over * np.eye(self._size),
            np.zeros(self._size),
            self.left_over,
        )
        return {self.entry: one.broadcast_to(self.shape)}

    def labels(self) -> dict[str, np.ndarray]:
        tails = self.conditions.ravel()
        texts = np.array([self.entry + tail for tail in tails], dtype=object)
        return {self.entry: texts.reshape(self.shape)}

    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        return {self.entry: np.full(self.shape, column in self.names)}

    def fill(
        self, expectations: Mapping[str, Any], moments: Moments, observed: ByName
    ) -> VectorMoments:
        """The distribution of missing cells given the others, for each configuration."""
        stats = expectations[self.entry]
        precision = stats.precision.reshape(-1, self._size, self._size)[:, None]
        weighted = stats.precision_mean.reshape(-1, self._size)[:, None]
        present = self.stacked(observed).T  # (rows, size)
        values = jnp.where(present, self.stacked(moments.means).T, 0.0)
        pull = weighted - (precision * values[:, None, :]).sum(-1)
        matrix = _masked(precision, ~present)
        factor = linalg.cholesky(matrix)
        right = jnp.where(present, values, pull)  # (configurations, rows, size)
        means = linalg.solve(factor, right[..., None])[..., 0]
        both = ~present[:, :, None] & ~present[:, None, :]
        inverse = linalg.solve(factor, jnp.broadcast_to(jnp.eye(self._size), matrix.shape))
        num_missing = (~present).sum(-1)
        entropies = num_missing * (HALF_LOG_TWO_PI + 0.5) - 0.5 * linalg.log_det(factor)
        return VectorMoments(
            jnp.moveaxis(means, 1, -1),
            jnp.moveaxis(jnp.where(both, inverse, 0.0), 1, -1),
            entropies,
        )

    def sums(self, moments: Moments, weights: ByName) -> VectorSums:
        present = weights[self.names[0]]
        shares = self.weights_of(moments)
        shares = present[None] if shares is None else shares * present
        if self.entry in moments.vectors:
            means, covariances, entropies = moments.vectors[self.entry]
            weighted = shares[:, None, :] * means
            extra = (shares[:, None, None, :] * covariances).sum(-1)
            products = weighted @ jnp.swapaxes(means, -1, -2) + extra
            entropy = (shares * entropies).sum()
        else:
            values = self.stacked(moments.means)
            weighted = shares[:, None, :] * values
            products = linalg.row_products(weighted.reshape(-1, values.shape[-1]), values)
            entropy = jnp.zeros(())
        return VectorSums(
            shares.sum(-1).reshape(self.shape),
            weighted.sum(-1).reshape(*self.shape, self._size),
            products.reshape(*self.shape, self._size, self._size),
            entropy,
        )

    def log_density(self, expectations: Mapping[str, Any], sums: VectorSums) -> Array:
        precision_mean, precision_mean_square, precision, log_det = expectations[self.entry]
        constant = 2.0 * self._size * HALF_LOG_TWO_PI
        per_row = 0.5 * (log_det - precision_mean_square - constant)
        fit = (precision_mean * sums.total).sum() - 0.5 * (precision * sums.products).sum()
        density: Array = (sums.num_rows * per_row).sum() + fit + sums.entropy
        return density

    def counts(self, sums: VectorSums) -> dict[str, Array]:
        return {self.entry: sums.num_rows}

    def log_predictive(self, belief: AbstractBelief, moments: Moments, observed: ByName) -> Array:
        values, present = self.stacked(moments.means).T, self.stacked(observed).T

        def density(family: NormalWishart) -> Array:
            degrees, _, _, (factor, white) = self._student(family, values, present)
            half = 0.5 * present.sum(-1).reshape(-1, *(1 for _ in self.configurations))
            square = jnp.square(white).sum(-1)
            constant = log_gamma_ratio(*jnp.broadcast_arrays(0.5 * degrees, half))
            constant = constant - half * jnp.log(jnp.pi * degrees) - 0.5 * linalg.log_det(factor)
            return constant - (0.5 * degrees + half) * jnp.log1p(square / degrees)

        return jnp.moveaxis(belief.log_mean(self.entry, density), 0, -1)

    def predictive(
        self, belief: AbstractBelief, moments: Moments, observed: ByName, name: str
    ) -> AbstractMarginal:
        place = self.names.index(name)
        values, present = self.stacked(moments.means).T, self.stacked(observed).T
        others = present.at[:, place].set(False)

        def one(family: NormalWishart) -> AbstractMarginal:
            degrees, location, matrix, (factor, white) = self._student(family, values, others)
            held = others.reshape(-1, *(1 for _ in self.configurations), self._size)
            covariance = jnp.where(held, matrix[..., place, :], 0.0)
            half = linalg.solve_lower(factor, covariance[..., None])[..., 0]
            num_held = held.sum(-1)
            left = matrix[..., place, place] - jnp.square(half).sum(-1)
            stretch = (degrees + jnp.square(white).sum(-1)) / (degrees + num_held)
            return StudentMarginal(
                degrees + num_held,
                location[..., place] + (half * white).sum(-1),
                jnp.sqrt(left * stretch),
            )

        return belief.predictive(self.entry, one)

    def in_units(self, entry: str, family: Any, units: Units) -> Any:
        del entry
        return family.rescaled(*self.own_units(units))

    def from_units(self, entry: str, family: Any, units: Units) -> Any:
        del entry
        shift, factor = self.own_units(units)
        return family.rescaled(-shift / factor, 1.0 / factor)

    def marginals(self, belief: AbstractBelief, units: Units) -> list[Section]:
        shift, factor = self.own_units(units)

        def mean(family: NormalWishart) -> AbstractMarginal:
            degrees, diagonal = _marginal_scatter(family)
            spread = xp.sqrt(diagonal / (family.scale[..., None] * degrees))
            return StudentMarginal(degrees, family.location, spread).moved(shift, factor)

        def spread(family: NormalWishart) -> AbstractMarginal:
            # one diagonal entry of an inverse Wishart is an inverse Gamma
            degrees, diagonal = _marginal_scatter(family)
            gamma = Gamma(shape_minus_one=0.5 * degrees - 1.0, negative_rate=-0.5 * diagonal)
            return SpreadMarginal.of(gamma).in_unit(factor)

        spreads = self.text_per_name(
            "standard deviation of {}", "geometric standard deviation of {}"
        )
        return [
            (
                self.parameters(self.text_per_name("mean of {}", "median of {}"), belief, mean),
                self.parameters(spreads, belief, spread),
            )
        ]

    def shown(self, parameters: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
        mean, precision = parameters[self.entry]
        identity = np.broadcast_to(np.eye(self._size), precision.shape)
        half = linalg.solve_lower(linalg.cholesky(precision), identity)
        return [self.told(mean, np.sqrt(np.square(half).sum(-2)))]

    def draw(
        self,
        rng: np.random.Generator,
        parameters: Mapping[str, Any],
        values: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        mean, precision = self.of_rows(parameters[self.entry], values)
        noise = rng.standard_normal((*mean.shape, 1))
        spread = linalg.solve_lower_transposed(linalg.cholesky(precision), noise)[..., 0]
        return self.by_name(mean + spread)

    def _student(
        self, family: NormalWishart, values: Array, present: Array
    ) -> tuple[Array, Array, Array, tuple[linalg.Factor, Array]]:
        r"""Degrees, location and matrix of the predictive Student-t; factor of its observed part.

        The last is the pair of that factor and of the observed deviations it whitens, both of shape
        (num_padded, \*configurations, ...).
        """
        degrees = family.degrees - self._size + 1.0
        matrix = family.scatter * ((1.0 + 1.0 / family.scale) / degrees)[..., None, None]
        rows = (present.shape[0], *(1 for _ in self.configurations), self._size)
        held = present.reshape(rows)
        factor = linalg.cholesky(_masked(matrix, held))
        away = jnp.where(held, values.reshape(rows) - family.location, 0.0)
        white = linalg.solve_lower(factor, away[..., None])[..., 0]
        return degrees, family.location, matrix, (factor, white)


def _masked(matrix: Array, chosen: Array) -> Array:
    """The chosen rows and columns of a matrix, those of the identity elsewhere."""
    both = chosen[..., :, None] & chosen[..., None, :]
    return jnp.where(both, matrix, jnp.eye(matrix.shape[-1]))


def _marginal_scatter(family: NormalWishart) -> tuple[Array, Array]:
    diagonal = xp.diagonal(family.scatter, axis1=-2, axis2=-1)
    degrees = family.degrees[..., None] - diagonal.shape[-1] + 1.0
    return xp.broadcast_to(degrees, diagonal.shape), diagonal
