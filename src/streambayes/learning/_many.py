"""Many streams at once: learners of one model and one policy, stepped together in one compiled call."""

import dataclasses
import functools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, final

import jax
import numpy as np
from jax import Array

from streambayes._core.batch import Batch
from streambayes._core.column import is_missing
from streambayes._core.names import meant
from streambayes._core.outcome import Outcome
from streambayes._core.precision import float64_scope, to_host
from streambayes._core.program import Program
from streambayes._core.scale import Scale
from streambayes.families import Blocks
from streambayes.learning._compiled import standardised
from streambayes.learning._intake import (
    StreamBatch,
    aligned_zeros,
    bucket_size,
    missing_columns,
    padded_size,
    read_rows,
    table,
)
from streambayes.learning._learner import (
    Learned,
    StreamLearner,
    check_time,
    needs_time,
    replaced,
    start_key,
)
from streambayes.learning._notes import Seen, noter
from streambayes.learning._state import LearnerState, StepInfo
from streambayes.learning._watch import Watch

__all__ = ["ManyInfo", "ManyLearner", "ManyStates", "many"]

_OF_LEARNING: dict[str, Any] = dict.fromkeys(
    (
        "bound",
        "fall",
        "rho",
        "omega",
        "log_bf",
        "drifting",
        "recalled",
        "memory",
        "seen",
        "rho_sd",
    )
)
"""What the info of a batch lacks that could not be learned."""
_FEW = 1000
"""Streams among whose names one is looked for that may be meant: of many that takes long."""
_TOGETHER = 1024
"""Streams that are learned in one call: beyond, what is computed of them leaves the processor's cache."""


def many(learner: StreamLearner, *, watch: bool = False) -> "ManyLearner":
    """A learner for thousands of independent streams, which takes all of them a step in one call.

    Every stream has its own state and batches of its own size, and may be silent in a step. What comes
    out is what ``learner`` gives stream by stream.

    Args:
        learner: Model, policy and settings of every stream.
        watch: Whether to look for changes in every stream. A watch keeps some 130 times as many numbers as a posterior
            has, and takes many times as long as the step itself.
    """
    return ManyLearner(learner, watch=watch)


