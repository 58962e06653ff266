"""From what a user hands over as a batch to checked, padded rows."""

import abc
import dataclasses
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import jax
import numpy as np

from streambayes._core.batch import Batch
from streambayes._core.column import CONTINUOUS, Column
from streambayes._core.kernel import kernel_is_on
from streambayes._core.names import meant
from streambayes._core.pytree import pytree
from streambayes.models import AbstractModel

__all__ = [
    "Kind",
    "Pieces",
    "Resumable",
    "Shards",
    "StreamBatch",
    "aligned_zeros",
    "bucket_size",
    "check_absent",
    "column_names",
    "kind_of",
    "lacking_columns",
    "missing_columns",
    "pad",
    "pad_several",
    "padded_size",
    "read_rows",
    "refuse_clusters",
    "table",
]

_SMALL = 256


@pytree
class StreamBatch:
    """The columns of one batch with a label and a time; what ``sb.batches`` yields.

    Attributes:
        columns: Arrays of equal length by name.
        label: What to call the batch in tables and figures.
        time: A number on any clock; policies see the differences. ``None`` for no times.
        absent: Rows, as a mask, that came without a column which others have; their cells are missing.
        num_late: Rows that came too late for their batch since the one before, and are in none.
        remarks: What was done about rows that do not fit the model, by ``SchemaPolicy``.
        offset: Where a source stands after the batch, as JSON has it: what ``Resumable.after`` takes.
    """

    columns: dict[str, np.ndarray]
    label: str | None = None
    time: float | None = None
    absent: dict[str, np.ndarray] = dataclasses.field(default_factory=dict)
    num_late: int = 0
    remarks: tuple[str, ...] = ()
    offset: Any = None

    def __post_init__(self) -> None:
        refuse_clusters(self.columns, "StreamBatch: a batch on a cluster is one already")
        if not isinstance(self.columns, Mapping):
            kind = type(self.columns).__name__
            message = f"StreamBatch: columns must be a mapping of names to arrays, got {kind}"
            raise TypeError(message)


class Pieces(abc.ABC):
    """Tables in order, which can be read again and again: a stream of batches, or one batch in pieces."""

    label: str | None = None

    @property
    @abc.abstractmethod
    def time(self) -> float | None:
        """The time of the last table, if they have times: that of one batch in pieces."""

    @abc.abstractmethod
    def __iter__(self) -> Iterator[StreamBatch]:
        """The tables, from the first one on."""


class Shards(abc.ABC):
    """One batch whose rows lie elsewhere, on the machines of a cluster: work goes out, sums come back.

    Whatever asks for its rows first has them read, checked and held where they lie, for one learner; a step lets
    them go in the end.

    Attributes:
        label: What to call the batch in tables and figures.
        time: A number on any clock, as for ``StreamBatch``.
        offset: Where a source stands after the batch.
        accelerate: Whether sweeps are extrapolated, so that fewer are needed.
        on_sweep: Called with their number and the bound after each, of which some take a second.
    """

    label: str | None = None
    time: float | None = None
    offset: Any = None
    accelerate: bool = False
    on_sweep: Callable[[int, float], None] | None = None

    @abc.abstractmethod
    def num_rows(self, learner: Any, state: Any = None) -> int:
        """How many rows there are; rows that hide nothing may be summed at once for a step from the state."""

    @abc.abstractmethod
    def some_rows(self, learner: Any, most: int) -> np.ndarray:
        """At most so many rows at equal distances, as ``read_rows`` has them."""

    @abc.abstractmethod
    def passes(self, learner: Any, scale: Any) -> Any:
        """What ``learn_pieces`` calls with a belief for every pass over the rows."""

    @abc.abstractmethod
    def score(self, learner: Any, state: Any, belief: Any) -> tuple[float, float, str]:
        """Sums over rows of both log-likelihoods under a belief, and how the second was computed."""

    @abc.abstractmethod
    def release(self) -> None:
        """Let the rows go, where they are held."""


class Resumable(abc.ABC):
    """Batches that know where each of them ends in their source, so that a run can go on from there."""

    @property
    @abc.abstractmethod
    def definition(self) -> dict[str, Any]:
        """How batches are cut, as JSON has it: a run goes on with the same cuts alone."""

    @property
    @abc.abstractmethod
    def stopped(self) -> str | None:
        """Why they ended before the source did, if they did."""

    @abc.abstractmethod
    def after(self, offset: Any) -> Iterator[StreamBatch]:
        """The batches after one with this offset; all for ``None``."""

    @abc.abstractmethod
    def commit(self, offset: Any) -> None:
        """Tell the source that all up to this offset is learned and saved."""


