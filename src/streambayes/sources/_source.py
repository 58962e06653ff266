"""Source: rows that come one after the other, with places in them from which to go on."""

import abc
import contextlib
import dataclasses
from collections.abc import Callable, Iterator
from typing import Any, final

import numpy as np

__all__ = ["Chunk", "Source", "where_rows_are"]


@final
@dataclasses.dataclass(frozen=True)
class Chunk:
    """Some rows of a source, in order.

    Attributes:
        columns: Arrays of equal length by name.
        offset: Where the source stands after so many of these rows, from none to all, as JSON has it.
        name: Where the rows are from, for messages.
        first_row: Number of the first of them there.
    """

    columns: dict[str, np.ndarray]
    offset: Callable[[int], Any]
    name: str
    first_row: int = 0

    @property
    def num_rows(self) -> int:
        """How many rows there are."""
        return len(next(iter(self.columns.values()))) if self.columns else 0


@contextlib.contextmanager
def where_rows_are(chunk: Chunk) -> Iterator[None]:
    """What is wrong with rows is said with where they are."""
    try:
        yield
    except ValueError as error:
        error.add_note(f"in {chunk.name}, rows from {chunk.first_row} on")
        raise


class Source(abc.ABC):
    """Rows from files, a folder, a server: what ``sb.batches`` cuts into batches.

    How rows are put together in chunks must not matter, since a source that is read again may cut them in
    other places; their order must be the same.
    """

    @abc.abstractmethod
    def read(self, start: Any, columns: list[str] | None) -> Iterator[Chunk | None]:
        """The rows after an offset, from the first one on for ``None``.

        A source that waits for rows yields ``None`` every second or so, so that reading can be stopped. All rows
        of a chunk have the same columns.

        Args:
            start: An offset of a chunk.
            columns: The columns that are wanted; all of them for ``None``. Those that are not there are left out.
        """

    def commit(self, offset: Any) -> None:  # noqa: B027  # most sources need not know
        """All rows up to the offset are learned, and that is saved: they are not read again."""
