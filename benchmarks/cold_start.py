"""How long a first step takes in a new process, without and with programs that an earlier one left on disk.

python benchmarks/cold_start.py
"""

import json
import os
import subprocess
import sys
import tempfile

WATCHED = """
import json, sys, time
start = time.perf_counter()
import numpy as np
import streambayes as sb
took = {"import": time.perf_counter() - start}
batch = {name: np.random.default_rng(0).normal(size=1000) for name in "ab"}
model = sb.models.GaussianMixture(["a", "b"], 5)
def timed(name, function):
    start = time.perf_counter()
    result = function()
    took[name] = time.perf_counter() - start
    return result
for policy in (sb.SVB(), sb.MHPP()):
    learner = sb.StreamLearner(model, policy)
    state = timed(f"init, {policy.name}", lambda: learner.init(batch))
    state, _ = timed(f"first step, {policy.name}", lambda: learner.step(state, batch))
timed("score", lambda: learner.score(state, batch))
timed("summary", state.summary)
print(json.dumps(took))
"""


def times(folder: str) -> dict[str, float]:
    """Seconds of a process that keeps its programs in a folder."""
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-c", WATCHED],
        env={**os.environ, "STREAMBAYES_COMPILE_CACHE": folder},
        capture_output=True,
        text=True,
        check=True,
    )
    found: dict[str, float] = json.loads(done.stdout)
    return found


def main() -> None:
    """Print both, side by side."""
    with tempfile.TemporaryDirectory() as folder:
        cold, warm = times(folder), times(folder)
    print(f"{'seconds':20} {'nothing on disk':>16} {'programs on disk':>17}")
    for name, seconds in cold.items():
        print(f"{name:20} {seconds:16.2f} {warm[name]:17.2f}")


if __name__ == "__main__":
    main()
