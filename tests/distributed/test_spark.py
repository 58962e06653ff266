"""Learning on a real Spark cluster: a master and two workers, each in processes of its own."""

import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import jax
import numpy as np
import pyarrow as pa
import pytest

import streambayes as sb
from streambayes.distributed import (
    ClusterError,
    Spark,
    _shards,
    _spark,
    _streaming,
    _work,
    spark_stream,
)
from tests._pages import run_page
from tests.distributed import _clusters
from tests.distributed._cases import CASES, NUM_ROWS, assert_same

ROOT = Path(_clusters.SOURCES).parent


@pytest.fixture(autouse=True, scope="module")
def _jax_is_at_work():
    """As it is in the process of every driver: its threads run before Spark's are started."""
    assert jax.local_devices()


def frame(session, rows, num_partitions):
    """Rows in partitions by the hash of a column of five values: some are empty, if there are many."""
    table = pa.table({**rows, "part": np.arange(NUM_ROWS) % 5})
    return session.createDataFrame(table).repartition(num_partitions, "part")


def sizes(data):
    """Rows in each partition."""

    def count(batches):
        yield pa.RecordBatch.from_pydict({"rows": [sum(batch.num_rows for batch in batches)]})

    return data.mapInArrow(count, "rows long").toArrow()["rows"].to_pylist()


@pytest.mark.parametrize("name", CASES)
def test_the_posterior_is_that_of_one_machine(spark, name):
    case = CASES[name]
    start, rows = case.start(), case.batch(1)
    one, info = case.learner.step(start, rows)
    for num_partitions in (1, 9):
        data = frame(spark, rows, num_partitions)
        assert (0 in sizes(data)) == (num_partitions == 9)
        state, told = case.learner.step(start, Spark(spark).batch(data))
        assert_same(one, state)
        assert told.num_sweeps == info.num_sweeps
        assert told.bound == pytest.approx(info.bound, rel=1e-9)
    assert not spark._jsc.getPersistentRDDs()  # nothing stays


def test_two_executors_share_the_work(spark):
    def process(batches):
        for _ in batches:
            yield pa.RecordBatch.from_pydict({"executor": [os.getppid()]})
            time.sleep(0.3)

    data = spark.range(0, 1000, 1, 4).mapInArrow(process, "executor long").toArrow()
    assert len(set(data["executor"].to_pylist())) == 2


def test_collections_after_every_task_have_little_to_look_through(spark):
    def tell(batches):
        import gc
        import sys

        for _ in batches:
            pass
        facts = {
            "has_learned": ["streambayes" in sys.modules],
            "spared": [gc.get_freeze_count()],
            "seen": [len(gc.get_objects())],
        }
        yield pa.RecordBatch.from_pydict(facts)

    case = CASES["regression"]
    case.learner.step(case.start(), Spark(spark).batch(frame(spark, case.batch(1), 4)))
    told = spark.range(0, 4, 1, 4).mapInArrow(tell, "has_learned boolean, spared long, seen long")
    workers = [facts for facts in told.toArrow().to_pylist() if facts["has_learned"]]
    assert workers
    assert all(facts["spared"] > 10 * facts["seen"] for facts in workers)


@pytest.mark.parametrize("name", ["regression", "mixture HPP"])
def test_many_partitions_are_added_up_on_the_way(spark, monkeypatch, name):
    monkeypatch.setattr(_shards, "_FEW_SUMS", 0)
    case = CASES[name]
    start, rows = case.start(), case.batch(1)
    batch = Spark(spark).batch(spark.createDataFrame(pa.table(rows)).repartition(70))
    replies = []
    answers = _shards._answers
    monkeypatch.setattr(_shards, "_answers", lambda each: replies.append(each) or answers(each))
    learner = case.learner.replace(max_sweeps=1)
    state, _ = learner.step(start, batch)
    assert_same(learner.step(start, rows)[0], state)
    assert [reply.shard for reply in sorted(replies[0])] == [0, 64]


