"""The command ``streambayes``."""

import os
import signal
import sys

__all__ = ["leave", "main"]


def leave(number: int, _: object) -> None:
    """End at once, when a signal comes before there is anything to end cleanly."""
    os._exit(128 + number)


def main() -> None:
    """Run the command with the arguments it was given."""
    before = signal.getsignal(signal.SIGINT)
    if before != signal.SIG_IGN:  # libraries would swallow it while they are imported
        signal.signal(signal.SIGINT, leave)
    try:
        from streambayes.cli._app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich", "click"}:
            raise
        sys.exit(
            f"The command streambayes needs {error.name}, which comes with an extra: "
            "pip install 'streambayes[cli]'"
        )
    signal.signal(signal.SIGINT, before)
    app()
