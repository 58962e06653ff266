"""LearnerState, what the next step needs; StepInfo, what a person wants to see of the last one."""

import dataclasses
from collections.abc import Mapping
from typing import Any, final

import numpy as np

from streambayes._core.names import meant
from streambayes._core.outcome import Outcome
from streambayes._core.precision import float64_scope, in_float64, is_concrete, to_host
from streambayes._core.pytree import pytree, static
from streambayes._core.scale import Scale
from streambayes._core.table import Table
from streambayes.families import AbstractBelief, AbstractFamily, Blocks
from streambayes.forgetting import AbstractForgetting
from streambayes.learning._notes import Seen
from streambayes.learning._watch import Watch
from streambayes.models import AbstractModel
from streambayes.models._base import Parameters, parameter_names

__all__ = [
    "LearnerState",
    "ParameterSummary",
    "PosteriorSummary",
    "StepInfo",
    "arrays_by_label",
    "by_label",
    "check_level",
    "parameters_of",
    "tails_of",
]


@final
@dataclasses.dataclass(frozen=True)
class ParameterSummary:
    """One parameter of a posterior: its mean, standard deviation and central interval.

    Of the median and the geometric standard deviation of a column whose logarithms are modelled, ``mean`` is the
    exponential of the mean of the logarithm, and ``sd`` that times the logarithm's standard deviation.
    """

    name: str
    mean: float
    sd: float
    lower: float
    upper: float


@final
@dataclasses.dataclass(frozen=True, repr=False)
class PosteriorSummary:
    """The parameters of a posterior in the user's units; prints as a table."""

    rows: tuple[ParameterSummary, ...]
    level: float

    def __getitem__(self, name: str) -> ParameterSummary:
        for row in self.rows:
            if row.name == name:
                return row
        known = ", ".join(repr(row.name) for row in self.rows)
        message = f"no parameter {name!r}{meant(name, (row.name for row in self.rows))}; there are {known}"
        raise KeyError(message)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        interval = f"{self.level:.0%} interval"
        rows = [
            {
                "parameter": row.name,
                "mean": row.mean,
                "sd": row.sd,
                interval: f"{row.lower:.6g} .. {row.upper:.6g}",
            }
            for row in self.rows
        ]
        return str(Table(("parameter", "mean", "sd", interval), tuple(rows)))


@final
@pytree
class LearnerState:
    """A learner between two batches. Made by ``StreamLearner.init`` and ``StreamLearner.step``.

    Attributes:
        prior: The uninformed prior, in internal units.
        memory: What the policy keeps.
        belief: What is believed of the parameters, in internal units; ``posterior`` has the user's.
        watch: What the search for changes keeps; ``None`` if there is none.
        scale: Internal and user's units.
        num_batches: Batches with rows so far.
        rows_seen: Observations so far.
        pending: Time that has passed in batches without rows since the last one with rows.
        last_time: Time of the last batch; NaN if none had one.
        model: The model.
        forgetting: The policy.
    """

    prior: Blocks
    memory: Any
    belief: AbstractBelief
    watch: Watch | None
    scale: Scale
    num_batches: Any
    rows_seen: Any
    pending: Any
    last_time: Any
    model: AbstractModel[Any, Any] = static()
    forgetting: AbstractForgetting[Any, Any] = static()

    def __getstate__(self) -> dict[str, Any]:
        # a JAX array of float64 would come back as float32 in a program that runs JAX in float32
        return dict(to_host(self).__dict__)

    def check_single(self) -> None:
        """Raise ``ValueError`` if these are the states of many streams."""
        if np.ndim(self.rows_seen):
            message = "these are the states of many streams: take one out, states['its name']"
            raise ValueError(message)

    @property
    @in_float64
    def posterior(self) -> dict[str, AbstractFamily]:
        """One distribution per entry of blocks, in the user's units, as NumPy arrays.

        Natural parameters of a column whose mean lies millions of standard deviations from 0 do not
        fit float64; that is refused, and ``summary`` has the numbers all the same.
        """
        self.check_single()
        members = to_host(self.belief).summary().params
        return {
            name: self.model.in_units(name, family, self.scale) for name, family in members.items()
        }

    @property
    def retained(self) -> dict[str, float]:
        """Rows of data each block retains, by readable name (the equivalent sample size)."""
        self.check_single()
        with float64_scope():
            return by_label(self.model.labels(), to_host(self.belief).summary().counts)

    def changed_within(self, span: float) -> dict[str, float]:
        """Per block, the probability that nothing older than ``span`` is used any more.

        For ``Auto``: the weight of memories that reach no further back.

        Args:
            span: Rows; or time, where the policy measures time.
        """
        if not isinstance(span, int | float | np.number) or not 0 <= span < 1e300:  # NaN too
            message = f"changed_within: span must be a number of at least 0 and finite, got {span}"
            raise ValueError(message)
        self.check_single()
        with float64_scope():
            return by_label(
                self.model.labels(), self.forgetting.changed_within(to_host(self.memory), span)
            )

    def summary(self, level: float = 0.9) -> PosteriorSummary:
        """Mean, standard deviation and central interval of every parameter, in the user's units."""
        check_level("summary", level)
        self.check_single()
        return PosteriorSummary(
            parameters_of(self.model, self.belief, self.scale, tails_of(level)), level
        )


