"""Gaussian columns: independent of each other, or with a full covariance."""

import abc
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.batch import Batch
from streambayes._core.column import Column
from streambayes._core.numerics import HALF_LOG_TWO_PI
from streambayes._core.pytree import definition
from streambayes._core.scale import Scale
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
    Gamma,
    NormalGamma,
    NormalWishart,
    SpreadMarginal,
    StudentMarginal,
)
from streambayes.models._conjugate import AbstractConjugate

__all__ = ["Gaussian", "MultivariateGaussian"]

_BLOCK = "mean and precision"


class GaussianSums(NamedTuple):
    """Sums over the rows of a batch; squares per column, or products of all pairs."""

    num_rows: Array
    total: Array
    products: Array


class AbstractGaussian(AbstractConjugate[GaussianSums]):
    """What columns with and without covariances share: names, units, sums."""

    names: tuple[str, ...]

    @final
    def _set_names(self, names: str | Sequence[str]) -> None:
        chosen = (names,) if isinstance(names, str) else tuple(names)
        if not chosen or len(set(chosen)) < len(chosen):
            message = f"{type(self).__name__}: names must be distinct columns, got {chosen}"
            raise ValueError(message)
        object.__setattr__(self, "names", chosen)

    @property
    @final
    def columns(self) -> tuple[Column, ...]:
        return tuple(Column(name) for name in self.names)

    @final
    def in_units(self, name: str, family: Any, scale: Scale) -> Any:
        del name
        return family.rescaled(scale.shift, scale.factor)

    @final
    def from_units(self, name: str, family: Any, scale: Scale) -> Any:
        del name
        return family.rescaled(-scale.shift / scale.factor, 1.0 / scale.factor)

    @abc.abstractmethod
    def mean_marginal(self, family: Any) -> StudentMarginal:
        """Marginals of the columns' means, on a last axis."""

    @abc.abstractmethod
    def spread_marginal(self, family: Any) -> SpreadMarginal:
        """Marginals of the columns' standard deviations, on a last axis."""

    @final
    def marginals(
        self, belief: AbstractBelief, scale: Scale
    ) -> list[tuple[np.ndarray, AbstractMarginal]]:
        # moved to the user's units here: natural parameters there would lose digits far from 0
        def mean(family: Any) -> AbstractMarginal:
            return self.mean_marginal(family).moved(scale.shift, scale.factor)

        def spread(family: Any) -> AbstractMarginal:
            return self.spread_marginal(family).in_unit(scale.factor)

        parts = {"mean of": mean, "standard deviation of": spread}
        return [
            (
                np.array([f"{what} {name}" for name in self.names], dtype=object),
                belief.marginal(_BLOCK, marginal),
            )
            for what, marginal in parts.items()
        ]


@final
@definition
class Gaussian(AbstractGaussian):
    r"""Columns $x_{id} \sim N(\mu_d, 1 / \tau_d)$, independent; $(\mu_d, \tau_d) \sim \mathrm{NormalGamma}$.

    Every column is one block. The prior has shape 1, rate 1, mean 0, scale 1 on centred and scaled
    columns.

    Args:
        names: One column or several.
    """

    names: tuple[str, ...]

    def __init__(self, names: str | Sequence[str]) -> None:
        self._set_names(names)

    def prior(self) -> dict[str, AbstractFamily]:
        one = NormalGamma.from_shape_rate_mean_scale(1.0, 1.0, 0.0, 1.0)
        return {_BLOCK: one.broadcast_to((len(self.names),))}

    def labels(self) -> dict[str, np.ndarray]:
        return {_BLOCK: np.array(self.names, dtype=object)}

    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        return {_BLOCK: np.array([name == column for name in self.names])}

    def sums(self, batch: Batch) -> GaussianSums:
        rows = jnp.where(batch.mask, batch.values, 0.0)
        num_rows = batch.num_rows.astype(float)
        return GaussianSums(num_rows, rows.sum(1), jnp.square(rows).sum(1))

    def expected_log_joint(self, expectations: Mapping[str, Any], summary: GaussianSums) -> Array:
        precision_mean, precision_mean_square, precision, log_precision = expectations[_BLOCK]
        per_row = 0.5 * (log_precision - precision_mean_square) - HALF_LOG_TWO_PI
        fit = precision_mean * summary.total - 0.5 * precision * summary.products
        joint: Array = (summary.num_rows * per_row + fit).sum()
        return joint

    def counts(self, summary: GaussianSums) -> dict[str, Array]:
        return {_BLOCK: jnp.broadcast_to(summary.num_rows, summary.total.shape)}

    def log_predictive(self, belief: AbstractBelief, batch: Batch) -> Array:
        rows = batch.values.T
        return belief.log_mean(_BLOCK, lambda family: family.log_predictive(rows)).sum(-1)

    def mean_marginal(self, family: NormalGamma) -> StudentMarginal:
        gamma = family.precision
        spread = jnp.sqrt(gamma.rate / (gamma.shape * family.scale))
        return StudentMarginal(2.0 * gamma.shape, family.location, spread)

    def spread_marginal(self, family: NormalGamma) -> SpreadMarginal:
        return SpreadMarginal.of(family.precision)


