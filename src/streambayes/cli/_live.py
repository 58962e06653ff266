"""A stream that ends where the user says, or when a signal comes; and what it goes on from."""

import contextlib
import dataclasses
import datetime as dt
import math
import signal
import warnings
from collections.abc import Iterator
from typing import Any, Self, final

from streambayes.cli._config import Config
from streambayes.cli._failure import WRONG, Failed, telling
from streambayes.cli._signals import SIGNALS, handling
from streambayes.learning import Resumable, StepRecord, StreamBatch, read_records
from streambayes.learning._record import RECORDS
from streambayes.sources import SourceBatches

__all__ = ["LiveStream", "Past", "Until", "stopped_by_signals"]


@final
@dataclasses.dataclass(frozen=True)
class Until:
    """When to stop: after so many batches, or at a moment in seconds since 1970."""

    text: str
    num_batches: int | None = None
    moment: float | None = None

    @classmethod
    def of(cls, text: str, config: Config) -> Self:
        """From what was given on the command line."""
        if text.isdecimal() and int(text) >= 1:
            return cls(text, num_batches=int(text))
        try:
            moment = dt.datetime.fromisoformat(text)
        except ValueError:
            message = (
                f"--until must be a number of batches of at least 1, or a moment such as 2024-06-01 or "
                f"2024-06-01T12:00, got {text!r}"
            )
            raise Failed(WRONG, message) from None
        if not config.has_times:
            message = "--until: a moment needs batches with times, [batches] time"
            raise Failed(WRONG, message)
        aware = moment.replace(tzinfo=dt.UTC) if moment.tzinfo is None else moment
        return cls(text, moment=aware.timestamp())

    def is_reached(self, num_batches: int, last_time: float | None) -> bool:
        """Whether it is time to stop after so many batches, the last of which has this time."""
        if self.num_batches is not None:
            return num_batches >= self.num_batches
        return last_time is not None and self.moment is not None and last_time >= self.moment


@final
@dataclasses.dataclass(frozen=True)
class Past:
    """What a run goes on from.

    Attributes:
        num_batches: Batches that were learned.
        last_time: The time of the last of them.
    """

    num_batches: int = 0
    last_time: float | None = None

    @classmethod
    def of(cls, config: Config, command: str, *, resume: bool) -> Self:
        """From the last checkpoint; without ``resume`` there must be none."""
        with telling():
            if resume:
                with warnings.catch_warnings(action="ignore"):  # the run says so again
                    last = config.checkpoints.latest()
                if last is None:
                    return cls()
                last_time = float(getattr(last.state, "last_time", math.nan))
                return cls(last.num_batches, None if math.isnan(last_time) else last_time)
            records = config.folder / RECORDS
            has_records = records.exists() and records.stat().st_size > 0
            if len(config.checkpoints) or (has_records and not config.checkpoints.has_begun):
                message = (
                    f"{config.folder} already holds a run; go on with {command} --resume, or choose another "
                    "[output] folder"
                )
                raise Failed(WRONG, message)
            return cls()

    def records(self, config: Config) -> Iterator[StepRecord]:
        """Records of batches that were learned."""
        if self.num_batches and (config.folder / RECORDS).exists():
            for record in read_records(config.folder):
                if record.index >= self.num_batches:
                    return
                yield record


@final
class LiveStream(Resumable):
    """Batches that end where the user says, or when a signal comes.

    Args:
        batches: The batches.
        until: Where to end, if the user says so.
        past: What was learned before.
    """

    def __init__(self, batches: SourceBatches, until: Until | None, past: Past) -> None:
        self._batches = batches
        self._until = until
        self._past = past
        self._stopped: str | None = None
        self.has_begun = False

    def __len__(self) -> int:
        return len(self._batches)  # type: ignore[arg-type]  # TypeError if it is not known

    @property
    def definition(self) -> dict[str, Any]:
        return self._batches.definition

    @property
    def stopped(self) -> str | None:
        return self._stopped

    def stop(self, why: str) -> None:
        """End after the current batch."""
        self._stopped = why
        self._batches.stop(why)

    def __iter__(self) -> Iterator[StreamBatch]:
        return self.after(None)

    def after(self, offset: Any) -> Iterator[StreamBatch]:
        self.has_begun = True
        num_batches = self._past.num_batches
        self._stop_if_reached(num_batches, self._past.last_time)
        if self._stopped is not None:
            return
        for batch in self._batches.after(offset):
            if self._stopped is not None:  # the batch is read again by whoever goes on
                return
            yield batch
            num_batches += 1
            self._stop_if_reached(num_batches, batch.time)
            if self._stopped is not None:
                return

    def commit(self, offset: Any) -> None:
        self._batches.commit(offset)

    def _stop_if_reached(self, num_batches: int, last_time: float | None) -> None:
        if self._until is not None and self._until.is_reached(num_batches, last_time):
            self.stop(f"--until {self._until.text}")


@contextlib.contextmanager
def stopped_by_signals(stream: LiveStream) -> Iterator[None]:
    """The first signal ends the stream after the current batch; a second SIGINT interrupts at once."""

    def handle(number: int, _: object) -> None:
        name = signal.Signals(number).name
        if stream.stopped in SIGNALS and name == "SIGINT":
            raise KeyboardInterrupt
        stream.stop(name)

    with handling(handle):
        yield