@final
class ManyStates(Mapping[Hashable, LearnerState]):
    """The states of many streams by name, each to be taken out, saved and used like any other.

    It stays as it is: ``added``, ``dropped`` and steps return another one.
    """

    def __init__(self, places: Mapping[Hashable, int], stacked: LearnerState) -> None:
        self._places = places
        self._stacked = stacked

    @classmethod
    def of(cls, states: Mapping[Hashable, LearnerState]) -> "ManyStates":
        """Put states together; they must belong to the same model and policy.

        If one has no watch, none keeps it.

        Args:
            states: A state for every name, at least one.
        """
        if not states:
            message = "ManyStates.of: at least one state is needed"
            raise ValueError(message)
        for name, state in states.items():
            if not isinstance(state, LearnerState):
                message = f"the state of {name!r} must be one from init, got {state!r}"
                raise TypeError(message)
        held = [to_host(state) for state in states.values()]
        for name, state in states.items():
            if (state.model, state.forgetting) != (held[0].model, held[0].forgetting):
                message = f"the state of {name!r} belongs to another model or policy than the first"
                raise ValueError(message)
        if any(state.watch is None for state in held):
            held = [replaced(state, watch=None) for state in held]
        stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *held)
        return cls({name: place for place, name in enumerate(states)}, stacked)

    def __getitem__(self, name: Hashable) -> LearnerState:
        if name not in self._places:
            hint = meant(name, self._places) if len(self) <= _FEW else ""
            message = f"there is no stream {name!r} among the {len(self)}{hint}"
            raise KeyError(message)
        return _state_at(self._stacked, self._places[name])

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"ManyStates of {len(self)} streams"

    @property
    def stacked(self) -> LearnerState:
        """All states as one, with a leading axis of streams."""
        return self._stacked

    def place(self, name: Hashable) -> int:
        """Where a stream is on that axis."""
        if name not in self._places:
            message = (
                f"there is no stream {name!r}; add it first, "
                f"states.added({{{name!r}: learner.init(batch)}})"
            )
            raise ValueError(message)
        return self._places[name]

    def places(self, names: list[Hashable]) -> np.ndarray:
        """Where streams are on that axis."""
        return np.array([self.place(name) for name in names], int)

    def with_stacked(self, stacked: LearnerState) -> "ManyStates":
        """The same streams with other states."""
        return ManyStates(self._places, stacked)

    def added(self, states: Mapping[Hashable, LearnerState]) -> "ManyStates":
        """With further streams, or other states for streams that are there.

        Args:
            states: By name, from ``StreamLearner.init``, ``sb.load`` or another ``ManyStates``.
        """
        if not isinstance(states, Mapping):
            message = f"added: give a mapping from streams to states, got {type(states).__name__}"
            raise TypeError(message)
        if not states:
            return self
        new = ManyStates.of(states)
        held = self._stacked
        if (new.stacked.model, new.stacked.forgetting) != (held.model, held.forgetting):
            message = "added: the states belong to another model or policy than the others"
            raise ValueError(message)
        more = new.stacked
        if held.watch is None or more.watch is None:
            held, more = (replaced(each, watch=None) for each in (held, more))
        names = list(dict.fromkeys([*self, *states]))
        # all one after the other; of a name that is there twice, the later one
        both = {**self._places, **{name: len(self) + at for at, name in enumerate(states)}}
        taken = np.array([both[name] for name in names], int)
        with float64_scope():
            stacked = jax.tree.map(
                lambda old, more: np.concatenate([np.asarray(old), more])[taken],
                held,
                more,
            )
        return ManyStates({name: place for place, name in enumerate(names)}, stacked)

    def dropped(self, names: Iterable[Hashable]) -> "ManyStates":
        """Without some streams.

        Args:
            names: Their names; ``ValueError`` if one is not there.
        """
        names = [names] if isinstance(names, str) else list(names)
        for name in names:
            if name not in self._places:
                message = f"dropped: there is no stream {name!r} among the {len(self)}"
                raise ValueError(message)
        gone = {self._places[name] for name in names}
        kept = np.array([place for place in range(len(self)) if place not in gone], int)
        if not len(kept):
            message = "dropped: at least one stream must stay"
            raise ValueError(message)
        left = [name for name, place in self._places.items() if place not in gone]
        with float64_scope():
            stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[kept], self._stacked)
        return ManyStates({name: place for place, name in enumerate(left)}, stacked)


@final
class ManyInfo(Mapping[Hashable, StepInfo]):
    """What a step did, stream by stream; streams without rows are not there."""

    def __init__(
        self,
        learner: StreamLearner,
        names: list[Hashable],
        num_rows: np.ndarray,
        facts: np.ndarray,
        seen: np.ndarray | None,
        scale: Scale,
        events: Mapping[int, tuple[str, ...]],
        before: ManyStates,
    ) -> None:
        self._learner = learner
        self._names = names
        self._facts = facts
        self._seen = seen
        self._scale = scale
        self._events = events
        self._before = before
        self._num_rows = num_rows
        self._outcomes = np.zeros(0, int)
        if len(facts):
            self._outcomes = np.asarray(learner._stepper.read_facts(facts).outcome, int)

    @functools.cached_property
    def _numbers(self) -> dict[Hashable, int]:
        return {name: number for number, name in enumerate(self._names)}

    def __getitem__(self, name: Hashable) -> StepInfo:
        number = self._numbers[name]
        outcome = Outcome(int(self._outcomes[number]))
        info = self._learner._info(
            self._learner._stepper.read_facts(self._facts[number]),
            int(self._num_rows[number]),
            outcome,
            self._seen_of(number),
            self._events.get(number, ()),
        )
        if outcome.failed:  # nothing was learned or forgotten
            held = self._before[name].retained
            info = dataclasses.replace(
                info,
                **_OF_LEARNING,
                retained=held,
            )
        return info

    def _seen_of(self, number: int) -> Seen | None:
        if self._seen is None:
            return None
        notes, scale = noter(self._learner.model), _rows_of(self._scale, number)
        return Seen(notes, self._seen[number], notes.without_units(scale))

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._names)

    def __len__(self) -> int:
        return len(self._names)

    def __repr__(self) -> str:
        return f"ManyInfo of {len(self)} streams, {len(self.failed)} failed"

    @property
    def failed(self) -> dict[Hashable, Outcome]:
        """Streams whose batch could not be learned, and why; their states are as they were."""
        bad = np.isin(self._outcomes, [outcome for outcome in Outcome if outcome.failed])
        return {self._names[n]: Outcome(int(self._outcomes[n])) for n in np.flatnonzero(bad)}


