"""What a step costs under each policy, side by side in one process."""

import dataclasses
import time
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from streambayes.forgetting import HPP, MHPP, SVB, AbstractForgetting, Auto
from streambayes.learning import StreamLearner
from streambayes.models import AbstractModel, GaussianMixture, LinearRegression

__all__ = ["Cost", "measure_costs"]

_ROUNDS = 7


@final
@dataclasses.dataclass(frozen=True)
class Cost:
    """The time of a step: the median of several rounds in which policies take turns.

    Attributes:
        model: Model and rows of a batch.
        policy: The policy.
        milliseconds: Of a step.
        times_svb: The same in steps of SVB.
        sweeps: Sweeps of a step.
    """

    model: str
    policy: str
    milliseconds: float
    times_svb: float
    sweeps: float


def measure_costs() -> list[Cost]:
    """Time steps of a mixture of five components and of a regression on ten columns."""
    rng = np.random.default_rng(0)
    centres = rng.normal(0.0, 4.0, (5, 2))
    names = [f"x{place}" for place in range(10)]
    slopes = rng.normal(size=10)

    def clusters(num_rows: int) -> dict[str, np.ndarray]:
        rows = centres[rng.integers(0, 5, num_rows)] + rng.normal(size=(num_rows, 2))
        return {"a": rows[:, 0], "b": rows[:, 1]}

    def linear(num_rows: int) -> dict[str, np.ndarray]:
        rows = rng.normal(size=(num_rows, 10))
        return {
            **dict(zip(names, rows.T, strict=True)),
            "y": rows @ slopes + rng.normal(size=num_rows),
        }

    every = (SVB(), HPP(), MHPP(), Auto(), Auto(shared=True))
    mixtures = [clusters(10_000) for _ in range(5)]
    regressions = [linear(100) for _ in range(50)]
    conjugate, joint = (LinearRegression("y", names, kind) for kind in ("conjugate", "joint"))
    return [
        *_timed("mixture of 5, 10,000 rows", GaussianMixture(["a", "b"], 5), every, mixtures),
        *_timed("regression on 10, conjugate, 100 rows", conjugate, every, regressions),
        *_timed("regression on 10, joint, 100 rows", joint, every[:-1], regressions),
    ]


def _timed(
    title: str,
    model: AbstractModel[Any, Any],
    policies: Sequence[AbstractForgetting[Any, Any]],
    batches: list[dict[str, np.ndarray]],
) -> list[Cost]:
    learners = {policy.name: StreamLearner(model, policy) for policy in policies}
    states, sweeps = {}, dict.fromkeys(learners, 0)
    for name, learner in learners.items():
        state = learner.init(batches[0])
        for batch in batches:
            state, _ = learner.step(state, batch)
        states[name] = state
    seconds: dict[str, list[float]] = {name: [] for name in learners}
    for _ in range(_ROUNDS):
        for name, learner in learners.items():
            state, started = states[name], time.perf_counter()
            for batch in batches:
                state, info = learner.step(state, batch)
                sweeps[name] += info.num_sweeps
            seconds[name].append((time.perf_counter() - started) / len(batches))
    median = {name: float(np.median(each)) for name, each in seconds.items()}
    return [
        Cost(
            model=title,
            policy=name,
            milliseconds=1000.0 * median[name],
            times_svb=median[name] / median["SVB"],
            sweeps=sweeps[name] / len(batches) / _ROUNDS,
        )
        for name in learners
    ]
