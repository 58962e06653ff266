"""Learning on a real Dask cluster of two worker processes."""

import os
import threading
import time
from pathlib import Path

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from dask import bag
from distributed import wait

import streambayes as sb
from streambayes.distributed import ClusterError, Dask, _shards, _work
from tests._pages import run_page
from tests.distributed import _clusters
from tests.distributed._cases import CASES, NUM_ROWS, assert_same, cut


def frame(partitions):
    """A dataframe of these partitions, whatever they hold."""
    frames = [pd.DataFrame(part) for part in partitions]
    return dd.from_map(lambda number: frames[number], range(len(frames)), meta=frames[0].iloc[:0])


@pytest.mark.parametrize("name", CASES)
def test_the_posterior_is_that_of_one_machine(dask_client, name):
    case = CASES[name]
    start, rows = case.start(), case.batch(1)
    one, info = case.learner.step(start, rows)
    for bounds in ([], [0, 7, 7, 300, NUM_ROWS]):
        batch = Dask(dask_client).batch(frame(cut(rows, bounds)))
        state, told = case.learner.step(start, batch)
        assert_same(one, state)
        assert told.num_sweeps == info.num_sweeps
        assert told.bound == pytest.approx(info.bound, rel=1e-9)


def test_arrays_have_the_columns_in_order(dask_client):
    case = CASES["regression"]
    start, rows = case.start(), case.batch(1)
    one, _ = case.learner.step(start, rows)
    names = [column.name for column in case.learner.model.columns]
    cells = np.stack([rows[name] for name in names], 1)
    for chunks in ((100, 2), (250, 1), (NUM_ROWS, 2)):
        batch = Dask(dask_client).batch(da.from_array(cells, chunks=chunks))
        assert_same(one, case.learner.step(start, batch)[0])
    single = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    state = single.init(case.batch(0))
    batch = Dask(dask_client).batch(da.from_array(rows["x"], chunks=100))
    assert_same(single.step(state, rows)[0], single.step(state, batch)[0])


def test_workers_share_what_is_held(dask_client):
    """All partitions lie on one worker to begin with."""
    case = CASES["mixture HPP"]
    start, rows = case.start(), case.batch(1)
    first = min(dask_client.nthreads())
    data = frame(cut(rows, [150, 300, 450])).persist(workers=[first], allow_other_workers=False)
    batch = Dask(dask_client).batch(data)
    assert batch.num_rows(case.learner) == NUM_ROWS
    wait(batch._held_rows)
    where = dask_client.who_has(batch._held_rows)
    assert sorted((first,) == tuple(where[f.key]) for f in batch._held_rows) == [
        False,
        False,
        True,
        True,
    ]
    assert_same(case.learner.step(start, rows)[0], case.learner.step(start, batch)[0])


@pytest.mark.parametrize("name", ["regression", "mixture HPP"])
def test_many_partitions_are_added_up_on_the_way(dask_client, monkeypatch, name):
    monkeypatch.setattr(_shards, "_FEW_SUMS", 0)
    case = CASES[name]
    start, rows = case.start(), case.batch(1)
    batch = Dask(dask_client).batch(frame(cut(rows, range(0, NUM_ROWS, 9))))
    replies = []
    answers = _shards._answers
    monkeypatch.setattr(_shards, "_answers", lambda each: replies.append(each) or answers(each))
    assert_same(case.learner.step(start, rows)[0], case.learner.step(start, batch)[0])
    assert [reply.shard for reply in replies[0]] == [0, 64]


def test_a_worker_killed_in_the_middle_changes_nothing(dask_client):
    case = CASES["network with missing cells"]
    start, rows = case.start(), case.batch(1)
    one, info = case.learner.step(start, rows)
    batch = Dask(dask_client).batch(frame(cut(rows, [100, 200, 450])))
    perform, passes, dead = batch._perform, [], []

    def killing(order, *, add):
        passes.append(time.monotonic())
        if len(passes) == 3:
            dead.append(_clusters.kill_dask_worker(dask_client))
        return perform(order, add=add)

    batch._perform = killing
    state, told = case.learner.step(start, batch)
    # one removes what was kept; another repeats a pass, if hidden variables were lost with the worker
    assert info.num_sweeps + 1 <= len(passes) <= info.num_sweeps + 2
    assert_same(one, state)
    assert told.num_sweeps == info.num_sweeps
    _clusters.wait_for_dask_workers(dask_client, 2, dead=dead)