class _Reports(NamedTuple):
    """Batches of several streams, one after the other.

    Attributes:
        names: The streams, those without rows too.
        values: Rows of all, shape (num_columns, num_rows).
        starts: Where each stream's rows start.
        sizes: How many it has.
        times: Its time; NaN for none.
    """

    names: list[Hashable]
    values: np.ndarray
    starts: np.ndarray
    sizes: np.ndarray
    times: np.ndarray

    def rows(self, number: int) -> np.ndarray:
        """The rows of one stream."""
        first = self.starts[number]
        return self.values[:, first : first + self.sizes[number]]

    def put_into(self, zeros: np.ndarray, numbers: np.ndarray) -> None:
        """The rows of some streams into zeros of shape (num_streams, num_columns, width)."""
        starts, sizes = self.starts[numbers], self.sizes[numbers]
        num_columns, width, size = len(self.values), zeros.shape[2], int(sizes[0])
        if (sizes == size).all() and (np.diff(starts) == size).all():  # they lie together
            rows = self.values[:, starts[0] : starts[0] + size * len(numbers)]
            zeros[:, :, :size] = rows.reshape(num_columns, -1, size).swapaxes(0, 1)
            return
        inside = np.arange(width) < sizes[:, None]
        cells = np.where(inside, starts[:, None] + np.arange(width), 0)
        zeros[:] = np.where(inside, self.values[:, cells], zeros.dtype.type(0)).swapaxes(0, 1)


