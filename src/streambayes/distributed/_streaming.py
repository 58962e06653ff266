"""Spark's Structured Streaming: every micro-batch is learned on the cluster, exactly once."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

from streambayes._core.names import meant
from streambayes.checkpoint import Checkpoints
from streambayes.checkpoint._store import names_in
from streambayes.distributed._shards import ClusterShards
from streambayes.distributed._spark import Spark, greatest
from streambayes.learning import Resumable, StepRecord, StreamLearner, run

if TYPE_CHECKING:
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.query import StreamingQuery

__all__ = ["spark_stream"]


def spark_stream(
    learner: StreamLearner,
    frame: "DataFrame",
    *,
    checkpoint: str | Path,
    record: str | Path | None = None,
    on_record: Callable[[StepRecord], Any] | None = None,
    prequential: bool = False,
    drift: bool = True,
    time: str | None = None,
    seed: int = 0,
    trigger: Mapping[str, Any] | None = None,
    local_sweeps: int = 1,
    accelerate: bool = False,
) -> "StreamingQuery":
    """Learn a streaming DataFrame, each micro-batch as a batch; the query that does so has started.

    A state is saved together with the number of its micro-batch, so that one which Spark repeats after a failure is
    not learned twice. Call again with the same checkpoint to go on. With Spark Connect all of it runs on the server,
    where the folders lie then.

    Args:
        learner: The learner.
        frame: A streaming DataFrame with the model's columns.
        checkpoint: A folder: ``states`` in it has the last states, which ``sb.Checkpoints`` reads, and ``spark`` how
            far Spark has read.
        record: Folder to write a record of every step to, as for ``sb.run``.
        on_record: Called with every record, such as a ``DriftMonitor``.
        prequential: Whether to score each batch before learning from it: one more pass over the cluster.
        drift: As for ``sb.run``.
        time: A column of numbers or timestamps; a batch's time is its greatest. For policies that measure time.
        seed: For the start.
        trigger: When Spark begins a micro-batch, as ``DataStreamWriter.trigger`` takes it: such as
            ``{"processingTime": "10 seconds"}`` or ``{"availableNow": True}``.
        local_sweeps: As for ``Spark``.
        accelerate: As for ``Spark``.
    """
    _check_arguments(learner, frame, checkpoint, trigger, time)
    # these too are said now, not by the query
    Spark(frame.sparkSession, local_sweeps=local_sweeps, accelerate=accelerate)
    if "://" not in str(checkpoint):
        checkpoint = Path(checkpoint).absolute()  # Java has a working directory of its own
    states, own = f"{checkpoint}/states", f"{checkpoint}/spark"
    if isinstance(checkpoint, Path) and checkpoint.is_file():
        message = f"spark_stream: {checkpoint} is a file; checkpoint must be a folder"
        raise ValueError(message)
    _check_checkpoint(learner, Checkpoints(states), own)
    learn = _Epochs(
        learner,
        states,
        time,
        {"local_sweeps": local_sweeps, "accelerate": accelerate},
        {
            "record": record,
            "on_record": on_record,
            "prequential": prequential,
            "drift": drift,
            "seed": seed,
        },
    )
    writer = frame.writeStream.foreachBatch(learn).option("checkpointLocation", own)
    if trigger is not None:
        writer = writer.trigger(**trigger)
    return writer.start()


@final
class _Epochs:
    """Learns one micro-batch after the other; a value, since Spark Connect sends it to the server."""

    def __init__(
        self,
        learner: StreamLearner,
        states: str,
        time: str | None,
        cluster: dict[str, Any],
        settings: dict[str, Any],
    ) -> None:
        self._learner = learner
        self._states = states
        self._time = time
        self._cluster = cluster
        self._settings = settings

    def __call__(self, frame: "DataFrame", epoch: int) -> None:
        cluster = Spark(frame.sparkSession, **self._cluster)

        def batch() -> ClusterShards:
            time = None if self._time is None else _last_time(frame, self._time)
            return cluster.batch(frame, label=str(epoch), time=time, offset=epoch)

        run(
            self._learner,
            _Epoch(batch, epoch),
            checkpoint=self._states,
            resume=True,
            progress=False,
            **self._settings,
        )


@final
class _Epoch(Resumable):
    """The stream from one micro-batch on, to its end: none, if it was learned already."""

    definition: dict[str, Any] = {"spark": "micro-batches"}  # noqa: RUF012
    stopped = None

    def __init__(self, batch: Callable[[], ClusterShards], number: int) -> None:
        self._batch = batch
        self._number = number

    def __iter__(self) -> Iterator[ClusterShards]:
        return self.after(None)

    def after(self, offset: Any) -> Iterator[ClusterShards]:  # type: ignore[override]
        if offset is None or self._number > offset:
            yield self._batch()

    def commit(self, offset: Any) -> None:
        """Spark notes by itself that a micro-batch is done."""


def _last_time(frame: "DataFrame", name: str) -> float | None:
    row = frame.selectExpr(greatest(frame, name, "spark_stream")).first()
    return None if row is None or row[0] is None else float(row[0])


def _check_arguments(
    learner: Any, frame: Any, checkpoint: Any, trigger: Any, time: str | None
) -> None:
    """Raise ``TypeError`` or ``ValueError`` for what the query would fail with."""
    if not isinstance(learner, StreamLearner):
        message = f"spark_stream: learner must be a StreamLearner, got {type(learner).__name__}"
        raise TypeError(message)
    if not getattr(frame, "isStreaming", False):
        message = (
            "spark_stream: expected a streaming DataFrame, such as spark.readStream makes; a plain one is learned as "
            "sb.distributed.Spark(spark).batch(frame)"
        )
        raise TypeError(message)
    if not isinstance(checkpoint, str | Path):
        kind = type(checkpoint).__name__
        message = f"spark_stream: checkpoint must be a folder, got {kind}"
        raise TypeError(message)
    if trigger is not None and not isinstance(trigger, Mapping):
        message = f"spark_stream: trigger must be a mapping such as {{'availableNow': True}}, got {trigger!r}"
        raise TypeError(message)
    needed = [column.name for column in learner.model.columns]
    lost = [name for name in (*needed, *([time] if time else [])) if name not in frame.columns]
    if lost:
        present = ", ".join(repr(name) for name in frame.columns)
        message = f"spark_stream: the stream lacks column {lost[0]!r}{meant(lost[0], frame.columns)}; it has {present}"
        raise ValueError(message)
    if time is not None:
        greatest(frame, time, "spark_stream")
    if learner.forgetting.minibatch_size is not None:
        message = f"spark_stream: {learner.forgetting.name} learns minibatches one by one, which a cluster cannot do"
        raise ValueError(message)


def _check_checkpoint(learner: StreamLearner, states: Checkpoints, own: str) -> None:
    """Raise ``ValueError`` if one half of a checkpoint is gone, or if it is of another learner."""
    has_begun = any(name.isdigit() for name in names_in(f"{own}/commits"))
    if has_begun and not len(states):
        message = f"spark_stream: {own} says how far the stream was read, but its states are gone: choose another folder"
        raise ValueError(message)
    if len(states) and "metadata" not in names_in(own):
        message = f"spark_stream: {states} has states, but Spark's part of the checkpoint, {own}, is gone: choose another folder"
        raise ValueError(message)
    last = states.latest()
    if last is None:
        return
    held = (getattr(last.state, "model", None), getattr(last.state, "forgetting", None))
    if held != (learner.model, learner.forgetting):
        message = (
            f"spark_stream: {states} is of {held[0]!r} with {held[1]!r}, not of {learner.model!r} with "
            f"{learner.forgetting!r}; choose another folder"
        )
        raise ValueError(message)
