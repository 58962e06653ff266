"""What the paper says of the artificial stream, each statement with the number measured for it."""

import dataclasses
from collections.abc import Mapping
from typing import final

import numpy as np

from streambayes.experiments.artificial._stream import true_probability
from streambayes.experiments.artificial._track import Track
from streambayes.metrics import retained_limit

__all__ = ["Finding", "findings"]

_CHANGES = (31, 61)  # first batches after a change
_STABLE = ((21, 30), (51, 60), (81, 100))  # stretches in which nothing has changed for a while
_PRIOR = 2.0  # pseudo-counts of Beta(1, 1), part of the paper's sample size


@final
@dataclasses.dataclass(frozen=True)
class Finding:
    """A statement about the stream and the number that was measured for it.

    Attributes:
        batch_size: Draws in each batch of the stream it is about.
        statement: What was measured; ESS and its limits include the prior's 2, "apart" is the
            largest difference after t = 10.
        measured: The number.
        lower: The least number with which the statement holds.
        upper: The largest.
    """

    batch_size: int
    statement: str
    measured: float
    lower: float
    upper: float

    @property
    def holds(self) -> bool:
        """Whether the number lies where the paper leads one to expect it."""
        return self.lower <= self.measured <= self.upper


def findings(tracks: Mapping[int, Mapping[str, Track]]) -> tuple[Finding, ...]:
    """The paper's statements, measured on tracks by batch size (100 and 1000) and method."""
    small, large = tracks[100], tracks[1000]
    return (
        *_forgetting(100, small["HPP"], at_change=0.06, stable=(0.55, 0.75)),
        *_estimates(small),
        *_sample_sizes(small),
        *_forgetting(1000, large["HPP"], at_change=0.003, stable=(0.68, 0.78)),
    )


def _forgetting(
    batch_size: int, hpp: Track, at_change: float, stable: tuple[float, float]
) -> list[Finding]:
    if hpp.rho is None:
        message = "findings: HPP must have a rho"
        raise ValueError(message)
    found = [
        Finding(
            batch_size,
            f"HPP, E[rho] at t = {t}, after a change",
            float(hpp.rho[t - 1]),
            0,
            at_change,
        )
        for t in _CHANGES
    ]
    for first, last in _STABLE:
        median = float(np.median(hpp.rho[first - 1 : last]))
        statement = f"HPP, median E[rho], t = {first} to {last}"
        found.append(Finding(batch_size, statement, median, *stable))
    return found


def _estimates(tracks: Mapping[str, Track]) -> list[Finding]:
    error = {name: _error(track) for name, track in tracks.items()}
    fixed = min(error[name] for name in error if name not in {"HPP", "MHPP"})
    found = [
        Finding(100, "HPP, mean of |E[beta] - p|", error["HPP"], 0, fixed),
        Finding(100, "best of the seven others, the same", fixed, error["HPP"], 1),
        Finding(100, "SVB, the same", error["SVB"], fixed, 1),
    ]
    for rho, step in ((0.9, "0.1"), (0.99, "0.01")):
        power, population = tracks[f"PP {rho:g}"], tracks[f"PVB M=1000 nu={step}"]
        smaller = tracks[f"PVB M=batch nu={step}"]
        same_decay = f"E[beta] of PP {rho:g}, PVB M=1000 nu={step} apart"
        same_step = f"E[beta] of PVB nu={step}, M=1000, M=100 apart"
        found += [
            Finding(100, same_decay, _apart(power, population), 0, 0.02),
            Finding(100, same_step, _apart(population, smaller), 0, 0.02),
        ]
    return found


def _sample_sizes(tracks: Mapping[str, Track]) -> list[Finding]:
    limits = {f"PP {rho:g}": retained_limit(rho, 100) for rho in (0.9, 0.99)}
    for step in ("0.1", "0.01"):
        limits[f"PVB M=1000 nu={step}"] = 1000.0
        limits[f"PVB M=batch nu={step}"] = 100.0
    hpp = tracks["HPP"].sample_size
    return [
        *(
            Finding(
                100,
                f"{method}, ESS at t = 100 / {limit + _PRIOR:g}",
                float(tracks[method].sample_size[-1]) / (limit + _PRIOR),
                0.99,
                1.01,
            )
            for method, limit in limits.items()
        ),
        *(
            Finding(
                100,
                f"HPP, ESS at t = {t} / ESS at t = {t - 1}",
                float(hpp[t - 1] / hpp[t - 2]),
                0,
                0.5,
            )
            for t in _CHANGES
        ),
    ]


def _error(track: Track) -> float:
    return float(np.abs(track.mean - true_probability()).mean())


def _apart(one: Track, other: Track) -> float:
    """The largest difference of the estimates once ten batches have covered the prior."""
    return float(np.abs(one.mean - other.mean)[10:].max())
