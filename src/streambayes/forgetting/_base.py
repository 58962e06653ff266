"""AbstractForgetting: what a batch's prior keeps of the past."""

import abc
import dataclasses
from collections.abc import Mapping
from typing import Any, ClassVar, Generic, Protocol, TypeVar, final

import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.pytree import pytree
from streambayes.families import AbstractBelief, Blocks, Point

__all__ = [
    "AbstractForgetting",
    "AbstractSinglePrior",
    "AbstractTempered",
    "Clock",
    "PriorAnchor",
    "Report",
    "settle_numbers",
    "total",
    "unit_interval",
]

Memory = TypeVar("Memory")
Anchor = TypeVar("Anchor")


@final
@pytree
class Clock:
    """What a policy knows of time when a batch arrives; all scalars.

    Attributes:
        rows: Observations in this batch.
        rows_seen: Observations in all batches before it.
        elapsed: Time since the last batch with rows; 0 where no times are given.
    """

    rows: Array
    rows_seen: Array
    elapsed: Array


@final
@pytree
class Report:
    """What a policy did with one batch.

    Attributes:
        rho: Expected share of the past that was kept: a scalar for the whole model, an array per
            entry of blocks, or ``None`` for policies without one.
        omega: Natural parameter of the posterior over rho, where rho is learned.
        rho_sd: Standard deviation of that posterior, likewise.
        log_bf: Log Bayes factor of a change at this batch against none, likewise.
        drifting: Probability that most of the past is no longer used, likewise.
        recalled: Weight of memories of earlier states, likewise.
        memory: How far back the memories in use reach: an axis of weights by horizon leads, likewise.
    """

    rho: Any
    omega: Any
    rho_sd: Any = None
    log_bf: Any = None
    drifting: Any = None
    recalled: Any = None
    memory: Any = None


class AbstractForgetting(abc.ABC, Generic[Memory, Anchor]):
    """A policy: from what was believed, and the clock, to the prior of the next batch.

    ``Memory`` is what persists between batches, ``Anchor`` what holds while one batch is learned.
    The coordinate-ascent loop calls ``open`` once, ``update`` for each group of blocks in each sweep and
    ``weigh`` after it, ``refine`` between rounds and ``close`` at the end; the bound it climbs is the
    model's expected log joint less ``divergence``.
    """

    maximises_bound: ClassVar[bool] = True
    """Whether sweeps climb a bound. If not, a batch is one sweep and reports none."""
    has_forecast: ClassVar[bool] = False
    """Whether ``forecast`` is more than the belief."""
    max_rounds: int = 1
    """How often ``refine`` may be followed by further sweeps, plus one."""
    minibatch_size: int | None = None
    """Rows that are learned at a time; ``None`` for the whole batch."""

    @property
    def takes_coupled(self) -> bool:
        """Whether it learns models whose blocks are coupled."""
        return self.maximises_bound

    @property
    def needs_times(self) -> bool:
        """Whether every batch must come with its time."""
        return False

    @property
    @abc.abstractmethod
    def name(self) -> str:
        """Short name for tables and legends."""

    @abc.abstractmethod
    def init(self, prior: Blocks) -> Memory:
        """Before any data."""

    @abc.abstractmethod
    def belief(self, memory: Memory) -> AbstractBelief:
        """What is believed now: a view of the memory, no computation."""

    @abc.abstractmethod
    def restart(self, memory: Memory, prior: Blocks, chosen: Mapping[str, Any]) -> Memory:
        """Forget the chosen blocks entirely."""

    @abc.abstractmethod
    def open(self, memory: Memory, prior: Blocks, clock: Clock) -> Anchor:
        """A batch with rows arrives."""

    @abc.abstractmethod
    def update(self, anchor: Anchor, belief: AbstractBelief, messages: Blocks) -> AbstractBelief:
        """The belief given the batch's messages to some of the blocks."""

    @abc.abstractmethod
    def weigh(self, anchor: Anchor, belief: AbstractBelief, expectations: Mapping[str, Any]) -> Any:
        """The belief against the past: all of it that ``divergence`` and ``refine`` need, as arrays.

        ``expectations`` are those of the belief, which the model needs too.
        """

    @abc.abstractmethod
    def refine(self, anchor: Anchor, weighed: Any) -> Anchor:
        """What to keep of the past, given the belief that the sweeps have settled on, as it was weighed."""

    @abc.abstractmethod
    def divergence(self, anchor: Anchor, weighed: Any) -> Array:
        """What the belief costs against the past, a scalar."""

    @abc.abstractmethod
    def is_proper(self, anchor: Anchor) -> Array:
        """Whether what is kept of the past is a distribution, a scalar."""

    def message(self, anchor: Anchor, belief: AbstractBelief) -> Blocks | None:
        """What the batch has added to every block, where that can be told from what was kept."""
        del anchor, belief
        return None

    def forecast(self, memory: Memory, belief: AbstractBelief) -> AbstractBelief:
        """By what the next rows are predicted, of the same structure as what is believed: that, by default."""
        del memory
        return belief

    def changed_within(self, memory: Memory, span: Any) -> dict[str, Array]:
        """Per block, the probability that nothing older than ``span`` on the policy's clock is used."""
        del memory, span
        message = f"{self.name} has one memory: when a block has changed is known to Auto() alone"
        raise TypeError(message)

    @abc.abstractmethod
    def close(self, anchor: Anchor, belief: AbstractBelief, clock: Clock) -> tuple[Memory, Report]:
        """The batch is learned."""


