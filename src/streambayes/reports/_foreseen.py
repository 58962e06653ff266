"""How near the next batch was to what was believed, beside the two simplest forecasts of it."""

import dataclasses
import math
from typing import NamedTuple, final

from streambayes.learning import StepRecord

__all__ = ["Errors", "Foreseen"]

_FEWEST = 5
"""Batches from which errors are told."""
_SPREAD = "standard deviation of "


class Errors(NamedTuple):
    """Mean absolute errors of three forecasts of what a batch says by itself.

    Attributes:
        believed: Of what was believed before the batch.
        mean: Of the mean of all batches before: nothing is forgotten.
        last: Of the batch before alone: all else is forgotten.
    """

    believed: float
    mean: float
    last: float


@final
class Foreseen:
    """Takes records one by one and compares every batch with three forecasts of it, at constant memory.

    A batch's means, probabilities, rates and coefficients by the batch alone are compared with what was believed of them before,
    with their mean over all batches before, each with the weight of its rows, and with those of the batch before. These two are
    what a stream without change and one that forgets at once would say; the records hold all that is needed.
    """

    def __init__(self) -> None:
        self._known: dict[tuple[str, str], _Parameter] = {}

    def take(self, record: StepRecord) -> None:
        """The next record."""
        looks, beliefs = record.looks or {}, record.parameters or {}
        for block, alone in (record.alone or {}).items():
            look = looks.get(block)
            if look and look[0][0] is None:  # too few rows of this block, in which it says nothing
                continue
            believed = beliefs.get(block, {})
            for name, value in alone.items():
                if _SPREAD in name or not math.isfinite(value):
                    continue
                known = self._known.setdefault((block, name), _Parameter())
                known.add(value, record.num_rows, believed.get(name, (math.nan, math.nan))[0])

    def errors(self, block: str, parameter: str) -> Errors | None:
        """Those of one parameter, in its own units; ``None`` before there are enough batches."""
        known = self._known.get((block, parameter))
        return None if known is None or known.count < _FEWEST else known.errors

    def ratios(self) -> tuple[float, float, int] | None:
        """The errors of what was believed over those of the mean and of the last batch, and of how many parameters.

        Both are geometric means over parameters, whatever their units. ``None`` before there are enough batches.
        """
        every = [
            known.errors
            for known in self._known.values()
            if known.count >= _FEWEST and min(known.errors) > 0.0
        ]
        if not every:
            return None
        mean, last = (
            math.exp(sum(math.log(one.believed / one[place]) for one in every) / len(every))
            for place in (1, 2)
        )
        return mean, last, len(every)


@dataclasses.dataclass(slots=True)
class _Parameter:
    """What is known of one parameter so far, and sums of errors."""

    believed: float = math.nan
    total: float = 0.0
    rows: float = 0.0
    last: float = math.nan
    count: int = 0
    by_belief: float = 0.0
    by_mean: float = 0.0
    by_last: float = 0.0

    def add(self, value: float, num_rows: int, believed: float) -> None:
        if math.isfinite(self.believed) and self.rows > 0.0:
            self.count += 1
            self.by_belief += abs(value - self.believed)
            self.by_mean += abs(value - self.total / self.rows)
            self.by_last += abs(value - self.last)
        self.believed, self.last = believed, value
        self.total += num_rows * value
        self.rows += num_rows

    @property
    def errors(self) -> Errors:
        return Errors(*(each / self.count for each in (self.by_belief, self.by_mean, self.by_last)))