def test_a_worker_killed_in_the_middle_changes_nothing(spark, mortal):
    case = CASES["network with missing cells"]
    start, rows = case.start(), case.batch(1)
    one, info = case.learner.step(start, rows)
    batch = Spark(spark).batch(frame(spark, rows, 4))
    perform, passes = batch._perform, []

    def killing(order, *, add):
        passes.append(time.monotonic())
        if len(passes) == 3:
            number = mortal.alive[0]
            assert mortal.executors(number)
            threading.Timer(
                0.1, mortal.kill_worker, [number]
            ).start()  # while the pass is on its way
        return perform(order, add=add)

    batch._perform = killing
    state, told = case.learner.step(start, batch)
    assert len(mortal.alive) == 1
    # one removes what was kept; another repeats a pass, if hidden variables were lost with the worker
    assert info.num_sweeps + 1 <= len(passes) <= info.num_sweeps + 2
    assert_same(one, state)
    assert told.num_sweeps == info.num_sweeps


def test_a_stream_by_the_values_of_a_column(spark):
    case = CASES["regression"]
    batches = [case.batch(seed) for seed in range(3)]
    table = pa.concat_tables(
        [pa.table({**rows, "the month": [f"m{n}"] * NUM_ROWS}) for n, rows in enumerate(batches)]
    )
    cluster = Spark(spark)
    data = spark.createDataFrame(table).cache()
    run = sb.run(case.learner, cluster.batches(data, by="the month"))
    data.unpersist(blocking=True)
    assert_same(sb.run(case.learner, batches).state, run.state)
    assert [record.label for record in run.records] == ["m0", "m1", "m2"]
    with pytest.raises(ValueError, match="no column 'day'"):
        cluster.batches(spark.createDataFrame(table), by="day")
    with pytest.raises(ValueError, match="has missing cells"):
        cluster.batches(spark.createDataFrame([(1.0, None)], "x double, m string"), by="m")


def test_batches_of_a_column_have_the_times_of_another(spark):
    table = {"day": ["a", "b", "a", "b"], "when": [1.5, 4.0, 3.0, 2.0], "x": [1.0, 2.0, 3.0, 4.0]}
    cluster, data = Spark(spark), spark.createDataFrame(pa.table(table))
    found = cluster.batches(data, by="day", time="when")
    here = sb.batches(table, by="day", time="when")
    assert [(one.label, one.time) for one in found] == [(one.label, one.time) for one in here]
    assert [one.time for one in cluster.batches(data, by="day")] == [None, None]
    assert repr(found) == "[<batch 'a' on Spark>, <batch 'b' on Spark>]"
    with pytest.raises(
        ValueError,
        match=r"no column 'then' \(did you mean 'when'\?\); the frame has 'day', 'when', 'x'",
    ):
        cluster.batches(data, by="day", time="then")
    with pytest.raises(ValueError, match="'day' must hold numbers, dates or timestamps, not str"):
        cluster.batches(data, by="x", time="day")


def test_bad_rows_and_other_errors_are_one_sentence(spark, monkeypatch):
    case = CASES["regression"]
    state, cluster = case.start(), Spark(spark)
    with pytest.raises(ValueError, match="the batch lacks column 'x'; it has 'y'"):
        case.learner.step(state, cluster.batch(spark.createDataFrame([(1.0,)], "y double")))
    text = spark.createDataFrame([("a", 1.0)], "x string, y double")
    with pytest.raises(ValueError, match=r"column 'x', row 0: .*'a' \(in partition \d of"):
        case.learner.step(state, cluster.batch(text))
    with pytest.raises(TypeError, match="must be a Spark DataFrame, got Column"):
        cluster.batch(text.x)
    with pytest.raises(TypeError, match="put a batch on a cluster into a list"):
        sb.run(case.learner, cluster.batch(text))
    with pytest.raises(TypeError, match=r"streams as its batches\(\.\.\., by="):
        sb.run(case.learner, text)
    double = spark.createDataFrame([(1.0, 1.0, 1.0)], "x double, x double, y double")
    with pytest.raises(ValueError, match="has column 'x' more than once"):
        case.learner.step(state, cluster.batch(double))
    capital = spark.createDataFrame([(1.0, 1.0, 1.0)], "x double, y double, Y double")
    with pytest.raises(ValueError, match="has column 'Y' and 'y' more than once"):
        case.learner.step(state, cluster.batch(capital))
    with pytest.raises(ValueError, match="column 'x' must hold single values, not array<int>"):
        cluster.batches(spark.sql("select array(1) x"), by="x")
    for batch in ({"x": [1.0], "y": [1.0]}, spark.readStream.format("rate").load()):
        with pytest.raises(TypeError, match=r"Spark DataFrame, got dict|learned by .*spark_stream"):
            cluster.batch(batch)
    with pytest.raises(TypeError, match="expected a SparkSession, got int"):
        Spark(1)
    with pytest.raises(TypeError, match=r"given as sb.distributed.Spark\(spark\).batch"):
        case.learner.step(state, text)
    monkeypatch.setattr(_shards, "versions", lambda: {**_work.versions(), "jax": "0.1"})
    data = frame(spark, case.batch(1), 2)
    with pytest.raises(ClusterError, match=r"a worker has jax .*, the driver 0\.1"):
        case.learner.step(state, cluster.batch(data))
    assert not spark._jsc.getPersistentRDDs()


