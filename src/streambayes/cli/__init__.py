"""The command ``streambayes``."""

import sys

from streambayes.cli._signals import left_by_signals

__all__ = ["main"]


def main() -> None:
    """Run the command with the arguments it was given."""
    try:
        with left_by_signals():
            from streambayes.cli._app import app
    except ModuleNotFoundError as error:
        if (error.name or "").partition(".")[0] not in {"typer", "rich", "click"}:
            raise
        sys.exit(
            f"The command streambayes needs {error.name}, which comes with an extra: "
            "pip install 'streambayes[cli]'"
        )
    app()
