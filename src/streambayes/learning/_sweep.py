"""The only coordinate-ascent loop in the library."""

from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
from jax import Array

from streambayes._core.batch import Batch
from streambayes.families import AbstractBelief
from streambayes.forgetting import AbstractForgetting
from streambayes.learning._rows import blank, blank_summary, cut_batch, init_local, pass_rows
from streambayes.models import AbstractModel

__all__ = ["Ascender", "Ascent", "ascend", "sweep"]

Model = AbstractModel[Any, Any]
Policy = AbstractForgetting[Any, Any]


class Ascent(NamedTuple):
    """Where the loop stands; all scalars but the first six."""

    belief: AbstractBelief
    expectations: Any
    local: Any
    summary: Any
    anchor: Any
    weighed: Any
    bound: Array
    last_bound: Array
    round_bound: Array
    fall: Array
    num_sweeps: Array
    num_rounds: Array


@final
class Ascender:
    """The moves of the loop: one turn is a pass over rows, by the caller, and what follows from its sums.

    The bound has settled when it gains at most ``tolerance``. Where one sweep is exact (no hidden
    variables, no coupled blocks) it has settled after every sweep.

    Args:
        model: The model.
        policy: The policy.
        hides: Whether rows hide variables; if not, one pass over them serves all turns.
        tolerance: A scalar.
        max_sweeps: The most turns, a scalar.
    """

    def __init__(
        self, model: Model, policy: Policy, *, hides: bool, tolerance: Array, max_sweeps: Array
    ) -> None:
        self._model = model
        self._policy = policy
        self._tolerance = tolerance
        self._max_sweeps = max_sweeps
        self._exact = not hides and not model.is_coupled
        self.once = not policy.maximises_bound or (self._exact and policy.max_rounds == 1)

    def begin(self, anchor: Any, belief: AbstractBelief, local: Any, summary: Any) -> Ascent:
        """Before the first turn."""
        return Ascent(
            belief=belief,
            expectations=belief.expectations(),
            local=local,
            summary=summary,
            anchor=anchor,
            weighed=blank(self._weigh, anchor, belief),
            bound=jnp.full((), -jnp.inf, float),
            last_bound=jnp.full((), -jnp.inf, float),
            round_bound=jnp.full((), -jnp.inf, float),
            fall=jnp.zeros(()),
            num_sweeps=jnp.zeros((), int),
            num_rounds=jnp.ones((), int),
        )

    # what follows from the bound is worked out when the next turn begins: within a turn, every result
    # of the loop that needs it would repeat its whole program
    def turn(self, at: Ascent, local: Any, summary: Any) -> Ascent:
        """After a pass over the rows with the belief where it stands: refine if it had settled, then sweep."""
        policy = self._policy
        refining, _, _ = self._verdict(at)
        anchor = at.anchor
        if policy.max_rounds > 1:
            anchor = jax.lax.cond(
                refining, policy.refine, lambda anchor, _: anchor, at.anchor, at.weighed
            )
        belief, expectations, weighed, bound = _blocks(
            self._model, policy, anchor, at.belief, at.expectations, summary
        )
        return Ascent(
            belief=belief,
            expectations=expectations,
            local=local,
            summary=summary,
            anchor=anchor,
            weighed=weighed,
            bound=bound,
            last_bound=at.bound,
            round_bound=jnp.where(refining, at.bound, at.round_bound),
            fall=_fall(at),
            num_sweeps=at.num_sweeps + 1,
            num_rounds=at.num_rounds + refining,
        )

    def _weigh(self, anchor: Any, belief: AbstractBelief) -> Any:
        return self._policy.weigh(anchor, belief, belief.expectations())

    def is_over(self, at: Ascent) -> Array:
        """Whether no further turn is due."""
        return jnp.ones((), bool) if self.once else self._verdict(at)[2]

    def end(self, at: Ascent) -> tuple[Ascent, Array]:
        """Where it ended, and whether the bound has settled there."""
        if self.once:
            return at, jnp.ones((), bool)
        return at._replace(fall=_fall(at)), self._verdict(at)[1]

    def _verdict(self, at: Ascent) -> tuple[Array, Array, Array]:
        """Whether the sweeps have settled, whether the rounds have, and whether to stop."""
        begun = at.num_sweeps > 0
        swept = begun if self._exact else begun & ~(at.bound - at.last_bound > self._tolerance)
        settled = swept
        if self._policy.max_rounds > 1:
            settled = swept & ~(at.bound - at.round_bound > self._tolerance)
        over = swept & (at.num_rounds >= self._policy.max_rounds)
        return swept, settled, settled | over | (at.num_sweeps >= self._max_sweeps)


