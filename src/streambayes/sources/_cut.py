"""Rules by which rows are cut into batches, of tables, files and live sources alike; they depend on the rows alone."""

import abc
import dataclasses
import datetime as dt
from collections.abc import Iterator
from typing import Any, NoReturn, final

import numpy as np

from streambayes._core.column import is_missing
from streambayes._core.names import meant
from streambayes.sources._periods import Periods
from streambayes.sources._source import Chunk
from streambayes.sources._times import seconds

__all__ = ["ByColumn", "ByPeriod", "ByRows", "Cut", "Cutter", "concatenated", "sorted_rows"]

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
    """Takes rows and gives batches; rows that are in none yet are held.

    Attributes:
        names: The columns that decide where it cuts.
        num_late: Rows that came too late for their batch, so far.
        behind: How far the worst of them was behind the latest row.
        latest: The greatest key that ``survey`` has seen.
    """

    names: tuple[str, ...]
    num_late = 0
    behind = 0.0
    latest = -np.inf

    @abc.abstractmethod
    def keys(self, columns: Columns) -> np.ndarray | None:
        """Numbers by which finite rows are sorted, so that none comes too late; ``None`` if any order will do."""

    @abc.abstractmethod
    def survey(self, columns: Columns) -> int:
        """How many of the next rows would come too late; nothing is held."""

    @abc.abstractmethod
    def take(self, chunk: Chunk) -> Iterator[Cut]:
        """The batches that are complete with these rows."""

    @abc.abstractmethod
    def rest(self) -> Iterator[Cut]:
        """The batches of what is held, since no more rows come."""


@final
class ByRows(Cutter):
    """So many rows to a batch; with times, they must not go back from row to row.

    Args:
        rows: How many.
        time: The column of times.
        state: Of the last cut, to go on from.
    """

    def __init__(self, rows: int, time: str | None, state: Any = None) -> None:
        self.names = () if time is None else (time,)
        self._rows = rows
        self._time = time
        self._clock = _Clock(time, state)
        self._held: list[Columns] = []
        self._num_held = 0

    def keys(self, columns: Columns) -> np.ndarray | None:
        return seconds(self._time, _column(columns, self._time)) if self._time else None

    def survey(self, columns: Columns) -> int:
        return _survey(self, columns)

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
        time = self._clock.of_rows(columns)
        return Cut(columns, absent, None, time, 0, taken, self._clock.state)


