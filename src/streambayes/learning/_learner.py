"""StreamLearner: a model and a policy, applied to one batch after another."""

import functools
from collections.abc import Mapping
from typing import Any, Literal, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.batch import Batch
from streambayes._core.column import CONTINUOUS
from streambayes._core.outcome import Outcome
from streambayes._core.precision import float64_scope
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief, AbstractFamily, Blocks, Point
from streambayes.forgetting import AbstractForgetting, Clock, Report
from streambayes.learning._intake import StreamBatch, pad, read_rows
from streambayes.learning._state import LearnerState, StepInfo, by_label, is_traced
from streambayes.learning._sweep import ascend
from streambayes.models import AbstractModel

__all__ = ["Score", "StepError", "StreamLearner"]

Model = AbstractModel[Any, Any]
Policy = AbstractForgetting[Any, Any]
Priors = Mapping[str, AbstractFamily] | AbstractFamily


class StepError(ArithmeticError):
    """A batch could not be learned; ``outcome`` says why. The state given to ``step`` still holds."""

    def __init__(self, outcome: Outcome) -> None:
        super().__init__(outcome.sentence)
        self.outcome = outcome


class Score(NamedTuple):
    """Mean over rows of their log-likelihood, in both of its definitions, in the user's units.

    Attributes:
        bound: Expected log-likelihood of a row under the posterior, hidden variables at their own
            optimum: the authors' definition.
        predictive: Log of a row's expected likelihood: the real predictive density.
        num_rows: Rows scored.
    """

    bound: float
    predictive: float
    num_rows: int


class _Learned(NamedTuple):
    memory: Any
    belief: Any
    report: Report
    bound: Array
    num_sweeps: Array
    num_rounds: Array
    outcome: Array


class _Compiled(NamedTuple):
    learn: Any
    score: Any
    log_predictive: Any
    start: Any


