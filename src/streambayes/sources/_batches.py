"""batches: tables, files and live sources, cut into batches."""

from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streambayes._core.names import meant
from streambayes.learning import table
from streambayes.learning._intake import column_names
from streambayes.sources._cut import ByColumn, ByPeriod, ByRows, Cutter
from streambayes.sources._derive import Derived
from streambayes.sources._files import Files
from streambayes.sources._index import with_index
from streambayes.sources._memory import Batches, of_table
from streambayes.sources._order import InOrder
from streambayes.sources._periods import Every, duration, period
from streambayes.sources._source import Source
from streambayes.sources._stream import FileBatches, SourceBatches

__all__ = ["batches"]


def batches(
    data: Any,
    *,
    rows: int | None = None,
    every: Every | None = None,
    time: str | None = None,
    by: str | None = None,
    lateness: Every = 0.0,
    columns: str | Sequence[str] | None = None,
    difference: str | Sequence[str] = (),
    ratio: str | Sequence[str] = (),
    calendar: str | Sequence[str] = (),
) -> Batches | SourceBatches:
    """Cut a table, files or a live source into batches. Give one of ``rows``, ``every`` and ``by``.

    Args:
        data: A mapping of columns, a pandas, polars or Arrow frame, or an array. Or CSV, Parquet and Arrow files,
            which are read batch by batch and need not fit into memory: a path, a pattern such as
            ``"trips/*.parquet"`` (in order of the names), or a list of them. Or a source of rows: ``sources.Files``,
            ``sources.Folder``, ``sources.RedisStream``, ``sources.KafkaTopic``, or one of your own.
        rows: Rows per batch, in the order of the table, or of ``time`` where it is given; the last batch may have
            fewer.
        every: A period: a count and one of ``s``, ``m`` (minutes), ``h``, ``d``, ``w`` (weeks, from Monday), ``mo``
            (months), ``q`` (quarters) and ``y``, such as ``"30m"``, ``"1d"`` or ``"1mo"``; a timedelta of whole
            seconds; or a number in the units of a numeric ``time``. Batches are in order of time; periods without
            rows are left out, and rows keep their order within one. A batch has the time its period
            starts. Times with a zone are cut in UTC.
        time: The column of times: dates, ISO text or numbers; of a pandas frame also ``"index"``, or the index's own
            name. With ``rows``, a batch has the time of its last row, with ``by`` that of its latest.
        by: A column; a batch for each of its values, in order of first appearance. Of live sources, a batch ends where
            the value changes.
        lateness: With ``every``, of live sources: how long to wait for rows of a period after its end, on the
            clock of the rows, ``"10m"`` or a number. Rows that come later are in no batch; ``StreamBatch.num_late``
            and the records of a run count them, and a warning says so. Of files none are late: how far rows may be
            out of order before all of them are sorted in memory.
        columns: The names of an array's columns; of files and sources, the columns to read, all by default.
        difference: Columns for which batches get another one with the difference to the row before, over the ends
            of batches: of ``"price"``, ``"price change"``. In order of ``time``, or of the rows. The first row
            has none, nor have a row whose value is missing and the one after it: they are missing.
        ratio: Likewise with the ratio to the row before: ``"price ratio"``.
        calendar: Columns to be made of ``time``: ``"month"`` (Jan to Dec), ``"weekday"`` (Mon to Sun), ``"hour"``
            (0 to 23); in UTC where times have a zone.
    """
    if sum(choice is not None for choice in (rows, every, by)) != 1:
        message = "batches: give one of rows, every and by"
        raise ValueError(message)
    if rows is not None and (
        isinstance(rows, bool) or not isinstance(rows, int | np.integer) or rows < 1
    ):
        message = f"batches: rows must be a whole number of at least 1, got {rows!r}"
        raise ValueError(message)
    if every is not None and time is None:
        message = "batches: every needs the name of the time column, time=..."
        raise ValueError(message)
    columns = [columns] if isinstance(columns, str) else columns
    late = duration(lateness, "lateness")
    if late and every is None:
        message = "batches: lateness goes with every; other batches wait for no rows"
        raise ValueError(message)
    derived = Derived.checked(time, difference, ratio, calendar)
    cut: Callable[[Any], Cutter]
    if every is not None:
        every = period(every)
        definition = {"every": every, "time": time, "lateness": late}
        cut = partial(ByPeriod, every, str(time), late)
    elif by is not None:
        definition = {"by": by, "time": time}
        cut = partial(ByColumn, by, time)
    else:
        definition = {"rows": int(rows or 0), "time": time}
        cut = partial(ByRows, int(rows or 0), time)
    if isinstance(data, Source) or _are_paths(data):
        return _of_source(data, cut, definition, columns, derived)
    if late:
        message = "batches: a table has no late rows; lateness is for files and sources"
        raise ValueError(message)
    held = with_index(_table(data, columns), data, time)
    return of_table(held, cut, time).with_derived(derived)


def _table(data: Any, columns: Sequence[str] | None) -> dict[str, Any]:
    """The columns of a table, all that are asked for among them."""
    held = table(data, columns)
    for name in columns or ():
        if name not in held:
            known = column_names(data)
            message = (
                f"batches: there is no column {name!r}{meant(name, known)}; the table has {known}"
            )
            raise ValueError(message)
    return held


def _of_source(
    data: Any,
    cut: Callable[[Any], Cutter],
    definition: dict[str, Any],
    columns: Sequence[str] | None,
    derived: Derived,
) -> SourceBatches:
    source = data if isinstance(data, Source) else Files(data)
    needed = [*cut(None).names, *derived.needs]  # says what is wrong with a period
    wanted = None if columns is None else [*dict.fromkeys([*columns, *needed])]
    kind = type(source).__name__
    if isinstance(source, Files):
        _check_columns(source, [*(wanted or []), *needed])
        if "rows" in definition:
            return FileBatches(source, definition["rows"], definition["time"], wanted, derived)
        source = InOrder(source, cut)
    return SourceBatches(source, cut, {"source": kind, **definition}, wanted, derived)


def _check_columns(files: Files, names: Sequence[str]) -> None:
    held = files.names()
    for name in names:
        if name not in held:
            place = files.paths[0].name
            message = (
                f"batches: there is no column {name!r} in {place}{meant(name, held)}; it has {held}"
            )
            raise ValueError(message)


def _are_paths(data: Any) -> bool:
    several = isinstance(data, list | tuple) and len(data) > 0
    if isinstance(data, list | tuple) and not data:
        message = "batches: the list of files or rows is empty"
        raise ValueError(message)
    return all(isinstance(each, str | Path) for each in (data if several else [data]))
