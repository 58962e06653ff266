"""How long a new process takes for what a user meets first, without and with programs on disk, and how large programs are.

python benchmarks/start.py                # medians of 5 processes each
python benchmarks/start.py --lines        # lines of the program of a step, for models and policies
"""

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable
from pathlib import Path

__all__ = ["Call", "main", "times"]

Call = dict[str, float]
"""Seconds by the clock (``wall``), of all cores (``cpu``), and how many programs XLA compiled (``compiled``)."""

START = """
import json, resource, time
def spent():
    both = resource.getrusage(resource.RUSAGE_SELF)
    return time.perf_counter(), both.ru_utime + both.ru_stime
took, compiled = {}, []
def timed(name, function):
    wall, cpu, before = *spent(), len(compiled)
    found = function()
    wall, cpu = (now - then for now, then in zip(spent(), (wall, cpu)))
    took[name] = {"wall": wall, "cpu": cpu, "compiled": len(compiled) - before}
    return found
def load():
    import jax, numpy, streambayes
    streambayes.run  # all of it is imported with the first that is asked for
timed("import", load)
import jax, numpy as np, streambayes as sb
jax.monitoring.register_event_duration_secs_listener(
    lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
)
"""
CASES = {
    "README": """
rng = np.random.default_rng(1)
hours = np.arange("2024-01-01", "2025-01-01", dtype="datetime64[h]")
jumped = hours >= np.datetime64("2024-07-01")
table = {
    "when": hours,
    "price": np.where(jumped, 62, 45) + rng.normal(0, 8, len(hours)),
    "demand": 5200 + rng.normal(0, 400, len(hours)),
}
learner = sb.StreamLearner(sb.models.Gaussian(["price", "demand"]))
stream = sb.batches(table, time="when", every="1mo")
run = timed("run", lambda: sb.run(learner, stream))
timed("summary", run.state.summary)
timed("drift", lambda: run.drift)
""",
    "network": """
net = sb.Network()
day = net.categorical("day", ["weekday", "weekend"])
z = net.categorical("z", 3, parents=[day], latent=True)
net.normal(["x", "y"], parents=[z, day])
stream = timed("make_drift", lambda: list(sb.datasets.make_drift(net, "abrupt", num_batches=12, num_rows=250, seed=3)))
run = timed("run", lambda: sb.run(sb.StreamLearner(net), stream))
timed("summary", run.state.summary)
timed("drift", lambda: run.drift)
""",
}
LINES = """
import jax, numpy as np, streambayes as sb
from jax import stages
found = []
def compile(lowered, *args, original=stages.Lowered.compile, **kwargs):
    done = original(lowered, *args, **kwargs)
    found.append([lowered.as_text(), done.as_text()])
    return done
stages.Lowered.compile = compile
sb.compile_cache(False)
def network():
    net = sb.Network()
    day = net.categorical("day", ["weekday", "weekend"])
    z = net.categorical("z", 3, parents=[day], latent=True)
    net.normal(["x", "y"], parents=[z, day])
    return net
ten = [f"x{place}" for place in range(10)]
models = {
    "Gaussian, 2 columns": sb.models.Gaussian(["x", "y"]),
    "Gaussian, 100 columns": sb.models.Gaussian([f"x{place}" for place in range(100)]),
    "regression, 10 columns": sb.models.LinearRegression("y", ten),
    "mixture, 2 columns": sb.models.GaussianMixture(["x", "y"], 5),
    "naive Bayes, 6 columns": sb.models.NaiveBayes("day", ["weekday", "weekend"], ten[:6]),
    "day -> z -> (x, y)": network(),
}
rng = np.random.default_rng(0)
for name, model in models.items():
    batch = {
        column.name: np.array(["weekday", "weekend"])[rng.integers(2, size=100)]
        if column.name == "day" else rng.normal(size=100)
        for column in model.columns
    }
    for policy in (sb.SVB(), sb.MHPP(), sb.Auto()):
        learner = sb.StreamLearner(model, policy, watch=False)
        state = learner.init(batch)
        found.clear()
        learner.step(state, batch)
        (program,) = (each for each in found if "_learn" in each[0][:200])
        print(f"{name:25} {policy.name:6}", *(f"{text.count(chr(10)):9,}" for text in program), flush=True)
"""


def times(folder: str | Path, case: str) -> dict[str, Call]:
    """What the calls of a case take in a process that keeps its programs in a folder."""
    text = subprocess.run(  # noqa: S603
        [sys.executable, "-c", START + CASES[case] + "print(json.dumps(took))"],
        env={**os.environ, "STREAMBAYES_COMPILE_CACHE": str(folder)},
        capture_output=True,
        text=True,
        check=True,
    ).stdout
    found: dict[str, Call] = json.loads(text)
    return found


def _help() -> dict[str, Call]:
    """The command's own help, a whole process."""
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    started = time.perf_counter()
    command = [sys.executable, "-m", "streambayes", "--help"]
    subprocess.run(command, capture_output=True, check=True)  # noqa: S603
    wall = time.perf_counter() - started
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    return {"streambayes --help": {"wall": wall, "cpu": cpu, "compiled": 0}}


def _print(case: str, side: str, turns: Iterable[dict[str, Call]]) -> None:
    every = list(turns)
    for call in every[0]:
        wall, cpu, compiled = (
            statistics.median(turn[call][unit] for turn in every)
            for unit in ("wall", "cpu", "compiled")
        )
        print(f"{case:10} {side:14} {call:20} {wall:8.2f} {cpu:8.2f} {compiled:9.0f}", flush=True)


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--turns", type=int, default=5, help="processes of each kind")
    parser.add_argument("--lines", action="store_true", help="lines of programs instead")
    given = parser.parse_args()
    if given.lines:
        print(f"{'step of':25} {'with':6} {'StableHLO':>9} {'optimised':>9}", flush=True)
        subprocess.run([sys.executable, "-c", LINES], check=True)  # noqa: S603
        return
    print(f"{'':25} {'call':20} {'seconds':>8} {'of CPU':>8} {'compiled':>9}", flush=True)
    for case in CASES:
        cold, warm = [], []
        for _ in range(given.turns):
            with tempfile.TemporaryDirectory() as folder:
                cold.append(times(folder, case))
                warm.append(times(folder, case))
        _print(case, "cold", cold)
        _print(case, "next process", warm)
    _print("command", "", [_help() for _ in range(given.turns)])


if __name__ == "__main__":
    main()
