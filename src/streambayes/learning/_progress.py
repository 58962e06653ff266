"""A line on the terminal that says how far a run is."""

import sys
import time
from typing import Self, TextIO, final

from streambayes.learning._record import StepRecord

__all__ = ["Progress"]

_INTERVAL = 0.1  # seconds between redraws


@final
class Progress:
    """Redraws one line on standard error; silent where that is no terminal, unless asked for.

    Args:
        show: ``True`` and ``False`` decide; ``None`` leaves it to whether there is a terminal.
        total: How many batches are to come, if known.
    """

    def __init__(self, show: bool | None, total: int | None) -> None:
        self._stream: TextIO = sys.stderr
        self._shown = self._stream.isatty() if show is None else show
        self._total = total
        self._started = time.perf_counter()
        self._drawn = 0.0
        self._rows = 0
        self._last: tuple[int, StepRecord] | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._shown and self._last is not None:
            self._draw()
            self._stream.write("\n")

    def update(self, num_batches: int, record: StepRecord) -> None:
        """A batch was learned."""
        self._rows += record.num_rows
        self._last = (num_batches, record)
        now = time.perf_counter()
        if self._shown and now - self._drawn >= _INTERVAL:
            self._draw()
            self._drawn = now

    def _draw(self) -> None:
        if self._last is None:
            return
        num_batches, record = self._last
        rate = self._rows / max(time.perf_counter() - self._started, 1e-9)
        of = f"/{self._total}" if self._total is not None else ""
        parts = [f"batch {num_batches}{of}", f"{rate:,.0f} rows/s"]
        if record.bound is not None and record.num_rows:
            parts.append(f"bound {record.bound / record.num_rows:.4f} per row")
        if isinstance(record.rho, dict):
            parts.append(f"E[rho] {min(record.rho.values()):.3f} .. {max(record.rho.values()):.3f}")
        elif record.rho is not None:
            parts.append(f"E[rho] {record.rho:.3f}")
        self._stream.write("\r\x1b[2K" + "  ".join(parts))
        self._stream.flush()
