"""Runs, comparisons, records, progress."""

import io
import itertools
import json
import sys

import numpy as np
import pandas as pd
import pytest

import streambayes as sb

MODEL = sb.models.Gaussian(["x", "y"])


def stream(num_batches=6, num_rows=30, seed=0):
    rng = np.random.default_rng(seed)
    return [
        {"x": rng.normal(4.0 * (t >= 4), 1.0, num_rows), "y": rng.normal(size=num_rows)}
        for t in range(num_batches)
    ]


def test_a_run_is_its_steps():
    batches = stream()
    learner = sb.StreamLearner(MODEL, sb.MHPP())
    run = sb.run(learner, batches)
    state = learner.init(batches[0])
    total, rows = 0.0, 0
    for record, batch in zip(run.records, batches, strict=True):
        if state.num_batches > 0:
            density = learner.log_predictive(state, batch)
            assert record.prequential == pytest.approx(density.mean(), rel=1e-12)
            total, rows = total + density.sum(), rows + len(density)
        else:
            assert record.prequential is None
        state, info = learner.step(state, batch)
        assert record.bound == info.bound
        assert record.retained == pytest.approx(info.retained, rel=1e-9)  # to ten digits
        expected = pytest.approx(info.rho, rel=1e-9) if record.index > 0 else None
        assert record.rho == expected
        assert record.num_rows == 30
        assert record.test_bound is None
    assert run.state.summary() == state.summary()
    assert run.scores.prequential == pytest.approx(total / rows, rel=1e-12)
    assert run.scores.test_bound is None


def test_held_out_rows_are_not_learned():
    batches = stream(num_rows=31)
    learner = sb.StreamLearner(MODEL, sb.SVB())
    run = sb.run(learner, batches, test_fraction=1 / 3, seed=7, prequential=False)
    assert [(record.num_rows, record.num_test) for record in run.records] == [(21, 10)] * 6
    assert run.state.rows_seen == 6 * 21
    assert all(record.prequential is None for record in run.records)
    weighted = sum(record.test_predictive * record.num_test for record in run.records) / 60
    assert run.scores.test_predictive == pytest.approx(weighted, rel=1e-12)
    assert run.scores.test_bound < run.scores.test_predictive
    again = sb.run(learner, batches, test_fraction=1 / 3, seed=7)
    other = sb.run(learner, batches, test_fraction=1 / 3, seed=8)
    assert again.scores.test_bound == run.scores.test_bound
    assert other.scores.test_bound != run.scores.test_bound


def test_one_row_is_learned_rather_than_held_out():
    run = sb.run(sb.StreamLearner(MODEL, sb.SVB()), stream(num_rows=1), test_fraction=0.9)
    assert all((record.num_rows, record.num_test) == (1, 0) for record in run.records)
    assert run.scores.test_bound is None


def grouped(seed=0):
    """Thirty rows in groups of one to ten."""
    rng = np.random.default_rng(seed)
    return [
        {**batch, "trip": np.array([f"trip {g}" for g in rng.integers(0, 6, 30)])}
        for batch in stream(4)
    ]


def test_whole_groups_are_held_out():
    """Each group is learned whole or not at all, and about a third of the rows is held out."""
    names = [f"trip {g}" for g in range(6)]
    learner = sb.StreamLearner(sb.models.Categorical("trip", names), sb.SVB())
    for seed, batch in enumerate(grouped()):
        run = sb.run(
            learner, [batch], test_fraction=1 / 3, group="trip", prequential=False, seed=seed
        )
        sizes = np.array([(batch["trip"] == name).sum() for name in names])
        learned = np.asarray(run.state.posterior["trip"].concentration) - 1.0
        assert ((learned == 0) | (learned == sizes)).all()
        assert learned.sum() == run.records[0].num_rows == 30 - run.records[0].num_test
        assert 0 < run.records[0].num_test < 30
        assert abs(run.records[0].num_test - 10) <= sizes.max() / 2


