"""Scale: the shift and factor between a user's units and those the library computes in."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np

from streambayes._core.column import CONTINUOUS, Column
from streambayes._core.pytree import pytree

__all__ = ["Scale"]

_FEWEST = 10
"""Rows from which batches without variation have units together."""


@final
@pytree
class Scale:
    r"""User's value = shift + factor · internal value, per column.

    A continuous column's shift and factor are mean and standard deviation of the first batch in which
    it has two distinct values, and stay so (``frozen``); until then 0 and 1. Where batches are constant and differ from each
    other, as single rows do, they are those of all rows so far, once there are ten. A positive column is not shifted
    (``centred`` is false), its factor is its mean. All fields have shape (num_columns,), but for ``seen``, (3, num_columns):
    number, mean and sum of squared distances of rows that a column had before it had units.
    """

    shift: Any
    factor: Any
    frozen: Any
    centred: Any
    seen: Any

    @classmethod
    def identity(cls, columns: Sequence[Column], *, free: bool) -> Self:
        """No change of units; if ``free``, columns that have units take theirs from the data."""
        size = len(columns)
        return cls(
            shift=np.zeros(size),
            factor=np.ones(size),
            frozen=np.array([not (free and column.is_measured) for column in columns], bool),
            centred=np.array([column.kind == CONTINUOUS for column in columns], bool),
            seen=np.zeros((3, size)),
        )

    def freeze(self, values: np.ndarray) -> Self:
        """This with the units of every free column that varies in ``values``, (num_columns, num_rows), or since rows were counted."""
        shift, factor, frozen = (np.array(each) for each in (self.shift, self.factor, self.frozen))
        for place in np.flatnonzero(~frozen).tolist():
            units = self._units(place, values[place])
            if units is None:
                continue
            frozen[place] = True
            if self.centred[place]:
                shift[place], width = units
            else:
                width, _ = units
            factor[place] = max(width, np.finfo(float).tiny)
        if (frozen == self.frozen).all():
            return self
        return type(self)(shift, factor, frozen, self.centred, self.seen)

    def counted(self, values: np.ndarray) -> Self:
        """This with the rows of columns that have no units yet."""
        seen = np.array(self.seen)
        for place in np.flatnonzero(np.logical_not(self.frozen)).tolist():
            seen[:, place] = self._with_rows(place, values[place])
        return type(self)(self.shift, self.factor, self.frozen, self.centred, seen)

    @property
    def is_constant(self) -> np.ndarray:
        """Of which columns all rows that were counted are alike."""
        found: np.ndarray = np.asarray(self.seen)[2] == 0.0
        return found

    def _units(self, place: int, values: np.ndarray) -> tuple[float, float] | None:
        """Mean and standard deviation; ``None`` as long as there are no two values, or too few rows."""
        known = values[~np.isnan(values)].astype(np.float64)
        if not len(known):
            return None
        if known.max() > known.min():
            # scaled by the largest entry first, so that squares of 1e200 do not overflow
            size = np.abs(known).max()
            return (known / size).mean() * size, (known / size).std() * size
        number, mean, squares = self._with_rows(place, values)
        if number < _FEWEST or not 0.0 < squares < np.inf:
            return None
        return mean, np.sqrt(squares / number)

    def _with_rows(self, place: int, values: np.ndarray) -> tuple[float, float, float]:
        """Number, mean and sum of squared distances of the rows so far and these, which are alike."""
        known = values[~np.isnan(values)].astype(np.float64)
        number, mean, squares = np.asarray(self.seen)[:, place].tolist()
        if not len(known):
            return number, mean, squares
        total, step = number + len(known), float(known[0]) - mean
        with np.errstate(over="ignore"):
            squares += np.square(step) * number * len(known) / total
        return total, mean + step * len(known) / total, float(squares)
