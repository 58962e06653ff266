"""Rows of files in the order in which they are cut into batches: as they come, or sorted in memory."""

import dataclasses
import hashlib
import os
import re
import sys
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

import numpy as np

from streambayes.sources._cut import ByColumn, Cutter, concatenated
from streambayes.sources._files import Files
from streambayes.sources._source import Chunk, Source, where_rows_are

__all__ = ["InOrder"]

_ROWS = 8192  # to a chunk
_SAMPLE = 100
_GIB = 2.0**30
_TO_BEGIN_ANEW = "put the files back as they were, or begin anew"

Columns = dict[str, np.ndarray]


@final
class InOrder(Source):
    """Files have ends, so none of their rows need be late: those that come too late for their batch are sorted in first.

    The columns that decide about cuts are read once before all others. Where rows come as they are cut, files are
    then read chunk by chunk; or else all rows are held in memory, sorted.

    Args:
        files: The files.
        make: Makes a cutter, from ``None``.
    """

    def __init__(self, files: Files, make: Callable[[Any], Cutter]) -> None:
        self._files = files
        self._make = make
        self._facts: _Facts | None = None
        self._rows: _SortedRows | None = None

    def read(self, start: Any, columns: list[str] | None) -> Iterator[Chunk | None]:
        yield from self._survey()
        assert self._facts is not None
        was_sorted = start is not None and "sorted" in start
        if not self._facts.num_late:
            if was_sorted:
                message = (
                    f"batches: the run sorted the rows of {self._called}, which are in order now: "
                    f"{_TO_BEGIN_ANEW}"
                )
                raise ValueError(message)
            yield from self._files.read(start, columns)
            return
        if start is not None and not was_sorted:
            message = (
                f"batches: the run read the rows of {self._called} in their own order, and now {self._facts.num_late:,} "
                f"of them would come too late: {_TO_BEGIN_ANEW}"
            )
            raise ValueError(message)
        if self._rows is None:
            yield from self._sort(columns)
        assert self._rows is not None
        yield from self._rows.read(start, self._called)

    def latest(self) -> float | None:
        """The greatest of the numbers that rows are sorted by; ``None`` if there are no rows."""
        for _ in self._survey():
            pass
        assert self._facts is not None
        return self._facts.latest if self._facts.num_rows else None

    @property
    def _called(self) -> str:
        first, *more = [path.name for path in self._files.paths]
        return f"{first} and {len(more):,} more" if more else first

    def _survey(self) -> Iterator[None]:
        """Look at the order of all rows, unless that is known."""
        sizes = tuple(
            (found.st_size, found.st_mtime_ns) for found in map(Path.stat, self._files.paths)
        )
        if self._facts is not None and self._facts.sizes == sizes:
            return
        self._rows = None
        cutter = self._make(None)
        num_rows = num_late = 0
        for chunk in self._files.read(None, list(cutter.names)):
            yield None
            with where_rows_are(chunk):
                num_late += cutter.survey(chunk.columns)
            num_rows += chunk.num_rows
        self._facts = _Facts(sizes, num_rows, num_late, cutter.latest)

    def _sort(self, columns: list[str] | None) -> Iterator[None]:
        """Hold all rows in memory, sorted; ``ValueError`` if they do not fit."""
        facts, cutter = self._facts, self._make(None)
        assert facts is not None
        free, held = _free_memory(), 0
        late = (
            f"{facts.num_late:,} of {facts.num_rows:,} rows of {self._called} would come too late"
        )
        why = f"column {cutter.names[0]!r} is not in order"
        keys, parts = [], []
        for chunk in self._files.read(None, columns):
            yield None
            keys.append(np.asarray(cutter.keys(chunk.columns)))
            parts.append(chunk.columns)
            held += sum(map(_size, chunk.columns.values()))
            if held > free / 2:  # they are copied in order of time
                message = (
                    f"batches: {late}, since {why}, and {facts.num_rows:,} rows do not fit into the {free / _GIB:.1f} GiB "
                    f"of memory that are free, to be sorted: sort the files by {cutter.names[0]!r} first, for example with "
                    f"polars.scan_csv(...).sort({cutter.names[0]!r}).sink_parquet('sorted.parquet'), or read fewer columns"
                )
                raise ValueError(message)
        self._rows = _SortedRows(np.concatenate(keys), parts)
        if not isinstance(cutter, ByColumn):
            warnings.warn(f"{late}: {why}; all rows are sorted in memory first", stacklevel=2)