def test_rows_that_a_column_says_are_held_out():
    batches = [{**batch, "test": np.arange(30) % 5 == 0} for batch in stream()]
    learner = sb.StreamLearner(MODEL, sb.SVB())
    run = sb.run(learner, batches, held_out="test", prequential=False)
    assert [(record.num_rows, record.num_test) for record in run.records] == [(24, 6)] * 6
    state = learner.init({name: values[~batches[0]["test"]] for name, values in batches[0].items()})
    for batch in batches:
        state, _ = learner.step(state, {n: values[~batch["test"]] for n, values in batch.items()})
    assert run.state.summary() == state.summary()


def test_splits_that_cannot_be():
    learner = sb.StreamLearner(MODEL, sb.SVB())
    for option in ({"group": "trip", "test_fraction": 0.5}, {"held_out": "trip"}):
        with pytest.raises(
            ValueError, match=r"^the batch lacks column 'trip', by which rows are held"
        ):
            sb.run(learner, stream(), **option)
    with pytest.raises(ValueError, match=r"^held_out and group exclude each other"):
        sb.run(learner, grouped(), group="trip", held_out="trip")


def test_weights_are_rows():
    """The mean over a run weights batches by their rows, as the paper's table does."""
    batches = [*stream(2, num_rows=3), *stream(2, num_rows=90, seed=1)]
    run = sb.run(sb.StreamLearner(MODEL, sb.SVB()), batches, test_fraction=1 / 3)
    sizes = [record.num_test for record in run.records]
    assert sizes == [1, 1, 30, 30]
    expected = np.average([record.test_bound for record in run.records], weights=sizes)
    assert run.scores.test_bound == pytest.approx(expected, rel=1e-12)


def test_any_iterable_is_a_stream():
    batches = stream()
    learner = sb.StreamLearner(MODEL, sb.HPP())
    expected = sb.run(learner, batches).state.summary()
    assert sb.run(learner, iter(batches)).state.summary() == expected
    assert sb.run(learner, (batch for batch in batches)).state.summary() == expected


def test_comparison_has_the_same_splits_and_starts():
    policies = [sb.SVB(), sb.PowerPrior(1.0), sb.HPP(), sb.PVB(30, 0.1)]
    comparison = sb.compare(MODEL, iter(stream()), policies, seed=3)
    runs = comparison.runs
    assert list(runs) == [policy.name for policy in policies]
    assert runs["SVB"].scores == runs["PP 1"].scores
    alone = sb.run(sb.StreamLearner(MODEL, sb.HPP()), stream(), test_fraction=1 / 3, seed=3)
    assert runs["HPP"].scores == alone.scores
    table = comparison.table()
    assert [row["method"] for row in table] == list(runs)
    assert table[2]["test bound"] == alone.scores.test_bound
    assert "HPP" in str(table)
    assert table[3]["mean E[rho]"] is None


def test_learned_forgetting_wins_after_a_jump():
    comparison = sb.compare(MODEL, stream(8), [sb.SVB(), sb.HPP(), sb.MHPP()])
    scores = {name: run.scores.test_predictive for name, run in comparison.runs.items()}
    assert scores["MHPP"] > scores["SVB"]
    assert scores["HPP"] > scores["SVB"]


def test_settings_reach_every_learner():
    comparison = sb.compare(MODEL, stream(2), [sb.SVB(), sb.HPP()], scale=False)
    assert all((run.state.scale.factor == 1).all() for run in comparison.runs.values())


@pytest.mark.parametrize("policies", [[], [sb.SVB(), sb.SVB()]])
def test_policies_are_distinct(policies):
    with pytest.raises(ValueError, match="policies must be one or more, and distinct"):
        sb.compare(MODEL, stream(), policies)


def test_going_on_from_a_state():
    batches = stream()
    learner = sb.StreamLearner(MODEL, sb.MHPP())
    first = sb.run(learner, batches[:3], test_fraction=1 / 3)
    second = sb.run(learner, batches[3:], state=first.state, test_fraction=1 / 3)
    whole = sb.run(learner, batches, test_fraction=1 / 3)
    assert second.state.summary() == whole.state.summary()
    assert [record.index for record in second.records] == [3, 4, 5]
    assert [r.test_bound for r in second.records] == [r.test_bound for r in whole.records[3:]]


