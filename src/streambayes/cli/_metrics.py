"""Numbers of a run for Prometheus, served to this machine alone."""

import dataclasses
import itertools
import time
from collections.abc import Sequence
from typing import Any, Self, final

from streambayes.cli._log import mean_rho
from streambayes.learning import Scores, StepRecord

__all__ = ["Metrics"]

_HOST = "127.0.0.1"
_SCORES = tuple(field.name for field in dataclasses.fields(Scores))
_BY_BLOCK = {
    "rho": "Share of the past that was kept.",
    "moved": "Divergence of what is believed after the batch from what was before, in nats.",
    "retained": "Rows of data that the block rests on.",
}
"""What a record knows of every block."""
_MOST_BLOCKS = 1000  # of more, the first: each is a series of its own to Prometheus


@final
class Metrics:
    """Serves the numbers of a run for as long as its ``with`` block lasts.

    Counters count from the start of the program, as is usual.

    Args:
        port: The port; 0 for one that is free.
    """

    def __init__(self, port: int) -> None:
        try:
            from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram
        except ImportError:
            message = "[metrics] needs the extra: pip install 'streambayes[metrics]'"
            raise ImportError(message) from None
        self._port = port
        registry = CollectorRegistry()
        self._registry = registry
        self._batches = Counter("streambayes_batches", "Batches learned.", registry=registry)
        self._rows = Counter("streambayes_rows", "Rows learned.", registry=registry)
        self._late = Counter(
            "streambayes_late_rows", "Rows too late for their batch.", registry=registry
        )
        self._changes = Counter("streambayes_drift_events", "Changes found.", registry=registry)
        self._bound = Gauge("streambayes_bound", "Bound of the last batch.", registry=registry)
        self._rho = Gauge(
            "streambayes_rho", "Mean share of the past that was kept.", registry=registry
        )
        self._seconds = Histogram(
            "streambayes_step_seconds", "Time that a batch took.", registry=registry
        )
        self._last = Gauge(
            "streambayes_last_batch_timestamp_seconds",
            "When the last batch was learned.",
            registry=registry,
        )
        self._score = Gauge(
            "streambayes_score",
            "Score of the last batch, in nats a row.",
            ["score"],
            registry=registry,
        )
        self._by_block = {
            name: Gauge(f"streambayes_block_{name}", text, ["block"], registry=registry)
            for name, text in _BY_BLOCK.items()
        }
        self._block_changes = Counter(
            "streambayes_block_drift_events", "Changes found.", ["block"], registry=registry
        )
        self._served: tuple[Any, Any] | None = None

    def __enter__(self) -> Self:
        from prometheus_client import start_http_server

        try:
            self._served = start_http_server(self._port, addr=_HOST, registry=self._registry)
        except OSError as error:
            reason = (error.strerror or str(error)).lower()
            message = f"[metrics] port: cannot listen on {_HOST}:{self._port} ({reason})"
            raise ValueError(message) from None
        return self

    def __exit__(self, *_: object) -> None:
        if self._served is not None:
            server, thread = self._served
            server.shutdown()
            server.server_close()
            thread.join()
            self._served = None

    @property
    def url(self) -> str:
        """Where they are served."""
        port = self._port if self._served is None else self._served[0].server_port
        return f"http://{_HOST}:{port}/metrics"

    def take(self, record: StepRecord, changed: Sequence[str]) -> None:
        """A batch was learned, and changes of these blocks were found that were not known before."""
        self._batches.inc()
        self._rows.inc(record.num_rows)
        self._late.inc(record.num_late)
        self._changes.inc(len(changed))
        for block in changed:
            self._block_changes.labels(block).inc()
        if record.bound is not None:
            self._bound.set(record.bound)
        rho = mean_rho(record)
        if rho is not None:
            self._rho.set(rho)
        for score in _SCORES:
            value = getattr(record, score)
            if value is not None:
                self._score.labels(score).set(value)
        for name, gauge in self._by_block.items():
            by_block = getattr(record, name)
            if isinstance(by_block, dict):
                for block, value in itertools.islice(by_block.items(), _MOST_BLOCKS):
                    gauge.labels(block).set(value)
        self._seconds.observe(record.seconds)
        self._last.set(time.time())
