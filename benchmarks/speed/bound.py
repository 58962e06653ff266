"""Time until the bound is reached, from the same start; what learned forgetting adds to it."""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
from benchmarks.speed.agreement import agree
from benchmarks.speed.mixture import Problem, TheirMixture, make_problem
from benchmarks.speed.sides import BAYESPY, NUMPY, OURS
from benchmarks.speed.timing import Measurement, Plan, Side, measured, say, timed

import streambayes as sb

__all__ = ["CASE", "POLICIES", "POLICY_CASE", "SECTION", "measure"]

SECTION = "bound"
CASE = "to the same bound"
POLICY_CASE = "a batch of a stream"
UNIT = "seconds"
SIZES = ((18_000, 2, 5), (18_000, 16, 20))
QUICK_SIZES = ((2_000, 2, 5),)
NEAR = 1e-4
"""The bound is reached within so many nats per row of where it settles."""
SETTLED = 1e-7
"""It has settled when a sweep gains less than this, in nats per row."""
MOST_SWEEPS = 1_000
NUM_BATCHES = 10
POLICIES = (sb.SVB(), sb.HPP(), sb.MHPP())


def measure(plan: Plan) -> list[Measurement]:
    """Sides against each other, then policies.

    Args:
        plan: How much is measured.
    """
    found: list[Measurement] = []
    for size in QUICK_SIZES if plan.quick else SIZES:
        problem = make_problem(*size)
        num_sweeps, bound = _sweeps_needed(problem)
        work = num_sweeps * math.prod(size)
        note = f"{num_sweeps} sweeps, to {NEAR:g} nats per row of where the bound settles"
        found += plan.compare(
            SECTION,
            CASE,
            problem.size,
            UNIT,
            _sides(problem, num_sweeps, bound),
            work=work,
            notes=dict.fromkeys((OURS, NUMPY, BAYESPY), note),
        )
    return found + _policies(plan)


def _sweeps_needed(problem: Problem) -> tuple[int, float]:
    """How many sweeps it takes from the start, and the bound after so many."""
    plain = problem.plain()
    num_rows = len(problem.rows)
    bounds = [plain.sweep()]
    for _ in range(MOST_SWEEPS):
        bounds.append(plain.sweep())
        if bounds[-1] - bounds[-2] < SETTLED * num_rows:
            break
    num_sweeps = 1 + int(np.argmax(np.array(bounds) > bounds[-1] - NEAR * num_rows))
    return num_sweeps, bounds[num_sweeps - 1]


def _sides(problem: Problem, num_sweeps: int, bound: float) -> dict[str, Side]:
    """Every side does the same sweeps; each turn is checked to end at the same bound."""

    def ours() -> Callable[[], float]:
        learner = problem.learner(num_sweeps)
        state = learner.init(problem.columns)

        def once() -> float:
            took, (_, info) = timed(lambda: learner.step(state, problem.columns))
            agree("bound of plain NumPy", info.bound, bound)
            return took

        once()
        return once

    def numpy() -> Callable[[], float]:
        def once() -> float:
            plain = problem.plain()
            took, bounds = timed(lambda: [plain.sweep() for _ in range(num_sweeps)])
            agree("bound of plain NumPy", bound, bounds[-1])
            return took

        return once

    def bayespy() -> Callable[[], float]:
        def once() -> float:
            theirs = TheirMixture(problem)
            took, reached = timed(lambda: theirs.sweep(num_sweeps))
            agree("bound of BayesPy", bound, reached)
            return took

        return once

    return {OURS: ours, NUMPY: numpy, BAYESPY: bayespy}


def _policies(plan: Plan) -> list[Measurement]:
    """Policies on a short stream, each to its own end."""
    num_rows, num_columns, num_components = (QUICK_SIZES if plan.quick else SIZES)[0]
    num_batches = 2 if plan.quick else NUM_BATCHES
    whole = make_problem(num_rows * num_batches, num_columns, num_components)
    size = {"rows": num_rows, "columns": num_columns, "components": num_components}
    model = sb.models.GaussianMixture(whole.names, num_components)
    stream = sb.batches(whole.columns, rows=num_rows)
    runs: dict[str, sb.Run] = {}

    def side(policy: Any) -> Side:
        def prepare() -> Callable[[], float]:
            learner = sb.StreamLearner(model, policy)
            state = learner.init(next(iter(stream)))

            def once() -> float:
                took, runs[policy.name] = timed(
                    lambda: sb.run(
                        learner, stream, state=state, prequential=False, drift=False, progress=False
                    )
                )
                return took / num_batches

            once()
            return once

        return prepare

    sides = {policy.name: side(policy) for policy in POLICIES}
    timings = plan.compare(SECTION, POLICY_CASE, size, "seconds per batch", sides)
    for name, run in runs.items():
        for unit in ("sweeps", "rounds"):
            counts = [float(getattr(record, f"num_{unit}")) for record in run.records]
            mean = [sum(counts) / len(counts)]
            timings.append(measured(SECTION, POLICY_CASE, name, size, f"{unit} per batch", mean))
            say(timings[-1])
    return timings