def test_records_on_disk_are_those_in_memory(tmp_path):
    learner = sb.StreamLearner(MODEL, sb.MHPP())
    run = sb.run(learner, stream(), test_fraction=1 / 3, record=tmp_path / "run")
    assert tuple(sb.read_records(tmp_path / "run")) == run.records
    text = (tmp_path / "run" / "records.jsonl").read_text()
    lines = [json.loads(line) for line in text.splitlines()]
    assert [line["index"] for line in lines if "index" in line] == list(range(6))
    assert lines[0] == {"run": {"policy": "MHPP", "model": type(MODEL).__name__, "total": 6}}
    assert lines[-1] == {"ended": "finished"}
    assert sum("blocks" in line for line in lines) == 1
    with pytest.raises(FileExistsError, match="already holds the records of a run"):
        sb.run(learner, stream(), record=tmp_path / "run")
    sb.run(learner, stream(2, seed=9), state=run.state, record=tmp_path / "run")
    assert len(list(sb.read_records(tmp_path / "run"))) == 8


def test_records_appear_as_they_happen_and_memory_stays_small(tmp_path, monkeypatch):
    from streambayes.learning import _run

    monkeypatch.setattr(_run, "_KEPT", 3)
    seen = []

    def watched():
        for batch in stream(8):
            seen.append(len(list(sb.read_records(tmp_path))) if list(tmp_path.iterdir()) else 0)
            yield batch

    run = sb.run(sb.StreamLearner(MODEL, sb.SVB()), watched(), record=tmp_path)
    assert seen == list(range(8))
    assert [record.index for record in run.records] == [5, 6, 7]
    assert run.scores.prequential is not None


def test_a_foreign_record_is_named(tmp_path):
    (tmp_path / "records.jsonl").write_text('{"a": 1}\n')
    with pytest.raises(ValueError, match="line 1: not a record of a run"):
        list(sb.read_records(tmp_path))


def test_a_bad_batch_is_named_and_earlier_records_stay(tmp_path):
    batches = [*stream(2), {"x": [1.0], "y": [np.inf]}]
    with pytest.raises(ValueError, match="column 'y', row 0") as caught:
        sb.run(sb.StreamLearner(MODEL, sb.SVB()), batches, record=tmp_path)
    assert "in batch 2 of the stream" in caught.value.__notes__
    assert len(list(sb.read_records(tmp_path))) == 2


def test_empty_batches_are_recorded():
    batches = stream(3)
    batches.insert(1, {"x": [], "y": []})
    run = sb.run(sb.StreamLearner(MODEL, sb.HPP()), batches, test_fraction=1 / 3)
    assert [record.outcome for record in run.records] == [
        "converged",
        "empty",
        "converged",
        "converged",
    ]
    assert run.state.num_batches == 3


def test_a_stream_may_start_empty():
    batches = [{"x": [], "y": []}, *stream(3)]
    run = sb.run(sb.StreamLearner(MODEL, sb.HPP()), batches)
    expected = sb.run(sb.StreamLearner(MODEL, sb.HPP()), batches[1:])
    mine, theirs = run.state.summary(), expected.state.summary()
    for one, other in zip(mine.rows, theirs.rows, strict=True):
        assert (one.mean, one.sd) == pytest.approx((other.mean, other.sd), rel=1e-9)


def test_no_batches_is_an_error():
    with pytest.raises(ValueError, match="the stream has no batches"):
        sb.run(sb.StreamLearner(MODEL, sb.SVB()), [])


@pytest.mark.parametrize("fraction", [-0.1, 1.0, float("nan")])
def test_test_fraction_lies_below_one(fraction):
    with pytest.raises(ValueError, match="test_fraction must lie in"):
        sb.run(sb.StreamLearner(MODEL, sb.SVB()), stream(), test_fraction=fraction)


