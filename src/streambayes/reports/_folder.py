"""The runs in a folder: one, or one in each of the folders in it."""

import os
import urllib.parse
from pathlib import Path

from streambayes.learning._record import RECORDS, folder_name

__all__ = ["runs_in"]

_DEPTH = 4


def runs_in(folder: str | Path) -> dict[str, Path]:
    """Folders with records by the name of their run: the folder itself, or those in it and in their folders.

    A link that leads out of the folder is left out.
    """
    root = Path(folder).resolve()
    if _has_records(root, root):
        return {_name(root.name) or str(root): root}
    found = {}
    for place, folders, files in os.walk(root):
        path = Path(place)
        parts = path.relative_to(root).parts
        folders[:] = sorted(folders) if len(parts) < _DEPTH else []
        if RECORDS in files and _has_records(path, root):
            found["/".join(map(_name, parts))] = path
    return found


def _name(folder: str) -> str:
    """What a run was called whose folder has this name."""
    name = urllib.parse.unquote(folder)
    return name if folder_name(name) == folder else folder


def _has_records(folder: Path, root: Path) -> bool:
    file = folder / RECORDS
    return file.is_file() and file.resolve().is_relative_to(root)
