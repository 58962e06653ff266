"""Damped steps towards a population: PVB, and SVI for a stream of known size."""

import abc
from collections.abc import Mapping
from typing import Any, ClassVar, final

from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.pytree import definition, number, pytree
from streambayes.families import AbstractBelief, Blocks, Point
from streambayes.forgetting._base import AbstractForgetting, Clock, Report, settle_numbers

__all__ = ["PVB", "SVI"]


@final
@pytree
class PopulationMemory:
    """The posterior and the number of steps taken."""

    blocks: Blocks
    num_steps: Array


@final
@pytree
class PopulationAnchor:
    """Where a step starts, what it is pulled to without data, and how far it goes."""

    previous: Blocks
    prior: Blocks
    num_steps: Array
    step_size: Array
    amplification: Array


class AbstractPopulation(AbstractForgetting[PopulationMemory, PopulationAnchor]):
    r"""One damped step per minibatch $B$, as if it stood for a population of $M$ rows:

    $$\lambda \leftarrow (1 - \nu)\lambda + \nu(\alpha_u + (M / |B|) \sum_i E[t_i]).$$

    No per-batch bound is climbed, and models whose blocks are coupled are refused. Retained data
    tends to $M$ rows.
    """

    maximises_bound: ClassVar[bool] = False

    @abc.abstractmethod
    def rows_stood_for(self) -> float:
        """$M$."""

    @abc.abstractmethod
    def step_size_after(self, num_steps: Array) -> Array:
        r"""$\nu$ of the next step."""

    @final
    def init(self, prior: Blocks) -> PopulationMemory:
        return PopulationMemory(blocks=prior, num_steps=xp.zeros(()))

    @final
    def belief(self, memory: PopulationMemory) -> AbstractBelief:
        return Point(memory.blocks)

    @final
    def restart(
        self, memory: PopulationMemory, prior: Blocks, chosen: Mapping[str, Any]
    ) -> PopulationMemory:
        blocks = prior.select(dict(chosen), memory.blocks)
        return PopulationMemory(blocks=blocks, num_steps=memory.num_steps)

    @final
    def open(self, memory: PopulationMemory, prior: Blocks, clock: Clock) -> PopulationAnchor:
        return PopulationAnchor(
            previous=memory.blocks,
            prior=prior,
            num_steps=memory.num_steps,
            step_size=self.step_size_after(memory.num_steps),
            amplification=self.rows_stood_for() / xp.maximum(clock.rows, 1.0),
        )

    @final
    def update(self, anchor: PopulationAnchor, belief: AbstractBelief, messages: Blocks) -> Point:
        names = messages.params
        target = anchor.prior.only(names) + messages.scaled(anchor.amplification)
        stepped = target.lerp(anchor.previous.only(names), anchor.step_size)
        return Point(belief.summary().replaced(stepped))

    @final
    def weigh(
        self, anchor: PopulationAnchor, belief: AbstractBelief, expectations: Mapping[str, Any]
    ) -> None:
        del anchor, belief, expectations

    @final
    def refine(self, anchor: PopulationAnchor, weighed: None) -> PopulationAnchor:
        del weighed
        return anchor

    @final
    def divergence(self, anchor: PopulationAnchor, weighed: None) -> Array:
        del anchor, weighed
        return xp.full((), xp.nan)

    @final
    def is_proper(self, anchor: PopulationAnchor) -> Array:
        return anchor.previous.is_proper()

    @final
    def close(
        self, anchor: PopulationAnchor, belief: AbstractBelief, clock: Clock
    ) -> tuple[PopulationMemory, Report]:
        del clock
        memory = PopulationMemory(blocks=belief.summary(), num_steps=anchor.num_steps + 1.0)
        return memory, Report(rho=None, omega=None)


@final
@definition
class PVB(AbstractPopulation):
    """Population variational Bayes.

    Args:
        population_size: The rows that the posterior stands for.
        step_size: How far each step goes, in (0, 1].
        minibatch_size: Rows per step; the whole batch by default.
    """

    population_size: float = number()
    step_size: float = number()
    minibatch_size: int | None = None

    def __post_init__(self) -> None:
        settle_numbers(self)
        _check("PVB", "population_size", self.population_size, self.minibatch_size)
        _check_step_size("PVB", self.step_size)

    @property
    def name(self) -> str:
        return f"PVB {self.population_size:g}, {self.step_size:g}{_per(self.minibatch_size)}"

    def rows_stood_for(self) -> float:
        return self.population_size

    def step_size_after(self, num_steps: Array) -> Array:
        return xp.full_like(num_steps, self.step_size)


@final
@definition
class SVI(AbstractPopulation):
    r"""Stochastic variational inference over a stream of known size.

    Step t = 1, 2, ... has size $(t + \mathrm{delay})^{-\mathrm{decay}}$, or ``step_size`` where that is given.

    Args:
        num_rows: The rows of the whole stream.
        delay: Slows the first steps down; at least 0.
        decay: How fast steps shrink, in (0.5, 1] for convergence.
        step_size: A constant step size in (0, 1] instead of the schedule.
        minibatch_size: Rows per step; the whole batch by default.
    """

    num_rows: float = number()
    delay: float = number(default=1.0)
    decay: float = number(default=0.7)
    step_size: float | None = number(default=None)
    minibatch_size: int | None = None

    def __post_init__(self) -> None:
        settle_numbers(self)
        _check("SVI", "num_rows", self.num_rows, self.minibatch_size)
        if self.step_size is not None:
            _check_step_size("SVI", self.step_size)
        if not 0.0 <= self.delay < float("inf"):
            message = f"SVI: delay must be at least 0 and finite, got {self.delay}"
            raise ValueError(message)
        if not 0.5 < self.decay <= 1.0:
            message = f"SVI: decay must lie in (0.5, 1], got {self.decay}"
            raise ValueError(message)

    @property
    def name(self) -> str:
        size = (
            f"{self.delay:g}, {self.decay:g}" if self.step_size is None else f"{self.step_size:g}"
        )
        return f"SVI {self.num_rows:g}, {size}{_per(self.minibatch_size)}"

    def rows_stood_for(self) -> float:
        return self.num_rows

    def step_size_after(self, num_steps: Array) -> Array:
        if self.step_size is not None:
            return xp.full_like(num_steps, self.step_size)
        return (num_steps + 1.0 + self.delay) ** -self.decay


def _per(minibatch_size: int | None) -> str:
    return "" if minibatch_size is None else f" per {minibatch_size}"


def _check(policy: str, name: str, size: float, minibatch_size: int | None) -> None:
    if not 0.0 < size < float("inf"):
        message = f"{policy}: {name} must be positive and finite, got {size}"
        raise ValueError(message)
    if minibatch_size is not None and not (isinstance(minibatch_size, int) and minibatch_size >= 1):
        message = (
            f"{policy}: minibatch_size must be a whole number and at least 1, got {minibatch_size}"
        )
        raise ValueError(message)


def _check_step_size(policy: str, step_size: float) -> None:
    if not 0.0 < step_size <= 1.0:
        message = f"{policy}: step_size must lie in (0, 1], got {step_size}"
        raise ValueError(message)
