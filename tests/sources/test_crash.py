"""A process that is killed at any moment and started again ends as one that was never killed."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import streambayes as sb

NUM_BATCHES = 50
NUM_ROWS = 30 * NUM_BATCHES

PROGRAM = """
import json
import sys
import time

import streambayes as sb

folder, source, seconds, num_batches = sys.argv[1], json.loads(sys.argv[2]), *map(float, sys.argv[3:])
kind = source.pop("kind")
rows = source.pop("rows") if kind == "files" else getattr(sb.sources, kind)(**source)
batches = sb.batches(rows, every=30, time="t", lateness=4, difference="x")


def slow(record):
    time.sleep(seconds)
    if record.index + 1 == num_batches:
        batches.stop()


run = sb.run(
    sb.StreamLearner(sb.models.Gaussian(["x", "x change", "y"])), batches, test_fraction=0.2, record=f"{folder}/records",
    checkpoint=f"{folder}/checkpoints", resume=True, progress=False, on_record=slow,
)
sb.save(run.state, f"{folder}/state.sbz")
print(run.scores)
"""


def table():
    """Rows that come a little out of order, some of them too late."""
    rng = np.random.default_rng(0)
    number = np.arange(NUM_ROWS + 60)
    return {
        "t": number + rng.integers(0, 20, len(number)),
        "x": rng.normal(size=len(number)) + (number > 1000),
        "y": rng.normal(size=len(number)),
    }


def rows():
    columns = {name: values.tolist() for name, values in table().items()}
    return [dict(zip(columns, cells, strict=True)) for cells in zip(*columns.values(), strict=True)]


@pytest.fixture
def files(tmp_path):
    """CSV and Parquet files."""
    whole = pa.table(table())
    for number in range(4):
        part = whole.slice(number * 390, 390)
        if number % 2:
            parquet.write_table(part, tmp_path / f"{number}.parquet", row_group_size=100)
        else:
            csv.write_csv(part, tmp_path / f"{number}.csv")
    return {"kind": "files", "rows": [str(path) for path in sorted(tmp_path.glob("[0-3].*"))]}


@pytest.fixture
def folder(files, tmp_path):
    """The same files, followed as they come: some of their rows are late, where files would be sorted."""
    assert len(files["rows"]) == 4
    return {"kind": "Folder", "folder": str(tmp_path), "pattern": "[0-3].*", "settle": 0}


@pytest.fixture
def redis_stream(redis_server):
    """A stream to which a server's client keeps adding while it is read."""

    def add():
        with redis_server.client() as client:
            for row in rows():
                client.xadd("crash", row)
                time.sleep(0.001)

    with redis_server.client() as client:
        client.delete("crash")
    adding = threading.Thread(target=add)
    adding.start()
    yield {"kind": "RedisStream", "stream": "crash", "url": redis_server.url, "patience": 5}
    adding.join()


@pytest.fixture
def kafka_topic(kafka):
    producer, servers = kafka
    for row in rows():
        producer.produce("crash", json.dumps(row), partition=0)
    assert producer.flush(60) == 0
    return {"kind": "KafkaTopic", "topic": "crash", "servers": servers}


def without_times(folder):
    return [dataclasses.replace(record, seconds=0.0) for record in sb.read_records(folder)]


@pytest.mark.parametrize("kind", ["files", "redis_stream", "kafka_topic"])
def test_a_process_that_is_killed_at_any_moment(kind, tmp_path, request):
    """The posterior, bit by bit, the records, the changes and the scores."""
    source = request.getfixturevalue(kind)
    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    environment = {**os.environ, "STREAMBAYES_COMPILE_CACHE": str(tmp_path / "programs")}

    def start(folder, seconds, wanted=source):
        (tmp_path / folder).mkdir(exist_ok=True)
        command = [sys.executable, str(program), str(tmp_path / folder), json.dumps(wanted)]
        command += [str(seconds), str(NUM_BATCHES)]
        return subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True)

    def killed_somewhere(folder):
        """Whether it was; or it has ended before. Every other time, while a checkpoint is written."""
        process = start(folder, 0.02)
        records = tmp_path / folder / "records" / "records.jsonl"
        before = records.stat().st_size if records.exists() else 0
        while process.poll() is None and (
            not records.exists() or records.stat().st_size <= before
        ):  # until it has learned something, and then some
            time.sleep(0.001)
        time.sleep(0.2 * rng.random())
        if rng.random() < 0.5:
            checkpoints, deadline = tmp_path / folder / "checkpoints", time.monotonic() + 1
            while time.monotonic() < deadline and not list(checkpoints.glob(".checkpoint-*")):
                pass
        process.send_signal(signal.SIGKILL)
        process.communicate(timeout=300)
        assert process.returncode in {0, -signal.SIGKILL}
        return process.returncode != 0

    def finished(folder, wanted=source):
        """What there is to compare."""
        process = start(folder, 0.0, wanted)
        scores, _ = process.communicate(timeout=300)
        assert process.returncode == 0
        state = (tmp_path / folder / "state.sbz").read_bytes()
        left = [path.name for path in (tmp_path / folder / "checkpoints").glob(".*")]
        events = sb.find_drift(tmp_path / folder / "records").events
        return scores, state, without_times(tmp_path / folder / "records"), events, left

    rng = random.Random(7)  # noqa: S311 - moments, not secrets
    # the same rows, of whatever live source
    whole = finished("whole", source if kind == "files" else request.getfixturevalue("folder"))
    assert len(whole[2]) == NUM_BATCHES
    num_late = sum(record.num_late for record in whole[2])
    assert num_late == 0 if kind == "files" else num_late > 10
    kills, number = int(os.environ.get("STREAMBAYES_KILLS", "4")), 0
    while kills > 0:
        number += 1
        for _ in range(min(kills, 8)):
            if not killed_somewhere(f"killed {number}"):
                break
            kills -= 1
        assert finished(f"killed {number}") == whole