@final
class StreamLearner:
    """A model with a forgetting policy. It holds settings only; states are values.

    Args:
        model: What the rows look like.
        forgetting: What to keep of the past.
        prior: Instead of the model's default: a distribution per entry of blocks (alone, if the model
            has one entry), in the user's units. Entries that are left out keep their default.
        scale: ``True`` centres and scales continuous columns by the first batch in which they vary;
            ``False`` computes in the user's units; a mapping gives (shift, factor) per column.
        start: Where the first batch's sweeps start, like ``prior``.
        tolerance: The bound has settled when it gains at most this much per observation.
        max_sweeps: The most sweeps per batch.
    """

    def __init__(
        self,
        model: Model,
        forgetting: Policy,
        *,
        prior: Priors | None = None,
        scale: bool | Mapping[str, tuple[float, float]] = True,
        start: Priors | None = None,
        tolerance: float = 1e-12,
        max_sweeps: int = 1000,
    ) -> None:
        if not isinstance(model, AbstractModel):
            message = f"StreamLearner: model must be a model, got {model!r}"
            raise TypeError(message)
        if not isinstance(forgetting, AbstractForgetting):
            message = (
                f"StreamLearner: forgetting must be a policy such as HPP(), got {forgetting!r}"
            )
            raise TypeError(message)
        if model.is_coupled and not forgetting.maximises_bound:
            message = (
                f"{forgetting.name} needs a model whose complete conditional is in the family of its "
                f"prior; blocks of {type(model).__name__} are coupled"
            )
            raise ValueError(message)
        if not 0.0 <= tolerance < float("inf"):
            message = f"StreamLearner: tolerance must be at least 0 and finite, got {tolerance}"
            raise ValueError(message)
        if max_sweeps < 1:
            message = f"StreamLearner: max_sweeps must be at least 1, got {max_sweeps}"
            raise ValueError(message)
        self.model = model
        self.forgetting = forgetting
        self.tolerance = float(tolerance)
        self.max_sweeps = int(max_sweeps)
        self._scale = _initial_scale(model, scale)
        self._prior = _given_blocks(model, prior, "prior")
        self._start = _given_blocks(model, start, "start")
        self._compiled = _compile(model, forgetting, self.tolerance, self.max_sweeps)

    def init(self, first_batch: Any, *, seed: int = 0) -> LearnerState:
        """The state before any batch: scale and start from ``first_batch``, which is not yet learned."""
        rows = read_rows(self.model, first_batch)
        scale = self._scale.freeze(rows) if rows.shape[1] else self._scale
        with float64_scope():
            prior = self._internal(self._prior, scale, Blocks.of_prior(self.model.prior()))
            memory = self.forgetting.init(prior)
            if self._start:
                start = self._internal(self._start, scale, prior)
            else:
                batch = self._pad(rows)
                start = self._compiled.start(jax.random.key(seed), batch, prior, *_units(scale))
        return LearnerState(
            prior=prior,
            memory=memory,
            belief=Point(start),
            scale=scale,
            num_batches=np.int64(0),
            rows_seen=np.float64(0.0),
            pending=np.float64(0.0),
            last_time=np.float64(np.nan),
            model=self.model,
            forgetting=self.forgetting,
        )

    def step(
        self, state: LearnerState, batch: Any, *, time: float | None = None
    ) -> tuple[LearnerState, StepInfo]:
        """Learn one batch. The state given is left as it is; bad input raises and changes nothing.

        Args:
            state: From ``init`` or an earlier step.
            batch: A mapping of columns, a frame, an array, or a ``StreamBatch``.
            time: When the batch ends, on any clock; a ``StreamBatch`` brings its own.
        """
        self._check_state(state)
        rows = read_rows(self.model, batch)
        if time is None and isinstance(batch, StreamBatch):
            time = batch.time
        elapsed, last_time = _elapsed(state, time)
        if rows.shape[1] == 0:
            waiting = _replace(state, pending=np.float64(elapsed), last_time=last_time)
            return waiting, self._info_of_empty(state)
        events: tuple[str, ...] = ()
        if not state.scale.frozen.all():
            state, events = self._freeze(state, rows)
        padded = self._pad(rows)
        with float64_scope():
            learned, rows_seen = self._compiled.learn(
                state.memory,
                state.belief,
                state.prior,
                *_units(state.scale),
                padded,
                state.rows_seen,
                np.float64(elapsed),
            )
            outcome = Outcome(int(learned.outcome))
        if outcome.failed:
            raise StepError(outcome)
        after = _replace(
            state,
            memory=learned.memory,
            belief=learned.belief,
            num_batches=state.num_batches + 1,
            rows_seen=rows_seen,
            pending=np.float64(0.0),
            last_time=last_time,
        )
        return after, self._info(learned, rows.shape[1], outcome, events)

    def score(self, state: LearnerState, batch: Any) -> Score:
        """Mean log-likelihood of rows under the state, in both definitions; NaN if there are none."""
        self._check_state(state)
        rows = read_rows(self.model, batch)
        num_rows = rows.shape[1]
        if not num_rows:
            return Score(float("nan"), float("nan"), 0)
        with float64_scope():
            bound, predictive = self._compiled.score(
                state.belief, *_units(state.scale), self._pad(rows)
            )
        return Score(float(bound) / num_rows, float(predictive) / num_rows, num_rows)

    def log_predictive(self, state: LearnerState, batch: Any) -> np.ndarray:
        """Log predictive density of every row, in the user's units, shape (num_rows,)."""
        self._check_state(state)
        rows = read_rows(self.model, batch)
        with float64_scope():
            values = self._compiled.log_predictive(
                state.belief, *_units(state.scale), self._pad(rows)
            )
        return np.asarray(values)[: rows.shape[1]]

    def __repr__(self) -> str:
        return f"StreamLearner({self.model!r}, {self.forgetting!r})"

    def _pad(self, rows: np.ndarray) -> Batch:
        return pad(rows, self.model.columns, self.forgetting.minibatch_size or 1)

    def _internal(
        self, given: Mapping[str, AbstractFamily], scale: Scale, default: Blocks
    ) -> Blocks:
        """Given distributions in internal units, the default's for the rest."""
        params = {
            name: self.model.from_units(name, family, scale) for name, family in given.items()
        }
        part = Blocks(params=params, counts={name: default.counts[name] for name in given})
        blocks: Blocks = jax.tree.map(jnp.asarray, default.replaced(part))
        return blocks

    def _check_state(self, state: LearnerState) -> None:
        if not isinstance(state, LearnerState):
            message = f"expected a state from StreamLearner.init, got {type(state).__name__}"
            raise TypeError(message)
        if is_traced(state):
            message = "a step cannot run inside jax.jit or jax.vmap: it compiles itself"
            raise TypeError(message)
        if state.model != self.model or state.forgetting != self.forgetting:
            message = (
                f"the state belongs to {state.model!r} with {state.forgetting!r}, "
                f"this learner has {self.model!r} with {self.forgetting!r}"
            )
            raise ValueError(message)

    def _freeze(
        self, state: LearnerState, rows: np.ndarray
    ) -> tuple[LearnerState, tuple[str, ...]]:
        """Take the units of columns that vary for the first time; their blocks start anew."""
        scale = state.scale.freeze(rows)
        if scale is state.scale:
            return state, ()
        fresh = np.flatnonzero(scale.frozen & ~state.scale.frozen)
        touched: dict[str, Any] = {}
        events = []
        for place in fresh:
            name = self.model.columns[place].name
            for block, mask in self.model.touched_by(name).items():
                touched[block] = touched.get(block, np.zeros_like(mask)) | mask
            events.append(
                f"column {name!r} varies for the first time: its units are set (centre "
                f"{scale.shift[place]:.6g}, scale {scale.factor[place]:.6g}) and its blocks restart"
            )
        with float64_scope():
            prior = self._internal(self._prior, scale, Blocks.of_prior(self.model.prior()))
            memory = self.forgetting.restart(state.memory, prior, touched)
            belief = self.forgetting.belief(memory)
        state = _replace(state, scale=scale, prior=prior, memory=memory, belief=belief)
        return state, tuple(events)

    def _info(
        self, learned: _Learned, num_rows: int, outcome: Outcome, events: tuple[str, ...]
    ) -> StepInfo:
        bound = float(learned.bound) if self.forgetting.maximises_bound else None
        return StepInfo(
            num_rows=num_rows,
            bound=bound,
            rho=self._readable(learned.report.rho),
            omega=self._readable(learned.report.omega),
            retained=by_label(self.model, learned.belief.summary().counts),
            num_sweeps=int(learned.num_sweeps),
            num_rounds=int(learned.num_rounds),
            outcome=outcome,
            events=events,
        )

    def _info_of_empty(self, state: LearnerState) -> StepInfo:
        return StepInfo(
            num_rows=0,
            bound=None,
            rho=None,
            omega=None,
            retained=state.retained,
            num_sweeps=0,
            num_rounds=0,
            outcome=Outcome.EMPTY,
        )

    def _readable(self, value: Any) -> float | dict[str, float] | None:
        if value is None:
            return None
        return by_label(self.model, value) if isinstance(value, dict) else float(value)


