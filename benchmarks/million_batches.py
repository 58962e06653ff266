"""A million small batches through one learner: memory and time per batch must not grow.

    python benchmarks/million_batches.py [NUM_BATCHES]

Runs as a service would: records in a file, a checkpoint every thousand batches. Prints memory and time per batch as it
goes on, and in the end how both compare with the first thousand batches.
"""

import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np

import streambayes as sb

NUM_ROWS = 8


def stream(num_batches: int) -> Iterator[dict[str, np.ndarray]]:
    """Batches of two columns, the first of which moves every hundred thousand batches."""
    rng = np.random.default_rng(0)
    for number in range(num_batches):
        rows = rng.normal(size=(2, NUM_ROWS))
        yield {"x": rows[0] + number // 100_000, "y": rows[1]}


def resident() -> float:
    """Memory of this process in MB."""
    pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    return pages * 4096 / 1e6


def main() -> None:
    """Run it."""
    num_batches = int(sys.argv[1]) if len(sys.argv) > 1 else 1_000_000
    marks: list[tuple[int, float, float]] = []
    started = time.perf_counter()

    def look(record: sb.StepRecord) -> None:
        nonlocal started
        number = record.index + 1
        if number == 1000 or number % (num_batches // 20) == 0:
            since = marks[-1][0] if marks else 0
            now = time.perf_counter()
            marks.append((number, resident(), (now - started) / (number - since)))
            started = now
            print(
                f"{number:>9,} batches  {marks[-1][1]:6.1f} MB  {1e3 * marks[-1][2]:.3f} ms a batch",
                flush=True,
            )

    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    with tempfile.TemporaryDirectory() as folder:
        sb.run(
            learner,
            stream(num_batches),
            prequential=False,
            drift=False,
            record=f"{folder}/records",
            checkpoint=sb.Checkpoints(f"{folder}/checkpoints", every=1000),
            on_record=look,
            progress=False,
        )
    (_, first, _), (_, _, early) = marks[0], marks[1]
    _, last, late = marks[-1]
    print(
        f"memory {first:.1f} MB after 1,000 batches, {last:.1f} MB in the end: {last / first - 1:+.1%}"
    )
    print(
        f"time {1e3 * early:.3f} ms a batch at first, {1e3 * late:.3f} ms in the end: {late / early - 1:+.1%}"
    )


if __name__ == "__main__":
    main()
