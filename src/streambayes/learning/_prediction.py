"""What is predicted of one variable of each row."""

import dataclasses
from typing import final

import numpy as np

from streambayes._core.table import Table

__all__ = ["Classification", "Prediction"]


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Prediction:
    """The predictive distribution of a number for each row, in the user's units; prints as a table.

    Attributes:
        variable: What is predicted.
        mean: Expected values, shape (num_rows,); infinite where the model takes logarithms of the column, as the
            exponential of a Student-t has no mean.
        sd: Standard deviations, likewise.
        lower: Lower ends of the central intervals.
        upper: Upper ends.
        level: The probability of the intervals.
        method: ``exact``, or ``importance`` where it rests on weighted draws.
        median: Medians, where means are infinite; else ``None``.
    """

    variable: str
    mean: np.ndarray
    sd: np.ndarray
    lower: np.ndarray
    upper: np.ndarray
    level: float
    method: str
    median: np.ndarray | None = None

    def __len__(self) -> int:
        return len(self.mean)

    def __repr__(self) -> str:
        interval = f"{self.level:.0%} interval"
        points = {self.variable: self.mean, "sd": self.sd}
        if self.median is not None:
            points = {f"{self.variable} (median)": self.median}
        rows = [
            {
                "row": row,
                **{head: float(values[row]) for head, values in points.items()},
                interval: f"{self.lower[row]:.6g} .. {self.upper[row]:.6g}",
            }
            for row in range(min(len(self), 20))
        ]
        table = Table(("row", *points, interval), tuple(rows))
        return _cut(str(table), len(self), self.method)


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Classification:
    """Probabilities of a variable's values for each row; prints as a table.

    Attributes:
        variable: What is predicted.
        categories: Its values.
        probabilities: Shape (num_rows, num_categories).
        method: ``exact``, or ``importance`` where it rests on weighted draws.
    """

    variable: str
    categories: tuple[str | int, ...]
    probabilities: np.ndarray
    method: str

    @property
    def most_likely(self) -> np.ndarray:
        """The value with the highest probability, for each row."""
        likely: np.ndarray = np.array(self.categories)[self.probabilities.argmax(1)]
        return likely

    def __len__(self) -> int:
        return len(self.probabilities)

    def __repr__(self) -> str:
        heads = [f"{self.variable}={category}" for category in self.categories]
        rows = [
            {"row": row, **dict(zip(heads, map(float, self.probabilities[row]), strict=True))}
            for row in range(min(len(self), 20))
        ]
        return _cut(str(Table(("row", *heads), tuple(rows))), len(self), self.method)


def _cut(text: str, num_rows: int, method: str) -> str:
    more = f"\n... {num_rows} rows" if num_rows > 20 else ""
    return f"{text}{more}" if method == "exact" else f"{text}{more}\nby {method} sampling"
