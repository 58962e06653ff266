"""A batch that is learned piece by piece: sums of the pieces go into the same loop as those of rows in memory."""

from collections.abc import Callable, Iterable
from typing import Any

import jax
import numpy as np

from streambayes._core.batch import Batch
from streambayes.forgetting import Clock
from streambayes.learning._compiled import Piece, Settings, Stepper
from streambayes.learning._state import LearnerState

__all__ = ["learn_pieces"]


def learn_pieces(
    stepper: Stepper,
    settings: Settings,
    state: LearnerState,
    read: Callable[[], Iterable[Batch]],
    elapsed: float,
) -> tuple[Any, Any]:
    """What ``Stepper.learn`` returns, for the batch that all pieces are together.

    One pass over the pieces for each sweep, one in all where rows hide nothing. Hidden variables that the
    next pass starts from stay in memory.

    Args:
        stepper: The compiled step.
        settings: The learner's numbers.
        state: The state before the batch.
        read: The pieces, the same whenever they are asked for.
        elapsed: Time since the last batch.
    """
    units = state.scale.shift, state.scale.factor

    def passed(belief: Any, locals_: dict[int, Any] | None) -> tuple[dict[int, Any], Piece, bool]:
        held: dict[int, Any] = {}
        total, hides = None, False
        for number, batch in enumerate(read()):
            local = (locals_ or {}).get(number)
            local, piece = stepper.pass_piece(belief, *units, batch, local)
            piece = jax.tree.map(np.asarray, piece)
            total = piece if total is None else jax.tree.map(np.add, total, piece)
            held[number] = local
            hides = hides or stepper.model.has_hidden(batch)
        if total is None or len(held) != len(locals_ or held):
            message = "the pieces of the batch have changed while it was learned"
            raise ValueError(message)
        return held, total, hides

    held, total, hides = passed(state.belief, None)
    clock = Clock(
        rows=total.num_observations,
        rows_seen=state.rows_seen,
        elapsed=np.float64(elapsed),  # type: ignore[arg-type]
    )
    anchor, at = stepper.begin(
        settings, state.memory, state.belief, state.prior, clock, hides=hides
    )
    summary = total.summary
    while True:
        at, is_over = stepper.turn(settings, at, summary, clock, hides=hides)
        if is_over:
            break
        if hides:
            held, swept, _ = passed(at.belief, held)
            summary = swept.summary
    found: tuple[Any, Any] = stepper.finish(
        settings,
        state.memory,
        state.prior,
        anchor,
        at,
        clock,
        total.log_jacobian,
        hides=hides,
    )
    return found
