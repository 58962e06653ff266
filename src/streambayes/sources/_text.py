"""Rows that come as text: columns of numbers, and columns that stay text."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, final

import numpy as np

__all__ = ["NUMBER", "TEXT", "Types", "check_types"]

NUMBER, TEXT = "number", "text"
MISSING = frozenset({"", "na", "n/a", "nan", "null", "none", "#n/a"})
"""Text that stands for a missing cell, in small letters."""


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

    def column(self, name: str, cells: Sequence[str | None]) -> np.ndarray:
        """Cells of a column: of float64 if they are numbers, else of objects; ``None`` or NaN if missing."""
        known = [None if cell is None or cell.lower() in MISSING else cell for cell in cells]
        kind = self.kind(name, known)
        if kind == TEXT:
            return np.array(known, dtype=object)
        if kind is None:
            return np.full(len(known), np.nan)
        found = [_number_or_text(cell) for cell in known]
        is_number = all(isinstance(cell, float) for cell in found)
        return np.array(found, dtype=np.float64 if is_number else object)

    def kind(self, name: str, cells: Iterable[str | None]) -> str | None:
        """Of a column, told by these cells if it was not known; ``None`` if all of them are missing."""
        known = self._given.get(name) or self.told.get(name)
        if known is None:
            first = next((cell for cell in cells if cell is not None), None)
            if first is None:
                return None
            known = self.told[name] = NUMBER if isinstance(_number_or_text(first), float) else TEXT
        return known


def check_types(types: Mapping[str, str] | None) -> dict[str, str]:
    """What the user says of columns."""
    found = dict(types or {})
    for name, kind in found.items():
        if kind not in (NUMBER, TEXT):
            message = f"types: column {name!r} must be {NUMBER!r} or {TEXT!r}, got {kind!r}"
            raise ValueError(message)
    return found


def _number_or_text(cell: str | None) -> Any:
    if cell is None:
        return np.nan
    try:
        # Python also reads 1_000, and digits of other scripts
        return float(cell) if cell.isascii() and "_" not in cell else cell
    except ValueError:
        return cell
