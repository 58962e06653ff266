"""Spark: batches that are DataFrames, learned where their rows lie; classic sessions and Spark Connect."""

import contextlib
import re
import weakref
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any, final

import numpy as np

from streambayes.distributed._shards import (
    ClusterError,
    ClusterShards,
    Reply,
    check_columns,
    check_complete,
    check_settings,
    in_order,
    sent,
)
from streambayes.distributed._work import (
    Block,
    BlockFacts,
    Part,
    added,
    failing,
    hold,
    perform,
    settle,
)
from streambayes.models import AbstractModel
from streambayes.sources._files import cells_of

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

__all__ = ["Spark", "add_replies", "greatest", "hold_rows", "perform_order", "read_rows"]

_FAN = 64
"""Partitions that are added up before they reach the driver."""
_FACTS = ("shard", "number", "num_rows", "lacks", "is_single", "mark")
_HELD = (
    "shard int, number int, num_rows int, lacks string, is_single boolean, mark long, values binary, "
    "failure string"
)
_NESTED = ("array", "map", "struct", "variant")
_NUMBERS = ("tinyint", "smallint", "int", "bigint", "float", "double", "decimal")
_REPLY = "shard int, team int, failure string, values binary"


@final
class Spark:
    """A Spark session whose executors learn batches that are DataFrames.

    Args:
        session: A session, classic or of Spark Connect.
        local_sweeps: How often workers pass over their rows before sums go back to the driver, where hidden
            variables of a row depend on each other. Each pass raises the bound; with more than 1 the way to the
            optimum differs from that on one machine, and fewer passes over the cluster are needed.
        accelerate: Whether sweeps are extrapolated where rows hide one variable each, as in mixtures: often half
            of them are enough. What does not raise the bound is taken back. Without it all is as on one
            machine, sweep by sweep.
    """

    def __init__(
        self, session: "SparkSession", *, local_sweeps: int = 1, accelerate: bool = False
    ) -> None:
        _import_spark()
        if not hasattr(session, "createDataFrame"):
            message = f"Spark: expected a SparkSession, got {type(session).__name__}"
            raise TypeError(message)
        if _is_over(session):
            message = "Spark: the session is stopped; make another one"
            raise ClusterError(message)
        self.session = session
        self._settings = check_settings(local_sweeps, accelerate)

    def __repr__(self) -> str:
        return f"Spark({self.session!r})"

    def batch(
        self,
        frame: "DataFrame",
        *,
        label: str | None = None,
        time: float | None = None,
        offset: Any = None,
    ) -> ClusterShards:
        """A DataFrame as one batch, for ``init``, ``step`` and ``score`` of a learner, and for ``sb.run``.

        Args:
            frame: The rows, with the model's columns.
            label: What to call the batch in tables and figures.
            time: A number on any clock, for policies that measure time.
            offset: Where a source stands after the batch, as JSON has it.
        """
        if not isinstance(
            getattr(frame, "columns", None), list
        ):  # a Column has whatever is asked for
            message = f"Spark: a batch must be a Spark DataFrame, got {type(frame).__name__}"
            raise TypeError(message)
        if getattr(frame, "isStreaming", False):
            message = "Spark: a streaming DataFrame is learned by sb.distributed.spark_stream"
            raise TypeError(message)
        return _SparkShards(frame, label=label, time=time, offset=offset, **self._settings)

    def batches(
        self, frame: "DataFrame", *, by: str, time: str | None = None
    ) -> list[ClusterShards]:
        """One batch for each value of a column, in their order: a stream for ``sb.run``.

        Args:
            frame: The rows; ``frame.cache()`` spares reading them again for every batch.
            by: The column, such as a month.
            time: A column of numbers or timestamps; a batch's time is its greatest. For policies that measure time.
        """
        from pyspark.sql import functions

        check_columns(frame.columns, by, time)
        kind = dict(frame.dtypes)[by]
        if kind.partition("<")[0] in _NESTED:
            message = f"batches: column {by!r} must hold single values, not {kind}"
            raise ValueError(message)
        column = frame[quoted(by)]
        last = "cast(null as double)" if time is None else greatest(frame, time, "batches")
        with _in_words(self.session):
            rows = frame.groupBy(column).agg(functions.expr(last)).collect()
        return [
            self.batch(frame.where(column == value), label=str(value), time=moment)
            for value, moment in in_order({row[0]: row[1] for row in rows}, by, time)
        ]


