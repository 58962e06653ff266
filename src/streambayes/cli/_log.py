"""What a run says while it goes on: a line on a terminal, lines of text, or lines of JSON."""

import abc
import contextlib
import datetime as dt
import json
import math
import sys
import warnings
from collections.abc import Iterator
from typing import Any, Literal, Self, final

from rich.console import Console
from rich.progress import Progress, TextColumn

from streambayes.cli._output import Form
from streambayes.learning import StepRecord

__all__ = ["Level", "Log", "log_of", "mean_rho", "warnings_in"]

Level = Literal["info", "warning", "error"]


class Log(abc.ABC):
    """Takes events of a run; a ``with`` block lasts as long as the run.

    Attributes:
        is_json: Whether every line must be a JSON object.
    """

    is_json = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:  # noqa: B027  # most have nothing to end
        """The run is over."""

    @abc.abstractmethod
    def say(self, event: str, message: str, *, level: Level = "info", **numbers: Any) -> None:
        """Something happened.

        Args:
            event: What, in a word.
            message: The same in a sentence.
            level: How bad it is.
            **numbers: What else is known of it.
        """

    def batch(self, record: StepRecord, num_changes: int) -> None:
        """A batch was learned, and so many changes were found so far."""
        self.say("batch", _line(record, num_changes), **_numbers(record, num_changes))


@final
class _Quiet(Log):
    """Says nothing but errors."""

    def say(self, event: str, message: str, *, level: Level = "info", **numbers: Any) -> None:
        del event, numbers
        if level == "error":
            _write(f"Error: {message}")


@final
class _Text(Log):
    """A line of text for each event."""

    def say(self, event: str, message: str, *, level: Level = "info", **numbers: Any) -> None:
        del event, numbers
        prefix = {"info": "", "warning": "Warning: ", "error": "Error: "}[level]
        _write(f"{prefix}{message}")


@final
class _Json(Log):
    """A JSON object for each event, one to a line.

    Args:
        quiet: Whether to say nothing but errors.
    """

    is_json = True

    def __init__(self, *, quiet: bool) -> None:
        self._quiet = quiet

    def say(self, event: str, message: str, *, level: Level = "info", **numbers: Any) -> None:
        if self._quiet and level != "error":
            return
        now = dt.datetime.now(dt.UTC).isoformat(timespec="milliseconds")
        fields = {"time": now, "level": level, "event": event, "message": message, **numbers}
        _write(json.dumps(_finite(fields), allow_nan=False))


@final
class _Terminal(Log):
    """One line that is written anew with each batch; other events stay above it."""

    def __init__(self, console: Console) -> None:
        self._console = console
        self._progress = Progress(
            TextColumn("{task.description}", markup=False), console=console, transient=True
        )
        self._task = self._progress.add_task("waiting for the first batch", total=None)

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._progress.stop()

    def batch(self, record: StepRecord, num_changes: int) -> None:
        self._progress.update(self._task, description=", ".join(_parts(record, num_changes)))
        for remark in (*record.events, *record.remarks):
            self.say("batch", f"batch {record.index}: {remark}")

    def say(self, event: str, message: str, *, level: Level = "info", **numbers: Any) -> None:
        del event, numbers
        prefix = {"info": "", "warning": "Warning: ", "error": "Error: "}[level]
        self._console.print(f"{prefix}{message}", markup=False, highlight=False, soft_wrap=True)


def log_of(form: Form | None, *, quiet: bool) -> Log:
    """What the user asked for; by default a line on a terminal, or else lines of text."""
    if form == "json":
        return _Json(quiet=quiet)
    if quiet:
        return _Quiet()
    console = Console(stderr=True)
    return _Terminal(console) if form is None and console.is_terminal else _Text()


@contextlib.contextmanager
def warnings_in(log: Log) -> Iterator[None]:
    """Warnings of the library go into the log."""

    def show(message: Warning | str, *_: object) -> None:
        log.say("warning", " ".join(str(message).split()), level="warning")

    with warnings.catch_warnings():
        warnings.simplefilter("default", UserWarning)
        warnings.showwarning = show  # type: ignore[assignment]  # takes any arguments
        yield


def mean_rho(record: StepRecord) -> float | None:
    """The share of the past that was kept, in the mean over blocks."""
    if isinstance(record.rho, dict):
        return sum(record.rho.values()) / len(record.rho) if record.rho else None
    return record.rho


def _line(record: StepRecord, num_changes: int) -> str:
    first, *parts = _parts(record, num_changes)
    if record.label != str(record.index):
        first = f"{first} ({' '.join(record.label.split())})"
    parts += [f"{record.num_late} late rows"] if record.num_late else []
    parts += [record.outcome] if record.outcome != "converged" else []
    return ", ".join([first, *parts, *record.events, *record.remarks])


def _parts(record: StepRecord, num_changes: int) -> list[str]:
    """What fits into a line of a terminal."""
    numbers = _numbers(record, num_changes)
    parts = [f"batch {record.index}", _counted(record.num_rows, "row")]
    if numbers["rows_per_second"] is not None:
        parts.append(f"{numbers['rows_per_second']:,.0f} rows/s")
    if numbers["bound_per_row"] is not None:
        parts.append(f"bound {numbers['bound_per_row']:.4f} per row")
    if numbers["rho"] is not None:
        parts.append(f"E[rho] {numbers['rho']:.3f}")
    return [*parts, _counted(num_changes, "change")]


def _counted(number: int, what: str) -> str:
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def _numbers(record: StepRecord, num_changes: int) -> dict[str, Any]:
    rows = record.num_rows
    return {
        "batch": record.index,
        "label": record.label,
        "batch_time": record.time,
        "rows": rows,
        "test_rows": record.num_test,
        "late_rows": record.num_late,
        "rows_per_second": rows / record.seconds if record.seconds > 0.0 else None,
        "seconds": record.seconds,
        "bound": record.bound,
        "bound_per_row": None if record.bound is None or not rows else record.bound / rows,
        "rho": mean_rho(record),
        "changes": num_changes,
        "prequential": record.prequential,
        "test_predictive": record.test_predictive,
        "test_bound": record.test_bound,
        "outcome": record.outcome,
        "events": list(record.events),
        "remarks": list(record.remarks),
    }


def _write(line: str) -> None:
    sys.stderr.write(line + "\n")
    sys.stderr.flush()


def _finite(value: Any) -> Any:
    """The same, with ``None`` for numbers that JSON does not have."""
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, list | tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