@functools.cache
def _compile(model: Model, policy: Policy, tolerance: float, max_sweeps: int) -> _Compiled:
    """The compiled functions of a model and a policy; equal settings share them."""

    def learn_one(
        memory: Any, belief: AbstractBelief, prior: Blocks, batch: Batch, clock: Clock
    ) -> _Learned:
        anchor = policy.open(memory, prior, clock)
        proper = policy.is_proper(anchor)
        at = ascend(
            model,
            policy,
            batch,
            anchor,
            belief,
            tolerance=tolerance * jnp.maximum(clock.rows, 1.0),
            max_sweeps=max_sweeps,
        )
        memory, report = policy.close(at.anchor, at.belief, clock)
        posterior = at.belief.summary()
        finite = posterior.is_finite()
        if policy.maximises_bound:
            finite = finite & jnp.isfinite(at.bound)
        outcome = jnp.where(at.settled, Outcome.CONVERGED, Outcome.MAX_SWEEPS)
        outcome = jnp.where(finite, outcome, Outcome.NOT_FINITE)
        outcome = jnp.where(proper & posterior.is_proper(), outcome, Outcome.IMPROPER)
        return _Learned(memory, at.belief, report, at.bound, at.num_sweeps, at.num_rounds, outcome)

    def learn(
        memory: Any,
        belief: AbstractBelief,
        prior: Blocks,
        shift: Array,
        factor: Array,
        batch: Batch,
        rows_seen: Array,
        elapsed: Array,
    ) -> tuple[_Learned, Array]:
        batch, log_jacobian = _standardised(batch, shift, factor)
        rows = model.num_observations(batch)
        clock = Clock(rows=rows, rows_seen=rows_seen, elapsed=elapsed)
        if policy.minibatch_size is None:
            learned = learn_one(memory, belief, prior, batch, clock)
        else:
            learned = learn_minibatches(memory, belief, prior, batch, clock, policy.minibatch_size)
        return learned._replace(bound=learned.bound + log_jacobian), rows_seen + rows

    def learn_minibatches(
        memory: Any, belief: AbstractBelief, prior: Blocks, batch: Batch, clock: Clock, size: int
    ) -> _Learned:
        pieces = batch.values.shape[1] // size
        values = batch.values.reshape(-1, pieces, size).swapaxes(0, 1)
        num_rows = jnp.clip(batch.num_rows - size * jnp.arange(pieces), 0, size)

        def one(carry: tuple[Any, Any, Array], piece: tuple[Array, Array]) -> Any:
            memory, belief, seen = carry
            part = Batch(values=piece[0], num_rows=piece[1], columns=batch.columns)
            rows = model.num_observations(part)
            # the batch's time passes at its first minibatch
            elapsed = jnp.where(seen > clock.rows_seen, 0.0, clock.elapsed)
            now = Clock(rows=rows, rows_seen=seen, elapsed=elapsed)
            learned = learn_one(memory, belief, prior, part, now)
            keep = lambda new, old: jnp.where(part.num_rows > 0, new, old)  # noqa: E731
            memory, belief = jax.tree.map(keep, (learned.memory, learned.belief), (memory, belief))
            worst = jnp.where(part.num_rows > 0, learned.outcome, Outcome.CONVERGED)
            rest = learned._replace(memory=None, belief=None, outcome=worst)
            return (memory, belief, seen + rows), rest

        carry, each = jax.lax.scan(one, (memory, belief, clock.rows_seen), (values, num_rows))
        last: _Learned = jax.tree.map(lambda leaf: leaf[-1], each)
        return last._replace(
            memory=carry[0],
            belief=carry[1],
            outcome=each.outcome.max(),
            num_sweeps=jnp.where(num_rows > 0, each.num_sweeps, 0).sum(),
        )

    def score(
        belief: AbstractBelief, shift: Array, factor: Array, batch: Batch
    ) -> tuple[Array, Array]:
        batch, log_jacobian = _standardised(batch, shift, factor)
        expectations = belief.expectations()
        bound = model.expected_log_joint(expectations, _settled_rows(model, expectations, batch))
        density = jnp.where(batch.mask, model.log_predictive(belief, batch), 0.0).sum()
        return bound + log_jacobian, density + log_jacobian

    def log_predictive(belief: AbstractBelief, shift: Array, factor: Array, batch: Batch) -> Array:
        batch, _ = _standardised(batch, shift, factor)
        return model.log_predictive(belief, batch) - jnp.log(factor).sum()

    def start(key: Array, batch: Batch, prior: Blocks, shift: Array, factor: Array) -> Blocks:
        return model.start(key, _standardised(batch, shift, factor)[0], prior)

    return _Compiled(jax.jit(learn), jax.jit(score), jax.jit(log_predictive), jax.jit(start))


