"""How long a warm step takes, beside the same update written in plain NumPy, in one run.

Both sides see the same batches of 100 rows and take turns, so that what else the machine does falls
on both. The plain programs do the update alone: they read arrays, sum over rows and climb the same
bound by the same schedule to the same tolerance. The library's step also checks every value, keeps
the state immutable and reports what happened. Every step is checked to give the same posterior.

    python benchmarks/step_latency.py [--steps 2000] [--output FILE]
"""

import argparse
import datetime as dt
import json
import math
import os
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import streambayes as sb

ROWS = 100
COLUMNS = 10
WARM_UP = 50
TOLERANCE = 1e-12  # per row, the library's default
MAX_ROUNDS = 100
AGREEMENT = 1e-8
HALF_LOG_TWO_PI = 0.5 * math.log(2.0 * math.pi)


def digamma(x: Any) -> Any:
    """Derivative of the log-gamma function, for numbers and arrays: seven steps up, then the series."""
    below = sum(1.0 / (x + step) for step in range(7))
    y = x + 7.0
    z = 1.0 / (y * y)
    series = z * (1 / 12 - z * (1 / 120 - z * (1 / 252 - z * (1 / 240 - z * (1 / 132)))))
    return (np.log(y) if isinstance(y, np.ndarray) else math.log(y)) - 0.5 / y - series - below


def expected_rho(omega: float) -> float:
    """Mean of the exponential truncated to [0, 1]."""
    if abs(omega) < 0.1:
        square = omega * omega
        return 0.5 + omega * (1 / 12 - square * (1 / 720 - square / 30240))
    if omega < -700.0:
        return -1.0 / omega
    return -1.0 / math.expm1(-omega) - 1.0 / omega


def log_normalizer_of_rho(omega: float) -> float:
    """Log of the integral of exp(omega rho) over [0, 1]."""
    size = abs(omega)
    if size < 0.1:
        square = omega * omega
        return 0.5 * omega + square * (1 / 24 - square * (1 / 2880 - square / 181440))
    return max(omega, 0.0) + math.log(-math.expm1(-size) / size)


class PlainBeta:
    """Bernoulli draws under a Beta; scalars in the math module, sums in NumPy."""

    prior = (1.0, 1.0)

    def message(self, batch: dict[str, np.ndarray]) -> tuple[tuple[float, float], float]:
        """Natural parameters that the rows add, and the part of the bound without parameters."""
        x = batch["x"]
        successes = float(x.sum())
        return (successes, len(x) - successes), 0.0

    def log_normalizer(self, eta: tuple[float, float]) -> float:
        """A(eta)."""
        return math.lgamma(eta[0]) + math.lgamma(eta[1]) - math.lgamma(eta[0] + eta[1])

    def expected_stats(self, eta: tuple[float, float]) -> tuple[float, float]:
        """Gradient of A."""
        total = digamma(eta[0] + eta[1])
        return digamma(eta[0]) - total, digamma(eta[1]) - total

    def mix(self, rho: float, first: Any, second: Any, message: Any) -> tuple[float, float]:
        """Tempered prior plus message."""
        rest = 1.0 - rho
        return (
            rho * first[0] + rest * second[0] + message[0],
            rho * first[1] + rest * second[1] + message[1],
        )

    def dot(self, left: Any, right: Any) -> float:
        """Inner product."""
        return left[0] * right[0] + left[1] * right[1]

    def minus(self, left: Any, right: Any) -> tuple[float, float]:
        """Difference."""
        return left[0] - right[0], left[1] - right[1]


