"""The folder that a command writes into, and its errors as one sentence."""

import contextlib
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import typer

__all__ = ["Form", "Output", "OutputError", "Quiet", "prepare", "saying_errors", "writing_into"]

Output = Annotated[
    Path, typer.Option("--output", "-o", help="Folder to write into; made if it is not there.")
]
Form = Literal["text", "json"]
"""Of what a run says while it goes on."""
Quiet = Annotated[bool, typer.Option("--quiet", "-q", help="Write the files and print nothing.")]


class OutputError(Exception):
    """A folder cannot be written into; the message says why in one sentence."""


@contextlib.contextmanager
def writing_into(folder: Path) -> Iterator[None]:
    """Make the folder; what goes wrong is said in one sentence and ends the command.

    A folder that was made for nothing is taken away.
    """
    there = folder.exists()
    with saying_errors(folder):
        prepare(folder)
        try:
            yield
        except BaseException:
            if not there and not any(folder.iterdir()):
                folder.rmdir()
            raise


@contextlib.contextmanager
def saying_errors(path: Path) -> Iterator[None]:
    """What goes wrong with a file or a folder is said in one sentence and ends the command."""
    try:
        yield
    except (OutputError, ImportError, ValueError, TypeError) as error:
        typer.echo(f"Error: {error}", err=True)
        raise typer.Exit(2) from None
    except OSError as error:
        sentence = str(error)
        if error.strerror is not None:  # the system's, not one of our own
            where = error.filename or path
            sentence = f"{where} cannot be read or written ({error.strerror.lower()})."
        typer.echo(f"Error: {sentence}", err=True)
        raise typer.Exit(2) from None


def prepare(folder: Path) -> None:
    """Make the folder and see that files can be written there, before anything is computed."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except (FileExistsError, NotADirectoryError):
        message = f"--output must be a folder, but {_obstacle(folder)} is a file."
        raise OutputError(message) from None
    except OSError as error:
        reason = error.strerror or type(error).__name__
        message = f"--output: cannot write into {folder} ({reason.lower()})."
        raise OutputError(message) from None


def _obstacle(folder: Path) -> Path:
    """The nearest part of the path that exists."""
    return next((path for path in (folder, *folder.parents) if path.exists()), folder)
