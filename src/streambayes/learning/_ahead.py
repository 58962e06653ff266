"""Batches of a run that are learned together: several in one program, and while it runs the next are read."""

import time as clock
from collections.abc import Iterator
from contextlib import AbstractContextManager, nullcontext
from typing import Any, NamedTuple, final

import jax
import numpy as np

from streambayes._core.batch import Batch
from streambayes._core.outcome import Outcome
from streambayes._core.precision import float64_scope, to_host
from streambayes._core.program import prepared
from streambayes.families import AbstractBelief
from streambayes.learning._compiled import Left
from streambayes.learning._intake import Kind, StreamBatch, pad_several, read_rows
from streambayes.learning._learner import Score, StepError, StreamLearner, elapsed_until, replaced
from streambayes.learning._notes import Notes, Seen, noter
from streambayes.learning._state import LearnerState, StepInfo

__all__ = ["Ahead", "Done", "can_go_ahead"]

_MOST_BATCHES = 32
_MOST_NUMBERS = 2**21


class Done(NamedTuple):
    """What became of a batch.

    Attributes:
        mark: What it was given with.
        info: What its step did, or the error that it failed with.
        seconds: Its share of the time that the batches which ran with it took.
        notes: What it did to the parameters, if that is wanted.
        score: Its predictive score before it was learned, likewise, if anything was learned before it.
    """

    mark: Any
    info: StepInfo | StepError
    seconds: float
    notes: Notes | None = None
    score: Score | None = None


class _Waiting(NamedTuple):
    """A batch that was read."""

    mark: Any
    rows: np.ndarray
    elapsed: float


class _Running(NamedTuple):
    """Batches that are being learned, since when, after what belief, and what programs return of them."""

    waiting: list[_Waiting]
    since: float
    before: AbstractBelief
    left: Left
    scores: Any
    seen: Any
    count: Any