def _settled_rows(model: Model, expectations: Mapping[str, Any], batch: Batch) -> Any:
    """Sums over rows with their hidden variables at their optimum for fixed parameters."""
    local, summary = model.row_pass(expectations, batch, model.init_local(batch))
    if not model.uses_local:
        return summary
    joint = model.expected_log_joint(expectations, summary)

    def gaining(at: tuple[Any, Any, Array, Array, Array]) -> Array:
        return at[4] & (at[3] < 100)

    def body(at: tuple[Any, Any, Array, Array, Array]) -> tuple[Any, Any, Array, Array, Array]:
        local, summary = model.row_pass(expectations, batch, at[0])
        joint = model.expected_log_joint(expectations, summary)
        return local, summary, joint, at[3] + 1, joint - at[2] > 1e-10 * batch.num_rows

    first = (local, summary, joint, jnp.zeros((), int), jnp.ones((), bool))
    return jax.lax.while_loop(gaining, body, first)[1]


def _standardised(batch: Batch, shift: Array, factor: Array) -> tuple[Batch, Array]:
    """The batch in internal units, and what the change of units adds to its log density."""
    values = (batch.values - shift[:, None]) / factor[:, None]
    changed = Batch(values=values, num_rows=batch.num_rows, columns=batch.columns)
    return changed, -batch.num_rows * jnp.log(factor).sum()


