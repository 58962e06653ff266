"""How a block goes on where nothing changes: around what, how far from batch to batch, and whether in seasons."""

import collections
import dataclasses
import math
from typing import final

import numpy as np

from streambayes.drift._event import as_number

__all__ = ["Pattern", "Usual"]

_KEPT = 256
_FEWEST = 3
"""Batches from which a fluctuation is known."""
_FEWEST_OF_TREND, _STEEP_LINE, _STEEP_STEPS = 10, 8.0, 4.0
"""A trend is told from so many batches on, of so many standard errors."""
_PERIODIC = 0.5
"""The correlation with the season before from which one is suspected."""


@final
class Usual:
    """What one parameter has been in the batches since the last change, and in the last ones altogether."""

    def __init__(self, kept: int = _KEPT) -> None:
        self._recent: collections.deque[float] = collections.deque(maxlen=max(kept, _KEPT))
        self.restart()

    def restart(self) -> None:
        """After a change."""
        self._count, self.mean, self._squares = 0, math.nan, 0.0
        self._last, self._steps, self._farthest = math.nan, 0.0, 0.0
        self._before = self._sums

    def add(self, value: float, *, is_usual: bool) -> None:
        """The next batch; one that stands out is no part of what is usual."""
        self._recent.append(value)
        self._before = self._sums
        if not is_usual or not math.isfinite(value):
            return
        self._count += 1
        last, self._last = self._last, value
        if self._count == 1:
            self.mean = value
            return
        self._steps += (value - last) ** 2
        self._farthest = max(self._farthest, abs(value - self.mean))
        step = value - self.mean
        self.mean += step / self._count
        self._squares += step * (value - self.mean)

    def take_back(self) -> None:
        """The last batch was no part of what is usual."""
        self._count, self.mean, self._squares, self._last, self._steps, self._farthest = (
            self._before
        )

    @property
    def _sums(self) -> tuple[int, float, float, float, float, float]:
        return self._count, self.mean, self._squares, self._last, self._steps, self._farthest

    @property
    def spread(self) -> float | None:
        """Standard deviation of batches; ``None`` before there are enough of them."""
        if self._count < _FEWEST:
            return None
        return math.sqrt(self._squares / (self._count - 1))

    @property
    def fluctuation(self) -> float | None:
        """How far it usually is from one batch to the next, as a standard deviation; less than the spread where it wanders."""
        if self._count < _FEWEST:
            return None
        return math.sqrt(min(self._squares, 0.5 * self._steps) / (self._count - 1))

    def is_extreme(self, value: float) -> bool:
        """Whether it is twice as far from what is usual as any batch since the last change."""
        return self._count >= _FEWEST and abs(value - self.mean) > 2.0 * self._farthest

    def distance(self, value: float) -> float | None:
        """How far it is from what is usual, in standard deviations of another batch."""
        spread = self.spread
        if not spread or not math.isfinite(value):
            return None
        return abs(value - self.mean) / (spread * math.sqrt(1.0 + 1.0 / self._count))

    def surprise(self, distance: float) -> float:
        """Minus the logarithm of the probability to be so far from what is usual, by a Student-t distribution."""
        from scipy.special import stdtr

        return -math.log(max(2.0 * float(stdtr(self._count - 1, -distance)), 1e-300))

    def ago(self, num_batches: int) -> float | None:
        """What it was so many batches before the last one."""
        held = len(self._recent) - 1 - num_batches
        return self._recent[held] if held >= 0 else None

    @property
    def span(self) -> tuple[float, float, float]:
        """The least and the greatest value of the last batches, and the last one."""
        values = [value for value in self._recent if math.isfinite(value)]
        return (min(values), max(values), values[-1]) if values else (math.nan,) * 3

    def trend(self) -> tuple[float, float] | None:
        """Where values began and where they are, if they have a clear direction.

        That is so if a line through them is steep, in standard errors that allow for residuals which resemble their
        neighbours, or if their steps from batch to batch are far from 0 on average; and if each quarter of the batches
        lies beyond the one before. Positive values that grow tenfold are looked at on a scale of logarithms.
        """
        values = np.array(self._recent)
        values = values[np.isfinite(values)]
        num = len(values)
        if num < _FEWEST_OF_TREND:
            return None
        first, now = float(np.median(values[:3])), float(np.median(values[-3:]))
        if 0.0 < 10.0 * values.min() < values.max():
            values = np.log(values)
        values = values / max(np.abs(values).max(), 1e-300)  # squares of large ones would overflow
        places = np.arange(num) - 0.5 * (num - 1)
        slope = places @ values / (places @ places)
        rest = values - values.mean() - slope * places
        variance = rest @ rest / (num - 2)
        if not variance > 0.0:
            return None
        tie = np.clip(rest[1:] @ rest[:-1] / (rest @ rest), 0.0, 0.99)
        steps = np.diff(values)
        by_line = abs(slope) * math.sqrt((places @ places) / variance * (1.0 - tie) / (1.0 + tie))
        by_step = abs(steps.mean()) * math.sqrt(num - 1) / max(steps.std(ddof=1), 1e-300)
        upwards = values if slope > 0.0 else -values
        quarters = [np.median(part) for part in np.array_split(upwards, 4)]
        if (by_line <= _STEEP_LINE and by_step <= _STEEP_STEPS) or (np.diff(quarters) <= 0.0).any():
            return None
        return first, now

    def season(self) -> int | None:
        """After how many batches values come back, if they do."""
        values = np.array(self._recent)
        values = values[np.isfinite(values)]
        num = len(values)
        if num < 12:
            return None
        places = np.arange(num)
        values = values - np.polyval(np.polyfit(places, values, 1), places)
        lags = np.arange(3, num // 3 + 1)
        scale = values @ values / num
        if not scale > 0.0 or len(lags) < 3:
            return None
        like = np.array([values[lag:] @ values[:-lag] / (num - lag) / scale for lag in lags])
        inner = like[1:-1]
        peaks = (
            np.flatnonzero((inner >= like[:-2]) & (inner >= like[2:]) & (inner >= _PERIODIC)) + 1
        )
        if not len(peaks) or like[: peaks[0]].min() > 0.0:  # a mere wave has to go down between
            return None
        return int(lags[peaks[like[peaks] >= 0.9 * like[peaks].max()][0]])


@final
@dataclasses.dataclass(frozen=True)
class Pattern:
    """How a block goes on.

    Attributes:
        block: Its readable name.
        kind: ``steady``; ``fluctuates`` from batch to batch around a level; ``wanders``; ``trend``, in one direction;
            ``jumps``, with three changes or more; ``new``, of which too little was seen.
        parameter: Its first parameter, or the one that has a trend.
        around: What that has been since the last change, as a mean over batches.
        fluctuation: And its standard deviation between batches.
        span: Its least and its greatest value in the last 256 batches, and the last one.
        memory: For a block that wanders: about how many rows say something of the next batch.
        changes: How many changes of it were found.
        season: After how many batches it looks as if it came back.
        trend: For a trend, where the parameter began and where it is now.
    """

    block: str
    kind: str
    parameter: str
    around: float
    fluctuation: float | None
    span: tuple[float, float, float]
    memory: float
    changes: int
    season: int | None = None
    trend: tuple[float, float] | None = None

    @property
    def words(self) -> str:
        """The pattern as a phrase."""
        spread = self.fluctuation or math.nan
        level = as_number(self.around, spread)
        if self.trend is not None:
            way = abs(self.trend[1] - self.trend[0]) / 20.0
            first, now = (as_number(value, way) for value in self.trend)
            return f"{'rises' if self.trend[1] > self.trend[0] else 'falls'}, {first} → {now}"
        low, high, last = (as_number(value, spread) for value in self.span)
        text = {
            "steady": f"steady at {level}",
            "fluctuates": f"fluctuates around {level} ± {as_number(spread, spread)} from batch to batch",
            "wanders": f"wanders between {low} and {high}, with a memory of about {self.memory:,.0f} rows; "
            f"last at {last}",
            "jumps": f"jumps: {self.changes} changes; now at {level}",
            "new": "too little was seen",
        }[self.kind]
        if self.season:
            text += (
                f"; looks like a season of about {self.season} batches, say seasonal={self.season}"
            )
        return text