def test_a_file_of_another_type_is_one_sentence(spark, tmp_path):
    import pyarrow.parquet as pq

    pq.write_table(pa.table({"x": ["a"], "y": ["b"]}), tmp_path / "bad.parquet")
    data = spark.read.schema("x double, y double").parquet(str(tmp_path / "bad.parquet"))
    case = CASES["regression"]
    with pytest.raises(ValueError, match=r"Spark cannot read the batch: .*bad\.parquet") as raised:
        case.learner.step(case.start(), Spark(spark).batch(data))
    assert len(str(raised.value).splitlines()) == 1


def test_columns_may_have_any_name(spark):
    name = "a.b `c` é"
    learner = sb.StreamLearner(sb.models.Gaussian(name), sb.SVB())
    rows = {name: np.arange(20.0)}
    state = learner.init(Spark(spark).batch(spark.createDataFrame(pa.table(rows))))
    assert_same(learner.init(rows), state)


STOPPED = """
import os, signal, threading
import pyarrow as pa
from pyspark.sql import SparkSession
import streambayes as sb
from tests.distributed._cases import CASES

builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
case = CASES["mixture HPP"]
learner = case.learner.replace(max_sweeps=10**6, tolerance=0.0)
state = case.start()
rows = spark.createDataFrame(pa.table(case.batch(1)))
cluster = sb.distributed.Spark(spark)

def tried(name, function, after=None):
    if after is not None:
        batch.on_sweep = lambda number, _: after() if number == 2 else None
    try:
        function()
    except BaseException as error:
        print(f"{name}: {type(error).__name__} {error}")

def soon(function):
    threading.Timer(0.2, function).start()

batch = cluster.batch(rows)
tried("Ctrl-C", lambda: learner.step(state, batch), lambda: soon(lambda: os.kill(os.getpid(), signal.SIGINT)))
over = threading.Event()

def cancel():  # until one is met while it runs
    while not over.wait(0.02):
        spark.sparkContext.cancelAllJobs()

tried("cancelled", lambda: learner.step(state, batch), lambda: soon(cancel))
over.set()
print("held:", spark._jsc.getPersistentRDDs())
tried("stopped", lambda: learner.step(state, batch), lambda: soon(spark.stop))
tried("afterwards", lambda: learner.init(cluster.batch(rows)))
tried("batches", lambda: cluster.batches(rows, by="x"))
tried("again", lambda: sb.distributed.Spark(spark))
"""


@pytest.mark.usefixtures("spark")
def test_what_is_interrupted_or_stopped_says_so(tmp_path):
    environment = _clusters.spark_environment(tmp_path)
    environment["PYTHONPATH"] = os.pathsep.join([_clusters.SOURCES, str(ROOT)])
    said = _clusters.run_script(STOPPED, env=environment).splitlines()
    over = "ClusterError the Spark session is stopped; make another one"
    assert said == [
        "Ctrl-C: KeyboardInterrupt ",
        "cancelled: ClusterError the job was cancelled in Spark; the state is as it was",
        "held: {}",
        f"stopped: {over}",
        f"afterwards: {over}",
        f"batches: {over}",
        "again: ClusterError Spark: the session is stopped; make another one",
    ]