def test_a_stream_by_the_values_of_a_column(dask_client):
    case = CASES["regression"]
    batches = [case.batch(seed) for seed in range(3)]
    data = frame([{**rows, "the month": f"m{n}"} for n, rows in enumerate(batches)])
    cluster = Dask(dask_client)
    run = sb.run(case.learner, cluster.batches(data, by="the month"))
    assert_same(sb.run(case.learner, batches).state, run.state)
    assert [record.label for record in run.records] == ["m0", "m1", "m2"]
    with pytest.raises(ValueError, match="no column 'day'"):
        cluster.batches(data, by="day")
    with pytest.raises(ValueError, match="has missing cells"):
        cluster.batches(frame([{"x": [1.0], "m": [None]}]), by="m")


@pytest.mark.parametrize("kind", ["number", "moment", "moment of a zone"])
def test_batches_of_a_column_have_the_times_of_another(dask_client, kind):
    when = pd.Series([1.5, 4.0, 3.0, 2.0])
    if kind != "number":
        when = pd.to_datetime(when, unit="D", utc=kind == "moment of a zone")
    table = pd.DataFrame({"day": list("abab"), "when": when, "x": [1.0, 2.0, 3.0, 4.0]})
    cluster, data = Dask(dask_client), frame([table[:1], table[:0], table[1:]])
    found = cluster.batches(data, by="day", time="when")
    here = sb.batches(table, by="day", time="when")
    assert [(one.label, one.time) for one in found] == [(one.label, one.time) for one in here]
    assert [one.time for one in cluster.batches(data, by="day")] == [None, None]
    assert repr(found) == "[<batch 'a' on Dask>, <batch 'b' on Dask>]"
    with pytest.raises(
        ValueError,
        match=r"no column 'then' \(did you mean 'when'\?\); the frame has 'day', 'when', 'x'",
    ):
        cluster.batches(data, by="day", time="then")
    with pytest.raises(ValueError, match="'day' must hold numbers, dates or timestamps, not"):
        cluster.batches(data, by="x", time="day")


def test_nothing_stays_on_the_workers(dask_client):
    case = CASES["regression"]
    case.learner.step(case.start(), Dask(dask_client).batch(frame(cut(case.batch(1), [100]))))
    _clusters.wait_until(
        lambda: not any(dask_client.who_has().values()), 30, "the workers still hold something"
    )


def test_a_partition_with_another_column_or_type_is_named(dask_client):
    case = CASES["regression"]
    state, cluster, rows = case.start(), Dask(dask_client), case.batch(1)
    for bad, message in (
        ({"x": [1.0], "z": [2.0]}, "the batch lacks column 'y'; it has 'x', 'z' "),
        ({"x": ["a"], "y": [2.0]}, "column 'x', row 0"),
    ):
        with pytest.raises(ValueError, match=message) as raised:
            case.learner.step(state, cluster.batch(frame([rows, bad])))
        assert "in partition 1 of the batch" in str(raised.value)
    with pytest.raises(ValueError, match="the batch lacks column 'y'; it has 'x'"):
        case.learner.step(state, cluster.batch(frame([{"x": [1.0]}])))
    with pytest.raises(ValueError, match="a column for each of"):
        case.learner.step(state, cluster.batch(da.zeros((10, 3))))


