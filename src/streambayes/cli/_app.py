"""The commands: what they take. What they do is imported when one is called, so that help is there at once."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from streambayes import __version__
from streambayes._core.proposed import ProposedModel
from streambayes.cli._failure import EXIT_CODES
from streambayes.cli._output import Form, Output, Quiet, writing_into
from streambayes.cli._reproduce import reproduce
from streambayes.cli._see import report, serving, watch
from streambayes.cli._signals import left_by_signals

__all__ = ["app"]

app = typer.Typer(
    name="streambayes",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(reproduce, name="reproduce")


@app.command(
    help="Learn a real stream with five ways to forget, in about a minute.\n\n"
    "Electricity in New South Wales, 1996 to 1998, month by month: a market that is joined with another "
    "after a year. The data comes with the library. Writes report.html, tables and figures, and in runs what "
    "[cyan]streambayes report[/cyan] and [cyan]streambayes watch[/cyan] read.",
    epilog="Examples:\n\n[cyan]streambayes demo[/cyan]\n\n[cyan]streambayes demo --dashboard[/cyan]",
)
def demo(
    output: Output = Path("streambayes-demo"),
    dashboard: Annotated[
        bool,
        typer.Option(
            "--dashboard", help="Serve a live page meanwhile, and until you press Ctrl-C."
        ),
    ] = False,
    quiet: Quiet = False,
) -> None:
    """The demonstration."""
    with left_by_signals():
        from streambayes.cli._contest import show_contest
        from streambayes.experiments._demo import demonstrate

    with (
        writing_into(output),
        serving(output / "runs") if dashboard else contextlib.nullcontext(),
    ):
        show_contest(lambda advance: demonstrate(output, advance=advance), quiet=quiet)


@app.command(
    help="Every way to forget, on streams that drift in known ways and on real ones.\n\n"
    "Generated streams (stationary, abrupt, frequent, gradual, walk, recurring, bursts) of draws, values and "
    "regressions in batches of 1 to 1000 rows, five seeds each; Electricity, Minneapolis stops with "
    "streambayes\\[data], Lending Club with --loans. Takes about 20 minutes on two cores; --quick is much shorter. "
    "Writes summary.csv (regret against the best fixed policy), cells.csv (every stream), recovery.csv, "
    "partial.csv (which columns drift), cost.csv, real.csv and figures (PNG and SVG).",
    epilog="Examples:\n\n"
    "[cyan]streambayes compare --quick --output comparison[/cyan]\n\n"
    "[cyan]streambayes compare --new-kinds -o other-streams[/cyan]",
)
def compare(
    output: Output,
    quick: Annotated[
        bool,
        typer.Option("--quick", help="Two seeds, batches of 100 and 1000, no real streams."),
    ] = False,
    new_kinds: Annotated[
        bool,
        typer.Option(
            "--new-kinds",
            help="Four other kinds of generated streams, on which nothing was chosen.",
        ),
    ] = False,
    loans: Annotated[
        Path | None,
        typer.Option("--loans", help="Lending Club's file of loans, to be learned too."),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """The comparison."""
    with left_by_signals():
        from streambayes.cli._compare import compare as compared

    compared(output, quick=quick, new_kinds=new_kinds, loans=loans, quiet=quiet)


app.command(
    help="Write a report of a run: one file with the story in words, figures and tables.\n\n"
    "The file needs no network and opens in any browser, on a phone and in print too. A folder of several runs "
    "gives one report that compares them.",
    epilog="Examples:\n\n[cyan]streambayes report runs/sensor -o sensor.html[/cyan]\n\n"
    "[cyan]streambayes report streambayes-demo/runs --title Electricity[/cyan]",
)(report)
app.command(
    help="Serve a live page of a run, while it goes on or afterwards.\n\n"
    "Progress, scores, what was kept of the past, changes as they happen; choose a block to see what is believed "
    "of it. With a folder of many runs, search and pick one. The page is served to this machine alone; to serve "
    "it to others, give --host and a token.",
    epilog="Examples:\n\n[cyan]streambayes watch runs/sensor[/cyan]\n\n"
    "[cyan]STREAMBAYES_TOKEN=a-long-secret streambayes watch runs --host 0.0.0.0[/cyan]",
)(watch)


@app.command(
    help="Write a configuration for streambayes run, by a look at the data.\n\n"
    "Looks at CSV, Parquet or Arrow files, chooses a model, columns and a period that fit, and writes a file with comments "
    "that say what each column is taken as, and explain every section. Read it and change what you know better.",
    epilog="Examples:\n\n[cyan]streambayes init trips.csv[/cyan]\n\n"
    "[cyan]streambayes init flights.csv --response arr_delay --regressors dep_delay,distance[/cyan]\n\n"
    "[cyan]streambayes init 'trips/*.parquet' -o trips.toml --model GaussianMixture[/cyan]",
)
def init(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="CSV, Parquet or Arrow file, or a pattern such as 'trips/*.csv'."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; one that is there is left alone.")
    ] = Path("stream.toml"),
    response: Annotated[
        str | None,
        typer.Option(
            "--response",
            metavar="COLUMN",
            help="Column to predict: a regression, or a classifier if it is one of categories.",
        ),
    ] = None,
    regressors: Annotated[
        str | None,
        typer.Option(
            "--regressors",
            metavar="COLUMN,...",
            help="Columns to predict it from; by default all that fit.",
        ),
    ] = None,
    model: Annotated[
        ProposedModel | None,
        typer.Option("--model", help="Which model, without --response; by default one that fits."),
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            "--separator", help="What separates cells of CSV files; by default it is told."
        ),
    ] = None,
) -> None:
    """The configuration."""
    with left_by_signals():
        from streambayes.cli._init import init as written

    written(
        data,
        output,
        response=response,
        regressors=regressors,
        model=model,
        separator=separator,
    )


@app.command(
    help="Learn a stream as a configuration says, for as long as it lasts.\n\n"
    "Rows come from files, a folder, Redis or Kafka. After every batch its record and the state are on the disk, so "
    "that a run that was stopped, or killed, goes on with --resume as if nothing had happened. SIGTERM and Ctrl-C end it "
    "cleanly after the current batch, a second Ctrl-C at once.\n\n" + EXIT_CODES,
    epilog="Examples:\n\n[cyan]streambayes run stream.toml --dry-run[/cyan]\n\n"
    "[cyan]streambayes run stream.toml --dashboard[/cyan]\n\n"
    "[cyan]streambayes run stream.toml --resume --log json[/cyan]",
)
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
        bool,
        typer.Option(
            "--dashboard", help="Serve a live page meanwhile, and until you press Ctrl-C."
        ),
    ] = False,
    ends: Annotated[
        bool,
        typer.Option(
            "--exit",
            help="With --dashboard: end with the run, as soon as all who look at the page have seen its end.",
        ),
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
    with left_by_signals():
        from streambayes.cli._run import run as learned

    learned(
        config,
        resume=resume,
        dry_run=dry_run,
        until=until,
        dashboard=dashboard,
        ends=ends,
        log=log,
        quiet=quiet,
    )


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streambayes {__version__}")
        raise typer.Exit


@app.callback(
    epilog="Examples:\n\n[cyan]streambayes demo[/cyan]\n\n"
    "[cyan]streambayes init trips.csv[/cyan]\n\n"
    "[cyan]streambayes run stream.toml[/cyan]\n\n"
    "[cyan]streambayes reproduce artificial --output artificial[/cyan]"
)
def streambayes(
    version: Annotated[
        bool,
        typer.Option(
            "--version", help="Print the version.", callback=_print_version, is_eager=True
        ),
    ] = False,
) -> None:
    """Bayesian models of data streams that know what to forget."""
    del version
