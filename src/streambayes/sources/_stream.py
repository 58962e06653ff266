"""SourceBatches: the rows of a source, cut into batches, with the place of each cut."""

import contextlib
import itertools
import math
import warnings
from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, final

from streambayes.learning import Pieces, Resumable, StreamBatch
from streambayes.sources._cut import ByRows, Cut, Cutter
from streambayes.sources._derive import Derived
from streambayes.sources._files import Files
from streambayes.sources._order import InOrder
from streambayes.sources._source import Chunk, Source, where_rows_are

__all__ = ["FileBatches", "SourceBatches"]


class SourceBatches(Resumable):
    """Batches of a source; memory holds one of them, and rows of those that are not complete.

    Rows are read when they are asked for: a slow learner slows the reading.

    Args:
        source: The rows.
        cutter: Makes a cutter that goes on from the state of a cut, or begins for ``None``.
        definition: How it cuts what source, as JSON has it.
        columns: The columns to read; all by default.
        derived: The columns that are made of them.
    """

    def __init__(
        self,
        source: Source,
        cutter: Callable[[Any], Cutter],
        definition: dict[str, Any],
        columns: list[str] | None,
        derived: Derived | None = None,
    ) -> None:
        self._source = source
        self.derived = derived or Derived()
        self._cutter = cutter
        self._definition = definition
        self._columns = columns
        self._stopped: str | None = None
        self._is_over = False  # the stream that was stopped

    @property
    def definition(self) -> dict[str, Any]:
        return {"columns": self._columns, **self._definition, **self.derived.definition}

    @property
    def stopped(self) -> str | None:
        return self._stopped

    def stop(self, why: str = "on demand") -> None:
        """End the stream after the current batch; may be called from a signal handler or another thread.

        Before a stream has begun it has no batch. Rows of batches that are not complete are left for whoever goes on.
        """
        self._is_over = False
        self._stopped = why

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.after(None)

    def after(self, offset: Any) -> Iterator[StreamBatch]:
        if self._is_over:  # else it is this one that is to stop
            self._stopped, self._is_over = None, False
        return self.derived.of(self._until_stopped(offset), offset)

    def _until_stopped(self, offset: Any) -> Iterator[StreamBatch]:
        try:
            if self._stopped is None:
                yield from self._from(offset)
        finally:
            self._is_over = self._stopped is not None

    def _from(self, offset: Any) -> Iterator[StreamBatch]:
        with _going_on_from(offset, ValueError):
            place, state = (None, None) if offset is None else (offset["source"], offset["cut"])
            cutter = self._cutter(state)
        with _going_on_from(offset):
            chunks = iter(self._source.read(place, self._columns))
            first = next(chunks, None)
        for chunk in itertools.chain([first], chunks):
            if self._stopped is not None:
                return
            if chunk is None or not chunk.num_rows:
                continue
            place = chunk.offset(chunk.num_rows)
            for cut in self._taken(cutter, chunk):
                yield _batch(cut, chunk.offset(cut.taken))
                if self._stopped is not None:
                    return
        for cut in cutter.rest():
            if self._stopped is not None:
                return
            yield _batch(cut, place)

    def commit(self, offset: Any) -> None:
        with _going_on_from(offset):
            self._source.commit(offset["source"])

    def _taken(self, cutter: Cutter, chunk: Chunk) -> Iterator[Cut]:
        """The cuts; rows that come too late are told as they come, and again when they are ten times as many."""
        before = cutter.num_late
        with where_rows_are(chunk):
            yield from cutter.take(chunk)
            if cutter.num_late > before and isinstance(self._source, InOrder):
                message = (
                    f"batches: {cutter.num_late - before:,} rows belong to batches that are learned; the files have "
                    "changed since the run began: begin anew"
                )
                raise ValueError(message)
        if len(str(cutter.num_late)) > len(str(before)) or (cutter.num_late and not before):
            warnings.warn(_late(cutter, self._definition), stacklevel=3)


@final
class FileBatches(SourceBatches, Pieces):
    """Batches of files, as many rows to each: they can be read again, and be the pieces of one batch."""

    def __init__(
        self,
        files: Files,
        rows: int,
        time: str | None,
        columns: list[str] | None,
        derived: Derived | None = None,
    ) -> None:
        cut = partial(ByRows, rows, time)
        self._ordered = None if time is None else InOrder(files, cut)
        definition = {"source": "Files", "rows": rows, "time": time}
        super().__init__(self._ordered or files, cut, definition, columns, derived)
        self._files = files
        self._rows = rows

    def __len__(self) -> int:
        """How many there are, where files say how many rows they have: ``TypeError`` for CSV."""
        num_rows = self._files.num_rows()
        if num_rows is None:
            message = "CSV files do not say how many rows they have"
            raise TypeError(message)
        return math.ceil(num_rows / self._rows)

    @property
    def time(self) -> float | None:
        return None if self._ordered is None else self._ordered.latest()


def _late(cutter: Cutter, definition: Mapping[str, Any]) -> str:
    """What is said of rows that came too late."""
    is_calendar = isinstance(definition["every"], str)
    needed = f"'{math.ceil(cutter.behind)}s'" if is_calendar else f"{cutter.behind:g}"
    rows = "1 row" if cutter.num_late == 1 else f"{cutter.num_late:,} rows"
    return (
        f"{rows} so far came too late for their batch and belong to none: the period was over (column "
        f"{definition['time']!r}); lateness={needed} would have waited for them"
    )


@contextlib.contextmanager
def _going_on_from(offset: Any, *more: type[Exception]) -> Iterator[None]:
    """A place that is damaged is one sentence."""
    kinds: tuple[type[Exception], ...]
    kinds = (LookupError, TypeError, AttributeError, OverflowError, *more)
    try:
        yield
    except kinds as error:
        if offset is None:
            raise
        message = (
            f"the place in the stream where the run stopped is damaged ({type(error).__name__}: {error}); go on "
            "from an earlier checkpoint"
        )
        raise ValueError(message) from error


def _batch(cut: Cut, place: Any) -> StreamBatch:
    return StreamBatch(
        columns=cut.columns,
        label=cut.label,
        time=cut.time,
        absent=cut.absent,
        num_late=cut.num_late,
        offset={"source": place, "cut": cut.state},
    )