def test_what_is_no_cluster_is_refused(dask_client, monkeypatch):
    case = CASES["regression"]
    with pytest.raises(TypeError, match=r"expected a distributed\.Client, got int"):
        Dask(1)
    for other in ({"x": [1.0]}, bag.from_sequence([1]), dask.delayed(1)):
        with pytest.raises(TypeError, match=r"dask dataframe or array, got (dict|Bag|Delayed)"):
            Dask(dask_client).batch(other)
    with pytest.raises(TypeError, match=r"given as sb.distributed.Dask\(client\).batch"):
        case.learner.step(case.start(), frame([case.batch(1)]))
    monkeypatch.setattr(_shards, "versions", lambda: {**_work.versions(), "streambayes": "0"})
    with pytest.raises(ClusterError, match=r"a worker has streambayes .*, the driver 0:"):
        case.learner.step(case.start(), Dask(dask_client).batch(frame([case.batch(1)])))


def test_the_page_tells_the_truth(dask_client, capsys):
    page = Path(_clusters.SOURCES).parent / "docs" / "dask.md"
    run_page(page, "python dask", {"client": dask_client}, lambda: capsys.readouterr().out)


def test_a_worker_without_the_library_says_so():
    def lose():
        import sys

        sys.modules["streambayes"] = None  # so Python cannot find it

    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    with _clusters.dask_cluster(1) as client:
        client.run(lose)
        with pytest.raises(
            ClusterError, match="worker cannot import streambayes: Module"
        ) as raised:
            learner.init(Dask(client).batch(da.ones(10)))
    assert "install it where the workers run" in str(raised.value)


def test_a_client_that_is_closed_or_without_workers_says_so():
    from distributed import Client, LocalCluster

    case = CASES["mixture HPP"]
    start, rows = case.start(), frame([case.batch(1)])
    where = {"host": "127.0.0.1", "dashboard_address": "127.0.0.1:0", "silence_logs": "CRITICAL"}
    with LocalCluster(n_workers=0, threads_per_worker=1, **where) as cluster:
        with Client(cluster) as client, Client(cluster) as other:
            late = threading.Timer(1.0, cluster.scale, [1])
            late.start()
            with pytest.warns(UserWarning, match="no workers yet; waiting for one"):
                state, _ = case.learner.step(start, Dask(client).batch(rows))
            assert_same(case.learner.step(start, case.batch(1))[0], state)
            kept = other.persist(rows)
            wait(kept)
            other.close()
            with pytest.raises(ClusterError, match="are gone when the client that did so is close"):
                case.learner.step(start, Dask(client).batch(kept))
            batch = Dask(client).batch(rows)
            batch.on_sweep = lambda number, _: client.close() if number == 2 else None
            with pytest.raises(ClusterError, match="the client is closed; make another one"):
                case.learner.step(start, batch)
        with pytest.raises(ClusterError, match="the client is closed; make another one"):
            case.learner.step(start, batch)
        with pytest.raises(ClusterError, match="the client is closed; make another one"):
            Dask(client)


def test_threads_of_one_process_share_the_work():
    """A cluster in the driver's own process, as some use for trials; its environment stays as it is."""
    from distributed import Client, LocalCluster

    case = CASES["mixture HPP"]
    start, rows = case.start(), case.batch(1)
    before = os.environ.get("NPROC")
    here = {"processes": False, "n_workers": 1, "threads_per_worker": 4, "dashboard_address": ":0"}
    with LocalCluster(**here) as cluster, Client(cluster) as client:
        batch = Dask(client).batch(frame(cut(rows, range(0, NUM_ROWS, 50))))
        state, _ = case.learner.step(start, batch)
    assert_same(case.learner.step(start, rows)[0], state)
    assert os.environ.get("NPROC") == before


def test_a_worker_uses_one_thread(dask_client):
    """Of XLA's, for its one slot; Linux names them."""

    def names():
        from pathlib import Path

        return [path.read_text().strip() for path in Path("/proc/self/task").glob("*/comm")]

    case = CASES["mixture HPP"]
    case.learner.step(case.start(), Dask(dask_client).batch(frame(cut(case.batch(1), [300]))))
    for threads in dask_client.run(names).values():
        assert sum(name.startswith("tf_XLAEigen") for name in threads) == 1
