"""DriftMonitor: takes the records of a run one by one and says what has changed."""

import collections
import dataclasses
import math
from collections.abc import Callable, Collection, Iterable
from math import hypot, inf, isfinite
from statistics import NormalDist
from typing import Any, final

from streambayes.drift._event import Change, DriftEvent, Kind
from streambayes.learning import StepRecord

__all__ = ["DriftMonitor"]

Parameters = dict[str, tuple[float, float]]

_ALIKE = 3.0
"""Parameters nearer to each other than so many standard deviations are not told apart."""
_SHORT = 2
"""The most batches that an outlier takes, its way back included."""
_SETTLED = 3
"""Batches after which a change is over, and after which parameters are known well enough to see them move."""
_LET_GO = 0.5
"""A policy that keeps less than this share of the past has let go of it."""
_REMEMBERED = 50
"""Earlier states of a block that it may come back to."""


@final
class DriftMonitor:
    r"""Finds changes in the records of a run, as they come.

    In every batch and for every block it weighs two explanations: that the block goes on as it was believed
    to be, and that it starts over with this batch. Where nothing changes, their Bayes factor exceeds $c$ in
    at most one batch in $c$, so with $M$ blocks the threshold $M / a$ gives at most $a$ false alarms per batch.
    Slow drift is found by how far parameters have come since the last change, in standard deviations of what is known
    of them, at the same rate.

    An event may be taken back to what it was: that a change was an outlier is known a batch later. It is then
    reported again, with the same block and first batch.

    Args:
        false_alarms: How many false alarms per batch to allow, all blocks together: 0.01 is one in 100 batches.
        level: Probability of the intervals for differences.
        on_event: Called with every event, when it is found and when more is known of it.
    """

    def __init__(
        self,
        *,
        false_alarms: float = 0.01,
        level: float = 0.9,
        on_event: Callable[[DriftEvent], Any] | None = None,
    ) -> None:
        for name, value in (("false_alarms", false_alarms), ("level", level)):
            if not 0.0 < value < 1.0:
                message = f"DriftMonitor: {name} must lie in (0, 1), got {value}"
                raise ValueError(message)
        self.false_alarms = false_alarms
        self._reach = NormalDist().inv_cdf(0.5 + 0.5 * level)
        self._on_event = on_event
        self._blocks: dict[str, _Block] = collections.defaultdict(_Block)
        self._events: dict[tuple[str, int], DriftEvent] = {}

    @property
    def events(self) -> tuple[DriftEvent, ...]:
        """All events so far, in the order of their first batches."""
        return tuple(sorted(self._events.values(), key=lambda event: (event.first, event.block)))

    def __call__(self, record: StepRecord) -> None:
        """The same as ``take``: a monitor can be given as ``on_record``."""
        self.take(record)

    def take(self, record: StepRecord) -> list[DriftEvent]:
        """The next record of a run.

        Returns events that are new, and earlier ones of which more is known.
        """
        found = [*self._new_columns(record)]
        if record.parameters and record.num_rows:
            found += self._changed_blocks(record, record.parameters)
        for event in found:
            self._events[event.block, event.first] = event
            if self._on_event is not None:
                self._on_event(event)
        return found

    def _new_columns(self, record: StepRecord) -> Iterable[DriftEvent]:
        for name in record.new_columns:
            yield DriftEvent(
                block=name,
                kind="new",
                first=record.index,
                last=record.index,
                label=record.label,
                last_label=record.label,
            )

    def _changed_blocks(
        self, record: StepRecord, parameters: dict[str, Parameters]
    ) -> Iterable[DriftEvent]:
        least = math.log(len(parameters) / self.false_alarms)
        num_parameters = sum(map(len, parameters.values()))
        far = NormalDist().inv_cdf(1.0 - 0.5 * self.false_alarms / num_parameters)
        total = sum(filter(_is_finite, (record.moved or {}).values()))
        told = (
            _of_each(value, parameters)
            for value in (record.moved, record.log_restart, record.rho, record.rho_sd)
        )
        for (name, now), numbers in zip(parameters.items(), zip(*told, strict=True), strict=True):
            block = self._blocks[name]
            seen = _Seen(record, now, total, *numbers)
            if block.before is None or (record.events and not seen.is_over(least)):
                block.start(seen)  # nothing to compare it with, or in other units
                if seen.is_over(least):  # the first record of a run that goes on from a state
                    yield self._told(_Episode.begin(seen, seen), name)
                continue
            if record.log_restart is None:
                alarm = _distance(block.before.parameters, now) > far
            else:
                alarm = seen.is_over(least)
            event = block.alarmed(seen) if alarm else block.calm(seen, far)
            block.before = seen
            if event is not None:
                yield self._told(event, name)

    def _told(self, episode: "_Episode", name: str) -> DriftEvent:
        start = episode.first if episode.left is None else episode.left
        at = episode.first if episode.kind == "outlier" else episode.after
        return DriftEvent(
            block=name,
            kind=episode.kind,
            first=start.index,
            last=episode.last.index,
            label=start.label,
            last_label=episode.last.label,
            changes=self._changes(episode.before.parameters, at.parameters),
            log_restart=episode.log_restart,
            rho=episode.first.rho,
            rho_sd=episode.first.rho_sd,
            moved=episode.moved,
            share=episode.share,
            like=episode.like,
        )

    def _changes(self, before: Parameters, after: Parameters) -> tuple[Change, ...]:
        changes = []
        for name, (mean, sd) in after.items():
            old, old_sd = before.get(name, (math.nan, math.nan))
            reach = self._reach * math.hypot(sd, old_sd)
            gap = mean - old
            changes.append(Change(name, old, mean, old_sd, sd, gap - reach, gap + reach))
        clear = [change for change in changes if _ALIKE < abs(change.distance) < math.inf]
        return tuple(sorted(clear, key=lambda change: -abs(change.distance)))


