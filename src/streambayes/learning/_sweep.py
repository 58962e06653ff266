"""The only coordinate-ascent loop in the library."""

from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
from jax import Array

from streambayes._core.batch import Batch
from streambayes.families import AbstractBelief
from streambayes.forgetting import AbstractForgetting
from streambayes.learning._rows import blank_summary, cut_batch, init_local, pass_rows
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
    last_bound: Array
    round_bound: Array
    fall: Array
    num_sweeps: Array
    num_rounds: Array


def sweep(
    model: Model, policy: Policy, batch: Batch, anchor: Any, belief: AbstractBelief, rows: Any
) -> tuple[AbstractBelief, Any, Array]:
    """One pass over rows (where they have hidden variables) and blocks; the bound it reaches.

    ``rows`` is the pair of hidden variables and sums that ``pass_rows`` returns.
    """
    local, summary = rows
    if model.has_hidden(batch):
        local, summary = pass_rows(model, belief.expectations(), batch, local)
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
) -> tuple[Ascent, Array]:
    """Sweep until the bound settles; refine the policy; go on from there until it settles again.

    The bound has settled when it gains at most ``tolerance``. Where one sweep is exact (no hidden
    variables, no coupled blocks) it has settled after every sweep. Returns where it ended, and
    whether the bound has settled there.
    """
    batch = cut_batch(batch)
    exact = not model.has_hidden(batch) and not model.is_coupled
    once = not policy.maximises_bound or (exact and policy.max_rounds == 1)

    def verdict(at: Ascent) -> tuple[Array, Array, Array]:
        """Whether the sweeps have settled, whether the rounds have, and whether to stop."""
        begun = at.num_sweeps > 0
        swept = begun if exact else begun & ~(at.bound - at.last_bound > tolerance)
        settled = swept
        if policy.max_rounds > 1:
            settled = swept & ~(at.bound - at.round_bound > tolerance)
        over = swept & (at.num_rounds >= policy.max_rounds)
        return swept, settled, settled | over | (at.num_sweeps >= max_sweeps)

    # what follows from the bound is worked out when the next turn begins: within a turn, every result
    # of the loop that needs it would repeat its whole program
    def body(at: Ascent) -> Ascent:
        refining, _, _ = verdict(at)
        anchor = at.anchor
        if policy.max_rounds > 1:
            anchor = jax.lax.cond(
                refining, policy.refine, lambda anchor, _: anchor, at.anchor, at.belief
            )
        belief, rows, bound = sweep(model, policy, batch, anchor, at.belief, (at.local, at.summary))
        return Ascent(
            belief=belief,
            local=rows[0],
            summary=rows[1],
            anchor=anchor,
            bound=bound,
            last_bound=at.bound,
            round_bound=jnp.where(refining, at.bound, at.round_bound),
            fall=_fall(at),
            num_sweeps=at.num_sweeps + 1,
            num_rounds=at.num_rounds + refining,
        )

    local, summary = _before(model, batch, belief)
    start = Ascent(
        belief=belief,
        local=local,
        summary=summary,
        anchor=anchor,
        bound=jnp.full((), -jnp.inf),
        last_bound=jnp.full((), -jnp.inf),
        round_bound=jnp.full((), -jnp.inf),
        fall=jnp.zeros(()),
        num_sweeps=jnp.zeros((), int),
        num_rounds=jnp.ones((), int),
    )
    if once:
        return body(start), jnp.ones((), bool)
    end = jax.lax.while_loop(lambda at: ~verdict(at)[2], body, start)
    return end._replace(fall=_fall(end)), verdict(end)[1]


def _fall(at: Ascent) -> Array:
    """The most that the bound has fallen from one sweep to the next; rounding, if all is right."""
    return jnp.where(at.num_sweeps > 1, jnp.maximum(at.fall, at.last_bound - at.bound), 0.0)


def _before(model: Model, batch: Batch, belief: AbstractBelief) -> tuple[Any, Any]:
    """Hidden variables and sums before the first sweep, which starts with the rows if they hide any."""
    local = init_local(model, batch)
    if not model.has_hidden(batch):
        return pass_rows(model, belief.expectations(), batch, local)
    return local, blank_summary(model, belief.expectations(), batch, local)