@final
class ManyLearner:
    """What ``sb.many`` returns: ``init`` and ``step`` of a learner for many streams at once."""

    def __init__(self, learner: StreamLearner, *, watch: bool = False) -> None:
        if not isinstance(learner, StreamLearner):
            message = f"many: a StreamLearner is needed, got {learner!r}"
            raise TypeError(message)
        self.learner = learner
        self.watch = bool(watch)
        self._columns = learner.model.columns
        policy = learner.forgetting
        of = (learner.model, policy, self.watch)
        chosen = learner._prior or learner._start  # by users, as what they please
        begin = jax.vmap(self._begin_one, in_axes=(None, 0, 0))
        self._begin = Program(begin, of=() if chosen else ("many_begin", *of))
        self._believed = Program(jax.vmap(policy.belief), of=("many_believed", policy))
        self._summary = Program(jax.vmap(lambda belief: belief.summary()), of=("many_summary",))

    def __repr__(self) -> str:
        return f"many({self.learner!r})"

    def init(self, batches: Any, *, by: str | None = None, seed: int = 0) -> ManyStates:
        """States before any batch: units and start of every stream from its first batch, not yet learned.

        Args:
            batches: A batch for every stream, by name; or a table of all rows, see ``by``.
            by: The table's column that names a row's stream.
            seed: For the starts.
        """
        reports = self._read(batches, by, None)
        if not reports.names:
            message = "many: at least one stream is needed"
            raise ValueError(message)
        places = {name: place for place, name in enumerate(reports.names)}
        if self.learner.num_restarts > 1 or not reports.sizes.all():
            each = {
                name: self.learner._begun(reports.rows(place), seed)
                for name, place in places.items()
            }
            if not self.watch:
                each = {name: replaced(state, watch=None) for name, state in each.items()}
            return ManyStates.of(each)
        key = start_key(seed)
        units = [self.learner._scale.freeze(reports.rows(place)) for place in places.values()]
        scale: Scale = jax.tree.map(lambda *parts: np.stack(parts), *units)
        parts, order = [], []
        reports = reports._replace(values=reports.values.astype(np.float64))
        for members, batch in self._groups(reports, np.arange(len(places))):
            lanes = _padded(members, len(batch.num_rows), members[0])
            with float64_scope():
                found = self._begin(key, batch, _rows_of(scale, lanes))
            parts.append(_rows_of(found, np.arange(len(members))))
            order.append(members)
        back = np.argsort(np.concatenate(order))
        prior, memory, belief, watch = jax.tree.map(
            lambda *some: np.concatenate(some)[back], *parts
        )
        stacked = LearnerState(
            prior=prior,
            memory=memory,
            belief=belief,
            watch=watch,
            scale=scale,
            num_batches=np.zeros(len(places), np.int64),
            rows_seen=np.zeros(len(places)),
            pending=np.zeros(len(places)),
            last_time=np.full(len(places), np.nan),
            model=self.learner.model,
            forgetting=self.learner.forgetting,
        )
        return ManyStates(places, stacked)

    def step(
        self, states: ManyStates, batches: Any, *, by: str | None = None, time: float | None = None
    ) -> tuple[ManyStates, ManyInfo]:
        """Learn a batch of every stream that has one; the others keep their states.

        A batch that cannot be learned leaves its stream as it was, and ``ManyInfo.failed`` names it. Bad
        input raises and changes nothing.

        Args:
            states: From ``init`` or an earlier step.
            batches: Batches by name of the stream; or a table of all rows, see ``by``.
            by: The table's column that names a row's stream.
            time: The time of all batches; a ``StreamBatch`` brings its own.
        """
        if not isinstance(states, ManyStates):
            message = f"expected states from init, got {type(states).__name__}"
            raise TypeError(message)
        self.learner._check_state(states.stacked, of_many=True)
        reports = self._read(batches, by, time)
        places = states.places(reports.names)
        stacked = _waited(states.stacked, reports, places)
        busy = np.flatnonzero(reports.sizes > 0)
        stacked, events = self._prepared(stacked, reports, places, busy)
        order, memory, facts, watch, seen = busy, None, np.zeros((0, 0)), None, None
        if len(busy):
            parts = [
                (members, *self._learn(stacked, batch, places[members]))
                for members, batch in self._groups(reports, busy)
            ]  # all are under way before the first one is waited for
            parts = [(members, *_rows_of(part, slice(len(members)))) for members, *part in parts]
            together = jax.tree.map(lambda *some: np.concatenate(some), *parts)
            if (np.diff(together[0]) < 0).any():
                together = _rows_of(together, np.argsort(together[0]))
            order, memory, facts, watch, seen = self._told_apart(
                stacked, reports, places, together, events
            )
        info = ManyInfo(
            self.learner,
            [reports.names[number] for number in order],
            reports.sizes[order],
            facts,
            seen,
            _rows_of(stacked.scale, places[order]),
            {place: events[n] for place, n in enumerate(order.tolist()) if n in events},
            states,
        )
        if len(busy):
            stacked = self._learned(stacked, places[order], memory, watch, facts)
        failed = np.array([states.place(name) for name in info.failed], int)
        if len(failed):
            stacked = _put(stacked, failed, _rows_of(states.stacked, failed))
        return states.with_stacked(stacked), info

    def _learn(self, stacked: LearnerState, batch: Batch, places: np.ndarray) -> tuple[Any, ...]:
        """Of streams at some places, after their batches: memory, facts, the watch and what it saw; padded."""
        lanes = _span(_padded(places, len(batch.num_rows), places[0]))
        prior, scale = _rows_of((stacked.prior, stacked.scale), lanes)
        with float64_scope():
            memory, message, facts = self.learner._stepper.learn_many(
                self.learner._settings,
                *_rows_of((stacked.memory, stacked.belief), lanes),
                prior,
                scale.shift,
                scale.factor,
                batch,
                stacked.rows_seen[lanes],
                stacked.pending[lanes],
            )
            if stacked.watch is None:
                return memory, facts, None, None
            watch = _rows_of(stacked.watch, lanes)
            return (
                memory,
                facts,
                *noter(self.learner.model).watch_many(watch, prior, scale, message),
            )

    def _told_apart(
        self,
        stacked: LearnerState,
        reports: _Reports,
        places: np.ndarray,
        learned: Any,
        events: dict[int, tuple[str, ...]],
    ) -> Any:
        """Streams whose batches have left values of latent variables alike learn them again, by themselves."""
        order, memory, flat, watch, seen = learned
        alike = self.learner._stepper.read_facts(flat).alike.values()
        odd = np.zeros(len(order), bool)
        for values in alike:
            odd |= (values > 0).any((1, 2))
        every = memory, flat, watch, seen
        for at in np.flatnonzero(odd).tolist():
            number = int(order[at])
            state = _state_at(stacked, int(places[number]))
            facts = self.learner._stepper.read_facts(flat[at])
            rows = reports.rows(number)
            one = jax.tree.map(lambda leaf, at=at: leaf[at], memory)
            before = Learned(one, None, facts, flat[at], rows.shape[1])
            after, told = self.learner._told_apart(state, rows, float(state.pending), before)
            if after is not before:
                now, saw = self.learner._watched(state, after.message)
                flat_of = None if saw is None else saw.flat
                new = to_host((after.memory, after.flat, now, flat_of))
                every = jax.tree.map(
                    lambda leaf, entry, at=at: _put(leaf, np.array([at]), entry), every, new
                )
                events[number] = (*events.get(number, ()), *told)
        return order, *every

    def _learned(
        self,
        stacked: LearnerState,
        places: np.ndarray,
        memory: Any,
        watch: Watch | None,
        facts: np.ndarray,
    ) -> LearnerState:
        """The states with what streams at some places have learned."""
        with float64_scope():
            belief = to_host(self._believed(memory))
        rows = self.learner._stepper.read_facts(facts).num_observations
        learned = {
            "memory": memory,
            "belief": belief,
            "watch": watch,
            "rows_seen": np.asarray(stacked.rows_seen)[places] + rows,
            "num_batches": np.asarray(stacked.num_batches)[places] + 1,
            "pending": np.zeros(len(places)),
        }
        before = {name: getattr(stacked, name) for name in learned}
        return replaced(stacked, **_put(before, places, learned))

    def _prepared(
        self, stacked: LearnerState, reports: _Reports, places: np.ndarray, busy: np.ndarray
    ) -> tuple[LearnerState, dict[int, tuple[str, ...]]]:
        """Streams whose columns vary for the first time, or that start anew, by themselves."""
        odd: np.ndarray = np.logical_not(stacked.scale.frozen).any(1)
        needed = self.learner.model.rows_to_start
        if needed:
            few = stacked.rows_seen < needed
            fresh = few & (stacked.num_batches == 0)
            odd |= few & ~fresh
            if fresh.any():
                odd |= fresh & self._at_prior(stacked)
        events: dict[int, tuple[str, ...]] = {}
        changed: dict[int, LearnerState] = {}
        for number in busy[odd[places[busy]]].tolist():
            place = int(places[number])
            before = _state_at(stacked, place)
            after, told = self.learner._adjusted(before, reports.rows(number))
            if after is not before:
                changed[place] = after
            if told:
                events[number] = told
        if changed:
            with float64_scope():
                new = jax.tree.map(lambda *leaves: np.stack(leaves), *changed.values())
                stacked = _put(stacked, np.array(list(changed)), new)
        return stacked, events

    def _at_prior(self, stacked: LearnerState) -> np.ndarray:
        """Streams whose first batch had nothing to start from."""
        with float64_scope():
            pairs = zip(
                jax.tree.leaves(self._summary(stacked.belief)),
                jax.tree.leaves(stacked.prior),
                strict=True,
            )
            same = [
                (np.asarray(mine) == np.asarray(theirs)).reshape(len(stacked.rows_seen), -1).all(1)
                for mine, theirs in pairs
            ]
        found: np.ndarray = np.logical_and.reduce(same)
        return found

    def _begin_one(self, key: Array, batch: Batch, scale: Scale) -> tuple[Blocks, Any, Any, Any]:
        """Prior, memory, belief and watch of one stream."""
        learner = self.learner
        default = Blocks.of_prior(learner.model.prior())
        prior = learner._internal(learner._prior, scale, default)
        if learner._start:
            start = learner._internal(learner._start, scale, prior)
        else:
            rows, _ = standardised(learner.model, batch, scale.shift, scale.factor)
            start = learner.model.start(key, rows, prior)
        policy = learner.forgetting
        watch = noter(learner.model).begin(prior) if self.watch else None
        return prior, policy.init(prior), policy.belief(policy.init(start)), watch

    def _groups(self, reports: _Reports, numbers: np.ndarray) -> Iterator[tuple[np.ndarray, Batch]]:
        """Streams whose batches share a compilation, and their rows."""
        multiple = self.learner.forgetting.minibatch_size or 1
        hidden = self.learner.model.hidden_if_missing
        names = tuple(column.name for column in self._columns)
        shapes = np.column_stack([reports.sizes, _lacking(reports)])[numbers]
        if shapes[:, 1:].any():
            kinds, kind_of = np.unique(shapes, axis=0, return_inverse=True)
        else:  # many times as fast
            sizes, kind_of = np.unique(shapes[:, 0], return_inverse=True)
            kinds = np.pad(sizes[:, None], ((0, 0), (0, len(names))))
        keys: dict[tuple[int, tuple[str, ...]], list[int]] = {}
        for kind, (size, *lacks) in enumerate(kinds.tolist()):
            missing = missing_columns(np.array(lacks, bool), self._columns, hidden, size)
            keys.setdefault((padded_size(size, multiple), missing), []).append(kind)
        for (width, missing), some in keys.items():
            alike = numbers[np.isin(kind_of.ravel(), some)]
            for first in range(0, len(alike), _TOGETHER):
                members = alike[first : first + _TOGETHER]
                shape = (bucket_size(len(members)), len(self._columns), width)
                values = aligned_zeros(shape, reports.values.dtype)
                reports.put_into(values[: len(members)], members)
                num_rows = np.zeros(len(values), np.int64)
                num_rows[: len(members)] = reports.sizes[members]
                yield members, Batch(values, num_rows, names, missing)  # type: ignore[arg-type]

    def _read(self, batches: Any, by: str | None, time: float | None) -> _Reports:
        """The rows of every stream, checked; errors name the stream."""
        now = np.nan if time is None else check_time(time)
        if by is not None:
            return self._read_table(batches, by, now)
        if not isinstance(batches, Mapping) or not all(
            isinstance(batch, StreamBatch | Mapping) or hasattr(batch, "columns")
            for batch in batches.values()
        ):
            message = (
                "many: give a mapping from streams to batches, such as {'a': {'x': [1.0]}}, or a table "
                "with by='column'; a batch in pieces is none"
            )
            raise TypeError(message)
        rows, times = [], []
        for name, batch in batches.items():
            own = batch.time if isinstance(batch, StreamBatch) and time is None else None
            try:
                rows.append(read_rows(self.learner.model, self._columns, batch))
                times.append(now if own is None else check_time(own))
            except (ValueError, TypeError) as error:
                error.add_note(f"in the batch of stream {name!r}")
                raise
        sizes = np.array([part.shape[1] for part in rows], int)
        starts = np.concatenate([[0], np.cumsum(sizes)[:-1]]).astype(int) if rows else sizes
        values = np.concatenate(rows, 1) if rows else np.zeros((len(self._columns), 0))
        return _Reports(list(batches), values, starts, sizes, np.array(times, float))

    def _read_table(self, data: Any, by: str, now: float) -> _Reports:
        columns = table(data)
        if by not in columns:
            message = f"many: there is no column {by!r}{meant(by, columns)}; the table has {sorted(map(str, columns))}"
            raise ValueError(message)
        if any(column.name == by for column in self._columns):
            message = (
                f"many: column {by!r} names the streams and is one that the model reads; copy it"
            )
            raise ValueError(message)
        streams = _names(columns.pop(by))
        values = read_rows(self.learner.model, self._columns, columns)
        if len(streams) != values.shape[1]:
            message = f"many: column {by!r} has {len(streams)} values for {values.shape[1]} rows"
            raise ValueError(message)
        starts = np.concatenate([[0], 1 + np.flatnonzero(streams[1:] != streams[:-1])]).astype(int)
        names = streams[starts].tolist() if len(streams) else []
        for row, name in zip(starts, names, strict=False):
            if is_missing(name):
                message = f"many: column {by!r}, row {row}: the name of the stream is missing"
                raise ValueError(message)
        if len(set(names)) < len(names):  # rows of a stream do not lie together
            numbers: dict[Hashable, int] = {}
            codes = np.array([numbers.setdefault(name, len(numbers)) for name in streams.tolist()])
            order = np.argsort(codes, kind="stable")
            values, names = values[:, order], list(numbers)
            starts = np.searchsorted(codes[order], np.arange(len(names)))
        if not names:
            starts = np.zeros(0, int)
        sizes = np.diff(starts, append=values.shape[1])
        return _Reports(names, values, starts, sizes, np.full(len(names), now))


