"""Folder: the rows of files that keep arriving in a folder."""

import fnmatch
import os
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from streambayes.sources._files import CsvFormat, import_arrow, is_readable, read_file
from streambayes.sources._source import Chunk, Source
from streambayes.sources._text import Types

__all__ = ["Folder"]


@final
class Folder(Source):
    """The rows of files that keep arriving, in order of the files' names; it waits for more.

    Files should be moved into the folder when they are complete, with names that go up, such as dates. A file whose
    name comes before one that was read is not read, and a warning says so; what is added to the last file that was
    read is read, too. Names that begin with a dot are left
    out, and so are names that are not those of CSV, Parquet or Arrow files.

    Args:
        folder: The folder; it may be made later.
        pattern: Which of its files.
        settle: Seconds for which a file must not have changed before it is read, by the clock of this machine.
        poll: Seconds between looks into the folder.
        end: Name of a file that says that no more files come, such as ``"_SUCCESS"``; without it the stream never
            ends by itself.
        separator: What separates the cells of CSV files; by default it is told by the first lines of each.
        decimal: What separates whole numbers and fractions in them, ``"."`` or ``","``; by default it is told likewise.
        types: Columns of CSV files that are ``"number"`` or ``"text"``.
        missing: What stands for a missing cell in CSV files, besides an empty one, NA, NaN and null.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        pattern: str = "*",
        settle: float = 1.0,
        poll: float = 1.0,
        end: str | None = None,
        separator: str | None = None,
        decimal: str | None = None,
        types: Mapping[str, str] | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        import_arrow()
        self._folder = Path(folder)
        if self._folder.exists() and not self._folder.is_dir():
            message = f"Folder: {folder} is a file; give its name to sb.batches"
            raise ValueError(message)
        if not 0 <= settle < float("inf"):
            message = f"Folder: settle must be a number of seconds of at least 0, got {settle!r}"
            raise ValueError(message)
        if not 0 < poll < float("inf"):
            message = f"Folder: poll must be a positive number of seconds, got {poll!r}"
            raise ValueError(message)
        self._pattern = pattern
        self._settle = settle
        self._poll = poll
        self._end = end
        self._format = CsvFormat(separator, types, missing, decimal)

    def __repr__(self) -> str:
        return f"Folder({str(self._folder)!r}, pattern={self._pattern!r})"

    def read(self, start: Any, columns: list[str] | None) -> Iterator[Chunk | None]:
        last, row, told, num_files = ("", 0, {}, 0) if start is None else self._place(start)
        types = Types(self._format.types, told)
        is_begun = start is not None
        seen: set[str] | None = None
        size, is_whole = -1, True
        watched: dict[str, tuple[Any, float]] = {}
        while True:
            is_over = self._end is not None and (self._folder / self._end).exists()
            names = self._names()
            before = sorted(name for name in names if name <= last)
            if seen is not None:
                _warn_of_late([name for name in before if name not in seen])
            elif len(before) > num_files:  # of a run that was stopped meanwhile
                _warn_of_late([f"{len(before) - num_files} of {before[0]} to {before[-1]}"])
            seen = names
            if size >= 0 and self._has_grown(last, row, size, is_whole=is_whole):
                is_begun, size = True, -1
            # the one in which a run stopped may have rows that were not read
            coming = sorted(name for name in names if name > last or (name == last and is_begun))
            ready = self._ready(coming, watched, is_over=is_over)
            for name in ready:
                row = row if name == last else 0
                num_files += name != last
                last, is_begun = name, False
                path = self._folder / name
                size, is_whole = path.stat().st_size, _is_whole(path)
                place = {"file": name, "number": num_files}
                for chunk in read_file(path, place, row, columns, self._format, types):
                    yield chunk
                    row = chunk.first_row + chunk.num_rows
            if ready:
                continue
            if is_over and not coming:
                return
            yield from self._wait()

    def _place(self, start: Any) -> tuple[str, int, dict[str, str], int]:
        """The file to go on with, how many of its rows were read, what columns hold, and how many files have come."""
        last, row = start["file"], int(start["row"])
        if not (self._folder / last).exists():
            message = f"the run stopped in {self._folder / last} after {row} rows; it is gone: put it back"
            raise FileNotFoundError(message)
        return last, row, start["types"], int(start["number"])

    def _names(self) -> set[str]:
        if not self._folder.is_dir():
            return set()
        return {
            path.name
            for path in self._folder.iterdir()
            if fnmatch.fnmatchcase(path.name, self._pattern)
            and not path.name.startswith(".")
            and path.name != self._end
            and is_readable(path)
            and path.is_file()
        }

    def _ready(
        self, names: list[str], watched: dict[str, tuple[Any, float]], *, is_over: bool
    ) -> list[str]:
        """Files that have not changed for a while; none after one that has, or order would be lost.

        What changes is watched from look to look, since the clock of a file's server may be another than ours.

        Args:
            names: Files, in order.
            watched: What they were like and since when, by name; it is brought up to date.
            is_over: Whether no more files come.
        """
        now = time.monotonic()
        before = dict(watched)
        watched.clear()
        for name in names:
            found = (self._folder / name).stat()
            like = (found.st_size, found.st_mtime_ns)
            was, since = before.get(name, (None, now))
            watched[name] = (like, since if was == like else now)
        unsettled = (name for name in names if now - watched[name][1] < self._settle)
        first = None if is_over else next(unsettled, None)
        return names if first is None else names[: names.index(first)]

    def _has_grown(self, name: str, row: int, size: int, *, is_whole: bool) -> bool:
        """Whether rows were added to a file that was read to its end."""
        path = self._folder / name
        if not path.exists() or path.stat().st_size == size:
            return False
        if not is_whole:
            message = f"{path} was read while row {row - 1} was being written; raise settle, or move complete files into the folder"
            raise ValueError(message)
        warnings.warn(
            f"{path} has changed after it was read; what was added is read now", stacklevel=3
        )
        return True

    def _wait(self) -> Iterator[None]:
        until = time.monotonic() + self._poll
        while (left := until - time.monotonic()) > 0:
            yield None
            time.sleep(min(left, 1.0))


def _is_whole(path: Path) -> bool:
    """Whether the last line of a CSV file has an end, as far as that can be seen."""
    if not path.name.lower().endswith((".csv", ".tsv")) or not path.stat().st_size:
        return True
    with path.open("rb") as file:
        file.seek(-1, os.SEEK_END)
        return file.read() in (b"\n", b"\r")


def _warn_of_late(names: list[str]) -> None:
    if names:
        message = (
            f"{', '.join(names)} came after a file with a later name was read, and is left out; names of files "
            "must go up"
        )
        warnings.warn(message, stacklevel=3)
