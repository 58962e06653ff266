"""A bar on standard error while an experiment runs."""

import contextlib
from collections.abc import Iterator
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from streambayes.experiments._contest import Advance

__all__ = ["bar"]


@contextlib.contextmanager
def bar(*, quiet: bool) -> "Iterator[Advance]":
    """A function to call with what is being done, how much is done and how much there is."""
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn

    errors = Console(stderr=True)
    with Progress(
        TextColumn("{task.percentage:3.0f} %"),
        BarColumn(),
        TimeElapsedColumn(),
        TextColumn("{task.description}"),
        console=errors,
        disable=quiet or not errors.is_terminal,
        transient=True,
    ) as progress:
        task = progress.add_task("starting", total=None)
        yield lambda doing, done, total: progress.update(
            task, description=doing, completed=done, total=total
        )
