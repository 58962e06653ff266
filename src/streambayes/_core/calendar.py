"""What the calendar says of moments: their month, day of the week, hour."""

from collections.abc import Mapping

import numpy as np

__all__ = ["CALENDAR", "on_calendar"]

CALENDAR: Mapping[str, tuple[str | int, ...]] = {
    "month": (
        *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
        *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
    ),
    "weekday": ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"),
    "hour": tuple(range(24)),
}
"""All values in order."""
_UNITS = {"month": ("M", 0), "weekday": ("D", 3), "hour": ("h", 0)}
"""What is counted since 1970, and at which value that began: on a Thursday, in January, at midnight."""


def on_calendar(what: str, times: np.ndarray) -> np.ndarray:
    """The month, the weekday or the hour of each moment of NumPy."""
    unit, first = _UNITS[what]
    number = times.astype(f"datetime64[{unit}]").astype(np.int64)
    values = np.array(CALENDAR[what])
    found: np.ndarray = values[(number + first) % len(values)]
    return found
