"""Dask: batches that are dask dataframes or arrays, learned where their partitions lie."""

import contextlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING, Any, final

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
from streambayes.distributed._work import Block, Part, added, failing, hold, perform
from streambayes.models import AbstractModel

if TYPE_CHECKING:
    from distributed import Client

__all__ = [
    "Dask",
    "add_replies",
    "hold_partition",
    "perform_order",
    "read_partition",
    "spread",
    "tell_parts",
]

_FAN = 64
"""Partitions that are added up before they reach the driver."""


@final
class Dask:
    """A Dask client whose workers learn batches that are dask dataframes or arrays.

    Args:
        client: A client of ``distributed``.
        local_sweeps: As for ``Spark``.
        accelerate: As for ``Spark``.
    """

    def __init__(
        self, client: "Client", *, local_sweeps: int = 1, accelerate: bool = False
    ) -> None:
        try:
            import distributed
        except ImportError:
            message = "Dask needs the extra: pip install 'streambayes[dask]'"
            raise ImportError(message) from None
        if not isinstance(client, distributed.Client):
            message = f"Dask: expected a distributed.Client, got {type(client).__name__}"
            raise TypeError(message)
        if client.asynchronous:
            message = "Dask: the client is asynchronous; give one made without asynchronous=True"
            raise TypeError(message)
        _check_open(client)
        self.client = client
        self._settings = check_settings(local_sweeps, accelerate)

    def __repr__(self) -> str:
        return f"Dask({self.client!r})"

    def batch(
        self, rows: Any, *, label: str | None = None, time: float | None = None, offset: Any = None
    ) -> ClusterShards:
        """A dask dataframe or array as one batch, for ``init``, ``step`` and ``score``, and for ``sb.run``.

        Args:
            rows: A dataframe with the model's columns, or an array with one column for each of them, in order.
            label: What to call the batch in tables and figures.
            time: A number on any clock, for policies that measure time.
            offset: Where a source stands after the batch, as JSON has it.
        """
        if not _is_table(rows):
            message = f"Dask: a batch must be a dask dataframe or array, got {type(rows).__name__}"
            raise TypeError(message)
        return _DaskShards(
            self.client,
            rows,
            label=label,
            time=time,
            offset=offset,
            **self._settings,
        )

    def batches(self, frame: Any, *, by: str, time: str | None = None) -> list[ClusterShards]:
        """One batch for each value of a column of a dataframe, in their order: a stream for ``sb.run``.

        Args:
            frame: The rows; ``frame.persist()`` spares reading them again for every batch.
            by: The column, such as a month.
            time: A column of numbers or timestamps; a batch's time is its greatest. For policies that measure time.
        """
        check_columns(getattr(frame, "columns", ()), by, time)
        if time is not None and frame[time].dtype.kind not in "iufM":
            kind = frame[time].dtype
            message = f"batches: column {time!r} must hold numbers, dates or timestamps, not {kind}"
            raise ValueError(message)

        def last(part: Any) -> Any:  # no shuffle for a few values
            groups = part.groupby(by, dropna=False, observed=True)
            return groups.size() if time is None else groups[time].max()

        with _in_words(self.client):
            parts = self.client.compute(frame.map_partitions(last, meta=(time, object))).result()
        lasts = parts.groupby(level=0, dropna=False, observed=True).max()
        moments = {
            _known(value): None if time is None else _number(top) for value, top in lasts.items()
        }
        return [
            self.batch(frame[frame[by] == value], label=str(value), time=moment)
            for value, moment in in_order(moments, by, time)
        ]