@final
class ByColumn(Cutter):
    """A batch as long as a column's value stays the same; its time is the latest of its rows.

    Args:
        by: The column.
        time: The column of times.
        state: Of the last cut, to go on from.
    """

    def __init__(self, by: str, time: str | None, state: Any = None) -> None:
        self.names = (by,) if time is None else (by, time)
        self._by = by
        self._clock = _Clock(time, state)
        self._held: list[Columns] = []
        self._value: Any = None
        self._places: dict[Any, int] = {}

    def keys(self, columns: Columns) -> np.ndarray | None:
        """Places of values in the order of their first appearance."""
        places = self._places
        values = _values(self._by, _column(columns, self._by))
        return np.array([places.setdefault(value, len(places)) for value in values], np.float64)

    def survey(self, columns: Columns) -> int:
        return _survey(self, columns)

    def take(self, chunk: Chunk) -> Iterator[Cut]:
        first = 0
        for row, value in enumerate(_values(self._by, _column(chunk.columns, self._by))):
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
        time = self._clock.of_value(self._by, columns)
        return Cut(columns, absent, _label(self._value), time, 0, taken, self._clock.state)


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
        self.names = (time,)
        self._every = every
        self._time = time
        self._lateness = lateness
        self._periods = Periods(every, time, is_numeric=not isinstance(every, str))
        self._open: dict[float, list[Columns]] = {}
        self._latest = -np.inf
        self._over = -np.inf  # periods that start earlier are over
        self._num_told = 0
        if state is not None:
            self._latest = _number(state["latest"])
            self._over = _number(state["over"])
            self._open = {start: _unpacked(parts) for start, parts in state["open"]}

    def keys(self, columns: Columns) -> np.ndarray | None:
        return self._periods.starts(self._times(columns))

    def survey(self, columns: Columns) -> int:
        times = self._times(columns)
        if not len(times):
            return 0
        _, latest, over, is_late = self._marks(times)
        self._latest, self._over = float(latest[-1]), float(over[-1])
        self.latest = self._latest
        return int(is_late.sum())

    def take(self, chunk: Chunk) -> Iterator[Cut]:
        times = self._times(chunk.columns)
        if not len(times):
            return
        starts, latest, over, is_late = self._marks(times)
        if is_late.any():
            self.behind = max(self.behind, float((latest[:-1] - times)[is_late].max()))
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

    def _times(self, columns: Columns) -> np.ndarray:
        values = _column(columns, self._time)
        if len(values) and (values.dtype.kind in "biuf") == isinstance(self._every, str):
            _refuse_kind(self._time, values, self._every)
        return seconds(self._time, values)

    def _marks(self, times: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        """Starts of the rows' periods; before each row and after all, the latest time and which period is not over; what is late."""
        starts = self._periods.starts(times)
        latest = np.maximum.accumulate(np.append(self._latest, times))
        # the period of the watermark; before the first row there is none
        over = np.full(len(latest), self._over)
        over[1:] = np.maximum(self._periods.starts(latest[1:] - self._lateness), self._over)
        return starts, latest, over, starts < over[:-1]

    def _hold(self, chunk: Chunk, starts: np.ndarray, is_late: np.ndarray, rows: slice) -> None:
        starts, is_late = starts[rows], is_late[rows]
        self.num_late += int(is_late.sum())
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
        num_late, self._num_told = self.num_late - self._num_told, self.num_late
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


def sorted_rows(cutter: Cutter, columns: Columns) -> np.ndarray | None:
    """The order in which a table's rows are cut; ``None`` if it is the table's own."""
    keys = cutter.keys(columns)
    if keys is None or not (np.diff(keys) < 0).any():
        return None
    return np.argsort(keys, kind="stable")


def _survey(cutter: Cutter, columns: Columns) -> int:
    """How many rows have keys less than that of a row before them."""
    keys = cutter.keys(columns)
    if keys is None or not len(keys):
        return 0
    latest = np.maximum.accumulate(np.append(cutter.latest, keys))
    cutter.latest = float(latest[-1])
    return int((keys < latest[:-1]).sum())


class _Clock:
    """Times of batches, which must not go back."""

    def __init__(self, time: str | None, state: Any) -> None:
        self._time = time
        self._last = -np.inf if state is None else _number(state)

    @property
    def state(self) -> Any:
        return None if self._time is None else _known(self._last)

    def of_value(self, by: str, columns: Columns) -> float | None:
        """The time of a batch by value: of its latest row."""
        if self._time is None:
            return None
        moment = float(seconds(self._time, _column(columns, self._time)).max())
        if moment < self._last:
            message = f"batches: batches by {by!r} overlap, so that time goes back; leave time out"
            raise ValueError(message)
        self._last = moment
        return moment

    def of_rows(self, columns: Columns) -> float | None:
        """The time of so many rows: of the last one."""
        if self._time is None:
            return None
        moments = seconds(self._time, _column(columns, self._time))
        if moments[0] < self._last or (np.diff(moments) < 0).any():
            row = int(np.argmax(np.diff(moments, prepend=self._last) < 0))
            message = f"batches: column {self._time!r}, row {row} of the batch: the time goes back; sort the rows first"
            raise ValueError(message)
        self._last = float(moments[-1])
        return self._last


def _column(columns: Columns, name: str) -> np.ndarray:
    if name not in columns:
        message = f"batches: there is no column {name!r} to cut by{meant(name, columns)}; there are {sorted(columns)}"
        raise ValueError(message)
    return columns[name]


def _values(name: str, values: np.ndarray) -> list[Any]:
    """The values of a column to cut by, dates as dates."""
    if values.dtype.kind == "M":
        values = values.astype("datetime64[us]")
    found: list[Any] = values.tolist()
    row = next((row for row, value in enumerate(found) if is_missing(value)), None)
    if row is not None:
        message = f"batches: column {name!r}, row {row}: the value is missing"
        raise ValueError(message)
    return found


def _label(value: Any) -> str:
    """What to call the rows with a value: the same whether a file or a table holds it."""
    if isinstance(value, float) and value.is_integer():
        return str(int(value))
    if isinstance(value, dt.datetime):
        is_day = value.time() == dt.time() and value.tzinfo is None
        return (value.date() if is_day else value).isoformat()
    return str(value)


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
        columns[name] = concatenated(arrays)
        lacking = [name not in part for part in parts]
        if any(lacking):
            absent[name] = np.repeat(lacking, sizes)
    return columns, absent


def _blank(size: int) -> np.ndarray:
    return np.full(size, np.nan)


def concatenated(arrays: list[np.ndarray]) -> np.ndarray:
    """As objects if numbers meet text or times: NumPy would turn numbers into text."""
    if len(arrays) == 1:
        return arrays[0]
    kinds = {"number" if array.dtype.kind in "biuf" else array.dtype.kind for array in arrays}
    return np.concatenate(arrays if len(kinds) == 1 else [array.astype(object) for array in arrays])


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
    if known is None:
        return -np.inf
    if not np.isfinite(known):
        message = f"{known!r} is no time"
        raise ValueError(message)
    return float(known)
