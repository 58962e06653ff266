"""Drift: the changes of a whole run, as a table and in words."""

import collections
import dataclasses
import math
from collections.abc import Iterator
from typing import Literal, final

from streambayes._core.table import Table
from streambayes.drift._event import DriftEvent
from streambayes.drift._monitor import DriftMonitor
from streambayes.learning._record import records_of
from streambayes.learning._run import RecordSource

__all__ = ["Drift", "find_drift"]

_TOLD = 20
_NAMED = 8


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Drift:
    """What has changed in a run; prints as sentences, of many events the clearest.

    Attributes:
        events: The changes, in the order of their first batches.
        num_batches: Batches that were looked at.
    """

    events: tuple[DriftEvent, ...]
    num_batches: int

    def __iter__(self) -> Iterator[DriftEvent]:
        return iter(self.events)

    def __len__(self) -> int:
        return len(self.events)

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        if not self.events:
            batches = "1 batch" if self.num_batches == 1 else f"{self.num_batches} batches"
            return f"Nothing has changed in {batches}."
        if len(self.events) <= _TOLD:
            return "\n".join(event.sentence for event in self.events)
        counts = self.count("block")
        often = ", ".join(f"{block} {count}" for block, count in counts.most_common(_NAMED))
        more = ", ..." if len(counts) > _NAMED else ""
        first = f"{len(self.events)} changes in {self.num_batches} batches: {often}{more}."
        return "\n".join(
            [
                first,
                f"The {_TOLD} clearest; table() has all:",
                *(event.sentence for event in self.clearest(_TOLD)),
            ]
        )

    def count(self, what: Literal["block", "kind"]) -> collections.Counter[str]:
        """How many events each block has, or how many there are of each kind."""
        return collections.Counter(getattr(event, what) for event in self.events)

    def clearest(self, number: int) -> tuple[DriftEvent, ...]:
        """So many events, those with the largest evidence, in the order of their first batches."""
        ranked = sorted(range(len(self.events)), key=lambda place: -self._evidence(place))
        return tuple(self.events[place] for place in sorted(ranked[:number]))

    def _evidence(self, place: int) -> float:
        event = self.events[place]
        if event.kind == "new":
            return math.inf
        distance = max((abs(change.distance) for change in event.changes), default=0.0)
        return 0.5 * distance * distance if event.log_restart is None else event.log_restart

    def table(self) -> Table:
        """The events, one per row, with the parameter that has moved most clearly."""
        columns = (
            "batch",
            "until",
            "block",
            "kind",
            "parameter",
            "before",
            "after",
            "difference (90%)",
            "E[rho]",
            "share",
            "log BF",
        )
        rows = []
        for event in self.events:
            change = event.changes[0] if event.changes else None
            rho = None if event.rho is None else f"{event.rho:.2f}"
            if rho is not None and event.rho_sd is not None:
                rho += f" ± {event.rho_sd:.2f}"
            rows.append(
                {
                    "batch": event.label,
                    "until": None if event.last == event.first else event.last_label,
                    "block": event.block,
                    "kind": event.kind,
                    "parameter": None if change is None else change.parameter,
                    "before": None if change is None else change.before,
                    "after": None if change is None else change.after,
                    "difference (90%)": None
                    if change is None
                    else f"{change.lower:+.4g} .. {change.upper:+.4g}",
                    "E[rho]": rho,
                    "share": None if event.share is None else f"{event.share:.0%}",
                    "log BF": event.log_restart,
                }
            )
        return Table(columns, tuple(rows))


def find_drift(records: RecordSource, *, false_alarms: float = 0.01) -> Drift:
    """What has changed, by the records of a run.

    Args:
        records: A run, its records, or the folder that they were written to.
        false_alarms: How many false alarms per batch to allow, all blocks together: 0.01 is one in 100 batches.
    """
    monitor = DriftMonitor(false_alarms=false_alarms)
    num_batches = 0
    is_told = False
    for record in records_of(records):
        monitor.take(record)
        num_batches += 1
        is_told = is_told or record.parameters is not None or not record.num_rows
    if num_batches and not is_told:
        message = (
            "find_drift: these records say nothing of parameters; learn the stream with "
            "run(..., drift=True)"
        )
        raise ValueError(message)
    return Drift(monitor.events, num_batches)
