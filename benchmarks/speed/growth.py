"""What a sweep costs against components, and a step against the number of batches before it."""

import itertools
from functools import partial

import numpy as np
from benchmarks.speed.mixture import make_problem
from benchmarks.speed.sweep import compare_sweeps
from benchmarks.speed.timing import Measurement, Plan, measured, say, timed

import streambayes as sb

__all__ = ["COMPONENTS", "PAST", "SECTION", "measure"]

SECTION = "growth"
COMPONENTS, PAST = "a sweep against components", "a step against batches before it"
ROWS_COLUMNS, QUICK_ROWS_COLUMNS = (20_000, 8), (2_000, 2)
NUM_COMPONENTS, QUICK_NUM_COMPONENTS = (2, 4, 8, 16, 32, 64, 128), (2, 8)
WINDOWS, QUICK_WINDOWS = (20, 100, 500, 2_500), (20, 100)
"""A step after so many batches is the median of as many more."""
NUM_ROWS, NUM_COLUMNS = 100, 10


def measure(plan: Plan) -> list[Measurement]:
    """Both.

    Args:
        plan: How much is measured.
    """
    found: list[Measurement] = []
    shape = QUICK_ROWS_COLUMNS if plan.quick else ROWS_COLUMNS
    for num_components in QUICK_NUM_COMPONENTS if plan.quick else NUM_COMPONENTS:
        problem = make_problem(*shape, num_components)
        found += compare_sweeps(plan, SECTION, COMPONENTS, problem)
    return found + _past(QUICK_WINDOWS if plan.quick else WINDOWS)


def _past(windows: tuple[int, ...]) -> list[Measurement]:
    """Policies in turn, over one stream."""
    rng = np.random.default_rng(0)
    names = [f"x{place}" for place in range(NUM_COLUMNS)]
    batches = [{name: rng.normal(size=NUM_ROWS) for name in names} for _ in range(50)]
    policies = (sb.SVB(), sb.HPP())
    learners = {p.name: sb.StreamLearner(sb.models.Gaussian(names), p) for p in policies}
    states = {name: learner.init(batches[0]) for name, learner in learners.items()}
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    for batch in itertools.islice(itertools.cycle(batches), 2 * max(windows)):
        for name, learner in learners.items():
            took, (states[name], _) = timed(partial(learner.step, states[name], batch))
            seconds[name].append(took)
    found = []
    for name, past in itertools.product(learners, windows):
        size = {"past batches": past, "rows": NUM_ROWS, "columns": NUM_COLUMNS}
        window = seconds[name][past : 2 * past]
        found.append(measured(SECTION, PAST, name, size, "seconds per step", window))
        say(found[-1])
    return found
