"""AbstractModel: all that the learner knows of a model."""

import abc
import functools
from collections.abc import Mapping
from typing import Any, Generic, NamedTuple, Self, TypeVar, final

import jax
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.batch import Batch
from streambayes._core.column import Column
from streambayes._core.names import meant
from streambayes._core.precision import float64_scope
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief, AbstractFamily, AbstractMarginal, Blocks, Point

__all__ = ["AbstractModel", "Parameters", "Section", "exp_of", "parameter_names"]

Local = TypeVar("Local")
Summary = TypeVar("Summary")


class Parameters(NamedTuple):
    """An array of parameters as people see them.

    Attributes:
        names: Readable names.
        marginal: What is believed of them, in the same shape.
        blocks: For each, the readable name of the block that it belongs to.
        is_log: Whether the marginal is that of its logarithm, in a shape that meets the names.
    """

    names: np.ndarray
    marginal: AbstractMarginal
    blocks: np.ndarray
    is_log: np.ndarray | bool = False

    @classmethod
    def of(
        cls,
        names: np.ndarray,
        marginal: AbstractMarginal,
        labels: np.ndarray,
        is_log: np.ndarray | bool = False,
    ) -> Self:
        """Parameters of blocks with these labels; the last axes of the names may be within a block."""
        within = (1,) * (names.ndim - labels.ndim)
        blocks = np.broadcast_to(labels.reshape(labels.shape + within), names.shape)
        return cls(names, marginal, blocks, is_log)

    def moments(self) -> tuple[Array, Array]:
        r"""Mean and standard deviation.

        The exponential of a Student-t has neither: what is known by its logarithm, with mean $m$ and deviation
        $s$, is told by its median $e^m$ and by $e^m s$.
        """
        mean, deviation = self.marginal.moments()
        if not np.any(self.is_log):
            return mean, deviation
        centre = exp_of(self.is_log, mean)
        return centre, xp.where(self.is_log, centre * deviation, deviation)

    def centre(self) -> Array:
        """The mean, or the median of what is known by its logarithm."""
        return exp_of(self.is_log, self.marginal.mean())

    def quantile(self, probability: Any) -> Array:
        """Quantiles: of a logarithm, their exponentials."""
        return exp_of(self.is_log, self.marginal.quantile(probability))


def exp_of(is_log: np.ndarray | bool, values: Array) -> Array:
    """Values, of which some are logarithms, without these."""
    return xp.where(is_log, xp.exp(values), values) if np.any(is_log) else values


Section = tuple[Parameters, ...]