class PlainGaussian:
    """Independent Gaussian columns; natural parameters as one array (4, columns)."""

    prior = np.array([[0.0], [-0.5], [-1.0], [0.5]]) * np.ones(COLUMNS)

    def __init__(self) -> None:
        self._names = [f"x{place}" for place in range(COLUMNS)]

    def message(self, batch: dict[str, np.ndarray]) -> tuple[np.ndarray, float]:
        """Natural parameters that the rows add, and the part of the bound without parameters."""
        rows = np.array([batch[name] for name in self._names])
        half = np.full(COLUMNS, 0.5 * rows.shape[1])
        squares = np.einsum("ij,ij->i", rows, rows)
        added = np.stack([rows.sum(1), -half, -0.5 * squares, half])
        return added, -rows.size * HALF_LOG_TWO_PI

    def log_normalizer(self, eta: np.ndarray) -> float:
        """A(eta), summed over columns."""
        shape, rate, scale, _ = self._usual(eta)
        logs = sum(math.lgamma(value) for value in shape.tolist())
        return float(logs - shape @ np.log(rate) - 0.5 * np.log(scale).sum())

    def expected_stats(self, eta: np.ndarray) -> np.ndarray:
        """Gradient of A."""
        shape, rate, scale, mean = self._usual(eta)
        precision = shape / rate
        first = mean * precision
        second = mean * first + 1.0 / scale
        return np.stack([first, second, precision, digamma(shape) - np.log(rate)])

    def mix(self, rho: float, first: Any, second: Any, message: Any) -> np.ndarray:
        """Tempered prior plus message."""
        return rho * first + (1.0 - rho) * second + message

    def dot(self, left: np.ndarray, right: np.ndarray) -> float:
        """Inner product."""
        return float(np.vdot(left, right))

    def minus(self, left: np.ndarray, right: np.ndarray) -> np.ndarray:
        """Difference."""
        return left - right

    def _usual(self, eta: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, np.ndarray]:
        scale = -2.0 * eta[1]
        mean = eta[0] / scale
        return eta[3] + 0.5, -eta[2] - 0.5 * eta[0] * mean, scale, mean


def plain_svb(family: Any, previous: Any, batch: dict[str, np.ndarray]) -> tuple[Any, float]:
    """One batch without forgetting, and its bound."""
    message, constant = family.message(batch)
    posterior = family.mix(1.0, previous, previous, message)
    stats = family.expected_stats(posterior)
    kl = (
        family.dot(message, stats)
        - family.log_normalizer(posterior)
        + family.log_normalizer(previous)
    )
    return posterior, constant + family.dot(message, stats) - kl


def plain_hpp(family: Any, previous: Any, batch: dict[str, np.ndarray]) -> tuple[Any, float]:
    """One batch with a hierarchical power prior, rounds until the bound settles, and its bound."""
    prior = family.prior
    message, constant = family.message(batch)
    tolerance = TOLERANCE * ROWS
    prior_slope = omega = -0.1
    of_prior, of_previous = family.log_normalizer(prior), family.log_normalizer(previous)
    of_slope = log_normalizer_of_rho(prior_slope)
    gap = family.minus(previous, prior)
    bound = -math.inf
    for _ in range(MAX_ROUNDS):
        rho = expected_rho(omega)
        posterior = family.mix(rho, previous, prior, message)
        stats = family.expected_stats(posterior)
        from_prior = (
            family.dot(family.minus(posterior, prior), stats)
            - family.log_normalizer(posterior)
            + of_prior
        )
        # KL(q, prior) - KL(q, previous): the posterior's own normalizer cancels
        gain = family.dot(gap, stats) - of_previous + of_prior
        of_rho = (omega - prior_slope) * rho - log_normalizer_of_rho(omega) + of_slope
        reached = constant + family.dot(message, stats) - from_prior + rho * gain - of_rho
        if not reached - bound > tolerance:
            return posterior, reached
        bound = reached
        omega = gain + prior_slope
    return posterior, reached


