"""Batches of a table in memory: by row count, by calendar period, by column."""

from collections.abc import Iterator
from typing import Any, final

import numpy as np

from streambayes.learning import Pieces, StreamBatch
from streambayes.sources._periods import Periods
from streambayes.sources._times import seconds

__all__ = ["Batches", "of_table"]


@final
class Batches(Pieces):
    """A table in memory, cut into batches."""

    def __init__(
        self, columns: dict[str, np.ndarray], cuts: list[tuple[str | None, float | None, Any]]
    ) -> None:
        self._columns = columns
        self._cuts = cuts

    @property
    def time(self) -> float | None:
        """The time of the last batch, if there are times: that of all rows as one batch."""
        return self._cuts[-1][1] if self._cuts else None

    def __len__(self) -> int:
        return len(self._cuts)

    def __iter__(self) -> Iterator[StreamBatch]:
        for label, time, rows in self._cuts:
            columns = {name: values[rows] for name, values in self._columns.items()}
            yield StreamBatch(columns=columns, label=label, time=time)


def of_table(
    columns: dict[str, Any],
    rows: int | None,
    every: str | float | None,
    time: str | None,
    by: str | None,
) -> Batches:
    """Cut a table."""
    held = {name: np.asarray(values) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in held.items()}
    if len(set(lengths.values())) != 1:
        message = f"batches: columns must have the same length, got {lengths}"
        raise ValueError(message)
    for name in (time, by):
        if name is not None and name not in held:
            message = f"batches: there is no column {name!r}; the table has {sorted(held)}"
            raise ValueError(message)
    if every is not None:
        return Batches(held, _by_period(str(time), held[str(time)], every))
    times = None if time is None else seconds(time, held[time])
    if rows is not None:
        if times is not None and (np.diff(times) < 0).any():
            row = int(np.argmax(np.diff(times) < 0)) + 1
            message = (
                f"batches: column {time!r}, row {row}: the time goes back; sort the table first"
            )
            raise ValueError(message)
        return Batches(held, _by_rows(rows, next(iter(lengths.values())), times))
    return Batches(held, _by_value(str(by), held[str(by)], times))


def _by_rows(rows: int, num_rows: int, times: np.ndarray | None) -> list[Any]:
    cuts = []
    for start in range(0, num_rows, rows):
        stop = min(start + rows, num_rows)
        time = None if times is None else float(times[stop - 1])
        cuts.append((None, time, slice(start, stop)))
    return cuts


def _by_value(name: str, values: np.ndarray, times: np.ndarray | None) -> list[Any]:
    groups: dict[Any, list[int]] = {}
    for row, value in enumerate(values.tolist()):
        if value is None or value != value:  # noqa: PLR0124  # NaN and NaT
            message = f"batches: column {name!r}, row {row}: the value is missing"
            raise ValueError(message)
        groups.setdefault(value, []).append(row)
    cuts: list[Any] = []
    last = -np.inf
    for value, rows in groups.items():
        time = None if times is None else float(times[rows].max())
        if time is not None and time < last:
            message = (
                f"batches: batches by {name!r} overlap, so that time goes back; leave time out"
            )
            raise ValueError(message)
        last = last if time is None else time
        cuts.append((str(value), time, np.array(rows)))
    return cuts


def _by_period(name: str, values: np.ndarray, every: str | float) -> list[Any]:
    periods = Periods(every, name, is_numeric=values.dtype.kind in "biuf")
    cuts: list[Any] = []
    distinct, group = np.unique(periods.starts(seconds(name, values)), return_inverse=True)
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(distinct) + 1))
    for place, start in enumerate(distinct):
        members = order[bounds[place] : bounds[place + 1]]
        cuts.append((periods.label(start), float(start), members))
    return cuts
