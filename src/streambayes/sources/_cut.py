"""Rules by which rows that keep coming are cut into batches; where they cut depends on the rows alone."""

import abc
import dataclasses
from collections.abc import Iterator
from typing import Any, NoReturn, final

import numpy as np

from streambayes.sources._periods import Periods
from streambayes.sources._source import Chunk
from streambayes.sources._times import seconds

__all__ = ["ByColumn", "ByPeriod", "ByRows", "Cut", "Cutter"]

Columns = dict[str, np.ndarray]
_PLAIN = {bool, int, str, type(None)}
"""Cells that are JSON as they are; so are floats, if they are finite."""


@final
@dataclasses.dataclass(frozen=True)
class Cut:
    """A batch, and where it was cut.

    Attributes:
        columns: Its rows.
        absent: Rows, as a mask, that came without a column which others have.
        label: What it is called.
        time: Its time.
        num_late: Rows that were too late, since the cut before.
        taken: Rows of the chunk that come before the cut.
        state: What the cutter has to know to go on.
    """

    columns: Columns
    absent: Columns
    label: str | None
    time: float | None
    num_late: int
    taken: int
    state: Any


class Cutter(abc.ABC):
    """Takes rows and gives batches; rows that are in none yet are held."""

    @abc.abstractmethod
    def take(self, chunk: Chunk) -> Iterator[Cut]:
        """The batches that are complete with these rows."""

    @abc.abstractmethod
    def rest(self) -> Iterator[Cut]:
        """The batches of what is held, since no more rows come."""


@final
class ByRows(Cutter):
    """So many rows to a batch; with times, they must not go back.

    Args:
        rows: How many.
        time: The column of times.
        state: Of the last cut, to go on from.
    """

    def __init__(self, rows: int, time: str | None, state: Any = None) -> None:
        self._rows = rows
        self._clock = _Clock(time, state)
        self._held: list[Columns] = []
        self._num_held = 0

    def take(self, chunk: Chunk) -> Iterator[Cut]:
        first = 0
        while first < chunk.num_rows:
            last = min(chunk.num_rows, first + self._rows - self._num_held)
            self._held.append(_rows(chunk.columns, slice(first, last)))
            self._num_held += last - first
            first = last
            if self._num_held == self._rows:
                yield self._cut(first)

    def rest(self) -> Iterator[Cut]:
        if self._held:
            yield self._cut(0)

    def _cut(self, taken: int) -> Cut:
        columns, absent = _joined(self._held)
        self._held, self._num_held = [], 0
        time = self._clock.last_of(columns)
        return Cut(columns, absent, None, time, 0, taken, self._clock.state)


@final
class ByColumn(Cutter):
    """A batch as long as a column's value stays the same; its time is that of its last row.

    Args:
        by: The column.
        time: The column of times.
        state: Of the last cut, to go on from.
    """

    def __init__(self, by: str, time: str | None, state: Any = None) -> None:
        self._by = by
        self._clock = _Clock(time, state)
        self._held: list[Columns] = []
        self._value: Any = None

    def take(self, chunk: Chunk) -> Iterator[Cut]:
        values = _column(chunk, self._by).tolist()
        first = 0
        for row, value in enumerate(values):
            if value is None or value != value:  # noqa: PLR0124  # NaN and NaT
                message = f"batches: column {self._by!r}, row {row}: the value is missing"
                raise ValueError(message)
            if value != self._value and (self._held or row > first):
                if row > first:
                    self._held.append(_rows(chunk.columns, slice(first, row)))
                yield self._cut(row)
                first = row
            self._value = value
        self._held.append(_rows(chunk.columns, slice(first, None)))

    def rest(self) -> Iterator[Cut]:
        if self._held:
            yield self._cut(0)

    def _cut(self, taken: int) -> Cut:
        columns, absent = _joined(self._held)
        self._held = []
        value = self._value
        is_whole = isinstance(value, float) and value.is_integer()
        label = str(int(value) if is_whole else value)
        time = self._clock.last_of(columns)
        return Cut(columns, absent, label, time, 0, taken, self._clock.state)