def _units(scale: Scale) -> tuple[Any, Any]:
    return scale.shift, scale.factor


def _elapsed(state: LearnerState, time: float | None) -> tuple[float, Any]:
    """Time since the last batch with rows, and the new last time."""
    pending = float(state.pending)
    if time is None:
        return pending, state.last_time
    last = float(state.last_time)
    if not np.isfinite(time) or time < last:
        message = f"time must not go back: this batch has {time}, the last one {last}"
        raise ValueError(message)
    passed = 0.0 if np.isnan(last) else time - last
    return pending + passed, np.float64(time)


def _replace(state: LearnerState, **changes: Any) -> LearnerState:
    fields = {**state.__dict__, **changes}
    return LearnerState(**fields)


def _initial_scale(model: Model, scale: bool | Mapping[str, tuple[float, float]]) -> Scale:
    if isinstance(scale, bool):
        return model.scale_from_data(free=scale)
    initial = model.scale_from_data(free=True)
    shift, factor, frozen = initial.shift.copy(), initial.factor.copy(), initial.frozen.copy()
    places = {column.name: place for place, column in enumerate(model.columns)}
    for name, (centre, width) in scale.items():
        if name not in places or model.columns[places[name]].kind != CONTINUOUS:
            message = f"scale: {name!r} is not a continuous column of the model"
            raise ValueError(message)
        if not (np.isfinite(centre) and 0.0 < width < float("inf")):
            message = f"scale of {name!r}: shift must be finite and factor positive, got {(centre, width)}"
            raise ValueError(message)
        shift[places[name]], factor[places[name]], frozen[places[name]] = centre, width, True
    return Scale(shift=shift, factor=factor, frozen=frozen)


def _given_blocks(
    model: Model, given: Priors | None, what: Literal["prior", "start"]
) -> dict[str, AbstractFamily]:
    default = model.prior()
    if given is None:
        return {}
    if isinstance(given, AbstractFamily):
        if len(default) > 1:
            message = f"{what}: name the blocks, a mapping with some of {sorted(default)}"
            raise ValueError(message)
        given = dict.fromkeys(default, given)
    checked = {}
    for name, family in given.items():
        if name not in default:
            message = f"{what}: no block {name!r}; the model has {sorted(default)}"
            raise ValueError(message)
        checked[name] = _fit(what, name, family, default[name])
    return checked


def _fit(what: str, name: str, family: AbstractFamily, default: AbstractFamily) -> AbstractFamily:
    """The given distribution over the default's blocks, if it is one."""
    wanted = type(default).__name__
    if type(family) is not type(default):
        message = f"{what} of {name!r} must be a {wanted}, got {type(family).__name__}"
        raise TypeError(message)
    try:
        fitted = family.broadcast_to(default.batch_shape)
        same = all(
            np.shape(mine) == np.shape(theirs)
            for mine, theirs in zip(fitted.naturals(), default.naturals(), strict=True)
        )
    except ValueError:
        same = False
    if not same:
        message = (
            f"{what} of {name!r}: {wanted} over {family.batch_shape} does not fit the model's "
            f"blocks of shape {default.batch_shape}"
        )
        raise ValueError(message)
    if not np.all(family.is_proper()):
        message = f"{what} of {name!r} is not a proper {wanted}"
        raise ValueError(message)
    return fitted
