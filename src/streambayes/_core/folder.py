"""Folders that their owner alone can write to, so that what lies there may be trusted, and removed."""

import contextlib
import os
import re
import stat
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

__all__ = ["NotPrivateError", "check_private", "make_private", "own_files", "remove_own"]

_HAS_OWNERS = hasattr(os, "getuid")  # Windows keeps the folders of users apart by itself


class NotPrivateError(OSError):
    """Others than this user can write to a folder, or could have put it where it is."""


def make_private(folder: Path) -> None:
    """Make a folder for this user alone, with its parents, if it is not there; ``NotPrivateError`` where it is not private."""
    folder = folder.absolute()
    for place in (*reversed(folder.parents), folder):
        if not os.path.lexists(place):
            with contextlib.suppress(FileExistsError):
                place.mkdir(mode=0o700)
    check_private(folder)


def check_private(folder: Path) -> None:
    """Raise ``NotPrivateError`` unless this user alone can put something into a folder.

    It is no link, belongs to the user and cannot be written to by others; and nobody else can put another in its place:
    where everyone may write to a parent, what the path names there belongs to the user or to root, and stays theirs.
    """
    if not _HAS_OWNERS:
        return
    folder, mine = folder.absolute(), os.getuid()
    found = folder.lstat()
    if not stat.S_ISDIR(found.st_mode):
        _refuse(folder, "it is a link or a file")
    if found.st_uid != mine:
        _refuse(folder, "it belongs to someone else")
    if found.st_mode & (stat.S_IWGRP | stat.S_IWOTH):
        _refuse(folder, "others can write to it")
    for place in (folder, *folder.parents):
        mode = place.parent.stat().st_mode
        if mode & stat.S_IWOTH and not (mode & stat.S_ISVTX and place.lstat().st_uid in (0, mine)):
            _refuse(folder, f"others can replace {place}")


def own_files(folder: Path, name: re.Pattern[str]) -> Iterator[os.DirEntry[str]]:
    """The plain files of this user in a folder whose names match; links are none."""
    with os.scandir(folder) as entries:
        for entry in entries:
            if (
                name.fullmatch(entry.name)
                and entry.is_file(follow_symlinks=False)
                and _is_own(entry)
            ):
                yield entry


def remove_own(folder: Path, name: re.Pattern[str]) -> None:
    """Remove these files, as far as that can be done, and the folder if nothing is left in it."""
    with contextlib.suppress(OSError):
        check_private(folder)
        for entry in own_files(folder, name):
            with contextlib.suppress(OSError):
                Path(entry.path).unlink()
        folder.rmdir()


def _is_own(entry: os.DirEntry[str]) -> bool:
    return not _HAS_OWNERS or entry.stat(follow_symlinks=False).st_uid == os.getuid()


def _refuse(folder: Path, why: str) -> NoReturn:
    message = f"{folder} is not private: {why}"
    raise NotPrivateError(message)
