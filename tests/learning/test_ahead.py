"""Batches of a run that are learned several at a time: as if each had been a step."""

import jax
import numpy as np
import pytest

import streambayes as sb
from tests.tables import POLICIES

MODEL = sb.models.LinearRegression("y", ["a", "b"], "conjugate")
SMALL = sb.models.Gaussian("y")  # compiles in less time


def stream(sizes, seed=0, model_columns=("a", "b")):
    rng = np.random.default_rng(seed)
    for number, size in enumerate(sizes):
        rows = {name: rng.normal(size=size) for name in model_columns}
        rows["y"] = rng.normal(rows["a"] * (1.0 if number < 20 else -1.0), 0.5)
        yield rows


def stepped(learner, batches):
    """Every batch by a step of its own."""
    state, infos = learner.init(batches[0]), []
    for batch in batches:
        state, info = learner.step(state, batch)
        infos.append(info)
    return state, infos


def assert_same(run, state, infos, sweeps_apart=0):
    assert run.state.num_batches == state.num_batches
    assert run.state.rows_seen == state.rows_seen
    assert type(run.state.rows_seen) is type(state.rows_seen)
    for mine, theirs in zip(
        jax.tree.leaves(run.state.posterior), jax.tree.leaves(state.posterior), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    assert len(run.records) == len(infos)
    for record, info in zip(run.records, infos, strict=True):
        assert record.num_rows == info.num_rows
        assert record.outcome == info.outcome.name.lower()
        assert abs(record.num_sweeps - info.num_sweeps) <= sweeps_apart
        assert record.num_rounds == info.num_rounds
        if info.bound is not None:
            assert record.bound == pytest.approx(info.bound, rel=1e-9)
        assert record.retained == pytest.approx(info.retained, rel=1e-9)
        assert record.seconds > 0.0


FEW_SIZES = [40, 33, 60, 100, 0, *[50] * 40]  # two programs, one of them full and started again
ALL_SIZES = [40, 33, 60, 64, 65, 100, 0, 30, *[50] * 40, 3000, 50, 0, 20_000, 50]


@pytest.mark.parametrize(
    ("policy", "model", "sizes"),
    [
        *((policy, SMALL, FEW_SIZES) for policy in POLICIES),
        (sb.SVB(), MODEL, ALL_SIZES),  # sizes are the same to all policies
    ],
    ids=lambda value: getattr(value, "name", None) or type(value).__name__,
)
def test_a_run_ahead_is_its_steps(policy, model, sizes):
    learner = sb.StreamLearner(model, policy)
    batches = list(stream(sizes))
    run = sb.run(learner, batches, prequential=False)
    assert_same(run, *stepped(learner, batches))
    assert run.records[0].rho is None
    assert [record.index for record in run.records] == list(range(len(sizes)))


def test_gaps_and_narrow_numbers():
    batches = list(stream([50] * 30))
    batches[7]["y"][3] = np.nan
    batches[8]["a"] = batches[8]["a"].astype(np.float32)
    for name in ("a", "b", "y"):
        batches[9][name] = batches[9][name].astype(np.float32)
    learner = sb.StreamLearner(MODEL, sb.HPP())
    assert_same(sb.run(learner, batches, prequential=False), *stepped(learner, batches))


@pytest.mark.parametrize("coefficients", ["joint", "independent"])
def test_coupled_blocks(coefficients):
    learner = sb.StreamLearner(sb.models.LinearRegression("y", ["a", "b"], coefficients), sb.MHPP())
    batches = list(stream([50] * 25))
    run = sb.run(learner, batches, prequential=False)
    # rounding differs between two programs, and decides where a sweep gains just the tolerance
    assert_same(run, *stepped(learner, batches), sweeps_apart=1)


def test_times_reach_the_policy_and_the_state():
    table = dict(next(stream([300])), t=np.arange(300.0) ** 1.5)
    batches = sb.batches(table, rows=10, time="t")
    learner = sb.StreamLearner(MODEL, sb.HPP())
    run = sb.run(learner, batches, prequential=False)
    assert [record.time for record in run.records] == [batch.time for batch in batches]
    assert run.state.last_time == table["t"][-1]
    mixed = [*list(batches)[:20], next(iter(batches))]
    with pytest.raises(ValueError, match="time must not go back") as caught:
        sb.run(learner, mixed, prequential=False)
    assert "in batch 20 of the stream" in caught.value.__notes__


def test_going_on_is_the_same_to_the_last_bit():
    learner = sb.StreamLearner(MODEL, sb.MHPP())
    batches = list(stream([50] * 50))
    whole = sb.run(learner, batches, prequential=False)
    for cut in (1, 7, 32, 45):
        first = sb.run(learner, batches[:cut], prequential=False)
        second = sb.run(learner, batches[cut:], prequential=False, state=first.state)
        for mine, theirs in zip(
            jax.tree.leaves(second.state), jax.tree.leaves(whole.state), strict=True
        ):
            assert np.array_equal(mine, theirs, equal_nan=True)
        assert [r.bound for r in second.records] == [r.bound for r in whole.records[cut:]]


def test_one_program_whatever_the_number(monkeypatch):
    model = sb.models.Gaussian(["seen", "nowhere else"])
    learner = sb.StreamLearner(model, sb.HPP())
    traced, learned = [], learner._stepper.learned
    monkeypatch.setattr(
        learner._stepper, "learned", lambda *args: traced.append(1) or learned(*args)
    )
    rng = np.random.default_rng(0)
    counts = []
    for count in (1, 5, 32, 33, 70):
        sb.run(learner, list(rng.normal(size=(count, 50, 2))), prequential=False)
        counts.append(len(traced))
    assert counts[0] > 0
    assert set(counts) == {counts[0]}
    assert learner._stepper.learn.num_held == 0


def failing():
    """A value comes whose square is no number."""
    learner = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVB())
    batches = [{"x": [1e-80, 2e-80]} for _ in range(40)]
    return learner, [*batches[:17], {"x": [1e85]}, *batches[17:]]


