"""streambayes reproduce: the paper's experiments."""

from pathlib import Path
from typing import Annotated

import typer

from streambayes.cli._artificial import reproduce_artificial
from streambayes.cli._output import OutputError, prepare

__all__ = ["reproduce"]

reproduce = typer.Typer(
    name="reproduce",
    help="Reproduce an experiment of the paper, with its numbers and figures.",
    no_args_is_help=True,
    rich_markup_mode="rich",
    epilog="Example: [cyan]streambayes reproduce artificial --output artificial[/cyan]",
)


@reproduce.callback()
def experiments() -> None:
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
    output: Annotated[
        Path,
        typer.Option("--output", "-o", help="Folder to write into; made if it is not there."),
    ],
    seed: Annotated[
        int | None,
        typer.Option(
            "--seed",
            min=0,
            help="Draw both streams anew with this seed, instead of the counts of the authors' run "
            "for batches of 100.",
        ),
    ] = None,
    quiet: Annotated[
        bool, typer.Option("--quiet", "-q", help="Write the files and print nothing.")
    ] = False,
) -> None:
    """The artificial experiment."""
    try:
        prepare(output)
        reproduce_artificial(output, seed=seed, quiet=quiet)
    except (OutputError, ImportError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        typer.echo(f"Error: could not write into {output} ({error.strerror}).", err=True)
        raise typer.Exit(2) from None
