"""Many streams at once: what a loop over the streams gives."""

import dataclasses

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes.learning import _many
from tests.tables import MODELS


def numbers(state):
    """All but the watch, which many streams leave out; test_watch.py has it."""
    plain = dataclasses.replace(state, watch=None)
    return [np.asarray(leaf) for leaf in jax.tree.leaves(plain)]


def assert_same(mine, theirs, rtol=1e-9):
    for one, other in zip(numbers(mine), numbers(theirs), strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(one, other, rtol=rtol, atol=1e-10)


def in_a_loop(learner, firsts, steps):
    """States and infos of every stream, one after the other."""
    states = {name: learner.init(batch) for name, batch in firsts.items()}
    infos = []
    for batches in steps:
        infos.append({})
        for name, batch in batches.items():
            states[name], infos[-1][name] = learner.step(states[name], batch)
    return states, infos


def streams(draw, seed=0):
    """Three streams of their own sizes; the second is silent in the second step."""
    rng = np.random.default_rng(seed)
    firsts = {name: draw(rng, size) for name, size in (("a", 30), ("b", 18), (7, 32))}
    second = {"a": draw(rng, 19), 7: draw(rng, 31)}
    return firsts, [firsts, second, {name: draw(rng, 20) for name in firsts}]


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("counts", sb.PVB(50, 0.5, minibatch_size=10)),
        ("gaussian with gaps", sb.MHPP()),
        ("regression", sb.PowerPrior(0.8)),
        ("mixture", sb.HPP()),
        ("mixture", sb.Auto()),
    ],
)
def test_as_in_a_loop(name, policy):
    model, draw = MODELS[name]
    learner = sb.StreamLearner(model, policy, tolerance=1e-9, max_sweeps=8)
    firsts, steps = streams(draw)
    together = sb.many(learner)
    states = together.init(firsts)
    wanted, infos = in_a_loop(learner, firsts, steps)
    for batches, apart in zip(steps, infos, strict=True):
        states, info = together.step(states, batches)
        assert list(info) == list(apart)
        for stream, other in apart.items():
            mine = info[stream]
            if policy.maximises_bound:
                assert mine.bound == pytest.approx(other.bound, rel=1e-9)
            assert mine.retained == pytest.approx(other.retained, rel=1e-6, abs=1e-8)
            assert (mine.num_rows, mine.outcome, mine.events) == (
                other.num_rows,
                other.outcome,
                other.events,
            )
    assert list(states) == list(wanted)
    for stream, state in wanted.items():
        assert_same(states[stream], state, rtol=1e-6)


@pytest.fixture(scope="module")
def learner():
    return sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())


def table_of(rng, sizes, names="stream"):
    streams = np.repeat(list(sizes), list(sizes.values()))
    return {names: streams, "x": rng.normal(3, 2, len(streams)), "y": rng.normal(size=len(streams))}


@pytest.mark.parametrize("mixed", [False, True])
def test_one_table_for_all(learner, mixed):
    rng = np.random.default_rng(0)
    table = table_of(rng, {"a": 30, "b": 17, "c": 60})
    if mixed:
        order = rng.permutation(len(table["x"]))
        table = {name: values[order] for name, values in table.items()}
    apart = {
        name: {column: table[column][table["stream"] == name] for column in "xy"} for name in "abc"
    }
    together = sb.many(learner)
    states, info = together.step(together.init(table, by="stream"), table, by="stream")
    wanted, _ = together.step(together.init(apart), apart)
    assert set(info) == set(apart)
    for name in apart:
        assert_same(states[name], wanted[name])


def test_units_come_late_and_rows_lack_cells(learner):
    rng = np.random.default_rng(1)
    firsts = {
        "constant": {"x": np.full(9, 4.0), "y": rng.normal(size=9)},
        "missing": {"x": [1.0, np.nan, 3.0], "y": [np.nan, 2.0, 3.0]},
        "empty": {"x": [], "y": []},
        "plain": {"x": rng.normal(size=40), "y": rng.normal(size=40)},
    }
    second = {name: {"x": rng.normal(size=20), "y": rng.normal(size=20)} for name in firsts}
    together = sb.many(learner)
    states = together.init(firsts)
    wanted, infos = in_a_loop(learner, firsts, [firsts, second])
    states, first = together.step(states, firsts)
    assert set(first) == {"constant", "missing", "plain"}
    states, info = together.step(states, second)
    assert {name for name in info if info[name].events} == {"constant", "empty"}
    for name, other in infos[1].items():
        assert info[name].events == other.events
        assert_same(states[name], wanted[name])


