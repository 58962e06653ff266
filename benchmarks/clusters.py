"""What a pass over a cluster costs, and from how many rows on that pays: Spark and Dask beside one machine.

    python -m benchmarks.clusters

Clusters are those of the tests: processes on this machine, one core to a worker. Writes benchmarks/clusters.json and
clusters.md, and docs/figures/clusters.
"""

import argparse
import contextlib
import dataclasses
import json
import sys
import tempfile
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from benchmarks.speed.machine import machine
from benchmarks.speed.timing import timed
from scipy.optimize import nnls
from tests.distributed import _clusters

import streambayes as sb
from streambayes.distributed import ClusterShards, Dask, Spark
from streambayes.reports._plotting import COLOURS, new_figure, save_figure

ROOT = Path(__file__).parents[1]
TURNS = 5
PARTITIONS = 4
ALONE = "one machine"


@dataclasses.dataclass(frozen=True)
class Case:
    """A model and the sizes to measure.

    Attributes:
        model: The model.
        sizes: Numbers of rows.
        passes: Whether a step is many passes over the rows, of which one is timed; otherwise a whole step is.
    """

    model: Any
    sizes: tuple[int, ...]
    passes: bool

    @property
    def columns(self) -> tuple[str, ...]:
        """Names of the columns."""
        return tuple(column.name for column in self.model.columns)


def names(number: int) -> list[str]:
    """Names of columns."""
    return [f"x{place}" for place in range(number)]


CASES = {
    "a pass of a mixture, 2 columns, 5 components": Case(
        sb.models.GaussianMixture(names(2), 5), (10_000, 100_000, 1_000_000, 10_000_000), True
    ),
    "a pass of a mixture, 16 columns, 20 components": Case(
        sb.models.GaussianMixture(names(16), 20), (10_000, 100_000, 1_000_000, 3_000_000), True
    ),
    "a batch of a regression on 10 columns": Case(
        sb.models.LinearRegression("x10", names(10), coefficients="conjugate"),
        (10_000, 100_000, 1_000_000, 5_000_000),
        False,
    ),
}


def draw(columns: tuple[str, ...], num_rows: int) -> dict[str, np.ndarray]:
    """Rows of five groups."""
    rng = np.random.default_rng(num_rows)
    centres = 2.0 * rng.normal(size=(5, len(columns)))
    group = rng.integers(0, 5, num_rows)
    return {
        name: centres[group, place] + rng.normal(size=num_rows)
        for place, name in enumerate(columns)
    }


def turns(function: Callable[[], Any]) -> float:
    """Seconds of a call, the median of some, without the first ones, in which programs are compiled."""
    for _ in range(2):
        function()
    return float(np.median([timed(function)[0] for _ in range(TURNS)]))


def alone(case: Case, learner: sb.StreamLearner, state: Any, rows: dict[str, np.ndarray]) -> float:
    """Seconds on one machine, with rows in memory: of a sweep, or of a step."""
    if not case.passes:
        return turns(lambda: learner.step(state, rows))
    few, many = (learner.replace(max_sweeps=number, tolerance=1e-300) for number in (1, 11))
    return (turns(lambda: many.step(state, rows)) - turns(lambda: few.step(state, rows))) / 10.0


def on_cluster(case: Case, learner: sb.StreamLearner, state: Any, batch: ClusterShards) -> float:
    """Seconds on a cluster that has the rows in memory: of a pass, or of a step."""
    if not case.passes:
        return turns(lambda: learner.step(state, batch))
    try:
        batch.num_rows(learner)
        passed = batch.passes(learner, state.scale)
        return turns(lambda: passed(state.belief))
    finally:
        batch.release()


@contextlib.contextmanager
def spark_batches(folder: Path, num_workers: int) -> Iterator[Callable[[Path], Any]]:
    """What makes a batch of files, in the memory of Spark's executors while it is used."""
    conf = {"spark.driver.memory": "2g", "spark.executor.memory": "5g"}
    with (
        _clusters.StandaloneCluster(folder / "cluster", num_workers, memory="6g") as cluster,
        _clusters.classic_session(folder / "session", cluster.url, conf) as spark,
    ):
        _clusters.wait_for_executors(spark, num_workers)

        @contextlib.contextmanager
        def batch(path: Path, **settings: Any) -> Iterator[ClusterShards]:
            frame = spark.read.parquet(str(path)).repartition(PARTITIONS).cache()
            frame.count()
            yield Spark(spark, **settings).batch(frame)
            frame.unpersist(blocking=True)

        yield batch


