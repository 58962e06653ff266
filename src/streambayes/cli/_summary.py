"""What streambayes run prints: what it would do, what it has counted, how it has ended."""

import dataclasses
import re
from collections.abc import Iterable
from typing import Any, final

import typer
from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

from streambayes.cli._config import Config
from streambayes.cli._failure import LATE, WRONG, Failed, telling
from streambayes.cli._live import Past
from streambayes.cli._log import Log
from streambayes.cli._metrics import Metrics
from streambayes.cli._signals import SIGNALS
from streambayes.drift import Drift, DriftEvent, DriftMonitor
from streambayes.learning import Scores, StepRecord
from streambayes.learning._record import RECORDS
from streambayes.learning._schema import SchemaGuard
from streambayes.sources import Files

__all__ = ["Ended", "Tally", "show_plan", "show_summary", "source_of"]

_LATE_SHARE = 0.01
"""The most rows, as a share of all, that may come too late in a run that has gone well."""
_NO_CHANGE = ("provisional", "outlier")
"""Kinds of events that are said, but are no drift."""
_NAMED = 8
"""Names that are shown of a list."""
_REMARK = re.compile(r"(\d+) (rows left out|cells taken as missing)")


@final
class Tally:
    """Counts what the records of a run say, and passes it on.

    Args:
        **drift: Settings of ``DriftMonitor``.
    """

    def __init__(self, **drift: Any) -> None:
        self._monitor = DriftMonitor(**drift)
        self._known: dict[tuple[str, int], str] = {}
        self.num_batches = 0
        self.num_new = 0
        self.rows = 0
        self.test_rows = 0
        self.late_rows = 0
        self.remarks = {"rows left out": 0, "cells taken as missing": 0}

    @property
    def drift(self) -> Drift:
        """The changes so far."""
        return Drift.of(self._monitor)

    def count(self, record: StepRecord) -> list[DriftEvent]:
        """The next record; changes that are new, or turn out to be of another kind."""
        self.num_batches += 1
        self.rows += record.num_rows
        self.test_rows += record.num_test
        self.late_rows += record.num_late
        for remark in record.remarks:
            found = _REMARK.match(remark)
            if found is not None:
                self.remarks[found[2]] += int(found[1])
        told = [
            event
            for event in self._monitor.take(record)
            if event.is_told and self._known.get((event.block, event.first)) != event.kind
        ]
        self._known |= {(event.block, event.first): event.kind for event in told}
        return told

    @property
    def num_changes(self) -> int:
        """Changes that were told; a batch that stands out is none unless the next one confirms it."""
        return sum(kind not in _NO_CHANGE for kind in self._known.values())

    def tell(self, record: StepRecord, log: Log, metrics: Metrics | None) -> None:
        """The next record, which is new."""
        known = dict(self._known)
        told = self.count(record)
        self.num_new += 1
        changes = [event for event in told if event.kind not in _NO_CHANGE]
        if metrics is not None:
            fresh = [
                event.block
                for event in changes
                if known.get((event.block, event.first), "outlier") in _NO_CHANGE
            ]
            metrics.take(record, fresh)
        log.batch(record, self.num_changes)
        for event in told:
            change = event.changes[0] if event.changes else None
            log.say(
                "drift",
                event.sentence,
                level="warning" if event in changes else "info",
                block=event.block,
                kind=event.kind,
                first=event.first,
                last=event.last,
                label=event.label,
                parameter=None if change is None else change.parameter,
                before=None if change is None else change.before,
                after=None if change is None else change.after,
            )


@final
@dataclasses.dataclass(frozen=True)
class Ended:
    """How a run has ended, and what was found."""

    stopped: str | None
    tally: Tally
    seconds: float
    scores: Scores | None
    files: tuple[str, ...]

    @property
    def code(self) -> int:
        """The exit code; how a signal stopped the run comes first."""
        return SIGNALS.get(self.stopped or "", LATE if self.late else 0)

    @property
    def late(self) -> str | None:
        """What is said of too many rows that came too late."""
        late = self.tally.late_rows
        total = self.tally.rows + self.tally.test_rows + late
        if late <= _LATE_SHARE * total:
            return None
        return (
            f"{late:,} of {total:,} rows ({100 * late / total:.1f} %) came too late for their batch and belong to none; "
            "raise [batches] lateness, or send rows in order"
        )

    @property
    def is_stopped(self) -> bool:
        return self.stopped is not None

    @property
    def numbers(self) -> dict[str, Any]:
        """All of it, for a log."""
        tally = self.tally
        found = {} if self.scores is None else vars(self.scores)
        return {
            "batches": tally.num_batches,
            "new_batches": tally.num_new,
            "rows": tally.rows,
            "late_rows": tally.late_rows,
            "rows_left_out": tally.remarks["rows left out"],
            "cells_missing": tally.remarks["cells taken as missing"],
            "changes": len(tally.drift),
            "seconds": self.seconds,
            **found,
            "files": list(self.files),
        }


