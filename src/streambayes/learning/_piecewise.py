"""A batch in pieces, one after the other or side by side: their sums go into the same loop as those of rows in memory."""

import functools
import os
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Protocol, final

import jax
import numpy as np

from streambayes._core.batch import Batch
from streambayes._core.precision import float64_scope
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief
from streambayes.forgetting import Clock
from streambayes.learning._anderson import Jumps
from streambayes.learning._compiled import Laid, Piece, Settings, Stepper
from streambayes.learning._state import LearnerState

__all__ = ["Pass", "PiecePasses", "cores", "learn_parts", "learn_pieces"]


class Pass(Protocol):
    """A pass over all rows of a batch, given a belief: what they add up to, and whether they hide variables."""

    @property
    def keeps(self) -> bool:
        """Whether a pass starts from the hidden variables of the one before."""

    def __call__(self, belief: AbstractBelief) -> tuple[Piece, bool]: ...


@final
class PiecePasses:
    """Passes over pieces in memory, one after the other.

    Hidden variables that the next pass starts from stay in memory.

    Args:
        stepper: The compiled step.
        scale: The units of the state.
        read: The pieces, the same whenever they are asked for.
    """

    def __init__(self, stepper: Stepper, scale: Scale, read: Callable[[], Iterable[Batch]]) -> None:
        self._stepper = stepper
        self._units = scale.shift, scale.factor
        self._read = read
        self._held: dict[int, Any] | None = None
        self.keeps = False

    def __call__(self, belief: AbstractBelief) -> tuple[Piece, bool]:
        before = self._held or {}
        held: dict[int, Any] = {}
        total, hides = None, False
        for number, batch in enumerate(self._read()):
            local, piece = self._stepper.pass_piece(belief, *self._units, batch, before.get(number))
            piece = jax.tree.map(np.asarray, piece)
            total = piece if total is None else jax.tree.map(np.add, total, piece)
            held[number] = local
            hides = hides or self._stepper.model.has_hidden(batch)
        if total is None or len(held) != len(self._held or held):
            message = "the pieces of the batch have changed while it was learned"
            raise ValueError(message)
        self._held = held
        self.keeps = any(local is not None for local in held.values())
        return total, hides


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def learn_pieces(
    stepper: Stepper,
    settings: Settings,
    state: LearnerState,
    passed: Pass,
    elapsed: float,
    *,
    accelerate: bool = False,
    on_sweep: Callable[[int, float], None] | None = None,
) -> tuple[Any, Any, Any]:
    """What ``Stepper.learn`` returns, for the batch that all pieces are together.

    One pass over the pieces for each sweep, one in all where rows hide nothing.

    Args:
        stepper: The compiled step.
        settings: The learner's numbers.
        state: The state before the batch.
        passed: A pass over the pieces.
        elapsed: Time since the last batch.
        accelerate: Whether sweeps are extrapolated, where they can be.
        on_sweep: Called with their number and the bound after each.
    """
    total, hides = passed(state.belief)
    clock = Clock(
        rows=total.num_observations,
        rows_seen=state.rows_seen,
        elapsed=np.float64(elapsed),  # type: ignore[arg-type]
    )
    anchor, at = stepper.begin(
        settings, state.memory, state.belief, state.prior, clock, hides=hides
    )
    jumps = Jumps(settings.tolerance * max(float(total.num_observations), 1.0))
    leaps = accelerate and hides and not passed.keeps
    summary = total.summary
    while True:
        after, is_over = stepper.turn(settings, at, summary, clock, hides=hides)
        if leaps:
            at, is_over = jumps.judged(at, after, is_over=bool(is_over))
        else:
            at = after
        if on_sweep is not None:
            on_sweep(int(at.num_sweeps), float(at.bound))
        if is_over or at.num_sweeps >= settings.max_sweeps:
            break
        if leaps:
            at = jumps.onward(at)
        if hides:
            summary = passed(at.belief)[0].summary
    found: tuple[Any, Any, Any] = stepper.finish(
        settings,
        state.memory,
        anchor,
        at,
        summary,
        clock,
        total.log_jacobian,
        hides=hides,
    )
    return found


def learn_parts(
    stepper: Stepper,
    settings: Settings,
    state: LearnerState,
    parts: Sequence[Batch],
    elapsed: float,
) -> tuple[Any, Any, Any]:
    """What ``Stepper.learn`` returns, for a batch in parts that threads pass over side by side.

    XLA runs a loop over blocks on one core. Each thread takes the same turn from the sums of all parts, then
    passes over its own part.

    Args:
        stepper: The compiled step.
        settings: The learner's numbers.
        state: The state before the batch.
        parts: The rows, which hide variables.
        elapsed: Time since the last batch.
    """
    found = [
        stepper.lay_out(state.belief, state.scale.shift, state.scale.factor, part) for part in parts
    ]
    laid: list[Laid] = [each for each, _ in found]
    total = functools.reduce(
        lambda one, other: jax.tree.map(np.add, one, other), [piece for _, piece in found]
    )
    clock = Clock(
        rows=total.num_observations,
        rows_seen=state.rows_seen,
        elapsed=np.float64(elapsed),  # type: ignore[arg-type]
    )
    anchor, at = stepper.begin(settings, state.memory, state.belief, state.prior, clock, hides=True)
    summaries = [piece.summary for _, piece in found]
    given = jax.device_put((settings, clock))  # once, not with every turn

    def turned(number: int) -> tuple[Any, bool, Any]:
        """One part's turn: where the loop stands, whether that is the end, and the part's sums."""
        with float64_scope():
            batch, local = laid[number]
            after, is_over, new, sums = stepper.turn_laid(
                given[0], at, summaries, given[1], batch, local
            )
            if new is not None:
                laid[number] = Laid(batch, new)
            return after, bool(is_over), sums  # which are there once it is known whether it is over

    numbers = range(len(parts))
    with ThreadPoolExecutor(len(parts) - 1) as threads:
        turns = [turned(number) for number in numbers]  # the first compiles for all
        while not turns[0][1]:
            at, _, _ = turns[0]
            summaries = [sums for _, _, sums in turns]
            others = [threads.submit(turned, number) for number in numbers[1:]]
            turns = [turned(0), *(other.result() for other in others)]
    at, _, _ = turns[0]
    summary = jax.tree.map(lambda *each: functools.reduce(np.add, each), *summaries)
    learned: tuple[Any, Any, Any] = stepper.finish(
        settings,
        state.memory,
        anchor,
        at,
        summary,
        clock,
        total.log_jacobian,
        hides=True,
    )
    return learned
