"""Drift: the changes of a whole run, as a table and in words."""

import collections
import dataclasses
import functools
import itertools
import math
from collections.abc import Collection, Hashable, Iterator, Mapping
from typing import Literal, final

from streambayes._core.table import Table
from streambayes.drift._event import DriftEvent, as_line, as_number
from streambayes.drift._monitor import MOST_UNUSUAL, DriftMonitor, Unusual
from streambayes.drift._pattern import Pattern
from streambayes.learning._record import records_of
from streambayes.learning._run import RecordSource

__all__ = ["BatchDrift", "Drift", "find_drift"]

_TOLD = 5
_NAMED = 3


@final
@dataclasses.dataclass(frozen=True)
class BatchDrift:
    """All that changed in one batch.

    Attributes:
        events: The changes that began with it, the most important first.
    """

    events: tuple[DriftEvent, ...]

    @property
    def first(self) -> int:
        """The batch's number."""
        return self.events[0].first

    @property
    def label(self) -> str:
        """What the batch is called."""
        return self.events[0].label

    @property
    def importance(self) -> float:
        """Size times evidence of the most important change."""
        return self.events[0].importance

    @property
    def sentence(self) -> str:
        """What happened, for people who do not know the model."""
        leading = self.events[0]
        alike: dict[Hashable, list[DriftEvent]] = {}
        for event in self.events:
            alike.setdefault(event.manner, []).append(event)
        told = []
        for event, *others in itertools.islice(alike.values(), _NAMED):
            until = "" if event.last == leading.last else f" (until {as_line(event.last_label)})"
            alone = " (in this batch alone)" if event.kind == "outlier" != leading.kind else ""
            told.append(event.what_with(others) + until + alone)
        more = sum(map(len, itertools.islice(alike.values(), _NAMED, None)))
        rest = [f"and {more} more"] if more > 0 else []
        return f"{leading.opening}{'; '.join(told + rest)}."

    def __str__(self) -> str:
        return self.sentence


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Drift:
    """What has changed in a run; prints as sentences, of many batches the five most important.

    Iterating yields the changes that are told: those that are large enough, each once.

    Attributes:
        events: All changes that there is evidence for, in the order of their first batches; also those that are too
            small to be told, and seasons.
        patterns: How each block goes on where nothing changes.
        num_batches: Batches that were looked at.
        level: Probability of the intervals for differences.
    """

    events: tuple[DriftEvent, ...]
    patterns: tuple[Pattern, ...]
    num_batches: int
    _ranked: tuple[Unusual, ...] = ()
    level: float = 0.9

    @classmethod
    def of(cls, monitor: DriftMonitor) -> "Drift":
        """What a monitor has found so far."""
        ranked = monitor.unusual(MOST_UNUSUAL)
        return cls(monitor.events, monitor.patterns, monitor.num_batches, ranked, monitor.level)

    def __iter__(self) -> Iterator[DriftEvent]:
        return (event for event in self.events if self._tells(event))

    def __len__(self) -> int:
        return sum(map(self._tells, self.events))

    def _tells(self, event: DriftEvent) -> bool:
        """Whether an event is told; slow changes of a block with a trend are told as that."""
        is_trend = event.kind == "gradual" and event.block in self._trending
        return event.is_told and not is_trend

    @functools.cached_property
    def _trending(self) -> frozenset[str]:
        return frozenset(pattern.block for pattern in self.patterns if pattern.kind == "trend")

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        entries = self.by_batch()
        lines = self.lines()
        if not entries:
            return "\n".join(lines) or self._nothing()
        if len(entries) > _TOLD:
            first = f"Changes began in {len(entries)} of {self.num_batches} batches. "
            lines.insert(len(self._trends), f"{first}The {_TOLD} most important; table() has all:")
        return "\n".join(lines)

    def lines(self, most: int = _TOLD) -> list[str]:
        """What is told: trends, the most important batches in which something began to change, and others far from usual."""
        also = self._also if len(self) else []
        return [*self._trends, *(entry.sentence for entry in self.by_batch(most)), *also]

    @property
    def _trends(self) -> list[str]:
        return [
            f"Over all batches: {as_line(pattern.parameter)} {pattern.words}."
            for pattern in self.patterns
            if pattern.kind == "trend"
        ]

    def by_batch(self, most: int | None = None) -> tuple[BatchDrift, ...]:
        """What is told, one entry for each batch in which something began to change, in their order.

        Args:
            most: Leaves so many, the most important ones.
        """
        grouped = itertools.groupby(self, key=lambda event: event.first)
        entries = [
            BatchDrift(tuple(sorted(events, key=lambda event: -event.importance)))
            for _, events in grouped
        ]
        if most is not None:
            entries = sorted(entries, key=lambda entry: -entry.importance)[:most]
            entries.sort(key=lambda entry: entry.first)
        return tuple(entries)

    def unusual(self, number: int = 10) -> tuple[Unusual, ...]:
        """Batches and blocks that stand out most, whether or not they are changes, the clearest first.

        Args:
            number: How many, 50 at most.
        """
        if not isinstance(number, int) or not 0 <= number <= MOST_UNUSUAL:
            message = f"unusual: the number must be from 0 to {MOST_UNUSUAL}, got {number!r}"
            raise ValueError(message)
        return self._ranked[:number]

    def count(self, what: Literal["block", "kind"]) -> collections.Counter[str]:
        """How many changes are told of each block, or of each kind."""
        return collections.Counter(getattr(event, what) for event in self)

    def table(self) -> Table:
        """All changes, one per row, with the parameter that has moved most clearly.

        ``size`` is the difference as a multiple of the smallest one that is told, ``log BF`` the evidence.
        """
        columns = (
            "batch",
            "until",
            "block",
            "kind",
            "parameter",
            "before",
            "after",
            f"difference ({self.level:.0%})",
            "size",
            "log BF",
            "E[rho]",
            "told",
        )
        rows = []
        for event in self.events:
            change = event.changes[0] if event.changes else None
            rows.append(
                {
                    "batch": event.label,
                    "until": None if event.last == event.first else event.last_label,
                    "block": event.block,
                    "kind": event.kind,
                    "parameter": change and change.parameter,
                    "before": change and change.before,
                    "after": change and change.after,
                    f"difference ({self.level:.0%})": change
                    and f"{change.lower:+.4g} .. {change.upper:+.4g}",
                    "size": change and change.size,
                    "log BF": event.evidence,
                    "E[rho]": None if event.rho is None else f"{event.rho:.2f}",
                    "told": "yes" if self._tells(event) else "no",
                }
            )
        return Table(columns, tuple(rows))

    @property
    def _also(self) -> list[str]:
        """Batches that are no changes beside how the block goes on, but farther from usual than chance would explain."""
        least = math.log(10.0 * self.num_batches * max(len(self.patterns), 1))
        told = {
            (event.block, number) for event in self for number in range(event.first, event.last + 2)
        }
        found: dict[int, Unusual] = {}
        for each in self._ranked:
            is_new = (each.block, each.number) not in told and each.block not in self._trending
            if is_new and each.surprise > least:
                found.setdefault(each.number, each)
        named = [_said(each) for each in itertools.islice(found.values(), _TOLD)]
        return [f"Also far from usual: {'; '.join(named)}."] if named else []

    def _nothing(self) -> str:
        """That nothing is told, and what comes closest."""
        batches = "1 batch" if self.num_batches == 1 else f"{self.num_batches} batches"
        wandering = [pattern for pattern in self.patterns if pattern.kind == "wanders"]
        text = f"Nothing beyond the usual fluctuation in {batches}."
        if wandering:
            text = f"No sudden change in {batches}, but "
            text += "; ".join(
                f"{as_line(each.parameter)} {each.words}" for each in wandering[:_NAMED]
            )
            more = len(wandering) - _NAMED
            text += f"; and {more} more wander." if more > 0 else "."
        for most in self.unusual(1):
            text += f" Most unusual: {_said(most)}."
        return text


