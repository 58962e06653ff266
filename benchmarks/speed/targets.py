"""What was asked for, and whether it was reached."""

import dataclasses
import math
from collections.abc import Callable, Iterator

from benchmarks.speed import bound, growth, memory, run, streams, sweep
from benchmarks.speed.results import Results
from benchmarks.speed.sides import BAYESPY, NUMPY, OURS, RIVER, SKLEARN

__all__ = ["Verdict", "verdicts"]

SMALL = {"rows": 18_000, "columns": 2, "components": 5}
WIDE = {"rows": 18_000, "columns": 16, "components": 20}
LARGE = {"rows": 1_000_000, "columns": 16, "components": 20}
FLEET = {"streams": 10_000, "rows": streams.NUM_ROWS}


@dataclasses.dataclass(frozen=True)
class Verdict:
    """One line of the table.

    Attributes:
        asked: What was asked for.
        measured: What was found.
        verdict: Whether that is enough.
        why: The reason, where it is not.
    """

    asked: str
    measured: str
    verdict: str
    why: str = ""


def verdicts(results: Results) -> list[Verdict]:
    """A line for everything that was asked for.

    Args:
        results: What was measured.
    """
    return [*_sweeps(results), *_bounds(results), *_rates(results), *_growth(results)]


def _sweeps(results: Results) -> Iterator[Verdict]:
    kernels = (
        "a block of rows takes 16 small kernels, one after the other on one core; the exponentials, the two "
        "products and their sums alone are most of it"
    )
    product = (
        "half of the work are two matrix products, which scikit-learn runs on both cores and XLA, within "
        "a loop over blocks, on one; threads that share the rows take half a millisecond to meet"
    )
    for side, size, goal, why in (
        (SKLEARN, SMALL, 12.0, kernels),
        (BAYESPY, SMALL, 50.0, kernels),
        (SKLEARN, WIDE, 8.0, product),
        (SKLEARN, LARGE, 8.0, product),
    ):
        asked = f"a sweep at {_sizes(size)}: at least {goal:g} times {side}"
        found = _factor(results, sweep.SECTION, sweep.CASE, size, OURS, side)
        yield _verdict(asked, found, goal, _times, why)


def _bounds(results: Results) -> Iterator[Verdict]:
    whole = (bound.SECTION, bound.CASE, SMALL, OURS)
    asked = f"to the same bound at {_sizes(SMALL)}: at least 50 times {BAYESPY}"
    why = "as for a sweep, of which it is 185"
    yield _verdict(asked, _factor(results, *whole, BAYESPY), 50.0, _times, why)
    ahead = _factor(results, sweep.SECTION, sweep.CASE, SMALL, OURS, NUMPY)
    found = _factor(results, *whole, NUMPY)
    asked = f"to the same bound at {_sizes(SMALL)}: as far ahead of {NUMPY} as in a sweep"
    if ahead is not None:
        asked += f", {_times(ahead)}, give or take a tenth"
    why = "a step also reads and checks the rows, and reports"
    yield _verdict(asked, found, None if ahead is None else 0.9 * ahead, _times, why)
    for policy in bound.POLICIES[1:]:
        yield _against_svb(results, policy.name)


def _against_svb(results: Results, policy: str) -> Verdict:
    asked = f"{policy} against our own SVB: the factor is shown"
    case = (bound.SECTION, bound.POLICY_CASE, SMALL)
    factor = _factor(results, *case, "SVB", policy)
    counts = [
        _median(results, *case, side, f"{unit} per batch")
        for side, unit in ((policy, "sweeps"), (policy, "rounds"), ("SVB", "sweeps"))
    ]
    if factor is None:
        return Verdict(asked, "", "not measured")
    text = f"takes {_times(factor)} as long: {{:.0f}} sweeps a batch in {{:.1f}} rounds, between which "
    text += "rho is learned; SVB {:.0f} sweeps in one round"
    return Verdict(asked, text.format(*counts), "shown")


