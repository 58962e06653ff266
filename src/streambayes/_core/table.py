"""Table: rows of named values that print in aligned columns."""

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any, final

__all__ = ["Table"]


@final
@dataclasses.dataclass(frozen=True, repr=False)
class Table:
    """Rows with the same columns; ``str`` aligns them, iteration yields dictionaries."""

    columns: tuple[str, ...]
    rows: tuple[Mapping[str, Any], ...]

    def __iter__(self) -> Iterator[Mapping[str, Any]]:
        return iter(self.rows)

    def __len__(self) -> int:
        return len(self.rows)

    def __getitem__(self, place: int) -> Mapping[str, Any]:
        return self.rows[place]

    def __repr__(self) -> str:
        return str(self)

    def __str__(self) -> str:
        cells = [[_text(row[column]) for column in self.columns] for row in self.rows]
        widths = [
            max(len(column), *(len(line[place]) for line in cells), 0)
            for place, column in enumerate(self.columns)
        ]
        return "\n".join(
            "  ".join(
                cell.ljust(width) if place == 0 else cell.rjust(width)
                for place, (cell, width) in enumerate(zip(line, widths, strict=True))
            ).rstrip()
            for line in [list(self.columns), *cells]
        )


def _text(value: Any) -> str:
    if value is None:
        return "-"
    return f"{value:.6g}" if isinstance(value, float) else str(value)
