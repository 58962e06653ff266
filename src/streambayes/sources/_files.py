"""Files: the rows of CSV, Parquet and Arrow files of any size, chunk by chunk."""

import abc
import contextlib
import glob
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from streambayes._core.names import meant
from streambayes.sources._source import Chunk, Source
from streambayes.sources._text import TEXT, Dialect, Types, check_types, recognised

__all__ = ["CsvFormat", "Files", "cells_of", "import_arrow", "is_readable", "read_file"]

_BUFFER = 2**20  # bytes; by default the whole file would be in memory
_BEGINNING = 2**16  # bytes that tell how a CSV file is written
_ROWS = 8192  # to a chunk, of Parquet
_PARQUET = (".parquet", ".pq")
_ARROW = (".arrow", ".feather", ".ipc")
_CSV = (".csv", ".tsv", ".csv.gz", ".tsv.gz")
_MISSING = ["", "NA", "N/A", "NaN", "nan", "null", "NULL", "None", "#N/A", "n/a", "na"]


@final
class Files(Source):
    """The rows of files, one file after the other.

    Args:
        files: A path, a pattern such as ``"trips/*.csv"`` (in order of the names), or a list of them.
        separator: What separates the cells of CSV files; by default it is told by the first lines.
        decimal: What separates whole numbers and fractions in CSV files, ``"."`` or ``","``; by default it is told by
            the first lines, where commas do not separate cells.
        types: Columns of CSV files that are ``"number"`` or ``"text"``. Of others the first cell tells.
        missing: What stands for a missing cell in CSV files, such as ``"?"``, besides an empty one, NA, NaN
            and null.
    """

    def __init__(
        self,
        files: Any,
        *,
        separator: str | None = None,
        decimal: str | None = None,
        types: Mapping[str, str] | None = None,
        missing: Sequence[str] = (),
    ) -> None:
        import_arrow()
        named = files if isinstance(files, list | tuple) else [files]
        self.paths = [path for name in named for path in _found(Path(name))]
        self.format = CsvFormat(separator, types, missing, decimal)

    def __repr__(self) -> str:
        return f"Files({[str(path) for path in self.paths]})"

    def dialect(self) -> Dialect | None:
        """How the first file is written, if it is one of CSV."""
        with _opened(self.paths[0], self.format) as file:
            return file.dialect if isinstance(file, _Csv) else None

    def written(self) -> str:
        """How the first file is written, in words, where that was told by its first lines; else nothing."""
        dialect = self.dialect()
        if dialect is None:
            return ""
        said = []
        if self.format.separator is None and dialect.separator != _usual_separator(self.paths[0]):
            said.append(f"cells are separated by {dialect.separator!r}")
        if dialect.example is not None:
            said.append(f"{dialect.example!r} is the number {dialect.example.replace(',', '.')}")
        return ", ".join(said)

    def read(self, start: Any, columns: list[str] | None) -> Iterator[Chunk]:
        first, row, told = 0, 0, {}
        if start is not None:
            first, row, told = self._place(start), int(start["row"]), start["types"]
        types = Types(self.format.types, told)
        for number, path in enumerate(self.paths[first:], start=first):
            place = {"file": str(path), "number": number}
            yield from read_file(path, place, row, columns, self.format, types)
            row = 0

    def _place(self, start: Any) -> int:
        """Which file a run stopped in, though others may have come or gone before it."""
        name, number, row, told = (start[key] for key in ("file", "number", "row", "types"))
        counts = all(type(each) is int and each >= 0 for each in (number, row))
        if not counts or not isinstance(told, dict):
            message = "it names no file, row and types of columns"
            raise TypeError(message)
        names = [str(path) for path in self.paths]
        if number < len(names) and names[number] == name:
            return int(number)
        if names.count(name) != 1:
            message = f"batches: the run stopped in {name}, which is not among the files"
            raise FileNotFoundError(message)
        return names.index(name)

    def names(self) -> list[str]:
        """The columns of the first file."""
        with _opened(self.paths[0], self.format) as file:
            return list(file.names)

    def num_rows(self) -> int | None:
        """How many rows there are, where files say so: those of CSV do not."""
        total = 0
        for path in self.paths:
            with _opened(path, self.format) as file:
                if file.num_rows is None:
                    return None
                total += file.num_rows
        return total


@final
class CsvFormat:
    """How CSV files are written."""

    def __init__(
        self,
        separator: str | None,
        types: Mapping[str, str] | None,
        missing: Sequence[str],
        decimal: str | None,
    ) -> None:
        if separator is not None and (not isinstance(separator, str) or len(separator) != 1):
            message = f"batches: separator must be one letter, such as ';', got {separator!r}"
            raise ValueError(message)
        if isinstance(missing, str) or not all(isinstance(text, str) for text in missing):
            message = f"batches: missing must be a list of texts, such as ['?'], got {missing!r}"
            raise ValueError(message)
        if decimal not in (None, ".", ","):
            message = f"batches: decimal must be '.' or ',', got {decimal!r}"
            raise ValueError(message)
        self.separator = separator
        self.decimal = decimal
        self.types = check_types(types)
        self.missing = [*_MISSING, *missing]


