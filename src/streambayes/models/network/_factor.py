"""AbstractFactor: one conditional distribution of a network, stated once.

A factor says how rows add up (``sums``) and what its expected log-density is in those sums
(``log_density``). In a conjugate-exponential network that expectation is linear in the moments of each
variable and in the expected statistics of each block, so that messages to parameters and to hidden
variables of a row are its derivatives; nothing else needs to be written.
"""

import abc
import functools
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core import linalg
from streambayes._core.column import LOG
from streambayes._core.pytree import pytree, static
from streambayes.families import (
    AbstractBelief,
    AbstractFamily,
    AbstractMarginal,
)
from streambayes.models._base import Parameters, Section, exp_of
from streambayes.models.network._structure import Structure
from streambayes.models.network._variables import AbstractVariable

__all__ = [
    "AbstractFactor",
    "AbstractTotals",
    "ByName",
    "Moments",
    "Units",
    "VectorMoments",
    "product_of_shares",
    "rows_at",
]

Units = Callable[[tuple[str, ...]], tuple[Any, Any]]
"""Shifts and factors of variables' columns; 0 and 1 for those without."""


@functools.lru_cache(maxsize=256)
def _places(names: tuple[str, ...]) -> Mapping[str, int]:
    return {name: place for place, name in enumerate(names)}


@final
@pytree
class ByName:
    """A number per row for each of several variables. Those of columns lie in one array, so that a program does not grow with their number.

    Attributes:
        values: Shape (num_names, num_padded), or (1, num_padded) where all have the same.
        names: Their names.
        others: Of variables with an array of their own, which comes first, shape (num_padded,).
    """

    values: Array | None
    names: tuple[str, ...] = static()
    others: dict[str, Array]

    @classmethod
    def each(cls, others: Mapping[str, Array]) -> "ByName":
        """Every variable with an array of its own."""
        return cls(None, (), dict(others))

    def __getitem__(self, name: str) -> Array:
        if name in self.others:
            return self.others[name]
        assert self.values is not None
        return self.values[_places(self.names)[name] if len(self.values) > 1 else 0]

    def of(self, names: tuple[str, ...]) -> Array:
        """Of several variables, shape (len(names), num_padded), or (1, num_padded) where all have the same."""
        if self.values is None or all(name in self.others for name in names):
            return jnp.stack([self.others[name] for name in names])
        places = _places(self.names)
        found = self.values
        if len(self.values) > 1:
            found = rows_at(self.values, [places.get(name, 0) for name in names])
        return with_others(found, names, self.others)

    def replaced(self, others: Mapping[str, Array]) -> "ByName":
        """This with other arrays for some variables."""
        return ByName(self.values, self.names, {**self.others, **others})


def rows_at(values: Any, places: Sequence[int]) -> Any:
    """Entries of a first axis; neighbours in one slice."""
    first, last = places[0], places[-1] + 1
    if list(places) == list(range(first, last)):
        return values if (first, last) == (0, len(values)) else values[first:last]
    return values[np.asarray(places)]


def with_others(values: Array, names: Sequence[str], others: Mapping[str, Array]) -> Array:
    """Rows by name, (len(names), num_padded), of which some are replaced."""
    places = [place for place, name in enumerate(names) if name in others]
    if not places:
        return values
    values = jnp.broadcast_to(values, (len(names), values.shape[-1]))
    return values.at[np.array(places)].set(jnp.stack([others[names[place]] for place in places]))


class VectorMoments(NamedTuple):
    """A vector with missing cells, given each configuration of its discrete parents.

    Attributes:
        means: Shape (num_configurations, size, num_padded).
        covariances: Of the missing cells, shape (num_configurations, size, size, num_padded).
        entropies: Of the missing cells, shape (num_configurations, num_padded).
    """

    means: Array
    covariances: Array
    entropies: Array


@final
@pytree
class Moments:
    """What is expected of the variables of every row, by name.

    Attributes:
        shares: Discrete variables: probabilities, shape (num_values, num_padded).
        means: Other variables.
        squares: Of normal variables that rows hide, shape (num_padded,).
        vectors: Vectors with missing cells.
    """

    shares: dict[str, Array]
    means: ByName
    squares: dict[str, Array]
    vectors: dict[str, VectorMoments]

    @property
    def num_rows(self) -> int:
        """Padded rows."""
        return int(jax.tree.leaves(self)[0].shape[-1])

    def square(self, name: str) -> Array:
        """What is expected of the square of a variable, shape (num_padded,)."""
        return self.squares[name] if name in self.squares else jnp.square(self.means[name])

    def squares_of(self, names: tuple[str, ...]) -> Array:
        """The same of several variables, shape (len(names), num_padded)."""
        if all(name in self.squares for name in names):
            return jnp.stack([self.squares[name] for name in names])
        return with_others(jnp.square(self.means.of(names)), names, self.squares)

    def replaced(
        self,
        shares: Mapping[str, Array] = MappingProxyType({}),
        means: Mapping[str, Array] = MappingProxyType({}),
        squares: Mapping[str, Array] = MappingProxyType({}),
        vectors: Mapping[str, VectorMoments] = MappingProxyType({}),
    ) -> "Moments":
        """This with the variables that the parts name taken from them."""
        return Moments(
            shares={**self.shares, **shares},
            means=self.means.replaced(means),
            squares={**self.squares, **squares},
            vectors={**self.vectors, **vectors},
        )


