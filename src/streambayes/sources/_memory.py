"""Batches of a table in memory: by row count, by calendar period, by column."""

import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from streambayes.learning import Pieces, StreamBatch, table
from streambayes.sources._files import FileBatches, file_batches
from streambayes.sources._times import check_times, seconds, timestamps

__all__ = ["Batches", "batches"]

_PERIOD = re.compile(r"(\d*)(s|m|h|d|w|mo|q|y)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MONTHS = {"mo": 1, "q": 3, "y": 12}
_MONDAY = 4 * 86400  # 1 January 1970 was a Thursday; weeks start on Monday, four days later


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


def batches(
    data: Any,
    *,
    rows: int | None = None,
    every: str | float | None = None,
    time: str | None = None,
    by: str | None = None,
    columns: Sequence[str] | None = None,
) -> Batches | FileBatches:
    """Cut a table into batches. Give one of ``rows``, ``every`` and ``by``.

    Args:
        data: A mapping of columns, a pandas, polars or Arrow frame, or an array. Or Parquet and Arrow files,
            which are read batch by batch and need not fit into memory: a path, a pattern such as
            ``"trips/*.parquet"`` (in order of the names), or a list of them. They are cut by ``rows``.
        rows: Rows per batch, in the order of the table; the last batch may have fewer.
        every: A period, ``"30m"``, ``"1h"``, ``"1d"``, ``"1w"``, ``"1mo"``, ``"1q"``, ``"1y"``, or a
            number in the units of a numeric ``time``. Batches are in order of time; periods without
            rows are left out, and rows keep their order within one. A batch has the time its period
            starts. Times with a zone are cut in UTC.
        time: The column of times: dates, ISO text or numbers. With ``rows``, a batch has the time of
            its last row.
        by: A column; a batch for each of its values, in order of first appearance.
        columns: The names of an array's columns; of files, the columns to read, all by default.
    """
    if sum(choice is not None for choice in (rows, every, by)) != 1:
        message = "batches: give one of rows, every and by"
        raise ValueError(message)
    if rows is not None and (
        isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1
    ):
        message = f"batches: rows must be a whole number of at least 1, got {rows!r}"
        raise ValueError(message)
    if _are_paths(data):
        if rows is None:
            message = "batches: files are cut by rows; load a table for every and by"
            raise ValueError(message)
        return file_batches(data, int(rows), columns, time)
    return _of_table(table(data, columns), rows, every, time, by)


def _of_table(
    columns: dict[str, Any],
    rows: int | None,
    every: str | float | None,
    time: str | None,
    by: str | None,
) -> Batches:
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
        if time is None:
            message = "batches: every needs the name of the time column, time=..."
            raise ValueError(message)
        return Batches(held, _by_period(time, held[time], every))
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


def _are_paths(data: Any) -> bool:
    several = isinstance(data, list | tuple) and len(data) > 0
    if isinstance(data, list | tuple) and not data:
        message = "batches: the list of files or rows is empty"
        raise ValueError(message)
    return all(isinstance(each, str | Path) for each in (data if several else [data]))


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
    starts, labels = _period_starts(name, values, every)
    cuts: list[Any] = []
    distinct, group = np.unique(starts, return_inverse=True)
    order = np.argsort(group, kind="stable")
    bounds = np.searchsorted(group[order], np.arange(len(distinct) + 1))
    for place, start in enumerate(distinct):
        members = order[bounds[place] : bounds[place + 1]]
        cuts.append((labels(start), float(start), members))
    return cuts


def _period_starts(name: str, values: np.ndarray, every: str | float) -> tuple[np.ndarray, Any]:
    """When each row's period starts, in seconds or in the column's units, and a label for it."""
    if values.dtype.kind in "biuf":
        if isinstance(every, str) or not 0 < every < float("inf"):
            message = f"batches: column {name!r} is numeric, so every must be a positive number, got {every!r}"
            raise ValueError(message)
        check_times(name, np.isfinite(values))
        ratio = values / every
        whole = np.rint(ratio)  # 0.3 / 0.1 is a hair below 3
        near = np.abs(ratio - whole) < 1e-9 * np.maximum(np.abs(ratio), 1.0)
        return np.where(near, whole, np.floor(ratio)) * every, lambda start: f"{start:g}"
    match = _PERIOD.fullmatch(every) if isinstance(every, str) else None
    if match is None or (match[1] and int(match[1]) == 0):
        message = f"batches: every must be a period such as '1d' or '1mo', got {every!r}"
        raise ValueError(message)
    count, unit = int(match[1] or 1), match[2]
    stamps = timestamps(name, values)
    if unit in _MONTHS:
        months = stamps.astype("datetime64[M]").astype(np.int64)
        step = count * _MONTHS[unit]
        truncated = (months // step * step).astype("datetime64[M]").astype("datetime64[s]")
        starts = truncated.astype(np.int64)
    else:
        seconds = stamps.astype("datetime64[s]").astype(np.int64)
        origin = _MONDAY if unit == "w" else 0
        step = count * _SECONDS[unit]
        starts = (seconds - origin) // step * step + origin
    digits = {"y": 4, "q": 7, "mo": 7, "w": 10, "d": 10}.get(unit, 16 if unit != "s" else 19)
    return starts, lambda start: str(np.datetime64(int(start), "s"))[:digits]
