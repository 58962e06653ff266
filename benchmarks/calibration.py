"""How often intervals hold: what they promise beside what was counted, on streams with known truth.

Streams without drift are drawn from a network again and again, each time with other parameters. A
learner that forgets nothing sees a few batches. Counted is how often the truth lies in its intervals
for parameters, and how often values of rows it has not seen lie in its intervals for predictions.
Standard errors are those of the mean over replicates, so that what replicates share does not count
twice. A promise of exactly 90 per cent cannot be kept for counts: there the promise is the mean
probability of the whole numbers within the ends.

    python benchmarks/calibration.py [--replicates 300] [--only TEXT] [--output FILE]
"""

import argparse
import dataclasses
import datetime as dt
import json
import platform
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import streambayes as sb

NUM_BATCHES = 3
NUM_ROWS = 100
LEVELS = (0.5, 0.9)
GAP = 0.3


@dataclasses.dataclass(frozen=True)
class Case:
    """What is measured, and where the answer should lie.

    Attributes:
        title: What to call it.
        model: Where rows come from, and what learns them.
        missing: Share of cells that are left out, by column.
        target: The variable that is predicted; parameters are looked at if there is none.
        bounds: For parameters, where the coverage of 90 per cent intervals should lie; for
            predictions, how far from its promise a coverage may be. Only measured if there are none.
    """

    title: str
    model: sb.models.AbstractNetwork
    missing: Mapping[str, float] = dataclasses.field(default_factory=dict)
    target: str | None = None
    bounds: tuple[float, float] | float | None = None


@dataclasses.dataclass(frozen=True)
class Finding:
    """One number: how often intervals held."""

    case: str
    promised: float
    found: float
    standard_error: float
    replicates: int
    intervals: int
    holds: bool | None


def network(declare: Callable[[sb.Network], Any]) -> sb.Network:
    """A network of a few declarations."""
    net = sb.Network()
    declare(net)
    return net


def regression(coefficients: str) -> sb.models.LinearRegression:
    """Two regressors."""
    return sb.models.LinearRegression("y", ["a", "b"], coefficients)  # type: ignore[arg-type]


def cases() -> list[Case]:
    """Everything that is measured."""
    kinds = ("joint", "independent", "conjugate")
    letters = sb.models.NaiveBayes(
        "label", 2, normal=["x", "y"], categorical={"c": 3}, poisson=["k"]
    )
    leaves = dict.fromkeys(("x", "y", "c", "k"), GAP)
    times = network(lambda net: net.exponential("t", parents=[net.bernoulli("busy")]))
    counts = network(lambda net: net.poisson("k", parents=[net.bernoulli("busy")]))
    of_leaves = (0.85, 0.95)
    parameters = [
        Case("naive Bayes, leaves missing", letters, leaves, bounds=of_leaves),
        Case(
            "Gaussian, cells missing",
            sb.models.Gaussian(["x", "y"]),
            {"x": GAP, "y": GAP},
            bounds=of_leaves,
        ),
        Case("times, cells missing", times, {"t": GAP}, bounds=of_leaves),
        *(
            Case(
                f"{kind} regression, response missing",
                regression(kind),
                {"y": GAP},
                None,
                of_leaves,
            )
            for kind in kinds
        ),
        *(
            Case(f"{kind} regression, regressors missing", regression(kind), {"a": GAP, "b": GAP})
            for kind in kinds
        ),
        Case(
            "full covariance, cells missing",
            sb.models.MultivariateGaussian(["x", "y", "z"]),
            {"x": GAP, "y": GAP, "z": GAP},
        ),
    ]
    predictions = [
        *(Case(f"{kind} regression", regression(kind), {}, "y", 0.03) for kind in kinds),
        Case("mixture, y given x", sb.models.GaussianMixture(["x", "y"], 2), {}, "y", 0.03),
        Case(
            "mixture with full covariance, y given x",
            sb.models.GaussianMixture(["x", "y"], 2, "full"),
            {},
            "y",
            0.03,
        ),
        Case("counts", counts, {}, "k", 0.03),
        Case("times", times, {}, "t", 0.03),
    ]
    return [*parameters, *predictions]


def states(case: Case, replicates: int) -> Iterator[tuple[Any, sb.LearnerState, Any]]:
    """For every replicate, its stream, what was learned of all batches but the last, and the last."""
    learner = sb.StreamLearner(case.model, sb.SVB())
    for seed in range(replicates):
        stream = sb.datasets.make_drift(
            case.model,
            "none",
            num_batches=NUM_BATCHES + 1,
            num_rows=NUM_ROWS,
            missing=case.missing,
            seed=seed,
        )
        *seen, unseen = stream
        state = learner.init(seen[0])
        for batch in seen:
            state, _ = learner.step(state, batch)
        yield stream, state, unseen


