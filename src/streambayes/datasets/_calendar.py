"""Days of the week."""

import numpy as np

__all__ = ["hours", "weekdays"]

_NAMES = np.array(["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])


def weekdays(times: np.ndarray) -> np.ndarray:
    """The day of the week of each moment, Mon to Sun."""
    days = times.astype("datetime64[D]").astype(np.int64)
    return _NAMES[(days + 3) % 7]  # 1 January 1970 was a Thursday


def hours(times: np.ndarray) -> np.ndarray:
    """The hour of the day of each moment, 0 to 23."""
    return times.astype("datetime64[h]").astype(np.int64) % 24