@final
class _DaskShards(ClusterShards):
    """Partitions; ``_held_rows`` has the futures of their blocks."""

    _where = "Dask"

    def __init__(self, client: "Client", rows: Any, **facts: Any) -> None:
        super().__init__(**facts)
        self._client = client
        self._rows = rows
        self._held_rows: list[Any] = []

    @staticmethod
    def _pickled(value: Any) -> bytes:
        import cloudpickle

        found: bytes = cloudpickle.dumps(value)
        return found

    def _place(self, model: AbstractModel[Any, Any], order: bytes) -> list[Part | Reply]:
        with _in_words(self._client):
            parts = self._client.compute(self._delayed([column.name for column in model.columns]))
            holding = sent("_dask", "hold_partition", order, lambda failure, *_: failure)
            self._held_rows = [
                self._client.submit(holding, shard, part, pure=False)
                for shard, part in enumerate(parts)
            ]
            telling = sent("_dask", "tell_parts", b"", lambda failure, _: failure)
            told = self._client.gather(self._client.map(telling, self._held_rows, pure=False))
            self._spread(
                [0 if isinstance(each, str) else sum(p.num_rows for p in each) for each in told]
            )
        return [
            each
            for shard, found in enumerate(told)
            for each in ([Reply(shard, found, None)] if isinstance(found, str) else found)
        ]

    def _spread(self, sizes: list[int]) -> None:
        """Move partitions that are held to workers with fewer rows to a thread, until none waits for another."""
        threads = self._client.nthreads()
        where = self._client.who_has(self._held_rows)
        mine: dict[str, list[int]] = {worker: [] for worker in threads}
        for place, future in enumerate(self._held_rows):
            workers = [worker for worker in where.get(future.key, ()) if worker in mine]
            if workers:
                mine[workers[0]].append(place)
        for place, worker in spread(sizes, mine, threads):
            self._held_rows[place] = self._client.submit(
                lambda held: held,
                self._held_rows[place],
                workers=[worker],
                allow_other_workers=True,
                pure=False,
            )

    def _delayed(self, names: list[str]) -> list[Any]:
        """Partitions, one after the other."""
        if not self._client.nthreads():
            message = "Dask: the cluster has no workers yet; waiting for one"
            warnings.warn(message, stacklevel=2)
        rows = self._rows
        if not hasattr(rows, "columns"):
            whole = rows.rechunk({1: -1}) if rows.ndim == 2 else rows
            return list(whole.to_delayed().ravel())
        check_complete(names, rows.columns)
        return list(rows.to_delayed())

    def _read(self, model: AbstractModel[Any, Any], order: bytes, *, add: bool) -> list[Reply]:
        with _in_words(self._client):
            parts = self._client.compute(self._delayed([column.name for column in model.columns]))
            return self._replies("read_partition", order, parts, add=add)

    def _perform(self, order: bytes, *, add: bool) -> list[Reply]:
        with _in_words(self._client):
            return self._replies("perform_order", order, self._held_rows, add=add)

    def _replies(self, name: str, order: bytes, parts: list[Any], *, add: bool) -> list[Reply]:
        performing = sent("_dask", name, order, _unable())
        replies = [
            self._client.submit(performing, shard, part, pure=False)
            for shard, part in enumerate(parts)
        ]
        if add and len(replies) > _FAN:
            adding = sent("_dask", "add_replies", b"", _unable())
            replies = [
                self._client.submit(adding, start, replies[start : start + _FAN], pure=False)
                for start in range(0, len(replies), _FAN)
            ]
        return [Reply(*reply) for reply in self._client.gather(replies)]

    def _let_go(self) -> None:
        self._held_rows = []  # Dask frees what no future is left of


def _is_table(rows: Any) -> bool:
    """Whether these are a dataframe, a series or an array of Dask's: not a bag, nor a delayed value."""
    from dask.delayed import Delayed

    is_dask = hasattr(rows, "dask") and hasattr(rows, "to_delayed")
    return is_dask and hasattr(rows, "ndim") and not isinstance(rows, Delayed)


