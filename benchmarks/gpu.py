"""On a GPU: a sweep of a mixture over many rows, and many streams at once.

A sweep by the library's kernel, by XLA's program, and a plain copy of the rows. Rows are float32 and stay on the device.
What both programs sum is compared with the same sweep in float64 on the processor. Then the time of a whole
`learner.step` of 200 sweeps, which takes the rows to the device first.

With `--streams`, instead, how many streams a second `sb.many` takes a step, from one table in the computer's own memory.
Needs JAX with CUDA.

    python benchmarks/gpu.py [--rows 100000000] [--components 5] [--columns 2] [--output FILE]
    python benchmarks/gpu.py --streams 100000 [--output FILE]
"""

import argparse
import dataclasses
import json
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import streambayes as sb
from streambayes._core.batch import Batch
from streambayes._core.precision import float64_scope

PIECE = 2_000_000
SWEEPS = 200
ROWS_OF_STREAM = 20
STEPS = 9


def main() -> None:
    """Measure, print and write."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=100_000_000)
    parser.add_argument("--components", type=int, default=5)
    parser.add_argument("--columns", type=int, default=2)
    parser.add_argument("--streams", type=int)
    parser.add_argument("--output", type=Path)
    chosen = parser.parse_args()
    found = {"device": jax.devices()[0].device_kind, "jax": jax.__version__}
    if chosen.streams:
        found |= {"streams": chosen.streams, **streams(chosen.streams)}
    else:
        found |= mixture(chosen.rows, chosen.columns, chosen.components)
    print(json.dumps(found, indent=1))
    if chosen.output:
        chosen.output.write_text(json.dumps(found, indent=1) + "\n", encoding="utf-8")


def mixture(rows: int, columns: int, components: int) -> dict[str, Any]:
    """A sweep and a step of a mixture of so many components."""
    names = [f"x{number}" for number in range(columns)]
    model = sb.models.GaussianMixture(names, components)
    rng = np.random.default_rng(0)
    centres = rng.normal(0.0, 2.0, (columns, components)).astype(np.float32)
    values = rng.standard_normal((columns, rows), np.float32)
    values += centres[:, rng.integers(components, size=rows)]
    return {
        "rows": rows,
        "columns": columns,
        "components": components,
        **passes(model, values),
        **steps(model, values),
    }


def streams(number: int) -> dict[str, Any]:
    """Updates a second of a Gaussian and a regression, two columns each: the median of some steps."""
    rng = np.random.default_rng(0)
    table = {"stream": np.repeat(np.arange(number), ROWS_OF_STREAM)}
    table |= {name: rng.normal(size=number * ROWS_OF_STREAM) for name in ("a", "b", "y")}
    models = {
        "Gaussian": sb.models.Gaussian(["a", "b"]),
        "regression": sb.models.LinearRegression("y", ["a", "b"]),
    }
    found = {}
    for title, model in models.items():
        for policy in (sb.SVB(), sb.Auto()):
            fleet = sb.many(sb.StreamLearner(model, policy))
            states, _ = fleet.step(fleet.init(table, by="stream"), table, by="stream")
            seconds = []
            for _ in range(STEPS):
                start = time.perf_counter()
                states, info = fleet.step(states, table, by="stream")
                seconds.append(time.perf_counter() - start)
            assert not info.failed
            name = f"{title}, {type(policy).__name__}, updates a second"
            found[name] = number / float(np.median(seconds))
    return found


def passes(model: Any, values: np.ndarray) -> dict[str, float]:
    """Milliseconds of a pass over the rows, and how far its sums are from those in float64."""
    learner = sb.StreamLearner(model, sb.SVB(), scale=False)
    names = [column.name for column in model.columns]
    first = {name: column[:10_000] for name, column in zip(names, values, strict=True)}
    belief = learner.step(learner.init(first), first)[0].belief

    def sums(expectations: Any, batch: Batch, local: Any) -> Any:
        return model.row_pass(expectations, batch, local)[1]

    with float64_scope():
        expectations = belief.expectations()
        exact = in_float64(model, sums, expectations, values)
        held = jax.device_put(values)
        batch = Batch(held, jnp.asarray(held.shape[1]), tuple(names))
        found = {"copy, ms": milliseconds(jax.jit(lambda x: x + 1.0), held)}
        for name, fused in (("kernel", True), ("XLA", False)):
            mine = dataclasses.replace(batch, fused=fused)
            program, local = jax.jit(sums), jax.jit(model.init_local)(mine)  # once for all sweeps
            got = program(expectations, mine, local)
            found[f"{name}, error of statistics"] = worst(got.factors, exact.factors)
            off = float(abs(got.entropy - exact.entropy)) / values.shape[1]
            found[f"{name}, error of entropy, nats a row"] = off
            found[f"{name}, ms"] = milliseconds(program, expectations, mine, local)
        found["kernel, TB/s"] = values.nbytes / found["kernel, ms"] / 1e9
    return found


def worst(got: Any, wanted: Any) -> float:
    """The largest difference, relative to the largest number of its kind."""
    pairs = zip(jax.tree.leaves(got), jax.tree.leaves(wanted), strict=True)
    return max(float(np.max(np.abs(np.asarray(a) - b)) / np.max(np.abs(b))) for a, b in pairs)


def in_float64(model: Any, sums: Callable[..., Any], expectations: Any, values: np.ndarray) -> Any:
    """The same sums on the processor, piece by piece."""
    with jax.default_device(jax.devices("cpu")[0]):
        expectations = jax.tree.map(np.asarray, expectations)
        names = tuple(column.name for column in model.columns)
        program = jax.jit(lambda at, batch: sums(at, batch, model.init_local(batch)))
        parts = []
        for start in range(0, values.shape[1], PIECE):
            piece = values[:, start : start + PIECE].astype(np.float64)
            rows = np.int64(piece.shape[1])
            parts.append(program(expectations, Batch(piece, rows, names)))  # type: ignore[arg-type]
        return jax.tree.map(lambda *each: np.sum([np.asarray(one) for one in each], 0), *parts)


def steps(model: Any, values: np.ndarray) -> dict[str, float]:
    """Seconds of a whole step from rows in the computer's own memory, with the kernel and without."""
    names = [column.name for column in model.columns]
    batch = dict(zip(names, values, strict=True))
    learner = sb.StreamLearner(model, sb.SVB(), tolerance=0.0, max_sweeps=SWEEPS)
    state = learner.init({key: column[:10_000] for key, column in batch.items()})
    found = {}
    for name, on in (("kernel", True), ("XLA", False)):
        sb.gpu_kernel(on)
        learner.step(state, batch)
        best = float("inf")
        for _ in range(2):
            start = time.perf_counter()
            _, info = learner.step(state, batch)
            best = min(best, time.perf_counter() - start)
        found[f"step of {info.num_sweeps} sweeps, {name}, s"] = best
    return found


def milliseconds(function: Callable[..., Any], *args: Any, calls: int = 20) -> float:
    """The best of five means over some calls."""
    jax.block_until_ready(function(*args))
    best = float("inf")
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(calls):
            result = function(*args)
        jax.block_until_ready(result)
        best = min(best, (time.perf_counter() - start) / calls)
    return 1e3 * best


if __name__ == "__main__":
    main()