@final
class _SparkShards(ClusterShards):
    """A DataFrame; ``_held_rows`` has its blocks as Spark holds them."""

    _where = "Spark"

    def __init__(self, frame: "DataFrame", **facts: Any) -> None:
        super().__init__(**facts)
        self._frame = frame
        self._held_rows: DataFrame | None = None
        self._letting_go: Callable[[], Any] = lambda: None
        self._is_wide = False

    @staticmethod
    def _pickled(value: Any) -> bytes:
        from pyspark import cloudpickle

        found: bytes = cloudpickle.dumps(value)  # type: ignore[no-untyped-call]
        return found

    def _columns(self, model: AbstractModel[Any, Any]) -> "DataFrame":
        """The frame without what the model does not need."""
        names, present = [column.name for column in model.columns], self._frame.columns
        check_complete(names, present)
        for name in names:
            alike = [other for other in present if other.lower() == name.lower()]
            if present.count(name) > 1 or (len(alike) > 1 and not self._tells_capitals()):
                several = " and ".join(sorted({repr(other) for other in alike}))
                message = f"the batch has column {several} more than once; rename one of them"
                raise ValueError(message)
        # Spark itself does not quote the columns that it hands to a function
        return self._frame.selectExpr(*(f"{quoted(name)} as {_plain(name)}" for name in names))

    def _tells_capitals(self) -> bool:
        """Whether columns may differ in capitals alone; mostly Spark does not tell them."""
        return self._frame.sparkSession.conf.get("spark.sql.caseSensitive") == "true"

    def _place(self, model: AbstractModel[Any, Any], order: bytes) -> list[Part | Reply]:
        holding = sent("_spark", "hold_rows", order, _unable(_HELD))
        with _in_words(self._frame.sparkSession):
            held = self._columns(model).mapInArrow(holding, _HELD).persist()
            self._held_rows = held
            # rows that nobody asks for any more are let go when this object is
            self._letting_go = weakref.finalize(self, _unpersist, held)
            told = held.drop("number", "mark", "values").toArrow()
        self._is_wide = len(told["shard"].unique()) > _FAN
        alike = told.group_by(["shard", "lacks", "is_single", "failure"])
        sums = alike.aggregate([("num_rows", "sum"), ("num_rows", "max")])
        return [
            Part(
                row["shard"],
                row["num_rows_sum"],
                row["num_rows_max"],
                row["lacks"],
                row["is_single"],
            )
            if row["failure"] is None
            else Reply(row["shard"], row["failure"], None)
            for row in sums.to_pylist()
        ]

    def _read(self, model: AbstractModel[Any, Any], order: bytes, *, add: bool) -> list[Reply]:
        with _in_words(self._frame.sparkSession):
            return _replies(self._columns(model), "read_rows", order, add=add)

    def _perform(self, order: bytes, *, add: bool) -> list[Reply]:
        assert self._held_rows is not None
        with _in_words(self._frame.sparkSession):
            return _replies(self._held_rows, "perform_order", order, add=add and self._is_wide)

    def _let_go(self) -> None:
        self._letting_go()
        self._held_rows = None


def _replies(rows: "DataFrame", name: str, order: bytes, *, add: bool) -> list[Reply]:
    """What the workers say, partition by partition; if ``add``, sums of those that follow each other."""
    replies = rows.mapInArrow(sent("_spark", name, order, _unable(_REPLY)), _REPLY)
    if add:
        adding = sent("_spark", "add_replies", b"", _unable(_REPLY))
        replies = replies.groupBy("team").applyInArrow(adding, _REPLY)
    return [
        Reply(row["shard"], row["failure"], _numbers(row["values"]))
        for row in replies.toArrow().to_pylist()
    ]


