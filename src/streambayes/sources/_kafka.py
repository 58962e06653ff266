"""KafkaTopic: the messages of a Kafka topic, each a row."""

from collections.abc import Iterator, Mapping
from typing import Any, final

from streambayes.sources._rows import (
    check_malformed,
    columns_of,
    object_of,
    rows_or_warnings,
    same_fields,
)
from streambayes.sources._source import Chunk, Source
from streambayes.sources._text import Types, check_types

__all__ = ["KafkaTopic"]

_COUNT = 500  # messages to a call
_WAIT = 1.0  # seconds for which a call waits for messages
_OURS = {"enable.auto.commit": False, "enable.partition.eof": True}


@final
class KafkaTopic(Source):
    """The messages of all partitions of a topic, each a JSON object with a row; it waits for more.

    Where to go on from is decided by the saved state alone; the group's offsets are committed after it is saved, for
    those who watch them. Messages of one partition come in their order, those of several as they arrive. Messages
    without a value have no row and are passed over.

    Args:
        topic: The topic.
        servers: Addresses of brokers, separated by commas.
        group: The consumer group.
        start: ``"earliest"`` for all messages that are there, ``"latest"`` for those to come.
        follow: Whether to wait for more; or else the stream ends with the last messages that are there.
        types: Columns of text that are ``"number"`` or ``"text"``. Of others the first cell tells.
        malformed: ``"ignore"`` leaves out messages that cannot be read, each with a warning.
        settings: More settings of the client, such as ``{"security.protocol": "SSL"}``.
        patience: Seconds in which brokers must answer at the start; later on the client waits for them.
    """

    def __init__(
        self,
        topic: str,
        *,
        servers: str = "127.0.0.1:9092",
        group: str = "streambayes",
        start: str = "earliest",
        follow: bool = True,
        types: Mapping[str, str] | None = None,
        malformed: str = "error",
        settings: Mapping[str, Any] | None = None,
        patience: float = 60.0,
    ) -> None:
        try:
            import confluent_kafka  # noqa: F401
        except ImportError:
            message = "KafkaTopic needs the extra: pip install 'streambayes[kafka]'"
            raise ImportError(message) from None
        if start not in ("earliest", "latest"):
            message = f"KafkaTopic: start must be 'earliest' or 'latest', got {start!r}"
            raise ValueError(message)
        if not 0 < patience < float("inf"):
            message = f"KafkaTopic: patience must be a positive number of seconds, got {patience!r}"
            raise ValueError(message)
        self._patience = patience
        self._topic = topic
        self._start = start
        self._follow = follow
        self._types = check_types(types)
        self._ignore = check_malformed(malformed)
        more = dict(settings or {})
        ours = {"bootstrap.servers", "group.id", "auto.offset.reset", *_OURS} & more.keys()
        if ours:
            message = (
                f"KafkaTopic: {min(ours)!r} is not a setting of yours; servers, group and start are"
            )
            raise ValueError(message)
        self._settings = {
            "queued.max.messages.kbytes": 16384,  # a slow learner slows the reading
            "log_level": 2,
            **more,
            "bootstrap.servers": servers,
            "group.id": group,
            "auto.offset.reset": "error",
            **_OURS,
        }
        self._consumer: Any = None
        self._new_consumer().close()  # says what is wrong with its settings

    def __repr__(self) -> str:
        return f"KafkaTopic({self._topic!r}, group={self._settings['group.id']!r})"

    def read(self, start: Any, columns: list[str] | None) -> Iterator[Chunk | None]:
        types = Types(self._types, None if start is None else start["types"])
        self._consumer = self._new_consumer()
        try:
            if start is not None and start["topic"] != self._topic:
                message = f"KafkaTopic: the run stopped in topic {start['topic']!r}, this is {self._topic!r}"
                raise ValueError(message)
            at = self._assigned({} if start is None else start["partitions"])
            to_end = set(at)
            while self._follow or to_end:
                messages = []
                for message in self._consumer.consume(_COUNT, timeout=_WAIT):
                    ended = self._checked(message)
                    if ended is not None:
                        to_end.discard(ended)
                    elif message.value() is not None:
                        messages.append(message)
                found = rows_or_warnings(messages, self._row, ignore=self._ignore)
                rows = [(one.partition(), row, one.offset()) for one, row in found]
                yield from self._chunks(rows, at, columns, types)
                if not rows:
                    yield None
        finally:
            self._consumer.close()
            self._consumer = None

    def _chunks(
        self, rows: list[Any], at: dict[int, int], columns: list[str] | None, types: Types
    ) -> Iterator[Chunk]:
        first = 0
        for some in same_fields([(partition, row) for partition, row, _ in rows]):
            partition = some[0][0]
            offsets = [offset for *_, offset in rows[first : first + len(some)]]
            name = f"topic {self._topic!r}, partition {partition}, offset {offsets[0]}"
            arrays = columns_of([row for _, row in some], columns, types, name)
            places = _Places(self._topic, dict(at), partition, offsets, dict(types.told))
            yield Chunk(arrays, places, name)
            at[partition] = offsets[-1] + 1
            first += len(some)

    def _row(self, message: Any) -> dict[str, Any]:
        where = f"topic {self._topic!r}, partition {message.partition()}, offset {message.offset()}"
        return object_of(message.value(), where)

    def commit(self, offset: Any) -> None:
        from confluent_kafka import KafkaException, TopicPartition

        if offset is None:
            return
        offsets = [
            TopicPartition(self._topic, int(partition), place)
            for partition, place in offset["partitions"].items()
        ]
        try:
            if self._consumer is not None:
                self._consumer.commit(offsets=offsets, asynchronous=True)
                return
            consumer = self._new_consumer()
            try:
                consumer.commit(offsets=offsets, asynchronous=False)
            finally:
                consumer.close()
        except KafkaException:
            return  # they are, with the next ones

    def _new_consumer(self) -> Any:
        from confluent_kafka import Consumer, KafkaException

        try:
            return Consumer(self._settings)
        except (KafkaException, TypeError, ValueError) as error:
            message = f"KafkaTopic: the client refuses its settings: {_said(error)}"
            raise ValueError(message) from None

    def _assigned(self, known: Mapping[str, int]) -> dict[int, int]:
        """Where every partition is read from; new ones from their start."""
        from confluent_kafka import KafkaException, TopicPartition

        try:
            found = self._consumer.list_topics(self._topic, timeout=self._patience).topics[
                self._topic
            ]
            if found.error is not None:
                message = f"KafkaTopic: there is no topic {self._topic!r} ({_said(found.error)})"
                raise ValueError(message)
            at = {}
            for partition in sorted(found.partitions):
                place = TopicPartition(self._topic, partition)
                low, high = self._consumer.get_watermark_offsets(place, timeout=self._patience)
                begin = high if self._start == "latest" and not known else low
                at[partition] = int(known.get(str(partition), begin))
                if at[partition] < low:
                    message = (
                        f"KafkaTopic: {self._topic!r}, partition {partition}: the run stopped at offset "
                        f"{at[partition]}, and messages before {low} were removed: rows between them are lost"
                    )
                    raise ValueError(message)
                if at[partition] > high:
                    message = (
                        f"KafkaTopic: {self._topic!r}, partition {partition}: the run stopped at offset "
                        f"{at[partition]}, and there are {high}: the topic was made anew, and rows between are lost"
                    )
                    raise ValueError(message)
        except KafkaException as error:
            servers = self._settings["bootstrap.servers"]
            message = f"the Kafka brokers at {servers} cannot be reached: {_said(error)}"
            raise ConnectionError(message) from None
        self._consumer.assign([TopicPartition(self._topic, p, place) for p, place in at.items()])
        return at

    def _checked(self, message: Any) -> int | None:
        """The partition, if a message says that it is read to its end."""
        from confluent_kafka import KafkaError

        error = message.error()
        if error is None:
            return None
        if error.code() == KafkaError._PARTITION_EOF:  # noqa: SLF001  # its name
            return int(message.partition())
        sentence = f"KafkaTopic: {self._topic!r} cannot be read on: {_said(error)}"
        raise ConnectionError(sentence)


class _Places:
    """Offsets of the rows of a chunk."""

    def __init__(
        self,
        topic: str,
        at: dict[int, int],
        partition: int,
        offsets: list[int],
        told: dict[str, str],
    ) -> None:
        self._topic = topic
        self._at = at
        self._partition = partition
        self._next = [at[partition], *(offset + 1 for offset in offsets)]
        self._told = told

    def __call__(self, taken: int) -> dict[str, Any]:
        at = {**self._at, self._partition: self._next[taken]}
        places = {str(number): place for number, place in at.items()}
        return {"topic": self._topic, "partitions": places, "types": self._told}


def _said(error: Any) -> str:
    """What the client says, without its codes."""
    inner = error.args[0] if isinstance(error, Exception) and error.args else error
    return str(inner.str() if hasattr(inner, "str") else inner)
