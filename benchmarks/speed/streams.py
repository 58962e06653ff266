"""Updates per second of many streams at once, beside a loop over river's nearest models."""

import dataclasses
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa
from benchmarks.speed.agreement import agree
from benchmarks.speed.sides import RIVER, RIVER_MANY
from benchmarks.speed.timing import Measurement, Plan, Side, timed
from river import linear_model, naive_bayes

import streambayes as sb

__all__ = ["CLASSIFIER", "MAPPING", "REGRESSION", "SECTION", "TABLE", "measure"]

SECTION = "streams"
REGRESSION, CLASSIFIER = "regression on two columns", "naive Bayes of two columns"
TABLE, MAPPING = "SVB, one table", "SVB, a batch each"
LEARNED = "HPP, one table"
UNIT = "updates per second"
NUM_ROWS = 100
STREAMS = (1, 100, 10_000)
QUICK_STREAMS = (100,)
RIVER_STREAMS = 50
NOTES = dict.fromkeys((RIVER, RIVER_MANY), f"a loop over at most {RIVER_STREAMS} of the streams")


@dataclasses.dataclass(frozen=True)
class Case:
    """A model, river's nearest, and how to see that both learn the same.

    Attributes:
        title: What to call it.
        learner: From a policy to a learner.
        target: The column of the response or the class.
        river: Makes an empty model.
        held: Numbers that both know after a stream's rows: from our state, and from river's model.
    """

    title: str
    learner: Callable[[Any], sb.StreamLearner]
    target: str
    river: Callable[[], Any]
    held: tuple[Callable[[sb.LearnerState], Any], Callable[[Any], Any]]


def measure(plan: Plan) -> list[Measurement]:
    """Both models, all numbers of streams.

    Args:
        plan: How much is measured.
    """
    found: list[Measurement] = []
    for case in (_regression(), _classifier()):
        for num_streams in QUICK_STREAMS if plan.quick else STREAMS:
            size = {"streams": num_streams, "rows": NUM_ROWS}
            sides = _sides(case, num_streams)
            found += plan.compare(SECTION, case.title, size, UNIT, sides, notes=NOTES)
    return found


def _regression() -> Case:
    """A conjugate one under river's prior; river takes the intercept for a column, and knows the noise."""
    prior = sb.MultivariateNormalGamma.from_shape_rate_mean_scale(1.0, 1.0, np.zeros(3), np.eye(3))

    def learner(policy: Any) -> sb.StreamLearner:
        model = sb.models.LinearRegression("y", ["a", "b"], "conjugate")
        return sb.StreamLearner(model, policy, scale=False, prior={"y": prior})

    def ours(state: sb.LearnerState) -> Any:
        found: Any = state.posterior["y"]
        return found.location

    def of_river(model: Any) -> list[float]:
        model.predict_one({"one": 1.0})
        return [float(model._m_arr[model._idx[name]]) for name in ("one", "a", "b")]  # noqa: SLF001

    return Case(
        REGRESSION,
        learner,
        "y",
        linear_model.BayesianLinearRegression,
        (ours, of_river),
    )


def _classifier() -> Case:
    """Means of the columns by class: ours less the prior's pseudo-rows, whose mean is 0."""

    def learner(policy: Any) -> sb.StreamLearner:
        model = sb.models.NaiveBayes("y", 2, normal=["a", "b"])
        prior = sb.NormalGamma.from_shape_rate_mean_scale(1.0, 1.0, 0.0, 1.0)
        return sb.StreamLearner(model, policy, scale=False, prior={"a, b": prior})

    def ours(state: sb.LearnerState) -> np.ndarray:
        found: Any = state.posterior["a, b"]
        means: np.ndarray = found.location * found.scale / (found.scale - 1.0)
        return means

    def of_river(model: Any) -> list[list[float]]:
        return [[model.gaussians[label][name].mu for name in "ab"] for label in (0, 1)]

    return Case(CLASSIFIER, learner, "y", naive_bayes.GaussianNB, (ours, of_river))


def _sides(case: Case, num_streams: int) -> dict[str, Side]:
    table = _table(case, num_streams)
    parts = {name: np.split(column, num_streams) for name, column in table.items()}
    batches = {n: {name: parts[name][n] for name in ("a", "b", "y")} for n in range(num_streams)}

    def ours(policy: Any, data: Any, by: str | None) -> Side:
        def prepare() -> Callable[[], float]:
            fleet = sb.many(case.learner(policy))
            states, _ = fleet.step(fleet.init(data, by=by), data, by=by)
            if isinstance(policy, sb.SVB):
                _same(case, states[0], batches[0])
            return lambda: num_streams / timed(lambda: fleet.step(states, data, by=by))[0]

        return prepare

    def river(convert: Callable[..., Any], learn: Callable[..., None]) -> Side:
        def prepare() -> Callable[[], float]:
            some = [convert(case, batches[n]) for n in range(min(num_streams, RIVER_STREAMS))]
            models = [case.river() for _ in some]

            def loop() -> None:
                for model, given in zip(models, some, strict=True):
                    learn(model, *given)

            return lambda: len(some) / timed(loop)[0]

        return prepare

    return {
        TABLE: ours(sb.SVB(), table, "stream"),
        MAPPING: ours(sb.SVB(), batches, None),
        LEARNED: ours(sb.HPP(), table, "stream"),
        RIVER: river(_rows, _learn_rows),
        RIVER_MANY: river(_frame, _learn_frame),
    }


def _table(case: Case, num_streams: int) -> dict[str, np.ndarray]:
    """Rows of all streams, one stream after the other."""
    rng = np.random.default_rng(0)
    num_rows = num_streams * NUM_ROWS
    table = {name: rng.normal(size=num_rows) for name in "ab"}
    table["y"] = table["a"] - table["b"] + rng.normal(size=num_rows)
    if case.title == CLASSIFIER:
        table["y"] = (table["y"] > 0.0).astype(int)
    table["stream"] = np.repeat(np.arange(num_streams), NUM_ROWS)
    return table


def _columns(case: Case, batch: Any) -> tuple[dict[str, np.ndarray], np.ndarray]:
    """As river takes them: no intercept of its own, the target apart."""
    columns = {name: column for name, column in batch.items() if name != case.target}
    if case.title == REGRESSION:
        columns["one"] = np.ones(NUM_ROWS)
    return columns, batch[case.target]


def _rows(case: Case, batch: Any) -> tuple[list[dict[str, float]], list[Any]]:
    columns, target = _columns(case, batch)
    lists = zip(*(column.tolist() for column in columns.values()), strict=True)
    return [dict(zip(columns, row, strict=True)) for row in lists], target.tolist()


def _frame(case: Case, batch: Any) -> tuple[pa.Table, pa.ChunkedArray]:
    columns, target = _columns(case, batch)
    return pa.table(columns), pa.chunked_array([pa.array(target)])


def _learn_rows(model: Any, rows: list[dict[str, float]], targets: list[Any]) -> None:
    for row, target in zip(rows, targets, strict=True):
        model.learn_one(row, target)


def _learn_frame(model: Any, rows: pa.Table, targets: pa.ChunkedArray) -> None:
    model.learn_many(rows, targets)


def _same(case: Case, state: sb.LearnerState, batch: Any) -> None:
    """River knows the same of a stream, either way it learns."""
    ours, theirs = case.held
    one, many = case.river(), case.river()
    _learn_rows(one, *_rows(case, batch))
    _learn_frame(many, *_frame(case, batch))
    for model in (one, many):
        agree(f"{case.title} of river", ours(state), theirs(model))
