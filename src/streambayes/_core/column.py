"""Columns a model reads, and the check that turns a user's values into numbers."""

from typing import Any

import numpy as np

from streambayes._core.pytree import definition

__all__ = ["BINARY", "CATEGORY", "CONTINUOUS", "COUNT", "Column"]

CONTINUOUS, BINARY, COUNT, CATEGORY = "continuous", "binary", "count", "category"
_WANTED = {
    CONTINUOUS: "a finite number",
    BINARY: "0 or 1",
    COUNT: "a whole number of at least 0",
}


@definition
class Column:
    """A column by name and kind; ``categories`` lists a category column's values in order."""

    name: str
    kind: str = CONTINUOUS
    categories: tuple[str | int, ...] = ()

    def encode(self, values: Any) -> np.ndarray:
        """Float64 numbers, categories as positions; ``ValueError`` names column, row and value."""
        array = np.asarray(values)
        if array.ndim != 1:
            message = f"column {self.name!r} must have one dimension, got shape {array.shape}"
            raise ValueError(message)
        return self._positions(array) if self.kind == CATEGORY else self._numbers(array)

    def _numbers(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind not in "biuf":
            array = self._from_objects(array)
        numbers = array.astype(np.float64, copy=False)
        if self.kind == BINARY:
            good = (numbers == 0) | (numbers == 1)
        elif self.kind == COUNT:
            good = (numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers)
        else:
            good = np.isfinite(numbers)
        if not good.all():
            self._refuse(array, int(np.argmin(good)), _WANTED[self.kind])
        return numbers

    def _from_objects(self, array: np.ndarray) -> np.ndarray:
        if array.dtype.kind == "O":  # nullable columns of frames; None reads as NaN
            try:
                return array.astype(np.float64)
            except (TypeError, ValueError):
                for row, value in enumerate(array):
                    if isinstance(value, bool | int | float | np.number):
                        continue
                    self._refuse(array, row, _WANTED[self.kind])
        message = f"column {self.name!r} must hold numbers, got dtype {array.dtype}"
        raise ValueError(message)

    def _positions(self, array: np.ndarray) -> np.ndarray:
        positions = {category: place for place, category in enumerate(self.categories)}
        encoded = np.array([positions.get(value, -1) for value in array.tolist()], np.float64)
        if (encoded < 0).any():
            known = ", ".join(repr(category) for category in self.categories[:10])
            more = ", ..." if len(self.categories) > 10 else ""
            self._refuse(array, int(np.argmax(encoded < 0)), f"one of {known}{more}")
        return encoded

    def _refuse(self, array: np.ndarray, row: int, wanted: str) -> None:
        value = array[row].item() if isinstance(array[row], np.generic) else array[row]
        message = f"column {self.name!r}, row {row}: expected {wanted}, got {value!r}"
        raise ValueError(message)
