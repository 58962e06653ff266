"""Batches of a table in memory: by row count, by calendar period, by column."""

from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

from streambayes._core.names import meant
from streambayes.learning import Pieces, StreamBatch
from streambayes.sources._cut import Cutter, sorted_rows
from streambayes.sources._derive import Derived
from streambayes.sources._source import Chunk
from streambayes.sources._times import parsed

__all__ = ["Batches", "of_table"]

_ROW = "\0row"
"""Name of a column of row numbers."""


@final
class Batches(Pieces):
    """A table in memory, cut into batches."""

    def __init__(
        self,
        columns: dict[str, np.ndarray],
        cuts: list[tuple[str | None, float | None, Any]],
        derived: Derived | None = None,
    ) -> None:
        self._columns = columns
        self._cuts = cuts
        self._derived = derived or Derived()

    @property
    def time(self) -> float | None:
        """The time of the last batch, if there are times: that of all rows as one batch."""
        return self._cuts[-1][1] if self._cuts else None

    def __len__(self) -> int:
        return len(self._cuts)

    def __iter__(self) -> Iterator[StreamBatch]:
        return self._derived.of(self._cut())

    def with_derived(self, derived: Derived) -> "Batches":
        """The same with more columns."""
        for name in derived.needs:
            if name not in self._columns:
                message = (
                    f"batches: there is no column {name!r}{meant(name, self._columns)}; the table has "
                    f"{sorted(self._columns)}"
                )
                raise ValueError(message)
        return Batches(self._columns, self._cuts, derived)

    def _cut(self) -> Iterator[StreamBatch]:
        for label, time, rows in self._cuts:
            columns = {name: values[rows] for name, values in self._columns.items()}
            yield StreamBatch(columns=columns, label=label, time=time)


def of_table(columns: dict[str, Any], make: Callable[[Any], Cutter], time: str | None) -> Batches:
    """Cut a table: its row numbers are cut as rows of files and sources are.

    Args:
        columns: The table.
        make: Makes a cutter, from ``None``.
        time: The column of times.
    """
    held = {name: np.asarray(values) for name, values in columns.items()}
    lengths = {name: len(values) for name, values in held.items()}
    if not held:
        message = "batches: the table has no columns"
        raise ValueError(message)
    if len(set(lengths.values())) != 1:
        message = f"batches: columns must have the same length, got {lengths}"
        raise ValueError(message)
    cutter = make(None)
    for name in cutter.names:
        if name not in held:
            message = f"batches: there is no column {name!r}{meant(name, held)}; the table has {sorted(held)}"
            raise ValueError(message)
    keys = {name: held[name] for name in cutter.names}
    if time is not None:
        keys[time] = parsed(time, keys[time])
    rows = np.arange(next(iter(lengths.values())))
    order = sorted_rows(make(None), keys)
    if order is not None:
        keys, rows = {name: values[order] for name, values in keys.items()}, order
    chunk = Chunk({**keys, _ROW: rows}, lambda taken: taken, "the table")
    cuts = [*cutter.take(chunk), *cutter.rest()] if len(rows) else []
    return Batches(held, [(cut.label, cut.time, _run(cut.columns[_ROW])) for cut in cuts])


def _run(rows: np.ndarray) -> Any:
    """Rows that are neighbours as a slice, which copies nothing."""
    is_run = rows[-1] - rows[0] + 1 == len(rows) and bool((np.diff(rows) == 1).all())
    return slice(int(rows[0]), int(rows[-1]) + 1) if is_run else rows