def _names(column: Any) -> np.ndarray:
    """Names as they are given: a list of text and numbers would become an array of text."""
    if np.ma.is_masked(column):
        held: np.ndarray = np.ma.getdata(column).astype(object)
        held[np.ma.getmaskarray(column)] = None
        return held
    if not isinstance(column, list | tuple) and np.asarray(column).dtype != object:
        return np.asarray(column)
    names = np.empty(len(column), object)
    names[:] = [None if is_missing(name) else name for name in column]
    return names


def _put(tree: Any, places: np.ndarray, new: Any) -> Any:
    """Arrays with some of their entries replaced."""

    def put(leaf: Any, entries: Any) -> np.ndarray:
        changed: np.ndarray = np.array(leaf)
        changed[span] = entries
        return changed

    span = _span(places)
    return jax.tree.map(put, tree, new)


def _rows_of(tree: Any, places: np.ndarray | slice | int) -> Any:
    return jax.tree.map(lambda leaf: np.asarray(leaf)[places], tree)


def _span(places: np.ndarray) -> np.ndarray | slice:
    """Places as a slice, which copies nothing, if each follows the last."""
    follow = len(places) > 0 and bool((np.diff(places) == 1).all())
    return slice(int(places[0]), int(places[-1]) + 1) if follow else places


