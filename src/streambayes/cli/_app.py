"""The commands."""

import contextlib
from pathlib import Path
from typing import Annotated

import typer

from streambayes import __version__
from streambayes.cli._compare import compare
from streambayes.cli._contest import show_contest
from streambayes.cli._failure import EXIT_CODES
from streambayes.cli._init import init
from streambayes.cli._output import Output, Quiet, writing_into
from streambayes.cli._reproduce import reproduce
from streambayes.cli._run import run
from streambayes.cli._see import report, serving, watch

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
    from streambayes.experiments._demo import demonstrate

    with (
        writing_into(output),
        serving(output / "runs") if dashboard else contextlib.nullcontext(),
    ):
        show_contest(lambda advance: demonstrate(output, advance=advance), quiet=quiet)


app.command(
    help="Every way to forget, on streams that drift in known ways and on real ones.\n\n"
    "Generated streams (stationary, abrupt, frequent, gradual, walk, recurring, bursts) of draws, values and "
    "regressions in batches of 1 to 1000 rows, five seeds each; Electricity, Minneapolis stops with "
    "streambayes\\[data], Lending Club with --loans. Takes about 20 minutes on two cores; --quick is much shorter. "
    "Writes summary.csv (regret against the best fixed policy), cells.csv (every stream), recovery.csv, "
    "partial.csv (which columns drift), cost.csv, real.csv and figures (PNG and SVG).",
    epilog="Examples:\n\n"
    "[cyan]streambayes compare --quick --output comparison[/cyan]\n\n"
    "[cyan]streambayes compare --new-kinds -o other-streams[/cyan]",
)(compare)


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
app.command(
    help="Write a configuration for streambayes run, by a look at the data.\n\n"
    "Looks at CSV, Parquet or Arrow files, chooses a model, columns and a period that fit, and writes a file with comments "
    "that say what each column is taken as, and explain every section. Read it and change what you know better.",
    epilog="Examples:\n\n[cyan]streambayes init trips.csv[/cyan]\n\n"
    "[cyan]streambayes init flights.csv --response arr_delay --regressors dep_delay,distance[/cyan]\n\n"
    "[cyan]streambayes init 'trips/*.parquet' -o trips.toml --model GaussianMixture[/cyan]",
)(init)
app.command(
    help="Learn a stream as a configuration says, for as long as it lasts.\n\n"
    "Rows come from files, a folder, Redis or Kafka. After every batch its record and the state are on the disk, so "
    "that a run that was stopped, or killed, goes on with --resume as if nothing had happened. SIGTERM and Ctrl-C end it "
    "cleanly after the current batch, a second Ctrl-C at once.\n\n" + EXIT_CODES,
    epilog="Examples:\n\n[cyan]streambayes run stream.toml --dry-run[/cyan]\n\n"
    "[cyan]streambayes run stream.toml --dashboard[/cyan]\n\n"
    "[cyan]streambayes run stream.toml --resume --log json[/cyan]",
)(run)


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