@final
@definition
class MultivariateGaussian(AbstractGaussian):
    r"""Rows $x_i \sim N(\mu, \Lambda^{-1})$; $(\mu, \Lambda) \sim \mathrm{NormalWishart}$, one block.

    The prior has $d + 1$ degrees of freedom, scatter the identity, mean 0, scale 1 on centred and
    scaled columns.

    Args:
        names: The columns.
    """

    names: tuple[str, ...]

    def __init__(self, names: str | Sequence[str]) -> None:
        self._set_names(names)

    def prior(self) -> dict[str, AbstractFamily]:
        size = len(self.names)
        family = NormalWishart.from_degrees_scatter_mean_scale(
            size + 1.0, np.eye(size), np.zeros(size), 1.0
        )
        return {_BLOCK: family}

    def labels(self) -> dict[str, np.ndarray]:
        return {_BLOCK: np.array(", ".join(self.names), dtype=object)}

    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        return {_BLOCK: np.array(column in self.names)}

    def sums(self, batch: Batch) -> GaussianSums:
        rows = jnp.where(batch.mask, batch.values, 0.0)
        return GaussianSums(batch.num_rows.astype(float), rows.sum(1), rows @ rows.T)

    def expected_log_joint(self, expectations: Mapping[str, Any], summary: GaussianSums) -> Array:
        precision_mean, precision_mean_square, precision, log_det = expectations[_BLOCK]
        constant = 2.0 * len(self.names) * HALF_LOG_TWO_PI
        per_row = 0.5 * (log_det - precision_mean_square - constant)
        fit = (precision_mean * summary.total).sum() - 0.5 * (precision * summary.products).sum()
        joint: Array = summary.num_rows * per_row + fit
        return joint

    def counts(self, summary: GaussianSums) -> dict[str, Array]:
        return {_BLOCK: summary.num_rows}

    def log_predictive(self, belief: AbstractBelief, batch: Batch) -> Array:
        rows = batch.values.T
        return belief.log_mean(_BLOCK, lambda family: family.log_predictive(rows))

    def mean_marginal(self, family: NormalWishart) -> StudentMarginal:
        degrees, diagonal = _marginal_scatter(family)
        spread = jnp.sqrt(diagonal / (family.scale[..., None] * degrees))
        return StudentMarginal(degrees, family.location, spread)

    def spread_marginal(self, family: NormalWishart) -> SpreadMarginal:
        # one diagonal entry of an inverse Wishart is an inverse Gamma
        degrees, diagonal = _marginal_scatter(family)
        return SpreadMarginal.of(
            Gamma(shape_minus_one=0.5 * degrees - 1.0, negative_rate=-0.5 * diagonal)
        )


def _marginal_scatter(family: NormalWishart) -> tuple[Array, Array]:
    diagonal = jnp.diagonal(family.scatter, axis1=-2, axis2=-1)
    degrees = family.degrees[..., None] - diagonal.shape[-1] + 1.0
    return jnp.broadcast_to(degrees, diagonal.shape), diagonal