@final
class ByPeriod(Cutter):
    """A batch for each period of time that has rows.

    A period is over when a row comes that is later than its end by the lateness; rows of a period that is over are
    late, and only counted.

    Args:
        every: The period.
        time: The column of times.
        lateness: In seconds, or in units of numeric times.
        state: Of the last cut, to go on from.
    """

    def __init__(self, every: str | float, time: str, lateness: float, state: Any = None) -> None:
        self._every = every
        self._time = time
        self._lateness = lateness
        self._periods = Periods(every, time, is_numeric=not isinstance(every, str))
        self._open: dict[float, list[Columns]] = {}
        self._latest = -np.inf
        self._over = -np.inf  # periods that start earlier are over
        self._num_late = 0
        if state is not None:
            self._latest = _number(state["latest"])
            self._over = _number(state["over"])
            self._open = {start: _unpacked(parts) for start, parts in state["open"]}

    def take(self, chunk: Chunk) -> Iterator[Cut]:
        values = _column(chunk, self._time)
        if not len(values):
            return
        if (values.dtype.kind in "biuf") == isinstance(self._every, str):
            _refuse_kind(self._time, values, self._every)
        times = seconds(self._time, values)
        starts = self._periods.starts(times)
        latest = np.maximum.accumulate(np.append(self._latest, times))
        # the period of the watermark; before the first row there is none
        over = np.full(len(latest), self._over)
        over[1:] = np.maximum(self._periods.starts(latest[1:] - self._lateness), self._over)
        is_late = starts < over[:-1]
        first = 0
        for row in np.flatnonzero(over[1:] > over[:-1]):
            self._hold(chunk, starts, is_late, slice(first, row))
            first = int(row)
            while self._open and (start := min(self._open)) < over[row + 1]:
                # the row that ends the period is read again by whoever goes on from here
                self._latest = float(latest[row])
                yield self._cut(start, first)
            self._over = float(over[row + 1])
        self._hold(chunk, starts, is_late, slice(first, None))
        self._latest = float(latest[-1])

    def rest(self) -> Iterator[Cut]:
        while self._open:
            yield self._cut(min(self._open), 0)

    def _hold(self, chunk: Chunk, starts: np.ndarray, is_late: np.ndarray, rows: slice) -> None:
        starts, is_late = starts[rows], is_late[rows]
        self._num_late += int(is_late.sum())
        if not len(starts):
            return
        if starts[0] == starts[-1] == starts.min() == starts.max() and not is_late.any():
            self._open.setdefault(float(starts[0]), []).append(_rows(chunk.columns, rows))
            return
        for start in np.unique(starts[~is_late]):
            members = np.flatnonzero((starts == start) & ~is_late) + (rows.start or 0)
            self._open.setdefault(float(start), []).append(_rows(chunk.columns, members))

    def _cut(self, start: float, taken: int) -> Cut:
        columns, absent = _joined(self._open.pop(start))
        num_late, self._num_late = self._num_late, 0
        # this period is over whatever comes, and the next one is not
        self._over = max(self._over, float(np.nextafter(start, np.inf)))
        return Cut(
            columns, absent, self._periods.label(start), start, num_late, taken, self._state()
        )

    def _state(self) -> dict[str, Any]:
        return {
            "latest": _known(self._latest),
            "over": _known(self._over),
            "open": [[start, _packed(parts)] for start, parts in self._open.items()],
        }


def _refuse_kind(name: str, values: np.ndarray, every: str | float) -> NoReturn:
    """Numbers are not cut by the calendar, nor moments by numbers."""
    if values.dtype.kind == "f" and np.isnan(values).any():
        seconds(name, values)  # says which is missing
    Periods(every, name, is_numeric=isinstance(every, str))
    message = f"batches: every={every!r} does not go with column {name!r}"
    raise ValueError(message)


