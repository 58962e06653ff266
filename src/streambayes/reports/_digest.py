"""Digest: a run in little, whatever its length: what reports and the live page show."""

import base64
import collections
import dataclasses
import math
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, final

import numpy as np

from streambayes.drift import Drift, DriftEvent, DriftMonitor
from streambayes.drift._event import as_number
from streambayes.learning import StepRecord
from streambayes.learning._record import RunFacts
from streambayes.reports._foreseen import Errors, Foreseen

__all__ = ["KINDS", "SCORES", "Digest", "brief", "short"]

SCORES = {
    "test_predictive": "held-out rows, predictive density",
    "test_bound": "held-out rows, bound (TMLL)",
    "prequential": "whole batch, before learning it",
}
"""Scores, the most telling first, and what they are of."""
KINDS = {
    "abrupt": ("sudden change", "sudden changes"),
    "gradual": ("slow drift", "slow drifts"),
    "recurring": ("return to an earlier state", "returns to an earlier state"),
    "new": ("new column", "new columns"),
    "outlier": ("unusual batch", "unusual batches"),
    "provisional": ("change or unusual batch", "changes or unusual batches"),
}
"""What happened, in words: once and several times."""
_WEIGHTS: dict[str, Callable[[StepRecord], int]] = {
    "test_predictive": lambda record: record.num_test,
    "test_bound": lambda record: record.num_test,
    "prequential": lambda record: record.num_rows + record.num_test,
}
"""Rows that a score is a mean over."""
_ALL = "all blocks"
_COLUMNS = 1024
_CELLS = 600_000
_RECENT = 20
_TOLD = 300
_PATTERNS = 200
_RESTLESS = ("trend", "jumps", "wanders", "fluctuates", "steady", "new")
_NAME = 160
_SPANS = {"rho": (0.0, 1.0), "moved": (-4.0, 4.0)}
"""What the colours of a map stand for; movement in powers of ten."""

Fold = Callable[[np.ndarray], np.ndarray]