class _Seen:
    """A block in one record."""

    __slots__ = (
        "index",
        "label",
        "log_restart",
        "moved",
        "parameters",
        "rho",
        "rho_sd",
        "share",
    )

    def __init__(
        self,
        record: StepRecord,
        parameters: Parameters,
        total: float,
        moved: float | None,
        log_restart: float | None,
        rho: float | None,
        rho_sd: float | None,
    ) -> None:
        self.index = record.index
        self.label = record.label
        self.parameters = parameters
        self.moved = moved
        self.share = moved / total if moved is not None and total > 0.0 else None
        self.log_restart = log_restart
        self.rho = rho
        self.rho_sd = rho_sd

    def is_over(self, least: float) -> bool:
        """Whether the evidence for a change is large enough."""
        return self.log_restart is not None and self.log_restart > least


@dataclasses.dataclass
class _Episode:
    """A change that is going on, or over.

    Attributes:
        before: The block before it.
        first: The block in the first batch that raised an alarm.
        last: In the last one.
        after: Where it has come to.
        left: Of a change that was found by the way that parameters have come, the last batch before it.
        like: The last batch of an earlier state that is like where it has come to.
        log_restart: The largest evidence of a batch.
        moved: How far the block has moved in the batches that raised an alarm.
        share: The largest share that it had in the movement of all blocks.
    """

    before: _Seen
    first: _Seen
    last: _Seen
    after: _Seen
    left: _Seen | None = None
    like: str | None = None
    log_restart: float | None = None
    moved: float | None = None
    share: float | None = None

    @classmethod
    def begin(cls, before: _Seen, seen: _Seen, left: _Seen | None = None) -> "_Episode":
        """With its first alarm."""
        return cls(before, seen, seen, seen, left, None, seen.log_restart, seen.moved, seen.share)

    def goes_on(self, seen: _Seen) -> None:
        """With another alarm."""
        self.last = self.after = seen
        self.log_restart = _largest(self.log_restart, seen.log_restart)
        self.share = _largest(self.share, seen.share)
        if seen.moved is not None:
            self.moved = seen.moved + (self.moved or 0.0)

    @property
    def kind(self) -> Kind:
        if self.left is not None:
            return "gradual"
        first, last = self.first, self.last
        away = _distance(self.before.parameters, first.parameters)
        left = _distance(self.before.parameters, self.after.parameters)
        if (
            self.has_let_go
        ):  # it comes back with an alarm: a batch that raises none goes with the first
            is_back = last is not first and away >= _ALIKE and left < min(_ALIKE, 0.5 * away)
        else:  # it has hardly moved
            is_back = left < _ALIKE and (last is first or left < 0.5 * away)
        if is_back and self.after is not first and last.index - first.index < _SHORT:
            return "outlier"
        if self.like is not None:
            return "recurring"
        return "abrupt" if self._came_at_once() else "gradual"

    @property
    def has_let_go(self) -> bool:
        """Whether the policy has let go of the past, and is where the first batch is."""
        return self.first.rho is not None and self.first.rho <= _LET_GO

    def is_over(self, seen: _Seen) -> bool:
        """Whether what is seen now, another alarm, is another change.

        A policy that has let go of the past has arrived where the data is, unless it now turns back; another
        one is still on its way there.
        """
        if self.kind == "outlier":
            return True
        if self.last.rho is None or self.last.rho > _LET_GO:
            return False
        return dataclasses.replace(self, last=seen, after=seen).kind != "outlier"

    def _came_at_once(self) -> bool:
        """Whether the first batch that told of it told most."""
        if self.first.log_restart is not None and self.log_restart is not None:
            return self.first.log_restart >= 0.5 * self.log_restart
        at_once = _distance(self.before.parameters, self.first.parameters)
        return at_once >= 0.5 * _distance(self.before.parameters, self.after.parameters)


