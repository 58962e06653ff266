"""The compiled functions of a model and of a policy; equal settings share them."""

import dataclasses
import functools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.batch import Batch
from streambayes._core.column import LOG
from streambayes._core.outcome import Outcome
from streambayes._core.program import Program
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief, AbstractMarginal, Blocks
from streambayes.forgetting import AbstractForgetting, Clock, Report
from streambayes.learning._rows import (
    cut_batch,
    init_local,
    map_rows,
    pass_rows,
    row_width,
    sum_rows,
)
from streambayes.learning._sweep import Ascender, Ascent, ascend
from streambayes.models import AbstractModel

__all__ = [
    "Facts",
    "Laid",
    "Left",
    "Piece",
    "Scorer",
    "Settings",
    "Stepper",
    "scorer",
    "settings_of",
    "standardised",
    "stepper",
]

Model = AbstractModel[Any, Any]
Policy = AbstractForgetting[Any, Any]


class Facts(NamedTuple):
    """What a person wants to see of a step."""

    report: Report
    alike: dict[str, Array]
    retained: dict[str, Array]
    bound: Array
    fall: Array
    num_observations: Array
    num_sweeps: Array
    num_rounds: Array
    outcome: Array


class Left(NamedTuple):
    """What a batch leaves behind, or several on a leading axis.

    Attributes:
        message: Its message to the blocks.
        facts: Its facts, as one array.
        belief: What is believed after it, if that is wanted.
        forecast: By what it was to be predicted before it was learned, likewise.
    """

    message: Blocks
    facts: Array
    belief: AbstractBelief | None
    forecast: AbstractBelief | None


class Settings(NamedTuple):
    """The numbers among the settings of a learner: programs take them as arguments.

    Attributes:
        policy: The numbers of the policy, as JAX takes it apart.
        tolerance: The bound has settled when it gains at most this much per observation.
        max_sweeps: The most sweeps per batch.
    """

    policy: tuple[Any, ...]
    tolerance: Any
    max_sweeps: Any


class Laid(NamedTuple):
    """Part of a batch as passes over its rows take it.

    Attributes:
        batch: The rows, in internal units and in blocks.
        local: What they hide, where the next pass starts from it.
    """

    batch: Batch
    local: Any


class Piece(NamedTuple):
    """What a piece of a batch adds up to."""

    summary: Any
    num_observations: Array
    log_jacobian: Array


