"""Time of one sweep over a mixture, against rows."""

import math
from collections.abc import Callable

from benchmarks.speed.agreement import agree
from benchmarks.speed.machine import bytes_of_memory
from benchmarks.speed.mixture import Problem, TheirMixture, fit_sklearn, make_problem
from benchmarks.speed.sides import BAYESPY, NUMPY, OURS, SKLEARN
from benchmarks.speed.timing import Measurement, Plan, Side, left_out, say, timed

__all__ = ["CASE", "LARGE", "SECTION", "SMALL", "compare_sweeps", "measure"]

SECTION = "sweep"
CASE = "one sweep"
UNIT = "seconds per sweep"
WARM_UP = 2
SMALL, LARGE = (2, 5), (16, 20)
"""Columns and components."""
ROWS = dict.fromkeys((SMALL, LARGE), (1_000, 10_000, 18_000, 100_000, 1_000_000, 10_000_000))
QUICK_ROWS = {SMALL: (1_000, 18_000), LARGE: (1_000, 5_000)}
NOTES = {
    OURS: "difference of a long and a short step",
    SKLEARN: "difference of a long and a short fit; its own prior and start",
    BAYESPY: "the same model, start and bound",
    NUMPY: "the same model, start and bound",
}


def measure(plan: Plan) -> list[Measurement]:
    """All sizes and sides.

    Args:
        plan: How much is measured.
    """
    found: list[Measurement] = []
    for (num_columns, num_components), sizes in (QUICK_ROWS if plan.quick else ROWS).items():
        for num_rows in sizes:
            size = {"rows": num_rows, "columns": num_columns, "components": num_components}
            # copies that sides make of rows, and tables of rows by components
            needed = 8 * num_rows * (8 * num_columns + 4 * num_components)
            if needed > 0.5 * bytes_of_memory():
                why = f"all sides together would need {needed / 2**30:.0f} GiB of memory"
                found += [left_out(SECTION, CASE, side, size, UNIT, why) for side in NOTES]
                say(found[-1])
                continue
            problem = make_problem(num_rows, num_columns, num_components)
            found += compare_sweeps(plan, SECTION, CASE, problem)
    return found


def compare_sweeps(plan: Plan, section: str, case: str, problem: Problem) -> list[Measurement]:
    """Sweeps of one size.

    Args:
        plan: How much is measured.
        section: For the records.
        case: For the records.
        problem: What is learned.
    """
    cells = math.prod(problem.size.values())
    num_sweeps = int(min(max(4e7 / cells, 3), 50))
    return plan.compare(
        section,
        case,
        problem.size,
        UNIT,
        _sides(problem, num_sweeps),
        work=cells * (2 * WARM_UP + num_sweeps),
        notes=NOTES,
    )


def _sides(problem: Problem, num_sweeps: int) -> dict[str, Side]:
    """What times a sweep of each side; those that do the same are held together first."""

    def ours() -> Callable[[], float]:
        short, long = (problem.learner(WARM_UP + more) for more in (0, num_sweeps))
        state = short.init(problem.columns)
        for learner in (short, long):
            learner.step(state, problem.columns)

        def once() -> float:
            took, (_, less) = timed(lambda: short.step(state, problem.columns))
            longer, (_, more) = timed(lambda: long.step(state, problem.columns))
            return (longer - took) / (more.num_sweeps - less.num_sweeps)

        return once

    def sklearn() -> Callable[[], float]:
        def once() -> float:
            took, _ = timed(lambda: fit_sklearn(problem, WARM_UP))
            longer, _ = timed(lambda: fit_sklearn(problem, WARM_UP + num_sweeps))
            return (longer - took) / num_sweeps

        return once

    def bayespy() -> Callable[[], float]:
        theirs = TheirMixture(problem)
        agree("bound of BayesPy", reached(), theirs.sweep(WARM_UP))
        return lambda: timed(lambda: theirs.sweep(num_sweeps))[0] / num_sweeps

    def numpy() -> Callable[[], float]:
        plain = problem.plain()
        bound = [plain.sweep() for _ in range(WARM_UP)][-1]
        agree("bound of plain NumPy", reached(), bound)
        return lambda: timed(lambda: [plain.sweep() for _ in range(num_sweeps)])[0] / num_sweeps

    def reached() -> float | None:
        learner = problem.learner(WARM_UP)
        _, info = learner.step(learner.init(problem.columns), problem.columns)
        return info.bound

    return {OURS: ours, SKLEARN: sklearn, BAYESPY: bayespy, NUMPY: numpy}
