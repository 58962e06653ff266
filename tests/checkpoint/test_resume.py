"""A run that was stopped at any moment and goes on ends as one that was never stopped."""

import dataclasses
import os
import warnings

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes.checkpoint._file import packed


class Stopped(Exception):
    """What ends a run in these tests."""


def stream(num_batches=8, empty=()):
    rng = np.random.default_rng(0)
    for number in range(num_batches):
        size = 0 if number in empty else 25
        rows = rng.normal(size=(2, 25)) + 2.0 * (number > 5)
        yield sb.StreamBatch({"x": rows[0, :size], "y": rows[1, :size]}, label=f"b{number}")


def cut(batches, number):
    """A stream that fails."""
    for place, batch in enumerate(batches):
        if place == number:
            raise Stopped
        yield batch


def identical(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def without_times(records):
    return [dataclasses.replace(record, seconds=0.0) for record in records]


@pytest.mark.parametrize(
    ("policy", "options"),
    [
        (sb.Auto(), {"test_fraction": 0.2}),
        (sb.MHPP(), {"test_fraction": 0.2}),
        (sb.SVB(), {"prequential": False}),
        (sb.PVB(100, 0.1), {}),
    ],
    ids=repr,
)
@pytest.mark.parametrize("empty", [(), (0, 1), (3, 7)])
def test_a_run_that_fails_after_any_batch_goes_on(policy, options, empty, tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), policy)

    def learned(batches, name, **more):
        return sb.run(learner, batches, record=tmp_path / name, progress=False, **options, **more)

    whole = learned(stream(empty=empty), "whole")
    for number in range(9):
        folder = tmp_path / f"checkpoints {number}"
        name = f"run {number}"
        if number < 8:
            with pytest.raises(Stopped):
                learned(cut(stream(empty=empty), number), name, checkpoint=folder)
        again = learned(stream(empty=empty), name, checkpoint=folder, resume=True)
        assert identical(again.state, whole.state)
        assert again.scores == whole.scores
        expected = without_times(sb.read_records(tmp_path / "whole"))
        assert without_times(sb.read_records(tmp_path / name)) == expected
        assert sb.find_drift(tmp_path / name).events == whole.drift.events
        assert len(sb.Checkpoints(folder)) == 3
        assert len(list(folder.iterdir())) == 4


def test_a_run_that_is_over_is_over(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    one = sb.run(learner, list(stream()), checkpoint=tmp_path, progress=False)
    two = sb.run(learner, list(stream()), checkpoint=tmp_path, resume=True, progress=False)
    assert identical(one.state, two.state)
    assert two.records == ()
    more = sb.run(learner, list(stream(10)), checkpoint=tmp_path, resume=True, progress=False)
    assert [record.index for record in more.records] == [8, 9]


@pytest.mark.parametrize(
    "damage", [lambda content: content[:100], lambda content: content[:-50] + b"x" * 50]
)
def test_a_damaged_checkpoint_is_passed_over(tmp_path, damage):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.MHPP())
    whole = sb.run(learner, list(stream()), progress=False)
    sb.run(learner, list(stream(5)), checkpoint=tmp_path, progress=False)
    *_, last = sorted(tmp_path.glob("*.sbz"))
    last.write_bytes(damage(last.read_bytes()))
    with pytest.warns(UserWarning, match="the checkpoint before it is used"):
        again = sb.run(learner, list(stream()), checkpoint=tmp_path, resume=True, progress=False)
    assert identical(again.state, whole.state)
    assert [record.index for record in again.records] == [4, 5, 6, 7]
    for path in tmp_path.glob("*.sbz"):
        path.write_bytes(b"nothing")
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        with pytest.raises(ValueError, match="no checkpoint can be read"):
            sb.run(learner, list(stream()), checkpoint=tmp_path, resume=True)


def test_stopped_between_the_first_record_and_its_checkpoint(tmp_path, monkeypatch):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    places = {"record": tmp_path / "records", "checkpoint": tmp_path / "checkpoints"}

    def stopped(*_):
        raise Stopped

    monkeypatch.setattr(sb.Checkpoints, "save", stopped)
    with pytest.raises(Stopped):
        sb.run(learner, list(stream()), progress=False, **places)
    monkeypatch.undo()
    assert len(list(sb.read_records(places["record"]))) == 1
    sb.run(learner, list(stream()), progress=False, resume=True, seed=np.int64(0), **places)
    assert [record.index for record in sb.read_records(places["record"])] == list(range(8))
    # but records of another run are left alone
    sb.run(learner, list(stream()), progress=False, record=tmp_path / "other")
    for _ in range(2):
        with pytest.raises(FileExistsError, match="already holds the records of a run"):
            sb.run(
                learner,
                list(stream()),
                record=tmp_path / "other",
                checkpoint=tmp_path / "new",
                resume=True,
            )


