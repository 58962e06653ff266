"""Columns of times as numbers and as moments."""

import datetime as dt
from typing import Any

import numpy as np

__all__ = ["seconds"]


def seconds(name: str, values: np.ndarray) -> np.ndarray:
    """Numbers as they are, moments in seconds since 1970."""
    if values.dtype.kind in "biuf":
        _check_times(name, np.isfinite(values))
        return values.astype(np.float64)
    return _timestamps(name, values).astype("datetime64[us]").astype(np.int64) / 1e6


def _timestamps(name: str, values: np.ndarray) -> np.ndarray:
    """Moments without time zone, in UTC if they had one."""
    if values.dtype.kind in "OU":
        values = np.array(
            [_moment(name, row, value) for row, value in enumerate(values)], "datetime64[us]"
        )
    if values.dtype.kind != "M":
        message = (
            f"batches: column {name!r} must hold dates, ISO text or numbers, got {values.dtype}"
        )
        raise ValueError(message)
    _check_times(name, ~np.isnat(values))
    return values.astype("datetime64[us]")


def _moment(name: str, row: int, value: Any) -> Any:
    """A moment without time zone, in UTC if it had one; NaT if it is missing."""
    if value is None or value != value:  # noqa: PLR0124  # NaN and NaT
        return np.datetime64("NaT")
    try:
        moment = dt.datetime.fromisoformat(value) if isinstance(value, str) else value
        if isinstance(moment, dt.datetime) and moment.tzinfo is not None:
            moment = moment.astimezone(dt.UTC).replace(tzinfo=None)
        return np.datetime64(moment, "us")
    except (TypeError, ValueError):
        message = f"batches: column {name!r}, row {row}: expected a date or ISO text, got {value!r}"
        raise ValueError(message) from None


def _check_times(name: str, known: np.ndarray) -> None:
    """Raise ``ValueError`` unless all are known."""
    if not known.all():
        message = f"batches: column {name!r}, row {int(np.argmin(known))}: the time is missing"
        raise ValueError(message)
