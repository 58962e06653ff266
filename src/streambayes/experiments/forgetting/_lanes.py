"""Many generated streams side by side: learned, tested and noted in one compiled call."""

import functools
from collections.abc import Sequence
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.batch import Batch
from streambayes._core.precision import float64_scope
from streambayes._core.program import Program
from streambayes.forgetting import AbstractForgetting
from streambayes.learning import StreamLearner
from streambayes.learning._compiled import scorer, settings_of, stepper
from streambayes.learning._intake import padded_size
from streambayes.learning._rows import BLOCK

__all__ = ["Lanes", "follow", "release"]


class Lanes(NamedTuple):
    """What became of streams, shape (num_policies, num_streams, num_batches) each.

    Attributes:
        bound: Log evidence of each batch for policies that have a prior for it; the bound of others.
        test: Log predictive density of the rows beside each batch, after learning it; summed.
        forecast: Log density of the rows of each batch before learning it, as ``predict`` predicts them; summed.
        retained: Rows retained after it.
    """

    bound: np.ndarray
    test: np.ndarray
    forecast: np.ndarray
    retained: np.ndarray


def follow(
    learner: StreamLearner,
    policies: Sequence[AbstractForgetting[Any, Any]],
    learned: np.ndarray,
    tested: np.ndarray,
    batch_size: int,
    entry: str,
    *,
    test_size: int | None = None,
) -> Lanes:
    """Learn streams batch by batch, all from the prior and in the user's units.

    Args:
        learner: Model, prior and settings; units are those of the user.
        policies: Policies that differ from the learner's in numbers alone.
        learned: Rows, shape (num_streams, num_columns, num_rows).
        tested: Rows to score after each batch, likewise.
        batch_size: Rows of a batch.
        entry: The blocks whose retained rows are wanted; the first of them.
        test_size: Rows that are scored after each batch; as many as are learned by default.
    """
    names = [column.name for column in learner.model.columns]
    first = {name: learned[0, place, :batch_size] for place, name in enumerate(names)}
    state = learner.init(first)
    settings = [settings_of(policy, learner.tolerance, learner.max_sweeps) for policy in policies]
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *settings)
    with float64_scope():
        found = _program(learner.model, learner.forgetting, entry)(
            stacked,
            state,
            _cut(learned, batch_size),
            _cut(tested, test_size or batch_size),
            np.int64(batch_size),
            np.int64(test_size or batch_size),
        )
        return Lanes(*(np.asarray(part) for part in found))


def release() -> None:
    """Let go of compiled programs: a process has room for some hundreds."""
    _program.cache_clear()
    jax.clear_caches()  # type: ignore[no-untyped-call]


@functools.cache
def _program(model: Any, policy: AbstractForgetting[Any, Any], entry: str) -> Program:
    steps, scores = stepper(model, policy), scorer(model)
    names = tuple(column.name for column in model.columns)

    def stream(settings: Any, state: Any, learned: Array, tested: Array, *sizes: Array) -> Any:
        forgets = steps.policy_of(settings)
        units = state.scale.shift, state.scale.factor

        def one(at: tuple[Any, Any, Array], rows: tuple[Array, Array]) -> Any:
            memory, belief, seen = at
            batch, other = (
                Batch(values=part, num_rows=size, columns=names)
                for part, size in zip(rows, sizes, strict=True)
            )
            _, forecast = scores.scored(forgets.forecast(memory, belief), *units, batch)
            memory, _, facts = steps.learned(
                settings, memory, belief, state.prior, *units, batch, seen, jnp.zeros(())
            )
            belief = forgets.belief(memory)
            _, density = scores.scored(belief, *units, other)
            retained = facts.retained[entry].ravel()[0]
            seen = seen + facts.num_observations
            noted = (facts.bound, density, forecast, retained)
            return (memory, belief, seen), noted

        start = (state.memory, state.belief, jnp.zeros(()))
        return jax.lax.scan(one, start, (learned, tested))[1]

    over_streams = jax.vmap(stream, in_axes=(None, None, 0, 0, None, None))
    return Program(jax.vmap(over_streams, in_axes=(0, *(None,) * 5)))


def _cut(rows: np.ndarray, batch_size: int) -> np.ndarray:
    """Padded batches: (num_streams, num_batches, num_columns, num_padded)."""
    num_streams, num_columns, num_rows = rows.shape
    cut = rows[:, :, : num_rows - num_rows % batch_size]
    cut = cut.reshape(num_streams, num_columns, -1, batch_size).swapaxes(1, 2)
    padded = batch_size if batch_size < BLOCK else padded_size(batch_size)
    return np.pad(cut, ((0, 0), (0, 0), (0, 0), (0, padded - batch_size)))
