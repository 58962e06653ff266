"""Columns a model reads, and the check that turns a user's values into numbers."""

import contextlib
from typing import Any, NoReturn

import numpy as np

from streambayes._core.pytree import definition

__all__ = [
    "BINARY",
    "CATEGORY",
    "CONTINUOUS",
    "COUNT",
    "LOG",
    "POSITIVE",
    "Column",
    "is_missing",
    "shown",
]

CONTINUOUS, BINARY, COUNT, CATEGORY = "continuous", "binary", "count", "category"
POSITIVE = "positive"
LOG = "log"
_WANTED = {
    CONTINUOUS: "a finite number",
    BINARY: "0 or 1",
    COUNT: "a whole number of at least 0",
    POSITIVE: "a finite number of at least 0",
    LOG: "a finite number above 0, whose logarithm is taken",
}
_LONGEST = 60
"""The most characters of a cell that a sentence echoes."""


@definition
class Column:
    """A column by name and kind.

    Attributes:
        name: What it is called.
        kind: What it may hold.
        categories: A category column's values in order.
        transform: ``"log"`` for a continuous column whose logarithms are modelled.
    """

    name: str
    kind: str = CONTINUOUS
    categories: tuple[str | int, ...] = ()
    transform: str = ""

    @property
    def is_measured(self) -> bool:
        """Whether its values have units, which the library takes from the data."""
        return self.kind in (CONTINUOUS, POSITIVE)

    def encode(self, values: Any) -> np.ndarray:
        """Numbers or their logarithms, categories as positions, NaN for missing cells: float32 if they are, else float64.

        NaN, None and masked cells are missing; ``ValueError`` names column, row and value of others
        that do not fit.
        """
        try:
            # a list of text and NaN would become an array of text
            plain = self.kind == CATEGORY and isinstance(values, list | tuple)
            array = np.asarray(values, dtype=object if plain else None)
            if array.dtype.kind in "SU" and isinstance(values, list | tuple):
                array = np.asarray(values, dtype=object)  # the numbers among them are numbers
        except ValueError:
            message = f"column {self.name!r} must have one value for each row"
            raise ValueError(message) from None
        if array.ndim != 1:
            message = f"column {self.name!r} must have one dimension, got shape {array.shape}"
            raise ValueError(message)
        masked = np.ma.getmaskarray(values) if np.ma.is_masked(values) else None
        if self.kind == CATEGORY:
            return self._positions(array, masked)
        return self._numbers(array, masked)

    def strange_cells(self, values: Any) -> np.ndarray:
        """Which cells of a column of numbers are none that it can hold, and are not missing; none of categories."""
        array = np.asarray(values)
        if self.kind == CATEGORY:
            return np.zeros(len(array), bool)
        if array.dtype.kind in "biuf":
            return ~self._fits(array.astype(np.float64))
        known = [None if is_missing(cell) else cell for cell in array]
        strange = np.array([cell is not None and not _is_number(cell) for cell in known], bool)
        cells = zip(known, strange, strict=True)
        numbers = [np.nan if odd or cell is None else float(cell) for cell, odd in cells]
        wrong: np.ndarray = strange | ~self._fits(np.array(numbers))
        return wrong

    def unseen_cells(self, values: Any) -> np.ndarray:
        """Which cells of a category column are none of its categories, and are not missing."""
        array = np.asarray(values, dtype=object if isinstance(values, list | tuple) else None)
        if self.kind != CATEGORY:
            return np.zeros(len(array), bool)
        unseen: np.ndarray = self._looked_up(array) < 0
        for row in np.flatnonzero(unseen):
            unseen[row] = not is_missing(array[row])
        return unseen

    def decode(self, numbers: np.ndarray) -> np.ndarray:
        """Values as a batch has them: the inverse of ``encode``."""
        if self.kind == CATEGORY:
            categories: np.ndarray = np.array(self.categories)
            numbers = categories[numbers.astype(int)]
        elif not self.is_measured:
            numbers = numbers.astype(int)
        elif self.transform == LOG:
            numbers = np.exp(numbers)
        return numbers

    def _numbers(self, array: np.ndarray, masked: np.ndarray | None) -> np.ndarray:
        if array.dtype.kind not in "biuf":
            array = self._from_objects(array)
        kind = np.float32 if array.dtype == np.float32 else np.float64
        numbers: np.ndarray = array.astype(kind, copy=masked is not None)
        if masked is not None:
            numbers[masked] = np.nan
        good = self._fits(numbers)
        if not good.all():
            self._refuse(array, int(np.argmin(good)), self._wanted)
        return np.log(numbers) if self.transform == LOG else numbers

    @property
    def _wanted(self) -> str:
        """What its cells have to be, in words."""
        return _WANTED[self.transform or self.kind]

    def _fits(self, numbers: np.ndarray) -> np.ndarray:
        """Which numbers the column can hold, or are missing."""
        if self.transform == LOG:
            good = (numbers > 0) & np.isfinite(numbers)
        elif self.kind == BINARY:
            good = (numbers == 0) | (numbers == 1)
        elif self.kind == COUNT:
            good = (numbers >= 0) & (numbers == np.floor(numbers)) & np.isfinite(numbers)
        elif self.kind == POSITIVE:
            good = (numbers >= 0) & np.isfinite(numbers)
        else:
            good = np.isfinite(numbers)
        fits: np.ndarray = good | np.isnan(numbers)
        return fits

    def _from_objects(self, array: np.ndarray) -> np.ndarray:
        """Numbers of a nullable column of a frame."""
        if array.dtype.kind in "SU" and len(array):
            self._refuse(array, 0, self._wanted)
        if array.dtype.kind != "O":
            message = f"column {self.name!r} must hold numbers, got dtype {array.dtype}"
            raise ValueError(message)
        numbers = np.empty(len(array))
        for row, value in enumerate(array):
            if is_missing(value):
                numbers[row] = np.nan
            elif _is_number(value):
                numbers[row] = float(value)
            else:
                self._refuse(array, row, self._wanted)
        return numbers

    def _positions(self, array: np.ndarray, masked: np.ndarray | None) -> np.ndarray:
        encoded = self._looked_up(array)
        if masked is not None:
            encoded[masked] = np.nan
        for row in np.flatnonzero(encoded < 0):  # missing, or none of the categories
            if not is_missing(array[row]):
                first = ", ".join(repr(category) for category in self.categories[:10])
                more = ", ..." if len(self.categories) > 10 else ""
                self._refuse(array, int(row), f"one of {first}{more}")
            encoded[row] = np.nan
        return encoded

    def _looked_up(self, array: np.ndarray) -> np.ndarray:
        """Positions of the values among the categories, -1 for a value that is none of them."""
        known = np.array(self.categories)
        if array.dtype.kind in "bif" and known.dtype.kind in "bi":
            if array.dtype.kind == "f":  # beyond, a float stands for several whole numbers
                array = np.where(np.abs(array) < 2.0**53, array, np.nan)
            order = np.argsort(known)
            nearest = order[np.searchsorted(known[order], array).clip(max=len(known) - 1)]
            found: np.ndarray = np.where(known[nearest] == array, nearest, -1.0)
            return found
        positions: dict[Any, float] = {
            category: float(place) for place, category in enumerate(self.categories)
        }
        values = array.tolist()
        try:
            return np.array([positions.get(value, -1.0) for value in values], dtype=np.float64)
        except TypeError:  # a value that cannot be looked up
            found = np.full(len(values), -1.0)
            for row, value in enumerate(values):
                with contextlib.suppress(TypeError):
                    found[row] = positions.get(value, -1.0)
            return found

    def _refuse(self, array: np.ndarray, row: int, wanted: str) -> NoReturn:
        value = array[row].item() if isinstance(array[row], np.generic) else array[row]
        message = f"column {self.name!r}, row {row}: expected {wanted}, got {shown(value)}"
        raise ValueError(message)


def _is_number(value: Any) -> bool:
    """Whether it is a number, of whatever class; text that looks like one is none."""
    if isinstance(value, str | bytes):
        return False
    try:
        float(value)
    except (TypeError, ValueError, ArithmeticError):
        return False
    return True


def shown(value: Any) -> str:
    """A cell as a sentence echoes it, cut where it is long."""
    try:
        text = repr(value)
    except ValueError:  # Python writes no number of thousands of digits
        return f"a very long {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def is_missing(value: Any) -> bool:
    """None, NaN, NaT and a frame's own null, which is equal to nothing, itself included."""
    if value is None:
        return True
    try:
        return bool(value != value)  # noqa: PLR0124
    except ArithmeticError:  # a Decimal that signals that it is not a number
        return True
    except (TypeError, ValueError):  # pandas' null has no truth value
        return type(value).__name__ == "NAType"
