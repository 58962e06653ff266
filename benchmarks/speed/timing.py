"""Measurements of several sides that take turns, so that what else the machine does falls on all."""

import dataclasses
import sys
import time
from collections.abc import Callable, Mapping
from typing import TypeVar

import numpy as np

__all__ = ["Measurement", "Plan", "Side", "left_out", "measured", "say", "timed"]

T = TypeVar("T")
Side = Callable[[], Callable[[], float]]
"""Gets ready (compiles, warms up) and returns what measures once."""


@dataclasses.dataclass(frozen=True)
class Measurement:
    """What was measured of one side, or why it was not.

    Attributes:
        section: The part of the suite.
        case: What was done.
        side: Who did it.
        size: On what: rows, columns and so on.
        unit: Of the numbers.
        median: Of all turns; none if it was left out.
        best: The best turn.
        turns: How often it was measured.
        note: How, or why not.
    """

    section: str
    case: str
    side: str
    size: dict[str, int]
    unit: str
    median: float | None
    best: float | None
    turns: int
    note: str = ""


@dataclasses.dataclass(frozen=True)
class Plan:
    """How much is measured.

    Attributes:
        quick: Whether small sizes will do.
        turns: The most turns of a side.
        seconds: No further turn after so many seconds of one comparison.
        patience: A side that would need more seconds than this for one turn is left out.
    """

    quick: bool = False
    turns: int = 7
    seconds: float = 10.0
    patience: float = 25.0
    _pace: dict[tuple[str, str, str], float] = dataclasses.field(default_factory=dict)

    def compare(
        self,
        section: str,
        case: str,
        size: Mapping[str, int],
        unit: str,
        sides: Mapping[str, Side],
        *,
        work: float | None = None,
        notes: Mapping[str, str] | None = None,
    ) -> list[Measurement]:
        """The sides in turn, again and again.

        Args:
            section: The part of the suite.
            case: What is done.
            size: On what.
            unit: Of what sides return; with ``per second`` in it, more is better.
            sides: Who does it.
            work: What a turn's cost should be in proportion to; with it, a side that was slow in a
                smaller comparison of this case is left out of a larger one.
            notes: How a side is measured.
        """
        ready: dict[str, Callable[[], float]] = {}
        values: dict[str, list[float]] = {side: [] for side in sides}
        expected: dict[str, float] = {}
        for side, prepare in sides.items():
            pace = self._pace.get((section, case, side), 0.0)
            expected[side] = pace * (work or 0.0)
            if expected[side] <= self.patience:
                ready[side] = prepare()
        started = time.perf_counter()
        for turn in range(self.turns):
            # the other way round every other time
            for side in list(ready)[:: -1 if turn % 2 else 1]:
                took, value = timed(ready[side])
                values[side].append(value)
                if not turn and work:
                    self._pace[section, case, side] = took / work
            if time.perf_counter() - started > self.seconds:
                break
        found = []
        for side in sides:
            note = (notes or {}).get(side, "")
            if side in ready:
                found.append(measured(section, case, side, size, unit, values[side], note))
            else:
                why = (
                    f"a turn would take {expected[side]:.0f} s, the limit is {self.patience:.0f} s"
                )
                found.append(left_out(section, case, side, size, unit, why))
        for one in found:
            say(one)
        return found


def measured(
    section: str,
    case: str,
    side: str,
    size: Mapping[str, int],
    unit: str,
    values: list[float],
    note: str = "",
) -> Measurement:
    """What the turns of one side come to."""
    best = max(values) if "per second" in unit else min(values)
    middle = float(np.median(values))
    return Measurement(section, case, side, dict(size), unit, middle, best, len(values), note)


def left_out(
    section: str, case: str, side: str, size: Mapping[str, int], unit: str, why: str
) -> Measurement:
    """Nothing was measured, for a reason."""
    return Measurement(section, case, side, dict(size), unit, None, None, 0, f"left out: {why}")


def timed(function: Callable[[], T]) -> tuple[float, T]:
    """Seconds that a call takes, and what it returns."""
    started = time.perf_counter()
    found = function()
    return time.perf_counter() - started, found


def say(one: Measurement) -> None:
    """A line of progress."""
    sizes = ", ".join(f"{number:,} {what}" for what, number in one.size.items())
    value = one.note if one.median is None else f"{one.median:.4g} {one.unit}"
    print(f"{one.section}: {one.case}, {sizes}: {one.side}: {value}", file=sys.stderr, flush=True)
