"""A line on the terminal, or in a notebook, that says how far a run is."""

import contextlib
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any, Self, TextIO, final

from streambayes.learning._intake import Shards
from streambayes.learning._record import StepRecord

__all__ = ["Progress"]

_INTERVAL = 0.1  # seconds between redraws
_PATIENCE = 1.0  # seconds until it is said that the first batch is still being prepared


@final
class Progress:
    """Redraws one line on standard error; silent where nobody looks at that, unless asked for.

    Args:
        show: ``True`` and ``False`` decide; ``None`` leaves it to whether it is a terminal or a notebook's.
        total: How many batches are to come, if known.
    """

    def __init__(self, show: bool | None, total: int | None) -> None:
        self._stream: TextIO = sys.stderr
        self._shown = _is_seen(self._stream) if show is None else show
        self._width = 0
        self._total = total
        self._started = time.perf_counter()
        self._drawn = 0.0
        self._rows = 0
        self._last: tuple[int, StepRecord] | None = None
        self._sweep: tuple[int, float] | None = None
        self._patience = threading.Timer(
            _PATIENCE, self._say, ["preparing: programs are loaded or compiled"]
        )
        self._patience.daemon = True

    def __enter__(self) -> Self:
        if self._shown:
            self._patience.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._patience.cancel()
        if self._shown and (self._last is not None or self._sweep is not None):
            self._draw()
            self._stream.write("\n")

    def update(self, num_batches: int, record: StepRecord) -> None:
        """A batch was learned."""
        self._patience.cancel()
        self._rows += record.num_rows
        self._last, self._sweep = (num_batches, record), None
        self._redraw()

    @contextlib.contextmanager
    def watching(self, batch: Any) -> Iterator[None]:
        """While a batch is learned: one on a cluster tells of its sweeps, which take a while."""
        if not isinstance(batch, Shards):
            yield
            return
        batch.on_sweep = self._swept
        try:
            yield
        finally:
            batch.on_sweep = None

    def _swept(self, number: int, bound: float) -> None:
        self._patience.cancel()
        self._sweep = (number, bound)
        self._redraw()

    def _redraw(self) -> None:
        now = time.perf_counter()
        if self._shown and now - self._drawn >= _INTERVAL:
            self._draw()
            self._drawn = now

    def _draw(self) -> None:
        of = f"/{self._total}" if self._total is not None else ""
        num_batches = self._last[0] if self._last is not None else 0
        if self._sweep is not None:
            number, bound = self._sweep
            parts = [f"batch {num_batches + 1}{of}", f"sweep {number}", f"bound {bound:.8g}"]
        else:
            parts = [f"batch {num_batches}{of}", *self._of_last()]
        self._say("  ".join(parts))

    def _say(self, line: str) -> None:
        self._stream.write("\r" + line.ljust(self._width))  # over what was longer
        self._stream.flush()
        self._width = len(line)

    def _of_last(self) -> Iterator[str]:
        """What is said of the last batch."""
        if self._last is None:
            return
        _, record = self._last
        rate = self._rows / max(time.perf_counter() - self._started, 1e-9)
        yield f"{rate:,.0f} rows/s"
        if record.bound is not None and record.num_rows:
            yield f"bound {record.bound / record.num_rows:.4f} per row"
        if isinstance(record.rho, dict):
            yield f"E[rho] {min(record.rho.values()):.3f} .. {max(record.rho.values()):.3f}"
        elif record.rho is not None:
            yield f"E[rho] {record.rho:.3f}"


def _is_seen(stream: TextIO | None) -> bool:
    """Whether a person sees what is written now: a terminal, or the cell of a notebook."""
    if stream is None or stream.closed:
        return False
    return stream.isatty() or type(stream).__module__.partition(".")[0] == "ipykernel"
