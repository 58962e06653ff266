"""Scale: the shift and factor between a user's units and those the library computes in."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np

from streambayes._core.pytree import pytree

__all__ = ["Scale"]


@final
@pytree
class Scale:
    r"""User's value = shift + factor · internal value, per column.

    A column's shift and factor are mean and standard deviation of the first batch in which it has two
    distinct values, and stay so (``frozen``); until then 0 and 1. All fields have shape
    (num_columns,).
    """

    shift: Any
    factor: Any
    frozen: Any

    @classmethod
    def identity(cls, frozen: Sequence[bool]) -> Self:
        """No change of units; columns that are not frozen take theirs from the data."""
        size = len(frozen)
        return cls(shift=np.zeros(size), factor=np.ones(size), frozen=np.asarray(frozen, bool))

    def freeze(self, values: np.ndarray) -> Self:
        """This with the units of every free column that varies in ``values``, (num_columns, num_rows)."""
        varies = ~np.asarray(self.frozen) & (values.max(1) > values.min(1))
        if not varies.any():
            return self
        shift, factor = np.array(self.shift), np.array(self.factor)
        # scaled by the largest entry first, so that squares of 1e200 do not overflow
        size = np.abs(values[varies]).max(1, keepdims=True)
        unit = values[varies] / size
        shift[varies] = unit.mean(1) * size[:, 0]
        factor[varies] = np.maximum(unit.std(1) * size[:, 0], np.finfo(float).tiny)
        return type(self)(shift=shift, factor=factor, frozen=np.asarray(self.frozen) | varies)