def _said(each: Unusual) -> str:
    """A batch that stands out, in words."""
    before, after = (as_number(value, each.fluctuation) for value in (each.before, each.after))
    return f"{as_line(each.label)}, {as_line(each.parameter)} {before} → {after}"


def find_drift(
    records: RecordSource,
    *,
    false_alarms: float = 0.01,
    min_change: float | Mapping[str, float] | None = None,
    seasonal: int | Collection[int] | None = None,
    level: float = 0.9,
) -> Drift:
    """What has changed, by the records of a run.

    Args:
        records: A run, its records, or the folder that they were written to.
        false_alarms: How many false alarms per batch to allow, all blocks together: 0.01 is one in 100 batches. From
            1e-12 to 0.5.
        min_change: The smallest change to tell, in the units of the data: one number, or numbers by parameter or
            column. By default a fifth of what the column varies by within a batch, or the usual fluctuation between
            batches if that is larger.
        seasonal: After how many batches a season comes back, or several such numbers: what is as it was a season
            ago is not told as a change.
        level: Probability of the intervals for differences.
    """
    monitor = DriftMonitor(
        false_alarms=false_alarms, level=level, min_change=min_change, seasonal=seasonal
    )
    is_watched = False
    for record in records_of(records):
        monitor.take(record)
        is_watched = is_watched or record.alone is not None or not record.num_rows
    if monitor.num_batches and not is_watched:
        message = (
            "find_drift: these records have nothing of a watch; learn the stream with "
            "run(..., drift=True) and StreamLearner(..., watch=True), the defaults"
        )
        raise ValueError(message)
    monitor.check_names()
    return Drift.of(monitor)
