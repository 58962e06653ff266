"""The law of the bound: it never falls."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streambayes._core.batch import Batch
from streambayes._core.precision import in_float64
from streambayes._core.scale import Scale
from streambayes.forgetting import Clock
from streambayes.learning import StreamLearner, sweep
from streambayes.learning._compiled import standardised
from streambayes.learning._intake import pad, read_rows
from streambayes.testing._law import broken

__all__ = ["check_climb", "internal_rows"]


@in_float64
def check_climb(learner: StreamLearner, batches: Sequence[Mapping[str, Any]]) -> None:
    """The bound never falls, from sweep to sweep and when the policy is refined after every second."""
    model, policy = learner.model, learner.forgetting
    opened, row_pass = jax.jit(policy.open), jax.jit(model.row_pass)

    @jax.jit
    def one_sweep(batch: Batch, anchor: Any, belief: Any, rows: Any) -> tuple[Any, ...]:
        belief, rows, bound = sweep(model, policy, batch, anchor, belief, rows)
        return (
            belief,
            rows,
            bound,
            policy.refine(anchor, policy.weigh(anchor, belief, belief.expectations())),
        )

    state = learner.init(batches[0])
    for columns in batches:
        batch = internal_rows(learner, state.scale, columns)
        seen = jnp.asarray(state.rows_seen)
        clock = Clock(rows=model.num_observations(batch), rows_seen=seen, elapsed=jnp.zeros(()))
        anchor = opened(state.memory, state.prior, clock)
        belief: Any = state.belief
        rows = row_pass(belief.expectations(), batch, model.init_local(batch))
        last = -np.inf
        for number in range(10):
            belief, rows, bound, refined = one_sweep(batch, anchor, belief, rows)
            if not float(bound) >= last - 1e-10 * (abs(last) + 1.0):
                broken(f"the bound never falls: {last} then {float(bound)}")
            last = float(bound)
            if number % 2:
                anchor = refined
        state, _ = learner.step(state, columns)


def internal_rows(learner: StreamLearner, scale: Scale, columns: Mapping[str, Any]) -> Batch:
    """Rows as a model's compiled code reads them."""
    model = learner.model
    padded = pad(read_rows(model, model.columns, columns), model.columns)
    batch: Batch = jax.tree.map(
        jnp.asarray, standardised(model, padded, scale.shift, scale.factor)[0]
    )
    return batch