def _rates(results: Results) -> Iterator[Verdict]:
    small = (
        "ten sweeps a batch, each a few hundred small kernels on matrices of 11 rows, one after the other; "
        "four with conjugate coefficients"
    )
    large = (
        "masks, units and products of the columns, on one core; the other reads, checks and pads the next "
        "batch meanwhile"
    )
    for num_rows, goal, why in ((1_000, 5e6, small), (100_000, 20e6, large)):
        asked = f"`run` of a regression in batches of {num_rows:,}: {_rows(goal)} or more"
        size = {"rows per batch": num_rows}
        found = _median(results, run.SECTION, run.CASE, size, run.HPP, "rows per second")
        yield _verdict(asked, found, goal, _rows, why)
    cells = "two thirds of the time go into masks and sums over rows, some ten nanoseconds a cell"
    few = "river's update of a normal is a few additions per value in compiled code"
    for case, why in ((streams.REGRESSION, cells), (streams.CLASSIFIER, few)):
        asked = f"10,000 streams, {case}: at least 200 times a loop over river"
        found = _factor(results, streams.SECTION, case, FLEET, streams.TABLE, RIVER)
        yield _verdict(asked, found, 200.0, _times, why)


def _growth(results: Results) -> Iterator[Verdict]:
    peaks = [
        _median(results, memory.SECTION, memory.CASE, {"rows": num_rows}, OURS, memory.UNIT)
        for num_rows in (memory.ROWS[0], memory.ROWS[-1])
    ]
    asked = "peak memory of 1e8 rows from Parquet: that of 1e6 rows within 10 %"
    more = None if peaks[0] is None or peaks[1] is None else abs(peaks[1] / peaks[0] - 1.0)
    yield _verdict(asked, more, 0.1, lambda share: f"{100 * share:.1f} % apart", at_most=True)
    for what, section, case, size, first, over in (
        ("rows", sweep.SECTION, sweep.CASE, {"columns": 2, "components": 5}, -2, "two"),
        ("components", growth.SECTION, growth.COMPONENTS, {}, -4, "four"),
    ):
        asked = (
            f"cost grows linearly in {what}: a power of at most 1.1 over the {over} largest sizes"
        )
        found = _power(results, section, case, size, what, OURS, first)
        yield _verdict(asked, found, 1.1, lambda power: f"power {power:.2f}", at_most=True)
    asked = "cost does not grow with past batches: a power of at most 0.05 from first to last"
    found = _power(results, growth.SECTION, growth.PAST, {}, "past batches", "HPP", first=0)
    yield _verdict(asked, found, 0.05, lambda power: f"power {power:.3f}", at_most=True)


def _verdict(
    asked: str,
    found: float | None,
    goal: float | None,
    show: Callable[[float], str],
    why: str = "",
    *,
    at_most: bool = False,
) -> Verdict:
    if found is None or goal is None:
        return Verdict(asked, "" if found is None else show(found), "not measured")
    if found <= goal if at_most else found >= goal:
        return Verdict(asked, show(found), "reached")
    return Verdict(asked, show(found), "not reached", why)


def _median(
    results: Results,
    section: str,
    case: str,
    size: dict[str, int],
    side: str,
    unit: str | None = None,
) -> float | None:
    """The one that has this size; none if it was not measured."""
    for one in results.where(section, case, size):
        if one.side == side and unit in (None, one.unit):
            return one.median
    return None


def _factor(
    results: Results, section: str, case: str, size: dict[str, int], mine: str, theirs: str
) -> float | None:
    """How many times faster one side is than the other."""
    first, second = (_median(results, section, case, size, side) for side in (mine, theirs))
    if first is None or second is None:
        return None
    rates = any("per second" in one.unit for one in results.where(section, case))
    return first / second if rates else second / first


def _power(
    results: Results,
    section: str,
    case: str,
    size: dict[str, int],
    what: str,
    side: str,
    first: int = -2,
) -> float | None:
    """By which power of a number the cost grows, from one size to the last."""
    points = [
        (one.size[what], one.median)
        for one in results.where(section, case, size)
        if one.side == side and one.median is not None
    ]
    if len(points) < max(2, -first):
        return None
    (few, low), (many, high) = points[first], points[-1]
    return math.log(high / low) / math.log(many / few)


def _sizes(size: dict[str, int]) -> str:
    return ", ".join(f"{number:,} {what}" for what, number in size.items())


def _times(factor: float) -> str:
    return f"{factor:.1f} times" if factor < 100 else f"{factor:.0f} times"


def _rows(rate: float) -> str:
    return f"{rate / 1e6:.3g} million rows per second"
