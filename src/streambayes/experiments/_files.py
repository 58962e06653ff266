"""Numbers on disk."""

import csv
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

__all__ = ["write_rows"]


def write_rows(path: Path, rows: Iterable[Mapping[str, Any]]) -> Path:
    """Rows with the same columns as CSV; numbers with all their digits, nothing for ``None``."""
    listed = list(rows)
    with path.open("w", encoding="utf-8", newline="") as file:
        writer = csv.DictWriter(file, fieldnames=list(listed[0]), lineterminator="\n")
        writer.writeheader()
        writer.writerows(listed)
    return path
