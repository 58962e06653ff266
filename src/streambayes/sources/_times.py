"""Columns of times as numbers and as moments."""

import datetime as dt
from typing import Any

import numpy as np

from streambayes._core.column import is_missing, shown

__all__ = ["parsed", "seconds"]

_EPOCH, _MICROSECOND = dt.datetime(1970, 1, 1), dt.timedelta(microseconds=1)  # noqa: DTZ001  # of UTC
_MISSING = int(np.datetime64("NaT", "us").astype(np.int64))


def seconds(name: str, values: np.ndarray) -> np.ndarray:
    """Numbers as they are, moments in seconds since 1970."""
    if values.dtype.kind in "biuf":
        _check_times(name, np.isfinite(values))
        return values.astype(np.float64)
    return _timestamps(name, values).astype("datetime64[us]").astype(np.int64) / 1e6


def parsed(name: str, values: np.ndarray) -> np.ndarray:
    """Times whose text and objects are read already, once for all."""
    return values if values.dtype.kind in "biuf" else _timestamps(name, values)


def _timestamps(name: str, values: np.ndarray) -> np.ndarray:
    """Moments without time zone, in UTC if they had one."""
    if values.dtype.kind in "OU":
        found = [_microseconds(name, row, cell) for row, cell in enumerate(values.tolist())]
        values = np.array(found, np.int64).view("datetime64[us]")
    if values.dtype.kind != "M":
        message = (
            f"batches: column {name!r} must hold dates, ISO text or numbers, got {values.dtype}"
        )
        raise ValueError(message)
    _check_times(name, ~np.isnat(values))
    return values.astype("datetime64[us]")


def _microseconds(name: str, row: int, value: Any) -> int:
    """A moment since 1970, of UTC if it has a zone, as NumPy counts it; that of NaT if it is missing."""
    try:
        if isinstance(value, str):
            value = dt.datetime.fromisoformat(value)
        elif is_missing(value):
            return _MISSING
        if not isinstance(value, dt.datetime):
            return int(np.datetime64(value, "us").astype(np.int64))
        if value.tzinfo is not None:
            value = value.astimezone(dt.UTC).replace(tzinfo=None)
        return int((value - _EPOCH) // _MICROSECOND)
    except (TypeError, ValueError):
        message = (
            f"batches: column {name!r}, row {row}: expected a date or ISO text, got {shown(value)}"
        )
        raise ValueError(message) from None


def _check_times(name: str, known: np.ndarray) -> None:
    """Raise ``ValueError`` unless all are known."""
    if not known.all():
        message = f"batches: column {name!r}, row {int(np.argmin(known))}: the time is missing"
        raise ValueError(message)