@final
@dataclasses.dataclass(frozen=True)
class StepInfo:
    """What one step did.

    Attributes:
        num_rows: Rows in the batch.
        bound: The bound that was reached, in the user's units; ``None`` for policies without one.
        fall: The most that the bound fell from one sweep to the next: rounding alone, since every sweep
            raises it.
        rho: Expected share of the past that was kept: one number, or one per block by readable name;
            ``None`` for policies without one. The first batch has no past; there it is the prior's.
        omega: Natural parameter of the posterior over rho, likewise.
        rho_sd: Standard deviation of the posterior over rho, likewise.
        log_bf: For ``Auto``, evidence for a change exactly here: the log Bayes factor of one against none;
            an alarm above 3. One number, or one per block.
        drifting: For ``Auto``, the probability that most of the past is no longer used, likewise.
        recalled: For ``Auto``, the weight of memories of earlier states, likewise.
        memory: For ``Auto``, the weights of the other memories by how far back they reach: 8, 16, ...,
            131,072 rows, and all of the past; likewise.
        seen: What the watch saw, on which ``drift`` rests; ``None`` without one.
        retained: Rows of data each block retains, by readable name.
        num_sweeps: Sweeps over the batch.
        num_rounds: Rounds of sweeps between which the policy was refined.
        outcome: How it ended.
        events: Sentences about anything out of the ordinary.
    """

    num_rows: int
    bound: float | None
    fall: float | None
    rho: float | dict[str, float] | None
    omega: float | dict[str, float] | None
    retained: dict[str, float]
    num_sweeps: int
    num_rounds: int
    outcome: Outcome
    events: tuple[str, ...] = ()
    log_bf: float | dict[str, float] | None = None
    drifting: float | dict[str, float] | None = None
    recalled: float | dict[str, float] | None = None
    memory: tuple[float, ...] | dict[str, tuple[float, ...]] | None = None
    seen: Seen | None = None
    rho_sd: float | dict[str, float] | None = None


def by_label(labels: Mapping[str, np.ndarray], per_block: Mapping[str, Any]) -> dict[str, float]:
    """Numbers per block, by readable name."""
    found: dict[str, float] = {}
    for name, readable in labels.items():
        values = np.asarray(per_block[name])
        found.update(zip(readable.ravel().tolist(), values.ravel().tolist(), strict=True))
    return found


def arrays_by_label(
    labels: Mapping[str, np.ndarray], per_block: Mapping[str, Any]
) -> dict[str, np.ndarray]:
    """Arrays per block, whose axes lead those of the blocks, by readable name."""
    found: dict[str, np.ndarray] = {}
    for name, readable in labels.items():
        values = np.asarray(per_block[name])
        leading = values.shape[: values.ndim - readable.ndim]
        each = np.moveaxis(values.reshape(*leading, -1), -1, 0)
        found.update(zip(readable.ravel().tolist(), each, strict=True))
    return found


def check_level(place: str, level: float) -> None:
    """Raise unless it is a probability that an interval can have."""
    if not isinstance(level, int | float | np.number) or not 0.0 < level < 1.0:  # NaN too
        message = f"{place}: level must lie in (0, 1), such as 0.9, got {level!r}"
        raise ValueError(message)


def tails_of(level: float) -> np.ndarray:
    """The probabilities below the ends of a central interval."""
    return np.array([0.5 - 0.5 * level, 0.5 + 0.5 * level])


def parameters_of(
    model: AbstractModel[Any, Any], belief: AbstractBelief, scale: Scale, tails: np.ndarray
) -> tuple[ParameterSummary, ...]:
    """Every parameter under a belief, in the user's units."""
    with float64_scope():
        found = [
            [_table(part, tails) for part in section]
            for section in model.marginals(to_host(belief), scale)
        ]
    rows: list[ParameterSummary] = []
    for section, tables in zip(parameter_names(model), found, strict=True):
        names = np.stack([part.names.ravel() for part in section], -1)
        numbers = np.stack(tables, -1)  # (4, size, parts)
        rows.extend(
            ParameterSummary(str(names[place]), *(float(x) for x in numbers[:, *place]))
            for place in np.ndindex(names.shape)
        )
    return tuple(rows)


def is_traced(state: LearnerState) -> bool:
    """Whether a JAX transformation holds placeholders for the state."""
    return not is_concrete(state.rows_seen)


def _table(part: Parameters, tails: np.ndarray) -> np.ndarray:
    """Mean, standard deviation and interval of an array of parameters, (4, size)."""
    mean, deviation = part.moments()
    ends = part.quantile(tails.reshape(-1, *(1 for _ in mean.shape))).reshape(2, -1)
    return np.stack([mean.ravel(), deviation.ravel(), *ends])
