"""Periods of time: when the one that holds a moment starts, and what to call it."""

import datetime as dt
import math
import re
from typing import Any, final

import numpy as np

__all__ = ["Every", "Periods", "duration", "period"]

Every = str | float | dt.timedelta | np.timedelta64
"""What users give as a length of time."""
_PERIOD = re.compile(r"([0-9]{0,6})(s|m|h|d|w|mo|q|y)")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86400, "w": 7 * 86400}
_MONTHS = {"mo": 1, "q": 3, "y": 12}
_MONDAY = 4 * 86400  # 1 January 1970 was a Thursday; weeks start on Monday, four days later


@final
class Periods:
    """Periods one after the other.

    Args:
        every: How long they are: ``"1h"``, ``"1mo"``, ... of moments, a number of numbers.
        name: The column of times, for messages.
        is_numeric: Whether times are numbers; moments are in seconds since 1970.
    """

    def __init__(self, every: str | float, name: str, *, is_numeric: bool) -> None:
        self._every = every
        if is_numeric:
            is_number = isinstance(every, int | float) and not isinstance(every, bool)
            if not is_number or not 0 < every < float("inf"):  # type: ignore[operator]
                message = f"batches: column {name!r} is numeric, so every must be a positive number, got {every!r}"
                raise ValueError(message)
            return
        match = _PERIOD.fullmatch(every) if isinstance(every, str) else None
        if match is None or (match[1] and int(match[1]) == 0):
            message = (
                f"batches: every must be a period such as '1d' or '1mo', got {every!r}; units are s, m (minutes), h, d, "
                "w, mo (months), q and y"
            )
            raise ValueError(message)
        self._count, self._unit = int(match[1] or 1), match[2]

    def starts(self, times: np.ndarray) -> np.ndarray:
        """When the period of each time starts."""
        if not isinstance(self._every, str):
            ratio = times / self._every
            whole = np.rint(ratio)  # 0.3 / 0.1 is a hair below 3
            near = np.abs(ratio - whole) < 1e-9 * np.maximum(np.abs(ratio), 1.0)
            found: np.ndarray = np.where(near, whole, np.floor(ratio)) * self._every
            return found
        seconds = np.floor(times).astype(np.int64)
        if self._unit in _MONTHS:
            months = seconds.astype("datetime64[s]").astype("datetime64[M]").astype(np.int64)
            step = self._count * _MONTHS[self._unit]
            first = (months // step * step).astype("datetime64[M]").astype("datetime64[s]")
            months_first: np.ndarray = first.astype(np.int64).astype(np.float64)
            return months_first
        origin = _MONDAY if self._unit == "w" else 0
        step = self._count * _SECONDS[self._unit]
        starts: np.ndarray = ((seconds - origin) // step * step + origin).astype(np.float64)
        return starts

    def label(self, start: float) -> str:
        """What to call the period that starts then."""
        if not isinstance(self._every, str):
            return f"{start:g}"
        digits = {"y": 4, "q": 7, "mo": 7, "w": 10, "d": 10, "s": 19}.get(self._unit, 16)
        return str(np.datetime64(int(start), "s"))[:digits]


def period(every: Every) -> str | float:
    """A period as text or, of numeric times, as a number, whatever class it was given as."""
    found = _as_text(every)
    if isinstance(found, str):
        return found
    is_number = isinstance(found, int | float | np.integer | np.floating)
    if not is_number or isinstance(found, bool | np.timedelta64) or not 0 < found < math.inf:
        message = (
            "batches: every must be a period such as '1d', a timedelta of whole seconds or, for numeric times, a "
            f"positive number, got {every!r}"
        )
        raise ValueError(message)
    return found if isinstance(found, int | float) else found.item()


def _as_text(length: Any) -> Any:
    """A timedelta of whole seconds as text, such as ``"90s"``; all else as it is."""
    if not isinstance(length, dt.timedelta | np.timedelta64):
        return length
    second = dt.timedelta(seconds=1)
    try:
        seconds = float(
            length / (second if isinstance(length, dt.timedelta) else np.timedelta64(second))
        )
    except TypeError:  # months and years, which differ in length
        return length
    unit = next((unit for unit in "dhms" if seconds % _SECONDS[unit] == 0), None)  # NaN has none
    return length if unit is None else f"{seconds / _SECONDS[unit]:.0f}{unit}"


def duration(value: Every, argument: str) -> float:
    """A length of time in seconds, or in the units of numeric times: ``"10m"``, ``2.5``."""
    value = _as_text(value)
    if isinstance(value, str):
        match = _PERIOD.fullmatch(value)
        if match is not None and match[2] in _SECONDS:
            return float(int(match[1] or 1) * _SECONDS[match[2]])
    elif isinstance(value, int | float) and value is not True and 0 <= value < math.inf:
        return float(value)
    message = f"batches: {argument} must be a length of time such as '10m', '1h' or a number, got {value!r}"
    raise ValueError(message)
