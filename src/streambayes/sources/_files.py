"""Batches of Parquet and Arrow files, read as they are asked for: memory holds one of them."""

import collections
import glob
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from streambayes.learning import Pieces, StreamBatch
from streambayes.sources._times import seconds

__all__ = ["FileBatches", "file_batches"]

_BUFFER = 2**20  # bytes; by default the whole file would be in memory
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")


@final
class FileBatches(Pieces):
    """The rows of files, one file after the other, cut into batches of equal size; the last may be smaller."""

    def __init__(
        self,
        paths: Sequence[Path],
        sizes: Sequence[int],
        rows: int,
        columns: Sequence[str],
        time: str | None,
    ) -> None:
        self._paths = tuple(paths)
        self._num_rows = sum(sizes)
        self._rows = rows
        self._columns = list(columns)
        self._time = time

    def __len__(self) -> int:
        return math.ceil(self._num_rows / self._rows)

    @property
    def time(self) -> float | None:
        """The time of the last row, if there are times: that of all rows as one batch."""
        if self._time is None or not self._num_rows:
            return None
        for path in reversed(self._paths):
            with _Reader(path) as reader:
                if reader.num_rows:
                    (last,) = collections.deque(reader.parts([self._time], self._rows), maxlen=1)
                    return float(seconds(self._time, _column(last.column(0)))[-1])
        return None

    def __iter__(self) -> Iterator[StreamBatch]:
        last = -np.inf
        for number, columns in enumerate(self._tables()):
            time = None
            if self._time is not None:
                try:
                    moments = seconds(self._time, columns[self._time])
                except ValueError as error:
                    error.add_note(
                        f"in batch {number} of the files, from row {number * self._rows}"
                    )
                    raise
                if moments[0] < last or (np.diff(moments) < 0).any():
                    message = (
                        f"batches: column {self._time!r}, batch {number}: the time goes back; sort the "
                        "files first"
                    )
                    raise ValueError(message)
                last = time = float(moments[-1])
            yield StreamBatch(columns=columns, time=time)

    def _tables(self) -> Iterator[dict[str, np.ndarray]]:
        waiting: list[dict[str, np.ndarray]] = []
        held = 0
        for part in self._parts():
            num_rows = len(next(iter(part.values())))
            first = 0
            while first < num_rows:
                last = min(num_rows, first + self._rows - held)
                waiting.append({name: values[first:last] for name, values in part.items()})
                held, first = held + last - first, last
                if held == self._rows:
                    yield _joined(waiting)
                    waiting, held = [], 0
        if waiting:
            yield _joined(waiting)

    def _parts(self) -> Iterator[dict[str, np.ndarray]]:
        """The files' own pieces."""
        for path in self._paths:
            with _Reader(path) as reader:
                reader.check(self._columns)
                for part in reader.parts(self._columns, self._rows):
                    yield {name: _column(part.column(name)) for name in self._columns}


def file_batches(
    data: Any, rows: int, columns: Sequence[str] | None, time: str | None
) -> FileBatches:
    """Batches of the files that a path, a pattern such as ``trips/*.parquet``, or a list of them names."""
    try:
        import pyarrow  # noqa: F401, ICN001
    except ImportError:
        message = "batches of files need the extra: pip install 'streambayes[files]'"
        raise ImportError(message) from None
    named = data if isinstance(data, list | tuple) else [data]
    paths = [path for name in named for path in _found(Path(name))]
    sizes = []
    wanted = None if columns is None else [*columns]
    for path in paths:
        with _Reader(path) as reader:
            wanted = wanted or reader.names
            wanted = [*dict.fromkeys([*wanted, *([] if time is None else [time])])]
            reader.check(wanted)
            sizes.append(reader.num_rows)
    return FileBatches(paths, sizes, rows, wanted or [], time)


def _found(path: Path) -> list[Path]:
    if path.is_dir():
        message = f"batches: {str(path)!r} is a folder; name its files, {str(path / '*.parquet')!r}"
        raise ValueError(message)
    found = [path]
    if not path.is_file():  # or a name with brackets would be a pattern
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
    if not found:
        message = f"batches: no file {str(path)!r}"
        raise FileNotFoundError(message)
    for each in found:
        if each.suffix.lower() not in _PARQUET + _ARROW:
            message = (
                f"batches: {each.name} is no Parquet or Arrow file by its name; files end in "
                f"{', '.join(_PARQUET + _ARROW)}"
            )
            raise ValueError(message)
    return found


@final
class _Reader:
    """One open file."""

    def __init__(self, path: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        self._path = path
        self._is_parquet = path.suffix.lower() in _PARQUET
        try:
            self._file: Any = (
                pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
                if self._is_parquet
                else pa.ipc.open_file(pa.memory_map(str(path)))
            )
        except (pa.ArrowInvalid, OSError) as error:
            message = f"batches: {path.name} cannot be read: {' '.join(str(error).split())}"
            raise ValueError(message) from None
        schema = self._file.schema_arrow if self._is_parquet else self._file.schema
        self.names: list[str] = schema.names
        twice = [name for name in self.names if self.names.count(name) > 1]
        if twice:
            message = f"batches: {path.name} has two columns called {twice[0]!r}; rename one"
            raise ValueError(message)

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_parquet:
            self._file.close()

    def check(self, names: Sequence[str]) -> None:
        """Raise ``ValueError`` unless it has the columns."""
        for name in names:
            if name not in self.names:
                message = (
                    f"batches: there is no column {name!r} in {self._path.name}; it has {self.names} "
                    "(columns=[...] says which to read)"
                )
                raise ValueError(message)

    @property
    def num_rows(self) -> int:
        if self._is_parquet:
            return int(self._file.metadata.num_rows)
        held = range(self._file.num_record_batches)
        return sum(self._file.get_batch(number).num_rows for number in held)

    def parts(self, columns: list[str], rows: int) -> Iterator[Any]:
        """Record batches."""
        if self._is_parquet:
            yield from self._file.iter_batches(batch_size=rows, columns=columns)
            return
        for number in range(self._file.num_record_batches):
            yield self._file.get_batch(number).select(columns)


def _column(array: Any) -> np.ndarray:
    import pyarrow as pa

    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        found: np.ndarray = array.to_numpy(zero_copy_only=False)
    except pa.ArrowNotImplementedError:
        found = np.array(array.to_pylist(), dtype=object)
    return found


def _joined(parts: list[dict[str, np.ndarray]]) -> dict[str, np.ndarray]:
    """One after the other; whole numbers become floats where a part has gaps or floats."""
    return {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