def test_times(learner):
    rng = np.random.default_rng(2)
    draw = lambda: {"x": rng.normal(size=20), "y": rng.normal(size=20)}  # noqa: E731
    batches = {"a": sb.StreamBatch(draw(), time=1.0), "b": sb.StreamBatch(draw(), time=5.0)}
    together = sb.many(learner)
    states, _ = together.step(together.init(batches), batches)
    silent = {"a": {"x": [], "y": []}, "b": draw()}
    states, info = together.step(states, silent, time=7.0)
    assert list(info) == ["b"]
    assert [float(states[name].pending) for name in "ab"] == [6.0, 0.0]
    assert [float(states[name].last_time) for name in "ab"] == [7.0, 7.0]
    before = states
    with pytest.raises(ValueError, match="stream 'a': time must not go back: this batch has 6"):
        together.step(states, {"a": draw()}, time=6.0)
    assert before is states


def test_what_cannot_be_learned_leaves_its_stream_alone():
    learner = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVB(), scale=False)
    together = sb.many(learner)
    first = {"a": {"x": [1.0, 2.0]}, "b": {"x": [3.0, 4.0]}}
    states, _ = together.step(together.init(first), first)
    after, info = together.step(states, {**first, "a": {"x": [1e200, 0.0]}}, time=3.0)
    assert info.failed == {"a": sb.Outcome.NOT_FINITE}
    assert info["a"].rho is None
    assert info["a"].retained == states["a"].retained
    assert info["b"].outcome == sb.Outcome.CONVERGED
    assert "1 failed" in repr(info)
    assert_same(after["a"], states["a"])
    assert float(after["b"].last_time) == 3.0
    alone, _ = learner.step(states["a"], first["a"])
    again, _ = together.step(after, first)
    assert_same(again["a"], alone)


def test_streams_come_and_go(learner, tmp_path):
    rng = np.random.default_rng(3)
    together = sb.many(learner)
    table = table_of(rng, {1: 20, 2: 20, 3: 20})
    states, _ = together.step(together.init(table, by="stream"), table, by="stream")
    sb.save(states[2], tmp_path / "two.sbz")
    fewer = states.dropped([2, 3])
    assert (list(fewer), list(states)) == ([1], [1, 2, 3])
    batch = {"x": rng.normal(size=20), "y": rng.normal(size=20)}
    more = fewer.added({2: sb.load(tmp_path / "two.sbz"), "new": learner.init(batch)})
    assert list(more) == [1, 2, "new"]
    assert_same(fewer.added({1: states[3]})[1], states[3])
    with pytest.raises(ValueError, match="another model or policy than the others"):
        fewer.added({9: sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB()).init(batch)})
    next_states, _ = together.step(more, {2: batch, "new": batch})
    alone, _ = learner.step(states[2], batch)
    assert_same(next_states[2], alone)
    assert_same(next_states[1], states[1])


@pytest.mark.parametrize("name", ["gaussian with gaps", "mixture"])
def test_states_may_stay_on_a_device(monkeypatch, name):
    model, draw = MODELS[name]
    learner = sb.StreamLearner(model, sb.HPP(), max_sweeps=8)
    firsts, steps = streams(draw)
    steps.insert(1, {"b": draw(np.random.default_rng(9), 40)})
    found = []
    for stays in (False, True):
        monkeypatch.setattr(_many, "_on_device", lambda stays=stays: stays)
        together = sb.many(learner, watch=True)
        states = together.init(firsts)
        infos = []
        for batches in steps:
            states, info = together.step(states, batches)
            infos.append(info)
        held = [leaf for leaf in jax.tree.leaves(states.held) if isinstance(leaf, jax.Array)]
        assert bool(held) == stays
        assert all(isinstance(leaf, np.ndarray) for leaf in jax.tree.leaves(states.stacked))
        found.append((states, infos))
    (wanted, apart), (states, infos) = found
    for mine, theirs in zip(infos, apart, strict=True):
        assert list(mine) == list(theirs)
        for stream, other in theirs.items():
            assert mine[stream].bound == pytest.approx(other.bound, rel=1e-9)
            assert (mine[stream].num_rows, mine[stream].events) == (other.num_rows, other.events)
    for stream, state in wanted.items():
        assert_same(states[stream], state, rtol=1e-6)
        assert states[stream].watch is not None


def test_what_fails_on_a_device_leaves_its_stream_alone(monkeypatch):
    monkeypatch.setattr(_many, "_on_device", lambda: True)
    test_what_cannot_be_learned_leaves_its_stream_alone()


