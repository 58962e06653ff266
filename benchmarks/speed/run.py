"""Rows per second of a whole run: a regression on arrays in memory."""

from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.speed.agreement import agree
from benchmarks.speed.plain_regression import PlainRegression
from benchmarks.speed.sides import NUMPY, RIVER, RIVER_BOTH
from benchmarks.speed.timing import Measurement, Plan, Side, timed
from river import linear_model

import streambayes as sb

__all__ = ["CASE", "HPP", "SECTION", "SIDES", "measure"]

SECTION = "run"
CASE = "regression on ten columns"
UNIT = "rows per second"
NUM_REGRESSORS = 10
BATCHES = {100: 100_000, 1_000: 500_000, 10_000: 2_000_000, 100_000: 4_000_000}
"""Rows of a batch, and rows in all."""
QUICK_BATCHES = {1_000: 50_000, 10_000: 100_000}
RIVER_ROWS = 5_000
HPP = "HPP"
DEFAULTS = "Auto, the defaults"
SIDES: dict[str, tuple[Any, str, bool]] = {
    HPP: (sb.HPP(), "joint", False),
    "SVB": (sb.SVB(), "joint", False),
    "HPP, each batch scored first": (sb.HPP(), "joint", True),
    "HPP, conjugate": (sb.HPP(), "conjugate", False),
    "SVB, conjugate": (sb.SVB(), "conjugate", False),
}
"""Policy, kind of coefficients, and whether each batch is scored before it is learned."""
NOTES = {
    NUMPY: "the same posterior as SVB, conjugate",
    DEFAULTS: "each batch scored first, with all that drift needs",
    RIVER: f"{RIVER_ROWS:,} rows, whatever the batch; the noise is known to it",
    RIVER_BOTH: f"{RIVER_ROWS:,} rows, whatever the batch; by stochastic gradients",
}


def measure(plan: Plan) -> list[Measurement]:
    """All sizes of batches.

    Args:
        plan: How much is measured.
    """
    found: list[Measurement] = []
    for num_rows, in_all in (QUICK_BATCHES if plan.quick else BATCHES).items():
        rng = np.random.default_rng(0)
        rows = rng.normal(size=(in_all, NUM_REGRESSORS + 1))
        rows[:, -1] += rows[:, :-1] @ rng.normal(size=NUM_REGRESSORS) + 1.0
        size = {"rows per batch": num_rows, "rows": in_all}
        found += plan.compare(SECTION, CASE, size, UNIT, _sides(rows, num_rows), notes=NOTES)
    return found


def _sides(rows: np.ndarray, num_rows: int) -> dict[str, Side]:
    names = [*(f"x{place}" for place in range(NUM_REGRESSORS)), "y"]
    stream = sb.batches(dict(zip(names, np.ascontiguousarray(rows.T), strict=True)), rows=num_rows)

    def ran(learner: sb.StreamLearner, **settings: Any) -> Side:
        def once() -> float:
            took, _ = timed(lambda: sb.run(learner, stream, progress=False, **settings))
            return len(rows) / took

        def prepare() -> Callable[[], float]:
            few = [batch for batch, _ in zip(stream, range(2), strict=False)]
            sb.run(learner, few, progress=False, **settings)
            return once

        return prepare

    def ours(policy: Any, coefficients: Any, prequential: bool) -> Side:
        model = sb.models.LinearRegression("y", names[:-1], coefficients)
        learner = sb.StreamLearner(model, policy, scale=False)
        return ran(learner, prequential=prequential, drift=False)

    def numpy() -> Callable[[], float]:
        def learn(in_all: int) -> PlainRegression:
            plain = PlainRegression(len(names))
            for start in range(0, in_all, num_rows):
                plain.learn(rows[start : start + num_rows])
            return plain

        _same(learn(2 * num_rows), stream)
        return lambda: len(rows) / timed(lambda: learn(len(rows)))[0]

    defaults = ran(sb.StreamLearner(sb.models.LinearRegression("y", names[:-1])))
    own = {name: ours(*settings) for name, settings in SIDES.items()}
    return {DEFAULTS: defaults, **own, NUMPY: numpy, **_river(rows, names)}


def _river(rows: np.ndarray, names: list[str]) -> dict[str, Side]:
    """Row by row, of some of the rows."""
    some = [dict(zip(names, row, strict=True)) for row in rows[:RIVER_ROWS].tolist()]
    responses = [row.pop("y") for row in some]

    def learn() -> None:
        model = linear_model.BayesianLinearRegression()
        for row, response in zip(some, responses, strict=True):
            model.learn_one(row, response)

    def predict_and_learn() -> None:
        model = linear_model.LinearRegression()
        for row, response in zip(some, responses, strict=True):
            model.predict_one(row)
            model.learn_one(row, response)

    def side(turn: Callable[[], None]) -> Side:
        return lambda: lambda: len(some) / timed(turn)[0]

    return {RIVER: side(learn), RIVER_BOTH: side(predict_and_learn)}


def _same(plain: PlainRegression, stream: Any) -> None:
    """The plain program has the library's posterior after two batches."""
    few = [batch for batch, _ in zip(stream, range(2), strict=False)]
    model = sb.models.LinearRegression("y", list(few[0].columns)[:-1], "conjugate")
    learner = sb.StreamLearner(model, sb.SVB(), scale=False)
    state = sb.run(learner, few, prequential=False, drift=False, progress=False).state
    found: Any = state.posterior["y"]
    agree("coefficients of plain NumPy", found.location, plain.coefficients)
    agree("noise of plain NumPy", found.precision.mean(), plain.shape / plain.rate)
