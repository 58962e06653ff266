"""What changed is found, named and told, and nothing else is."""

import math
import re

import numpy as np
import pytest

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
    assert event.rho < 0.2
    returning = found(policy, stream(2, num_batches=50, jump=(3,), back=37))
    assert [(event.kind, event.first) for event in returning] == [("abrupt", 25), ("recurring", 37)]
    assert returning.events[1].like == "24"
    slow = found(policy, stream(3, num_batches=60, slope=(5,)))
    assert {event.block for event in slow} <= {"x5"}
    (trend,) = [pattern for pattern in slow.patterns if pattern.kind == "trend"]
    assert (trend.block, trend.parameter) == ("x5", "mean of x5")
    assert 1.0 < trend.trend[1] - trend.trend[0] < 2.0  # 1.5 in all
    assert str(slow).startswith("Over all batches: mean of x5 rises, ")


def test_the_first_batch_and_a_quiet_stream_tell_nothing():
    quiet = found(sb.Auto(), stream(7, num_batches=5))
    assert len(quiet) == 0
    assert str(quiet).startswith("Nothing beyond the usual fluctuation in 5 batches.")
    assert len(quiet.table().rows) == 0


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
    for block, alone in run.records[-1].alone.items():
        assert alone[f"mean of {block}"] == pytest.approx(np.mean(batches[-1][block]), abs=0.05)


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
    assert (told[0].kind, told[0].first) == ("provisional", 20)
    assert told[-1].kind == "outlier"  # known with the batch after
    assert told[-1].sentence.startswith("Batch 20 was unusual, and the next was not: mean of x4 ")
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
    for settings, message in (
        ({"false_alarms": 0.6}, r"false_alarms must be a number from 1e-12 to 0.5, got 0.6"),
        ({"false_alarms": 1e-13}, r"false_alarms must be a number from 1e-12 to 0.5"),
        ({"false_alarms": "few"}, r"false_alarms must be a number"),
        ({"min_change": -1.0}, r"min_change must be a number from 0"),
        ({"min_change": {"x": float("nan")}}, r"min_change must be a number from 0"),
        ({"seasonal": 1}, r"seasonal must be a number of batches of at least 2"),
        ({"seasonal": [7, 2.5]}, r"seasonal must be a number of batches"),
        ({"level": 1.0}, r"level must be a number from"),
    ):
        with pytest.raises(ValueError, match=message):
            sb.DriftMonitor(**settings)
    learner = sb.StreamLearner(sb.models.Gaussian("x0"), sb.Auto())
    run = sb.run(learner, [{"x0": [1.0, 2.0]}] * 3, drift=False, progress=False)
    with pytest.raises(ValueError, match=r"run\(\.\.\., drift=True\)"):
        run.drift  # noqa: B018


def ramps(*, size, length, num=120, begin=40, seeds=8):
    """In how many streams a ramp of one column is told as a slow change, and in how many as a sudden one."""
    slow = sudden = 0
    for seed in range(seeds):
        rng = np.random.default_rng(seed)
        level = size * np.clip((np.arange(num) - begin) / length, 0.0, 1.0)
        batches = [dict(zip("abc", rng.normal(size=(3, 100)), strict=True)) for _ in range(num)]
        for batch, height in zip(batches, level, strict=True):
            batch["a"] += height
        learner = sb.StreamLearner(sb.models.Gaussian(["a", "b", "c"]), sb.SVB())
        drift = sb.run(learner, batches, prequential=False, progress=False).drift
        kinds = {event.kind for event in drift.events if event.block == "a"}
        kinds |= {pattern.kind for pattern in drift.patterns if pattern.block == "a"}
        slow += bool(kinds & {"gradual", "trend"})
        sudden += not kinds & {"gradual", "trend"} and "abrupt" in kinds
        assert {event.block for event in drift} <= {"a"}
    return slow, sudden


@pytest.mark.parametrize(("size", "length"), [(1.0, 10), (1.0, 20), (2.0, 20), (2.0, 40)])
def test_ramps_are_found(size, length):
    slow, sudden = ramps(size=size, length=length)
    assert slow + sudden >= 7
    assert slow >= 5


