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
from streambayes._core.outcome import Outcome
from streambayes._core.program import Program
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief, AbstractMarginal, Blocks
from streambayes.forgetting import AbstractForgetting, Clock, Report
from streambayes.learning._notes import noter
from streambayes.learning._rows import cut_batch, init_local, map_rows, pass_rows, sum_rows
from streambayes.learning._sweep import Ascender, Ascent, ascend
from streambayes.models import AbstractModel

__all__ = [
    "Facts",
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
    log_restart: dict[str, Array] | None
    retained: dict[str, Array]
    bound: Array
    fall: Array
    num_observations: Array
    num_sweeps: Array
    num_rounds: Array
    outcome: Array


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
        self.score = Program(self.scored)
        self.log_predictive = Program(self.densities)
        self.predict = Program(self._predict, static_argnames=("name",))
        self.sample = Program(self._sample, static_argnames=("num_rows",))
        self.start = Program(self._start)

    def scored(
        self, belief: AbstractBelief, shift: Array, factor: Array, batch: Batch
    ) -> tuple[Array, Array]:
        """Sums over rows of both log-likelihoods."""
        expectations = belief.expectations()

        def score(rows: Batch) -> Array:
            rows, log_jacobian = standardised(rows, shift, factor)
            local, summary = _settled_rows(self._model, expectations, rows)
            bound = self._model.expected_log_joint(expectations, summary)
            density = belief.log_mean_of_all(
                lambda each: self._model.log_predictive(each, rows, local)
            )
            both = jnp.stack([bound, jnp.where(rows.mask, density, 0.0).sum()])
            return (both + log_jacobian.sum())[None]

        bound, density = map_rows(score, batch).sum(0)
        return bound, density

    def densities(self, belief: AbstractBelief, shift: Array, factor: Array, batch: Batch) -> Array:
        """Log predictive density of every padded row."""
        expectations = belief.expectations()

        def density(rows: Batch) -> Array:
            rows, log_jacobian = standardised(rows, shift, factor)
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
            rows, _ = standardised(rows, shift, factor)
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

    def _sample(self, belief: AbstractBelief, key: Array, num_rows: int) -> dict[str, Array]:
        parameters_key, rows_key = jax.random.split(key)
        choice = jax.random.fold_in(key, 2)
        names = self._model.prior()
        keys = jax.random.split(parameters_key, len(names))
        parameters = {
            name: belief.sample(name, each, num_rows, choice)
            for name, each in zip(names, keys, strict=True)
        }
        return self._model.draw(rows_key, parameters)

    def _start(
        self, key: Array, batch: Batch, prior: Blocks, shift: Array, factor: Array
    ) -> Blocks:
        return self._model.start(key, standardised(batch, shift, factor)[0], prior)


@final
class Stepper:
    """One step of a model under a policy, compiled once for every bucket of rows.

    ``learn`` hands its facts over as one flat array, because each array that leaves the device costs
    as much as a small step; ``read_facts`` takes it apart. ``learn_several`` learns batches on a leading
    axis one after the other, ``learn_many`` has a leading axis of streams on everything. A batch in pieces is learned by ``begin``, then turns of ``pass_piece`` for every piece
    and ``turn``, then ``finish``.

    Args:
        model: The model.
        kind: The policy's structure, as JAX takes it apart: all of it but its numbers.
    """

    def __init__(self, model: Model, kind: Any) -> None:
        self.model = model
        self._kind = kind
        self._layout: tuple[Any, list[tuple[int, ...]]] | None = None
        self.init = Program(self._init)
        self.learn = Program(self._learn)
        self.learn_several = Program(self._learn_several, static_argnames=("with_notes",))
        self.learn_many = Program(jax.vmap(self._learn, in_axes=(None, *(0,) * 8)))
        self.forecast = Program(self.forecast_rows)
        self.pass_piece = Program(self.piece_passed)
        self.begin = Program(self._begin, static_argnames=("hides",))
        self.turn = Program(self._turn, static_argnames=("hides",))
        self.finish = Program(self._finish, static_argnames=("hides",))

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

    def _init(self, settings: Settings, prior: Blocks) -> Any:
        return self.policy_of(settings).init(prior)

    def _learn(self, settings: Settings, *given: Any) -> tuple[Any, Array]:
        memory, facts = self.learned(settings, *given)
        return memory, self._flat(facts)

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
        with_notes: bool,
    ) -> tuple[Any, Array, Array, Array, Array]:
        """So many of the batches, up to the first that fails.

        Returns the memory before it or after the last, the rows seen then, the facts, notes if they are wanted, and
        how many batches they are of: one more than were learned if one has failed. The program is the same for
        every count.
        """
        policy = self.policy_of(settings)
        shift, factor = scale.shift, scale.factor

        def noted(before: AbstractBelief, after: AbstractBelief) -> Array:
            return noter(self.model).noted(before, after, scale) if with_notes else jnp.zeros(0)

        def learned(number: Array, memory: Any, belief: AbstractBelief, rows_seen: Array) -> Any:
            batch = jax.tree.map(lambda leaf: leaf[number], batches)
            return self.learned(
                settings, memory, belief, prior, shift, factor, batch, rows_seen, elapsed[number]
            )

        def going(at: tuple[Any, ...]) -> Any:
            return (at[0] < count) & ~at[-1]

        def body(at: tuple[Any, ...]) -> tuple[Any, ...]:
            number, held, belief, seen, found, notes, _ = at
            memory, facts = learned(number, held, belief, seen)
            failed = jnp.stack([facts.outcome == bad for bad in Outcome if bad.failed]).any()
            memory, after, seen = jax.tree.map(
                lambda new, old: jnp.where(failed, old, new),
                (memory, policy.belief(memory), seen + facts.num_observations),
                (held, belief, seen),
            )
            return (
                number + 1,
                memory,
                after,
                seen,
                found.at[number].set(self._flat(facts)),
                notes.at[number].set(noted(belief, after)),
                failed,
            )

        start = (jnp.zeros((), int), memory, belief, rows_seen)
        flat = jax.eval_shape(lambda: self._flat(learned(*start)[1]))
        found = jnp.zeros((elapsed.shape[0], *flat.shape))
        notes = jnp.zeros((elapsed.shape[0], *jax.eval_shape(lambda: noted(belief, belief)).shape))
        number, memory, _, seen, found, notes, _ = jax.lax.while_loop(
            going, body, (*start, found, notes, jnp.zeros((), bool))
        )
        return memory, seen, found, notes, number

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
    ) -> tuple[Any, Facts]:
        is_whole = self.policy_of(settings).minibatch_size is None
        if is_whole and not self.model.has_hidden(batch):  # one pass over rows, as they are
            expectations = belief.expectations()
            piece = sum_rows(lambda some: self._sums(expectations, shift, factor, some), batch)
            clock = Clock(rows=piece.num_observations, rows_seen=rows_seen, elapsed=elapsed)
            memory, facts = self._learn_whole(
                settings, memory, belief, prior, batch, clock, piece.summary
            )
            return memory, facts._replace(bound=facts.bound + piece.log_jacobian)
        batch, log_jacobian = standardised(batch, shift, factor)
        rows = self.model.num_observations(batch)
        clock = Clock(rows=rows, rows_seen=rows_seen, elapsed=elapsed)
        learn = self._learn_whole if is_whole else self._learn_minibatches
        memory, facts = learn(settings, memory, belief, prior, batch, clock)
        return memory, facts._replace(bound=facts.bound + log_jacobian.sum())

    def _sums(
        self, expectations: Mapping[str, Any], shift: Array, factor: Array, batch: Batch
    ) -> Piece:
        """What rows add up to, if a pass over them starts from nothing."""
        batch, log_jacobian = standardised(batch, shift, factor)
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
    ) -> tuple[Any, Facts]:
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
        held = policy.belief(memory).summary(), prior
        return _closed(policy, anchor, at, settled, clock, held)

    def _learn_minibatches(
        self,
        settings: Settings,
        memory: Any,
        belief: AbstractBelief,
        prior: Blocks,
        batch: Batch,
        clock: Clock,
    ) -> tuple[Any, Facts]:
        """One minibatch after another."""
        policy = self.policy_of(settings)
        size = policy.minibatch_size or batch.values.shape[1]
        pieces = batch.values.shape[1] // size
        values = batch.values.reshape(-1, pieces, size).swapaxes(0, 1)
        num_rows = jnp.clip(batch.num_rows - size * jnp.arange(pieces), 0, size)

        def one(carry: tuple[Any, Any, Array], piece: tuple[Array, Array]) -> Any:
            memory, belief, seen = carry
            part = dataclasses.replace(batch, values=piece[0], num_rows=piece[1])
            rows = self.model.num_observations(part)
            # the batch's time passes at its first minibatch
            elapsed = jnp.where(seen > clock.rows_seen, 0.0, clock.elapsed)
            now = Clock(rows=rows, rows_seen=seen, elapsed=elapsed)
            learned, facts = self._learn_whole(settings, memory, belief, prior, part, now)
            memory, belief = jax.tree.map(
                lambda new, old: jnp.where(part.num_rows > 0, new, old),
                (learned, policy.belief(learned)),
                (memory, belief),
            )
            return (memory, belief, seen + rows), facts

        carry, each = jax.lax.scan(one, (memory, belief, clock.rows_seen), (values, num_rows))
        last = jnp.maximum((num_rows > 0).sum() - 1, 0)
        facts: Facts = jax.tree.map(lambda leaf: leaf[last], each)
        return carry[0], facts._replace(
            num_observations=clock.rows,
            num_sweeps=jnp.where(num_rows > 0, each.num_sweeps, 0).sum(),
            outcome=jnp.where(num_rows > 0, each.outcome, Outcome.CONVERGED).max(),
        )

    def forecast_rows(
        self,
        settings: Settings,
        memory: Any,
        prior: Blocks,
        shift: Array,
        factor: Array,
        batch: Batch,
        rows_seen: Array,
        elapsed: Array,
        log_shares: Array,
    ) -> tuple[Any, Array, Array]:
        """The memory and the shares of forecasters, having heeded a batch; its log densities before that.

        Densities are those of the mixture and of each forecaster, on a first axis.
        """
        policy, rows = self.policy_of(settings), self.model.num_observations(batch)
        clock = Clock(rows=rows, rows_seen=rows_seen, elapsed=elapsed)
        candidates = policy.candidates(memory, prior, clock)
        densities = jnp.stack(
            [
                scorer(self.model).densities(belief, shift, factor, batch)
                for belief in candidates.values()
            ]
        )
        mixed = jax.nn.logsumexp(densities + log_shares[:, None], axis=0, keepdims=True)
        fit = jnp.where(batch.mask, densities, 0.0).sum(1) / jnp.maximum(batch.num_rows, 1)
        share = jnp.where(rows_seen > 0, 1.0 / (rows_seen + jnp.maximum(rows, 1.0)), 0.0)
        log_shares = jnp.logaddexp(
            jnp.log1p(-share) + jax.nn.log_softmax(log_shares + fit),
            jnp.log(share / len(candidates)),
        )
        expectations = policy.belief(memory).expectations()
        inside, _ = standardised(batch, shift, factor)
        _, summary = _settled_rows(self.model, expectations, inside)
        messages = self.model.messages(expectations, summary, tuple(self.model.prior()))
        found = jnp.concatenate([mixed, densities])
        return policy.heed(memory, messages, clock), log_shares, found

    def piece_passed(
        self, belief: AbstractBelief, shift: Array, factor: Array, batch: Batch, local: Any
    ) -> tuple[Any, Piece]:
        """Sums over a piece of a batch, and its hidden variables if the next pass starts from them."""
        expectations = belief.expectations()
        if not self._keeps(expectations, batch):
            return None, sum_rows(lambda some: self._sums(expectations, shift, factor, some), batch)
        batch, log_jacobian = standardised(batch, shift, factor)
        rows = self.model.num_observations(batch)
        cut = cut_batch(batch)
        before = init_local(self.model, cut) if local is None else local
        after, summary = pass_rows(self.model, expectations, cut, before)
        return after, Piece(summary, rows, log_jacobian.sum())

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
        return anchor, self._climb(settings, clock, hides=hides).begin(anchor, belief, None, None)

    def _turn(
        self, settings: Settings, at: Ascent, summary: Any, clock: Clock, hides: bool
    ) -> tuple[Ascent, Array]:
        """A turn of the loop, and whether it was the last one."""
        climb = self._climb(settings, clock, hides=hides)
        at = climb.turn(at, None, summary)._replace(summary=None)
        return at, climb.is_over(at)

    def _finish(
        self,
        settings: Settings,
        memory: Any,
        prior: Blocks,
        anchor: Any,
        at: Ascent,
        clock: Clock,
        log_jacobian: Array,
        hides: bool,
    ) -> tuple[Any, Array]:
        policy = self.policy_of(settings)
        end, settled = self._climb(settings, clock, hides=hides).end(at)
        held = policy.belief(memory).summary(), prior
        memory, facts = _closed(policy, anchor, end, settled, clock, held)
        return memory, self._flat(facts._replace(bound=facts.bound + log_jacobian))


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
    policy: Policy,
    anchor: Any,
    at: Ascent,
    settled: Array,
    clock: Clock,
    held: tuple[Blocks, Blocks],
) -> tuple[Any, Facts]:
    """What a batch leaves behind, and the facts of it; ``held`` is what was believed before, and the prior."""
    message = policy.message(at.anchor, at.belief)
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
        log_restart=None if message is None else _log_restart(*held, message),
        retained=posterior.counts,
        bound=at.bound,
        fall=at.fall,
        num_observations=clock.rows,
        num_sweeps=at.num_sweeps,
        num_rounds=at.num_rounds,
        outcome=outcome,
    )
    return memory, facts


def _log_restart(previous: Blocks, prior: Blocks, message: Blocks) -> dict[str, Array]:
    """Per block, the log Bayes factor of starting over with this batch against going on."""
    ends = jax.tree.map(
        lambda *parts: jnp.stack(parts), prior, prior + message, previous, previous + message
    )

    def log_normalizers(blocks: Blocks) -> dict[str, Array]:
        return {name: family.log_normalizer() for name, family in blocks.params.items()}

    found = jax.vmap(log_normalizers)(ends)  # one program for the four
    return {name: (over - start) - (on - past) for name, (start, over, past, on) in found.items()}


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


def standardised(batch: Batch, shift: Array, factor: Array) -> tuple[Batch, Array]:
    """The batch in internal units, and what the change of units adds to each row's log density."""
    values = (batch.values - shift[:, None]) * (1.0 / factor)[:, None]
    changed = batch.with_values(values.astype(batch.values.dtype))
    logs = jnp.log(factor)
    if not batch.missing:
        return changed, jnp.where(batch.mask, -logs.sum(), 0.0)
    return changed, -jnp.where(batch.observed, logs[:, None], 0.0).sum(0)