class _Block:
    """What is known of a block so far."""

    def __init__(self) -> None:
        self.before: _Seen | None = None
        self._since: _Seen | None = None
        self._left: _Seen | None = None
        self._age = 0
        self._episode: _Episode | None = None
        self._is_open = False
        self._past: collections.deque[_Seen] = collections.deque(maxlen=_REMEMBERED)

    def start(self, seen: _Seen) -> None:
        """From here on."""
        self.before = seen
        self._episode, self._is_open, self._age = None, False, 0

    def alarmed(self, seen: _Seen) -> _Episode:
        """A change, or more of it."""
        assert self.before is not None
        if self._episode is None or not self._is_open or self._episode.is_over(seen):
            self._end()
            self._episode, self._is_open = _Episode.begin(self.before, seen), True
        else:
            self._episode.goes_on(seen)
        return self._come_to(self._episode, seen)

    def calm(self, seen: _Seen, far: float) -> _Episode | None:
        """No sudden change: the end of one, a slow one, or nothing to tell."""
        if self._is_open and self._episode is not None:
            return self._settle(self._episode, seen)
        self._age += 1
        if self._since is None or self._left is None or self._age <= _SETTLED:
            self._since = self._left = seen
            return None
        come = _distance(self._since.parameters, seen.parameters)
        if come < 0.5 * _ALIKE:
            self._left = seen
        if come <= far:
            return None
        last = self._episode
        if last is not None and last.left and self._left.index - last.last.index <= 2 * _SETTLED:
            last.goes_on(seen)
        else:
            self._episode = _Episode.begin(self._since, seen, self._left)
        self._age = 0
        return self._episode

    def _settle(self, episode: _Episode, seen: _Seen) -> _Episode | None:
        """After a change: where it has come to, while that may still be another one."""
        kind = episode.kind
        self._come_to(episode, seen)
        is_over = seen.index - episode.last.index >= _SETTLED
        if is_over:
            self._end()
        return episode if is_over or episode.kind != kind else None

    def _end(self) -> None:
        """A change that was going on is over."""
        if self._episode is not None and self._is_open and self._episode.kind != "outlier":
            self._past.append(self._episode.before)
        self._is_open, self._age = False, 0

    def _come_to(self, episode: _Episode, seen: _Seen) -> _Episode:
        episode.after = seen
        alike = [
            past
            for past in self._past
            if _distance(past.parameters, seen.parameters) < _ALIKE
            and _distance(past.parameters, episode.before.parameters) >= _ALIKE
        ]
        episode.like = alike[-1].label if alike else None
        return episode


def _distance(some: Parameters, others: Parameters) -> float:
    """The largest difference of a parameter, in standard deviations of what is known of it."""
    farthest = 0.0
    for name, (mean, sd) in some.items():
        if name not in others:
            continue
        other, other_sd = others[name]
        spread, gap = hypot(sd, other_sd), abs(mean - other)
        if gap > farthest * spread and gap < inf and 0.0 < spread < inf:
            farthest = gap / spread
    return farthest


def _of_each(value: Any, names: Collection[str]) -> Iterable[float | None]:
    """What a record says of each block, where it is a number."""
    if not isinstance(value, dict):
        return [value if _is_finite(value) else None] * len(names)
    found = map(value.get, names)
    return [number if number is not None and isfinite(number) else None for number in found]


def _is_finite(value: float | None) -> bool:
    return value is not None and math.isfinite(value)


def _largest(*values: float | None) -> float | None:
    return max((value for value in values if value is not None), default=None)
