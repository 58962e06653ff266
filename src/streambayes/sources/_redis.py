"""RedisStream: the rows of a Redis Stream."""

import re
import time
import warnings
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple, final

from streambayes.sources._rows import (
    check_malformed,
    columns_of,
    object_of,
    rows_or_warnings,
    same_fields,
)
from streambayes.sources._source import Chunk, Source
from streambayes.sources._text import Types, check_types

__all__ = ["RedisStream"]

_COUNT = 500  # entries to a call
_WAIT = 1000  # milliseconds for which a call waits for entries
_START = re.compile(r"[0-9]+(-[0-9]+)?|\$")


@final
class RedisStream(Source):
    """The entries of a Redis Stream, each a row; it waits for more.

    Where to go on from is decided by the saved state alone. A consumer group, which is made if it is not there, is set to
    the last entry whose rows are saved, for those who watch it or trim the stream; reading does not depend on it.

    Args:
        stream: The stream's key.
        url: The server's address.
        group: The consumer group.
        start: The entry after which to begin: ``"0"`` for all that are there, ``"$"`` for those to come.
        field: An entry's field that holds the row as a JSON object. Without it the entry's fields are the columns.
        follow: Whether to wait for more; or else the stream ends with the last entry that is there.
        types: Columns that are ``"number"`` or ``"text"``. Of others the first cell tells.
        malformed: ``"ignore"`` leaves out entries that cannot be read, each with a warning.
        patience: Seconds for which to wait for a server that is gone.
    """

    def __init__(
        self,
        stream: str,
        *,
        url: str = "redis://127.0.0.1:6379",
        group: str = "streambayes",
        start: str = "0",
        field: str | None = None,
        follow: bool = True,
        types: Mapping[str, str] | None = None,
        malformed: str = "error",
        patience: float = 60.0,
    ) -> None:
        try:
            import redis
        except ImportError:
            message = "RedisStream needs the extra: pip install 'streambayes[redis]'"
            raise ImportError(message) from None
        if not _START.fullmatch(start):
            message = f"RedisStream: start must be '0', '$' or an entry such as '1526919030474-0', got {start!r}"
            raise ValueError(message)
        if not 0 <= patience < float("inf"):
            message = (
                f"RedisStream: patience must be a number of seconds of at least 0, got {patience!r}"
            )
            raise ValueError(message)
        try:
            self._server: Any = redis.Redis.from_url(
                url, socket_timeout=10, socket_connect_timeout=5, retry=None
            )
        except ValueError as error:
            message = f"RedisStream: url: {error}"
            raise ValueError(message) from None
        self._url = url
        self._stream = stream
        self._group = group
        self._start = start
        self._field = field
        self._follow = follow
        self._types = check_types(types)
        self._ignore = check_malformed(malformed)
        self._patience = patience

    def __repr__(self) -> str:
        return f"RedisStream({self._stream!r}, group={self._group!r})"

    def read(self, start: Any, columns: list[str] | None) -> Iterator[Chunk | None]:
        types = Types(self._types, None if start is None else start["types"])
        last, number = "", None
        if start is not None:
            last, number = self._place(start)
        while True:
            try:
                if not last:
                    last, number = self._begin()
                self._check_kept(last, number)
                found = self._entries(last)
                if (
                    found
                ):  # it may have been made anew while the call waited; what was read may be trimmed
                    self._same_stream(last, number)
                else:
                    self._check_kept(last, number)
            except self._gone() as error:
                yield from self._wait_for_server(error)
                continue
            # entries that have no row are passed over together with the one that follows
            entries = [
                _Entry(name.decode(), None if number is None else number + place, fields)
                for place, (name, fields) in enumerate(found, start=1)
            ]
            rows = list(rows_or_warnings(entries, self._row, ignore=self._ignore))
            for some in same_fields([(None, row) for _, row in rows]):
                here, rows = [entry for entry, _ in rows[: len(some)]], rows[len(some) :]
                name = f"stream {self._stream!r}, entry {here[0].name}"
                arrays = columns_of([row for _, row in some], columns, types, name)
                passed = [(last, number), *((entry.name, entry.number) for entry in here)]
                yield Chunk(arrays, _Places(self._stream, passed, dict(types.told)), name)
                last, number = passed[-1]
            if entries:
                last, number, _ = entries[-1]
            else:
                if not self._follow:
                    return
                yield None

    def commit(self, offset: Any) -> None:
        import redis

        if offset is None:
            return
        entry, number = str(offset["entry"]), offset["number"]
        failures: tuple[type[Exception], ...] = (*self._gone(), redis.ResponseError)
        try:
            try:
                self._call("xgroup_create", self._group, id=entry, mkstream=True)
            except redis.ResponseError as error:
                if "BUSYGROUP" not in str(error):
                    raise
            self._call("xgroup_setid", self._group, id=entry, entries_read=number)
        except failures:
            return  # it is, with the next ones

    def _entries(self, last: str) -> list[tuple[bytes, dict[bytes, bytes]]]:
        found = self._server.xread(
            {self._stream: last}, count=_COUNT, block=_WAIT if self._follow else None
        )
        entries = found.values() if isinstance(found, dict) else [pair[1] for pair in found or []]
        return [entry for part in entries for entry in _flat(part)]

    def _row(self, entry: "_Entry") -> dict[str, Any]:
        where, fields = f"stream {self._stream!r}, entry {entry.name}", entry.fields
        if self._field is not None:
            text = fields.get(self._field.encode())
            if text is None:
                message = f"{where}: there is no field {self._field!r}"
                raise ValueError(message)
            return object_of(text, where)
        try:
            return {name.decode(): cell.decode() for name, cell in fields.items()}
        except UnicodeDecodeError:
            message = f"{where}: a field is not text in UTF-8"
            raise ValueError(message) from None

    def _begin(self) -> tuple[str, int | None]:
        """The entry after which to begin, and how many entries have come before, if the server knows."""
        info = self._info()
        if info is None:  # there is none yet
            return ("0" if self._start == "$" else self._start), 0
        added = info.get("entries-added")  # of Redis 7 and later
        if self._start == "$":
            return info["last-generated-id"].decode(), added
        is_first = self._start == "0" and added is not None
        return self._start, added - info["length"] if is_first else None

    def _place(self, offset: Any) -> tuple[str, int | None]:
        """The entry after which to go on."""
        if offset["stream"] != self._stream:
            message = f"RedisStream: the run stopped in stream {offset['stream']!r}, this is {self._stream!r}"
            raise ValueError(message)
        return str(offset["entry"]), offset["number"]

    def _check_kept(self, last: str, number: int | None) -> None:
        """Raise ``ValueError`` if entries were removed before they were read."""
        info = self._same_stream(last, number)
        if info is None:
            return  # it may still come
        # entries that were deleted one by one would be counted too
        are_trimmed = info.get("max-deleted-entry-id") == b"0-0"
        removed = info.get("entries-added", 0) - info["length"]
        if are_trimmed and number is not None and removed > number:
            message = (
                f"RedisStream: {removed - number} entries of {self._stream!r} were removed before they were read: "
                "their rows are lost"
            )
            raise ValueError(message)

    def _same_stream(self, last: str, number: int | None) -> Any:
        """What the server says of the stream; ``ValueError`` if it is not the one that was read so far."""
        info = self._info()
        if info is None and not number:
            return None
        if info is None or _order(info["last-generated-id"].decode()) < _order(last):
            message = f"RedisStream: entry {last} of {self._stream!r}, the last that was read, is gone with the stream"
            raise ValueError(message)
        first = info["first-entry"]
        are_gone = first is None or _order(first[0].decode()) > _order(last)
        if (
            are_gone
            and number is not None
            and info.get("entries-added", 0) - info["length"] < number
        ):
            # none that was read is there, but fewer were removed than were read
            message = (
                f"RedisStream: {self._stream!r} was deleted and made anew after entry {last}, the last that was read: "
                "rows that came between are lost; begin anew, without a checkpoint, to learn what is there"
            )
            raise ValueError(message)
        return info

    def _info(self) -> Any:
        """What the server says of the stream; ``None`` if there is none."""
        import redis

        try:
            return self._call("xinfo_stream")
        except redis.ResponseError as error:
            if "no such key" not in str(error):
                raise
            return None

    def _call(self, command: str, *args: Any, **options: Any) -> Any:
        import redis

        try:
            return getattr(self._server, command)(self._stream, *args, **options)
        except redis.ResponseError as error:
            if "WRONGTYPE" in str(error):
                message = f"RedisStream: {self._stream!r} is no stream on the server"
                raise ValueError(message) from None
            raise
        except redis.AuthenticationError as error:
            message = f"RedisStream: the server refuses who asks: {error}"
            raise ValueError(message) from None

    def _wait_for_server(self, error: Exception) -> Iterator[None]:
        """Until it is there; then the reader goes on from the last entry that has come."""
        address = self._url.partition("://")[2].rpartition("@")[2]
        warnings.warn(f"the Redis server at {address} is gone ({error}); waiting", stacklevel=3)
        started, pause = time.monotonic(), 0.1
        while True:
            try:
                self._server.ping()
            except self._gone() as again:
                if time.monotonic() - started > self._patience:
                    message = f"the Redis server at {address} cannot be reached: {again}"
                    raise ConnectionError(message) from None
                yield None
                time.sleep(pause)
                pause = min(2 * pause, 1.0)
            else:
                return

    @staticmethod
    def _gone() -> tuple[type[Exception], ...]:
        import redis

        return (redis.ConnectionError, redis.TimeoutError)


class _Entry(NamedTuple):
    """An entry, and how many there have been with it, if that is known."""

    name: str
    number: int | None
    fields: dict[bytes, bytes]


class _Places:
    """Offsets of the rows of a chunk: entries that were passed, with their numbers."""

    def __init__(
        self, stream: str, passed: list[tuple[str, int | None]], told: dict[str, str]
    ) -> None:
        self._stream = stream
        self._passed = passed
        self._told = told

    def __call__(self, taken: int) -> dict[str, Any]:
        entry, number = self._passed[taken]
        return {
            "stream": self._stream,
            "entry": entry,
            "number": number,
            "types": self._told,
        }


def _order(entry: str) -> tuple[int, int]:
    moment, _, number = entry.partition("-")
    return int(moment), int(number or 0)


def _flat(part: Any) -> Any:
    """Entries as pairs; newer protocols put them in one more list."""
    return part[0] if part and isinstance(part[0], list) else part