def import_arrow() -> None:
    """Raise ``ImportError`` with a remedy if files cannot be read."""
    try:
        import pyarrow  # noqa: F401, ICN001
    except ImportError:
        message = "batches of files need the extra: pip install 'streambayes[files]'"
        raise ImportError(message) from None


def read_file(
    path: Path,
    place: dict[str, Any],
    first_row: int,
    columns: list[str] | None,
    form: CsvFormat,
    types: Types,
) -> Iterator[Chunk]:
    """The rows of a file from a row on; offsets begin with the file's place."""
    with _opened(path, form) as file:
        wanted = [each for each in columns or file.names if each in file.names]
        if not wanted and file.names:
            message = (
                f"batches: none of the columns {columns} is in {path.name}, which has {file.names}"
                f"{meant(next(iter(columns or [])), file.names)}"
            )
            raise ValueError(message)
        row = first_row
        for part in file.parts(wanted, first_row):
            arrays = {each: _column(each, part.column(each), types, file) for each in wanted}
            yield Chunk(arrays, _Places(place, row, dict(types.told)), path.name, row)
            row += part.num_rows


class _Places:
    """Offsets of the rows of a chunk."""

    def __init__(self, place: dict[str, Any], row: int, told: dict[str, str]) -> None:
        self._place = place
        self._row = row
        self._told = told

    def __call__(self, taken: int) -> dict[str, Any]:
        return {**self._place, "row": self._row + taken, "types": self._told}


def _found(path: Path) -> list[Path]:
    if path.is_dir():
        message = (
            f"batches: {str(path)!r} is a folder; name its files, {str(path / '*.parquet')!r}, or follow it "
            "with sb.sources.Folder"
        )
        raise ValueError(message)
    found = [path]
    if not path.is_file():  # or a name with brackets would be a pattern
        found = [Path(name) for name in sorted(glob.glob(str(path), recursive=True))]  # noqa: PTH207
    if not found:
        message = f"batches: no file {str(path)!r}"
        raise FileNotFoundError(message)
    for each in found:
        if not is_readable(each):
            message = (
                f"batches: {each.name} is no CSV, Parquet or Arrow file by its name; files end in "
                f"{', '.join(_CSV + _PARQUET + _ARROW)}"
            )
            raise ValueError(message)
    return found


def is_readable(path: Path) -> bool:
    """Whether it is a file of rows by its name."""
    return path.name.lower().endswith(_PARQUET + _ARROW + _CSV)


class _File(abc.ABC):
    """An open file: its columns' names, how many rows it has if it says so, and its parts."""

    dialect: Dialect | None = None
    names: list[str]

    def __init__(self, path: Path) -> None:
        self._path = path

    @property
    def num_rows(self) -> int | None:
        """How many rows there are, if the file says so."""
        return None

    def close(self) -> None:  # noqa: B027  # most need not be closed
        """By default there is nothing to close."""

    @abc.abstractmethod
    def parts(self, columns: list[str], first_row: int) -> Iterator[Any]:
        """Record batches of the columns, from a row on."""


@final
class _Parquet(_File):
    def __init__(self, path: Path) -> None:
        import pyarrow.parquet as pq

        super().__init__(path)
        self._file: Any = pq.ParquetFile(path, pre_buffer=False, buffer_size=_BUFFER)
        self.names = self._file.schema_arrow.names

    @property
    def num_rows(self) -> int:
        return int(self._file.metadata.num_rows)

    def close(self) -> None:
        self._file.close()

    def parts(self, columns: list[str], first_row: int) -> Iterator[Any]:
        sizes = [
            self._file.metadata.row_group(group).num_rows
            for group in range(self._file.num_row_groups)
        ]
        group = 0
        while group < len(sizes) and sizes[group] <= first_row:
            first_row -= sizes[group]
            group += 1
        groups = list(range(group, len(sizes)))
        found = self._file.iter_batches(batch_size=_ROWS, row_groups=groups, columns=columns)
        yield from _from_row(found if groups else (), first_row)


@final
class _Arrow(_File):
    def __init__(self, path: Path) -> None:
        import pyarrow as pa

        super().__init__(path)
        # not mapped into memory: a file that is cut short meanwhile would end the program
        self._raw = pa.OSFile(str(path))
        self._file: Any = pa.ipc.open_file(self._raw)
        self.names = self._file.schema.names

    def close(self) -> None:
        self._raw.close()

    @property
    def num_rows(self) -> int:
        import pyarrow as pa

        with pa.memory_map(str(self._path)) as mapped:  # or all cells would be read
            file = pa.ipc.open_file(mapped)
            return sum(file.get_batch(number).num_rows for number in range(file.num_record_batches))

    def parts(self, columns: list[str], first_row: int) -> Iterator[Any]:
        yield from _from_row(self._checked(columns), first_row)

    def _checked(self, columns: list[str]) -> Iterator[Any]:
        for number in range(self._file.num_record_batches):
            part = self._file.get_batch(number)
            part.validate(full=True)  # cells of a damaged file may lie anywhere
            yield part.select(columns)


