"""The folder that a command writes into."""

import tempfile
from pathlib import Path

__all__ = ["OutputError", "prepare"]


class OutputError(Exception):
    """A folder cannot be written into; the message says why in one sentence."""


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