def of_parameters(case: Case, replicates: int) -> list[Finding]:
    """How often 90 per cent intervals hold the truth: over all parameters, and by their kind."""
    held: dict[str, list[list[bool]]] = {}
    for stream, state, _ in states(case, replicates):
        truth = stream.truth(0)
        now: dict[str, list[bool]] = {"": []}
        for row in state.summary(0.9).rows:
            kind = ", " + row.name.partition(" of ")[0]
            inside = row.lower <= truth[row.name] <= row.upper
            now[""].append(inside)
            now.setdefault(kind, []).append(inside)
        for kind, each in now.items():
            held.setdefault(kind, []).append(each)
    findings = []
    for kind, each in held.items():
        bounds = case.bounds if kind == "" else None
        found = finding(case.title + kind, 0.9, each)
        if isinstance(bounds, tuple):
            found = dataclasses.replace(found, holds=bounds[0] <= found.found <= bounds[1])
        findings.append(found)
    return findings if len(findings) > 2 else findings[:1]


def of_predictions(case: Case, replicates: int) -> list[Finding]:
    """How often intervals of both levels hold what rows have in a column that is hidden."""
    learner = sb.StreamLearner(case.model, sb.SVB())
    held: dict[float, list[list[bool]]] = {level: [] for level in LEVELS}
    promises: dict[float, list[float]] = {level: [] for level in LEVELS}
    for _, state, unseen in states(case, replicates):
        values = unseen.columns[str(case.target)]
        for level in LEVELS:
            found = learner.predict(state, unseen, case.target, level=level)
            assert isinstance(found, sb.Prediction)
            held[level].append(list((found.lower <= values) & (values <= found.upper)))
            promises[level].append(promise(case, state, unseen, found))
    findings = []
    for level in LEVELS:
        promised = float(np.mean(promises[level]))
        found = finding(f"{case.title}, {level:.0%} intervals", promised, held[level])
        if isinstance(case.bounds, float):
            near = abs(found.found - promised) <= case.bounds
            found = dataclasses.replace(found, holds=near)
        findings.append(found)
    return findings


def promise(case: Case, state: sb.LearnerState, rows: Any, found: sb.Prediction) -> float:
    """The probability of the intervals: their level, or for counts what whole numbers add to it."""
    if case.title != "counts":
        return found.level
    rate = state.posterior["k"]
    busy = np.asarray(rows.columns["busy"], int)
    shape, inverse_scale = np.asarray(rate.shape)[busy], np.asarray(rate.rate)[busy]
    counts = stats.nbinom(shape, inverse_scale / (1.0 + inverse_scale))
    return float((counts.cdf(found.upper) - counts.cdf(found.lower - 1.0)).mean())


def finding(title: str, promised: float, held: list[list[bool]]) -> Finding:
    """The mean over replicates, each of which has as many intervals."""
    each = np.array([np.mean(inside) for inside in held])
    return Finding(
        case=title,
        promised=promised,
        found=float(each.mean()),
        standard_error=float(each.std(ddof=1) / np.sqrt(len(each))),
        replicates=len(each),
        intervals=sum(map(len, held)),
        holds=None,
    )


def table(findings: list[Finding]) -> str:
    """A line for each finding."""
    head = f"{'':58}{'promised':>9}{'found':>8}{'error':>7}{'intervals':>11}  holds"
    verdicts = {True: "yes", False: "NO", None: ""}
    lines = [
        f"{found.case:58}{100 * found.promised:9.1f}{100 * found.found:8.1f}"
        f"{100 * found.standard_error:7.2f}{found.intervals:11}  {verdicts[found.holds]}"
        for found in findings
    ]
    return "\n".join(line.rstrip() for line in [head, *lines])


def main() -> None:
    """Measure, print a table, write JSON if asked to."""
    parser = argparse.ArgumentParser(description="How often intervals hold.")
    parser.add_argument("--replicates", type=int, default=300, help="streams for each case")
    parser.add_argument("--only", default="", help="cases whose title contains this text")
    parser.add_argument("--output", type=Path, help="write the numbers as JSON")
    arguments = parser.parse_args()
    if arguments.replicates < 2:
        parser.error("--replicates must be at least 2")
    chosen = [case for case in cases() if arguments.only in case.title]
    if not chosen:
        parser.error(f"no case has {arguments.only!r} in its title")
    parameters: list[Finding] = []
    predictions: list[Finding] = []
    for number, case in enumerate(chosen, start=1):
        started = time.perf_counter()
        if case.target is None:
            parameters += of_parameters(case, arguments.replicates)
        else:
            predictions += of_predictions(case, arguments.replicates)
        seconds = time.perf_counter() - started
        print(f"{number}/{len(chosen)}  {case.title}: {seconds:.0f} s", file=sys.stderr)
    print(
        f"{arguments.replicates} streams each; {NUM_BATCHES} batches of {NUM_ROWS} rows; per cent, "
        f"{100 * GAP:.0f} per cent of cells missing where some are"
    )
    for title, findings in (("parameters", parameters), ("predictions", predictions)):
        if findings:
            print(f"\n{title}\n{table(findings)}")
    if arguments.output is not None:
        about = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "replicates": arguments.replicates,
            "parameters": [dataclasses.asdict(found) for found in parameters],
            "predictions": [dataclasses.asdict(found) for found in predictions],
        }
        arguments.output.write_text(json.dumps(about, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
