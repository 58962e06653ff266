"""Generated streams whose truth moves row by row, in ways that are known."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, final

import numpy as np

from streambayes.families import Beta, MultivariateNormalGamma, NormalGamma
from streambayes.models import AbstractModel, BetaBinomial, Gaussian, LinearRegression

__all__ = ["FAMILIES", "KINDS", "NEW_KINDS", "NUM_ROWS", "Family", "Rows", "draw_rows"]

NUM_ROWS = 10_000
_BURST = 20
Path = Callable[[np.random.Generator, int], np.ndarray]


def _held(rng: np.random.Generator, size: int, starts: np.ndarray) -> np.ndarray:
    """A truth that is drawn anew at each of some rows."""
    segment = np.searchsorted(starts, np.arange(NUM_ROWS), side="right")
    held: np.ndarray = rng.normal(size=(len(starts) + 1, size))[segment]
    return held


def _stationary(rng: np.random.Generator, size: int) -> np.ndarray:
    return _held(rng, size, np.array([]))


def _abrupt(rng: np.random.Generator, size: int) -> np.ndarray:
    """Three changes."""
    quarter = NUM_ROWS // 4
    return _held(rng, size, quarter * np.arange(1, 4) + rng.integers(-800, 800, 3))


def _frequent(rng: np.random.Generator, size: int) -> np.ndarray:
    """A change every 400 rows."""
    return _held(rng, size, np.arange(400, NUM_ROWS, 400))


def _gradual(rng: np.random.Generator, size: int) -> np.ndarray:
    """From one truth to the next along a line, four times."""
    knots = rng.normal(size=(5, size))
    places = np.linspace(0.0, NUM_ROWS, 5)
    lines = [np.interp(np.arange(NUM_ROWS), places, knots[:, k]) for k in range(size)]
    return np.stack(lines, -1)


def _walk(rng: np.random.Generator, size: int) -> np.ndarray:
    steps = rng.normal(0.0, 0.02, (NUM_ROWS, size))
    walk: np.ndarray = rng.normal(size=size) + np.cumsum(steps, axis=0)
    return walk


def _recurring(rng: np.random.Generator, size: int) -> np.ndarray:
    """Three truths in turn, 800 rows each."""
    truths = rng.normal(size=(3, size))
    turns: np.ndarray = truths[(np.arange(NUM_ROWS) // 800) % 3]
    return turns


def _bursts(rng: np.random.Generator, size: int) -> np.ndarray:
    """Every 1000 rows, 20 rows of something else."""
    truth = np.tile(rng.normal(size=size), (NUM_ROWS, 1))
    truth[np.arange(NUM_ROWS) % 1000 >= 1000 - _BURST] += rng.choice([-3.0, 3.0], size)
    return truth


def _sawtooth(rng: np.random.Generator, size: int) -> np.ndarray:
    """Away from a truth for 2500 rows, then back at once."""
    away = (np.arange(NUM_ROWS) % 2500) / 2500
    tooth: np.ndarray = rng.normal(size=size) + away[:, None] * rng.choice([-2.0, 2.0], size)
    return tooth


def _late(rng: np.random.Generator, size: int) -> np.ndarray:
    """One change, after nine tenths of the stream."""
    return _held(rng, size, np.array([9 * NUM_ROWS // 10]))


def _restless(rng: np.random.Generator, size: int) -> np.ndarray:
    """A slow walk, and a change every 1300 rows."""
    steps = np.cumsum(rng.normal(0.0, 0.008, (NUM_ROWS, size)), axis=0)
    walk: np.ndarray = steps + _held(rng, size, np.arange(1300, NUM_ROWS, 1300))
    return walk


def _settling(rng: np.random.Generator, size: int) -> np.ndarray:
    """A walk that comes to rest half-way."""
    steps = rng.normal(0.0, 0.03, (NUM_ROWS, size))
    steps[NUM_ROWS // 2 :] = 0.0
    walk: np.ndarray = rng.normal(size=size) + np.cumsum(steps, axis=0)
    return walk


KINDS: Mapping[str, Path] = {
    "stationary": _stationary,
    "abrupt": _abrupt,
    "frequent": _frequent,
    "gradual": _gradual,
    "walk": _walk,
    "recurring": _recurring,
    "bursts": _bursts,
}
NEW_KINDS: Mapping[str, Path] = {
    "sawtooth": _sawtooth,
    "late": _late,
    "restless": _restless,
    "settling": _settling,
}


@final
@dataclasses.dataclass(frozen=True)
class Rows:
    """A stream row by row: rows to learn, a row to test on beside each, and what the truth says of those.

    Attributes:
        learned: Shape (num_columns, num_rows).
        tested: Likewise.
        true_density: Log density of the tested rows under the truth, shape (num_rows,).
        changes: Rows at which the truth jumps, where it stands still between them.
    """

    learned: np.ndarray
    tested: np.ndarray
    true_density: np.ndarray
    changes: np.ndarray


@final
@dataclasses.dataclass(frozen=True)
class Family:
    """A model whose batches have an evidence in closed form, and how its rows follow from a truth.

    Attributes:
        model: The model; there is one block to learn, ``learned``.
        prior: Its prior.
        learned: The entry of that block.
        size: Numbers that make up the truth.
        draw: Rows and their true log densities, given the truth of each.
    """

    model: AbstractModel[Any, Any]
    prior: Any
    learned: str
    size: int
    draw: Callable[[np.random.Generator, np.ndarray], tuple[np.ndarray, np.ndarray]]


def _draws(rng: np.random.Generator, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    probability = 1.0 / (1.0 + np.exp(-1.5 * truth[:, 0]))
    ones = rng.random(len(truth)) < probability
    return ones[None].astype(float), np.log(np.where(ones, probability, 1.0 - probability))


def _values(rng: np.random.Generator, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    noise = rng.normal(size=len(truth))
    return (truth[:, 0] + noise)[None], _normal_density(noise)


def _regression(rng: np.random.Generator, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    regressors, noise = rng.normal(size=truth.shape), rng.normal(size=len(truth))
    response = (regressors * truth).sum(1) + noise
    density = _normal_density(noise) + _normal_density(regressors).sum(1)
    return np.concatenate([regressors.T, response[None]]), density


def _normal_density(noise: np.ndarray) -> np.ndarray:
    density: np.ndarray = -0.5 * (np.square(noise) + np.log(2.0 * np.pi))
    return density


FAMILIES: Mapping[str, Family] = {
    "Beta": Family(BetaBinomial("x"), Beta.from_concentrations(1.0, 1.0), "x", 1, _draws),
    "Gaussian": Family(
        Gaussian("x"),
        NormalGamma.from_shape_rate_mean_scale(*np.array([[1.0], [1.0], [0.0], [0.1]])),
        "x",
        1,
        _values,
    ),
    "regression": Family(
        LinearRegression("y", ["a", "b", "c"], "conjugate"),
        {
            "y": MultivariateNormalGamma.from_shape_rate_mean_scale(
                1.0, 1.0, np.zeros(4), 0.1 * np.eye(4)
            ),
            # regressors as good as known: what is left to learn is the response
            "a, b, c": NormalGamma.from_shape_rate_mean_scale(
                *np.array([[5e5], [5e5], [0.0], [1e6]]) * np.ones(3)
            ),
        },
        "y",
        3,
        _regression,
    ),
}


def draw_rows(family: str, kind: str, seed: int) -> Rows:
    """A stream of 10,000 rows.

    Args:
        family: One of ``FAMILIES``.
        kind: One of ``KINDS`` or ``NEW_KINDS``.
        seed: For the truth and the rows; streams differ by family and kind too.
    """
    every = {**KINDS, **NEW_KINDS}
    rng = np.random.default_rng([seed, list(FAMILIES).index(family), list(every).index(kind)])
    truth = every[kind](rng, FAMILIES[family].size)
    learned, _ = FAMILIES[family].draw(rng, truth)
    moves = 1 + np.flatnonzero(np.diff(truth, axis=0).any(1))
    changes = moves if len(moves) < len(truth) / 100 else moves[:0]
    return Rows(learned, *FAMILIES[family].draw(rng, truth), changes)
