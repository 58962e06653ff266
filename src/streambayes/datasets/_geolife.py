"""Geolife: trajectories of people in Beijing, from the user's own download."""

from os import PathLike
from pathlib import Path

import numpy as np

from streambayes._core.calendar import on_calendar

__all__ = ["geolife"]

_HEADER = 6  # lines
_FIELDS = 7  # latitude, longitude, 0, altitude, days since 1899-12-30, date, time
_STAMP = len("2008-10-23T02:53:04")
_BELOW = ("*/Trajectory/*.plt", "Data/*/Trajectory/*.plt", "*/Data/*/Trajectory/*.plt")


def geolife(folder: str | PathLike[str], *, every: int = 10) -> dict[str, np.ndarray]:
    """The Geolife trajectories below a folder, one fix in ten.

    Columns, in order of time:

    - ``time``: the moment, in UTC; ``day``: its day of the week, Mon to Sun; ``hour``: 0 to 23.
    - ``latitude``, ``longitude``: degrees, as they are in the files, even where no such place exists.
    - ``trajectory``: user and file, such as ``000/20081023025304``.

    Args:
        folder: Where the download was unpacked: the folder with ``Data`` in it, or ``Data`` itself.
        every: Of each file the first fix is kept and every so-maniest after it: with 10 the 1st, the 11th,
            the 21st. Lines that are left out are checked for their number of fields only.
    """
    if isinstance(every, bool) or not isinstance(every, int | np.integer) or every < 1:
        message = f"geolife: every must be a whole number of at least 1, got {every!r}"
        raise ValueError(message)
    files = _files(Path(folder))
    places, stamps, counts = [], [], []
    for path in files:
        place, stamp = _read(path, every)
        places.append(place)
        stamps.append(stamp)
        counts.append(len(stamp))
    if not sum(counts):
        message = f"geolife: no file in {folder} has fixes below its header; unpack Geolife again"
        raise ValueError(message)
    names = np.array([f"{path.parents[1].name}/{path.stem}" for path in files])
    time = np.concatenate(stamps)
    order = np.argsort(time, kind="stable")
    time = time[order]
    latitude, longitude = np.concatenate(places, axis=1)[:, order]
    return {
        "time": time,
        "day": on_calendar("weekday", time),
        "hour": on_calendar("hour", time),
        "latitude": latitude,
        "longitude": longitude,
        "trajectory": np.repeat(names, counts)[order],
    }


def _files(folder: Path) -> list[Path]:
    """The files of all users, by user and name."""
    if not folder.is_dir():
        found = f"{folder} is a file" if folder.exists() else f"there is no folder {folder}"
        message = f"geolife: {found}; download Geolife, unpack it, and give the folder that has Data in it"
        raise FileNotFoundError(message)
    for pattern in _BELOW:
        files = sorted(folder.glob(pattern))
        if files:
            return files
    message = (
        f"geolife: {folder} has no files Data/<user>/Trajectory/*.plt; give the folder into which "
        "Geolife was unpacked"
    )
    raise FileNotFoundError(message)


def _read(path: Path, every: int) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes and longitudes, and times, of the fixes that are kept."""
    content = path.read_bytes()
    lines = content.rstrip().splitlines()
    if len(lines) < _HEADER:
        message = (
            f"geolife: {path} is cut: expected {_HEADER} header lines, then the fixes, got "
            f"{len(lines)} lines; unpack Geolife again"
        )
        raise ValueError(message)
    fixes = lines[_HEADER:]
    if fixes and not content.endswith(b"\n") and not _is_good(fixes[-1]):
        message = (
            f"geolife: {path} is cut in the middle of line {len(lines)}, "
            f"{_text(fixes[-1])}; unpack Geolife again"
        )
        raise ValueError(message)
    try:
        if any(line.count(b",") != _FIELDS - 1 for line in fixes):
            raise ValueError  # noqa: TRY301  # said below, for the line
        return _parse(fixes[::every])
    except ValueError:
        bad = next(at for at, line in enumerate(fixes) if not _is_good(line))
    message = (
        f"geolife: {path}, line {_HEADER + bad + 1}: expected latitude, longitude, 0, altitude, days, "
        f"date, time, got {_text(fixes[bad])}; mend the line, or unpack Geolife again"
    )
    raise ValueError(message)


def _parse(lines: list[bytes]) -> tuple[np.ndarray, np.ndarray]:
    """Latitudes and longitudes, and times, of lines with the right number of fields."""
    fields = b",".join(lines).split(b",") if lines else []
    places = np.array([fields[0::_FIELDS], fields[1::_FIELDS]], "S").astype(np.float64)
    days = zip(fields[5::_FIELDS], fields[6::_FIELDS], strict=True)
    stamps = [day + b"T" + clock for day, clock in days]
    if not np.isfinite(places).all() or any(len(stamp) != _STAMP for stamp in stamps):
        raise ValueError
    return places, np.array(stamps, "S").astype("datetime64[s]")


def _is_good(line: bytes) -> bool:
    try:
        return line.count(b",") == _FIELDS - 1 and len(_parse([line])[1]) == 1
    except ValueError:
        return False


def _text(line: bytes) -> str:
    return repr(line.decode(errors="replace"))