PAGE = """An error occurred while calling o123.getResult.
: org.apache.spark.SparkException: Exception thrown in awaitResult:
\tat org.apache.spark.util.SparkThreadUtils$.awaitResult(SparkThreadUtils.scala:53)
Caused by: java.lang.OutOfMemoryError: Java heap space
\tat java.base/java.util.Arrays.copyOf(Arrays.java:3537)
"""


@pytest.mark.parametrize(
    ("page", "sentence"),
    [
        (PAGE, "Spark failed: java.lang.OutOfMemoryError: Java heap space"),
        (PAGE.partition("Caused")[0], "Spark failed: org.apache.spark.SparkException: Exception"),
        ("a failure\nof another kind", "Spark failed: a failure"),
        ("", "Spark failed: no reason given"),
        ("<_InactiveRpcError StatusCode.UNAVAILABLE>", "Spark Connect does not answer"),
        ("ModuleNotFoundError: No module named 'mine'", "lacks the module 'mine': .*addArtifacts"),
    ],
)
def test_pages_become_sentences(spark, page, sentence):
    with pytest.raises(ClusterError, match=sentence) as raised, _spark._in_words(spark):
        raise RuntimeError(page)
    assert len(str(raised.value).splitlines()) == 1
    assert (raised.value.__cause__ is None) == ("failed" not in sentence)


WITHOUT = """
import sys
from pyspark.sql import SparkSession
import streambayes as sb

builder = SparkSession.builder.master("local-cluster[1,1,1024]").config("spark.ui.enabled", "false")
builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.executor.memory", "768m")
spark = builder.config("spark.executorEnv.PYTHONPATH", sys.argv[1]).getOrCreate()
learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
batch = sb.distributed.Spark(spark).batch(spark.createDataFrame([(1.0,), (2.0,)], "x double"))
try:
    learner.init(batch)
except sb.distributed.ClusterError as error:
    print(error)
spark.stop()
"""


@pytest.mark.usefixtures("spark")
def test_an_executor_without_the_library_says_so(tmp_path):
    """The workers find a package of that name which says what Python says where there is none."""
    (tmp_path / "streambayes").mkdir()
    lost = "raise ModuleNotFoundError(\"No module named 'streambayes'\")"
    (tmp_path / "streambayes" / "__init__.py").write_text(lost)
    environment = _clusters.spark_environment(tmp_path)
    said = _clusters.run_script(WITHOUT, tmp_path, env=environment)
    assert "a worker cannot import streambayes: ModuleNotFoundError: No module named" in said
    assert "install it where the workers run" in said
    assert len(said.splitlines()) == 1


def test_connect_gives_the_same(connect):
    for name in ("regression", "mixture MHPP"):
        case = CASES[name]
        start, rows = case.start(), case.batch(1)
        batch = Spark(connect).batch(frame(connect, rows, 7))
        assert_same(case.learner.step(start, rows)[0], case.learner.step(start, batch)[0])


def test_the_page_tells_the_truth(spark, tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    page = Path(_clusters.SOURCES).parent / "docs" / "spark.md"
    run_page(page, "python spark", {"spark": spark}, lambda: capsys.readouterr().out)


SCHEMA = "x double, y double, when double"


def files(folder, num):
    """Micro-batches, one file each, in the order of their times."""
    case = CASES["regression"]
    folder.mkdir()
    import pyarrow.parquet as pq

    for number in range(num):
        path = folder / f"{number}.parquet"
        pq.write_table(pa.table({**case.batch(number), "when": [float(number)] * NUM_ROWS}), path)
        os.utime(path, (1e9 + number, 1e9 + number))
    return [case.batch(number) for number in range(num)]


def streamed(session, folder):
    reader = session.readStream.schema(SCHEMA).option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder))


