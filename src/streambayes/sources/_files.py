"""Batches of Parquet and Arrow files, read as they are asked for: memory holds one of them."""

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
        columns: Sequence[str] | None,
        time: str | None,
    ) -> None:
        self._paths = tuple(paths)
        self._num_rows = sum(sizes)
        self._rows = rows
        self._columns = None if columns is None else list(columns)
        self._time = time

    def __len__(self) -> int:
        return math.ceil(self._num_rows / self._rows)

    def __iter__(self) -> Iterator[StreamBatch]:
        last = -np.inf
        for number, columns in enumerate(self._tables()):
            time = None
            if self._time is not None:
                moments = seconds(self._time, columns[self._time])
                if moments[0] < last or (np.diff(moments) < 0).any():
                    message = (
                        f"batches: column {self._time!r}, batch {number}: the time goes back; sort the "
                        "files first"
                    )
                    raise ValueError(message)
                last = time = float(moments[-1])
            yield StreamBatch(columns=columns, time=time)

    def _tables(self) -> Iterator[dict[str, np.ndarray]]:
        import pyarrow as pa

        waiting: list[Any] = []
        held = 0
        for part in self._parts():
            while part.num_rows:
                taken = part.slice(0, self._rows - held)
                waiting.append(taken)
                held += taken.num_rows
                part = part.slice(taken.num_rows)  # noqa: PLW2901
                if held == self._rows:
                    yield _columns(pa.Table.from_batches(waiting))
                    waiting, held = [], 0
        if waiting:
            yield _columns(pa.Table.from_batches(waiting))

    def _parts(self) -> Iterator[Any]:
        """The files' own pieces, with the columns of the first one in its order."""
        schema = None
        for path in self._paths:
            with _Reader(path) as reader:
                for part in reader.parts(self._columns, self._rows):
                    schema = schema or part.schema
                    if not part.schema.equals(schema):
                        message = (
                            f"batches: {path.name} has other columns than {self._paths[0].name}: "
                            f"{_listed(part.schema)} instead of {_listed(schema)}"
                        )
                        raise ValueError(message)
                    yield part


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
    for path in paths:
        with _Reader(path) as reader:
            for name in dict.fromkeys([*(columns or ()), *([] if time is None else [time])]):
                if name not in reader.names:
                    message = f"batches: there is no column {name!r} in {path.name}; it has {reader.names}"
                    raise ValueError(message)
            sizes.append(reader.num_rows)
    wanted = columns if columns is None or time is None else [*dict.fromkeys([*columns, time])]
    return FileBatches(paths, sizes, rows, wanted, time)


def _found(path: Path) -> list[Path]:
    if glob.has_magic(str(path)):
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
    else:
        found = [path] if path.is_file() else []
    if not found:
        message = f"batches: no file {str(path)!r}"
        raise FileNotFoundError(message)
    for each in found:
        if each.suffix not in _PARQUET + _ARROW:
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

        self._is_parquet = path.suffix in _PARQUET
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

    def __enter__(self) -> "_Reader":
        return self

    def __exit__(self, *_: object) -> None:
        if self._is_parquet:
            self._file.close()

    @property
    def num_rows(self) -> int:
        if self._is_parquet:
            return int(self._file.metadata.num_rows)
        held = range(self._file.num_record_batches)
        return sum(self._file.get_batch(number).num_rows for number in held)

    def parts(self, columns: list[str] | None, rows: int) -> Iterator[Any]:
        """Record batches."""
        if self._is_parquet:
            yield from self._file.iter_batches(batch_size=rows, columns=columns)
            return
        for number in range(self._file.num_record_batches):
            part = self._file.get_batch(number)
            yield part if columns is None else part.select(columns)


def _columns(table: Any) -> dict[str, np.ndarray]:
    import pyarrow as pa

    found = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        if pa.types.is_dictionary(column.type):
            column = column.cast(column.type.value_type)  # noqa: PLW2901
        found[name] = column.to_numpy()
    return found


def _listed(schema: Any) -> str:
    return ", ".join(f"{field.name} ({field.type})" for field in schema)