def sweep(
    model: Model, policy: Policy, batch: Batch, anchor: Any, belief: AbstractBelief, rows: Any
) -> tuple[AbstractBelief, Any, Array]:
    """One pass over rows (where they have hidden variables) and blocks; the bound it reaches.

    ``rows`` is the pair of hidden variables and sums that ``pass_rows`` returns.
    """
    expectations = belief.expectations()
    local, summary = _passed(model, batch, expectations, *rows)
    belief, _, _, bound = _blocks(model, policy, anchor, belief, expectations, summary)
    return belief, (local, summary), bound


def _passed(
    model: Model, batch: Batch, expectations: Mapping[str, Any], local: Any, summary: Any
) -> tuple[Any, Any]:
    if not model.has_hidden(batch):
        return local, summary
    return pass_rows(model, expectations, batch, local)


def _blocks(
    model: Model,
    policy: Policy,
    anchor: Any,
    belief: AbstractBelief,
    expectations: Mapping[str, Any],
    summary: Any,
) -> tuple[AbstractBelief, Mapping[str, Any], Any, Array]:
    """All blocks in turn, given the sums over rows; the belief and its expectations, as weighed, and the bound that is reached."""
    for names in model.update_order:
        messages = model.messages(expectations, summary, names)
        belief = policy.update(anchor, belief, messages)
        expectations = belief.expectations()
    joint = model.expected_log_joint(expectations, summary)
    weighed = policy.weigh(anchor, belief, expectations)
    return belief, expectations, weighed, joint - policy.divergence(anchor, weighed)


def ascend(
    model: Model,
    policy: Policy,
    batch: Batch,
    anchor: Any,
    belief: AbstractBelief,
    *,
    tolerance: Array,
    max_sweeps: Array,
    summary: Any = None,
) -> tuple[Ascent, Array]:
    """Sweep until the bound settles; refine the policy; go on from there until it settles again.

    ``summary`` has the sums over rows that hide nothing, if they are known.
    Returns where it ended, and whether the bound has settled there.
    """
    hides = model.has_hidden(batch)
    expectations = belief.expectations()
    climb = Ascender(model, policy, hides=hides, tolerance=tolerance, max_sweeps=max_sweeps)
    local = None
    if hides or summary is None:
        batch = cut_batch(model, expectations, batch)

    def body(at: Ascent) -> Ascent:
        return climb.turn(at, *_passed(model, batch, at.expectations, at.local, at.summary))

    if hides:
        local = init_local(model, batch)
        summary = blank_summary(model, expectations, batch, local)
    elif summary is None:
        local, summary = pass_rows(model, expectations, batch, init_local(model, batch))
    start = climb.begin(anchor, belief, local, summary)
    if climb.once:
        return climb.end(body(start))
    return climb.end(jax.lax.while_loop(lambda at: ~climb.is_over(at), body, start))


def _fall(at: Ascent) -> Array:
    """The most that the bound has fallen from one sweep to the next; rounding, if all is right."""
    return jnp.where(at.num_sweeps > 1, jnp.maximum(at.fall, at.last_bound - at.bound), 0.0)