@pytest.mark.parametrize("scheme", ["", "file://"])
def test_micro_batches_are_a_stream(spark, tmp_path, scheme):
    case = CASES["regression"]
    batches = files(tmp_path / "in", 3)
    seen = []
    settings = {
        "checkpoint": f"{scheme}{tmp_path / 'kept'}",
        "record": tmp_path / "run",
        "trigger": {"availableNow": True},
    }
    query = spark_stream(
        case.learner,
        streamed(spark, tmp_path / "in"),
        on_record=seen.append,
        time="when",
        **settings,
    )
    query.awaitTermination()
    last = sb.Checkpoints(tmp_path / "kept" / "states").latest()
    assert_same(sb.run(case.learner, batches).state.memory, last.state.memory)
    assert float(last.state.last_time) == 2.0
    assert [record.label for record in seen] == ["0", "1", "2"]
    assert [record.label for record in sb.read_records(tmp_path / "run")] == ["0", "1", "2"]
    # Spark forgets that it has finished the last one: it is done again, and not learned again
    for name in ("2", ".2.crc"):
        (tmp_path / "kept" / "spark" / "commits" / name).unlink()
    again = spark_stream(case.learner, streamed(spark, tmp_path / "in"), time="when", **settings)
    again.awaitTermination()
    replayed = sb.Checkpoints(tmp_path / "kept" / "states").latest()
    assert (tmp_path / "kept" / "spark" / "commits" / "2").exists()
    assert replayed.num_batches == 3
    other = sb.StreamLearner(case.learner.model, sb.SVB())
    with pytest.raises(
        ValueError, match=r"is of LinearRegression\(.* with HPP.*not of .* with SVB"
    ):
        spark_stream(other, streamed(spark, tmp_path / "in"), checkpoint=tmp_path / "kept")
    assert_same(last.state, replayed.state, 0.0)


def test_a_bad_micro_batch_ends_the_query_and_changes_nothing(spark, tmp_path):
    import pyarrow.parquet as pq

    case = CASES["regression"]
    (rows,) = files(tmp_path / "in", 1)
    bad = {"x": [1.0, np.inf], "y": [1.0, 2.0], "when": [1.0, 1.0]}
    pq.write_table(pa.table(bad), tmp_path / "in" / "1.parquet")
    stream = streamed(spark, tmp_path / "in")
    query = spark_stream(
        case.learner, stream, checkpoint=tmp_path / "kept", trigger={"availableNow": True}
    )
    with pytest.raises(Exception, match=r"column 'x', row 1: .* \(in partition 0 of the batch\)"):
        query.awaitTermination()
    assert "column 'x', row 1" in str(query.exception())
    last = sb.Checkpoints(tmp_path / "kept" / "states").latest()
    assert last.num_batches == 1
    assert_same(sb.run(case.learner, [rows]).state.memory, last.state.memory)


@pytest.mark.parametrize(
    ("kind", "value"),
    [("timestamp_ntz", 86400.0), ("timestamp", 86400.0), ("date", 86400.0), ("bigint", 86400.0)],
)
def test_times_of_batches_are_seconds(spark, kind, value):
    """In the time zone of the session, if they have none."""
    data = spark.sql("select 86400 n, timestamp '1970-01-02 00:00:00' t").selectExpr(
        "n" if kind == "bigint" else f"cast(t as {kind}) n"
    )
    offset = spark.sql("select unix_timestamp(timestamp '1970-01-01 00:00:00')").first()[0]
    found = _streaming._last_time(data, "n")
    assert found == value + (0 if kind == "bigint" else offset)


