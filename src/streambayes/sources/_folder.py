"""Folder: the rows of files that keep arriving in a folder."""

import fnmatch
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
    name comes before one that was read is not read, and a warning says so. Names that begin with a dot are left
    out, and so are names that are not those of CSV, Parquet or Arrow files.

    Args:
        folder: The folder; it may be made later.
        pattern: Which of its files.
        settle: Seconds for which a file must not have changed before it is read.
        poll: Seconds between looks into the folder.
        end: Name of a file that says that no more files come, such as ``"_SUCCESS"``; without it the stream never
            ends by itself.
        separator: What separates the cells of CSV files.
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
        self._format = CsvFormat(separator, types, missing)

    def __repr__(self) -> str:
        return f"Folder({str(self._folder)!r}, pattern={self._pattern!r})"

    def read(self, start: Any, columns: list[str] | None) -> Iterator[Chunk | None]:
        last, row, told, num_files = "", 0, {}, 0
        if start is not None:
            last, row, told = start["file"], int(start["row"]), start["types"]
            num_files = int(start["number"])
            if not (self._folder / last).exists():
                message = f"the run stopped in {self._folder / last} after {row} rows; it is gone: put it back"
                raise FileNotFoundError(message)
        types = Types(self._format.types, told)
        is_begun = start is not None
        seen: set[str] | None = None
        size = -1
        while True:
            is_over = self._end is not None and (self._folder / self._end).exists()
            names = self._names()
            before = sorted(name for name in names if name <= last)
            if seen is not None:
                _warn_of_late([name for name in before if name not in seen])
            elif len(before) > num_files:  # of a run that was stopped meanwhile
                _warn_of_late([f"{len(before) - num_files} of {before[0]} to {before[-1]}"])
            seen = names
            if size >= 0:
                self._warn_of_growth(last, size)
            # the one in which a run stopped may have rows that were not read
            coming = sorted(name for name in names if name > last or (name == last and is_begun))
            ready = self._ready(coming, is_over=is_over)
            for name in ready:
                first = row if name == last else 0
                num_files += name != last
                last, is_begun = name, False
                path = self._folder / name
                size = path.stat().st_size
                place = {"file": name, "number": num_files}
                yield from read_file(path, place, first, columns, self._format, types)
            if ready:
                continue
            if is_over and not coming:
                return
            yield from self._wait()

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

    def _ready(self, names: list[str], *, is_over: bool) -> list[str]:
        """Files that have not changed for a while; none after one that has, or order would be lost."""
        ready = []
        for name in names:
            age = time.time() - (self._folder / name).stat().st_mtime
            if 0 <= age < self._settle and not is_over:
                break
            ready.append(name)
        return ready

    def _warn_of_growth(self, name: str, size: int) -> None:
        path = self._folder / name
        if path.exists() and path.stat().st_size != size:
            message = f"{path} has changed after it was read; what was added is left out"
            warnings.warn(message, stacklevel=3)

    def _wait(self) -> Iterator[None]:
        until = time.monotonic() + self._poll
        while (left := until - time.monotonic()) > 0:
            yield None
            time.sleep(min(left, 1.0))


def _warn_of_late(names: list[str]) -> None:
    if names:
        message = (
            f"{', '.join(names)} came after a file with a later name was read, and is left out; names of files "
            "must go up"
        )
        warnings.warn(message, stacklevel=3)
