r"""What the parameters of the next batch may be, by how far forecasts of the last 64 batches were off.

Batches differ from each other by more than chance, and how is seldom known: levels wander, alternate, fluctuate, grow. So five simple
forecasts of each parameter compete: the mean of the batches, the last batch, averages in which each batch counts for a half or
three quarters of the one after it, and the last batch with one more mean step. The one with the smallest mean absolute error in the past is taken. The interval is
conformal: among $n$ errors $|e|$ the one of rank $\lceil (n + 1) p \rceil$ holds the next with probability $p$ if errors are
exchangeable. Where there are too few for that, errors are taken as normal, so that the interval is a Student-t one.

Errors are those on scales on which chance is about the same everywhere: of the logarithm of a standard deviation, the square root of
a rate, the arcsine of the square root of a probability.
"""

import itertools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from streambayes.learning._state import ParameterSummary
from streambayes.models import AbstractModel
from streambayes.models._base import parameter_names

__all__ = ["foretell"]

_RATES = (0.25, 0.5, 1.0)
"""Shares of the last batch in the averages that forget."""
_FEWEST = 2
"""Errors from which an interval is finite."""


def foretell(
    model: AbstractModel[Any, Any], recent: np.ndarray, num_batches: int, level: float
) -> tuple[ParameterSummary, ...]:
    """Each parameter of the next batch: the forecast, the root mean square of its errors, and the interval.

    Args:
        model: The model.
        recent: Parameters by the last batches alone, as the watch keeps them.
        num_batches: Batches so far.
        level: The probability of the intervals.
    """
    values = np.roll(recent, -(num_batches % len(recent)), axis=0)  # the oldest first
    found: list[ParameterSummary] = []
    begin = 0
    for section in parameter_names(model):
        shown = []
        for part in section:
            end = begin + part.names.size
            is_log = np.broadcast_to(part.is_log, part.names.shape).ravel()
            told = _foretold(values[:, begin:end], part.support, is_log, level)
            names = part.names.ravel().tolist()
            shown.append(map(ParameterSummary, names, *(each.tolist() for each in told)))
            begin = end
        found.extend(itertools.chain.from_iterable(zip(*shown, strict=True)))
    return tuple(found)


def _foretold(
    values: np.ndarray, support: str, is_log: np.ndarray, level: float
) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
    """Forecast, deviation and ends of one array of parameters; values are (batches, parameters)."""
    bounded, free = _ENDS[support]

    def inner(each: np.ndarray) -> np.ndarray:
        return free(np.where(is_log, np.log(np.where(is_log, each, 1.0)), each))

    def outer(each: np.ndarray) -> np.ndarray:
        each = bounded(each)
        return np.where(is_log, np.exp(np.where(is_log, each, 0.0)), each)

    with np.errstate(all="ignore"):
        y = inner(values)
        forecasts, errors = _errors(np.where(np.isfinite(y), y, np.nan))
        best = np.argmin(np.nansum(np.abs(errors), axis=1), axis=0)
        every = np.arange(values.shape[1])
        centre, missed = forecasts[best, every], errors[best, :, every].T
        reach = _reach(np.abs(missed), level)
        deviation = _deviation(values - outer(y - missed))
        return outer(centre), deviation, outer(centre - reach), outer(centre + reach)


def _errors(values: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Forecasts of the next batch, (forecasts, parameters), and errors of all before, (forecasts, batches, parameters).

    Those of a mean of few batches are larger by chance, and taken for as much smaller.
    """
    size = values.shape[1]
    at = np.full((2 + len(_RATES), size), np.nan)
    errors = np.full((len(at), *values.shape), np.nan)
    count, first = np.zeros(size), np.full(size, np.nan)
    for place, now in enumerate(values):
        is_known = ~np.isnan(now)
        errors[:, place] = now - at
        errors[0, place] /= np.sqrt(1.0 + 1.0 / np.maximum(count, 1.0))
        count += is_known
        first = np.where(np.isnan(first), now, first)
        rates = np.stack([1.0 / np.maximum(count, 1.0), *(np.full(size, rate) for rate in _RATES)])
        averages = np.where(np.isnan(at[:-1]), now, at[:-1] + rates * (now - at[:-1]))
        stepped = now + (now - first) / np.maximum(count - 1.0, 1.0)
        at = np.where(is_known, np.concatenate([averages, stepped[None]]), at)
    return at, errors


def _reach(distances: np.ndarray, level: float) -> np.ndarray:
    """How far an interval of this level reaches, by past errors, (batches, parameters)."""
    from scipy.special import stdtrit

    count = (~np.isnan(distances)).sum(0)
    rank = np.ceil((count + 1) * level - 1e-9).astype(int)
    ranked = np.sort(distances, axis=0)  # NaN at the end
    conformal = ranked[np.clip(rank, 1, len(ranked)) - 1, np.arange(ranked.shape[1])]
    wide = _deviation(distances) * stdtrit(np.maximum(count, 1), 0.5 + 0.5 * level)
    return np.where(count < _FEWEST, math.inf, np.where(rank <= count, conformal, wide))


def _deviation(errors: np.ndarray) -> np.ndarray:
    """Root mean square; infinite where there are too few."""
    count = (~np.isnan(errors)).sum(0)
    mean = np.nansum(np.square(errors), axis=0) / np.maximum(count, 1)
    return np.where(count < _FEWEST, math.inf, np.sqrt(mean))


def _same(values: np.ndarray) -> np.ndarray:
    return values


_Way = Callable[[np.ndarray], np.ndarray]
_ENDS: dict[str, tuple[_Way, _Way]] = {
    "real": (_same, _same),
    "positive": (np.exp, np.log),
    "nonnegative": (lambda each: np.square(np.maximum(each, 0.0)), np.sqrt),
    "unit": (
        lambda each: np.square(np.sin(np.clip(each, 0.0, 0.5 * math.pi))),
        lambda each: np.arcsin(np.sqrt(each)),
    ),
}
"""To values within bounds, and from these to any."""
