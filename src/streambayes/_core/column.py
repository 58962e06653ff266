"""Columns a model reads, and the check that turns a user's values into numbers."""

from collections.abc import Hashable
from typing import Any, NoReturn

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
        if np.ma.is_masked(values):
            row = int(np.argmax(np.ma.getmaskarray(values)))
            message = f"column {self.name!r}, row {row}: the value is masked"
            raise ValueError(message)
        try:
            array = np.asarray(values)
        except ValueError:
            message = f"column {self.name!r} must have one value for each row"
            raise ValueError(message) from None
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
        """Numbers of a nullable column of a frame; None reads as NaN."""
        if array.dtype.kind != "O":
            message = f"column {self.name!r} must hold numbers, got dtype {array.dtype}"
            raise ValueError(message)
        numbers = np.empty(len(array))
        for row, value in enumerate(array):
            try:
                if isinstance(value, str | bytes):
                    self._refuse(array, row, _WANTED[self.kind])
                numbers[row] = np.nan if value is None else float(value)
            except (TypeError, OverflowError):
                self._refuse(array, row, _WANTED[self.kind])
        return numbers

    def _positions(self, array: np.ndarray) -> np.ndarray:
        positions = {category: place for place, category in enumerate(self.categories)}
        encoded = np.empty(len(array))
        for row, value in enumerate(array.tolist()):
            known = isinstance(value, Hashable) and value in positions
            if not known:
                first = ", ".join(repr(category) for category in self.categories[:10])
                more = ", ..." if len(self.categories) > 10 else ""
                self._refuse(array, row, f"one of {first}{more}")
            encoded[row] = positions[value]
        return encoded

    def _refuse(self, array: np.ndarray, row: int, wanted: str) -> NoReturn:
        value = array[row].item() if isinstance(array[row], np.generic) else array[row]
        message = f"column {self.name!r}, row {row}: expected {wanted}, got {value!r}"
        raise ValueError(message)