@final
class Ahead:
    """Takes batches one by one and learns several at a time, so that results come with a delay.

    For sources that can be read again: what it has read and not yet learned is nowhere else. It learns what
    ``StreamLearner.step`` does, in a program of its own.

    Args:
        learner: The learner.
        state: A state with which it ``can_go_ahead``.
        with_notes: Whether to note what became of the parameters.
        with_scores: Whether to score each batch before it is learned.
    """

    def __init__(
        self, learner: StreamLearner, state: LearnerState, *, with_notes: bool, with_scores: bool
    ) -> None:
        learner._check_state(state)
        self._noter = noter(learner.model) if with_notes else None
        self._with_scores = with_scores
        self._learner = learner
        self._state = state
        self._num_reported = int(state.num_batches)
        self._kind: Kind | None = None
        self._waiting: list[_Waiting] = []
        self._running: _Running | None = None
        self._prepared: set[Kind | None] = set()

    @property
    def state(self) -> LearnerState:
        """After all batches that were reported; once ``finish`` is through, after all."""
        return self._state

    def take(self, mark: Any, batch: StreamBatch) -> Iterator[Done]:
        """Learn a batch, now or later; what has become of earlier ones meanwhile.

        Args:
            mark: Comes back with what became of the batch.
            batch: The batch.
        """
        learner = self._learner
        rows = read_rows(learner.model, learner.model.columns, batch.columns)
        if not rows.shape[1]:
            yield from self.finish()
            since = clock.perf_counter()
            self._state, info = learner.step(self._state, batch)
            yield Done(mark, info, clock.perf_counter() - since)
            return
        if self._with_scores:
            learner._check_distances(self._state, rows)
        elapsed, last_time = elapsed_until(self._state, batch.time)
        kind = learner._kind(rows)
        if self._waiting and kind != self._kind:
            yield from self._start()
        self._kind = kind
        self._waiting.append(_Waiting(mark, rows, elapsed))
        self._state = replaced(self._state, pending=np.float64(0.0), last_time=last_time)
        if len(self._waiting) == _capacity(kind):
            yield from self._start()

    def finish(self) -> Iterator[Done]:
        """Learn what waits; all that was not reported yet."""
        if self._waiting:
            yield from self._start()
        yield from self._report()

    def _start(self) -> Iterator[Done]:
        """Start what waits; report what ran before."""
        learner, state, before = self._learner, self._state, self._running
        waiting, self._waiting = self._waiting, []
        kind: Any = self._kind
        elapsed = np.zeros(_capacity(kind))
        elapsed[: len(waiting)] = [each.elapsed for each in waiting]
        batches = pad_several([each.rows for each in waiting], kind, len(elapsed))
        scores = None
        with self._others_prepared(batches), float64_scope():
            memory, rows_seen, left, count = learner._stepper.learn_several(
                learner._settings,
                state.memory,
                state.belief,
                state.prior,
                state.scale,
                batches,
                state.rows_seen,
                elapsed,
                np.int64(len(waiting)),
                with_forecasts=self._with_scores,
                with_beliefs=self._noter is not None,
            )
            belief = learner.forgetting.belief(memory)
        if left.forecast is not None:  # on another core, while the next batches are learned
            with float64_scope():
                units = state.scale.shift, state.scale.factor
                scores = learner._scorer.score_several(left.forecast, *units, batches, count)
            left = left._replace(forecast=None)
        watch, seen = state.watch, None
        if watch is not None:
            watch, seen = noter(learner.model).watch_several(
                watch, state.prior, state.scale, left.message, count
            )
        self._state = replaced(
            state,
            memory=memory,
            belief=belief,
            watch=watch,
            rows_seen=rows_seen,
            num_batches=state.num_batches + len(waiting),
        )
        self._running = _Running(
            waiting, clock.perf_counter(), state.belief, left, scores, seen, count
        )
        yield from self._report_of(before)

    def _others_prepared(self, batches: Batch) -> AbstractContextManager[None]:
        """While such batches are learned the first time, what watches and scores them is made ready."""
        learner, state, capacity = self._learner, self._state, batches.values.shape[0]
        watch, scale, preparations = state.watch, state.scale, []
        like: Any = jax.ShapeDtypeStruct
        if self._kind in self._prepared:
            return nullcontext()
        self._prepared.add(self._kind)
        if watch is not None:
            made = noter(learner.model)
            preparations.append(lambda: made.prepare(watch, state.prior, scale, capacity))
        if self._with_scores:

            def prepare_scores() -> None:
                forecast = learner._belief(state, "forecast")
                forecasts = jax.tree.map(
                    lambda leaf: like((capacity, *np.shape(leaf)), float), forecast
                )
                units, count = (scale.shift, scale.factor), like((), int)
                learner._scorer.score_several.prepare(forecasts, *units, batches, count)

            preparations.append(prepare_scores)
        return prepared(*preparations)

    def _report(self) -> Iterator[Done]:
        running, self._running = self._running, None
        yield from self._report_of(running)
        self._state = replaced(self._state, rows_seen=np.float64(self._state.rows_seen))

    def _report_of(self, running: _Running | None) -> Iterator[Done]:
        """What became of batches, waiting for it if need be."""
        if running is None:
            return
        learner = self._learner
        count = int(running.count)
        left = jax.tree.map(lambda leaf: leaf[:count], to_host(running.left))
        scores = None if running.scores is None else np.asarray(running.scores)
        seen: list[Seen] | list[None] = [None] * count
        if running.seen is not None:
            flats = np.asarray(running.seen)[:count]
            seen = noter(learner.model).seen_several(flats, self._state.scale)
        notes: list[Notes] | None = None
        if self._noter is not None:
            notes = self._noter.note_several(running.before, left.belief, self._state.scale)
        seconds = (clock.perf_counter() - running.since) / count
        for number, each in enumerate(running.waiting[:count]):
            flat = left.facts[number]
            facts = learner._stepper.read_facts(flat)
            outcome = Outcome(int(facts.outcome))
            if outcome.failed:
                self._waiting, self._running = [], None
                yield Done(each.mark, StepError(outcome), seconds)
                return
            info = learner._info(facts, each.rows.shape[1], outcome, seen[number])
            score = None
            if scores is not None and self._num_reported:
                score = learner._score_of(each.rows, np.nan, scores[number])
            self._num_reported += 1
            noted = None if notes is None else notes[number]
            yield Done(each.mark, info, seconds, noted, score)


def can_go_ahead(learner: StreamLearner, state: LearnerState) -> bool:
    """Whether no rows to come will change units or starts, and steps are short enough for it to matter."""
    return bool(state.scale.frozen.all()) and not learner.model.rows_to_start


def _capacity(kind: Kind) -> int:
    """How many batches go together."""
    most = _MOST_NUMBERS // (kind.size * max(len(kind.columns), 1))
    return min(max(most, 1), _MOST_BATCHES)
