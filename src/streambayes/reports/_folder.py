"""The runs in a folder: one, or one in each of its folders."""

import os
import urllib.parse
from pathlib import Path

from streambayes.learning._record import RECORDS

__all__ = ["runs_in"]


def runs_in(folder: str | Path) -> dict[str, Path]:
    """Folders with records by the name of their run: the folder itself, or those in it.

    A link that leads out of the folder is left out.
    """
    root = Path(folder).resolve()
    if _has_records(root, root):
        return {urllib.parse.unquote(root.name) or str(root): root}
    if not root.is_dir():
        return {}
    with os.scandir(root) as entries:
        names = sorted(entry.name for entry in entries if entry.is_dir())
    return {
        urllib.parse.unquote(name): root / name for name in names if _has_records(root / name, root)
    }


def _has_records(folder: Path, root: Path) -> bool:
    file = folder / RECORDS
    return file.is_file() and file.resolve().is_relative_to(root)
