"""Scale: the shift and factor between a user's units and those the library computes in."""

from collections.abc import Sequence
from typing import Any, Self, final

import numpy as np

from streambayes._core.column import CONTINUOUS, Column
from streambayes._core.pytree import pytree

__all__ = ["Scale"]


@final
@pytree
class Scale:
    r"""User's value = shift + factor · internal value, per column.

    A continuous column's shift and factor are mean and standard deviation of the first batch in which
    it has two distinct values, and stay so (``frozen``); until then 0 and 1. A positive column is not
    shifted (``centred`` is false), its factor is its mean. All fields have shape (num_columns,).
    """

    shift: Any
    factor: Any
    frozen: Any
    centred: Any

    @classmethod
    def identity(cls, columns: Sequence[Column], *, free: bool) -> Self:
        """No change of units; if ``free``, columns that have units take theirs from the data."""
        size = len(columns)
        return cls(
            shift=np.zeros(size),
            factor=np.ones(size),
            frozen=np.array([not (free and column.is_measured) for column in columns], bool),
            centred=np.array([column.kind == CONTINUOUS for column in columns], bool),
        )

    def freeze(self, values: np.ndarray) -> Self:
        """This with the units of every free column that varies in ``values``, (num_columns, num_rows)."""
        varies = np.array(
            [self._varies(*column) for column in zip(self.frozen, values, strict=True)]
        )
        if not varies.any():
            return self
        shift, factor = np.array(self.shift), np.array(self.factor)
        for place in np.flatnonzero(varies):
            known = values[place][~np.isnan(values[place])].astype(np.float64)
            # scaled by the largest entry first, so that squares of 1e200 do not overflow
            size = np.abs(known).max()
            unit = known / size
            if self.centred[place]:
                shift[place] = unit.mean() * size
                width = unit.std() * size
            else:
                width = unit.mean() * size
            factor[place] = max(width, np.finfo(float).tiny)
        return type(self)(
            shift=shift,
            factor=factor,
            frozen=np.asarray(self.frozen) | varies,
            centred=self.centred,
        )

    @staticmethod
    def _varies(frozen: bool, values: np.ndarray) -> bool:
        if frozen or np.isnan(values).all():
            return False
        return bool(np.nanmax(values) > np.nanmin(values))
