"""streambayes run: learn a stream as a configuration says, until it ends or is told to stop."""

import contextlib
import dataclasses
import datetime as dt
import math
import re
import shlex
import signal
import threading
import time
import warnings
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Annotated, Any, NoReturn, Self, final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streambayes.cli._config import Config, ConfigError, read_config
from streambayes.cli._log import Form, Log, log_of, warnings_in
from streambayes.cli._metrics import Metrics
from streambayes.cli._output import Quiet
from streambayes.drift import Drift, DriftEvent, DriftMonitor
from streambayes.learning import Resumable, Run, Scores, StepRecord, StreamBatch, read_records
from streambayes.learning import run as learn
from streambayes.learning._record import RECORDS
from streambayes.learning._schema import SchemaGuard
from streambayes.sources import Files, SourceBatches

__all__ = ["EXIT_CODES", "run"]

WRONG, BAD_DATA, FAILED = 2, 3, 4
_SIGNALS = {"SIGINT": 130, "SIGTERM": 143}
EXIT_CODES = (
    "Exit codes: 0 the stream has ended, or --until is reached; 2 bad configuration or arguments, nothing was "
    "started; 3 bad data or columns that changed, the state up to the batch before is saved; 4 the source or the "
    "disk failed, likewise; 130 and 143 stopped cleanly by SIGINT and SIGTERM."
)
_NAMED = 8
_OUTSIDE = ("redis", "confluent_kafka", "jax", "jaxlib")
"""Packages whose errors are not mistakes of ours."""
_POLICY = re.compile(r"(?:schema=)?SchemaPolicy\((\w+)='(\w+)'\)")
_REMARK = re.compile(r"(\d+) (rows left out|cells taken as missing)")


