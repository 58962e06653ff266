"""batches: tables, files and live sources, cut into batches."""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from streambayes.learning import table
from streambayes.sources._cut import ByColumn, ByPeriod, ByRows
from streambayes.sources._files import Files
from streambayes.sources._memory import Batches, of_table
from streambayes.sources._periods import duration
from streambayes.sources._source import Source
from streambayes.sources._stream import FileBatches, SourceBatches

__all__ = ["batches"]


def batches(
    data: Any,
    *,
    rows: int | None = None,
    every: str | float | None = None,
    time: str | None = None,
    by: str | None = None,
    lateness: str | float = 0.0,
    columns: Sequence[str] | None = None,
) -> Batches | SourceBatches:
    """Cut a table, files or a live source into batches. Give one of ``rows``, ``every`` and ``by``.

    Args:
        data: A mapping of columns, a pandas, polars or Arrow frame, or an array. Or CSV, Parquet and Arrow files,
            which are read batch by batch and need not fit into memory: a path, a pattern such as
            ``"trips/*.parquet"`` (in order of the names), or a list of them. Or a source of rows: ``sources.Files``,
            ``sources.Folder``, ``sources.RedisStream``, ``sources.KafkaTopic``, or one of your own.
        rows: Rows per batch, in the order of the table; the last batch may have fewer.
        every: A period, ``"30m"``, ``"1h"``, ``"1d"``, ``"1w"``, ``"1mo"``, ``"1q"``, ``"1y"``, or a
            number in the units of a numeric ``time``. Batches are in order of time; periods without
            rows are left out, and rows keep their order within one. A batch has the time its period
            starts. Times with a zone are cut in UTC.
        time: The column of times: dates, ISO text or numbers. With ``rows``, a batch has the time of
            its last row.
        by: A column; a batch for each of its values, in order of first appearance. Of files and sources, a batch
            ends where the value changes.
        lateness: Of files and sources with ``every``: how long to wait for rows of a period after its end, on the
            clock of the rows, ``"10m"`` or a number. Rows that come later are in no batch; ``StreamBatch.num_late``
            and the records of a run count them.
        columns: The names of an array's columns; of files and sources, the columns to read, all by default.
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
    late = duration(lateness, "lateness")
    if late and every is None:
        message = "batches: lateness goes with every; other batches wait for no rows"
        raise ValueError(message)
    if isinstance(data, Source) or _are_paths(data):
        return _of_source(data, None if rows is None else int(rows), every, time, by, late, columns)
    if late:
        message = "batches: a table has no late rows; lateness is for files and sources"
        raise ValueError(message)
    return of_table(table(data, columns), rows, every, time, by)


def _of_source(
    data: Any,
    rows: int | None,
    every: str | float | None,
    time: str | None,
    by: str | None,
    lateness: float,
    columns: Sequence[str] | None,
) -> SourceBatches:
    source = data if isinstance(data, Source) else Files(data)
    needed = [name for name in (time, by) if name is not None]
    wanted = None if columns is None else [*dict.fromkeys([*columns, *needed])]
    if isinstance(source, Files):
        _check_columns(source, [*(wanted or []), *needed])
        if rows is not None:
            return FileBatches(source, rows, time, wanted)
    if every is not None:
        cut = partial(ByPeriod, every, str(time), lateness)
        cut(None)  # says what is wrong with the period
        return SourceBatches(
            source, cut, {"every": every, "time": time, "lateness": lateness}, wanted
        )
    if by is not None:
        return SourceBatches(source, partial(ByColumn, by, time), {"by": by, "time": time}, wanted)
    return SourceBatches(
        source, partial(ByRows, int(rows or 0), time), {"rows": rows, "time": time}, wanted
    )


def _check_columns(files: Files, names: Sequence[str]) -> None:
    held = files.names()
    for name in names:
        if name not in held:
            message = (
                f"batches: there is no column {name!r} in {files.paths[0].name}; it has {held}"
            )
            raise ValueError(message)


def _are_paths(data: Any) -> bool:
    several = isinstance(data, list | tuple) and len(data) > 0
    if isinstance(data, list | tuple) and not data:
        message = "batches: the list of files or rows is empty"
        raise ValueError(message)
    return all(isinstance(each, str | Path) for each in (data if several else [data]))