def show_summary(ended: Ended) -> None:
    tally = ended.tally
    now = "" if tally.num_new == tally.num_batches else f", {tally.num_new:,} of them now"
    rows = [
        ("batches", f"{tally.num_batches:,}{now}, in {ended.seconds:.1f} s"),
        ("rows", f"{tally.rows:,}"),
        ("late rows", f"{tally.late_rows:,}" if tally.late_rows else ""),
        *((name, f"{number:,}" if number else "") for name, number in tally.remarks.items()),
        ("scores", _scores(ended.scores)),
        ("changes", str(tally.drift)),
    ]
    _print_table((name, text) for name, text in rows if text)
    typer.echo("\n".join(["Written:", *(f"  {file}" for file in ended.files)]))


def _scores(scores: Scores | None) -> str:
    known = {} if scores is None else vars(scores)
    return ", ".join(
        f"{name.replace('_', ' ')} {value:.4f}"
        for name, value in known.items()
        if value is not None
    )


def show_plan(config: Config, past: Past, *, quiet: bool) -> None:
    """What a run would do; of files the first batch is read."""
    learner = config.learner
    num_blocks = sum(labels.size for labels in learner.model.labels().values())
    cut = ", ".join(f"{name} = {_short(value)}" for name, value in config.cut.items())
    split = ", ".join(
        f"{name} = {value}" for name, value in config.split.items() if value not in (None, 0.0)
    )
    rows = [
        ("model", type(learner.model).__name__),
        ("columns", _short([column.name for column in learner.model.columns])),
        ("blocks", f"{num_blocks:,}"),
        ("policy", learner.forgetting.name),
        ("source", source_of(config)),
        ("batches", cut),
        ("first batch", _first_batch(config)),
        ("settings", split),
        ("goes on after", f"{past.num_batches:,} batches" if past.num_batches else ""),
        ("metrics", "" if config.port is None else f"127.0.0.1:{config.port}"),
    ]
    if quiet:
        return
    _print_table((name, text) for name, text in rows if text)
    report = [str(config.folder / "report.html")] if config.report else []
    files = [str(config.folder / RECORDS), config.place, *report]
    typer.echo("\n".join(["Would be written:", *(f"  {file}" for file in files)]))


def _first_batch(config: Config) -> str:
    """How many rows it has; that they fit the model is checked. Other sources than files are not touched."""
    if not isinstance(config.source, Files):
        return ""
    try:
        with telling():
            batch = next(iter(config.stream), None)
            if batch is None:
                return "none: the files have no rows"
            columns = config.learner.model.columns
            passed = SchemaGuard(config.schema, columns).passed(batch, batch.columns)
            for column in columns:
                column.encode(passed.columns[column.name])
    except Failed as error:
        message = f"{config.path}: the first batch: {error}"
        raise Failed(WRONG, message) from None
    num_rows = len(next(iter(batch.columns.values())))
    return f"{num_rows:,} rows" if batch.label is None else f"{num_rows:,} rows ({batch.label})"


def source_of(config: Config) -> str:
    source = config.source
    if not isinstance(source, Files):
        return repr(source)
    more = len(source.paths) - 1
    written = f" ({source.written()})" if source.written() else ""
    return f"{source.paths[0]}{f' and {more:,} more files' if more else ''}{written}"


def _short(value: Any) -> str:
    if not isinstance(value, list):
        return str(value)
    more = f", and {len(value) - _NAMED:,} more" if len(value) > _NAMED else ""
    return f"{', '.join(map(str, value[:_NAMED]))}{more}"


def _print_table(rows: Iterable[tuple[str, str]]) -> None:
    table = Table(box=box.SIMPLE, show_header=False, pad_edge=False)
    table.add_column(no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text))
    Console().print(table)