@final
class Digest:
    """Takes records one by one and keeps, at constant memory, what a person looks at.

    A run of more than 1024 batches is kept in columns of several batches each: of shares of the past the
    lowest, of movements the largest, of parameters the last, of scores the mean.

    Args:
        name: What the run is called.
        **drift: Settings of ``DriftMonitor``: ``false_alarms``, ``min_change``, ``seasonal``.
    """

    def __init__(self, name: str, **drift: Any) -> None:
        self.name = name
        self.facts = RunFacts()
        self.ended: str | None = None
        self.num_batches = 0
        self.num_rows = 0
        self.num_late = 0
        self.num_test = 0
        self.seconds = 0.0
        self.outcomes: collections.Counter[str] = collections.Counter()
        self._monitor = DriftMonitor(**drift)
        self._drift: Drift | None = None
        self._foreseen = Foreseen()
        self._sums: dict[str, tuple[float, int]] = {}
        self._recent: collections.deque[tuple[int, float]] = collections.deque(maxlen=_RECENT)
        self._last_label = ""
        self._step = 1  # batches in a column
        self._labels: list[str] = []
        self._starts: list[int] = []
        self._rho = _Rows(_lowest)
        self._moved = _Rows(_largest)
        self._means = _Rows(_last)
        self._deviations = _Rows(_last)
        self._totals = _Rows(_sum)
        self._counts = _Rows(_sum)
        self._kept = (0.0, 0)
        self._least: tuple[float, str, str] | None = None

    def take(self, record: StepRecord) -> None:
        """The next record."""
        if self.num_batches % self._step == 0:
            self._open_column(record)
        column = len(self._labels) - 1
        self.num_batches += 1
        self.num_rows += record.num_rows
        self.num_late += record.num_late
        self.num_test += record.num_test
        self.seconds += record.seconds
        self.outcomes[record.outcome] += 1
        self._recent.append((record.num_rows + record.num_test, record.seconds))
        self._last_label = record.label
        self._monitor.take(record)
        self._foreseen.take(record)
        self._keep(column, record)
        self._moved.put(column, record.moved or {})
        parameters = [
            ((block, name), pair)
            for block, named in (record.parameters or {}).items()
            for name, pair in named.items()
        ]
        self._means.put(column, {name: mean for name, (mean, _) in parameters})
        self._deviations.put(column, {name: sd for name, (_, sd) in parameters})
        self._add_scores(column, record)

    @property
    def events(self) -> tuple[DriftEvent, ...]:
        """What is told of changes, in the order of first batches."""
        return tuple(event for event in self._monitor.events if event.is_told)

    @property
    def drift(self) -> Drift:
        """What has changed, and how blocks go on where nothing does."""
        if self._drift is None or self._drift.num_batches != self._monitor.num_batches:
            self._drift = Drift.of(self._monitor)
        return self._drift

    @property
    def foreseen(self) -> tuple[float, float, int] | None:
        """How near the next batch was to what was believed, as ``Foreseen.ratios``."""
        return self._foreseen.ratios()

    @property
    def tells_of_parameters(self) -> bool:
        """Whether records say where parameters are, so that changes can be found."""
        return bool(self._means.names)

    @property
    def span(self) -> tuple[str, str]:
        """What the first batch is called, and the last."""
        return (self._labels[0], self._last_label) if self._labels else ("", "")

    @property
    def scores(self) -> dict[str, float]:
        """Means over all rows."""
        return {
            name: total / num_rows
            for name in SCORES
            for total, num_rows in [self._sums.get(name, (0.0, 0))]
            if num_rows
        }

    @property
    def rows_per_second(self) -> float | None:
        """In the last batches."""
        seconds = sum(seconds for _, seconds in self._recent)
        return sum(rows for rows, _ in self._recent) / seconds if seconds > 0.0 else None

    def kept(self) -> tuple[float, float, str, str] | None:
        """The mean share of the past that was kept; the lowest, in which batch and of which block."""
        total, number = self._kept
        return None if self._least is None else (total / number, *self._least)

    def news(self, most_events: int = 50) -> dict[str, Any]:
        """What changes with every batch, as plain data."""
        events = self.events
        return {
            "name": short(self.name),
            "facts": dataclasses.asdict(self.facts),
            "ended": None if self.ended is None else short(self.ended, 400),
            "num_batches": self.num_batches,
            "num_rows": self.num_rows,
            "num_test": self.num_test,
            "rows_per_second": _digits(self.rows_per_second),
            "last": short(self._last_label),
            "scores": {name: _digits(score) for name, score in self.scores.items()},
            "titles": SCORES,
            "num_events": len(events),
            "events": [_plain(event) for event in events[-most_events:]],
        }

    def overview(self, most_columns: int = _COLUMNS) -> dict[str, Any]:
        """Curves and maps over all batches, as plain data."""
        blocks = self._block_names()
        most = min(most_columns, max(_CELLS // max(len(blocks), 1), 100))
        factor = max(1, math.ceil(len(self._labels) / most))
        return {
            "labels": [short(label) for label in self._labels[::factor]],
            "starts": self._starts[::factor],
            "step": self._step * factor,
            "titles": SCORES,
            "marks": self._marks(blocks),
            "kinds": {kind: once for kind, (once, _) in KINDS.items()},
            "patterns": self._patterns(),
            "curves": {
                str(name): [_digits(value) for value in row]
                for name, row in zip(self._totals.names, self._curves(factor), strict=True)
            },
            "blocks": [brief(name) for name in blocks],
            "maps": dict(self._maps(blocks, factor)),
        }

    def block(self, number: int, most_columns: int = _COLUMNS) -> dict[str, Any]:
        """What is believed of the parameters of one block over all batches, as plain data."""
        factor = max(1, math.ceil(len(self._labels) / most_columns))
        home = self._block_names()[number]
        rows = [row for row, name in enumerate(self._means.names) if name[0] == home]
        means, deviations = (
            self._folded(table, factor)[rows] for table in (self._means, self._deviations)
        )
        return {
            "number": number,
            "starts": self._starts[::factor],
            "labels": [short(label) for label in self._labels[::factor]],
            "parameters": [
                {
                    "name": brief(self._means.names[row][1]),
                    "mean": [
                        _digits(value, _certain(value, sd))
                        for value, sd in zip(mean, deviation, strict=True)
                    ],
                    "sd": [_digits(value) for value in deviation],
                }
                for row, mean, deviation in zip(rows, means, deviations, strict=True)
            ],
        }

    def all_parameters(self, most_bytes: int) -> dict[str, Any]:
        """What is believed of all parameters over all batches, packed into so many bytes."""
        names = self._means.names
        most = most_bytes // max(len(names) * 6, 1)  # two numbers of two bytes, as text
        factor = max(1, math.ceil(len(self._labels) / max(most, 50)))
        places = {block: place for place, block in enumerate(self._block_names())}
        means, deviations = (
            self._folded(table, factor) for table in (self._means, self._deviations)
        )
        return {
            "starts": self._starts[::factor],
            "labels": [short(label) for label in self._labels[::factor]],
            "names": [brief(name) for _, name in names],
            "homes": [places[home] for home, _ in names],
            "mean": _packed_rows(means),
            "sd": _packed_rows(deviations),
        }

    def told(self) -> list[dict[str, Any]]:
        """The most important events, as plain data, in the order of their first batches."""
        events = self.events
        ranked = sorted(range(len(events)), key=lambda place: -events[place].importance)
        return [_plain(events[place]) for place in sorted(ranked[:_TOLD])]

    def _marks(self, blocks: list[str]) -> list[list[int]]:
        """Every event: its first and last batch, the place of its kind and that of its block."""
        kinds, places = list(KINDS), {block: place for place, block in enumerate(blocks)}
        return [
            [event.first, event.last, kinds.index(event.kind), places.get(event.block, -1)]
            for event in self.events
        ]

    def _patterns(self) -> list[dict[str, Any]]:
        """How every block goes on and how near what was believed came to the next batch; the restless first."""
        ranked = sorted(self.drift.patterns, key=lambda one: _RESTLESS.index(one.kind))
        return [
            {
                "block": brief(one.block),
                "parameter": brief(one.parameter),
                "kind": one.kind,
                "words": short(one.words, 300),
                "errors": _shown(self._foreseen.errors(one.block, one.parameter)),
            }
            for one in ranked[:_PATTERNS]
        ]

    def _open_column(self, record: StepRecord) -> None:
        if len(self._labels) == _COLUMNS:
            for rows in self._tables():
                rows.halve()
            self._labels, self._starts = self._labels[::2], self._starts[::2]
            self._step *= 2
        self._labels.append(record.label)
        self._starts.append(record.index)

    def _keep(self, column: int, record: StepRecord) -> None:
        rho = record.rho if isinstance(record.rho, dict) else {_ALL: record.rho}
        known = {block: share for block, share in rho.items() if share is not None}
        self._rho.put(column, known)
        if known:
            total, number = self._kept
            self._kept = total + sum(known.values()), number + len(known)
            block, share = min(known.items(), key=lambda entry: entry[1])
            if self._least is None or share < self._least[0]:
                self._least = share, record.label, "" if block == _ALL else block

    def _add_scores(self, column: int, record: StepRecord) -> None:
        found = {}
        for name in SCORES:
            score = getattr(record, name)
            if score is None:
                continue
            weight = _WEIGHTS[name](record)
            total, num_rows = self._sums.get(name, (0.0, 0))
            self._sums[name] = total + score * weight, num_rows + weight
            found[name] = score
        self._totals.put(column, found)
        self._counts.put(column, dict.fromkeys(found, 1.0))

    def _tables(self) -> Iterator["_Rows"]:
        yield from (self._rho, self._moved, self._means, self._deviations)
        yield from (self._totals, self._counts)

    def _curves(self, factor: int) -> np.ndarray:
        """Mean scores."""
        return np.asarray(self._folded(self._totals, factor) / self._folded(self._counts, factor))

    def _folded(self, rows: "_Rows", factor: int) -> np.ndarray:
        return rows.folded(len(self._labels), factor)

    def _block_names(self) -> list[str]:
        """All blocks that the records tell of."""
        known = dict.fromkeys(home for home, _ in self._means.names)
        known |= dict.fromkeys(self._moved.names)
        known |= dict.fromkeys(name for name in self._rho.names if name != _ALL)
        return [str(name) for name in known]

    def _maps(self, blocks: list[str], factor: int) -> Iterator[tuple[str, dict[str, Any]]]:
        with np.errstate(divide="ignore"):
            tables = {
                "rho": (self._rho, self._folded(self._rho, factor)),
                "moved": (self._moved, np.log10(self._folded(self._moved, factor))),
            }
        for kind, (rows, values) in tables.items():
            if not (np.isfinite(values) | np.isneginf(values)).any():
                continue
            shared = rows.names == [_ALL]
            order = [0] if shared else [rows.places.get(block, -1) for block in blocks]
            padded = np.vstack([values, np.full(values.shape[1], np.nan)])
            lowest, highest = _SPANS[kind]
            yield (
                kind,
                {
                    "shared": shared,
                    "span": [lowest, highest],
                    "codes": _codes(padded[order], lowest, highest),
                },
            )


class _Rows:
    """A table that grows: a row for every name, a column for every batch or for several."""

    def __init__(self, fold: Fold) -> None:
        self.names: list[Any] = []
        self.places: dict[Any, int] = {}
        self.values = np.empty((0, _COLUMNS))
        self._fold = fold

    def put(self, column: int, entries: Mapping[Any, float | None]) -> None:
        """Values of a batch into a column, where others may be already."""
        if not self.places.keys() >= entries.keys():
            self._grow(entries)
        if not entries:
            return
        order = [self.places[name] for name in entries]
        new = np.array([math.nan if value is None else value for value in entries.values()])
        pair = np.stack([self.values[order, column], new], axis=-1)
        self.values[order, column] = self._fold(pair)

    def halve(self) -> None:
        """Two columns into one."""
        half = self._fold(self.values.reshape(len(self.values), _COLUMNS // 2, 2))
        self.values = np.full_like(self.values, np.nan)
        self.values[:, : half.shape[1]] = half

    def folded(self, num_columns: int, factor: int) -> np.ndarray:
        """So many columns into one."""
        held = self.values[:, :num_columns]
        padded = np.pad(held, ((0, 0), (0, -num_columns % factor)), constant_values=np.nan)
        return self._fold(padded.reshape(len(held), padded.shape[1] // factor, factor))

    def _grow(self, names: Iterable[Any]) -> None:
        fresh = [name for name in names if name not in self.places]
        self.places |= {name: len(self.names) + place for place, name in enumerate(fresh)}
        self.names += fresh
        self.values = np.vstack([self.values, np.full((len(fresh), _COLUMNS), np.nan)])


def _lowest(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.fmin.reduce(values, axis=-1, initial=np.nan))


def _largest(values: np.ndarray) -> np.ndarray:
    return np.asarray(np.fmax.reduce(values, axis=-1, initial=np.nan))


def _sum(values: np.ndarray) -> np.ndarray:
    known = ~np.isnan(values)
    return np.where(known.any(-1), np.where(known, values, 0.0).sum(-1), np.nan)


def _last(values: np.ndarray) -> np.ndarray:
    """The last one that is known."""
    known = ~np.isnan(values)
    place = values.shape[-1] - 1 - np.argmax(known[..., ::-1], axis=-1)
    return np.take_along_axis(values, place[..., None], axis=-1)[..., 0]


def _codes(values: np.ndarray, lowest: float, highest: float) -> str:
    """Numbers as bytes from 0 to 254, as text; 255 for what is not known."""
    unit = (np.clip(values, lowest, highest) - lowest) / (highest - lowest)
    codes = np.where(np.isnan(unit), 255, np.rint(254 * unit)).astype(np.uint8)
    return base64.b64encode(codes.tobytes()).decode()


def _packed_rows(values: np.ndarray) -> dict[str, Any]:
    """Rows of numbers as two bytes each between the least and the greatest of the row, as text; 65535 for
    what is not known.
    """
    known = np.where(np.isfinite(values), values, np.nan)
    lowest, highest = _lowest(known), _largest(known)
    spread = np.where(highest > lowest, highest - lowest, 1.0)
    unit = (known - lowest[:, None]) / spread[:, None]
    codes = np.where(np.isnan(unit), 65535, np.rint(65534 * unit)).astype("<u2")
    return {
        "lowest": [_digits(value, 17) for value in lowest],
        "highest": [_digits(value, 17) for value in highest],
        "codes": base64.b64encode(codes.tobytes()).decode(),
    }


def _plain(event: DriftEvent) -> dict[str, Any]:
    return {
        "block": brief(event.block),
        "kind": event.kind,
        "called": KINDS[event.kind][0],
        "first": event.first,
        "last": event.last,
        "label": short(event.label),
        "last_label": short(event.last_label),
        "what": short(event.what, 600),
        "sentence": short(event.sentence, 600),
        "size": _digits(max((change.size for change in event.changes), default=math.inf), 2),
        "evidence": _digits(event.evidence, 3),
    }


def _shown(errors: Errors | None) -> list[str] | None:
    """Errors to two digits."""
    return None if errors is None else [as_number(each, each / 10.0) for each in errors]


def _digits(value: float | None, number: int = 6) -> float | None:
    """To so many digits; ``None`` for what is not finite."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{number}g}")


def _certain(value: float, spread: float) -> int:
    """Digits that show a value with its spread: at least six."""
    if not (math.isfinite(value) and 0.0 < spread < math.inf) or not value:
        return 6
    places = math.floor(math.log10(abs(value))) - math.floor(math.log10(spread))
    return min(max(places + 4, 6), 17)


def brief(name: str, most: int = _NAME) -> str:
    """A name on one line, and not too long: its beginning and its end, by which names differ."""
    line = " ".join(name.split())
    return line if len(line) <= most else f"{line[: most // 2]}…{line[1 - (most + 1) // 2 :]}"


def short(text: str, most: int = _NAME) -> str:
    """On one line, and not too long."""
    line = " ".join(text[: 20 * most].split())
    return line if len(line) <= most else line[: most - 1] + "…"