def test_a_restless_stream_fluctuates_and_of_many_changes_five_are_told():
    rng = np.random.default_rng(0)
    restless = rng.normal(0.0, 2.0, 60)
    steps = 6.0 * (np.arange(60) // 6 % 2) * (1 + np.arange(60) // 6)
    batches = [
        {"x": rng.normal(level, 1.0, 100), "y": rng.normal(step, 1.0, 100)}
        for level, step in zip(restless, steps, strict=True)
    ]
    drift = sb.run(sb.StreamLearner(sb.models.Gaussian(["x", "y"])), batches, progress=False).drift
    patterns = {pattern.block: pattern for pattern in drift.patterns}
    assert patterns["x"].kind == "fluctuates"
    assert patterns["x"].fluctuation == pytest.approx(np.std(restless), rel=0.2)
    assert drift.count("block")["x"] == 0
    entries = drift.by_batch()
    assert len(entries) > 5
    lines = str(drift).splitlines()
    assert lines[0] == (
        f"Changes began in {len(entries)} of 60 batches. The 5 most important; table() has all:"
    )
    assert lines[1:] == [entry.sentence for entry in drift.by_batch(5)]
    least = min(entry.importance for entry in drift.by_batch(5))
    assert sum(entry.importance > least for entry in entries) == 4
    assert len(drift.table().rows) == len(drift.events)


def test_what_changes_alike_is_told_as_one():
    """Of parents, the same parameter for several values; of seven blocks, six by name."""
    rng = np.random.default_rng(3)
    net = sb.Network()
    kind = net.categorical("kind", ["a", "b", "c"])
    net.normal(["x", "y", "z"], parents=[kind])
    batches = [
        {
            "kind": np.repeat(["a", "b", "c"], 60),
            "x": rng.normal(10.0 * (number >= 12), 1.0, 180),
            "y": rng.normal(10.0 * (number >= 12), 1.0, 180),
            "z": rng.normal(0.0, np.where((number >= 12) & (np.arange(180) < 60), 9.0, 1.0)),
        }
        for number in range(20)
    ]
    drift = sb.run(sb.StreamLearner(net), batches, progress=False).drift
    (entry,) = drift.by_batch()
    assert len(entry.events) == 7
    first, *others = entry.events
    assert entry.sentence.startswith(
        f"Batch 12: {first.changes[0].parameter} changed at once, {first.changes[0].numbers}; likewise "
    )
    assert entry.sentence.endswith(", and 1 more.")
    column = first.changes[0].parameter.partition(" | ")[0]
    for event in others:
        name, arrow = event.changes[0].parameter, event.changes[0].arrow
        if name.startswith(f"{column} | "):
            assert f" {name.removeprefix(f'{column} | ')} {arrow}" in entry.sentence
            assert name not in entry.sentence
    assert sum(event.changes[0].arrow in entry.sentence for event in entry.events) == 6
    assert (
        sb.Drift(drift.events[:1], drift.patterns, 20).by_batch()[0].sentence
        == drift.events[0].sentence
    )


@pytest.mark.parametrize("seed", range(3))
def test_an_extreme_batch_of_a_restless_block_stands_out_and_the_next_is_no_change(seed):
    """Hours of wind, restless from day to day; one cell is a hundred times too high."""
    rng = np.random.default_rng(seed)
    days = [
        rng.normal(10.0 + rng.normal(0.0, 4.0), 4.0 * np.exp(rng.normal(0.0, 0.4)), 24)
        for _ in range(100)
    ]
    days[60][3] = 1048.0
    run = sb.run(sb.StreamLearner(sb.models.Gaussian("wind")), [{"wind": day} for day in days])
    assert {(event.kind, event.first) for event in run.drift} <= {("outlier", 60)}
    assert run.drift.unusual(1)[0].number == 60
    assert "standard deviation of wind" in str(run.drift)


def test_a_jump_in_the_third_batch_stands_out():
    rng = np.random.default_rng(0)
    batches = [{"x": rng.normal(17.0 * (number == 2), 8.0, 5000)} for number in range(3)]
    (event,) = sb.run(sb.StreamLearner(sb.models.Gaussian("x")), batches).drift
    assert (event.kind, event.first) == ("provisional", 2)


def test_a_change_that_is_undone_within_two_batches_was_none():
    rng = np.random.default_rng(1)
    levels = [0.0] * 20 + [6.0] * 2 + [0.0] * 20
    batches = [{"x": rng.normal(level, 1.0, 100)} for level in levels]
    drift = sb.run(sb.StreamLearner(sb.models.Gaussian("x")), batches).drift
    (event,) = drift
    assert (event.kind, event.first, event.last) == ("outlier", 20, 21)
    assert event.sentence.startswith(
        "Batches 20 to 21 were unusual, and the next was not: mean of x"
    )


@pytest.mark.parametrize("rows", [1, 2, 3])
def test_small_batches_far_from_the_first_have_spreads_of_their_own(rows):
    rng = np.random.default_rng(2)
    batches = [
        {"x": rng.normal(50.0 * (number > 0), 1.0, rows if number else 40)} for number in range(40)
    ]
    run = sb.run(sb.StreamLearner(sb.models.Gaussian("x")), batches)
    spreads = [record.alone["x"].get("standard deviation of x") for record in run.records[1:]]
    assert all(spread is None for spread in spreads) if rows == 1 else np.median(spreads) < 3.0
    means = [record.alone["x"]["mean of x"] for record in run.records[1:]]
    np.testing.assert_allclose(means, [batch["x"].mean() for batch in batches[1:]], atol=1e-3)


def test_rows_one_by_one_are_watched():
    rng = np.random.default_rng(3)
    stream = [{"x": rng.normal(10.0 * (number >= 150), 1.0, 1)} for number in range(300)]
    drift = sb.run(sb.StreamLearner(sb.models.Gaussian("x")), stream).drift
    (event,) = drift
    assert event.kind == "abrupt"
    assert 149 <= event.first <= 152
    assert abs(event.changes[0].difference - 10.0) < 3.0


def test_a_constant_that_becomes_another_is_new():
    rng = np.random.default_rng(4)
    values = [5.0] * 10 + [7.0] * 10
    batches = [{"x": np.full(20, value), "y": rng.normal(size=20)} for value in values]
    drift = sb.run(sb.StreamLearner(sb.models.Gaussian(["x", "y"])), batches).drift
    assert [(event.block, event.kind, event.first) for event in drift] == [("x", "new", 10)]


def test_size_decides_what_is_told():
    batches = list(gaussian(lambda number: 100.0 + 1.0 * (number >= 20), size=200))
    run = sb.run(sb.StreamLearner(sb.models.Gaussian(["a", "b"])), batches, progress=False)
    (event,) = run.drift
    assert event.first == 20
    for setting in (2.0, {"a": 2.0}, {"mean of a": 2.0}):
        drift = sb.find_drift(run, min_change=setting)
        assert len(drift) == 0
        assert [event.first for event in drift.events] == [20]  # still true
        assert drift.table().rows[0]["told"] == "no"
    assert len(sb.find_drift(run, min_change={"b": 2.0})) == 1
    with pytest.raises(ValueError, match="min_change: there is no parameter or column 'aa'"):
        sb.find_drift(run, min_change={"aa": 2.0})


def test_the_rate_of_false_alarms_matters_from_end_to_end():
    batches = list(gaussian(lambda number: 0.45 * (number >= 20)))
    run = sb.run(sb.StreamLearner(sb.models.Gaussian(["a", "b"])), batches, progress=False)
    found = [
        len(sb.find_drift(run, false_alarms=rate, min_change=0.0).events)
        for rate in (1e-12, 1e-6, 1e-2, 0.5)
    ]
    assert found == sorted(found)
    assert found[0] == 0 < found[-1]


def test_seasons_are_not_changes_and_returns_are_told_once():
    rng = np.random.default_rng(3)
    season = [0.0] * 9 + [8.0] * 3
    batches = [{"x": rng.normal(season[number % 12], 1.0, 100)} for number in range(96)]
    run = sb.run(sb.StreamLearner(sb.models.Gaussian("x")), batches, progress=False)
    with_season = sb.find_drift(run, seasonal=12)
    assert all(event.first < 24 for event in with_season)
    without = run.drift
    said = [event for event in without if event.period is not None]
    assert len(said) in (1, 2)  # up and down
    assert all(event.period == 12 for event in said)
    assert all(event.first <= 60 for event in without)
    assert without.count("kind")["seasonal"] == 0


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
        "Nothing beyond the usual fluctuation in 3 batches."
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
    assert event.is_told
    assert event.sentence.startswith(
        "Batch 20: x, y changed, which no parameter shows clearly; most of all "
    )


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
    assert (event.block, event.kind, event.first) == ("a", "abrupt", 20)
    assert event.changes[0].parameter == "mean of a"
    assert event.changes[0].difference == pytest.approx(3.0, abs=0.5)


def test_numbers_in_sentences():
    falling = events_of(gaussian(lambda number: -10.0 - 2.0 * (number >= 20)))[0].sentence
    assert falling.startswith("Batch 20: mean of a changed at once, -10.0")
    assert " %" not in falling  # no share of a negative number
    said = float(re.search(r"\(([-+][0-9.]+);", falling)[1])
    assert said == pytest.approx(-2.0, abs=0.4)  # the mean of 60 rows: three of its standard errors
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


@pytest.mark.parametrize("transform", ["", "log"])
def test_what_grows_by_a_factor_has_a_trend(transform, tmp_path):
    rng = np.random.default_rng(0)
    batches = [{"x": np.exp(rng.normal(0.2 * number, 0.1, 50))} for number in range(40)]
    learner = sb.StreamLearner(sb.models.Gaussian("x", transform or ()))
    run = sb.run(learner, batches, prequential=False, progress=False)
    what = "median" if transform else "mean"
    assert f"Over all batches: {what} of x rises, " in str(run.drift)
    assert run.report(tmp_path / "report.html").exists()
