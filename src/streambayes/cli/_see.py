"""streambayes report and streambayes watch: a run in words and figures, afterwards or live."""

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from streambayes.cli._output import Quiet, saying_errors
from streambayes.cli._progress import bar
from streambayes.cli._signals import left_by_signals, wait_for_a_signal

__all__ = ["report", "serving", "watch"]

Run = Annotated[
    Path,
    typer.Argument(
        metavar="RUN",
        help="Folder that run(..., record=FOLDER) writes to, or a folder of such folders.",
    ),
]
FalseAlarms = Annotated[
    float,
    typer.Option("--false-alarms", help="How many false alarms of a change per batch to allow."),
]


def report(
    run: Run,
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; what is there is replaced.")
    ] = Path("report.html"),
    title: Annotated[str | None, typer.Option("--title", help="What the report is called.")] = None,
    false_alarms: FalseAlarms = 0.01,
    quiet: Quiet = False,
) -> None:
    """The report."""
    with left_by_signals():
        from streambayes.reports import write_report

    with saying_errors(output), bar(quiet=quiet) as advance:
        write_report(
            run,
            output,
            title=title,
            false_alarms=false_alarms,
            on_progress=lambda name, share: advance(f"reading {name}", round(1000 * share), 1000),
        )
    if not quiet:
        typer.echo(f"Written: {output}")


def watch(
    run: Run,
    host: Annotated[
        str,
        typer.Option("--host", help="Address to listen on; others than 127.0.0.1 need a token."),
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(
            "--port", "-p", help="Port; by default 8350, or a free one where that is taken."
        ),
    ] = None,
    token: Annotated[
        str | None,
        typer.Option(
            "--token",
            envvar="STREAMBAYES_TOKEN",
            help="What visitors have to give, 8 letters or more.",
        ),
    ] = None,
    false_alarms: FalseAlarms = 0.01,
) -> None:
    """The live page."""
    with saying_errors(run):
        with left_by_signals():
            from streambayes.dashboard import Dashboard

        page = Dashboard(run, host=host, port=port, token=token, false_alarms=false_alarms)
        typer.echo(f"{page.url}  (Ctrl-C ends it)")
        if not run.exists():
            typer.echo(f"{run} is not there yet; the page waits for its first batch.")
        page.serve()


@contextlib.contextmanager
def serving(folder: Path) -> Iterator[None]:
    """A live page of runs that a command learns, meanwhile and until the command is interrupted."""
    with left_by_signals():
        from streambayes.dashboard import Dashboard

    with Dashboard(folder) as page:
        typer.echo(f"{page.url}  (the live page)")
        yield
        typer.echo(f"{page.url} is served until you press Ctrl-C.")
        wait_for_a_signal()
