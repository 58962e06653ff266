"""Numbers of a run for Prometheus, served to this machine alone."""

import time
from typing import Any, Self, final

from streambayes.cli._log import mean_rho
from streambayes.learning import StepRecord

__all__ = ["Metrics"]

_HOST = "127.0.0.1"


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

    def take(self, record: StepRecord, new_changes: int) -> None:
        """A batch was learned, and so many changes were found that were not known before."""
        self._batches.inc()
        self._rows.inc(record.num_rows)
        self._late.inc(record.num_late)
        self._changes.inc(new_changes)
        if record.bound is not None:
            self._bound.set(record.bound)
        rho = mean_rho(record)
        if rho is not None:
            self._rho.set(rho)
        self._seconds.observe(record.seconds)
        self._last.set(time.time())