def hold_rows(order: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    """For the workers: rows of a partition in blocks, as Spark holds them."""
    shard = _partition()
    with failing(shard) as said:
        for block in hold(order, shard, _tables(batches)):
            yield _record(
                {
                    **block.facts._asdict(),
                    "values": block.values.tobytes(),
                    "failure": None,
                }
            )
    for _ in batches:  # or Spark would not use this process again
        pass
    settle(order)
    if said:
        blank = BlockFacts(shard, -1, 0, "", is_single=False, mark=0)
        yield _record({**blank._asdict(), "values": b"", "failure": said[0]})


def read_rows(order: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    """For the workers: an order carried out with the rows of a partition, none of which are held."""
    shard = _partition()
    found = None
    with failing(shard) as said:
        found = perform(order, hold(order, shard, _tables(batches)))
    for _ in batches:  # or Spark would not use this process again
        pass
    settle(order)
    if said or found is not None:
        yield _reply(shard, said[0] if said else None, found)


def perform_order(order: bytes, batches: Iterator[Any]) -> Iterator[Any]:
    """For the workers: an order carried out with the blocks of a partition."""
    shards: list[int] = []

    def blocks() -> Iterator[Block]:
        for part in batches:
            for row in range(part.num_rows):
                facts = BlockFacts(*(part.column(name)[row].as_py() for name in _FACTS))
                shards.append(facts.shard)
                kind = np.float32 if facts.is_single else np.float64
                cells = np.frombuffer(part.column("values")[row].as_buffer(), kind)
                yield Block(facts, cells.reshape(-1, facts.num_rows))

    found, rows = None, blocks()
    with failing(_partition()) as said:
        found = perform(order, rows)
    for _ in rows:
        pass
    settle(order)
    if said or found is not None:
        first = shards[0] if shards else _partition()
        yield _reply(first, said[0] if said else None, found)


def add_replies(_: bytes, table: Any) -> Any:
    """For the workers: replies of partitions that follow each other, added up in their order."""
    rows = sorted(table.to_pylist(), key=lambda row: row["shard"])
    failed = [row["failure"] for row in rows if row["failure"] is not None]
    parts = [np.frombuffer(row["values"]) for row in rows if row["values"] is not None]
    total = None if failed else added(parts)
    import pyarrow as pa

    return pa.Table.from_batches([_reply(rows[0]["shard"], failed[0] if failed else None, total)])


def _unable(schema: str) -> Callable[..., Any]:
    """What Spark gets instead of a result from a worker without the library; it is sent by value, too."""
    kinds = dict(part.split() for part in schema.split(", "))

    def say(failure: str, rows: Any) -> Any:
        import pyarrow as pa

        if isinstance(rows, pa.Table):
            row = rows.slice(0, 1).to_pydict()
            return pa.table({**row, "failure": [failure], "values": [b""]})
        for _ in rows:  # or Spark would not use the process again
            pass
        blank = {
            "int": pa.array([0], pa.int32()),
            "long": pa.array([0], pa.int64()),
            "boolean": pa.array([False]),
            "string": pa.array([""]),
            "binary": pa.array([b""]),
        }
        row = {name: blank[kind] for name, kind in kinds.items()}
        return iter([pa.RecordBatch.from_pydict({**row, "failure": pa.array([failure])})])

    return say


def _tables(batches: Iterator[Any]) -> Iterator[dict[str, Any]]:
    """Rows as Arrow has them, as the library takes them."""
    for part in batches:
        names = [bytes.fromhex(name[1:]).decode() for name in part.schema.names]
        yield {name: cells_of(cells) for name, cells in zip(names, part.columns, strict=True)}


def _partition() -> int:
    from pyspark import TaskContext

    context = TaskContext.get()
    return 0 if context is None else int(context.partitionId())


def _record(row: dict[str, Any]) -> Any:
    """A block as a table of one row."""
    import pyarrow as pa

    schema = pa.schema(
        [
            ("shard", pa.int32()),
            ("number", pa.int32()),
            ("num_rows", pa.int32()),
            ("lacks", pa.string()),
            ("is_single", pa.bool_()),
            ("mark", pa.int64()),
            ("values", pa.binary()),
            ("failure", pa.string()),
        ]
    )
    return pa.RecordBatch.from_pylist([row], schema=schema)


def _reply(shard: int, failure: str | None, values: np.ndarray | None) -> Any:
    import pyarrow as pa

    schema = pa.schema(
        [
            ("shard", pa.int32()),
            ("team", pa.int32()),
            ("failure", pa.string()),
            ("values", pa.binary()),
        ]
    )
    sums = None if values is None else values.tobytes()
    row = {"shard": shard, "team": shard // _FAN, "failure": failure, "values": sums}
    return pa.RecordBatch.from_pylist([row], schema=schema)


def _numbers(values: bytes | None) -> np.ndarray | None:
    return None if values is None else np.frombuffer(values)


def _plain(name: str) -> str:
    """A column's name without dots and quotes."""
    return "c" + name.encode().hex()


def greatest(frame: "DataFrame", name: str, asker: str) -> str:
    """A column's greatest value as a number, in Spark's words; timestamps in seconds."""
    kind = dict(frame.dtypes)[name].partition("(")[0]
    value = f"max({quoted(name)})"
    if kind in ("timestamp", "timestamp_ntz", "date"):
        return f"cast(cast({value} as timestamp) as double)"
    if kind not in _NUMBERS:
        message = f"{asker}: column {name!r} must hold numbers, dates or timestamps, not {kind}"
        raise ValueError(message)
    return f"cast({value} as double)"


def quoted(name: str) -> str:
    """A column's name, which may have dots and spaces, as Spark takes it."""
    return "`" + name.replace("`", "``") + "`"


@contextlib.contextmanager
def _in_words(session: "SparkSession") -> Iterator[None]:
    """Around what Spark does for us: of the pages that it raises, the sentence that says what is wrong."""
    try:
        yield
    except ValueError:  # our own
        raise
    except Exception as error:
        if _was_interrupted(error):
            raise KeyboardInterrupt from None
        if _is_over(session):
            message = "the Spark session is stopped; make another one"
            raise ClusterError(message) from None
        known = _worded(str(error))
        if known is not None:
            raise known from None
        message = f"Spark failed: {_cause(str(error))}"
        raise ClusterError(message) from error


def _worded(said: str) -> Exception | None:
    """What is wrong, if a page of Spark's and Java's says what we know of."""
    if "PYTHON_VERSION_MISMATCH" in said:
        message = "the workers run another version of Python than the driver: set PYSPARK_PYTHON to the same one"
        return ClusterError(message)
    if "No module named" in said:
        lost = said.partition("No module named")[2].split("\n")[0].strip()
        message = (
            f"the Python of the workers lacks the module {lost}: install it there, set PYSPARK_PYTHON to one "
            "that has it, or send a file of your own with spark.addArtifacts(path, pyfile=True)"
        )
        return ClusterError(message)
    if "StatusCode.UNAVAILABLE" in said:
        return ClusterError("the server of Spark Connect does not answer")
    if "SPARK_JOB_CANCELLED" in said:
        return ClusterError("the job was cancelled in Spark; the state is as it was")
    told = re.findall(r"Caused by: [\w.$]+: (\[[A-Z_.]+\] .+)", said)  # a sentence meant for people
    return ValueError(f"Spark cannot read the batch: {told[-1].strip()}") if told else None


def _cause(said: str) -> str:
    """The last cause that a page names, or its first line."""
    causes: list[str] = re.findall(r"^(?:Caused by)?: ?([\w.$]+: .+)", said, re.MULTILINE)
    return causes[-1] if causes else said.strip().partition("\n")[0] or "no reason given"


def _was_interrupted(error: BaseException) -> bool:
    """Whether Ctrl-C is behind an error: Spark cancels its jobs then, and complains of that."""
    seen: BaseException | None = error
    while seen is not None:
        if isinstance(seen, KeyboardInterrupt):
            return True
        seen = seen.__context__
    return False


def _is_over(session: Any) -> bool:
    """Whether a session, classic or of Connect, was stopped."""
    if hasattr(session, "is_stopped"):  # of Connect
        return bool(session.is_stopped)
    from py4j.protocol import Py4JError

    try:
        return bool(session._jsparkSession.sparkContext().isStopped())  # noqa: SLF001
    except (Py4JError, OSError):  # Java is gone
        return True


def _unpersist(frame: "DataFrame") -> None:
    with contextlib.suppress(Exception):  # the session may be over
        frame.unpersist()


def _import_spark() -> None:
    try:
        import pyspark
        import pyspark.sql  # noqa: F401
    except ImportError:
        message = "Spark needs the extra: pip install 'streambayes[spark]'"
        raise ImportError(message) from None
