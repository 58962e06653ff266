"""Peak memory of a run over Parquet files of growing length, each in a process of its own."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pyarrow as pa
from benchmarks.speed.sides import OURS
from benchmarks.speed.timing import Measurement, Plan, left_out, measured, say
from pyarrow import parquet

__all__ = ["CASE", "SECTION", "UNIT", "measure"]

SECTION = "memory"
CASE = "a run over a Parquet file of two columns"
UNIT = "MiB at the peak"
SPEED_UNIT = "rows per second"
ROWS = (1_000_000, 10_000_000, 100_000_000)
QUICK_ROWS = (1_000_000, 2_000_000)
ROW_GROUP = 1_000_000
BYTES_OF_ROW = 16
NOTE = "rows per second from the first call in a new process on: loading programs counts"
# on Linux not ru_maxrss: it is never less than the peak of the process that started this one
WATCHED = """
import json, pathlib, resource, sys, tempfile, time
import streambayes as sb
learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
stream = sb.batches(sys.argv[1], rows=100_000)
with tempfile.TemporaryDirectory() as folder:
    start = time.perf_counter()
    run = sb.run(learner, stream, prequential=False, progress=False, record=folder)
    seconds = time.perf_counter() - start
status = pathlib.Path("/proc/self/status")
if status.exists():
    peak = 1024 * int(status.read_text().partition("VmHWM:")[2].split()[0])
else:
    unit = 1 if sys.platform == "darwin" else 1024
    peak = unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
num_batches = int(run.state.num_batches)
print(json.dumps({"peak": peak, "seconds": seconds, "num_batches": num_batches}))
"""


def measure(plan: Plan) -> list[Measurement]:
    """All lengths.

    Args:
        plan: How much is measured.
    """
    found: list[Measurement] = []
    sizes = QUICK_ROWS if plan.quick else ROWS
    with tempfile.TemporaryDirectory() as folder:
        watch = _watcher(Path(folder))
        watch(min(sizes))  # leaves its programs on disk: compiling them takes memory, too
        for num_rows in sizes:
            size = {"rows": num_rows}
            free = shutil.disk_usage(folder).free
            if free < 1.2 * BYTES_OF_ROW * num_rows:
                why = f"the disk has {free / 2**30:.1f} GiB free, too few for the file"
                found.append(left_out(SECTION, CASE, OURS, size, UNIT, why))
            else:
                peak, rate = watch(num_rows)
                found.append(measured(SECTION, CASE, OURS, size, UNIT, [peak]))
                found.append(measured(SECTION, CASE, OURS, size, SPEED_UNIT, [rate], NOTE))
    for one in found:
        say(one)
    return found


def _watcher(folder: Path) -> Callable[[int], tuple[float, float]]:
    """From a number of rows to the peak in MiB and rows per second."""

    def watch(num_rows: int) -> tuple[float, float]:
        path = folder / "rows.parquet"
        _write(path, num_rows)
        done = subprocess.run(  # noqa: S603
            [sys.executable, "-c", WATCHED, str(path)],
            env={**os.environ, "STREAMBAYES_COMPILE_CACHE": str(folder / "programs")},
            stdout=subprocess.PIPE,
            text=True,
            check=True,
        )
        path.unlink()
        facts = json.loads(done.stdout)
        if facts["num_batches"] != num_rows // 100_000:
            message = f"memory: {facts['num_batches']} batches were learned of {num_rows:,} rows"
            raise SystemExit(message)
        return facts["peak"] / 2**20, num_rows / facts["seconds"]

    return watch


def _write(path: Path, num_rows: int) -> None:
    """The same million rows again and again."""
    rng = np.random.default_rng(0)
    chunk = pa.table({name: rng.normal(size=min(num_rows, ROW_GROUP)) for name in "xy"})
    with parquet.ParquetWriter(
        path, chunk.schema, compression="none", use_dictionary=False
    ) as writer:
        for _ in range(num_rows // chunk.num_rows):
            writer.write_table(chunk)
