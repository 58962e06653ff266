"""Rows that come as text: columns of numbers, and columns that stay text; and how a file of them is written."""

import csv
import io
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, NamedTuple, final

import numpy as np

__all__ = ["NUMBER", "TEXT", "Dialect", "Types", "check_types", "recognised"]

NUMBER, TEXT = "number", "text"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "#n/a"})
"""Text that stands for a missing cell, in small letters."""
_LINES = 1000
_SEPARATORS = ";\t|,"
"""What may separate cells; the first one that fits does, since few tables have it in their header by chance."""
_WITH_COMMA, _WITH_POINT = (
    re.compile(rf"[+-]?\d+{mark}\d+(?:[eE][+-]?\d+)?") for mark in (",", r"\.")
)


class Dialect(NamedTuple):
    """How a CSV file is written.

    Attributes:
        separator: What separates its cells.
        decimal: What separates whole numbers and fractions, a point or a comma.
        example: A number as it is written there, if it has a decimal comma.
    """

    separator: str
    decimal: str
    example: str | None = None


def recognised(text: str, separator: str | None, decimal: str | None, default: str) -> Dialect:
    """How a CSV file is written, by its beginning and by what the user says.

    Args:
        text: Its beginning.
        separator: What the user says.
        decimal: What the user says.
        default: What separates cells if nothing fits.
    """
    if separator is None:
        separator = _separator(text, default)
    if decimal is not None or separator == ",":
        return Dialect(separator, decimal or ".", None)
    cells = [cell.strip() for row in _cells(text, separator)[1:] for cell in row]
    example = next((cell for cell in cells if _WITH_COMMA.fullmatch(cell)), None)
    has_points = any(_WITH_POINT.fullmatch(cell) for cell in cells)
    return (
        Dialect(separator, ".")
        if example is None or has_points
        else Dialect(separator, ",", example)
    )


def _cells(text: str, separator: str) -> list[list[str]]:
    """The first lines that have cells; none of a file that is not so written."""
    try:
        return [
            row
            for row, _ in zip(
                csv.reader(io.StringIO(text, newline=""), delimiter=separator),
                range(_LINES),
                strict=False,
            )
            if row
        ]
    except csv.Error:
        return []


def _separator(text: str, default: str) -> str:
    """What gives all lines the same number of cells, more than one; or at least the first line."""
    widths = {each: [len(row) for row in _cells(text, each)] or [1] for each in _SEPARATORS}
    for each, found in widths.items():
        if found[0] > 1 and len(set(found)) == 1:
            return each
    if widths[default][0] > 1:
        return default
    return next((each for each, found in widths.items() if found[0] > 1), default)


@final
class Types:
    """Which columns of text hold numbers: said by the user, or else told by the first cell that is not missing.

    A cell that is no number in a column of numbers stays text, for the model to say that it does not fit.

    Args:
        given: What the user says, by column.
        told: What was told by cells so far, by column: ``told`` of another one, to go on from.
    """

    def __init__(self, given: Mapping[str, str], told: Mapping[str, str] | None = None) -> None:
        self._given = given
        self.told = dict(told or {})

    def column(self, name: str, cells: Sequence[str | None], decimal: str = ".") -> np.ndarray:
        """Cells of a column: of float64 if they are numbers, else of objects; ``None`` or NaN if missing."""
        known = [None if cell is None or cell.lower() in MISSING else cell for cell in cells]
        kind = self.kind(name, known, decimal)
        if kind == TEXT:
            return np.array(known, dtype=object)
        if kind is None:
            return np.full(len(known), np.nan)
        found = [_number_or_text(cell, decimal) for cell in known]
        is_number = all(isinstance(cell, float) for cell in found)
        return np.array(found, dtype=np.float64 if is_number else object)

    def kind(self, name: str, cells: Iterable[str | None], decimal: str = ".") -> str | None:
        """Of a column, told by these cells if it was not known; ``None`` if all of them are missing."""
        known = self._given.get(name) or self.told.get(name)
        if known is None:
            first = next((cell for cell in cells if cell is not None), None)
            if first is None:
                return None
            is_number = isinstance(_number_or_text(first, decimal), float)
            known = self.told[name] = NUMBER if is_number else TEXT
        return known


def check_types(types: Mapping[str, str] | None) -> dict[str, str]:
    """What the user says of columns."""
    found = dict(types or {})
    for name, kind in found.items():
        if kind not in (NUMBER, TEXT):
            message = f"types: column {name!r} must be {NUMBER!r} or {TEXT!r}, got {kind!r}"
            raise ValueError(message)
    return found


def _number_or_text(cell: str | None, decimal: str) -> Any:
    if cell is None:
        return np.nan
    if decimal == "," and "." in cell:  # which would stand between thousands
        return cell
    try:
        # Python also reads 1_000, and digits of other scripts
        return float(cell.replace(decimal, ".")) if cell.isascii() and "_" not in cell else cell
    except ValueError:
        return cell