def test_streams_that_cannot_be_learned_are_refused(spark, tmp_path):
    case = CASES["regression"]
    stream = spark.readStream.format("rate").load()
    with pytest.raises(ValueError, match="the stream lacks column 'x'; it has 'timestamp'"):
        spark_stream(case.learner, stream, checkpoint=tmp_path)
    with pytest.raises(TypeError, match="expected a streaming DataFrame"):
        spark_stream(case.learner, spark.range(3), checkpoint=tmp_path)
    when = stream.selectExpr("1d x", "2d y", "'soon' when")
    with pytest.raises(ValueError, match="column 'when' must hold numbers, dates or timestamps"):
        spark_stream(case.learner, when, checkpoint=tmp_path, time="when")
    with pytest.raises(TypeError, match="checkpoint must be a folder, got NoneType"):
        spark_stream(case.learner, stream, checkpoint=None)
    with pytest.raises(TypeError, match=r"trigger must be a mapping such as .* got 'availableNow'"):
        spark_stream(case.learner, stream, checkpoint=tmp_path, trigger="availableNow")
    (tmp_path / "file").touch()
    (tmp_path / "a" / "spark" / "commits").mkdir(parents=True)
    (tmp_path / "a" / "spark" / "commits" / "0").touch()
    named = stream.selectExpr("cast(value as double) x", "cast(value as double) y")
    with pytest.raises(ValueError, match="is a file; checkpoint must be a folder"):
        spark_stream(case.learner, named, checkpoint=tmp_path / "file")
    with pytest.raises(ValueError, match="its states are gone"):
        spark_stream(case.learner, named, checkpoint=tmp_path / "a")
    checkpoint = sb.Checkpoint(case.start(), 1)
    sb.Checkpoints(tmp_path / "b" / "states").save(checkpoint)
    with pytest.raises(ValueError, match="Spark's part of the checkpoint"):
        spark_stream(case.learner, named, checkpoint=tmp_path / "b")


STREAM = """
import os, signal, sys
from pyspark.sql import SparkSession
import streambayes as sb
from tests.distributed._cases import CASES
from tests.distributed.test_spark import streamed

source, kept, before, after = sys.argv[1:]
save = sb.Checkpoints.save

def saved(self, checkpoint):
    if checkpoint.num_batches == int(before):
        os.kill(os.getpid(), signal.SIGKILL)
    save(self, checkpoint)
    if checkpoint.num_batches == int(after):
        os.kill(os.getpid(), signal.SIGKILL)

sb.Checkpoints.save = saved
builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
spark = builder.config("spark.driver.host", "127.0.0.1").getOrCreate()
query = sb.distributed.spark_stream(
    CASES["regression"].learner, streamed(spark, source), checkpoint=kept, trigger={"availableNow": True}
)
print("started", flush=True)
query.awaitTermination()
spark.stop()
"""


@pytest.mark.usefixtures("spark")
def test_a_driver_killed_while_streaming_goes_on_as_if_nothing_happened(tmp_path):
    """Once when a state is saved and Spark does not know, once when a batch is learned and not saved."""
    case = CASES["regression"]
    batches = files(tmp_path / "in", 5)
    environment = {**os.environ, **_clusters.spark_environment(tmp_path)}
    environment["PYTHONPATH"] = os.pathsep.join([_clusters.SOURCES, str(ROOT)])
    states = sb.Checkpoints(tmp_path / "kept" / "states")

    def ended(before=0, after=0):
        command = [sys.executable, "-c", STREAM, tmp_path / "in", tmp_path / "kept", before, after]
        with (tmp_path / "log").open("ab") as log:
            process = subprocess.Popen(
                list(map(str, command)), stdout=log, stderr=log, env=environment
            )
        family = []
        try:
            _clusters.wait_until(
                lambda: family.extend(_clusters.family(process)) or process.poll() is not None,
                180,
                "the driver does not end",
            )
        finally:
            _clusters.kill(list(set(family)))
        return process.wait(30)

    assert ended(after=2) == -signal.SIGKILL, (tmp_path / "log").read_text()
    assert states.latest().num_batches == 2
    assert ended(before=4) == -signal.SIGKILL, (tmp_path / "log").read_text()
    assert states.latest().num_batches == 3
    assert ended() == 0, (tmp_path / "log").read_text()
    assert states.latest().num_batches == 5
    assert_same(sb.run(case.learner, batches).state, states.latest().state)


def test_connect_learns_micro_batches(connect, tmp_path):
    """On the server, where the folders are."""
    case = CASES["regression"]
    batches = files(tmp_path / "in", 2)
    query = spark_stream(
        case.learner,
        streamed(connect, tmp_path / "in"),
        checkpoint=tmp_path / "kept",
        trigger={"availableNow": True},
    )
    query.awaitTermination()
    last = sb.Checkpoints(tmp_path / "kept" / "states").latest()
    assert_same(sb.run(case.learner, batches).state.memory, last.state.memory)
