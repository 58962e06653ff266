"""Rows that come one by one, as names with values: put together in chunks."""

import json
import math
import warnings
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from streambayes._core.column import shown
from streambayes._core.names import meant
from streambayes.sources._text import Types

__all__ = ["check_malformed", "columns_of", "object_of", "rows_or_warnings", "same_fields"]


def check_malformed(malformed: str) -> bool:
    """Whether rows that cannot be read are left out, as the user says."""
    if malformed not in ("error", "ignore"):
        message = f"malformed must be 'error' or 'ignore', got {malformed!r}"
        raise ValueError(message)
    return malformed == "ignore"


def rows_or_warnings(
    found: Iterable[Any], read: Callable[[Any], dict[str, Any]], *, ignore: bool
) -> Iterator[tuple[Any, dict[str, Any]]]:
    """What was found, with its row; what has none that can be read is left out with a warning, or is an error."""
    for each in found:
        try:
            row = read(each)
        except ValueError as error:
            if not ignore:
                raise
            warnings.warn(f"left out: {error}", stacklevel=2)
        else:
            yield each, row


def same_fields(
    rows: Sequence[tuple[Any, dict[str, Any]]],
) -> Iterator[Sequence[tuple[Any, dict[str, Any]]]]:
    """Neighbours that belong together and have the same names; each row comes with what it belongs to."""
    first = 0
    for place in range(1, len(rows) + 1):
        if place == len(rows) or (
            rows[place][0] != rows[first][0] or rows[place][1].keys() != rows[first][1].keys()
        ):
            yield rows[first:place]
            first = place


def columns_of(
    rows: Sequence[dict[str, Any]], columns: list[str] | None, types: Types, where: str
) -> dict[str, np.ndarray]:
    """Columns of rows with the same names; text becomes numbers where types say so."""
    names = [name for name in rows[0] if columns is None or name in columns]
    if not names:
        alike = meant(next(iter(columns or []), ""), rows[0])
        message = (
            f"{where}: none of the columns {columns} is there; the row has {list(rows[0])}{alike}"
        )
        raise ValueError(message)
    return {name: _column(name, [row[name] for row in rows], types) for name in names}


def _column(name: str, cells: list[Any], types: Types) -> np.ndarray:
    if all(cell is None or isinstance(cell, str) for cell in cells):
        return types.column(name, cells)
    plain = [float(cell) if isinstance(cell, bool | int) else cell for cell in cells]
    if all(cell is None or isinstance(cell, float) for cell in plain):
        return np.array([math.nan if cell is None else cell for cell in plain])
    found = np.empty(len(plain), dtype=object)
    found[:] = plain
    return found


def object_of(text: str | bytes | None, where: str) -> dict[str, Any]:
    """A row that is written as a JSON object."""
    try:
        found = json.loads(text or b"")
    except (ValueError, RecursionError):
        found = None
    if not isinstance(found, dict):
        message = (
            f"{where}: expected a JSON object with the row's values by column, got {shown(text)}"
        )
        raise ValueError(message)  # noqa: TRY004  # of the data, not of an argument
    return found