@final
class Scorer:
    """Functions of rows under a belief in a model, compiled once for every bucket of rows."""

    def __init__(self, model: Model) -> None:
        self._model = model
        repeats = functools.partial(_scores_for_long, model)
        self.score = Program(self.scored, of=("score", model), repeats=repeats)
        self.score_several = Program(
            self._scored_several, of=("score_several", model), repeats=repeats, in_turn=True
        )
        self.log_predictive = Program(self.densities, of=("log_predictive", model), repeats=repeats)
        self.predict = Program(self._predict, of=("predict", model), repeats=repeats)
        self.start = Program(self._start, of=("start", model))
        self.start_apart = Program(self._start_apart, of=("start_apart", model))

    def scored(
        self, belief: AbstractBelief, shift: Array, factor: Array, batch: Batch
    ) -> tuple[Array, Array]:
        """Sums over rows of both log-likelihoods."""
        expectations = belief.expectations()

        def score(rows: Batch) -> Array:
            rows, log_jacobian = standardised(self._model, rows, shift, factor)
            local, summary = _settled_rows(self._model, expectations, rows)
            bound = self._model.expected_log_joint(expectations, summary)
            density = belief.log_mean_of_all(
                lambda each: self._model.log_predictive(each, rows, local)
            )
            both = jnp.stack([bound, jnp.where(rows.mask, density, 0.0).sum()])
            return (both + log_jacobian.sum())[None]

        bound, density = map_rows(score, batch).sum(0)
        return bound, density

    def _scored_several(
        self, forecasts: AbstractBelief, shift: Array, factor: Array, batches: Batch, count: Array
    ) -> Array:
        """Sums over rows of the log predictive densities, for so many batches, each by a forecast of its own."""

        def one(number: Array, sums: Array) -> Array:
            forecast, batch = jax.tree.map(lambda leaf: leaf[number], (forecasts, batches))
            wide = batch.with_values(batch.values.astype(float))
            densities = self.densities(forecast, shift, factor, wide)
            return sums.at[number].set(jnp.where(batch.mask, densities, 0.0).sum())

        sums = jnp.zeros(batches.values.shape[0])
        found: Array = jax.lax.fori_loop(0, count, one, sums)
        return found

    def densities(self, belief: AbstractBelief, shift: Array, factor: Array, batch: Batch) -> Array:
        """Log predictive density of every padded row."""
        expectations = belief.expectations()

        def density(rows: Batch) -> Array:
            rows, log_jacobian = standardised(self._model, rows, shift, factor)
            local, _ = _settled_rows(self._model, expectations, rows)
            found = belief.log_mean_of_all(
                lambda each: self._model.log_predictive(each, rows, local)
            )
            return found + log_jacobian

        found: Array = map_rows(density, batch)
        return found

    def _predict(
        self,
        belief: AbstractBelief,
        shift: Array,
        factor: Array,
        batch: Batch,
        tails: Array,
        name: str,
    ) -> Array:
        """Probabilities, or mean, standard deviation and quantiles: both with rows on the first axis."""
        expectations = belief.expectations()

        def conditional(rows: Batch) -> Array:
            rows, _ = standardised(self._model, rows, shift, factor)
            local, _ = _settled_rows(self._model, expectations, rows)
            found = self._model.conditional(belief, rows, local, name)
            if not isinstance(found, AbstractMarginal):
                return found
            short: Array | AbstractMarginal = found
            if belief.num_members > 1:  # many members make quantiles slow
                short = self._model.conditional(belief.shortened(), rows, local, name)
            assert isinstance(short, AbstractMarginal)
            quantiles = short.quantile(tails[:, None])
            return jnp.stack([found.mean(), found.deviation(), *quantiles], -1)

        found: Array = map_rows(conditional, batch)
        return found

    def _start(
        self, key: Array, batch: Batch, prior: Blocks, shift: Array, factor: Array
    ) -> Blocks:
        return self._model.start(key, standardised(self._model, batch, shift, factor)[0], prior)

    def _start_apart(
        self,
        key: Array,
        batch: Batch,
        prior: Blocks,
        blocks: Blocks,
        alike: Mapping[str, Array],
        shift: Array,
        factor: Array,
    ) -> Blocks:
        inside, _ = standardised(self._model, batch, shift, factor)
        return self._model.start_apart(key, inside, prior, blocks, alike)