def table(data: Any, names: Sequence[str] | None = None) -> dict[str, Any]:
    """Columns by name of a mapping, a pandas, polars or Arrow frame, or an array.

    An array has the names in order: two dimensions for several, one for a single column.
    """
    if isinstance(data, StreamBatch):
        return dict(data.columns)
    if isinstance(data, Mapping):
        return dict(data)
    if isinstance(data, list | tuple) and any(isinstance(row, Mapping) for row in data):
        message = "a batch must be columns, such as {'x': [1.0, 2.0]}, got a list of rows"
        raise TypeError(message)
    if isinstance(data, np.ndarray | jax.Array | list | tuple):
        return _from_array(np.asarray(data), names)
    refuse_clusters(data, "a batch on a cluster is taken by init, step, score and run only")
    try:
        import narwhals as nw
    except ImportError:
        message = f"a batch of type {type(data).__name__} needs the extra: pip install 'streambayes[frames]'"
        raise ImportError(message) from None
    try:
        frame = nw.from_native(data, eager_only=True)
    except nw.exceptions.NarwhalsError as error:
        message = f"the frame cannot be read: {' '.join(str(error).split())}"
        raise ValueError(message) from None
    except TypeError:
        message = (
            "a batch must be a mapping of columns, a pandas, polars or Arrow frame, or an array, "
            f"got {type(data).__name__}"
        )
        raise TypeError(message) from None
    wanted = frame.columns if names is None else [name for name in names if name in frame.columns]
    return {name: frame.get_column(name).to_numpy() for name in wanted}


def refuse_clusters(data: Any, remedy: str) -> None:
    """Raise ``TypeError`` for what lies on a cluster; the remedy is for those that are batches already."""
    if isinstance(data, Shards):
        raise TypeError(remedy)
    library = type(data).__module__.split(".")[0]
    if library in ("pyspark", "dask"):
        cluster = {"pyspark": "Spark(spark)", "dask": "Dask(client)"}[library]
        message = f"rows on a cluster are given as sb.distributed.{cluster}.batch(...), streams as its batches(..., by=...)"
        raise TypeError(message)


def column_names(data: Any) -> list[str]:
    """The names of the columns that a batch came with; none of an array."""
    if isinstance(data, StreamBatch):
        return list(data.columns)
    if isinstance(data, Mapping):
        return list(data)
    if isinstance(data, np.ndarray | jax.Array | list | tuple):
        return []
    import narwhals as nw

    return list(nw.from_native(data, eager_only=True).columns)


def check_absent(batch: StreamBatch, names: Sequence[str]) -> None:
    """Raise ``ValueError`` if rows came without one of the columns."""
    for name in names if batch.absent else ():
        if name in batch.absent:
            row = int(np.argmax(batch.absent[name]))
            message = (
                f"column {name!r}, row {row}: the column is lost; SchemaPolicy(lost_column='missing') takes its "
                "cells as missing"
            )
            raise ValueError(message)


def read_rows(
    model: AbstractModel[Any, Any],
    wanted: tuple[Column, ...],
    data: Any,
    unknown: str | None = None,
) -> np.ndarray:
    """The model's columns, checked, shape (num_columns, num_rows); errors name column and row.

    They are of float64, or of float32 if all columns are. Missing cells are NaN; the column ``unknown`` is all missing, whether the data has it or not.
    """
    names = [column.name for column in wanted if column.name != unknown]
    columns = table(data, names)
    missing = [name for name in names if name not in columns]
    if missing:
        held = column_names(data)
        present = ", ".join(repr(name) for name in held) or "none"
        message = (
            f"the batch lacks column {missing[0]!r}{meant(missing[0], held)}; it has {present} (a column of NaN "
            "says that its values are missing)"
        )
        raise ValueError(message)
    if isinstance(data, StreamBatch):
        check_absent(data, names)
    if unknown is not None and any(column.name == unknown for column in wanted):
        length = len(next(iter(columns.values()))) if columns else 0
        columns[unknown] = np.full(length, np.nan)
    rows = _numbers_as_they_are(wanted, columns)
    if rows is None:
        encoded = {column.name: column.encode(columns[column.name]) for column in wanted}
        lengths = {name: len(values) for name, values in encoded.items()}
        if len(set(lengths.values())) > 1:
            message = f"columns differ in length: {lengths}"
            raise ValueError(message)
        rows = np.stack(list(encoded.values()))
    model.check({column.name: row for column, row in zip(wanted, rows, strict=True)})
    return rows


def _numbers_as_they_are(
    wanted: tuple[Column, ...], columns: Mapping[str, Any]
) -> np.ndarray | None:
    """The rows if all columns are plain arrays of finite numbers, which needs no look at each of them."""
    arrays = [columns[column.name] for column in wanted]
    first = arrays[0]
    plain = all(
        column.kind == CONTINUOUS
        and not column.transform
        and type(array) is np.ndarray
        and (array.dtype, array.shape) == (first.dtype, first.shape)
        for column, array in zip(wanted, arrays, strict=True)
    )
    if not plain or first.ndim != 1 or first.dtype not in (np.float64, np.float32):
        return None
    rows = np.stack(arrays)
    with np.errstate(over="ignore", invalid="ignore"):
        return rows if np.isfinite(rows.sum()) else None


