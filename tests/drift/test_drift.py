"""What changed is found, named and told, and nothing else is."""

import math

import numpy as np
import pytest
from scipy.special import betaln

import streambayes as sb

NAMES = [f"x{place}" for place in range(10)]
ADAPTIVE = [sb.Auto(), sb.MHPP()]
EVERY = [*ADAPTIVE, sb.HPP(), sb.SVB(), sb.PowerPrior(0.9), sb.Fading(0.9)]


def stream(seed, *, num_batches=40, jump=(), back=None, outlier=(), slope=()):
    """Ten columns; some jump at batch 25 and perhaps back, some are off in batch 20, some move slowly."""
    rng = np.random.default_rng(seed)
    for number in range(num_batches):
        rows = rng.normal(size=(100, 10))
        if number >= 25 and (back is None or number < back):
            rows[:, list(jump)] += 1.0
        if number == 20:
            rows[:, list(outlier)] += 1.0
        rows[:, list(slope)] += 0.03 * max(number - 10, 0)
        yield dict(zip(NAMES, rows.T, strict=True))


def found(policy, batches):
    learner = sb.StreamLearner(sb.models.Gaussian(NAMES), policy)
    return sb.run(learner, list(batches), prequential=False, progress=False).drift


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: policy.name)
def test_two_columns_that_jump_are_named_and_no_other(policy):
    hits = 0
    for seed in range(20):
        events = found(policy, stream(seed, jump=(2, 7)))
        hits += {event.block for event in events} == {"x2", "x7"}
        assert {event.first for event in events if event.block == "x2"} >= {25}
    assert hits >= 19


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: policy.name)
def test_few_false_alarms_where_nothing_changes(policy):
    events = [
        event for seed in (101, 102, 103) for event in found(policy, stream(seed, num_batches=200))
    ]
    assert len(events) < 6  # 600 batches


@pytest.mark.parametrize("policy", EVERY, ids=lambda policy: policy.name)
def test_an_outlier_is_called_one(policy):
    for seed in range(200, 205):
        events = found(policy, stream(seed, outlier=(4,)))
        assert [(event.block, event.kind, event.first) for event in events] == [
            ("x4", "outlier", 20)
        ]


@pytest.mark.parametrize("policy", ADAPTIVE, ids=lambda policy: policy.name)
def test_kinds_of_drift(policy):
    sudden = found(policy, stream(1, jump=(3,)))
    assert [(event.kind, event.first) for event in sudden] == [("abrupt", 25)]
    (event,) = sudden
    (change,) = event.changes
    assert change.parameter == "mean of x3"
    assert change.lower < 1.0 < change.upper
    assert abs(change.before) < 0.2
    assert abs(change.after - 1.0) < 0.2
    assert event.share > 0.5
    assert event.rho < 0.2
    returning = found(policy, stream(2, num_batches=50, jump=(3,), back=37))
    assert [(event.kind, event.first) for event in returning] == [("abrupt", 25), ("recurring", 37)]
    assert returning.events[1].like == "24"
    slow = found(policy, stream(3, num_batches=60, slope=(5,)))
    assert {event.block for event in slow} == {"x5"}
    assert "gradual" in {event.kind for event in slow}
    whole = sum(event.changes[0].difference for event in slow)
    assert 1.0 < whole < 2.0  # 1.5 in all


def test_the_first_batch_and_a_quiet_stream_tell_nothing():
    quiet = found(sb.Auto(), stream(7, num_batches=5))
    assert len(quiet) == 0
    assert str(quiet) == "Nothing has changed in 5 batches."
    assert len(quiet.table().rows) == 0


def test_evidence_is_that_of_two_explanations():
    """For draws, the evidence of a batch is a ratio of Beta functions."""
    rng = np.random.default_rng(0)
    model = sb.models.BetaBinomial("x")
    learner = sb.StreamLearner(model, sb.SVB())
    batches = [rng.random(50) < chance for chance in (0.3, 0.3, 0.8)]
    state = learner.init({"x": batches[0]})
    ones, zeros = 1.0, 1.0
    for batch in batches:
        state, info = learner.step(state, {"x": batch})
        more, less = batch.sum(), (~batch).sum()
        over = betaln(1.0 + more, 1.0 + less) - betaln(1.0, 1.0)
        on = betaln(ones + more, zeros + less) - betaln(ones, zeros)
        assert info.log_restart["x"] == pytest.approx(over - on, abs=1e-9)
        ones, zeros = ones + more, zeros + less