class Tempering(Protocol):
    """An anchor with a prior for the batch."""

    @property
    def tempered(self) -> Blocks:
        """The prior that the batch is learned from."""


Tempered = TypeVar("Tempered", bound=Tempering)


class AbstractTempered(AbstractForgetting[Blocks, Tempered]):
    """A policy whose memory is the posterior, and whose batches are learned from one tempered prior."""

    @final
    def init(self, prior: Blocks) -> Blocks:
        return prior

    @final
    def belief(self, memory: Blocks) -> AbstractBelief:
        return Point(memory)

    @final
    def restart(self, memory: Blocks, prior: Blocks, chosen: Mapping[str, Any]) -> Blocks:
        return prior.select(dict(chosen), memory)

    @final
    def update(self, anchor: Tempered, belief: AbstractBelief, messages: Blocks) -> Point:
        tempered = anchor.tempered.only(messages.params)
        return Point(belief.summary().replaced((tempered + messages).factored()))

    @final
    def message(self, anchor: Tempered, belief: AbstractBelief) -> Blocks:
        return belief.summary() + anchor.tempered.scaled(-1.0)

    @final
    def is_proper(self, anchor: Tempered) -> Array:
        return anchor.tempered.is_proper()


@final
@pytree
class PriorAnchor:
    """The prior for the batch and the share of the past in it."""

    tempered: Blocks
    rho: Array


class AbstractSinglePrior(AbstractTempered[PriorAnchor]):
    """A policy that settles the batch's prior before seeing the batch: ``open`` is all there is to write."""

    @final
    def weigh(
        self, anchor: PriorAnchor, belief: AbstractBelief, expectations: Mapping[str, Any]
    ) -> Array:
        del expectations
        return total(belief.summary().kl(anchor.tempered))

    @final
    def refine(self, anchor: PriorAnchor, weighed: Array) -> PriorAnchor:
        del weighed
        return anchor

    @final
    def divergence(self, anchor: PriorAnchor, weighed: Array) -> Array:
        del anchor
        return weighed

    @final
    def close(
        self, anchor: PriorAnchor, belief: AbstractBelief, clock: Clock
    ) -> tuple[Blocks, Report]:
        del clock
        return belief.summary(), Report(rho=anchor.rho, omega=None)


def total(per_block: Mapping[str, Array]) -> Array:
    """Sum over all blocks."""
    return xp.stack([values.sum() for values in per_block.values()]).sum()


def settle_numbers(policy: AbstractForgetting[Any, Any]) -> None:
    """Turn the numbers among a policy's fields into floats, whatever they were given as; refuse what is none."""
    for field in dataclasses.fields(policy):  # type: ignore[arg-type]  # a definition is a dataclass
        value = getattr(policy, field.name)
        if not field.metadata.get("number") or (value is None and field.default is None):
            continue
        if not isinstance(value, int | float | np.number | Array):
            message = f"{type(policy).__name__}: {field.name} must be a number, got {value!r}"
            raise TypeError(message)
        if not isinstance(value, Array):
            try:
                object.__setattr__(policy, field.name, float(value))
            except OverflowError:
                message = (
                    f"{type(policy).__name__}: {field.name} is too large for a number of float64"
                )
                raise ValueError(message) from None


def unit_interval(policy: str, name: str, value: float) -> None:
    """Raise unless the value lies in [0, 1]."""
    if not 0.0 <= value <= 1.0:  # NaN too
        message = f"{policy}: {name} must lie in [0, 1], got {value}"
        raise ValueError(message)
