"""The index of a pandas frame as its column of times."""

from typing import Any

__all__ = ["with_index"]


def with_index(columns: dict[str, Any], data: Any, time: str | None) -> dict[str, Any]:
    """The columns, with a frame's index where it is asked for as the time, as ``"index"`` or by its own name."""
    library = type(data).__module__.partition(".")[0]
    if time == "index" and time not in columns and library in ("polars", "pyarrow"):
        kind = {"polars": "polars frames", "pyarrow": "Arrow tables"}[library]
        message = f"batches: time='index': {kind} have no index; name the column of times"
        raise ValueError(message)
    if library != "pandas" or time is None or time in columns:
        return columns
    index: Any = data.index
    if time not in ("index", index.name):
        return columns
    kind = type(index).__name__
    if kind in ("RangeIndex", "MultiIndex"):
        holds = "row numbers" if kind == "RangeIndex" else "several columns"
        message = (
            f"batches: time={time!r}: the frame's index holds {holds}, not dates; make the times its index with "
            "frame.set_index(...), or name their column"
        )
        raise ValueError(message)
    if kind == "PeriodIndex":
        index = index.to_timestamp()
    if getattr(index, "tz", None) is not None:
        index = index.tz_convert(None)  # in UTC
    return {**columns, time: index.to_numpy()}