def test_a_batch_that_fails_is_named_and_earlier_records_stay(tmp_path):
    learner, batches = failing()
    with pytest.raises(sb.StepError) as expected:
        stepped(learner, batches)
    with pytest.raises(sb.StepError) as caught:
        sb.run(learner, batches, prequential=False, record=tmp_path)
    assert caught.value.outcome == expected.value.outcome
    records = list(sb.read_records(tmp_path))
    assert 10 < len(records) < 40
    assert caught.value.__notes__ == [f"in batch {len(records)} of the stream"]
    _, infos = stepped(learner, batches[:5])  # later bounds hang on the last digits
    bounds = [record.bound for record in records[:5]]
    assert bounds == pytest.approx([info.bound for info in infos], rel=1e-9)


def test_a_bad_batch_is_named_and_earlier_records_stay(tmp_path):
    batches = list(stream([50] * 10))
    batches[7]["y"][3] = np.inf
    with pytest.raises(ValueError, match="column 'y', row 3") as caught:
        sb.run(sb.StreamLearner(MODEL, sb.SVB()), batches, prequential=False, record=tmp_path)
    assert caught.value.__notes__ == ["in batch 7 of the stream"]
    assert len(list(sb.read_records(tmp_path))) == 7


def test_what_cannot_be_read_again_is_not_read_ahead(tmp_path):
    seen = []

    def watched():
        for batch in stream([50] * 8):
            seen.append(len(list(sb.read_records(tmp_path))) if list(tmp_path.iterdir()) else 0)
            yield batch

    learner = sb.StreamLearner(MODEL, sb.SVB())
    sb.run(learner, watched(), prequential=False, record=tmp_path)
    assert seen == list(range(8))


def test_a_batch_in_pieces_among_others():
    batches = list(stream([50] * 10))
    mixed = [*batches[:4], sb.batches(batches[4], rows=20), *batches[5:]]
    learner = sb.StreamLearner(MODEL, sb.PowerPrior(0.9))
    run = sb.run(learner, mixed, prequential=False)
    assert_same(run, *stepped(learner, batches))
    assert [record.index for record in run.records] == list(range(10))


@pytest.mark.parametrize(
    "other",
    [
        sb.StreamLearner(MODEL, sb.PowerPrior(0.5)),
        sb.StreamLearner(MODEL, sb.SVI(100)),
        sb.StreamLearner(sb.models.Gaussian(["a", "b", "y"]), sb.PowerPrior(0.9)),
    ],
    ids=["policy of other numbers", "policy", "model"],
)
def test_the_state_of_another_learner_is_refused(other):
    batches = list(stream([50] * 4))
    state = sb.run(other, batches, prequential=False).state
    learner = sb.StreamLearner(MODEL, sb.PowerPrior(0.9))
    with pytest.raises(ValueError, match="the state belongs to") as caught:
        sb.run(learner, batches, prequential=False, state=state)
    assert caught.value.__notes__ == ["in batch 4 of the stream"]


def test_an_interruption_leaves_no_holes(tmp_path, monkeypatch):
    learner = sb.StreamLearner(MODEL, sb.SVB())
    batches = list(stream([50] * 150))
    read = learner._stepper.read_facts
    calls = []

    def interrupted(flat):
        calls.append(1)
        if len(calls) == 40:
            raise KeyboardInterrupt
        return read(flat)

    monkeypatch.setattr(learner._stepper, "read_facts", interrupted)
    with pytest.raises(KeyboardInterrupt):
        sb.run(learner, batches, prequential=False, record=tmp_path)
    assert [record.index for record in sb.read_records(tmp_path)] == list(range(39))


def test_an_empty_batch_that_cannot_be_learned_comes_after_those_before_it(tmp_path):
    learner, batches = failing()
    timed = [sb.StreamBatch(batch, time=float(t)) for t, batch in enumerate(batches)]
    late = sb.StreamBatch({"x": []}, time=0.5)
    with pytest.raises(ValueError, match="time must not go back"):
        sb.run(learner, [*timed[:9], late], prequential=False, record=tmp_path / "late")
    assert len(list(sb.read_records(tmp_path / "late"))) == 9
    with pytest.raises(sb.StepError):  # that of a batch before it
        sb.run(learner, [*timed[:30], late], prequential=False, record=tmp_path / "bad")
    with pytest.raises(sb.StepError):
        sb.run(learner, timed, prequential=False, record=tmp_path / "plain")
    assert len(list(sb.read_records(tmp_path / "bad"))) == len(
        list(sb.read_records(tmp_path / "plain"))
    )


def test_several_policies_go_ahead_side_by_side():
    batches = list(stream([50] * 40))
    policies = [sb.SVB(), sb.HPP()]
    compared = sb.compare(MODEL, batches, policies, test_fraction=0.0, prequential=False)
    for policy in policies:
        learner = sb.StreamLearner(MODEL, policy)
        assert_same(compared.runs[policy.name], *stepped(learner, batches))


def test_units_that_come_late_and_a_stream_that_starts_empty():
    batches = list(stream([0, 50, 50, *[50] * 10]))
    batches[1]["a"][:] = 2.0
    batches[2]["a"][:] = 2.0
    learner = sb.StreamLearner(MODEL, sb.HPP())
    run = sb.run(learner, batches, prequential=False)
    assert_same(run, *stepped(learner, batches))
    assert run.records[3].events