@pytest.mark.parametrize("policy", [*EVERY, sb.PVB(1000, 0.1)], ids=lambda policy: policy.name)
def test_notes_are_those_of_the_posterior(policy):
    learner = sb.StreamLearner(sb.models.Gaussian(["x0", "x1"]), policy)
    batches = [{name: batch[name] for name in ("x0", "x1")} for batch in stream(3, num_batches=6)]
    run = sb.run(learner, batches, progress=False)
    summary = run.state.summary()
    for block, parameters in run.records[-1].parameters.items():
        for name, (mean, deviation) in parameters.items():
            assert name.endswith(block)
            assert mean == pytest.approx(summary[name].mean, rel=1e-7)
            assert deviation == pytest.approx(summary[name].sd, rel=1e-7)
    assert run.records[0].moved is None
    assert all(moved > 0.0 for moved in run.records[-1].moved.values())
    before = sb.run(learner, batches[:-1], progress=False).state.posterior
    after = run.state.posterior
    expected = np.asarray(after["x0, x1"].kl(before["x0, x1"]))
    assert list(run.records[-1].moved.values()) == pytest.approx(expected, rel=1e-6)
    assert (run.records[-1].log_restart is None) == policy.name.startswith("PVB")


@pytest.mark.parametrize("policy", ADAPTIVE, ids=lambda policy: policy.name)
def test_batches_learned_together_leave_the_same_notes(policy):
    learner = sb.StreamLearner(sb.models.Gaussian(NAMES), policy)
    batches = list(stream(5, num_batches=40, jump=(1,)))
    together = sb.run(learner, batches, prequential=False, progress=False)
    one_by_one = sb.run(learner, iter(batches), prequential=False, progress=False)
    for mine, theirs in zip(together.records, one_by_one.records, strict=True):
        assert mine.parameters.keys() == theirs.parameters.keys()
        for block, parameters in mine.parameters.items():
            for name, numbers in parameters.items():
                assert numbers == pytest.approx(theirs.parameters[block][name], rel=1e-6, abs=1e-9)
        if mine.moved is not None:
            assert mine.moved == pytest.approx(theirs.moved, rel=1e-5, abs=1e-9)
    assert [event.first for event in together.drift] == [event.first for event in one_by_one.drift]


def test_uncertainty_of_rho_is_that_of_its_posterior():
    learner = sb.StreamLearner(sb.models.Gaussian("x0"), sb.HPP())
    run = sb.run(learner, [{"x0": batch["x0"]} for batch in stream(1, num_batches=4)])
    for record in run.records[1:]:
        slope = record.omega
        grid = np.linspace(0.0, 1.0, 200_001)
        weights = np.exp(slope * (grid - grid[-1] * (slope > 0)))
        mean = np.average(grid, weights=weights)
        sd = math.sqrt(np.average((grid - mean) ** 2, weights=weights))
        assert record.rho == pytest.approx(mean, abs=1e-4)
        assert record.rho_sd == pytest.approx(sd, abs=1e-4)


def test_from_disk_as_from_memory(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(NAMES), sb.Auto())
    run = sb.run(learner, list(stream(4, jump=(2,))), progress=False, record=tmp_path)
    assert tuple(sb.read_records(tmp_path)) == run.records
    assert sb.find_drift(tmp_path).events == run.drift.events
    assert str(run.drift).startswith("Batch 25: mean of x2 changed at once, ")


def test_a_monitor_tells_as_it_happens():
    told = []
    monitor = sb.DriftMonitor(on_event=told.append)
    learner = sb.StreamLearner(sb.models.Gaussian(NAMES), sb.Auto())
    run = sb.run(learner, stream(6, outlier=(4,)), progress=False, on_record=monitor)
    assert (told[0].kind, told[0].first) == ("abrupt", 20)
    assert told[-1].kind == "outlier"  # known with the batch after
    assert monitor.events == run.drift.events


def test_a_column_that_appears_is_told():
    rng = np.random.default_rng(0)
    batches = [
        {"a": rng.normal(size=50), "b": np.zeros(50) if number < 6 else rng.normal(size=50)}
        for number in range(10)
    ]
    events = sb.run(sb.StreamLearner(sb.models.Gaussian(["a", "b"])), batches, progress=False).drift
    assert [(event.block, event.kind, event.first) for event in events] == [("b", "new", 6)]
    assert str(events) == "Batch 6: column 'b' varies for the first time."