def test_how_many_are_kept(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    held = sb.Checkpoints(tmp_path / "some", keep=2)
    sb.run(learner, list(stream(5)), checkpoint=held, progress=False)
    assert [path.name for path in sorted((tmp_path / "some").glob("*.sbz"))] == [
        "checkpoint-000000000004.sbz",
        "checkpoint-000000000005.sbz",
    ]
    assert held.latest().num_batches == 5
    assert sb.Checkpoints(tmp_path / "none").latest() is None
    with pytest.raises(ValueError, match="keep must be a whole number of at least 1, got 0"):
        sb.Checkpoints(tmp_path, keep=0)


def test_a_place_elsewhere():
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    place = "memory://runs/one"
    whole = sb.run(learner, list(stream()), progress=False)
    sb.run(learner, list(stream(5)), checkpoint=place, progress=False)
    assert len(sb.Checkpoints(place)) == 3
    again = sb.run(learner, list(stream()), checkpoint=place, resume=True, progress=False)
    assert identical(again.state, whole.state)


def test_what_does_not_go_together(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    found = sb.run(learner, list(stream(3)), checkpoint=tmp_path, progress=False)
    with pytest.raises(FileExistsError, match="go on with resume=True, or choose another folder"):
        sb.run(learner, list(stream()), checkpoint=tmp_path)
    with pytest.raises(ValueError, match="resume=True needs checkpoint="):
        sb.run(learner, list(stream()), resume=True)
    with pytest.raises(ValueError, match="checkpoint and state exclude each other"):
        sb.run(learner, list(stream()), checkpoint=tmp_path, resume=True, state=found.state)
    with pytest.raises(ValueError, match="was begun with seed=0, and cannot go on with 1"):
        sb.run(learner, list(stream()), checkpoint=tmp_path, resume=True, seed=1)
    other = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.MHPP())
    with pytest.raises(ValueError, match="the checkpoint is of Gaussian"):
        sb.run(other, list(stream()), checkpoint=tmp_path, resume=True)
    assert sb.Checkpoints(tmp_path).latest().num_batches == 3


def test_a_full_disk_stops_the_run_and_leaves_the_last_checkpoint(tmp_path, monkeypatch):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    real, calls = os.fsync, []

    def full(handle):
        calls.append(handle)
        if len(calls) > 7:
            raise OSError(28, "No space left on device")
        return real(handle)

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space left on device"):
        sb.run(learner, list(stream()), checkpoint=tmp_path, progress=False)
    monkeypatch.undo()
    assert 0 < sb.Checkpoints(tmp_path).latest().num_batches < 8
    again = sb.run(learner, list(stream()), checkpoint=tmp_path, resume=True, progress=False)
    assert identical(again.state, sb.run(learner, list(stream()), progress=False).state)


def test_checkpoints_every_few_batches(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    held = sb.Checkpoints(tmp_path / "held", every=3)
    names = []

    def look(_):
        names.append([path.name for path in sorted((tmp_path / "held").glob("*.sbz"))])

    options = {"record": tmp_path / "records", "checkpoint": held, "progress": False}
    with pytest.raises(Stopped):
        sb.run(learner, cut(stream(), 5), on_record=look, **options)
    assert [len(some) for some in names] == [0, 0, 0, 1, 1]
    assert held.latest().num_batches == 5  # in the end what was learned is saved
    again = sb.run(learner, stream(), resume=True, **options)
    whole = sb.run(learner, stream(), record=tmp_path / "whole", progress=False)
    assert identical(again.state, whole.state)
    assert held.latest().num_batches == 8
    found = without_times(sb.read_records(tmp_path / "records"))
    assert found == without_times(sb.read_records(tmp_path / "whole"))
    for path in (tmp_path / "held").glob("*8.sbz"):  # as if it had been killed before the end
        path.unlink()
    again = sb.run(learner, stream(), resume=True, **options)
    assert identical(again.state, whole.state)
    assert without_times(sb.read_records(tmp_path / "records")) == found


def test_scores_after_an_interruption_between_checkpoints(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB())
    whole = sb.run(learner, stream(), progress=False)
    held = sb.Checkpoints(tmp_path, every=3)

    def stop(record):
        if record.index == 4:
            raise Stopped

    with pytest.raises(Stopped):
        sb.run(learner, stream(), checkpoint=held, on_record=stop, progress=False)
    again = sb.run(learner, stream(), checkpoint=held, resume=True, progress=False)
    assert again.scores == whole.scores


def test_records_that_are_missing_are_reported(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB())
    options = {"record": tmp_path / "records", "checkpoint": tmp_path / "held", "progress": False}
    sb.run(learner, list(stream())[:6], **options)
    path = tmp_path / "records" / "records.jsonl"
    lines = path.read_text().splitlines(keepends=True)
    path.write_text("".join(line for line in lines if not line.startswith('{"index": 5')))
    with pytest.warns(UserWarning, match="the records of batches 5 to 5 are missing"):
        sb.run(learner, stream(), resume=True, **options)


@pytest.mark.parametrize(
    "facts",
    [
        {"num_batches": "2"},
        {"num_batches": -1},
        {"num_batches": 2, "columns": ["x", 1]},
        {"num_batches": 2, "settings": {"seed": 0}},
        {"num_batches": 2, "sums": {"prequential": [0.0]}},
        {"num_batches": 2, "sums": {"another": [0.0, 1]}},
    ],
)
def test_a_checkpoint_that_does_not_say_how_far_it_is_is_passed_over(tmp_path, facts):
    state = sb.StreamLearner(sb.models.BetaBinomial("x"), sb.SVB()).init({"x": [0, 1]})
    held = sb.Checkpoints(tmp_path)
    held.save(sb.Checkpoint(state, 1))
    (tmp_path / "checkpoint-000000000002.sbz").write_bytes(packed(state, facts))
    with pytest.warns(UserWarning, match="2.sbz is damaged: it does not say how far the run had"):
        assert held.latest().num_batches == 1
