"""Many streams at once: learners of one model and one policy, stepped together in one compiled call."""

import dataclasses
import functools
from collections.abc import Hashable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple, final

import jax
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
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
_TOGETHER_ON_DEVICE = 131_072
"""The same on a GPU, whose memory is the limit."""
_LARGE = ("prior", "memory", "belief", "watch")
"""Fields of states that stay on a GPU, since taking them there and back costs more than a step."""


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

    Attributes:
        held: ``stacked`` where its arrays lie, on a GPU after a step there.
    """

    def __init__(self, places: Mapping[Hashable, int], stacked: LearnerState) -> None:
        self._places = places
        self.held = stacked

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
        return _state_at(self.stacked, self._places[name])

    def __iter__(self) -> Iterator[Hashable]:
        return iter(self._places)

    def __len__(self) -> int:
        return len(self._places)

    def __repr__(self) -> str:
        return f"ManyStates of {len(self)} streams"

    @functools.cached_property
    def stacked(self) -> LearnerState:
        """All states as one, with a leading axis of streams."""
        return to_host(self.held)

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
        if names == list(self._places):
            return np.arange(len(names))
        found = list(map(self._places.get, names))
        if None in found:
            self.place(names[found.index(None)])  # says what to do
        return np.array(found, int)

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
        held = self.stacked
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
            stacked = jax.tree.map(lambda leaf: np.asarray(leaf)[kept], self.stacked)
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
        return notes.seen(self._seen[number], scale)

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

    def laid_out(self, numbers: np.ndarray, num_streams: int, width: int) -> np.ndarray:
        """The rows of some streams, padded with zeros, shape (num_streams, num_columns, width)."""
        starts, sizes = self.starts[numbers], self.sizes[numbers]
        num_columns, size = len(self.values), int(sizes[0])
        zeros = aligned_zeros((num_streams, num_columns, width), self.values.dtype)
        if (sizes == size).all() and (np.diff(starts) == size).all():  # they lie together
            rows = self.values[:, starts[0] : starts[0] + size * len(numbers)]
            zeros[: len(numbers), :, :size] = rows.reshape(num_columns, -1, size).swapaxes(0, 1)
        else:
            zeros[: len(numbers)] = _cells(self.values, starts, sizes, width)
        return zeros


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
        parts = []
        reports = reports._replace(values=reports.values.astype(np.float64))
        for members, batch in self._groups(reports, np.arange(len(places))):
            lanes = _padded(members, len(batch.num_rows), members[0])
            with float64_scope():
                parts.append((members, self._begin(key, batch, _rows_of(scale, lanes))))
        members, found = _joined(parts)
        prior, memory, belief, watch = _rows_of(found, np.argsort(members))
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
        self.learner._check_state(states.held, of_many=True)
        reports = self._read(batches, by, time)
        places = states.places(reports.names)
        stacked = _waited(states.held, reports, places)
        busy = np.flatnonzero(reports.sizes > 0)
        stacked, events = self._prepared(stacked, reports, places, busy)
        facts, seen = np.zeros((0, 0)), None
        if len(busy):
            with float64_scope():
                if _on_device():
                    stacked = _moved(stacked)
                parts = [
                    (members, self._learn(stacked, batch, places[members]))
                    for members, batch in self._groups(reports, busy)
                ]  # all are under way before the first one is waited for
                learned, facts, seen = self._learned(stacked, places, parts)
            learned, facts, seen = self._told_apart(
                stacked, learned, reports, places, busy, facts, seen, events
            )
            stacked = self._counted(learned, places[busy], facts)
        info = ManyInfo(
            self.learner,
            reports.names if len(busy) == len(places) else [reports.names[n] for n in busy],
            reports.sizes[busy],
            facts,
            seen,
            _rows_of(stacked.scale, _span(places[busy])),
            {int(np.searchsorted(busy, number)): told for number, told in events.items()},
            states,
        )
        failed = np.array([states.place(name) for name in info.failed], int)
        if len(failed):
            stacked = _put(stacked, failed, _rows_of(states.held, failed))
        return states.with_stacked(stacked), info

    def _learn(
        self, stacked: LearnerState, batch: Batch, places: np.ndarray
    ) -> tuple[dict[str, Any], Any, Any]:
        """Of streams at some places, after their batches: new fields, facts and what the watch saw; padded."""
        lanes = _span(_padded(places, len(batch.num_rows), places[0]))
        units = stacked.scale.shift, stacked.scale.factor
        *units, rows_seen, pending = _rows_of((*units, stacked.rows_seen, stacked.pending), lanes)
        prior, memory, belief, watch = _rows_of([getattr(stacked, name) for name in _LARGE], lanes)
        seen = None
        with float64_scope():
            memory, message, facts = self.learner._stepper.learn_many(
                self.learner._settings,
                memory,
                belief,
                prior,
                *units,
                batch,
                rows_seen,
                pending,
            )
            belief = self._believed(memory)
            if watch is not None:
                scale = _rows_of(stacked.scale, lanes)
                watch, seen = noter(self.learner.model).watch_many(watch, prior, scale, message)
        return {"memory": memory, "belief": belief, "watch": watch}, facts, seen

    def _learned(
        self,
        stacked: LearnerState,
        places: np.ndarray,
        parts: list[tuple[np.ndarray, tuple[dict[str, Any], Any, Any]]],
    ) -> tuple[LearnerState, np.ndarray, np.ndarray | None]:
        """The states with what groups of streams have learned; facts and what was seen, in the order of batches."""
        members, told = _joined([(some, what[1:]) for some, what in parts])
        fields = [(some, what[0]) for some, what in parts]
        if not _on_device():
            fields = [_joined(fields)]
        for some, new in fields:
            held = {name: getattr(stacked, name) for name in new}
            stacked = replaced(stacked, **_put(held, places[some], new))
        facts, seen = told if (np.diff(members) > 0).all() else _rows_of(told, np.argsort(members))
        return stacked, facts, seen

    def _told_apart(
        self,
        before: LearnerState,
        stacked: LearnerState,
        reports: _Reports,
        places: np.ndarray,
        busy: np.ndarray,
        facts: np.ndarray,
        seen: np.ndarray | None,
        events: dict[int, tuple[str, ...]],
    ) -> tuple[LearnerState, np.ndarray, np.ndarray | None]:
        """Streams whose batches have left values of latent variables alike learn them again, by themselves."""
        odd = np.zeros(len(busy), bool)
        for values in self.learner._stepper.read_facts(facts).alike.values():
            odd |= (values > 0).any((1, 2))
        if not odd.any():
            return stacked, facts, seen
        which = np.flatnonzero(odd)
        where = places[busy[which]]
        before, memories = to_host((_rows_of(before, where), _rows_of(stacked.memory, where)))
        changed: dict[int, Any] = {}
        for entry, at in enumerate(which.tolist()):
            number = int(busy[at])
            rows = reports.rows(number)
            state, flat = _state_at(before, entry), facts[at]
            memory = _rows_of(memories, entry)
            first = Learned(
                memory, None, self.learner._stepper.read_facts(flat), flat, rows.shape[1]
            )
            again, told = self.learner._told_apart(state, rows, float(state.pending), first)
            if again is not first:
                watch, saw = self.learner._watched(state, again.message)
                belief = self.learner.forgetting.belief(again.memory)
                new = {"memory": again.memory, "belief": belief, "watch": watch}
                changed[at] = to_host((new, again.flat, None if saw is None else saw.flat))
                events[number] = (*events.get(number, ()), *told)
        if changed:
            where = np.array(list(changed))
            new, flat, saw = jax.tree.map(lambda *leaves: np.stack(leaves), *changed.values())
            held = {name: getattr(stacked, name) for name in new}
            stacked = replaced(stacked, **_put(held, places[busy[where]], new))
            facts, seen = _put((facts, seen), where, (flat, saw))
        return stacked, facts, seen

    def _counted(
        self, stacked: LearnerState, places: np.ndarray, facts: np.ndarray
    ) -> LearnerState:
        """The states with one more batch of streams at some places."""
        rows = self.learner._stepper.read_facts(facts).num_observations
        held = stacked.rows_seen, stacked.num_batches, stacked.pending
        seen, batches, _ = _rows_of(held, places)
        new = seen + rows, batches + 1, np.zeros(len(places))
        seen, batches, pending = _put(held, places, new)
        return replaced(stacked, rows_seen=seen, num_batches=batches, pending=pending)

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
        alone = busy[odd[places[busy]]]
        some = to_host(_rows_of(stacked, places[alone])) if len(alone) else stacked
        for at, number in enumerate(alone.tolist()):
            place = int(places[number])
            before = _state_at(some, at)
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
        together, there = _TOGETHER, None
        if _on_device():
            together, there = _TOGETHER_ON_DEVICE, _sent(reports.values)
        for (width, missing), some in keys.items():
            alike = numbers[np.isin(kind_of.ravel(), some)]
            for first in range(0, len(alike), together):
                members = alike[first : first + together]
                num_rows = np.zeros(bucket_size(len(members)), np.int64)
                num_rows[: len(members)] = reports.sizes[members]
                if there is None:
                    values = reports.laid_out(members, len(num_rows), width)
                else:
                    starts = _padded(reports.starts[members], len(num_rows), 0)
                    with float64_scope():
                        values = _cells_there(there, starts, num_rows, width)
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
        if not len(streams):
            starts = np.zeros(0, int)
        firsts = streams[starts]
        lacks = _are_missing(firsts)
        if lacks.any():
            message = f"many: column {by!r}, row {starts[np.argmax(lacks)]}: the name of the stream is missing"
            raise ValueError(message)
        names = firsts.tolist()
        if len(set(names)) < len(names):  # rows of a stream do not lie together
            numbers, lengths = _in_order(firsts), np.diff(starts, append=len(streams))
            codes = np.repeat(numbers, lengths)
            order = np.argsort(codes, kind="stable")
            values, names = values[:, order], list(dict.fromkeys(names))
            starts = np.searchsorted(codes[order], np.arange(len(names)))
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


def _are_missing(names: np.ndarray) -> np.ndarray:
    """Which names are none."""
    if names.dtype.kind in "biuSU":
        return np.zeros(len(names), bool)
    return np.array([is_missing(name) for name in names.tolist()], bool)


def _in_order(names: np.ndarray) -> np.ndarray:
    """The number of each name, in the order in which they come first."""
    if names.dtype == object:  # some may not be compared
        numbers: dict[Hashable, int] = {}
        return np.array([numbers.setdefault(name, len(numbers)) for name in names.tolist()])
    _, first, found = np.unique(names, return_index=True, return_inverse=True)
    place: np.ndarray = np.argsort(np.argsort(first))[found]
    return place


def _on_device() -> bool:
    """Whether states and rows are on a device with a memory of its own."""
    return jax.default_backend() != "cpu"


def _moved(state: LearnerState) -> LearnerState:
    """A state with its large fields on the device."""
    with float64_scope():
        large = {name: jax.device_put(getattr(state, name)) for name in _LARGE}
    return replaced(state, **large)


def _sent(values: np.ndarray) -> Array:
    """Rows on the device, padded so that near numbers share a compilation."""
    num_rows = values.shape[1]
    padded = aligned_zeros((len(values), bucket_size(num_rows)), values.dtype)
    padded[:, :num_rows] = values
    with float64_scope():
        there: Array = jax.device_put(padded)
    return there


def _cells(values: Any, starts: Any, sizes: Any, width: int) -> Any:
    """Rows of streams side by side, (num_columns, num_rows), one after the other: (num_streams, num_columns, width)."""
    inside = np.arange(width) < sizes[:, None]
    cells = xp.where(inside, starts[:, None] + np.arange(width), 0)
    return xp.swapaxes(xp.where(inside, values[:, cells], values.dtype.type(0)), 0, 1)


_cells_there = jax.jit(_cells, static_argnames="width")


def _joined(parts: list[tuple[np.ndarray, Any]]) -> tuple[np.ndarray, Any]:
    """Streams of all groups, and what was found of them, on the host, without what groups are padded with."""
    groups, found = zip(*parts, strict=True)

    def join(*leaves: Any) -> np.ndarray:
        cut = [np.asarray(leaf)[: len(some)] for leaf, some in zip(leaves, groups, strict=True)]
        return np.concatenate(cut) if len(cut) > 1 else cut[0]

    return np.concatenate(groups), jax.tree.map(join, *found)


def _put(tree: Any, places: np.ndarray, new: Any) -> Any:
    """Arrays with some of their entries replaced by others, which may be padded."""
    held, size = jax.tree.leaves(tree)[0], len(jax.tree.leaves(new)[0])
    span = _span(places)
    if isinstance(span, slice) and len(places) == size == len(held):
        return new
    with float64_scope():
        if _are_there(tree):
            return _put_there(tree, _padded(places, size, len(held)), new)
        return jax.tree.map(lambda leaf, some: xp.put(leaf, span, some), tree, new)


@jax.jit
def _put_there(tree: Any, places: Array, new: Any) -> Any:
    # what is padded has no place
    return jax.tree.map(lambda leaf, some: leaf.at[places].set(some, mode="drop"), tree, new)


def _rows_of(tree: Any, places: np.ndarray | slice | int) -> Any:
    """Some entries of arrays, where these are."""
    with float64_scope():
        if isinstance(places, np.ndarray) and _are_there(tree):
            return _rows_there(tree, places)
        if isinstance(places, np.ndarray):  # faster than an index
            return jax.tree.map(lambda leaf: leaf.take(places, 0), tree)
        return jax.tree.map(lambda leaf: leaf[places], tree)


_rows_there = jax.jit(lambda tree, places: jax.tree.map(lambda leaf: leaf[places], tree))


def _are_there(tree: Any) -> bool:
    """Whether all arrays of a tree are on the device."""
    return all(isinstance(leaf, jax.Array) for leaf in jax.tree.leaves(tree))


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
