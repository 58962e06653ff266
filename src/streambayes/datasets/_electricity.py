"""Elec2: the electricity market of New South Wales, 1996 to 1998; shipped with the library."""

import importlib.resources

import numpy as np

__all__ = ["electricity"]

_FIRST_DAY = np.datetime64("1996-05-07", "D")
_PERIODS = 48  # half-hours of a day
_TWICE = 362  # days before 4 May 1997, the day that is there twice
_NUMBERS = ("nswprice", "nswdemand", "vicprice", "vicdemand", "transfer")
# What the scaled file has where cells are missing: the means of the scaled columns, to six digits.
_FILL = {"vicprice": 0.003467, "vicdemand": 0.422915, "transfer": 0.500526}


def electricity(*, scaled: bool = False) -> dict[str, np.ndarray]:
    """The Elec2 data: 45,312 half-hours of an electricity market, 7 May 1996 to 5 December 1998.

    Columns, in order of time:

    - ``date``: the day; ``month``: its month; ``period``: the half-hour of the day, 1 to 48.
    - ``nswprice``, ``nswdemand``: price and demand in New South Wales, whole numbers.
    - ``vicprice``, ``vicdemand``: the same in Victoria; missing (NaN) until 4 May 1997.
    - ``transfer``: scheduled transfer between the two; 0 until 4 May 1997, then missing for a week.
    - ``up``: 1 if ``nswprice`` is above its mean over the 48 half-hours before, else 0.
    - ``duplicate``: true for one of two copies of 4 May 1997, the one without Victoria.

    Args:
        scaled: ``period`` and the five numbers as in the file that is commonly passed around: moved to
            the range [0, 1], rounded to six decimals, and the mean of the column where a cell is missing.
    """
    source = importlib.resources.files("streambayes.datasets") / "electricity.npz"
    with source.open("rb") as file, np.load(file, allow_pickle=False) as held:
        stored = {name: held[name] for name in (*_NUMBERS, "up")}
    row = np.arange(len(stored["up"]))
    day = row // _PERIODS
    date = _FIRST_DAY + (day - (day > _TWICE))
    numbers = {"period": row % _PERIODS + 1} | {name: _number(stored[name]) for name in _NUMBERS}
    if scaled:
        numbers = {name: _scaled(values, _FILL.get(name)) for name, values in numbers.items()}
    return {
        "date": date,
        "month": date.astype("datetime64[M]"),
        **numbers,
        "up": stored["up"].astype(np.int64),
        "duplicate": day == _TWICE,
    }


def _number(stored: np.ndarray) -> np.ndarray:
    """Floats, NaN where the file has the least value of its type."""
    return np.where(stored == np.iinfo(stored.dtype).min, np.nan, stored.astype(np.float64))


def _scaled(values: np.ndarray, fill: float | None) -> np.ndarray:
    low, high = np.nanmin(values), np.nanmax(values)
    ratio = np.round((values - low) / (high - low), 6)
    return ratio if fill is None else np.where(np.isnan(ratio), fill, ratio)