@final
class Stepper:
    """One step of a model under a policy, compiled once for every bucket of rows.

    ``learn`` hands its facts over as one flat array, because each array that leaves the device costs
    as much as a small step; ``read_facts`` takes it apart. ``learn_several`` learns batches on a leading
    axis one after the other, ``learn_many`` has a leading axis of streams on everything. A batch in pieces is learned by ``begin``, then turns of ``pass_piece`` for every piece
    and ``turn``, then ``finish``; a batch in parts that threads share by ``lay_out`` for every part, ``begin``, turns of ``turn_laid``
    for every part, and ``finish``.

    Args:
        model: The model.
        kind: The policy's structure, as JAX takes it apart: all of it but its numbers.
    """

    def __init__(self, model: Model, kind: Any) -> None:
        self.model = model
        self._kind = kind
        self._layout: tuple[Any, list[tuple[int, ...]]] | None = None
        self._widths: dict[Any, int] = {}
        many = jax.vmap(self._learn, in_axes=(None, *(0,) * 8))
        of, sets, hides = (model, kind), (self, "_layout"), model.has_hidden
        self.learn = Program(self._learn, of=("learn", *of), sets=sets, repeats=hides)
        self.learn_several = Program(
            self._learn_several, of=("several", *of), sets=sets, repeats=hides, in_turn=True
        )
        self.learn_many = Program(many, of=("many", *of), sets=sets, repeats=hides)
        self.lay_out = Program(self._laid_out, of=("lay_out", *of), repeats=hides)
        self.turn_laid = Program(self._laid_turn, of=("turn_laid", *of), repeats=hides)
        self.pass_piece = Program(self.piece_passed, of=("pass", *of), repeats=hides)
        self.begin = Program(self._begin, of=("begin", *of))
        self.turn = Program(self._turn, of=("turn", *of))
        self.finish = Program(self._finish, of=("finish", *of), sets=sets)

    def read_facts(self, flat: np.ndarray) -> Facts:
        """The facts that ``learn`` has returned as one array, or the others as an array of them."""
        if self._layout is None:
            message = "read_facts before learn"
            raise RuntimeError(message)
        tree, shapes = self._layout
        leaves, at = [], 0
        for shape in shapes:
            size = math.prod(shape)
            leaves.append(flat[..., at : at + size].reshape((*flat.shape[:-1], *shape)))
            at += size
        facts: Facts = jax.tree.unflatten(tree, leaves)
        return facts

    def policy_of(self, settings: Settings) -> Policy:
        """The policy of these numbers."""
        policy: Policy = jax.tree.unflatten(self._kind, settings.policy)
        return policy

    def _learn(self, settings: Settings, *given: Any) -> tuple[Any, Blocks, Array]:
        memory, message, facts = self.learned(settings, *given)
        return memory, message, self._flat(facts)

    def _learn_several(
        self,
        settings: Settings,
        memory: Any,
        belief: AbstractBelief,
        prior: Blocks,
        scale: Scale,
        batches: Batch,
        rows_seen: Array,
        elapsed: Array,
        count: Array,
        with_forecasts: bool,
        with_beliefs: bool,
    ) -> tuple[Any, Array, Left, Array]:
        """So many of the batches, up to the first that fails.

        Returns the memory after the last or the failed one, the rows seen then, what batches have left, and
        how many batches that is of. The program is the same for every count.
        """

        @functools.partial(jax.jit, inline=True)  # traced once for its shapes and for the loop
        def learned(
            number: Array, memory: Any, belief: AbstractBelief, rows_seen: Array, given: Any
        ) -> tuple[Any, Array, Left]:
            settings, prior, scale, batches, elapsed = given
            policy = self.policy_of(settings)
            units = scale.shift, scale.factor
            batch = jax.tree.map(lambda leaf: leaf[number], batches)
            forecast = None
            if with_forecasts:
                forecast = policy.forecast(memory, belief) if policy.has_forecast else belief
            memory, message, facts = self.learned(
                settings, memory, belief, prior, *units, batch, rows_seen, elapsed[number]
            )
            failed = jnp.stack([facts.outcome == bad for bad in Outcome if bad.failed]).any()
            believed = policy.belief(memory) if with_beliefs else None
            left = Left(message, self._flat(facts), believed, forecast)
            return (memory, facts.num_observations), failed, left

        policy, given = self.policy_of(settings), (settings, prior, scale, batches, elapsed)

        def going(at: tuple[Any, ...]) -> Any:
            return (at[0] < count) & ~at[-1]

        def body(at: tuple[Any, ...]) -> tuple[Any, ...]:
            number, memory, belief, seen, left, _ = at
            (memory, num_rows), failed, each = learned(number, memory, belief, seen, given)
            left = jax.tree.map(lambda every, one: every.at[number].set(one), left, each)
            return number + 1, memory, policy.belief(memory), seen + num_rows, left, failed

        start = (jnp.zeros((), int), memory, belief, rows_seen)
        left = jax.tree.map(
            lambda one: jnp.zeros((*elapsed.shape, *one.shape), one.dtype),
            jax.eval_shape(learned, *start, given)[2],
        )
        number, memory, _, seen, left, _ = jax.lax.while_loop(
            going, body, (*start, left, jnp.zeros((), bool))
        )
        return memory, seen, left, number

    def learned(
        self,
        settings: Settings,
        memory: Any,
        belief: AbstractBelief,
        prior: Blocks,
        shift: Array,
        factor: Array,
        batch: Batch,
        rows_seen: Array,
        elapsed: Array,
    ) -> tuple[Any, Blocks, Facts]:
        """The memory after a batch, its message, and the facts of it."""
        before = memory
        is_whole = self.policy_of(settings).minibatch_size is None
        if is_whole and not self.model.has_hidden(batch):  # one pass over rows, as they are
            expectations = belief.expectations()
            piece = sum_rows(lambda some: self._sums(expectations, shift, factor, some), batch)
            clock = Clock(rows=piece.num_observations, rows_seen=rows_seen, elapsed=elapsed)
            memory, message, facts = self._learn_whole(
                settings, memory, belief, prior, batch, clock, piece.summary
            )
            gained = piece.log_jacobian
        else:
            batch, log_jacobian = standardised(self.model, batch, shift, factor)
            rows = self.model.num_observations(batch)
            clock = Clock(rows=rows, rows_seen=rows_seen, elapsed=elapsed)
            learn = self._learn_whole if is_whole else self._learn_minibatches
            memory, message, facts = learn(settings, memory, belief, prior, batch, clock)
            gained = log_jacobian.sum()
        alike = self._alike(settings, before, memory, message, rows_seen)
        return memory, message, facts._replace(bound=facts.bound + gained, alike=alike)

    def _alike(
        self, settings: Settings, before: Any, memory: Any, message: Blocks, rows_seen: Array
    ) -> dict[str, Array]:
        """Values of latent variables that a batch should tell apart, given memories before and after it."""
        policy = self.policy_of(settings)
        old, new = (policy.belief(each).summary() for each in (before, memory))
        # the first batch has a start of its own
        left = jax.tree.map(lambda rows: jnp.where(rows_seen > 0, rows, jnp.inf), old.counts)
        return self.model.alike(new, message.counts, left)

    def _sums(
        self, expectations: Mapping[str, Any], shift: Array, factor: Array, batch: Batch
    ) -> Piece:
        """What rows add up to, if a pass over them starts from nothing."""
        batch, log_jacobian = standardised(self.model, batch, shift, factor)
        rows = self.model.num_observations(batch)
        _, summary = self.model.row_pass(expectations, batch, self.model.init_local(batch))
        return Piece(summary, rows, log_jacobian.sum())

    def _flat(self, facts: Facts) -> Array:
        leaves, tree = jax.tree.flatten(facts)
        self._layout = tree, [leaf.shape for leaf in leaves]
        return jnp.concatenate([leaf.ravel().astype(float) for leaf in leaves])

    def _learn_whole(
        self,
        settings: Settings,
        memory: Any,
        belief: AbstractBelief,
        prior: Blocks,
        batch: Batch,
        clock: Clock,
        summary: Any = None,
    ) -> tuple[Any, Blocks, Facts]:
        """The memory after a batch, its message, and the facts of it."""
        policy = self.policy_of(settings)
        anchor = policy.open(memory, prior, clock)
        at, settled = ascend(
            self.model,
            policy,
            batch,
            anchor,
            belief,
            tolerance=_tolerance(settings, clock),
            max_sweeps=settings.max_sweeps,
            summary=summary,
        )
        memory, facts = _closed(policy, anchor, at, settled, clock)
        return memory, self._message(at.expectations, at.summary), facts

    def _message(self, expectations: Mapping[str, Any], summary: Any) -> Blocks:
        """What rows that add up so say of every block."""
        return self.model.messages(expectations, summary, tuple(expectations))

    def _learn_minibatches(
        self,
        settings: Settings,
        memory: Any,
        belief: AbstractBelief,
        prior: Blocks,
        batch: Batch,
        clock: Clock,
    ) -> tuple[Any, Blocks, Facts]:
        """One minibatch after another; their messages add up."""
        policy = self.policy_of(settings)
        size = policy.minibatch_size or batch.values.shape[1]
        pieces = batch.values.shape[1] // size
        values = batch.values.reshape(-1, pieces, size).swapaxes(0, 1)
        num_rows = jnp.clip(batch.num_rows - size * jnp.arange(pieces), 0, size)

        def one(carry: tuple[Any, Any, Array, Blocks], piece: tuple[Array, Array]) -> Any:
            memory, belief, seen, told = carry
            part = dataclasses.replace(batch, values=piece[0], num_rows=piece[1])
            rows = self.model.num_observations(part)
            # the batch's time passes at its first minibatch
            elapsed = jnp.where(seen > clock.rows_seen, 0.0, clock.elapsed)
            now = Clock(rows=rows, rows_seen=seen, elapsed=elapsed)
            learned, message, facts = self._learn_whole(settings, memory, belief, prior, part, now)
            memory, belief, told = jax.tree.map(
                lambda new, old: jnp.where(part.num_rows > 0, new, old),
                (learned, policy.belief(learned), told + message),
                (memory, belief, told),
            )
            return (memory, belief, seen + rows, told), facts

        start = (memory, belief, clock.rows_seen, prior.scaled(0.0))
        carry, each = jax.lax.scan(one, start, (values, num_rows))
        last = jnp.maximum((num_rows > 0).sum() - 1, 0)
        facts: Facts = jax.tree.map(lambda leaf: leaf[last], each)
        facts = facts._replace(
            num_observations=clock.rows,
            num_sweeps=jnp.where(num_rows > 0, each.num_sweeps, 0).sum(),
            outcome=jnp.where(num_rows > 0, each.outcome, Outcome.CONVERGED).max(),
        )
        return carry[0], carry[3], facts

    def piece_passed(
        self, belief: AbstractBelief, shift: Array, factor: Array, batch: Batch, local: Any
    ) -> tuple[Any, Piece]:
        """Sums over a piece of a batch, and its hidden variables if the next pass starts from them."""
        expectations = belief.expectations()
        if not self._keeps(expectations, batch):
            return None, sum_rows(lambda some: self._sums(expectations, shift, factor, some), batch)
        batch, log_jacobian = standardised(self.model, batch, shift, factor)
        rows = self.model.num_observations(batch)
        cut = cut_batch(self.model, expectations, batch)
        before = init_local(self.model, cut) if local is None else local
        after, summary = pass_rows(self.model, expectations, cut, before)
        return after, Piece(summary, rows, log_jacobian.sum())

    def row_width(self, belief: AbstractBelief, batch: Batch) -> int:
        """Numbers that the widest array of a pass has for each row."""
        kind = batch.columns, batch.missing, batch.values.dtype
        if kind not in self._widths:
            self._widths[kind] = row_width(self.model, belief.expectations(), batch)
        return self._widths[kind]

    def _laid_out(
        self, belief: AbstractBelief, shift: Array, factor: Array, batch: Batch
    ) -> tuple[Laid, Piece]:
        """Part of a batch after its first pass."""
        expectations = belief.expectations()
        batch, log_jacobian = standardised(self.model, batch, shift, factor)
        rows = self.model.num_observations(batch)
        cut = cut_batch(self.model, expectations, batch)
        local, summary = pass_rows(self.model, expectations, cut, init_local(self.model, cut))
        return Laid(cut, local), Piece(summary, rows, log_jacobian.sum())

    def _laid_turn(
        self,
        settings: Settings,
        at: Ascent,
        summaries: list[Any],
        clock: Clock,
        batch: Batch,
        local: Any,
    ) -> tuple[Ascent, Array, Any, Any]:
        """A turn of the loop with the sums over all parts, whether it was the last one, and the next pass over one part.

        What the part hides comes back where the pass after that starts from it; its sums are the last result.
        """
        summary = jax.tree.map(lambda *parts: functools.reduce(jnp.add, parts), *summaries)
        climb = self._climb(settings, clock, hides=True)
        at = at._replace(expectations=at.belief.expectations())
        at = climb.turn(at, None, summary)
        is_over = climb.is_over(at)
        rest = dataclasses.replace(batch, num_rows=jnp.where(is_over, 0, batch.num_rows))
        after, sums = pass_rows(self.model, at.expectations, rest, local)
        at = at._replace(expectations=None, summary=None)
        return at, is_over, None if after is local else after, sums

    def _keeps(self, expectations: Mapping[str, Any], batch: Batch) -> bool:
        """Whether a pass over rows starts from the hidden variables of the one before."""
        found = []

        def look() -> None:
            local = self.model.init_local(batch)
            found.append(self.model.row_pass(expectations, batch, local)[0] is not local)

        jax.eval_shape(look)
        return found[0]

    def _climb(self, settings: Settings, clock: Clock, *, hides: bool) -> Ascender:
        return Ascender(
            self.model,
            self.policy_of(settings),
            hides=hides,
            tolerance=_tolerance(settings, clock),
            max_sweeps=settings.max_sweeps,
        )

    def _begin(
        self,
        settings: Settings,
        memory: Any,
        belief: AbstractBelief,
        prior: Blocks,
        clock: Clock,
        hides: bool,
    ) -> tuple[Any, Ascent]:
        anchor = self.policy_of(settings).open(memory, prior, clock)
        at = self._climb(settings, clock, hides=hides).begin(anchor, belief, None, None)
        return anchor, at._replace(expectations=None)

    def _turn(
        self, settings: Settings, at: Ascent, summary: Any, clock: Clock, hides: bool
    ) -> tuple[Ascent, Array]:
        """A turn of the loop, and whether it was the last one."""
        climb = self._climb(settings, clock, hides=hides)
        at = at._replace(expectations=at.belief.expectations())  # it may have been moved outside
        at = climb.turn(at, None, summary)._replace(expectations=None, summary=None)
        return at, climb.is_over(at)

    def _finish(
        self,
        settings: Settings,
        before: Any,
        anchor: Any,
        at: Ascent,
        summary: Any,
        clock: Clock,
        log_jacobian: Array,
        hides: bool,
    ) -> tuple[Any, Blocks, Array]:
        policy = self.policy_of(settings)
        end, settled = self._climb(settings, clock, hides=hides).end(at)
        memory, facts = _closed(policy, anchor, end, settled, clock)
        message = self._message(end.belief.expectations(), summary)
        alike = self._alike(settings, before, memory, message, clock.rows_seen)
        facts = facts._replace(bound=facts.bound + log_jacobian, alike=alike)
        return memory, message, self._flat(facts)


