"""The commands."""

from typing import Annotated

import typer

from streambayes import __version__
from streambayes.cli._reproduce import reproduce

__all__ = ["app"]

app = typer.Typer(
    name="streambayes",
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode="rich",
    pretty_exceptions_enable=False,
)
app.add_typer(reproduce, name="reproduce")


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"streambayes {__version__}")
        raise typer.Exit


@app.callback(epilog="Example: [cyan]streambayes reproduce artificial --output artificial[/cyan]")
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
