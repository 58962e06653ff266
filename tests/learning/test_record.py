"""The file of a run's records: what was written is read, as it grows, and names stand in it once."""

import dataclasses
import json
import math

import numpy as np
import pytest

import streambayes as sb
from streambayes.learning._record import (
    RECORDS,
    RecordReader,
    RecordWriter,
    RunFacts,
    folder_name,
)

POLICIES = [sb.Auto(), sb.Auto(shared=True), sb.MHPP(), sb.HPP(), sb.SVB(), sb.PVB(1000, 0.1)]


def stream(num_batches=5, seed=0):
    rng = np.random.default_rng(seed)
    return [{"x": rng.normal(size=30), "y": rng.normal(size=30)} for _ in range(num_batches)]


def learned(policy, folder, batches=None, **options):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), policy)
    return sb.run(learner, batches or stream(), record=folder, progress=False, **options)


@pytest.fixture(scope="module")
def some():
    """A record with everything in it."""
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]))
    return sb.run(learner, stream(3), progress=False).records[-1]


def kinds(folder):
    return [next(iter(json.loads(line))) for line in (folder / RECORDS).read_text().splitlines()]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_what_is_written_is_read(policy, tmp_path):
    run = learned(policy, tmp_path)
    assert tuple(sb.read_records(tmp_path)) == run.records
    assert kinds(tmp_path) == ["run", "blocks", *["index"] * 5, "ended"]


def test_names_stand_in_the_file_once(tmp_path):
    learned(sb.MHPP(), tmp_path)
    assert (tmp_path / RECORDS).read_text().count("standard deviation of x") == 1


def test_a_column_that_appears_later(tmp_path):
    batches = stream(6)
    for batch in batches[:3]:
        batch["y"] = np.full(30, 7.0)
    run = learned(sb.Auto(), tmp_path, batches)
    assert "y" not in run.records[1].parameters
    assert "y" in run.records[4].parameters
    assert tuple(sb.read_records(tmp_path)) == run.records


def test_numbers_that_are_not_finite(some, tmp_path):
    writer = RecordWriter(tmp_path)
    odd = dataclasses.replace(
        some,
        bound=math.inf,
        moved={"x": math.nan, "y": 1.0},
        parameters={"x": {"mean of x": (math.nan, math.inf)}, "y": {"mean of y": (1.0, 2.0)}},
    )
    writer.write(odd)
    writer.close()
    (back,) = sb.read_records(tmp_path)
    assert back.bound is None
    assert back.moved == {"y": 1.0}
    assert all(map(math.isnan, back.parameters["x"]["mean of x"]))
    assert back.parameters["y"] == odd.parameters["y"]
    for line in (tmp_path / RECORDS).read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)


def test_reading_goes_on_where_it_ended(some, tmp_path):
    writer = RecordWriter(tmp_path, facts=RunFacts("HPP", "Gaussian", 3))
    writer.write(some)
    reader = RecordReader(tmp_path)
    assert len(list(reader.new())) == 1
    assert list(reader.new()) == []
    assert reader.facts == RunFacts("HPP", "Gaussian", 3)
    assert reader.ended is None
    with (tmp_path / RECORDS).open("ab") as file:
        file.write(b'{"index": ')
    assert list(reader.new()) == []
    assert reader.share_read < 1.0
    assert not reader.is_replaced()
    writer.close()
    (tmp_path / RECORDS).unlink()
    assert reader.is_replaced()


def test_a_line_that_was_cut_by_a_kill_is_cut_off(tmp_path):
    run = learned(sb.HPP(), tmp_path)
    path = tmp_path / RECORDS
    path.write_bytes(path.read_bytes() + b'{"index": 5, "label": "half a li')
    learned(sb.HPP(), tmp_path, stream(2, seed=1), state=run.state)
    assert [record.index for record in sb.read_records(tmp_path)] == list(range(7))
    assert kinds(tmp_path).count("run") == 2


def test_what_is_learned_again_is_recorded_once(tmp_path):
    """A run that died after its state was saved goes on from the state."""
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.MHPP())
    batches = stream(8)
    saved = sb.run(learner, batches[:3], record=tmp_path / "a", progress=False).state
    sb.run(learner, batches[3:6], state=saved, record=tmp_path / "a", progress=False)
    sb.run(learner, batches[3:], state=saved, record=tmp_path / "a", progress=False)
    sb.run(learner, batches, record=tmp_path / "b", progress=False)
    again, whole = (list(sb.read_records(tmp_path / name)) for name in "ab")
    assert [record.index for record in again] == list(range(8))
    assert [record.parameters for record in again] == [record.parameters for record in whole]


def test_empty_batches_are_not_taken_for_later_ones(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    batches = stream(4)
    batches.insert(1, {"x": [], "y": []})
    first = sb.run(learner, batches, record=tmp_path, progress=False)
    assert [record.num_batches for record in first.records] == [1, 1, 2, 3, 4]
    sb.run(learner, stream(2), state=first.state, record=tmp_path, progress=False)
    assert [record.num_batches for record in sb.read_records(tmp_path)] == [1, 1, 2, 3, 4, 5, 6]


def test_one_run_at_a_time_writes_into_a_folder(some, tmp_path):
    writer = RecordWriter(tmp_path)
    for is_past in (None, lambda *_: True):
        with pytest.raises(FileExistsError, match="another run is writing its records there"):
            RecordWriter(tmp_path, is_past=is_past)
    writer.write(some)
    writer.close()
    RecordWriter(tmp_path, is_past=lambda *_: True).close()
    assert len(list(sb.read_records(tmp_path))) == 1


def test_a_file_says_how_its_run_ended(tmp_path):
    batches = [*stream(2), {"x": [math.inf], "y": [1.0]}]
    with pytest.raises(ValueError, match="column 'x'"):
        learned(sb.HPP(), tmp_path, batches)
    reader = RecordReader(tmp_path)
    assert len(list(reader.new())) == 2
    assert reader.ended.startswith("stopped: ")
    assert "column 'x'" in reader.ended


@pytest.mark.parametrize(
    "line", ['{"a": 1}', "[1, 2]", "no JSON", '{"blocks": 3}', '{"run": {"b": 1}}']
)
def test_a_foreign_line_is_named(line, tmp_path):
    (tmp_path / RECORDS).write_text(line + "\n")
    with pytest.raises(ValueError, match="line 1: not a record of a run"):
        list(sb.read_records(tmp_path))


@pytest.mark.parametrize(
    "name", ["../../etc", "/etc/passwd", "..", ".", "a\0b", "C:\\x", "PP 0.9", "Ω", "", "x" * 5000]
)
def test_any_name_is_the_name_of_one_folder(name, tmp_path):
    made = tmp_path / "runs" / folder_name(name or "run")
    made.mkdir(parents=True)
    assert [path.name for path in tmp_path.iterdir()] == ["runs"]
    assert made.resolve().parent == (tmp_path / "runs").resolve()


def test_a_comparison_has_a_folder_for_each_policy(tmp_path):
    model = sb.models.Gaussian(["x", "y"])
    policies = [sb.PowerPrior(0.9), sb.HPP()]
    found = sb.compare(model, stream(), policies, record=tmp_path, progress=False)
    for name, run in found.runs.items():
        assert tuple(sb.read_records(tmp_path / folder_name(name))) == run.records
        assert run.folder == (tmp_path / folder_name(name)).absolute()
