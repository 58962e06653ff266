"""SourceBatches: the rows of a source, cut into batches, with the place of each cut."""

import math
from collections.abc import Callable, Iterator
from typing import Any, final

from streambayes.learning import Pieces, Resumable, StreamBatch
from streambayes.sources._cut import ByRows, Cut, Cutter
from streambayes.sources._files import Files
from streambayes.sources._source import Chunk, Source
from streambayes.sources._times import seconds

__all__ = ["FileBatches", "SourceBatches"]


class SourceBatches(Resumable):
    """Batches of a source; memory holds one of them, and rows of those that are not complete.

    Rows are read when they are asked for: a slow learner slows the reading.

    Args:
        source: The rows.
        cutter: Makes a cutter that goes on from the state of a cut, or begins for ``None``.
        definition: How it cuts, as JSON has it.
        columns: The columns to read; all by default.
    """

    def __init__(
        self,
        source: Source,
        cutter: Callable[[Any], Cutter],
        definition: dict[str, Any],
        columns: list[str] | None,
    ) -> None:
        self._source = source
        self._cutter = cutter
        self._definition = definition
        self._columns = columns
        self._stopped: str | None = None

    @property
    def definition(self) -> dict[str, Any]:
        return {"source": type(self._source).__name__, "columns": self._columns, **self._definition}

    @property
    def stopped(self) -> str | None:
        return self._stopped

    def stop(self, why: str = "on demand") -> None:
        """End the stream after the current batch; may be called from a signal handler or another thread.

        Rows of batches that are not complete are left for whoever goes on.
        """
        self._stopped = why

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.after(None)

    def after(self, offset: Any) -> Iterator[StreamBatch]:
        self._stopped = None
        return self._from(offset)

    def _from(self, offset: Any) -> Iterator[StreamBatch]:
        place, state = (None, None) if offset is None else (offset["source"], offset["cut"])
        cutter = self._cutter(state)
        for chunk in self._source.read(place, self._columns):
            if self._stopped is not None:
                return
            if chunk is None or not chunk.num_rows:
                continue
            place = chunk.offset(chunk.num_rows)
            for cut in _told(cutter, chunk):
                yield _batch(cut, chunk.offset(cut.taken))
                if self._stopped is not None:
                    return
        for cut in cutter.rest():
            if self._stopped is not None:
                return
            yield _batch(cut, place)

    def commit(self, offset: Any) -> None:
        self._source.commit(offset["source"])


@final
class FileBatches(SourceBatches, Pieces):
    """Batches of files, as many rows to each: they can be read again, and be the pieces of one batch."""

    def __init__(
        self, files: Files, rows: int, time: str | None, columns: list[str] | None
    ) -> None:
        definition = {"rows": rows, "time": time}
        super().__init__(files, lambda state: ByRows(rows, time, state), definition, columns)
        self._files = files
        self._rows = rows
        self._time = time

    def __len__(self) -> int:
        """How many there are, where files say how many rows they have: ``TypeError`` for CSV."""
        num_rows = self._files.num_rows()
        if num_rows is None:
            message = "CSV files do not say how many rows they have"
            raise TypeError(message)
        return math.ceil(num_rows / self._rows)

    @property
    def time(self) -> float | None:
        cells = None if self._time is None else self._files.last_cells(self._time)
        return None if cells is None else float(seconds(str(self._time), cells)[-1])


def _told(cutter: Cutter, chunk: Chunk) -> Iterator[Cut]:
    """The cuts; errors say where the rows are from."""
    try:
        yield from cutter.take(chunk)
    except ValueError as error:
        error.add_note(f"in {chunk.name}, rows from {chunk.first_row} on")
        raise


def _batch(cut: Cut, place: Any) -> StreamBatch:
    return StreamBatch(
        columns=cut.columns,
        label=cut.label,
        time=cut.time,
        absent=cut.absent,
        num_late=cut.num_late,
        offset={"source": place, "cut": cut.state},
    )