class TestRefusals:
    def test_not_a_learner(self):
        with pytest.raises(TypeError, match="many: a StreamLearner is needed, got HPP"):
            sb.many(sb.HPP())

    @pytest.mark.parametrize("batches", [{"x": [1.0], "y": [2.0]}, [1.0], {"a": 3}])
    def test_not_batches_by_name(self, learner, batches):
        with pytest.raises(TypeError, match="give a mapping from streams to batches"):
            sb.many(learner).init(batches)

    def test_a_value_that_does_not_fit(self, learner):
        batches = {"a": {"x": [1.0], "y": [2.0]}, "b": {"x": ["one"], "y": [2.0]}}
        with pytest.raises(ValueError, match="column 'x'") as caught:
            sb.many(learner).init(batches)
        assert caught.value.__notes__ == ["in the batch of stream 'b'"]

    def test_a_stream_that_is_not_there(self, learner):
        batches = {"a": {"x": [1.0, 2.0], "y": [2.0, 3.0]}}
        states = sb.many(learner).init(batches)
        with pytest.raises(
            ValueError, match=r"there is no stream 'b'; add it first, states\.added"
        ):
            sb.many(learner).step(states, {"b": batches["a"]})
        with pytest.raises(KeyError, match="there is no stream 'b' among the 1"):
            states["b"]
        with pytest.raises(KeyError, match=r"no stream 'A' among the 1 \(did you mean 'a'\?\)"):
            states["A"]
        with pytest.raises(ValueError, match="at least one stream must stay"):
            states.dropped(["a"])

    def test_a_column_that_is_not_there(self, learner):
        with pytest.raises(ValueError, match=r"no column 'sensor'; the table has \['x', 'y'\]"):
            sb.many(learner).init({"x": [1.0], "y": [1.0]}, by="sensor")

    @pytest.mark.parametrize("names", [["a", None], [1.0, np.nan]])
    def test_a_name_that_is_missing(self, learner, names):
        table = {"stream": names, "x": [1.0, 2.0], "y": [1.0, 2.0]}
        with pytest.raises(
            ValueError, match="column 'stream', row 1: the name of the stream is miss"
        ):
            sb.many(learner).init(table, by="stream")

    def test_what_is_no_state(self, learner):
        states = sb.many(learner).init({"a": {"x": [1.0, 2.0], "y": [2.0, 3.0]}})
        with pytest.raises(TypeError, match="the state of 'b' must be one from init, got None"):
            states.added({"b": None})
        with pytest.raises(ValueError, match="dropped: there is no stream 'bc' among the 1"):
            states.dropped("bc")

    def test_nothing(self, learner):
        with pytest.raises(ValueError, match="at least one stream is needed"):
            sb.many(learner).init({})

    def test_states_of_another_learner(self, learner):
        batches = {"a": {"x": [1.0, 2.0], "y": [2.0, 3.0]}}
        states = sb.many(learner).init(batches)
        other = sb.many(sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.MHPP()))
        with pytest.raises(ValueError, match="the state belongs to Gaussian with HPP"):
            other.step(states, batches)
        with pytest.raises(TypeError, match="expected states from init, got LearnerState"):
            other.step(states["a"], batches)


@pytest.mark.parametrize("restarts", [1, 2])
def test_categories_of_a_fleet_with_an_empty_stream(restarts):
    net = sb.Network()
    k = net.categorical("k", [1, 0])
    z = net.categorical("z", 2, parents=[k], latent=True)
    net.normal("x", parents=[z])
    learner = sb.StreamLearner(net, sb.SVB(), num_restarts=restarts)
    rng = np.random.default_rng(0)
    batch = {"k": (rng.random(60) < 0.2).astype(int), "x": rng.normal(size=60)}
    nothing = {"k": np.zeros(0, int), "x": np.zeros(0)}
    found = sb.many(learner).init({"some": batch, "none": nothing})["some"]
    for mine, theirs in zip(numbers(found), numbers(learner.init(batch)), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, equal_nan=True)


def test_float32_as_the_loop_has_it():
    rng = np.random.default_rng(0)
    learner = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVB())
    batches = {n: {"x": rng.normal(50.0, 1.0, 40).astype(np.float32)} for n in range(3)}
    fleet = sb.many(learner)
    states, info = fleet.step(fleet.init(batches), batches)
    for name, batch in batches.items():
        state, alone = learner.step(learner.init(batch), batch)
        assert info[name].bound == pytest.approx(alone.bound, rel=1e-13)
        assert states[name].retained == state.retained


def test_names_stay_what_they_are():
    learner = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVB())
    fleet = sb.many(learner)
    rows = {"k": [1, "a", 1, (2, 3)], "x": [1.0, 2.0, 4.0, 5.0]}
    assert list(fleet.init(rows, by="k")) == [1, "a", (2, 3)]
    masked = np.ma.masked_array([1, 2, 3], [False, True, False])
    with pytest.raises(ValueError, match="row 1: the name of the stream is missing"):
        fleet.init({"k": masked, "x": [1.0, 2.0, 3.0]}, by="k")
    with pytest.raises(ValueError, match="names the streams and is one that the model reads"):
        fleet.init({"x": [1.0, 2.0]}, by="x")
    with pytest.raises(TypeError, match="seed must be a whole number, got 'x'"):
        fleet.init({"a": {"x": [1.0]}}, seed="x")


def test_states_of_many_streams_are_not_one():
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y", "z"]), sb.SVB())
    rows = {name: [1.0, 2.0] for name in "xyz"}
    stacked = sb.many(learner).init({"a": rows, "b": rows}).stacked
    for use in (
        lambda: stacked.posterior,
        lambda: stacked.retained,
        stacked.summary,
        lambda: learner.step(stacked, rows),
    ):
        with pytest.raises(ValueError, match=r"many streams: take one out, states\['its name'\]"):
            use()