@final
class _Csv(_File):
    """All cells are read as text; types are told afterwards, so that a cell of another type is no error here."""

    def __init__(self, path: Path, form: CsvFormat) -> None:
        super().__init__(path)
        self._form = form
        with self._stream() as stream:
            found = stream.read(_BEGINNING)
        if len(found) == _BEGINNING:  # its last line may be cut
            found = found[: found.rfind(b"\n") + 1]
        text = found.decode("utf-8-sig", "replace")
        self.dialect = recognised(text, form.separator, form.decimal, _usual_separator(path))
        self._is_empty = path.stat().st_size == 0
        self.names = []
        if not self._is_empty:
            with self._open({}) as reader:
                self.names = reader.schema.names

    def parts(self, columns: list[str], first_row: int) -> Iterator[Any]:
        import pyarrow as pa

        if self._is_empty:
            return
        with self._open(dict.fromkeys(self.names, pa.string()), columns) as reader:
            yield from _from_row(reader, first_row)

    def _open(self, types: dict[str, Any], columns: list[str] | None = None) -> Any:
        from pyarrow import csv

        assert self.dialect is not None
        return csv.open_csv(
            self._stream(),
            read_options=csv.ReadOptions(block_size=_BUFFER, use_threads=False),
            parse_options=csv.ParseOptions(
                delimiter=self.dialect.separator,
                newlines_in_values=True,
            ),
            convert_options=csv.ConvertOptions(
                column_types=types,
                include_columns=columns,
                null_values=self._form.missing,
                strings_can_be_null=True,
            ),
        )

    def _stream(self) -> Any:
        import pyarrow as pa

        return pa.input_stream(str(self._path), compression="detect", buffer_size=_BUFFER)


def _usual_separator(path: Path) -> str:
    return "\t" if ".tsv" in path.name.lower()[-7:] else ","


@contextlib.contextmanager
def _opened(path: Path, form: CsvFormat) -> Iterator[_File]:
    """An open file; what is wrong with it is said in one sentence."""
    import pyarrow as pa

    name = path.name.lower()
    with contextlib.ExitStack() as stack:
        try:
            if name.endswith(_PARQUET):
                file: _File = _Parquet(path)
            elif name.endswith(_ARROW):
                file = _Arrow(path)
            else:
                file = _Csv(path, form)
            stack.callback(file.close)
            twice = [name for name in file.names if file.names.count(name) > 1]
            if twice:
                message = f"batches: {path.name} has two columns called {twice[0]!r}; rename one"
                raise ValueError(message)
            yield file
        except UnicodeDecodeError:
            message = f"batches: {path.name} cannot be read: it is not text in UTF-8"
            raise ValueError(message) from None
        except (pa.ArrowException, OSError, _ShorterError) as error:
            is_of_the_disk = isinstance(error, OSError) and error.errno
            if is_of_the_disk:
                raise
            said = " ".join(str(error).split())
            message = f"batches: {path.name} cannot be read: {said}"
            raise ValueError(message) from None


class _ShorterError(Exception):
    """A file has lost rows that were read."""


def _from_row(parts: Any, first_row: int) -> Iterator[Any]:
    """Record batches without the first rows."""
    for part in parts:
        if part.num_rows > first_row:
            yield part.slice(first_row)
        first_row = max(first_row - part.num_rows, 0)
    if first_row:
        message = f"it has {first_row} rows less than were read of it before"
        raise _ShorterError(message)


def _column(name: str, array: Any, types: Types, file: _File) -> np.ndarray:
    return (
        cells_of(array) if file.dialect is None else _text_column(name, array, types, file.dialect)
    )


def cells_of(array: Any) -> np.ndarray:
    """The cells of an Arrow array, whatever their type."""
    import pyarrow as pa

    try:
        if pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        found: np.ndarray = array.to_numpy(zero_copy_only=False)
    except pa.ArrowNotImplementedError:
        found = np.array(array.to_pylist(), dtype=object)
    return found


def _text_column(name: str, array: Any, types: Types, dialect: Dialect) -> np.ndarray:
    import pyarrow as pa

    valid = array.drop_null()
    decimal = dialect.decimal
    kind = types.kind(name, [valid[0].as_py()] if len(valid) else [], decimal)
    if kind == TEXT:
        found: np.ndarray = array.to_numpy(zero_copy_only=False)
        return found
    if kind is None:
        return np.full(len(array), np.nan)
    try:
        numbers: np.ndarray = (
            _with_points(array, decimal).cast(pa.float64()).to_numpy(zero_copy_only=False)
        )
    except pa.ArrowInvalid:  # one by one, for cells that Python reads and Arrow does not
        return types.column(name, array.to_pylist(), decimal)
    return numbers


def _with_points(array: Any, decimal: str) -> Any:
    """Numbers with decimal points; ``ArrowInvalid`` if some have points for another purpose."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if decimal == ".":
        return array
    if pc.any(pc.match_substring(array, ".")).as_py():
        message = "points beside decimal commas"
        raise pa.ArrowInvalid(message)
    return pc.replace_substring(array, decimal, ".")
