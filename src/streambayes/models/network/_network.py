"""Network: any conjugate-exponential Bayesian network over the variables of one row."""

import abc
import dataclasses
import functools
from collections.abc import Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, NamedTuple, final, get_args

import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.batch import Batch
from streambayes._core.calendar import CALENDAR
from streambayes._core.column import Column
from streambayes._core.names import meant
from streambayes._core.pytree import definition
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief, AbstractFamily, AbstractMarginal, Blocks, Point
from streambayes.models._base import AbstractModel, Section
from streambayes.models.network._discrete import DiscreteFactor
from streambayes.models.network._factor import (
    AbstractFactor,
    Moments,
    Units,
    rows_at,
)
from streambayes.models.network._local import Rows, hidden_names, hidden_vectors
from streambayes.models.network._normal import NormalFactor
from streambayes.models.network._picture import picture
from streambayes.models.network._prediction import Predictor, is_closed
from streambayes.models.network._rate import ExponentialFactor, PoissonFactor
from streambayes.models.network._regression import (
    ConjugateRegression,
    IndependentRegression,
    JointRegression,
)
from streambayes.models.network._start import (
    alike,
    among_blocks,
    started,
    strata_of,
    told_apart,
)
from streambayes.models.network._structure import MAX_BLOCKS, Structure
from streambayes.models.network._variables import (
    AbstractDiscrete,
    AbstractVariable,
    BernoulliVariable,
    CategoricalVariable,
    Coefficients,
    ExponentialVariable,
    NormalVariable,
    PoissonVariable,
    Transform,
    VectorVariable,
    transforms_of,
)
from streambayes.models.network._vector import VectorFactor

__all__ = ["AbstractNetwork", "Network"]


_ROWS_A_VALUE = 10


class NetworkSums(NamedTuple):
    """Sums over rows of every factor, by entry, and the entropy of what rows hide."""

    factors: dict[str, Any]
    entropy: Array