def test_bad_settings_and_records_without_notes_are_refused():
    with pytest.raises(ValueError, match=r"false_alarms must lie in \(0, 1\), got 2"):
        sb.DriftMonitor(false_alarms=2)
    learner = sb.StreamLearner(sb.models.Gaussian("x0"), sb.Auto())
    run = sb.run(learner, [{"x0": [1.0, 2.0]}] * 3, drift=False, progress=False)
    with pytest.raises(ValueError, match=r"run\(\.\.\., drift=True\)"):
        run.drift  # noqa: B018


@pytest.mark.parametrize("policy", ADAPTIVE, ids=lambda policy: policy.name)
def test_two_slow_changes_are_two_and_begin_where_they_do(policy):
    rng = np.random.default_rng(2)
    way = np.concatenate([np.zeros(20), np.linspace(0, 1.2, 20), np.full(30, 1.2)])
    way = np.concatenate([way, np.linspace(1.2, 2.4, 20), np.full(20, 2.4)])
    batches = [{"x": rng.normal(level, 1.0, 100), "y": rng.normal(size=100)} for level in way]
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), policy)
    slow = [
        event for event in sb.run(learner, batches, progress=False).drift if event.kind == "gradual"
    ]
    assert {event.block for event in slow} == {"x"}
    assert any(15 <= event.first <= 32 for event in slow)
    assert any(65 <= event.first <= 82 for event in slow)
    assert not any(event.first < 65 < event.last for event in slow)


def test_of_many_events_the_clearest_are_told():
    rng = np.random.default_rng(0)
    sizes = rng.normal(0.0, 2.0, 60)
    batches = [{"x": rng.normal(size, 1.0, 100), "y": rng.normal(size=100)} for size in sizes]
    drift = sb.run(sb.StreamLearner(sb.models.Gaussian(["x", "y"])), batches, progress=False).drift
    assert len(drift) > 40
    lines = str(drift).splitlines()
    assert len(lines) == 22
    assert lines[0] == f"{len(drift)} changes in 60 batches: x {len(drift)}."
    told = drift.clearest(20)
    least = min(event.log_restart for event in told)
    assert sum(event.log_restart > least for event in drift) == 19
    assert [event.first for event in told] == sorted(event.first for event in told)


def test_every_batch_that_changes_is_a_change_of_its_own():
    """A policy that has let go of the past has arrived: what comes next is another change."""
    rng = np.random.default_rng(1)
    levels = [0.0, 0.0, 0.0, 0.0, 3.0, 6.0, 9.0, 9.0, 9.0, 9.0]
    batches = [{"x": rng.normal(level, 1.0, 100)} for level in levels]
    events = sb.run(sb.StreamLearner(sb.models.Gaussian("x")), batches, progress=False).drift
    assert [event.first for event in events] == [4, 5, 6]
    assert [round(event.changes[0].difference) for event in events] == [3, 3, 3]


def test_latent_variables_name_their_component():
    rng = np.random.default_rng(0)
    batches = []
    for number in range(30):
        centres = np.array([-4.0, 4.0 if number < 20 else 7.0])
        batches.append({"x": rng.normal(centres[rng.integers(0, 2, 300)], 1.0)})
    learner = sb.StreamLearner(sb.models.GaussianMixture("x", num_components=2))
    drift = sb.run(learner, batches, progress=False).drift
    sudden = [event for event in drift if event.first == 20]
    assert len(sudden) == 1
    assert sudden[0].changes[0].parameter.startswith("mean of x | ")
    assert sudden[0].changes[0].after == pytest.approx(7.0, abs=0.3)


def gaussian(level, *, size=60, seed=0, num_batches=40, start=None):
    """Batches of one column with a level for each, and one that stands still."""
    rng = np.random.default_rng(seed)
    for number in range(num_batches):
        rows = size if number or start is None else start
        yield {"a": rng.normal(level(number), 1.0, rows), "b": rng.normal(size=rows)}


def events_of(batches, model=None, policy=None):
    learner = sb.StreamLearner(sb.models.Gaussian(["a", "b"]) if model is None else model, policy)
    return sb.run(learner, list(batches), progress=False).drift.events