def run(
    config: Annotated[Path, typer.Argument(metavar="CONFIG", help="File such as stream.toml.")],
    resume: Annotated[
        bool, typer.Option("--resume", help="Go on from the last checkpoint, if there is one.")
    ] = False,
    dry_run: Annotated[
        bool,
        typer.Option("--dry-run", help="Check everything, say what would be done, write nothing."),
    ] = False,
    until: Annotated[
        str | None,
        typer.Option(
            metavar="N|MOMENT",
            help="Stop after N batches in all, or after the batch whose time reaches a moment such as 2024-06-01.",
        ),
    ] = None,
    dashboard: Annotated[
        bool, typer.Option("--dashboard", help="Serve a live page meanwhile.")
    ] = False,
    log: Annotated[
        Form | None,
        typer.Option(
            "--log",
            help="Lines on standard error, as text or JSON; by default one line on a terminal that is written anew.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """The run."""
    said = log_of(log, quiet=quiet)
    command = f"streambayes run {shlex.quote(str(config))}"
    try:
        with _telling():
            read = read_config(config)
        goal = None if until is None else _Until.of(until, read)
        past = _Past.of(read, command, resume=resume)
        if dry_run:
            _show_plan(read, past, quiet=quiet)
            return
        ended = _learned(read, past, goal, said, resume=resume, dashboard=dashboard)
    except _Failed as error:
        _end(said, error, command)
    shows = not quiet and log != "json"
    if shows:
        _show_summary(ended)
    if ended.is_stopped and shows:
        typer.echo(f"Go on with: {command} --resume", err=True)
    raise typer.Exit(ended.code)


class _Failed(Exception):  # noqa: N818  # how a command ends
    """The command ends; ``code`` is its exit code."""

    def __init__(self, code: int, message: str) -> None:
        super().__init__(message)
        self.code = code


def _end(log: Log, error: _Failed, command: str) -> NoReturn:
    go_on = None if error.code == WRONG else f"{command} --resume"
    log.say("error", str(error), level="error", code=error.code, go_on=go_on)
    if go_on is not None and not log.is_json:
        typer.echo(f"Go on with: {go_on}", err=True)
    raise typer.Exit(error.code) from None


@contextlib.contextmanager
def _telling(stream: "_Stream | None" = None) -> Iterator[None]:
    """What goes wrong, as a code and a sentence; before the stream has begun it is the configuration.

    Mistakes of our own are not caught.
    """
    try:
        yield
    except (_Failed, typer.Exit):
        raise
    except KeyboardInterrupt:
        raise _Failed(130, "interrupted; the state is saved up to the batch before") from None
    except (FileExistsError, NotADirectoryError, ConfigError, ImportError) as error:
        raise _Failed(WRONG, _sentence(error)) from None
    except (ValueError, TypeError, ArithmeticError) as error:
        has_begun = stream is not None and stream.has_begun
        raise _Failed(BAD_DATA if has_begun else WRONG, _sentence(error)) from None
    except (OSError, MemoryError) as error:
        raise _Failed(FAILED, _sentence(error)) from None
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in _OUTSIDE:
            raise
        raise _Failed(FAILED, _sentence(error)) from None


def _sentence(error: BaseException) -> str:
    """What an error says, with its notes, on one line and in words of the configuration."""
    said = str(error).removeprefix("run: ").removeprefix("batches: ") or type(error).__name__
    if isinstance(error, OSError) and error.strerror is not None:
        where = f"{error.filename} " if error.filename else ""
        said = f"{where}cannot be read or written ({error.strerror.lower()})"
    notes = "; ".join(getattr(error, "__notes__", ()))
    text = " ".join(f"{said} ({notes})".split()) if notes else " ".join(said.split())
    return _POLICY.sub(r'[schema] \1 = "\2"', text)


@final
@dataclasses.dataclass(frozen=True)
class _Until:
    """When to stop: after so many batches, or at a moment in seconds since 1970."""

    text: str
    num_batches: int | None = None
    moment: float | None = None

    @classmethod
    def of(cls, text: str, config: Config) -> Self:
        """From what was given on the command line."""
        if text.isdecimal() and int(text) >= 1:
            return cls(text, num_batches=int(text))
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            message = (
                f"--until must be a number of batches of at least 1, or a moment such as 2024-06-01 or "
                f"2024-06-01T12:00, got {text!r}"
            )
            raise _Failed(WRONG, message) from None
        if not config.has_times:
            message = "--until: a moment needs batches with times, [batches] time"
            raise _Failed(WRONG, message)
        aware = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment
        return cls(text, moment=aware.timestamp())

    def is_reached(self, num_batches: int, last_time: float | None) -> bool:
        """Whether it is time to stop after so many batches, the last of which has this time."""
        if self.num_batches is not None:
            return num_batches >= self.num_batches
        return last_time is not None and self.moment is not None and last_time >= self.moment


@final
@dataclasses.dataclass(frozen=True)
class _Past:
    """What a run goes on from.

    Attributes:
        num_batches: Batches that were learned.
        last_time: The time of the last of them.
    """

    num_batches: int = 0
    last_time: float | None = None

    @classmethod
    def of(cls, config: Config, command: str, *, resume: bool) -> Self:
        """From the last checkpoint; without ``resume`` there must be none."""
        with _telling():
            if resume:
                with warnings.catch_warnings(action="ignore"):  # the run says so again
                    last = config.checkpoints.latest()
                if last is None:
                    return cls()
                last_time = float(getattr(last.state, "last_time", math.nan))
                return cls(last.num_batches, None if math.isnan(last_time) else last_time)
            records = config.folder / RECORDS
            has_records = records.exists() and records.stat().st_size > 0
            if len(config.checkpoints) or (has_records and not config.checkpoints.has_begun):
                message = (
                    f"{config.folder} already holds a run; go on with {command} --resume, or choose another "
                    "[output] folder"
                )
                raise _Failed(WRONG, message)
            return cls()

    def records(self, config: Config) -> Iterator[StepRecord]:
        """Records of batches that were learned."""
        if self.num_batches and (config.folder / RECORDS).exists():
            for record in read_records(config.folder):
                if record.index >= self.num_batches:
                    return
                yield record


@final
class _Stream(Resumable):
    """Batches that end where the user says, or when a signal comes.

    Args:
        batches: The batches.
        until: Where to end, if the user says so.
        past: What was learned before.
    """

    def __init__(self, batches: SourceBatches, until: _Until | None, past: _Past) -> None:
        self._batches = batches
        self._until = until
        self._past = past
        self._stopped: str | None = None
        self.has_begun = False

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]  # TypeError if it is not known

    @property
    def definition(self) -> dict[str, Any]:
        return self._batches.definition

    @property
    def stopped(self) -> str | None:
        return self._stopped

    def stop(self, why: str) -> None:
        """End after the current batch."""
        self._stopped = why
        self._batches.stop(why)

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.after(None)

    def after(self, offset: Any) -> Iterator[StreamBatch]:
        self.has_begun = True
        num_batches = self._past.num_batches
        self._stop_if_reached(num_batches, self._past.last_time)
        if self._stopped is not None:
            return
        for batch in self._batches.after(offset):
            if self._stopped is not None:  # the batch is read again by whoever goes on
                return
            yield batch
            num_batches += 1
            self._stop_if_reached(num_batches, batch.time)
            if self._stopped is not None:
                return

    def commit(self, offset: Any) -> None:
        self._batches.commit(offset)

    def _stop_if_reached(self, num_batches: int, last_time: float | None) -> None:
        if self._until is not None and self._until.is_reached(num_batches, last_time):
            self.stop(f"--until {self._until.text}")


@contextlib.contextmanager
def _stopped_by_signals(stream: _Stream) -> Iterator[None]:
    """The first signal ends the stream after the current batch; a second SIGINT interrupts at once."""

    def handle(number: int, _: object) -> None:
        name = signal.Signals(number).name
        if stream.stopped in _SIGNALS and name == "SIGINT":
            raise KeyboardInterrupt
        stream.stop(name)

    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {name: signal.signal(getattr(signal, name), handle) for name in _SIGNALS}
    try:
        yield
    finally:
        for name, handler in before.items():
            signal.signal(getattr(signal, name), handler)


@final
class _Tally:
    """Counts what the records of a run say, and passes it on.

    Args:
        false_alarms: How many false alarms of a change per batch to allow.
    """

    def __init__(self, false_alarms: float) -> None:
        self._monitor = DriftMonitor(false_alarms=false_alarms)
        self._known: dict[tuple[str, int], str] = {}
        self.num_batches = 0
        self.num_new = 0
        self.rows = 0
        self.late_rows = 0
        self.remarks = {"rows left out": 0, "cells taken as missing": 0}

    @property
    def drift(self) -> Drift:
        """The changes so far."""
        return Drift(self._monitor.events, self.num_batches)

    def count(self, record: StepRecord) -> list[DriftEvent]:
        """The next record; changes that are new, or turn out to be of another kind."""
        self.num_batches += 1
        self.rows += record.num_rows
        self.late_rows += record.num_late
        for remark in record.remarks:
            found = _REMARK.match(remark)
            if found is not None:
                self.remarks[found[2]] += int(found[1])
        told = [
            event
            for event in self._monitor.take(record)
            if self._known.get((event.block, event.first)) != event.kind
        ]
        self._known |= {(event.block, event.first): event.kind for event in told}
        return told

    def tell(self, record: StepRecord, log: Log, metrics: Metrics | None) -> None:
        """The next record, which is new."""
        known = len(self._known)
        changes = self.count(record)
        self.num_new += 1
        num_changes = len(self._known)
        if metrics is not None:
            metrics.take(record, num_changes - known)
        log.batch(record, num_changes)
        for event in changes:
            log.say(
                "drift",
                event.sentence,
                block=event.block,
                kind=event.kind,
                first=event.first,
                last=event.last,
                label=event.label,
            )


@final
@dataclasses.dataclass(frozen=True)
class _Ended:
    """How a run has ended, and what was found."""

    stopped: str | None
    tally: _Tally
    seconds: float
    scores: Scores | None
    files: tuple[str, ...]

    @property
    def code(self) -> int:
        return _SIGNALS.get(self.stopped or "", 0)

    @property
    def is_stopped(self) -> bool:
        return self.stopped is not None

    @property
    def numbers(self) -> dict[str, Any]:
        """All of it, for a log."""
        tally = self.tally
        found = {} if self.scores is None else vars(self.scores)
        return {
            "batches": tally.num_batches,
            "new_batches": tally.num_new,
            "rows": tally.rows,
            "late_rows": tally.late_rows,
            "rows_left_out": tally.remarks["rows left out"],
            "cells_missing": tally.remarks["cells taken as missing"],
            "changes": len(tally.drift),
            "seconds": self.seconds,
            **found,
            "files": list(self.files),
        }


def _learned(
    config: Config, past: _Past, until: _Until | None, log: Log, *, resume: bool, dashboard: bool
) -> _Ended:
    """Learn the stream, and say how it has ended."""
    stream = _Stream(config.stream, until, past)
    tally = _Tally(config.false_alarms)
    started = time.monotonic()
    with _telling(stream), contextlib.ExitStack() as stack:
        metrics = None if config.port is None else stack.enter_context(Metrics(config.port))
        served: dict[str, Any] = {} if metrics is None else {"metrics": metrics.url}
        served |= {"dashboard": stack.enter_context(_live_page(config))} if dashboard else {}
        for record in past.records(config):
            tally.count(record)
        stack.enter_context(log)
        stack.enter_context(warnings_in(log))
        log.say("started", _opening(config, past, served), batches=past.num_batches, **served)
        with _stopped_by_signals(stream):
            done = _run(config, stream, tally, log, metrics, resume=resume)
        report = _report(config, stream)
        ended = _Ended(
            stopped=stream.stopped,
            tally=tally,
            seconds=time.monotonic() - started,
            scores=None if done is None else done.scores,
            files=tuple(map(str, (config.folder / RECORDS, config.place, *report))),
        )
        _say_end(log, ended)
    return ended


def _run(
    config: Config,
    stream: _Stream,
    tally: _Tally,
    log: Log,
    metrics: Metrics | None,
    *,
    resume: bool,
) -> Run | None:
    """Learn; ``None`` if the stream was stopped before its first batch."""
    try:
        return learn(
            config.learner,
            stream,
            **config.split,
            progress=False,
            record=config.folder,
            on_record=lambda record: tally.tell(record, log, metrics),
            checkpoint=config.checkpoints,
            resume=resume,
            schema=config.schema,
        )
    except ValueError:
        if stream.stopped is None or tally.num_batches:
            raise
        return None


def _report(config: Config, stream: _Stream) -> tuple[Path, ...]:
    """Write a report, if one is wanted; a program that is told to stop should stop."""
    records = config.folder / RECORDS
    if not config.report or stream.stopped in _SIGNALS or not records.stat().st_size:
        return ()
    from streambayes.reports import write_report

    path = config.folder / "report.html"
    return (write_report(config.folder, path, false_alarms=config.false_alarms),)


@contextlib.contextmanager
def _live_page(config: Config) -> Iterator[str]:
    """A live page of the run, for as long as it goes on; its address."""
    from streambayes.dashboard import Dashboard

    with Dashboard(config.folder, false_alarms=config.false_alarms) as page:
        yield page.url


def _opening(config: Config, past: _Past, served: dict[str, str]) -> str:
    begins = f"Going on after {past.num_batches} batches" if past.num_batches else "Beginning"
    learner = config.learner
    what = f"{type(learner.model).__name__} with {learner.forgetting.name}, from {_source(config)}"
    names = {"metrics": "metrics", "dashboard": "live page"}
    where = "".join(f"; {names[name]} at {url}" for name, url in served.items())
    return f"{begins}: {what}{where}"


def _say_end(log: Log, ended: _Ended) -> None:
    learned = f"{ended.tally.num_batches:,} batches, {ended.tally.rows:,} rows"
    if ended.is_stopped:
        message = f"Stopped ({ended.stopped}) after {learned}"
        log.say("stopped", message, why=ended.stopped, **ended.numbers)
    else:
        log.say("finished", f"Finished after {learned}", **ended.numbers)


def _show_summary(ended: _Ended) -> None:
    tally = ended.tally
    now = "" if tally.num_new == tally.num_batches else f", {tally.num_new:,} of them now"
    rows = [
        ("batches", f"{tally.num_batches:,}{now}, in {ended.seconds:.1f} s"),
        ("rows", f"{tally.rows:,}"),
        ("late rows", f"{tally.late_rows:,}" if tally.late_rows else ""),
        *((name, f"{number:,}" if number else "") for name, number in tally.remarks.items()),
        ("scores", _scores(ended.scores)),
        ("changes", str(tally.drift)),
    ]
    _print_table((name, text) for name, text in rows if text)
    typer.echo("\n".join(["Written:", *(f"  {file}" for file in ended.files)]))


def _scores(scores: Scores | None) -> str:
    known = {} if scores is None else vars(scores)
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.4f}"
        for name, value in known.items()
        if value is not None
    )


def _show_plan(config: Config, past: _Past, *, quiet: bool) -> None:
    """What a run would do; of files the first batch is read."""
    learner = config.learner
    num_blocks = sum(labels.size for labels in learner.model.labels().values())
    cut = ", ".join(f"{name} = {_short(value)}" for name, value in config.cut.items())
    split = ", ".join(
        f"{name} = {value}" for name, value in config.split.items() if value not in (None, 0.0)
    )
    rows = [
        ("model", type(learner.model).__name__),
        ("columns", _short([column.name for column in learner.model.columns])),
        ("blocks", f"{num_blocks:,}"),
        ("policy", learner.forgetting.name),
        ("source", _source(config)),
        ("batches", cut),
        ("first batch", _first_batch(config)),
        ("settings", split),
        ("goes on after", f"{past.num_batches:,} batches" if past.num_batches else ""),
        ("metrics", "" if config.port is None else f"127.0.0.1:{config.port}"),
    ]
    if quiet:
        return
    _print_table((name, text) for name, text in rows if text)
    report = [str(config.folder / "report.html")] if config.report else []
    files = [str(config.folder / RECORDS), config.place, *report]
    typer.echo("\n".join(["Would be written:", *(f"  {file}" for file in files)]))


def _first_batch(config: Config) -> str:
    """How many rows it has; that they fit the model is checked. Other sources than files are not touched."""
    if not isinstance(config.source, Files):
        return ""
    try:
        with _telling():
            batch = next(iter(config.stream), None)
            if batch is None:
                return "none: the files have no rows"
            columns = config.learner.model.columns
            passed = SchemaGuard(config.schema, columns).passed(batch, batch.columns)
            for column in columns:
                column.encode(passed.columns[column.name])
    except _Failed as error:
        message = f"{config.path}: the first batch: {error}"
        raise _Failed(WRONG, message) from None
    num_rows = len(next(iter(batch.columns.values())))
    return f"{num_rows:,} rows" if batch.label is None else f"{num_rows:,} rows ({batch.label})"


def _source(config: Config) -> str:
    source = config.source
    if not isinstance(source, Files):
        return repr(source)
    more = len(source.paths) - 1
    return f"{source.paths[0]}{f' and {more:,} more files' if more else ''}"


def _short(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    more = f", and {len(value) - _NAMED:,} more" if len(value) > _NAMED else ""
    return f"{', '.join(map(str, value[:_NAMED]))}{more}"


def _print_table(rows: Iterable[tuple[str, str]]) -> None:
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text))
    Console().print(table)