scorer = functools.cache(Scorer)
_stepper = functools.cache(Stepper)


def stepper(model: Model, policy: Policy) -> Stepper:
    """The steps of a model under policies that differ from this one in numbers alone."""
    return _stepper(model, jax.tree.structure(policy))


def settings_of(policy: Policy, tolerance: float, max_sweeps: int) -> Settings:
    """The numbers of a learner in the form that programs take."""
    numbers = tuple(np.asarray(leaf, float) for leaf in jax.tree.leaves(policy))
    return Settings(numbers, np.float64(tolerance), np.int64(max_sweeps))


def _tolerance(settings: Settings, clock: Clock) -> Array:
    found: Array = settings.tolerance * jnp.maximum(clock.rows, 1.0)
    return found


def _closed(
    policy: Policy, anchor: Any, at: Ascent, settled: Array, clock: Clock
) -> tuple[Any, Facts]:
    """What a batch leaves behind, and the facts of it; what is told by its message is still to come."""
    memory, report = policy.close(at.anchor, at.belief, clock)
    posterior = policy.belief(memory).summary()
    outcome = jnp.where(settled, Outcome.CONVERGED, Outcome.MAX_SWEEPS)
    if policy.maximises_bound:
        outcome = jnp.where(jnp.isfinite(at.bound), outcome, Outcome.NOT_FINITE)
    outcome = jnp.where(posterior.is_proper(), outcome, Outcome.IMPROPER)
    outcome = jnp.where(posterior.is_finite(), outcome, Outcome.NOT_FINITE)
    outcome = jnp.where(policy.is_proper(anchor), outcome, Outcome.IMPROPER)
    facts = Facts(
        report=report,
        alike={},
        retained=posterior.counts,
        bound=at.bound,
        fall=at.fall,
        num_observations=clock.rows,
        num_sweeps=at.num_sweeps,
        num_rounds=at.num_rounds,
        outcome=outcome,
    )
    return memory, facts