@contextlib.contextmanager
def dask_batches(_: Path, num_workers: int) -> Iterator[Callable[[Path], Any]]:
    """The same with Dask."""
    import dask.dataframe as dd
    from distributed import wait

    with _clusters.dask_cluster(num_workers) as client:

        @contextlib.contextmanager
        def batch(path: Path, **settings: Any) -> Iterator[ClusterShards]:
            frame = dd.read_parquet(path).persist()
            wait(frame)
            yield Dask(client, **settings).batch(frame)

        yield batch


CLUSTERS = {"Spark": spark_batches, "Dask": dask_batches}


def say(text: str) -> None:
    """A line of progress."""
    print(text, file=sys.stderr, flush=True)


def measure(
    folder: Path, most: int, names: list[str]
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Seconds for every case, size and side; and sweeps needed, of problems that need many."""
    costs, sweeps = [], []
    for name in names:
        open_cluster = CLUSTERS[name]
        for num_workers in (1, 2):
            side = f"{name}, {num_workers} worker{'s' * (num_workers > 1)}"
            with open_cluster(folder / side.replace(" ", "-"), num_workers) as batch_of:
                for title, case in CASES.items():
                    for size in [size for size in case.sizes if size <= most]:
                        costs += compared(title, case, size, side, batch_of, folder)
                if num_workers == 2:
                    sweeps += sweeps_needed(name, batch_of, folder)
    return costs, sweeps


def compared(
    title: str, case: Case, size: int, side: str, batch_of: Any, folder: Path
) -> list[dict[str, Any]]:
    """One machine and a cluster on the same rows, one after the other."""
    rows = draw(case.columns, size)
    path = written(rows, folder)
    learner = sb.StreamLearner(case.model, sb.HPP())
    first = {column: cells[:10_000] for column, cells in rows.items()}
    state = learner.step(learner.init(first), first)[0]
    found = {ALONE: alone(case, learner, state, rows)}
    with batch_of(path) as batch:
        found[side] = on_cluster(case, learner, state, batch)
    say(f"{title}, {size:,} rows: " + ", ".join(f"{who} {s:.4f} s" for who, s in found.items()))
    return [
        {"case": title, "rows": size, "side": who, "beside": side, "seconds": seconds}
        for who, seconds in found.items()
    ]


def written(rows: dict[str, np.ndarray], folder: Path) -> Path:
    """The rows as a folder of Parquet files, one for each partition."""
    path = folder / "rows"
    path.mkdir(exist_ok=True)
    table = pa.table(rows)
    size = -(-len(table) // PARTITIONS)
    for number in range(PARTITIONS):
        pq.write_table(table.slice(number * size, size), path / f"{number}.parquet")
    return path


def slow_mixture() -> tuple[sb.StreamLearner, dict[str, np.ndarray]]:
    """Groups that overlap."""
    rng = np.random.default_rng(1)
    rows = {"x0": rng.normal(2.5 * rng.integers(0, 3, 100_000), 1.0)}
    model = sb.models.GaussianMixture(["x0"], 3)
    return sb.StreamLearner(model, sb.HPP(), tolerance=1e-9, max_sweeps=2000), rows


def slow_chain() -> tuple[sb.StreamLearner, dict[str, np.ndarray]]:
    """Six columns, each of which depends on the one before; half of the cells are missing."""
    rng = np.random.default_rng(0)
    net, parents, rows, values = sb.Network(), [], {}, rng.normal(size=20_000)
    for name in names(6):
        parents = [net.normal(name, parents=parents)]
        values = 0.95 * values + 0.2 * rng.normal(size=20_000)
        rows[name] = np.where(rng.random(20_000) < 0.5, np.nan, values)
    return sb.StreamLearner(net, sb.HPP(), tolerance=1e-8, max_sweeps=2000), rows


PROBLEMS = {
    "three overlapping groups, 100,000 rows": (
        slow_mixture,
        ({"accelerate": False}, {"accelerate": True}),
    ),
    "a chain of six, half missing, 20,000 rows": (
        slow_chain,
        ({"local_sweeps": 1}, {"local_sweeps": 2}, {"local_sweeps": 4}),
    ),
}


def sweeps_needed(name: str, batch_of: Any, folder: Path) -> list[dict[str, Any]]:
    """Sweeps and seconds to the same end, on one machine and on a cluster of two workers."""
    found = []
    for title, (problem, choices) in PROBLEMS.items():
        learner, rows = problem()
        state = learner.init(rows)
        path = written(rows, folder)
        about = {"problem": title, "beside": name}
        found.append({**about, "side": ALONE, **ended(learner, state, rows)})
        for settings in choices:
            with batch_of(path, **settings) as batch:
                setting = ", ".join(f"{key}={value}" for key, value in settings.items())
                end = ended(learner, state, batch)
            found.append({**about, "side": f"{name}, {setting}", **end})
            say(str(found[-1]))
    return found


def ended(learner: sb.StreamLearner, state: Any, batch: Any) -> dict[str, Any]:
    """How a step ends, once all is compiled."""
    learner.replace(max_sweeps=2).step(state, batch)
    seconds, (_, info) = timed(lambda: learner.step(state, batch))
    return {
        "sweeps": int(info.num_sweeps),
        "seconds": seconds,
        "bound": float(info.bound),
        "outcome": info.outcome.name,
    }


def line(costs: list[dict[str, Any]], title: str, side: str) -> tuple[float, float]:
    """Seconds that a pass costs anyway, and seconds for a row: the line that is nearest in proportion."""
    points = [one for one in costs if (one["case"], one["side"]) == (title, side)]
    sizes = np.array([one["rows"] for one in points], float)
    seconds = np.array([one["seconds"] for one in points])
    design = np.stack([np.ones_like(sizes), sizes], 1) / seconds[:, None]
    return tuple(nnls(design, np.ones_like(sizes))[0])


def crossover(costs: list[dict[str, Any]], title: str, name: str, num_workers: int) -> float | None:
    """Rows from which on so many workers, each like the one measured, are faster than one machine; none if never."""
    fixed, each = line(costs, title, f"{name}, 1 worker")
    base, row = line(costs, title, ALONE)
    gain = row - each / num_workers
    return (fixed - base) / gain if gain > 0 else None


def tables(costs: list[dict[str, Any]], sweeps: list[dict[str, Any]], about: dict[str, Any]) -> str:
    """The results as Markdown, with the estimate."""
    lines = [
        "# Clusters",
        "",
        f"`python -m benchmarks.clusters`, {about['cores']} cores of {about['processor']}. Seconds, medians of {TURNS}; rows lie in memory.",
    ]
    for title, case in CASES.items():
        sides = list(dict.fromkeys(one["side"] for one in costs if one["case"] == title))
        sizes = [size for size in case.sizes if any(one["rows"] == size for one in costs)]
        heads = ["rows", *sides]
        lines += ["", f"## {title}", "", _row(heads), "|" + "---|" * len(heads)]
        for size in sizes:
            cells = [_seconds(costs, title, size, side) for side in sides]
            lines.append(_row([f"{size:,}", *cells]))
        fits = [line(costs, title, side) for side in sides]
        lines.append(_row(["a pass anyway", *(f"{fixed:.3g}" for fixed, _ in fits)]))
        lines.append(_row(["ns a row", *(f"{1e9 * each:.3g}" for _, each in fits)]))
        million = [f"{1e-6 / each:.3g}" if each else "-" for _, each in fits]
        lines.append(_row(["million rows a second, at most", *million]))
        for name in CLUSTERS:
            lines += ["", f"{name}: {_verdict(costs, title, name)}"]
    lines += ["", "## Sweeps needed", "", _row(["problem", "side", "sweeps", "seconds", "bound"])]
    lines.append("|" + "---|" * 5)
    for one in sweeps:
        cells = [one["problem"], one["side"], one["sweeps"], f"{one['seconds']:.2f}"]
        lines.append(_row([*cells, f"{one['bound']:.6g}"]))
    lines += ["", "## An estimate: 100 workers, 100 billion rows", "", *_estimate(costs)]
    return "\n".join(lines) + "\n"


def _estimate(costs: list[dict[str, Any]]) -> list[str]:
    found = [_row(["", "rows a worker", "seconds a pass", "GB a worker"]), "|---|---|---|---|"]
    for title, case in CASES.items():
        for name in CLUSTERS:
            fixed, each = line(costs, title, f"{name}, 1 worker")
            seconds = fixed + 1e9 * each
            held = 8e9 * len(case.columns) / 1e9 if case.passes else 0.0
            found.append(_row([f"{title}, {name}", "1e9", f"{seconds:,.0f}", f"{held:.0f}"]))
    return found


def _verdict(costs: list[dict[str, Any]], title: str, name: str) -> str:
    """From how many rows on the cluster is faster, reckoned from one worker."""
    parts = []
    for num_workers in (4, 8, 32, 100):
        found = crossover(costs, title, name, num_workers)
        pays = "never" if found is None else f"from {found:,.0f} rows on"
        parts.append(f"{num_workers} workers {pays}")
    return (
        "reckoned from the line of one worker, faster than one machine: " + "; ".join(parts) + "."
    )


def _seconds(costs: list[dict[str, Any]], title: str, size: int, side: str) -> str:
    found = [
        one["seconds"]
        for one in costs
        if (one["case"], one["rows"], one["side"]) == (title, size, side)
    ]
    return f"{np.median(found):.4f}" if found else "-"


def _row(cells: list[Any]) -> str:
    return "| " + " | ".join(map(str, cells)) + " |"


STYLES = {
    ALONE: ("black", "o", "-"),
    "Dask, 1 worker": ("sky", "s", "-"),
    "Dask, 2 workers": ("blue", "s", "-"),
    "Spark, 1 worker": ("orange", "^", "-"),
    "Spark, 2 workers": ("vermilion", "^", "-"),
}


def figure(costs: list[dict[str, Any]]) -> object:
    """Seconds against rows, measured; and by the fitted lines what more workers would take."""
    drawn, axes = new_figure(13.0, 3.9, len(CASES))
    for ax, title in zip(axes, CASES, strict=True):
        for side, (colour, marker, style) in STYLES.items():
            points = sorted(
                {one["rows"] for one in costs if (one["case"], one["side"]) == (title, side)}
            )
            seconds = [float(_seconds(costs, title, size, side)) for size in points]
            if points:
                look = {"color": COLOURS[colour], "marker": marker, "linestyle": style}
                ax.plot(points, seconds, markersize=4, label=side, **look)
        for name in CLUSTERS:
            fixed, each = line(costs, title, f"{name}, 1 worker")
            sizes = np.logspace(4, 9, 60)
            colour = STYLES[f"{name}, 2 workers"][0]
            label = f"{name}, 100 workers, reckoned"
            seconds = fixed + each * sizes / 100
            ax.plot(sizes, seconds, color=COLOURS[colour], linestyle=":", label=label)
        _, row = line(costs, title, ALONE)
        ax.plot([1e6, 1e9], [1e6 * row, 1e9 * row], color=COLOURS["black"], linestyle=":")
        ax.set(xscale="log", yscale="log", xlabel="rows")
        ax.set_title(title, fontsize=9)
    axes[0].set_ylabel("seconds")
    axes[0].legend(fontsize="x-small")
    return drawn


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--most", type=int, default=10**9, help="no sizes beyond so many rows")
    parser.add_argument("--clusters", nargs="+", choices=list(CLUSTERS), default=list(CLUSTERS))
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks")
    parser.add_argument("--figures", type=Path, default=ROOT / "docs" / "figures" / "clusters")
    arguments = parser.parse_args()
    warnings.filterwarnings("ignore", "PySpark does not yet fully support", FutureWarning)
    with tempfile.TemporaryDirectory() as folder:
        costs, sweeps = measure(Path(folder), arguments.most, arguments.clusters)
    others = [name for name in CLUSTERS if name not in arguments.clusters]
    if others:  # they keep what was measured of them before
        before = json.loads((arguments.output / "clusters.json").read_text(encoding="utf-8"))
        costs += [one for one in before["costs"] if one["beside"].startswith(tuple(others))]
        sweeps += [one for one in before["sweeps"] if one["beside"] in others]
    about = machine()
    arguments.output.mkdir(parents=True, exist_ok=True)
    arguments.figures.mkdir(parents=True, exist_ok=True)
    text = json.dumps({"machine": about, "costs": costs, "sweeps": sweeps}, indent=1)
    (arguments.output / "clusters.json").write_text(text + "\n", encoding="utf-8")
    (arguments.output / "clusters.md").write_text(tables(costs, sweeps, about), encoding="utf-8")
    save_figure(figure(costs), arguments.figures, "crossover")


if __name__ == "__main__":
    main()
