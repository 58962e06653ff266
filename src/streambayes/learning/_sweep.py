"""The only coordinate-ascent loop in the library."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from streambayes._core.batch import Batch
from streambayes.families import AbstractBelief
from streambayes.forgetting import AbstractForgetting
from streambayes.models import AbstractModel

__all__ = ["Ascent", "ascend", "sweep"]

Model = AbstractModel[Any, Any]
Policy = AbstractForgetting[Any, Any]


class Ascent(NamedTuple):
    """Where the loop stands; all scalars but the first four."""

    belief: AbstractBelief
    local: Any
    summary: Any
    anchor: Any
    bound: Array
    round_bound: Array
    num_sweeps: Array
    num_rounds: Array
    settled: Array
    done: Array


def sweep(
    model: Model, policy: Policy, batch: Batch, anchor: Any, belief: AbstractBelief, rows: Any
) -> tuple[AbstractBelief, Any, Array]:
    """One pass over rows (where they have hidden variables) and blocks; the bound it reaches.

    ``rows`` is the pair of hidden variables and sums that ``model.row_pass`` returns.
    """
    local, summary = rows
    if model.uses_local:
        local, summary = model.row_pass(belief.expectations(), batch, local)
    for names in model.update_order:
        messages = model.messages(belief.expectations(), summary, names)
        belief = policy.update(anchor, belief, messages)
    joint = model.expected_log_joint(belief.expectations(), summary)
    return belief, (local, summary), joint - policy.divergence(anchor, belief)


def ascend(
    model: Model,
    policy: Policy,
    batch: Batch,
    anchor: Any,
    belief: AbstractBelief,
    *,
    tolerance: Array,
    max_sweeps: int,
) -> Ascent:
    """Sweep until the bound settles; refine the policy; go on from there until it settles again.

    The bound has settled when it gains at most ``tolerance``. Where one sweep is exact (no hidden
    variables, no coupled blocks) it has settled after every sweep.
    """
    exact = not model.uses_local and not model.is_coupled
    single = not policy.maximises_bound

    def body(at: Ascent) -> Ascent:
        belief, rows, bound = sweep(
            model, policy, batch, at.anchor, at.belief, (at.local, at.summary)
        )
        swept = jnp.ones((), bool) if exact else ~(bound - at.bound > tolerance)
        settled = swept & ~(bound - at.round_bound > tolerance)
        out_of_rounds = swept & (at.num_rounds >= policy.max_rounds)
        out_of_sweeps = at.num_sweeps + 1 >= max_sweeps
        if single or (exact and policy.max_rounds == 1):
            settled = out_of_rounds = jnp.ones((), bool)
        done = settled | out_of_rounds | out_of_sweeps
        refining = swept & ~done
        anchor = at.anchor
        if policy.max_rounds > 1:
            anchor = jax.tree.map(
                lambda new, old: jnp.where(refining, new, old),
                policy.refine(at.anchor, belief),
                at.anchor,
            )
        return Ascent(
            belief=belief,
            local=rows[0],
            summary=rows[1],
            anchor=anchor,
            bound=bound,
            round_bound=jnp.where(refining, bound, at.round_bound),
            num_sweeps=at.num_sweeps + 1,
            num_rounds=at.num_rounds + refining,
            settled=settled,
            done=done,
        )

    local, summary = model.row_pass(belief.expectations(), batch, model.init_local(batch))
    start = Ascent(
        belief=belief,
        local=local,
        summary=summary,
        anchor=anchor,
        bound=jnp.full((), -jnp.inf),
        round_bound=jnp.full((), -jnp.inf),
        num_sweeps=jnp.zeros((), int),
        num_rounds=jnp.ones((), int),
        settled=jnp.zeros((), bool),
        done=jnp.zeros((), bool),
    )
    if single or (exact and policy.max_rounds == 1):
        return body(start)
    return jax.lax.while_loop(lambda at: ~at.done, body, start)