class Kind(NamedTuple):
    """What batches have in common that share a compilation."""

    size: int
    dtype: Any
    columns: tuple[str, ...]
    missing: tuple[str, ...]
    fused: bool


def pad(rows: np.ndarray, columns: tuple[Column, ...], **chosen: Any) -> Batch:
    """Rows padded with zeros to their bucket, so that near sizes share a compilation.

    Args:
        rows: Shape (num_columns, num_rows).
        columns: The columns.
        **chosen: Passed on to ``kind_of``.
    """
    whole = pad_several([rows], kind_of(rows, columns, **chosen), 1)
    return dataclasses.replace(whole, values=whole.values[0], num_rows=whole.num_rows[0])


def kind_of(
    rows: np.ndarray,
    columns: tuple[Column, ...],
    multiple: int = 1,
    missing: tuple[str, ...] | None = None,
    hidden: frozenset[str] = frozenset(),
    *,
    as_given: bool = False,
    is_unpadded: bool = False,
) -> Kind:
    """The kind of a batch, whose size is a multiple of a number; in float64.

    Unless ``missing`` names the columns with missing cells, more may be named, so that batches with
    other patterns share a compilation too: all that cost nothing; and of those in ``hidden``, whose
    missing cells are hidden variables, all in a small batch, where patterns change by chance.

    ``as_given`` leaves float32 as it is, for a pass over rows that sums in float64, and lets the model
    use its kernel if it has one. ``is_unpadded`` leaves the only row of a batch alone, where rows cost much.
    """
    num_rows = rows.shape[1]
    if missing is None:
        missing = missing_columns(np.isnan(rows).any(1), columns, hidden, num_rows)
    dtype = rows.dtype if as_given else np.dtype(np.float64)
    return Kind(
        size=1 if is_unpadded and num_rows == 1 else padded_size(num_rows, multiple),
        dtype=dtype,
        columns=tuple(column.name for column in columns),
        missing=missing,
        fused=as_given and dtype == np.float32 and kernel_is_on(),
    )


def pad_several(batches: Sequence[np.ndarray], kind: Kind, capacity: int) -> Batch:
    """Rows of batches of one kind, padded with zeros and batches without rows to a capacity, which leads."""
    values = aligned_zeros((capacity, len(kind.columns), kind.size), kind.dtype)
    num_rows = np.zeros(capacity, np.int64)
    for number, rows in enumerate(batches):
        values[number, :, : rows.shape[1]] = rows
        num_rows[number] = rows.shape[1]
    return Batch(
        values=values,  # type: ignore[arg-type]
        num_rows=num_rows,  # type: ignore[arg-type]
        columns=kind.columns,
        missing=kind.missing,
        fused=kind.fused,
    )


def aligned_zeros(shape: tuple[int, ...], dtype: Any) -> np.ndarray:
    """Zeros where JAX takes them without a copy: it wants addresses that are multiples of 64."""
    size = math.prod(shape) * np.dtype(dtype).itemsize
    held = np.zeros(size + 64, np.uint8)
    first = -held.ctypes.data % 64
    zeros: np.ndarray = held[first : first + size].view(dtype).reshape(shape)
    return zeros


def padded_size(num_rows: int, multiple: int = 1) -> int:
    """The size of a batch's bucket, a multiple of a number."""
    return -(-bucket_size(num_rows) // multiple) * multiple


def missing_columns(
    lacks: np.ndarray, columns: tuple[Column, ...], hidden: frozenset[str], num_rows: int
) -> tuple[str, ...]:
    """Columns to compile for as having missing cells, where those that ``lacks`` marks do have some."""
    if not lacks.any():
        return ()
    costly = {column.name for column, some in zip(columns, lacks, strict=True) if some} & hidden
    if costly and num_rows < _SMALL:
        costly = set(hidden)
    return tuple(c.name for c in columns if c.name in costly or c.name not in hidden)


def lacking_columns(rows: np.ndarray, columns: tuple[Column, ...]) -> tuple[str, ...]:
    """The columns with missing cells."""
    lacks = np.isnan(rows).any(1)
    return tuple(column.name for column, some in zip(columns, lacks, strict=True) if some)


def bucket_size(num_rows: int) -> int:
    """The next power of two from 16 to 4096; beyond, four sizes to each power of two."""
    if num_rows <= 4096:
        return max(16, 1 << (num_rows - 1).bit_length()) if num_rows else 16
    step = 1 << (num_rows.bit_length() - 3)
    return -(-num_rows // step) * step


def _from_array(array: np.ndarray, names: Sequence[str] | None) -> dict[str, Any]:
    if names is None:
        message = "an array needs the names of its columns"
        raise ValueError(message)
    if array.ndim == 1 and len(names) == 1:
        return {names[0]: array}
    if array.ndim != 2 or array.shape[1] != len(names):
        wanted = ", ".join(repr(name) for name in names)
        message = f"an array must have a column for each of {wanted}, got shape {array.shape}"
        raise ValueError(message)
    return {name: array[:, place] for place, name in enumerate(names)}
