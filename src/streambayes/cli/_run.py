"""streambayes run: learn a stream as a configuration says, until it ends or is told to stop."""

import contextlib
import shlex
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

import typer

from streambayes.cli._config import Config, read_config
from streambayes.cli._failure import WRONG, Failed, telling
from streambayes.cli._live import LiveStream, Past, Until, stopped_by_signals
from streambayes.cli._log import Log, log_of, warnings_in
from streambayes.cli._metrics import Metrics
from streambayes.cli._output import Form
from streambayes.cli._signals import SIGNALS, left_by_signals, wait_for_a_signal
from streambayes.cli._summary import Ended, Tally, show_plan, show_summary, source_of
from streambayes.learning import Run
from streambayes.learning import run as learn
from streambayes.learning._record import RECORDS

if TYPE_CHECKING:
    from streambayes.dashboard import Dashboard

__all__ = ["run"]


def run(
    config: Path,
    *,
    resume: bool,
    dry_run: bool,
    until: str | None,
    dashboard: bool,
    ends: bool,
    log: Form | None,
    quiet: bool,
) -> None:
    """Learn the stream and end with the code that says how it went, or say what would be done."""
    said = log_of(log, quiet=quiet)
    command = f"streambayes run {shlex.quote(str(config))}"
    try:
        with telling(), left_by_signals():
            read = read_config(config)
            goal = None if until is None else Until.of(until, read)
            past = Past.of(read, command, resume=resume)
        if dry_run:
            with warnings_in(said):
                show_plan(read, past, quiet=quiet)
            return
        with contextlib.ExitStack() as stack:
            page = None
            if dashboard:
                with telling():
                    page = stack.enter_context(_live_page(read))
            ended = _learned(read, past, goal, said, resume=resume, page=page)
            shows = not quiet and log != "json"
            if shows:
                show_summary(ended)
            if ended.is_stopped and shows:
                typer.echo(f"Go on with: {command} --resume", err=True)
            if page is not None and not ended.code:
                _serve_on(page, said, ends=ends)
    except Failed as error:
        _end(said, error, command)
    raise typer.Exit(ended.code)


def _serve_on(page: "Dashboard", log: Log, *, ends: bool) -> None:
    """Show the end of a run to those who look, and let them look on."""
    if ends:
        page.wait_until_seen()
        return
    log.say("serving", f"{page.url} is served until you press Ctrl-C.", dashboard=page.url)
    wait_for_a_signal()


def _end(log: Log, error: Failed, command: str) -> NoReturn:
    go_on = None if error.code == WRONG else f"{command} --resume"
    log.say("error", str(error), level="error", code=error.code, go_on=go_on)
    if go_on is not None and not log.is_json:
        typer.echo(f"Go on with: {go_on}", err=True)
    raise typer.Exit(error.code) from None


def _learned(
    config: Config,
    past: Past,
    until: Until | None,
    log: Log,
    *,
    resume: bool,
    page: "Dashboard | None",
) -> Ended:
    """Learn the stream, and say how it has ended."""
    stream = LiveStream(config.stream, until, past)
    tally = Tally(**config.drift)
    started = time.monotonic()
    with telling(lambda: stream.has_begun), contextlib.ExitStack() as stack:
        # first: an exception out of a signal is lost where it comes into what Python calls by itself
        stack.enter_context(stopped_by_signals(stream))
        metrics = None if config.port is None else stack.enter_context(Metrics(config.port))
        served: dict[str, Any] = {} if metrics is None else {"metrics": metrics.url}
        served |= {} if page is None else {"dashboard": page.url}
        for record in past.records(config):
            tally.count(record)
        stack.enter_context(log)
        stack.enter_context(warnings_in(log))
        log.say("started", _opening(config, past, served), batches=past.num_batches, **served)
        done = _run(config, stream, tally, log, metrics, resume=resume)
        report = _report(config, stream)
        ended = Ended(
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
    stream: LiveStream,
    tally: Tally,
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


def _report(config: Config, stream: LiveStream) -> tuple[Path, ...]:
    """Write a report, if one is wanted; a program that is told to stop should stop."""
    records = config.folder / RECORDS
    if not config.report or stream.stopped in SIGNALS or not records.stat().st_size:
        return ()
    from streambayes.reports import write_report

    path = config.folder / "report.html"
    return (write_report(config.folder, path, **config.drift),)


def _live_page(config: Config) -> "Dashboard":
    from streambayes.dashboard import Dashboard

    return Dashboard(config.folder, **config.drift)


def _opening(config: Config, past: Past, served: dict[str, str]) -> str:
    begins = f"Going on after {past.num_batches} batches" if past.num_batches else "Beginning"
    learner = config.learner
    what = (
        f"{type(learner.model).__name__} with {learner.forgetting.name}, from {source_of(config)}"
    )
    names = {"metrics": "metrics", "dashboard": "live page"}
    where = "".join(f"; {names[name]} at {url}" for name, url in served.items())
    return f"{begins}: {what}{where}"


def _say_end(log: Log, ended: Ended) -> None:
    learned = f"{ended.tally.num_batches:,} batches, {ended.tally.rows:,} rows"
    if ended.is_stopped:
        message = f"Stopped ({ended.stopped}) after {learned}"
        log.say("stopped", message, why=ended.stopped, **ended.numbers)
    else:
        log.say("finished", f"Finished after {learned}", **ended.numbers)
    if ended.late is not None:
        log.say("error", ended.late, level="error", code=ended.code, go_on=None)