def _state_at(stacked: LearnerState, place: int) -> LearnerState:
    with float64_scope():
        state: LearnerState = jax.tree.map(lambda leaf: np.asarray(leaf[place]), stacked)
    return state


def _padded(places: np.ndarray, size: int, filler: int) -> np.ndarray:
    return np.concatenate([places, np.full(size - len(places), filler)]).astype(int)


def _lacking(reports: _Reports) -> np.ndarray:
    """Which columns of which stream have missing cells, shape (num_streams, num_columns)."""
    found = np.zeros((len(reports.names), len(reports.values)), bool)
    missing = np.isnan(reports.values)
    busy = reports.sizes > 0
    if missing.any():
        found[busy] = np.logical_or.reduceat(missing, reports.starts[busy], axis=1).T
    return found


def _waited(stacked: LearnerState, reports: _Reports, places: np.ndarray) -> LearnerState:
    """With the time that has passed for streams whose batches have a time."""
    timed = ~np.isnan(reports.times)
    if stacked.forgetting.needs_times and not timed.all():
        raise ValueError(needs_time(stacked.forgetting))
    if not timed.any():
        return stacked
    where, times = places[timed], reports.times[timed]
    pending, last_time = np.array(stacked.pending), np.array(stacked.last_time)
    back = times < last_time[where]
    if back.any():
        number = int(np.flatnonzero(timed)[np.argmax(back)])
        message = (
            f"stream {reports.names[number]!r}: time must not go back: this batch has "
            f"{reports.times[number]}, the last one {last_time[places[number]]}"
        )
        raise ValueError(message)
    pending[where] += np.nan_to_num(times - last_time[where])
    last_time[where] = times
    return replaced(stacked, pending=pending, last_time=last_time)
