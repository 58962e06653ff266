"""Who finds changes, how soon, and what else they report: beside river's drift detectors, on the same batches.

Streams of ten columns in batches of 100 rows, whose changes are known: none; jumps of one column; slow moves of one column over
20 batches; jumps of three columns together; jumps there and back; single batches that are off. Every column of a batch is
handed to every detector: river's, one for each column, row by row with their default settings; Bayesian online change-point detection
(Adams and MacKay 2007) of each column's batch means, with a hazard of one in 100 batches; one that always tells and one that never does;
the library's monitor, through a Gaussian model, batch by batch with its default settings. An alarm counts for a change if it names the column, from the change on
until ten batches after its end; all other alarms are false.

Writes drift.json, drift.md and a figure.

    python benchmarks/drift.py                # half an hour on two cores, most of it KSWIN's
    python benchmarks/drift.py --seeds 2      # fewer streams
"""

import argparse
import concurrent.futures
import dataclasses
import json
import multiprocessing
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from river import drift as river_drift
from scipy.stats import t as student_t

import streambayes as sb
from streambayes.reports._plotting import COLOURS, new_figure, save_figure

ROOT = Path(__file__).parents[1]
NUM_BATCHES, NUM_ROWS, NUM_COLUMNS = 200, 100, 10
NAMES = [f"x{place}" for place in range(NUM_COLUMNS)]
SIZE = 1.0  # standard deviations
GRACE = 10
HAZARD = 0.01
KINDS = ("none", "abrupt", "gradual", "partial", "recurring", "outliers")
DETECTORS = ("streambayes", "ADWIN", "KSWIN", "PageHinkley", "BOCPD", "always", "never")


@dataclasses.dataclass(frozen=True)
class Truth:
    """A change of one column, from its first batch to its last."""

    column: int
    first: int
    last: int


@dataclasses.dataclass(frozen=True)
class Stream:
    """Batches, shape (num_batches, num_rows, num_columns), and what changes in them."""

    rows: np.ndarray
    changes: tuple[Truth, ...]