class _Clock:
    """Times of batches, which must not go back."""

    def __init__(self, time: str | None, state: Any) -> None:
        self._time = time
        self._last = -np.inf if state is None else _number(state)

    @property
    def state(self) -> Any:
        return None if self._time is None else _known(self._last)

    def last_of(self, columns: Columns) -> float | None:
        """The time of the last row."""
        if self._time is None:
            return None
        if self._time not in columns:
            message = f"batches: there is no column {self._time!r}, the times"
            raise ValueError(message)
        moments = seconds(self._time, columns[self._time])
        if moments[0] < self._last or (np.diff(moments) < 0).any():
            row = int(np.argmax(np.diff(moments, prepend=self._last) < 0))
            message = f"batches: column {self._time!r}, row {row} of the batch: the time goes back; sort the rows first"
            raise ValueError(message)
        self._last = float(moments[-1])
        return self._last


def _column(chunk: Chunk, name: str) -> np.ndarray:
    if name not in chunk.columns:
        message = (
            f"batches: there is no column {name!r} to cut by; there are {sorted(chunk.columns)}"
        )
        raise ValueError(message)
    return chunk.columns[name]


def _rows(columns: Columns, rows: Any) -> Columns:
    return {name: values[rows] for name, values in columns.items()}


def _joined(parts: list[Columns]) -> tuple[Columns, Columns]:
    """One after the other, with the rows that lack a column; whole numbers become floats where a part has gaps."""
    names = list(dict.fromkeys(name for part in parts for name in part))
    sizes = [len(next(iter(part.values()))) if part else 0 for part in parts]
    columns, absent = {}, {}
    for name in names:
        arrays = [
            part[name] if name in part else _blank(size)
            for part, size in zip(parts, sizes, strict=True)
        ]
        columns[name] = arrays[0] if len(arrays) == 1 else np.concatenate(_alike(arrays))
        lacking = [name not in part for part in parts]
        if any(lacking):
            absent[name] = np.repeat(lacking, sizes)
    return columns, absent


def _blank(size: int) -> np.ndarray:
    return np.full(size, np.nan)


def _alike(arrays: list[np.ndarray]) -> list[np.ndarray]:
    """As objects if numbers meet text or times: NumPy would turn numbers into text."""
    kinds = {"number" if array.dtype.kind in "biuf" else array.dtype.kind for array in arrays}
    return arrays if len(kinds) == 1 else [array.astype(object) for array in arrays]


def _packed(parts: list[Columns]) -> list[Any]:
    """Rows that are held, as JSON has them; neighbours with the same columns together."""
    together: list[list[Columns]] = []
    for part in parts:
        if together and together[-1][0].keys() == part.keys():
            together[-1].append(part)
        else:
            together.append([part])
    return [
        {name: _packed_column(name, values) for name, values in _joined(same)[0].items()}
        for same in together
    ]


def _packed_column(name: str, values: np.ndarray) -> list[Any]:
    kind = "|O" if values.dtype.kind == "U" else values.dtype.str
    if values.dtype.kind in "mM":
        values = values.astype(np.int64)
    cells = values.tolist()
    is_plain = (
        np.isfinite(values).all() if values.dtype.kind == "f" else set(map(type, cells)) <= _PLAIN
    )
    return [kind, cells if is_plain else [_packed_cell(name, cell) for cell in cells]]


def _packed_cell(name: str, cell: Any) -> Any:
    if isinstance(cell, float) and not np.isfinite(cell):
        return {"float": str(cell)}
    if cell is None or isinstance(cell, bool | int | float | str):
        return cell
    message = (
        f"batches: column {name!r} holds a {type(cell).__name__}, which cannot be kept until its batch is "
        "complete; say which columns to read, columns=[...]"
    )
    raise ValueError(message)


def _unpacked(held: list[Any]) -> list[Columns]:
    return [{name: _unpacked_column(*column) for name, column in part.items()} for part in held]


def _unpacked_column(kind: str, cells: list[Any]) -> np.ndarray:
    found = [float(cell["float"]) if isinstance(cell, dict) else cell for cell in cells]
    return np.array(found, np.int64 if "M" in kind or "m" in kind else kind).astype(kind)


def _known(number: float) -> float | None:
    return None if number == -np.inf else number


def _number(known: float | None) -> float:
    return -np.inf if known is None else float(known)