def test_nothing_is_known_of_columns_that_have_not_varied():
    assert events_of(gaussian(lambda _: 5.0, size=1, num_batches=6)) == ()
    empty = [{"a": [], "b": []}] * 3
    assert str(sb.run(sb.StreamLearner(sb.models.Gaussian(["a", "b"])), empty).drift) == (
        "Nothing has changed in 3 batches."
    )


def test_a_change_that_no_parameter_shows_is_no_outlier():
    """A correlation has changed for good; means and standard deviations have not."""
    rng = np.random.default_rng(0)
    batches = []
    for number in range(40):
        tie = 0.9 * (number >= 20)
        rows = rng.multivariate_normal([0.0, 0.0], [[1.0, tie], [tie, 1.0]], 60)
        batches.append({"x": rows[:, 0], "y": rows[:, 1]})
    (event,) = events_of(batches, sb.models.MultivariateGaussian(["x", "y"]))
    assert (event.kind, event.first) == ("abrupt", 20)
    assert event.sentence == "Batch 20: x, y changed, which no parameter shows by itself."


@pytest.mark.parametrize(("offset", "unit"), [(1.7e9, 1.0), (1e6, 1e-3), (0.0, 1e-9), (-1e12, 1.0)])
def test_columns_far_from_zero(offset, unit):
    batches = [
        {"a": offset + unit * batch["a"], "b": batch["b"]}
        for batch in gaussian(lambda number: 3.0 * (number >= 20))
    ]
    (event,) = events_of(batches)
    assert (event.block, event.kind, event.first) == ("a", "abrupt", 20)
    assert event.changes[0].difference == pytest.approx(3.0 * unit, rel=0.15)


def test_jumps_in_small_batches_are_no_outliers():
    wrong = 0
    for seed in range(12):
        events = events_of(
            gaussian(lambda n: 2.0 * (n >= 60), size=5, seed=seed, num_batches=90, start=30)
        )
        wrong += any(event.kind == "outlier" for event in events)
    assert wrong <= 1


def test_a_change_with_the_first_batch_after_a_state_is_told():
    batches = list(gaussian(lambda number: 5.0 + 3.0 * (number >= 20)))
    learner = sb.StreamLearner(sb.models.Gaussian(["a", "b"]))
    before = sb.run(learner, batches[:20], progress=False)
    after = sb.run(learner, batches[20:], state=before.state, progress=False)
    (event,) = after.drift
    assert (event.block, event.kind, event.first, event.changes) == ("a", "abrupt", 20, ())


def test_numbers_in_sentences():
    falling = events_of(gaussian(lambda number: -10.0 - 2.0 * (number >= 20)))[0].sentence
    assert falling.startswith("Batch 20: mean of a changed at once, -10.0")
    assert "(-20 %, -2." in falling
    (large,) = events_of(
        {"a": 5e9 + 1e6 * batch["a"], "b": batch["b"]}
        for batch in gaussian(lambda number: 4.0 * (number >= 20))
    )
    assert " %" not in large.sentence  # less than half of one
    assert "5,00" in large.sentence


def test_names_of_columns_that_appear():
    rng = np.random.default_rng(0)
    for name in ("a: b", "it's", "a\nb", r"$\frac{$"):
        batches = [
            {name: np.zeros(50) if number < 4 else rng.normal(size=50), "b": rng.normal(size=50)}
            for number in range(6)
        ]
        (event,) = events_of(batches, sb.models.Gaussian([name, "b"]))
        assert (event.block, event.kind, event.first) == (name, "new", 4)
        assert "\n" not in event.sentence


def test_folders_that_move_and_lines_that_are_not_finished(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    learner = sb.StreamLearner(sb.models.Gaussian(["a", "b"]))
    batches = list(gaussian(lambda number: 3.0 * (number >= 20)))
    run = sb.run(learner, batches, progress=False, record="held")
    monkeypatch.chdir("/")
    assert len(run.drift) == 1
    path = tmp_path / "held" / "records.jsonl"
    whole = path.read_bytes()
    path.write_bytes(whole + whole[:300])
    assert sb.find_drift(tmp_path / "held").events == run.drift.events
    path.unlink()
    assert len(run.drift) == 1  # by what is in memory
    with pytest.raises(FileNotFoundError, match=r"no such file; run\(\.\.\., record=folder\)"):
        sb.find_drift(tmp_path / "nowhere")