def draw(kind: str, seed: int) -> Stream:
    """A stream with changes about every 30 batches."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    level = np.zeros((NUM_BATCHES, NUM_COLUMNS))
    changes = []
    starts = np.arange(30, NUM_BATCHES - 25, 30) + rng.integers(-5, 6, 5)
    for number, start in enumerate(starts if kind != "none" else ()):
        chosen = rng.choice(NUM_COLUMNS, 3 if kind == "partial" else 1, replace=False)
        if kind == "recurring":
            chosen = np.array([3])
        sign = -1.0 if kind == "recurring" and number % 2 else 1.0
        for column in chosen:
            last = start
            if kind == "gradual":
                last = start + 19
                level[start:, column] += SIZE * np.minimum(
                    np.arange(1, NUM_BATCHES - start + 1) / 20.0, 1.0
                )
            elif kind == "outliers":
                level[start, column] += SIZE
            else:
                level[start:, column] += sign * SIZE
            changes.append(Truth(int(column), int(start), int(last)))
    rows = level[:, None] + rng.normal(size=(NUM_BATCHES, NUM_ROWS, NUM_COLUMNS))
    return Stream(rows, tuple(changes))


def by_monitor(stream: Stream) -> Iterator[tuple[int, int, str]]:
    """Alarms of the library: batch, column and kind, as they were first and as they are known in the end."""
    told: dict[tuple[str, int], int] = {}
    monitor = sb.DriftMonitor()

    def note(record: sb.StepRecord) -> None:
        for event in monitor.take(record):
            told.setdefault((event.block, event.first), record.index)

    learner = sb.StreamLearner(sb.models.Gaussian(NAMES), sb.SVB())  # alike for every policy
    batches = [dict(zip(NAMES, batch.T, strict=True)) for batch in stream.rows]
    sb.run(learner, batches, prequential=False, progress=False, on_record=note)
    for event in monitor.events:
        yield told[event.block, event.first], NAMES.index(event.block), event.kind


def by_run_length(stream: Stream) -> Iterator[tuple[int, int, str]]:
    """Alarms where the most probable run of batch means begins later than it did a batch ago."""
    for column in range(NUM_COLUMNS):
        means = stream.rows[:, :, column].mean(1) * np.sqrt(NUM_ROWS)
        log_run = np.zeros(1)
        location, scale, shape, rate = (np.array([value]) for value in (0.0, 0.01, 1.0, 1.0))
        longest = 0
        for number, value in enumerate(means):
            spread = np.sqrt(rate * (scale + 1.0) / (shape * scale))
            fit = student_t.logpdf(value, 2.0 * shape, location, spread)
            grown = log_run + fit + np.log1p(-HAZARD)
            fresh = np.logaddexp.reduce(log_run + fit) + np.log(HAZARD)
            log_run = np.append(fresh, grown)
            log_run -= np.logaddexp.reduce(log_run)
            rate = np.append(1.0, rate + 0.5 * scale * (value - location) ** 2 / (scale + 1.0))
            location = np.append(0.0, (scale * location + value) / (scale + 1.0))
            scale, shape = np.append(0.01, scale + 1.0), np.append(1.0, shape + 0.5)
            best = int(log_run.argmax())
            if best < longest:
                yield number, column, "abrupt"
            longest = best


def always(stream: Stream) -> Iterator[tuple[int, int, str]]:
    """An alarm for every batch and column."""
    return ((n, column, "abrupt") for n in range(len(stream.rows)) for column in range(NUM_COLUMNS))


def never(_: Stream) -> Iterator[tuple[int, int, str]]:
    """No alarm."""
    return iter(())


def by_river(make: Callable[[int], object]) -> Callable[[Stream], Iterator]:
    """Alarms of a detector for each column, row by row; one a batch at most."""

    def alarms(stream: Stream) -> Iterator[tuple[int, int, str]]:
        for column in range(NUM_COLUMNS):
            detector = make(column)
            for number, batch in enumerate(stream.rows[:, :, column].tolist()):
                found = False
                for value in batch:
                    detector.update(value)
                    found = found or detector.drift_detected
                if found:
                    yield number, column, "abrupt"

    return alarms


SIDES: dict[str, Callable[[Stream], Iterator]] = {
    "streambayes": by_monitor,
    "ADWIN": by_river(lambda _: river_drift.ADWIN()),
    "KSWIN": by_river(lambda column: river_drift.KSWIN(seed=column)),
    "PageHinkley": by_river(lambda _: river_drift.PageHinkley()),
    "BOCPD": by_run_length,
    "always": always,
    "never": never,
}


def judge(kind: str, streams: list[Stream], found: list[list[tuple[int, int, str]]]) -> dict:
    """What the alarms were worth."""
    delays, hits, total, false, named, outliers = [], 0, 0, 0, [0, 0], 0
    for stream, alarms in zip(streams, found, strict=True):
        used = set()
        for change in stream.changes:
            total += 1
            window = range(change.first, change.last + GRACE + 1)
            mine = [alarm for alarm in alarms if alarm[1] == change.column and alarm[0] in window]
            used |= set(mine)
            if mine:
                hits += 1
                first = min(mine)
                delays.append(first[0] - change.first)
                outliers += first[2] == "outlier"
            # whatever is said in the batches of the change: does it name the right column?
            during = [alarm for alarm in alarms if alarm[0] in window]
            right = {other.column for other in stream.changes if other.first in window}
            named[0] += sum(alarm[1] in right for alarm in during)
            named[1] += len(during)
        false += len(set(alarms) - used)
    return {
        "kind": kind,
        "found": hits / total if total else None,
        "delay": float(np.mean(delays)) if delays else None,
        "right": named[0] / named[1] if named[1] else None,
        "false": 1000.0 * false / (len(streams) * NUM_BATCHES),
        "outliers": outliers / hits if kind == "outliers" and hits else None,
    }


def measured(kind: str, seeds: int) -> list[dict]:
    """How every detector does on streams of one kind."""
    streams = [draw(kind, seed) for seed in range(seeds)]
    rows = []
    for name, side in SIDES.items():
        print(f"{kind}: {name}", file=sys.stderr)
        found = [list(side(stream)) for stream in streams]
        rows.append({"detector": name, **judge(kind, streams, found)})
    return rows


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="streams of each kind")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks")
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures" / "drift")
    arguments = parser.parse_args()
    seeds = [arguments.seeds] * len(KINDS)
    with concurrent.futures.ProcessPoolExecutor(
        mp_context=multiprocessing.get_context("spawn")
    ) as pool:
        rows = [row for found in pool.map(measured, KINDS, seeds) for row in found]
    arguments.output.mkdir(parents=True, exist_ok=True)
    arguments.figures.mkdir(parents=True, exist_ok=True)
    about = {"seeds": arguments.seeds, "batches": NUM_BATCHES, "rows": NUM_ROWS}
    text = json.dumps({"about": about, "results": rows}, indent=1)
    (arguments.output / "drift.json").write_text(text + "\n", encoding="utf-8")
    (arguments.output / "drift.md").write_text(table(rows), encoding="utf-8")
    save_figure(figure(rows), arguments.figures, "detectors")


def table(rows: list[dict]) -> str:
    """The results as Markdown."""
    heads = (
        "changes",
        "detector",
        "found",
        "delay in batches",
        "right column",
        "false alarms per 1,000 batches",
        "called outlier",
    )
    lines = ["| " + " | ".join(heads) + " |", "|" + "---|" * len(heads)]
    for row in rows:
        cells = (
            row["kind"],
            row["detector"],
            _text(row["found"], ".0%"),
            _text(row["delay"], ".1f"),
            _text(row["right"], ".0%"),
            _text(row["false"], ".1f"),
            _text(row["outliers"], ".0%"),
        )
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


def figure(rows: list[dict]) -> object:
    """Changes found against false alarms, by kind."""
    drawn, axes = new_figure(11.0, 3.2, len(KINDS) - 1, sharey=True)
    colours = dict(zip(DETECTORS, list(COLOURS.values())[1:], strict=False))
    for ax, kind in zip(axes, KINDS[1:], strict=True):
        for row in rows:
            if row["kind"] == kind:
                name = row["detector"]
                marker = "o" if name == "streambayes" else "^"
                ax.plot(
                    max(row["false"], 0.1),
                    row["found"],
                    marker,
                    color=colours[name],
                    label=name,
                    markersize=8,
                )
        ax.set_xscale("log")
        ax.set_ylim(-0.05, 1.05)
        ax.set_title(kind)
        ax.set_xlabel("false alarms\nper 1,000 batches")
    axes[0].set_ylabel("share of changes found")
    axes[-1].legend(fontsize="x-small")
    return drawn


def _text(value: float | None, form: str) -> str:
    return "-" if value is None else format(value, form)


if __name__ == "__main__":
    main()