def make_batches(kind: str, num_batches: int) -> list[dict[str, np.ndarray]]:
    """Batches whose parameter jumps every 50 of them."""
    rng = np.random.default_rng(20170806)
    batches = []
    for index in range(num_batches):
        level = (index // 50) % 3
        if kind == "BetaBinomial":
            draws = rng.random(ROWS) < (0.2, 0.5, 0.8)[level]
            batches.append({"x": draws.astype(float)})
        else:
            rows = rng.normal((0.0, 0.5, -0.3)[level], 1.0 + 0.2 * level, (COLUMNS, ROWS))
            batches.append({f"x{place}": rows[place] for place in range(COLUMNS)})
    return batches


def naturals(state: sb.LearnerState) -> np.ndarray:
    """Natural parameters of a state's only entry of blocks, in the order of the plain programs."""
    (family,) = state.belief.summary().params.values()
    return np.stack([np.asarray(value) for value in family.naturals()])


def measure(kind: str, policy: Any, plain: Callable[..., Any], num_steps: int) -> dict[str, Any]:
    """Times of both sides over one stream, in seconds, and how well they agree."""
    if kind == "BetaBinomial":
        model, family = sb.models.BetaBinomial("x"), PlainBeta()
    else:
        model = sb.models.Gaussian([f"x{place}" for place in range(COLUMNS)])
        family = PlainGaussian()
    learner = sb.StreamLearner(model, policy, scale=False)
    batches = make_batches(kind, WARM_UP + num_steps)
    state, posterior = learner.init(batches[0]), family.prior
    ours, theirs, apart = [], [], 0.0
    now = time.perf_counter
    for index, batch in enumerate(batches):
        for turn in (index % 2, 1 - index % 2):
            if turn:
                started = now()
                state, _ = learner.step(state, batch)
                ours.append(now() - started)
            else:
                started = now()
                posterior, _ = plain(family, posterior, batch)
                theirs.append(now() - started)
        # both sides go on from one posterior: an error of one step must not hide in the next
        reached = naturals(state)
        size = np.maximum(np.abs(reached), 1.0)
        apart = max(apart, float((np.abs(reached - posterior) / size).max()))
        posterior = reached if reached.ndim > 1 else tuple(reached.tolist())
    if not apart < AGREEMENT:
        sys.exit(f"{kind}, {policy.name}: posteriors differ by {apart:.2e}")
    microseconds = 1e6 * np.array([ours, theirs])[:, WARM_UP:]
    median, slow = np.percentile(microseconds, [50, 99], axis=1)
    return {
        "model": kind if kind == "BetaBinomial" else f"Gaussian, {COLUMNS} columns",
        "policy": policy.name,
        "steps": num_steps,
        "step median": median[0],
        "step p99": slow[0],
        "numpy median": median[1],
        "numpy p99": slow[1],
        "difference": apart,
    }


def main() -> None:
    """Measure, print a table, write JSON if asked to."""
    parser = argparse.ArgumentParser(description="Warm step latency beside plain NumPy.")
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--output", type=Path, help="write the numbers as JSON")
    arguments = parser.parse_args()
    results = [
        measure(kind, policy, plain, arguments.steps)
        for kind in ("BetaBinomial", "Gaussian")
        for policy, plain in ((sb.SVB(), plain_svb), (sb.HPP(), plain_hpp))
    ]
    print(f"{arguments.steps} steps of {ROWS} rows; microseconds per step, {os.cpu_count()} cores")
    print(
        f"{'':22}{'':6}{'streambayes':>20}{'plain NumPy':>20}{'largest':>12}\n"
        f"{'model':22}{'policy':6}{'median':>10}{'p99':>10}{'median':>10}{'p99':>10}"
        f"{'difference':>12}"
    )
    for result in results:
        print(
            f"{result['model']:22}{result['policy']:6}"
            f"{result['step median']:10.0f}{result['step p99']:10.0f}"
            f"{result['numpy median']:10.0f}{result['numpy p99']:10.0f}"
            f"{result['difference']:12.1e}"
        )
    if arguments.output is not None:
        about = {
            "date": dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
            "python": platform.python_version(),
            "cores": os.cpu_count(),
            "results": results,
        }
        arguments.output.write_text(json.dumps(about, indent=1), encoding="utf-8")


if __name__ == "__main__":
    main()