def _scores_for_long(model: Model, batch: Batch) -> bool:
    """Whether densities of rows take long: there are sweeps in them, or blocks that must be taken pair by pair."""
    return model.is_coupled or model.has_hidden(batch)


def _settled_rows(model: Model, expectations: Mapping[str, Any], batch: Batch) -> tuple[Any, Any]:
    """Hidden variables of rows at their optimum for fixed parameters, and the sums there."""
    start = model.init_local(batch)
    local, summary = model.row_pass(expectations, batch, start)
    if not model.has_hidden(batch) or local is start:  # a pass needs nothing of the last one
        return local, summary
    joint = model.expected_log_joint(expectations, summary)

    def gaining(at: tuple[Any, Any, Array, Array, Array]) -> Array:
        return at[4] & (at[3] < 100)

    def body(at: tuple[Any, Any, Array, Array, Array]) -> tuple[Any, Any, Array, Array, Array]:
        local, summary = model.row_pass(expectations, batch, at[0])
        joint = model.expected_log_joint(expectations, summary)
        return local, summary, joint, at[3] + 1, joint - at[2] > 1e-10 * batch.num_rows

    first = (local, summary, joint, jnp.zeros((), int), jnp.ones((), bool))
    local, summary, *_ = jax.lax.while_loop(gaining, body, first)
    return local, summary


def standardised(model: Model, batch: Batch, shift: Array, factor: Array) -> tuple[Batch, Array]:
    """The batch in internal units, and what the change of units adds to each row's log density."""
    values = (batch.values - shift[:, None]) * (1.0 / factor)[:, None]
    changed = batch.with_values(values.astype(batch.values.dtype))
    logs = jnp.log(factor)
    if batch.missing:
        gained = -jnp.where(batch.observed, logs[:, None], 0.0).sum(0)
    else:
        gained = jnp.where(batch.mask, -logs.sum(), 0.0)
    logged = [place for place, column in enumerate(model.columns) if column.transform == LOG]
    if logged:  # d ln x / dx = 1 / x
        taken, there = batch.values[np.array(logged)].astype(float), batch.observed
        gained = gained - jnp.where(there[np.array(logged)], taken, 0.0).sum(0)
    return changed, gained