@pytest.mark.parametrize(
    ("module", "is_terminal", "is_shown"),
    [("io", True, True), ("ipykernel.iostream", False, True), ("io", False, False)],
)
def test_progress_is_shown_where_somebody_looks(monkeypatch, module, is_terminal, is_shown):
    facts = {"__module__": module, "isatty": lambda _: is_terminal}
    monkeypatch.setattr(sys, "stderr", type("OutStream", (io.StringIO,), facts)())
    sb.run(sb.StreamLearner(MODEL, sb.HPP()), stream(3))
    assert ("batch 3/3" in sys.stderr.getvalue()) == is_shown


def test_progress_is_silent_in_a_pipe_and_shown_when_asked(capsys):
    learner = sb.StreamLearner(MODEL, sb.HPP())
    sb.run(learner, stream())
    assert capsys.readouterr().err == ""
    sb.run(learner, stream(), progress=True)
    assert "batch 6/6" in capsys.readouterr().err
    sb.run(learner, iter(stream()), progress=True)
    shown = capsys.readouterr().err
    assert "batch 6 " in shown
    assert "E[rho]" in shown
    sb.run(learner, stream(), progress=False)
    assert capsys.readouterr().err == ""


def test_tables_have_a_row_per_step():
    run = sb.run(sb.StreamLearner(MODEL, sb.MHPP()), stream(), test_fraction=1 / 3)
    table = run.table()
    assert len(table) == 6
    assert len(str(table).splitlines()) == 7
    assert all(len(list(row)) == len(table.columns) for row in itertools.islice(table, 3))


def test_a_table_is_not_a_stream():
    learner = sb.StreamLearner(MODEL, sb.SVB())
    for table in (stream()[0], pd.DataFrame(stream()[0])):
        with pytest.raises(TypeError, match=r"cut a table with sb\.batches"):
            sb.run(learner, table)


def test_a_model_is_no_learner():
    sentence = r"got a Gaussian; make one of a model with sb\.StreamLearner\(model\)"
    with pytest.raises(TypeError, match=sentence):
        sb.run(sb.models.Gaussian("x"), stream())


def test_settings_tell_policies_apart_in_a_table():
    policies = [
        sb.HPP(),
        sb.HPP(sb.TruncatedExponential.from_gamma(2.0)),
        sb.PVB(9, 0.1),
        sb.PVB(9, 0.1, 5),
    ]
    comparison = sb.compare(MODEL, stream(2), policies)
    assert len(comparison.runs) == 4


def test_the_table_names_the_block_that_moved():
    run = sb.run(sb.StreamLearner(MODEL, sb.MHPP()), stream())
    row = run.table()[4]
    assert row["block"] == "x"
    assert row["E[rho]"] < 0.05
    assert run.table()[0]["E[rho]"] is None


@pytest.mark.parametrize(
    "cells",
    [["True", "false", "TRUE", "False"], [1, 0, 1, 0], [1.0, 0.0, 1.0, 0.0], [True, False] * 2],
)
def test_rows_that_are_held_out_by_a_column_of_any_type(cells):
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    batch = {"x": np.arange(4.0), "held": np.array(cells)}
    run = sb.run(learner, [batch], held_out="held", progress=False)
    assert (run.records[0].num_rows, run.records[0].num_test) == (2, 2)
    batch["held"] = np.array(["true", "false", "maybe", None], dtype=object)
    with pytest.raises(
        ValueError, match="column 'held', row 2: expected true or false, got 'maybe'"
    ):
        sb.run(learner, [batch], held_out="held", progress=False)


def test_a_line_says_that_programs_are_prepared(monkeypatch, capsys):
    monkeypatch.setattr("streambayes.learning._progress._PATIENCE", 0.0)
    learner = sb.StreamLearner(sb.models.Gaussian("prepared"), sb.SVB())
    sb.run(learner, [{"prepared": [1.0, 2.0, 4.0]}] * 2, progress=True)
    assert "preparing: programs are loaded or compiled" in capsys.readouterr().err