class AbstractModel(abc.ABC, Generic[Local, Summary]):
    """A conjugate-exponential model of one batch of rows.

    A model states its columns, its prior, the sums over rows that a batch reduces to (``row_pass``)
    and the expected log joint in terms of those sums and of expected statistics of the parameters.
    Messages to the blocks are the gradient of the latter. It never sees natural parameters, so a
    belief may be one member of a family or a bank of them. Rows come centred and scaled (``Scale``);
    ``in_units`` takes a block from those units to the user's.
    """

    @property
    @abc.abstractmethod
    def is_coupled(self) -> bool:
        """Whether a message to one block depends on what is believed of another."""

    @abc.abstractmethod
    def has_hidden(self, batch: Batch) -> bool:
        """Whether rows hide variables. If not, one pass over the rows serves all sweeps.

        It may depend on the columns with missing cells, not on values.
        """

    @property
    def hidden_if_missing(self) -> frozenset[str]:
        """Columns whose missing cells become hidden variables; cells of others are left out."""
        return frozenset()

    @property
    def target(self) -> str | None:
        """The variable that predictions are about if none is named."""
        return None

    def categories_of(self, name: str) -> tuple[str | int, ...]:
        """The values of a variable that has few, none of a number; ``ValueError`` if there is no such."""
        for column in self.columns:
            if column.name == name:
                return column.categories
        names = [column.name for column in self.columns]
        known = ", ".join(map(repr, names))
        message = f"there is no variable {name!r}{meant(name, names)}; the model has {known}"
        raise ValueError(message)

    @property
    @abc.abstractmethod
    def columns(self) -> tuple[Column, ...]:
        """What the model reads of a row."""

    @property
    def update_order(self) -> tuple[tuple[str, ...], ...]:
        """Groups of blocks that a sweep updates in turn; all at once where blocks are not coupled."""
        return (tuple(self.prior()),)

    @abc.abstractmethod
    def prior(self) -> dict[str, AbstractFamily]:
        """The default prior per block, for centred and scaled columns."""

    @abc.abstractmethod
    def labels(self) -> dict[str, np.ndarray]:
        """A readable name for every block: arrays of text in the shape of the blocks."""

    def touched_by(self, column: str) -> dict[str, np.ndarray]:
        """Which blocks are measured in the units of that column; none, unless a model says so."""
        del column
        return {name: np.zeros(label.shape, bool) for name, label in self.labels().items()}

    def start(self, key: Array, batch: Batch, prior: Blocks) -> Blocks:
        """Where the first batch's sweeps start; the prior, unless symmetry must be broken."""
        del key, batch
        return prior

    def alike(
        self, blocks: Blocks, gained: Mapping[str, Array], before: Mapping[str, Array]
    ) -> dict[str, Array]:
        """Values of latent variables that hold rows and should be told apart by them.

        By name, of shape (strata, num_values): 2 for values that cannot be told from one another, as sweeps
        alone leave them; 1 for others of which nothing was left to start from; else 0.

        Args:
            blocks: What is believed after a batch.
            gained: The batch's rows that bear on each block.
            before: Rows behind each block before it.
        """
        del blocks, gained, before
        return {}

    def start_apart(
        self, key: Array, batch: Batch, prior: Blocks, blocks: Blocks, alike: Mapping[str, Array]
    ) -> Blocks:
        """The blocks with new ones for values that are alike, each from rows of its own among those they hold."""
        del key, batch, prior, alike
        return blocks

    def strata(self, name: str) -> tuple[str, ...]:
        """Observed variables for whose values a latent one has parameters of its own."""
        del name
        return ()

    @property
    def rows_to_start(self) -> int:
        """How many rows such a start should have; none, unless symmetry must be broken."""
        return 0

    @abc.abstractmethod
    def init_local(self, batch: Batch) -> Local:
        """The rows' hidden variables before the first sweep."""

    @abc.abstractmethod
    def row_pass(
        self, expectations: Mapping[str, Any], batch: Batch, local: Local
    ) -> tuple[Local, Summary]:
        """Update the rows' hidden variables and sum over rows: the only code that reads them."""

    @abc.abstractmethod
    def expected_log_joint(self, expectations: Mapping[str, Any], summary: Summary) -> Array:
        r"""$E_q[\ln p(x, z \mid \beta)] + H[q(z)]$ over the batch, in internal units."""

    @abc.abstractmethod
    def counts(self, summary: Summary) -> dict[str, Array]:
        """Rows that bear on each block, weighted by responsibility, in the shape of the blocks."""

    def num_observations(self, batch: Batch) -> Array:
        """How many observations the batch holds; its rows, unless a row stands for several."""
        return batch.num_rows.astype(float)

    @abc.abstractmethod
    def log_predictive(self, belief: AbstractBelief, batch: Batch, local: Local) -> Array:
        r"""$\ln \int p(x_i \mid \beta) q(\beta) d\beta$ per padded row, in internal units.

        ``local`` has the rows' hidden variables where ``row_pass`` has settled for this belief.
        """

    def predictive_method(self, batch: Batch) -> str:
        """How predictive densities of such a batch are computed: ``exact`` or ``importance``."""
        del batch
        return "exact"

    def conditional(
        self, belief: AbstractBelief, batch: Batch, local: Local, name: str
    ) -> Array | AbstractMarginal:
        """The distribution of one variable of each row given the others, in internal units.

        Probabilities of shape (num_padded, num_values) for a variable with few values, else a
        marginal over the rows. The variable's own column is all missing.
        """
        del belief, batch, local
        message = f"{type(self).__name__} cannot predict {name!r}; networks can"
        raise TypeError(message)

    def draw(
        self, rng: np.random.Generator, parameters: Mapping[str, Any]
    ) -> dict[str, np.ndarray]:
        """Rows for given parameters, by variable, in internal units.

        Parameters are those of ``AbstractFamily.sample`` by entry, with a leading axis of rows. All are
        NumPy's, and nothing is compiled.
        """
        del rng, parameters
        message = f"{type(self).__name__} cannot draw rows; networks can"
        raise TypeError(message)

    def in_units(self, name: str, family: Any, scale: Scale) -> Any:
        """A block in the user's units; as it is, unless it is touched by a continuous column."""
        del name, scale
        return family

    def from_units(self, name: str, family: Any, scale: Scale) -> Any:
        """A block in internal units: the inverse of ``in_units``."""
        del name, scale
        return family

    @abc.abstractmethod
    def marginals(self, belief: AbstractBelief, scale: Scale) -> list[Section]:
        """Sections of parameters.

        The arrays of a section have one shape and are shown side by side. The belief is in internal
        units, the marginals are in the user's, or of their logarithms.
        """

    def check(self, values: Mapping[str, np.ndarray]) -> None:
        """Raise ``ValueError`` if columns contradict each other."""
        del values

    @final
    def messages(
        self, expectations: Mapping[str, Any], summary: Summary, names: tuple[str, ...]
    ) -> Blocks:
        r"""Messages of the batch to the named blocks, $\partial E[\ln p] / \partial E[t(\beta_m)]$."""

        def in_terms_of(chosen: dict[str, Any]) -> Array:
            return self.expected_log_joint({**expectations, **chosen}, summary)

        gradient = jax.grad(in_terms_of)({name: expectations[name] for name in names})
        families, counts = self.prior(), self.counts(summary)
        return Blocks(
            params={name: type(families[name])(*gradient[name]) for name in names},
            counts={name: counts[name] for name in names},
        )

    @final
    def scale_from_data(self, free: bool) -> Scale:
        """The identity; continuous columns take their units from the data if ``free``."""
        return Scale.identity(self.columns, free=free)


class ParameterNames(NamedTuple):
    """What ``Parameters`` are called and where they lie, whatever is believed of them."""

    names: np.ndarray
    blocks: np.ndarray
    support: str
    is_log: np.ndarray | bool


@functools.cache
def parameter_names(model: AbstractModel[Any, Any]) -> tuple[tuple[ParameterNames, ...], ...]:
    """Names of all parameters of a model, as ``marginals`` has them; nothing is computed for it."""
    found: list[tuple[ParameterNames, ...]] = []

    def look() -> None:
        prior = Point(Blocks.of_prior(model.prior()))
        found.extend(
            tuple(
                ParameterNames(part.names, part.blocks, part.marginal.support, part.is_log)
                for part in section
            )
            for section in model.marginals(prior, Scale.identity(model.columns, free=False))
        )

    with float64_scope():
        jax.eval_shape(look)
    return tuple(found)
