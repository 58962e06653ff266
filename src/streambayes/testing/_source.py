"""Laws that every source of rows keeps."""

import json
from typing import TYPE_CHECKING, Any

from streambayes.testing._law import agree, broken

if TYPE_CHECKING:
    from streambayes.sources import Source

__all__ = ["check_source"]

_MOST = 200
"""Rows from which reading on is tried."""


def check_source(source: "Source") -> None:
    """Raise ``AssertionError`` naming the law that a source breaks.

    Args:
        source: A source that ends, with some rows and at least one column; it is read many times.
    """
    rows, offsets = _read(source, None)
    if not rows:
        broken("a source that is to be checked has rows")
    agree("a source can be read again", _read(source, None)[0], rows)
    for offset in offsets:
        agree("offsets are the same after a way through JSON", _through_json(offset), offset)
    for place in range(0, len(rows) + 1, max(len(rows) // _MOST, 1)):
        rest, _ = _read(source, _through_json(offsets[place]))
        agree(f"going on after {place} rows gives the others", rest, rows[place:])
        source.commit(offsets[place])
    rest, _ = _read(source, _through_json(offsets[len(rows) // 2]))
    agree("what was committed can be read all the same", rest, rows[len(rows) // 2 :])
    name = next(iter(rows[0]))[0]
    some, _ = _read(source, None, [name])
    expected = [tuple(cell for cell in row if cell[0] == name) for row in rows]
    agree(f"column {name!r} alone is what it is among others", some, expected)


def _read(
    source: "Source", start: Any, columns: list[str] | None = None
) -> tuple[list[Any], list[Any]]:
    """Rows, as pairs of name and cell, and where the source stands before and after each."""
    rows: list[Any] = []
    offsets: list[Any] = []
    for chunk in source.read(start, columns):
        if chunk is None:
            continue
        sizes = {len(values) for values in chunk.columns.values()}
        if sizes != {chunk.num_rows}:
            broken(f"the columns of a chunk have equal length: found {sizes}")
        if not offsets:
            offsets.append(chunk.offset(0))
        cells = {name: values.tolist() for name, values in chunk.columns.items()}
        for row in range(chunk.num_rows):
            rows.append(tuple((name, repr(values[row])) for name, values in cells.items()))
            offsets.append(chunk.offset(row + 1))
    return rows, offsets


def _through_json(offset: Any) -> Any:
    try:
        return json.loads(json.dumps(offset, allow_nan=False))
    except (TypeError, ValueError) as error:
        broken(f"offsets are JSON: {error}")