@final
@dataclasses.dataclass(frozen=True)
class _Facts:
    """What a look at all rows has found.

    Attributes:
        sizes: Sizes and moments of change of the files.
        num_rows: Rows of all files.
        num_late: Rows that would come too late for their batch.
        latest: The greatest of the numbers that rows are sorted by.
    """

    sizes: tuple[tuple[int, int], ...]
    num_rows: int
    num_late: int
    latest: float


@final
class _SortedRows:
    """Rows in memory, sorted by a key; an offset holds what the keys before it were.

    Args:
        keys: Of all rows.
        parts: The rows, in pieces; the list is emptied.
    """

    def __init__(self, keys: np.ndarray, parts: list[Columns]) -> None:
        order = np.argsort(keys, kind="stable")
        self._keys = np.ascontiguousarray(keys[order])
        kinds = {names: number for number, names in enumerate(dict.fromkeys(map(tuple, parts)))}
        sizes = [len(next(iter(part.values()))) for part in parts]
        kind = np.repeat([kinds[tuple(part)] for part in parts], sizes)
        place = np.empty(len(keys), np.int64)
        for number in range(len(kinds)):
            place[kind == number] = np.arange((kind == number).sum())
        self._kind, self._place = kind[order], place[order]
        self._tables: list[Columns] = []
        for names in kinds:
            alike = [part for part in parts if tuple(part) == names]
            self._tables.append(
                {name: concatenated([part.pop(name) for part in alike]) for name in names}
            )
        parts.clear()

    def read(self, start: Any, name: str) -> Iterator[Chunk]:
        """The rows after an offset."""
        first = 0 if start is None else int(start["sorted"])
        digest = hashlib.blake2b(self._keys[:first].tobytes(), digest_size=16)
        if start is not None and start["keys"] != digest.hexdigest():
            message = (
                f"batches: rows of {name} have come, gone or changed among the {first:,} that were learned: "
                f"{_TO_BEGIN_ANEW}"
            )
            raise ValueError(message)
        changes = np.flatnonzero(np.diff(self._kind)) + 1
        while first < len(self._keys):
            after = int(np.searchsorted(changes, first, "right"))
            end = int(changes[after]) if after < len(changes) else len(self._keys)
            end = min(end, first + _ROWS)
            table, rows = self._tables[self._kind[first]], self._place[first:end]
            columns = {name: values[rows] for name, values in table.items()}
            yield Chunk(
                columns, _Places(self._keys, first, digest.copy()), f"{name}, sorted", first
            )
            digest.update(self._keys[first:end].tobytes())
            first = end


class _Places:
    """Offsets of sorted rows: how many came before, and what their keys were."""

    def __init__(self, keys: np.ndarray, first: int, digest: Any) -> None:
        self._keys = keys
        self._first = first
        self._digest = digest

    def __call__(self, taken: int) -> dict[str, Any]:
        digest, end = self._digest.copy(), self._first + taken
        digest.update(self._keys[self._first : end].tobytes())
        return {"sorted": end, "keys": digest.hexdigest()}


def _size(values: np.ndarray) -> int:
    """Bytes of a column; of text by its first cells."""
    some = values[:_SAMPLE].tolist() if values.dtype.kind == "O" else []
    return values.nbytes + int(sum(map(sys.getsizeof, some)) / max(len(some), 1) * len(values))


def _free_memory() -> float:
    """Bytes of memory that are free, as far as the system says so."""
    found = []
    try:
        told = re.search(r"MemAvailable: *(\d+) kB", Path("/proc/meminfo").read_text())
        found.append(1024.0 * int(told[1]) if told else _GIB)
    except OSError:  # not Linux
        has_pages = hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names
        found.append(
            os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES") / 2 if has_pages else 2 * _GIB
        )
    try:  # of a container
        most, used = (
            Path(f"/sys/fs/cgroup/memory.{name}").read_text() for name in ("max", "current")
        )
        found.append(float(most) - float(used))
    except (OSError, ValueError):  # no container, or one without a limit
        pass
    return min(found)