class AbstractFactor(abc.ABC):
    """The conditional distribution of a declared variable given its parents, with its blocks.

    Blocks have the shape of the discrete parents' configurations, then, for variables declared as a
    list, an axis over the list.

    Attributes:
        left_over: About how much of a scaled column's variance the parents leave, as default priors
            have it: a tenth, since it may be a hundredth and a prior around 1 would outweigh hundreds
            of rows there; all of it without parents, and with latent ones: a component that has lost
            its rows must be wide enough to catch some.
    """

    def __init__(self, variable: AbstractVariable, structure: Structure) -> None:
        self.variable = variable
        self.names = variable.names
        self.entry = variable.entry
        self.parents = structure.discrete_parents(variable)
        self.conditions = structure.conditions(variable)
        self.configurations = self.conditions.shape
        self.shape = (
            (*self.configurations, len(self.names)) if variable.is_grouped else self.configurations
        )
        taken = dict(variable.transform)
        self._logged = np.array([taken.get(name) == LOG for name in self.names])
        hidden = any(structure.owner[name].latent for name in variable.parents)
        self.left_over = 0.1 if variable.parents and not hidden else 1.0
        self._texts: dict[tuple[str, str | None], np.ndarray] = {}

    @abc.abstractmethod
    def prior(self) -> dict[str, AbstractFamily]:
        """The default prior per entry of blocks, for centred and scaled columns."""

    @abc.abstractmethod
    def labels(self) -> dict[str, np.ndarray]:
        """A readable name for every block."""

    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        """Which blocks are measured in the units of a column: those of its own variable."""
        chosen = np.zeros(len(self.names), bool)
        if column in self.names:
            chosen[_places(self.names)[column]] = True
        own = chosen if self.variable.is_grouped else chosen[0]
        return {entry: np.broadcast_to(own, shape) for entry, shape in self._shapes.items()}

    @functools.cached_property
    def _shapes(self) -> Mapping[str, tuple[int, ...]]:
        """Of the blocks of each entry."""
        return {entry: labels.shape for entry, labels in self.labels().items()}

    @property
    def turns(self) -> tuple[tuple[str, ...], ...]:
        """Groups of entries whose messages depend on each other: updated in turn, first to last."""
        return (tuple(self.prior()),)

    @abc.abstractmethod
    def sums(self, moments: Moments, weights: ByName) -> Any:
        """Sums over rows; ``weights`` are 0 where the factor is absent."""

    @abc.abstractmethod
    def log_density(self, expectations: Mapping[str, Any], sums: Any) -> Array:
        """Expected log-density of the batch, a scalar."""

    @abc.abstractmethod
    def counts(self, sums: Any) -> dict[str, Array]:
        """Rows that bear on each block."""

    @abc.abstractmethod
    def log_predictive(self, belief: AbstractBelief, moments: Moments, observed: ByName) -> Array:
        r"""Log predictive density of observed values, shape (\*configurations, num_padded).

        Values are the moments' means and shares.
        """

    @abc.abstractmethod
    def predictive(
        self, belief: AbstractBelief, moments: Moments, observed: ByName, name: str
    ) -> Any:
        r"""The predictive distribution of one name, shape (num_padded, \*configurations)."""

    def in_units(self, entry: str, family: Any, units: Units) -> Any:
        """Blocks in the user's units."""
        del entry, units
        return family

    def from_units(self, entry: str, family: Any, units: Units) -> Any:
        """Blocks in internal units."""
        del entry, units
        return family

    @abc.abstractmethod
    def marginals(self, belief: AbstractBelief, units: Units) -> list[Section]:
        """Readable parameters and their marginals, in the user's units."""

    @abc.abstractmethod
    def shown(self, parameters: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
        """Given parameters, as one draw of ``AbstractFamily.sample``, in the sections of ``marginals``."""

    @abc.abstractmethod
    def draw(
        self,
        rng: np.random.Generator,
        parameters: Mapping[str, Any],
        values: Mapping[str, np.ndarray],
    ) -> dict[str, np.ndarray]:
        """Values of its variables, by name, for given parameters and values of the variables before.

        Parameters are those of ``AbstractFamily.sample`` by entry, with a leading axis of rows.
        """

    @final
    def of_rows(self, parameters: Any, values: Mapping[str, np.ndarray]) -> Any:
        r"""Those of each row's configuration: (num_rows, \*configurations, ...) to (num_rows, ...)."""
        places = tuple(values[name].astype(int) for name in self.parents)
        return jax.tree.map(lambda leaf: leaf[(np.arange(len(leaf)), *places)], parameters)

    @final
    def by_name(self, values: np.ndarray) -> dict[str, np.ndarray]:
        """Values of its variables, of shape (num_rows,) or (num_rows, num_names)."""
        return dict(zip(self.names, values.reshape(len(values), -1).T, strict=True))

    @final
    def weights_of(self, moments: Moments) -> Array | None:
        """Probability of each configuration, shape (num_configurations, num_padded); none without parents."""
        return product_of_shares(self.parents, moments)

    @final
    def by_configuration(self, rows: Array, moments: Moments) -> Array:
        r"""Sums over rows of shape (num, num_padded), per configuration: (\*configurations, num)."""
        weights = self.weights_of(moments)
        if weights is None:
            return linalg.row_products(rows, jnp.ones((1, rows.shape[-1])))[:, 0]
        total = linalg.row_products(weights, rows)
        return total.reshape(*self.configurations, len(rows))

    @final
    def parameters(
        self, names: np.ndarray, belief: AbstractBelief, of: Callable[[Any], AbstractMarginal]
    ) -> Parameters:
        """Parameters of the blocks of its own entry, of a column's values or of their logarithms."""
        own = self._logged if self.variable.is_grouped else self._logged[0]
        return Parameters.of(names, belief.marginal(self.entry, of), self.labels()[self.entry], own)

    @final
    def told(self, *values: Any) -> tuple[np.ndarray, ...]:
        """Parameters of a column's values or of their logarithms, without these; the last axis is over names."""
        own = self._logged if self.variable.is_grouped else self._logged[0]
        return tuple(np.asarray(exp_of(own, value)) for value in values)

    @final
    def text_per_name(self, pattern: str, of_log: str | None = None) -> np.ndarray:
        r"""Readable text, ``{}`` for the name: shape (\*configurations, num_names).

        Names whose logarithm is modelled may have a text of their own.
        """
        texts = self._texts.get((pattern, of_log))
        if texts is None:
            texts = np.empty((*self.configurations, len(self.names)), dtype=object)
            for place in np.ndindex(texts.shape):
                own = pattern if of_log is None or not self._logged[place[-1]] else of_log
                texts[place] = own.format(self.names[place[-1]]) + self.conditions[place[:-1]]
            self._texts[pattern, of_log] = texts
        return texts

    @final
    def text(self, pattern: str, of_log: str | None = None) -> np.ndarray:
        """The same in the shape of the blocks."""
        return self.text_per_name(pattern, of_log).reshape(self.shape)

    @final
    def stacked(self, parts: ByName) -> Array:
        """The variables of this factor on a first axis."""
        found = parts.of(self.names)
        return jnp.broadcast_to(found, (len(self.names), found.shape[-1]))

    @final
    def own_units(self, units: Units) -> tuple[Any, Any]:
        """Shift and factor over the last axis of the blocks."""
        shifts, factors = units(self.names)
        return (shifts, factors) if self.variable.is_grouped else (shifts[0], factors[0])

    @final
    def against_blocks(self, values: Array) -> Array:
        """(num_names, num_padded) in the form that meets blocks: rows lead, names trail."""
        rows = values.T.reshape(-1, *(1 for _ in self.configurations), len(self.names))
        return rows if self.variable.is_grouped else rows[..., 0]

    @final
    def over_names(self, density: Array, observed: ByName) -> Array:
        """Log densities of shape (num_padded, blocks), summed over the names that are observed."""
        if not self.variable.is_grouped:
            density = density[..., None]
        present = self.stacked(observed).T.reshape(
            -1, *(1 for _ in self.configurations), len(self.names)
        )
        return jnp.moveaxis(jnp.where(present, density, 0.0).sum(-1), 0, -1)

    @final
    def of_name(self, tree: Any, name: str) -> Any:
        """One name of arrays whose last axis is that of the names, if they have one."""
        if not self.variable.is_grouped:
            return tree
        return jax.tree.map(lambda leaf: leaf[..., self.names.index(name)], tree)


def product_of_shares(names: Sequence[str], moments: Moments) -> Array | None:
    """Probability of each configuration of variables, shape (num_configurations, num_padded)."""
    if not names:
        return None
    weights = moments.shares[names[0]]
    for name in names[1:]:
        share = moments.shares[name]
        weights = (weights[:, None, :] * share[None, :, :]).reshape(-1, share.shape[-1])
    return weights


class AbstractTotals(AbstractFactor):
    """A factor that needs no more of the rows than totals for each configuration.

    Its expected log-density is linear in statistics of a row, with coefficients for each configuration.
    """

    @abc.abstractmethod
    def rows(self, moments: Moments, weights: ByName) -> tuple[Array, ...]:
        """What is totalled, whatever the configuration: parts of shape (some, num_padded)."""

    @property
    def powers(self) -> list[tuple[str | None, int]] | None:
        """What ``rows`` totals as powers of columns, 0 or 1 or 2, where it is so with nothing missing."""
        return None

    @abc.abstractmethod
    def packed(self, totals: Array) -> Any:
        r"""The sums, from totals of all parts, shape (\*configurations, num_totals)."""

    @final
    def sums(self, moments: Moments, weights: ByName) -> Any:
        parts = self.rows(moments, weights)
        return self.packed(
            jnp.concatenate([self.by_configuration(part, moments) for part in parts], -1)
        )
