"""Counts of a sensor, step by step, in a program that is stopped and started again.

Each call of ``work`` stands for one life of the program: it loads the state it left behind, learns
the batches that arrived, and saves the state after each of them.
"""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import streambayes as sb

LEARNER = sb.StreamLearner(sb.models.Poisson("events"), sb.HPP())


def arrivals(first: int, last: int) -> Iterator[dict[str, np.ndarray]]:
    """Batches of 30 counts; the rate triples from batch 12 on."""
    for number in range(first, last):
        rng = np.random.default_rng(number)
        yield {"events": rng.poisson(2.0 if number < 12 else 6.0, 30)}


def work(path: Path, batches: Iterator[dict[str, np.ndarray]]) -> None:
    """Go on from the saved state, if there is one."""
    state = sb.load(path) if path.exists() else None
    for batch in batches:
        if state is None:
            state = LEARNER.init(batch)
        state, info = LEARNER.step(state, batch)
        sb.save(state, path)
        rate = state.summary()["rate of events"]
        print(
            f"batch {int(state.num_batches):2}  rho {info.rho:.2f}  "
            f"rate {rate.mean:.2f} ({rate.lower:.2f} to {rate.upper:.2f})"
        )


def main() -> None:
    """Two lives of the program."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "sensor.sbz"
        work(path, arrivals(0, 10))
        print("stopped, started again")
        work(path, arrivals(10, 16))


if __name__ == "__main__":
    main()