@contextlib.contextmanager
def _in_words(client: "Client") -> Iterator[None]:
    """Around what Dask does for us: a sentence where it cannot be done any more."""
    from distributed import CancelledError

    _check_open(client)
    try:
        yield
    except CancelledError as error:
        _check_open(client)
        message = (
            f"Dask has cancelled the work, or lost the rows: {str(error).splitlines()[0]} Rows that were persisted "
            "are gone when the client that did so is closed"
        )
        raise ClusterError(message) from None


def _check_open(client: "Client") -> None:
    if client.status != "running":
        message = f"Dask: the client is {client.status}; make another one"
        raise ClusterError(message)


def _known(value: Any) -> Any:
    """A value of pandas; ``None`` for any that is missing."""
    import pandas as pd

    return None if pd.isna(value) else value


def _number(moment: Any) -> float | None:
    """A moment in seconds since 1970; a number as it is."""
    if _known(moment) is None:
        return None
    return float(moment.timestamp() if hasattr(moment, "timestamp") else moment)


def spread(
    sizes: list[int], mine: dict[str, list[int]], threads: dict[str, int]
) -> list[tuple[int, str]]:
    """Which partitions to move where, so that the worker with the most rows to a thread has fewer of them.

    Args:
        sizes: Rows of each partition.
        mine: The partitions of each worker.
        threads: The threads of each worker.
    """
    places = {worker: sorted(held, key=lambda place: sizes[place]) for worker, held in mine.items()}
    loads = {worker: sum(sizes[place] for place in held) for worker, held in places.items()}
    moves: dict[int, str] = {}
    for _ in sizes:
        most = max(loads, key=lambda worker: loads[worker] / threads[worker])
        least = min(loads, key=lambda worker: loads[worker] / threads[worker])
        movable = [
            place
            for place in places[most]
            if sizes[place]
            and (loads[least] + sizes[place]) / threads[least] < loads[most] / threads[most]
        ]
        if most == least or not movable:
            break
        place = movable[-1]
        places[most].remove(place)
        places[least].append(place)
        loads[most] -= sizes[place]
        loads[least] += sizes[place]
        moves[place] = least
    return list(moves.items())


def hold_partition(order: bytes, shard: int, rows: Any) -> list[Block] | str:
    """For the workers: the rows of a partition in blocks, or what is wrong with them."""
    blocks: list[Block] = []
    with failing(shard) as said:
        blocks = list(hold(order, shard, [rows]))
    return said[0] if said else blocks


def tell_parts(_: bytes, held: list[Block] | str) -> list[Part] | str:
    """For the workers: what the driver is told of a partition that is held."""
    if isinstance(held, str):
        return held
    alike: dict[tuple[str, bool], list[Part]] = {}
    for block in held:
        alike.setdefault(block.facts[3:5], []).append(block.facts.part)
    return [
        parts[0]._replace(
            num_rows=sum(part.num_rows for part in parts),
            largest=max(part.largest for part in parts),
        )
        for parts in alike.values()
    ]


def read_partition(order: bytes, shard: int, rows: Any) -> Reply:
    """For the workers: an order carried out with the rows of a partition, none of which are held."""
    return perform_order(order, shard, hold(order, shard, [rows]))


def perform_order(order: bytes, shard: int, blocks: Iterable[Block]) -> Reply:
    """For the workers: an order carried out with the blocks of a partition."""
    found = None
    with failing(shard) as said:
        found = perform(order, blocks)
    return Reply(shard, said[0] if said else None, found)


def add_replies(_: bytes, shard: int, replies: list[Reply]) -> Reply:
    """For the workers: replies of partitions that follow each other, added up in their order."""
    each = [Reply(*reply) for reply in replies]
    failed = [reply.failure for reply in each if reply.failure is not None]
    parts = [reply.values for reply in each if reply.values is not None]
    return Reply(shard, failed[0] if failed else None, None if failed else added(parts))


def _unable() -> Callable[..., Any]:
    """What Dask gets instead of a result from a worker without the library; sent by value."""

    def say(failure: str, shard: int, *_: Any) -> Any:
        return shard, failure, None

    return say