class AbstractNetwork(AbstractModel[Moments | Array, NetworkSums]):
    """A model that is a network: its ``variables`` say all there is to say."""

    @property
    @abc.abstractmethod
    def variables(self) -> tuple[AbstractVariable, ...]:
        """The variables of a row."""

    @functools.cached_property
    def structure(self) -> Structure:
        """The checked graph."""
        return Structure(self.variables)

    @functools.cached_property
    def factors(self) -> dict[str, AbstractFactor]:
        """A factor for each declared variable, parents first."""
        factors = [_factor(variable, self.structure) for variable in self.structure.variables]
        _check_distinct(name for factor in factors for name in factor.prior())
        _check_distinct(
            name for factor in factors for names in factor.labels().values() for name in names.flat
        )
        return {factor.entry: factor for factor in factors}

    @final
    def show(self) -> str:
        """The network as text: a line for each variable, its parents and its blocks."""
        return picture(self.structure, self.factors)

    @property
    @final
    def is_coupled(self) -> bool:
        return any(len(factor.turns) > 1 for factor in self.factors.values())

    @final
    def has_hidden(self, batch: Batch) -> bool:
        return bool(hidden_names(self.structure, batch) or hidden_vectors(self.structure, batch))

    @property
    @final
    def hidden_if_missing(self) -> frozenset[str]:
        vectors = (v for v in self.structure.variables if isinstance(v, VectorVariable))
        return frozenset(self.structure.interiors).union(*(v.names for v in vectors))

    @final
    def categories_of(self, name: str) -> tuple[str | int, ...]:
        if name not in self.structure.owner:
            known = ", ".join(repr(other) for other in self.structure.owner)
            alike = meant(name, self.structure.owner)
            message = f"there is no variable {name!r}{alike}; the network has {known}"
            raise ValueError(message)
        return self.structure.owner[name].categories

    @property
    @final
    def columns(self) -> tuple[Column, ...]:
        return self.structure.columns

    @property
    @final
    def update_order(self) -> tuple[tuple[str, ...], ...]:
        turns = [factor.turns for factor in self.factors.values()]
        first = tuple(name for groups in turns for name in groups[0])
        return (first, *(group for groups in turns for group in groups[1:]))

    @final
    def prior(self) -> dict[str, AbstractFamily]:
        return _merged(factor.prior() for factor in self.factors.values())

    @final
    def labels(self) -> dict[str, np.ndarray]:
        return _merged(factor.labels() for factor in self.factors.values())

    @final
    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        return _merged(factor.touched_by(column) for factor in self.factors.values())

    @final
    def start(self, key: Array, batch: Batch, prior: Blocks) -> Blocks:
        if not (self.structure.latents or self.is_coupled):
            return prior
        rows = self._rows(batch)
        local = started(key, self.structure, batch, rows.init_local())
        every = dict.fromkeys(prior.params, True)
        found = self._learned(rows, rows.moments(local), prior, prior, every)
        return Blocks(params=found.params, counts=prior.counts)

    @final
    def strata(self, name: str) -> tuple[str, ...]:
        return strata_of(self.structure, name)

    @final
    def alike(
        self, blocks: Blocks, gained: Mapping[str, Array], before: Mapping[str, Array]
    ) -> dict[str, Array]:
        return {
            name: alike(self.structure, self.factors, name, blocks, gained, before)
            for name in self.structure.latents
            if self.structure.is_discrete(name)
        }

    @final
    def start_apart(
        self, key: Array, batch: Batch, prior: Blocks, blocks: Blocks, alike: Mapping[str, Array]
    ) -> Blocks:
        rows = self._rows(batch)
        chosen: dict[str, Any] = dict.fromkeys(prior.params, False)
        _, moments, _ = rows.sweep(Point(blocks).expectations(), rows.init_local())
        shares = told_apart(key, self.structure, batch, moments, alike)
        for name, values in alike.items():
            for child in self.structure.children[name]:
                factor = self.factors[child.entry]
                for entry in factor.prior():
                    shape = prior.counts[entry].shape
                    own = among_blocks(self.structure, factor, name, values, shape)
                    chosen[entry] = chosen[entry] | own
        return self._learned(rows, moments.replaced(shares=shares), prior, blocks, chosen)

    @property
    @final
    def rows_to_start(self) -> int:
        sizes = (
            self.structure.num_values(name) if self.structure.is_discrete(name) else 1
            for name in self.structure.latents
        )
        return _ROWS_A_VALUE * max(sizes, default=0)

    @final
    def init_local(self, batch: Batch) -> Moments | Array:
        rows = self._rows(batch)
        return rows.statistics() if rows.collapses else rows.init_local()

    @final
    def row_pass(
        self, expectations: Mapping[str, Any], batch: Batch, local: Moments | Array
    ) -> tuple[Moments | Array, NetworkSums]:
        rows = self._rows(batch)
        if not isinstance(local, Moments):
            return local, NetworkSums(*rows.collapsed(expectations, local))
        local, moments, entropy = rows.sweep(expectations, local)
        return local, NetworkSums(rows.sums(moments), entropy)

    @final
    def expected_log_joint(self, expectations: Mapping[str, Any], summary: NetworkSums) -> Array:
        parts = [
            factor.log_density(expectations, summary.factors[entry])
            for entry, factor in self.factors.items()
        ]
        return functools.reduce(jnp.add, parts) + summary.entropy

    @final
    def counts(self, summary: NetworkSums) -> dict[str, Array]:
        return _merged(
            factor.counts(summary.factors[entry]) for entry, factor in self.factors.items()
        )

    @final
    def predictive_method(self, batch: Batch) -> str:
        return "exact" if is_closed(self.structure, batch) else "importance"

    @final
    def log_predictive(self, belief: AbstractBelief, batch: Batch, local: Moments | Array) -> Array:
        found = self._predictor(belief, batch, local).log_density()
        values = jnp.where(jnp.isnan(batch.values), 0.0, batch.values)
        whole = dataclasses.replace(batch, values=values, missing=())
        if is_closed(self.structure, batch) or not is_closed(self.structure, whole):
            return found
        # rows without gaps are told exactly, whatever rows are beside them
        exact = self._predictor(belief, whole, self.init_local(whole)).log_density()
        return jnp.where(batch.observed.all(0), exact, found)

    @final
    def conditional(
        self, belief: AbstractBelief, batch: Batch, local: Moments | Array, name: str
    ) -> Array | AbstractMarginal:
        return self._predictor(belief, batch, local, name).conditional()

    @final
    def draw(
        self, rng: np.random.Generator, parameters: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        values: dict[str, np.ndarray] = {}
        for factor in self.factors.values():
            values.update(factor.draw(rng, parameters, values))
        return values

    @final
    def shown(self, parameters: Mapping[str, Any]) -> list[tuple[np.ndarray, ...]]:
        """Given parameters, as one draw of ``AbstractFamily.sample``, in the sections of ``marginals``."""
        return [part for factor in self.factors.values() for part in factor.shown(parameters)]

    @final
    def in_units(self, name: str, family: Any, scale: Scale) -> Any:
        return self._factor_of(name).in_units(name, family, self._units(scale))

    @final
    def from_units(self, name: str, family: Any, scale: Scale) -> Any:
        return self._factor_of(name).from_units(name, family, self._units(scale))

    @final
    def marginals(self, belief: AbstractBelief, scale: Scale) -> list[Section]:
        units = self._units(scale)
        return [
            part for factor in self.factors.values() for part in factor.marginals(belief, units)
        ]

    def _learned(
        self,
        rows: Rows,
        moments: Moments,
        prior: Blocks,
        blocks: Blocks,
        chosen: Mapping[str, Any],
    ) -> Blocks:
        """Blocks of which the chosen ones have learned rows of given moments, from the prior."""
        at = Point(blocks)
        moments = rows.filled(at.expectations(), moments)
        summary = NetworkSums(rows.sums(moments), jnp.zeros(()))
        for names in reversed(self.update_order):  # coefficients before noise
            learned = prior.only(names) + self.messages(at.expectations(), summary, names)
            at = Point(at.blocks.replaced(learned.select(chosen, at.blocks.only(names))))
        return at.blocks

    def _rows(self, batch: Batch) -> Rows:
        return Rows(self.structure, self.factors, batch)

    def _predictor(
        self,
        belief: AbstractBelief,
        batch: Batch,
        local: Moments | Array,
        target: str | None = None,
    ) -> Predictor:
        rows = self._rows(batch)
        if not isinstance(local, Moments):
            local = rows.init_local()
        return Predictor(self.structure, self.factors, belief, batch, rows, local, target)

    def _factor_of(self, entry: str) -> AbstractFactor:
        return next(factor for factor in self.factors.values() if entry in factor.prior())

    def _units(self, scale: Scale) -> Units:
        places = self._places

        def units(names: tuple[str, ...]) -> tuple[Any, Any]:
            if all(name in places for name in names):
                chosen = [places[name] for name in names]
                return rows_at(scale.shift, chosen), rows_at(scale.factor, chosen)
            chosen = [places.get(name, len(places)) for name in names]  # behind the last: none
            shifts, factors = xp.append(scale.shift, 0.0), xp.append(scale.factor, 1.0)
            return shifts[np.array(chosen)], factors[np.array(chosen)]

        return units

    @functools.cached_property
    def _places(self) -> Mapping[str, int]:
        """Of columns, by name."""
        return {column.name: place for place, column in enumerate(self.columns)}


@final
@definition
class Network(AbstractNetwork):
    """A Bayesian network that is declared variable by variable.

    Every declaration returns the name (or names) it declares, to be given as a parent. A variable
    that is not ``latent`` has a column of its name. Once the network is in use it stays as it is.

    Example:
        >>> net = Network()
        >>> day = net.categorical("day", ["Mon", "Tue", "Wed"])
        >>> z = net.categorical("z", 5, parents=[day], latent=True)
        >>> xy = net.normal(["x", "y"], parents=[z, day])

    Args:
        declared: Variables, for a network that is built as a whole.
    """

    declared: tuple[AbstractVariable, ...] = ()

    @property
    def variables(self) -> tuple[AbstractVariable, ...]:
        return self.declared

    def categorical(
        self,
        name: str,
        categories: Sequence[str | int] | int,
        *,
        parents: Sequence[str] = (),
        latent: bool = False,
    ) -> str:
        """A variable with one of several values.

        Args:
            name: Its name.
            categories: Its values, or how many there are: then 0, 1, 2, ...; ``"month"``, ``"weekday"`` and
                ``"hour"`` are those of the calendar: Jan to Dec, Mon to Sun, 0 to 23.
            parents: Categorical and Bernoulli variables it depends on.
            latent: Whether no column holds it.
        """
        values = values_of(name, categories)
        _check_flag(name, latent)
        self._declare(CategoricalVariable((_text(name),), values, _tuple(parents), latent))
        return name

    def bernoulli(self, name: str, *, parents: Sequence[str] = (), latent: bool = False) -> str:
        """A variable that is 0 or 1.

        Args:
            name: Its name.
            parents: Categorical and Bernoulli variables it depends on.
            latent: Whether no column holds it.
        """
        _check_flag(name, latent)
        self._declare(BernoulliVariable((_text(name),), _tuple(parents), latent))
        return name

    def normal(
        self,
        names: str | Sequence[str],
        *,
        parents: Sequence[str] = (),
        latent: bool = False,
        coefficients: Coefficients = "joint",
        transform: Transform = (),
    ) -> Any:
        """A normal variable, or a list of them that are independent given the same parents.

        The mean is linear in normal parents; each configuration of the other parents has parameters
        of its own. A list is faster than one declaration for each name, and its blocks share one
        entry.

        Args:
            names: The name, or a list of names.
            parents: Variables it depends on.
            latent: Whether no column holds it.
            coefficients: With normal parents, what is a block: all coefficients together
                (``joint``), each on its own (``independent``, as in the paper), or coefficients and
                noise together (``conjugate``).
            transform: ``"log"`` where logarithms of the values are normal: for all of the names, or a
                mapping for some. Children are linear in the logarithm, too.
        """
        if coefficients not in get_args(Coefficients):
            message = (
                f"Network: coefficients of {names!r} must be one of "
                f"{', '.join(map(repr, get_args(Coefficients)))}, got {coefficients!r}"
            )
            raise ValueError(message)
        _check_flag(names, latent)
        grouped, chosen = not isinstance(names, str), names_of(names)
        taken = transforms_of(transform, chosen, "Network")
        if latent and taken:
            message = f"Network: {names!r} is latent: no column holds values to transform"
            raise ValueError(message)
        self._declare(NormalVariable(chosen, grouped, _tuple(parents), latent, coefficients, taken))
        return _same(names)

    def multivariate_normal(
        self, names: Sequence[str], *, parents: Sequence[str] = (), transform: Transform = ()
    ) -> Any:
        """Several columns with a full covariance, for each configuration of discrete parents.

        Args:
            names: The columns.
            parents: Categorical and Bernoulli variables they depend on.
            transform: As for ``normal``.
        """
        chosen = names_of(names)
        taken = transforms_of(transform, chosen, "Network")
        self._declare(VectorVariable(chosen, _tuple(parents), transform=taken))
        return _same(names)

    def poisson(self, names: str | Sequence[str], *, parents: Sequence[str] = ()) -> Any:
        """A column of counts, or a list of them, with a rate for each configuration of discrete parents.

        Args:
            names: The column, or a list of columns.
            parents: Categorical and Bernoulli variables they depend on.
        """
        self._declare(PoissonVariable(names_of(names), not isinstance(names, str), _tuple(parents)))
        return _same(names)

    def exponential(self, names: str | Sequence[str], *, parents: Sequence[str] = ()) -> Any:
        """A column of waiting times, or a list, with a rate for each configuration of discrete parents.

        Args:
            names: The column, or a list of columns.
            parents: Categorical and Bernoulli variables they depend on.
        """
        self._declare(
            ExponentialVariable(names_of(names), not isinstance(names, str), _tuple(parents))
        )
        return _same(names)

    def _declare(self, variable: AbstractVariable) -> None:
        if "structure" in self.__dict__:
            message = (
                f"Network: {variable.entry!r} comes too late, the network is in use; declare all "
                "variables before, or start a new Network()"
            )
            raise ValueError(message)
        taken = {name for other in self.declared for name in other.names}
        for name in variable.names:
            if name in taken:
                message = f"Network: {name!r} is declared twice; names must be distinct"
                raise ValueError(message)
        object.__setattr__(self, "declared", (*self.declared, variable))

    def __hash__(self) -> int:
        _ = self.structure  # what has been hashed must not change
        return hash(self.declared)


def values_of(name: str, categories: Sequence[str | int] | int | str) -> tuple[str | int, ...]:
    """The values of a categorical variable: at least two, distinct, all text or all whole numbers.

    ``"month"``, ``"weekday"`` and ``"hour"`` stand for those of the calendar.
    """
    if isinstance(categories, str) and categories in CALENDAR:
        categories = CALENDAR[categories]
    if isinstance(categories, int | np.integer) and not isinstance(categories, bool):
        if categories > MAX_BLOCKS:  # before there are as many
            message = f"{name!r}: at most {MAX_BLOCKS:,} categories are possible; give fewer"
            raise ValueError(message)
        values: tuple[Any, ...] = tuple(range(categories))
    elif isinstance(categories, Iterable) and not isinstance(
        categories, str | AbstractSet | Mapping
    ):
        values = tuple(v.item() if isinstance(v, np.generic) else v for v in categories)
    else:
        words = ", ".join(map(repr, CALENDAR))
        message = f"{name!r}: categories must be a list of values, how many, or one of {words}, got {categories!r}"
        raise TypeError(message)
    kinds = {str if isinstance(value, str) else type(value) for value in values}
    if kinds not in ({str}, {int}, {bool}) and values:
        message = (
            f"{name!r}: categories must be all text or all whole numbers, got {list(values)!r}"
        )
        raise ValueError(message)
    if len(values) < 2 or len(set(values)) < len(values):
        message = f"{name!r}: at least two distinct categories are needed, got {categories!r}"
        raise ValueError(message)
    return values


def _factor(variable: AbstractVariable, structure: Structure) -> AbstractFactor:
    if isinstance(variable, AbstractDiscrete):
        return DiscreteFactor(variable, structure)
    if isinstance(variable, NormalVariable):
        kinds: dict[str, type[AbstractFactor]] = {
            "joint": JointRegression,
            "independent": IndependentRegression,
            "conjugate": ConjugateRegression,
        }
        linear = bool(structure.continuous_parents(variable))
        return (kinds[variable.coefficients] if linear else NormalFactor)(variable, structure)
    others: dict[type, type[AbstractFactor]] = {
        VectorVariable: VectorFactor,
        PoissonVariable: PoissonFactor,
        ExponentialVariable: ExponentialFactor,
    }
    return others[type(variable)](variable, structure)


def _check_distinct(names: Iterable[str]) -> None:
    """Blocks go by name, so that no two may have the same."""
    found: set[str] = set()
    for name in names:
        if name in found:
            message = f"Network: two of its blocks would be called {name!r}; rename a variable"
            raise ValueError(message)
        found.add(name)


def _merged(parts: Iterable[Mapping[str, Any]]) -> dict[str, Any]:
    return {name: value for part in parts for name, value in part.items()}


def names_of(names: str | Sequence[str]) -> tuple[str, ...]:
    """One name or several, distinct."""
    several = isinstance(names, Iterable) and not isinstance(names, str)
    chosen = tuple(map(_text, names if several else (names,)))  # type: ignore[arg-type]
    if not chosen:
        message = "at least one name is needed, got none"
        raise ValueError(message)
    if len(set(chosen)) < len(chosen):
        message = f"names must be distinct, got {', '.join(map(repr, chosen))}"
        raise ValueError(message)
    return chosen


def _text(name: str) -> str:
    """A name as plain text, also where it comes out of an array."""
    if not isinstance(name, str):
        message = f"a name must be text, got {name!r}"
        raise TypeError(message)
    if not name:
        message = "a name must not be empty"
        raise ValueError(message)
    return str(name)


def _check_flag(name: str | Sequence[str], latent: bool) -> None:
    if not isinstance(latent, bool):
        message = f"Network: latent of {name!r} must be True or False, got {latent!r}"
        raise TypeError(message)


def _tuple(parents: Sequence[str]) -> tuple[str, ...]:
    if isinstance(parents, str) or not isinstance(parents, Iterable):
        message = f"Network: parents must be a list of variables, got {parents!r}"
        raise TypeError(message)
    return tuple(map(_text, parents))


def _same(names: str | Sequence[str]) -> Any:
    return names if isinstance(names, str) else tuple(names)
