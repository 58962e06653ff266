"""Laws of the learner: purity, units, time, compilation, bad input."""

import warnings

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambayes as sb
from streambayes._core.pytree import definition
from streambayes.families import TruncatedExponential, TruncatedNormal
from streambayes.forgetting import AbstractSinglePrior
from streambayes.learning._compiled import stepper
from tests.tables import MODELS

PAIR = sb.models.Gaussian(["x", "y"])
COIN = sb.models.BetaBinomial("x")


def pair(seed=0, num_rows=20, shift=0.0):
    rng = np.random.default_rng(seed)
    return {"x": rng.normal(5.0 + shift, 2.0, num_rows), "y": rng.normal(size=num_rows)}


def leaves(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state)]


def same(one, other):
    return all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in zip(leaves(one), leaves(other), strict=True)
    )


@pytest.fixture
def learner():
    return sb.StreamLearner(PAIR, sb.HPP())


def test_a_step_changes_no_state(learner):
    state = learner.init(pair())
    before = leaves(state)
    first = learner.step(state, pair(1))
    second = learner.step(state, pair(1))
    assert all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(before, leaves(state), strict=True)
    )
    assert same(first[0], second[0])
    assert first[1] == second[1]


@pytest.mark.parametrize("name", MODELS)
def test_states_of_every_model_are_values(name):
    """A step leaves its state alone, does the same twice, and changes no shape, type or structure."""
    model, draw = MODELS[name]
    rng = np.random.default_rng(0)
    first, second = draw(rng, 25), draw(rng, 25)
    learner = sb.StreamLearner(model, sb.HPP())
    state, _ = learner.step(learner.init(first), first)
    before = leaves(state)
    after, info = learner.step(state, second)
    again, other = learner.step(state, second)
    assert all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(before, leaves(state), strict=True)
    )
    assert same(after, again)
    assert info == other
    for one in (learner.init(first), state):
        assert jax.tree.structure(after) == jax.tree.structure(one)
        assert [(leaf.shape, leaf.dtype) for leaf in leaves(after)] == [
            (leaf.shape, leaf.dtype) for leaf in leaves(one)
        ]


def test_all_forms_of_a_batch_are_equal(learner):
    columns = pair()
    array = np.column_stack([columns["x"], columns["y"]])
    forms = [
        columns,
        {"y": columns["y"].tolist(), "x": columns["x"].tolist()},
        array,
        pd.DataFrame(columns),
        pl.DataFrame(columns),
        pa.table(columns),
        sb.StreamBatch(columns=columns),
        {"other": np.zeros(3), **columns},
        {"x": jax.numpy.asarray(columns["x"].astype(np.float32)), "y": columns["y"]},
    ]
    expected = learner.init(columns)
    for form in forms[:-1]:
        assert same(learner.init(form), expected)
        assert same(learner.step(expected, form)[0], learner.step(expected, columns)[0])
    rounded = learner.step(expected, forms[-1])[1].bound
    assert rounded == pytest.approx(learner.step(expected, columns)[1].bound, rel=1e-5)


def test_all_forms_of_a_missing_cell_are_equal(learner):
    """NaN, None, a mask and a frame's null; what lies under a mask does not matter."""
    columns = pair()
    columns["x"][3] = np.nan
    values = [None if np.isnan(value) else value for value in columns["x"].tolist()]
    hidden = np.where(np.isnan(columns["x"]), np.inf, columns["x"])
    forms = [
        {**columns, "x": values},
        {**columns, "x": np.array(values, dtype=object)},
        {**columns, "x": np.ma.masked_invalid(hidden)},
        pd.DataFrame(columns),
        pd.DataFrame({**columns, "x": pd.array(values, dtype="Float64")}),
        pl.DataFrame(columns),
        pl.DataFrame({**columns, "x": values}),
        pa.table({**columns, "x": pa.array(values)}),
    ]
    expected = learner.init(columns)
    for form in forms:
        assert same(learner.init(form), expected)
        assert same(learner.step(expected, form)[0], learner.step(expected, columns)[0])


def test_a_missing_cell_of_a_column_without_descendants_is_left_out():
    """The column that lacks it learns from the other rows; its neighbour from all of them."""
    columns = pair()
    columns["x"][3] = np.nan
    known = {"x": np.delete(columns["x"], 3)}
    scale = {"x": (5.0, 2.0), "y": (0.0, 1.0)}
    both = sb.StreamLearner(PAIR, sb.SVB(), scale=scale)
    state, info = both.step(both.init(columns), columns)
    assert state.retained == {"x": 19.0, "y": 20.0}
    total = 0.0
    for name, rows in (("x", known), ("y", columns)):
        alone = sb.StreamLearner(sb.models.Gaussian(name), sb.SVB(), scale={name: scale[name]})
        after, other = alone.step(alone.init(rows), rows)
        total += other.bound
        for what in ("mean of", "standard deviation of"):
            mine, theirs = (s.summary()[f"{what} {name}"] for s in (state, after))
            assert (mine.mean, mine.sd) == pytest.approx((theirs.mean, theirs.sd), rel=1e-12)
    assert info.bound == pytest.approx(total, rel=1e-12)


def test_one_row_is_a_batch():
    for policy in (sb.SVB(), sb.HPP(), sb.MHPP(), sb.PVB(10, 0.1)):
        learner = sb.StreamLearner(PAIR, policy)
        state = learner.init(pair())
        for batch in (pair(1, num_rows=1), pair(2, num_rows=1)):
            state, info = learner.step(state, batch)
            assert info.num_rows == 1
        assert all(np.isfinite(row.mean) for row in state.summary().rows)


@pytest.mark.parametrize(
    "policy", [sb.SVB(), sb.PowerPrior(0.5), sb.Fading(0.5), sb.HPP(), sb.PVB(9, 0.5)]
)
def test_an_empty_batch_waits(policy):
    learner = sb.StreamLearner(PAIR, policy)
    state, _ = learner.step(learner.init(pair()), pair(), time=10.0)
    waiting, info = learner.step(state, {"x": [], "y": []}, time=14.0)
    assert info.outcome is sb.Outcome.EMPTY
    assert (info.num_rows, info.bound, info.rho) == (0, None, None)
    assert info.retained == pytest.approx(state.retained)
    assert same(waiting.memory, state.memory)
    assert waiting.num_batches == state.num_batches
    after, _ = learner.step(waiting, pair(1), time=15.0)
    straight, _ = learner.step(state, pair(1), time=15.0)
    assert same(after, straight)


def test_time_of_empty_batches_reaches_the_policy():
    seen = []

    @definition
    class Watching(AbstractSinglePrior):
        name = "watching"

        def open(self, memory, prior, clock):
            jax.debug.callback(
                lambda *values: seen.append([float(v) for v in values]),
                clock.rows,
                clock.rows_seen,
                clock.elapsed,
            )
            return sb.SVB().open(memory, prior, clock)

    learner = sb.StreamLearner(COIN, Watching())
    state = learner.init({"x": [0, 1]})
    state, _ = learner.step(state, {"x": [0, 1]}, time=100.0)
    state, _ = learner.step(state, {"x": []}, time=107.0)
    state, _ = learner.step(state, {"x": [1]}, time=110.0)
    state, _ = learner.step(state, {"x": [1, 1, 0]}, time=110.5)
    jax.effects_barrier()
    assert seen == [[2.0, 0.0, 0.0], [1.0, 2.0, 10.0], [3.0, 3.0, 0.5]]


def test_time_does_not_go_back(learner):
    state, _ = learner.step(learner.init(pair()), pair(), time=10.0)
    with pytest.raises(
        ValueError, match=r"time must not go back: this batch has 9\.0, the last one 10\.0"
    ):
        learner.step(state, pair(), time=9.0)


def test_time_is_a_number(learner):
    with pytest.raises(TypeError, match="time must be a number, such as seconds, got '2024-01-01'"):
        learner.step(learner.init(pair()), pair(), time="2024-01-01")


def test_one_compilation_per_bucket():
    learner = sb.StreamLearner(sb.models.Gaussian(["only", "here"]), sb.HPP())
    learn = learner._stepper.learn
    state = learner.init({"only": [1.0, 2.0], "here": [0.0, 1.0]})
    assert learn.num_held == 0
    rng = np.random.default_rng(0)

    def learn_rows(num_rows):
        nonlocal state
        state, _ = learner.step(state, rng.normal(size=(num_rows, 2)))

    for num_rows in (17, 20, 32, 25, 31):  # one bucket, first and later batches
        learn_rows(num_rows)
    assert learn.num_held == 1
    for num_rows in (33, 64, 50):
        learn_rows(num_rows)
    assert learn.num_held == 2
    learner.step(state, {"only": np.arange(20, dtype=np.float32), "here": np.arange(20)})
    again = sb.StreamLearner(sb.models.Gaussian(["only", "here"]), sb.HPP())
    again.step(again.init(rng.normal(size=(20, 2))), rng.normal(size=(20, 2)))
    assert learn.num_held == 2
    assert again._stepper is learner._stepper


def test_all_patterns_of_missing_cells_share_a_compilation():
    learner = sb.StreamLearner(sb.models.Gaussian(["only", "gaps"]), sb.HPP())
    rng = np.random.default_rng(0)
    state = learner.init(rng.normal(size=(20, 2)))
    for place in [(0, 0), (3, 1), (slice(None), 1), (slice(4, 9), slice(None))]:
        rows = rng.normal(size=(20, 2))
        rows[place] = np.nan
        state, _ = learner.step(state, rows)
    assert learner._stepper.learn.num_held == 1
    learner.step(state, rng.normal(size=(20, 2)))
    assert learner._stepper.learn.num_held == 2


@settings(max_examples=60)
@given(num_rows=st.integers(0, 10_000_000))
def test_buckets_hold_their_rows_without_much_waste(num_rows):
    from streambayes.learning import bucket_size

    size = bucket_size(num_rows)
    assert size >= max(num_rows, 16)
    assert size <= max(16, 2 * num_rows)
    if num_rows > 4096:
        assert size <= 1.25 * num_rows + 1
    assert bucket_size(size) == size


def test_padding_changes_nothing(learner):
    """Seventeen rows live in a bucket of 32; sixteen fill theirs."""
    rows = pair(num_rows=17)
    whole = learner.step(learner.init(rows), rows)[0]
    start = sb.StreamLearner(PAIR, sb.SVB())
    state = start.init(rows)
    for some in (slice(0, 16), slice(16, 17)):
        state, _ = start.step(state, {name: values[some] for name, values in rows.items()})
    for mine, theirs in zip(leaves(whole.belief), leaves(state.belief), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


def test_init_and_step_agree_in_shape_and_dtype(learner):
    state = learner.init(pair())
    after, _ = learner.step(state, pair())

    def description(tree):
        return [(leaf.shape, leaf.dtype) for leaf in leaves(tree)]

    assert description(after) == description(state)
    assert jax.tree.structure(after) == jax.tree.structure(state)


def test_results_do_not_depend_on_the_users_precision(learner):
    expected = learner.step(learner.init(pair()), pair())
    with jax.enable_x64(True):
        wide = learner.step(learner.init(pair()), pair())
    with jax.numpy_rank_promotion("raise"), jax.default_matmul_precision("bfloat16"):
        narrow = learner.step(learner.init(pair()), pair())
    assert same(expected[0], wide[0])
    assert same(expected[0], narrow[0])


def test_a_trace_of_step_is_refused(learner):
    state = learner.init(pair())
    stacked = jax.tree.map(lambda leaf: np.stack([leaf, leaf]), state)
    with pytest.raises(TypeError, match=r"cannot run inside jax.jit or jax.vmap"):
        jax.vmap(lambda one: learner.step(one, pair())[1].bound)(stacked)


def test_halving_the_tolerance_changes_no_fourth_digit():
    batches = [pair(seed, num_rows=40, shift=seed // 3) for seed in range(9)]
    tight, tighter = (
        sb.StreamLearner(PAIR, sb.MHPP()),
        sb.StreamLearner(PAIR, sb.MHPP(), tolerance=5e-13),
    )
    one, other = tight.init(batches[0]), tighter.init(batches[0])
    for batch in batches:
        one, info = tight.step(one, batch)
        other, other_info = tighter.step(other, batch)
        assert info.rho == pytest.approx(other_info.rho, rel=1e-5)
        assert info.bound == pytest.approx(other_info.bound, rel=1e-5)
        assert info.retained == pytest.approx(other_info.retained, rel=1e-5)


class TestScale:
    def test_frozen_at_the_first_batch(self, learner):
        state = learner.init(pair())
        after, _ = learner.step(state, pair(1, shift=100.0))
        assert same(state.scale, after.scale)
        np.testing.assert_allclose(state.scale.shift, [pair()["x"].mean(), pair()["y"].mean()])
        np.testing.assert_allclose(state.scale.factor, [pair()["x"].std(), pair()["y"].std()])

    def test_a_constant_column_gets_its_units_when_it_varies(self):
        learner = sb.StreamLearner(PAIR, sb.MHPP())
        constant = {"x": np.full(10, 7.0), "y": pair(num_rows=10)["y"]}
        state = learner.init(constant)
        for _ in range(2):
            state, info = learner.step(state, constant)
            assert info.events == ()
        varied = pair(1, num_rows=10)
        after, info = learner.step(state, varied)
        assert len(info.events) == 1
        assert "column 'x' varies for the first time" in info.events[0]
        fresh = sb.StreamLearner(PAIR, sb.MHPP())
        expected, _ = fresh.step(fresh.init(varied), varied)
        mine, theirs = (
            after.posterior["x, y"],
            expected.posterior["x, y"],
        )
        assert mine.location[0] == pytest.approx(theirs.location[0], rel=1e-12)
        assert after.retained["x"] == pytest.approx(10)
        assert after.retained["y"] > 10
        _, info = learner.step(after, varied)
        assert info.events == ()

    @pytest.mark.parametrize("coefficients", ["joint", "independent", "conjugate"])
    def test_a_regressor_that_varies_late_restarts_what_it_touches(self, coefficients):
        """Its own block, the coefficients, which are measured in its units, and what they leave."""
        _, draw = MODELS["regression"]
        model = sb.models.LinearRegression("y", ["a", "b"], coefficients)
        learner = sb.StreamLearner(model, sb.SVB())
        rng = np.random.default_rng(0)
        constant, varied = draw(rng, 12), draw(rng, 14)
        constant["b"] = np.full(12, -1.0)
        state, info = learner.step(learner.init(constant), constant)
        assert info.events == ()
        state, info = learner.step(state, varied)
        assert len(info.events) == 1
        assert "column 'b' varies for the first time" in info.events[0]
        restarted = {
            "joint": {"b", "y: coefficients", "y: noise"},
            "independent": {"b", "y: intercept", "y: b[b]", "y: noise"},
            "conjugate": {"b", "y"},
        }[coefficients]
        assert state.retained == {
            label: 14.0 if label in restarted else 26.0 for label in state.retained
        }
        for _ in range(30):
            state, info = learner.step(state, draw(rng, 14))
            assert info.outcome is sb.Outcome.CONVERGED
        slope = state.summary()["slope of y on b"]
        assert abs(slope.mean - 3.0) < 4.0 * slope.sd < 1.0

    def test_given_units_are_kept(self):
        learner = sb.StreamLearner(PAIR, sb.SVB(), scale={"x": (1.0, 3.0)})
        state = learner.init(pair())
        assert (state.scale.shift[0], state.scale.factor[0]) == (1.0, 3.0)
        assert state.scale.factor[1] == pytest.approx(pair()["y"].std())

    def test_a_positive_column_has_a_factor_and_no_shift(self):
        net = sb.Network()
        net.exponential("wait")
        rows = {"wait": np.array([1.0, 2.0, 6.0])}
        state = sb.StreamLearner(net, sb.SVB()).init(rows)
        assert (state.scale.shift[0], state.scale.factor[0]) == (0.0, 3.0)
        state = sb.StreamLearner(net, sb.SVB(), scale={"wait": (0.0, 5.0)}).init(rows)
        assert (state.scale.shift[0], state.scale.factor[0]) == (0.0, 5.0)
        with pytest.raises(ValueError, match="'wait': a positive column is not shifted"):
            sb.StreamLearner(net, sb.SVB(), scale={"wait": (1.0, 5.0)})

    @pytest.mark.parametrize(
        ("scale", "sentence"),
        [
            ({"z": (0.0, 1.0)}, "scale: 'z' is not a column of the model that has units"),
            ({"x": (0.0, 0.0)}, "scale of 'x': shift must be finite and factor positive"),
            ({"x": (np.nan, 1.0)}, "scale of 'x'"),
        ],
    )
    def test_bad_units_are_refused(self, scale, sentence):
        with pytest.raises(ValueError, match=sentence):
            sb.StreamLearner(PAIR, sb.SVB(), scale=scale)

    def test_a_prior_in_users_units_follows_the_late_units(self):
        prior = sb.NormalGamma.from_shape_rate_mean_scale(2.0, 3.0, 6.0, 0.5)
        learner = sb.StreamLearner(PAIR, sb.SVB(), prior=prior)
        constant = {"x": np.full(10, 7.0), "y": np.full(10, 1.0)}
        state, _ = learner.step(learner.init(constant), constant)
        varied = pair(1)
        after, info = learner.step(state, varied)
        assert len(info.events) == 2
        fresh = sb.StreamLearner(PAIR, sb.SVB(), prior=prior, scale=False)
        expected, _ = fresh.step(fresh.init(varied), varied)
        mine, theirs = (
            after.posterior["x, y"],
            expected.posterior["x, y"],
        )
        np.testing.assert_allclose(mine.location, theirs.location, rtol=1e-10)
        np.testing.assert_allclose(mine.precision.rate, theirs.precision.rate, rtol=1e-10)


class TestBadInput:
    @pytest.mark.parametrize(
        ("batch", "error", "sentence"),
        [
            ({"x": [1.0]}, ValueError, "the batch lacks column 'y'; it has 'x'"),
            ({"x": [1.0], "y": [1.0, 2.0]}, ValueError, "columns differ in length"),
            (
                {"x": [1.0, np.inf], "y": [np.nan, 2.0]},
                ValueError,
                "column 'x', row 1: expected a finite number, got inf",
            ),
            (
                {"x": [1.0, 2.0], "y": [-np.inf, 2.0]},
                ValueError,
                "column 'y', row 0: expected a finite number, got -inf",
            ),
            (
                {"x": ["a", "b"], "y": [1.0, 2.0]},
                ValueError,
                "column 'x', row 0: expected a finite number, got 'a'",
            ),
            (
                {"x": [None, -np.inf], "y": [1.0, 2.0]},
                ValueError,
                "column 'x', row 1: expected a finite number, got -inf",
            ),
            (
                {"x": np.array([1.0, "b"], dtype=object), "y": [1.0, 2.0]},
                ValueError,
                "column 'x', row 1: expected a finite number, got 'b'",
            ),
            ({"x": [[1.0]], "y": [1.0]}, ValueError, "column 'x' must have one dimension"),
            (
                {"x": np.array(["2020-01-01"], "datetime64[D]"), "y": [1.0]},
                ValueError,
                "column 'x' must hold numbers",
            ),
            ({"x": [1j], "y": [1.0]}, ValueError, "column 'x' must hold numbers"),
            (
                {"x": pd.Series(["1.5", "2"]), "y": [1.0, 2.0]},
                ValueError,
                "column 'x', row 0: expected a finite number, got '1.5'",
            ),
            (
                {"x": np.ma.array([np.inf, np.inf], mask=[1, 0]), "y": [1.0, 2.0]},
                ValueError,
                "column 'x', row 1: expected a finite number, got inf",
            ),
            (
                {"x": [10**400, 2], "y": [1.0, 2.0]},
                ValueError,
                "column 'x', row 0: expected a finite number",
            ),
            (
                {"x": [[1], [2, 3]], "y": [1.0, 2.0]},
                ValueError,
                "column 'x' must have one value for each row",
            ),
            (
                np.zeros((3, 5)),
                ValueError,
                r"an array must have a column for each of 'x', 'y', got shape \(3, 5\)",
            ),
            (3.0, TypeError, "a batch must be a mapping of columns"),
            (None, TypeError, "a batch must be a mapping of columns"),
        ],
    )
    def test_the_place_is_named_and_the_state_kept(self, learner, batch, error, sentence):
        state, _ = learner.step(learner.init(pair()), pair())
        before = leaves(state)
        for act in (
            learner.init,
            lambda data: learner.step(state, data),
            lambda data: learner.score(state, data),
        ):
            with pytest.raises(error, match=sentence):
                act(batch)
        assert all(
            np.array_equal(a, b, equal_nan=True) for a, b in zip(before, leaves(state), strict=True)
        )

    @pytest.mark.parametrize("value", [2, -1, 0.5, np.inf, "yes"])
    def test_draws_are_zero_or_one(self, value):
        learner = sb.StreamLearner(COIN, sb.SVB())
        with pytest.raises(ValueError, match="column 'x'"):
            learner.init({"x": np.array([0, value], dtype=object)})

    def test_a_state_of_another_learner_is_refused(self, learner):
        other = sb.StreamLearner(PAIR, sb.SVB())
        with pytest.raises(
            ValueError,
            match=r"^the state belongs to Gaussian with SVB, this learner has Gaussian with HPP$",
        ):
            learner.step(other.init(pair()), pair())
        with pytest.raises(TypeError, match=r"expected a state from StreamLearner\.init, got dict"):
            learner.step({}, pair())

    @pytest.mark.parametrize(
        ("arguments", "error", "sentence"),
        [
            ((PAIR, "hpp"), TypeError, "forgetting must be a policy such as HPP"),
            (("gaussian", sb.SVB()), TypeError, "model must be a model, got 'gaussian'"),
        ],
    )
    def test_models_and_policies_are_told_apart(self, arguments, error, sentence):
        with pytest.raises(error, match=sentence):
            sb.StreamLearner(*arguments)

    @pytest.mark.parametrize("level", ["90%", None, 1.0, np.nan])
    def test_a_level_is_a_probability(self, learner, level):
        state, _ = learner.step(learner.init(pair()), pair())
        for place, act in (
            ("predict", lambda: learner.predict(state, pair(), "x", level=level)),
            ("predict_next", lambda: learner.predict_next(state, level=level)),
            ("summary", lambda: state.summary(level=level)),
        ):
            sentence = rf"^{place}: level must lie in \(0, 1\), such as 0.9, got {level!r}$"
            with pytest.raises(ValueError, match=sentence):
                act()

    def test_a_seed_is_a_whole_number(self, learner):
        state = learner.init(pair())
        with pytest.raises(TypeError, match=r"^sample: seed must be a whole number, got 'x'$"):
            learner.sample(state, 3, seed="x")

    def test_a_parameter_that_may_be_meant(self, learner):
        summary = learner.init(pair()).summary()
        with pytest.raises(
            KeyError, match=r"no parameter 'mean of X' \(did you mean 'mean of x'\?\)"
        ):
            summary["mean of X"]

    def test_a_policy_that_is_no_definition_is_refused(self):
        class Mine(sb.SVB):
            pass

        with pytest.raises(TypeError, match=r"no definition yet; put @sb\.definition above"):
            sb.StreamLearner(PAIR, Mine())

    @pytest.mark.parametrize(
        ("settings", "error", "sentence"),
        [
            ({"tolerance": -1.0}, ValueError, "tolerance must be at least 0"),
            (
                {"tolerance": "low"},
                ValueError,
                "tolerance must be at least 0 and finite, got 'low'",
            ),
            ({"watch": "yes"}, TypeError, "StreamLearner: watch must be True or False, got 'yes'"),
            ({"max_sweeps": 0}, ValueError, "max_sweeps must be a whole number of at least 1"),
            (
                {"prior": sb.Beta.from_concentrations(1, 1)},
                TypeError,
                "must be a NormalGamma, got Beta",
            ),
            (
                {"prior": {"z": sb.Beta.from_concentrations(1, 1)}},
                ValueError,
                "no entry 'z'; the model has",
            ),
            (
                {"prior": sb.NormalGamma.from_shape_rate_mean_scale(1, 1, [0, 0, 0], 1)},
                ValueError,
                r"this NormalGamma has natural parameters of shapes \(\(3,\),.*, the model's blocks have ",
            ),
        ],
    )
    def test_bad_settings_are_refused(self, settings, error, sentence):
        with pytest.raises(error, match=sentence):
            sb.StreamLearner(PAIR, sb.SVB(), **settings)


def test_a_policy_need_not_be_named():
    assert sb.StreamLearner(PAIR).forgetting == sb.Auto()


def test_a_given_start_is_in_users_units():
    start = sb.NormalGamma.from_shape_rate_mean_scale(3.0, 5.0, [6.0, 1.0], 2.0)
    learner = sb.StreamLearner(PAIR, sb.SVB(), start=start)
    found = learner.init(pair()).posterior["x, y"]
    np.testing.assert_allclose(found.location, [6.0, 1.0], rtol=1e-12)
    np.testing.assert_allclose(found.precision.rate, [5.0, 5.0], rtol=1e-12)
    # no hidden variables: the posterior does not depend on the start
    plain = sb.StreamLearner(PAIR, sb.SVB())
    mine, _ = learner.step(learner.init(pair()), pair())
    theirs, _ = plain.step(plain.init(pair()), pair())
    assert mine.summary() == theirs.summary()


def test_scores_of_no_rows_are_nan(learner):
    score = learner.score(learner.init(pair()), {"x": [], "y": []})
    assert np.isnan(score.bound)
    assert score.num_rows == 0
    assert learner.log_predictive(learner.init(pair()), {"x": [], "y": []}).shape == (0,)


def test_score_is_below_the_predictive(learner):
    """Jensen: the expected log-likelihood is at most the log of the expected likelihood."""
    state, _ = learner.step(learner.init(pair()), pair())
    score = learner.score(state, pair(5))
    assert score.bound < score.predictive
    assert score.predictive == pytest.approx(
        learner.log_predictive(state, pair(5)).mean(), rel=1e-12
    )


def test_threads_learn_alike(learner):
    import concurrent.futures

    start = learner.init(pair())
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        states = list(pool.map(lambda _: learner.step(start, pair(3))[0], range(8)))
    assert all(same(states[0], state) for state in states)


def test_no_warnings_for_the_user(learner):
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        state, _ = learner.step(learner.init(pair()), pair())
        _ = (state.summary(), state.posterior, state.retained, str(state.summary()))


def test_compiled_functions_are_shared():
    assert stepper(PAIR, sb.SVB()) is stepper(sb.models.Gaussian(("x", "y")), sb.SVB())


@pytest.mark.parametrize(
    "alike",
    [
        [sb.PowerPrior(0.9), sb.PowerPrior(0.99)],
        [sb.PowerPrior(kl_budget=0.1), sb.PowerPrior(kl_budget=3)],
        [sb.Fading(0.5), sb.Fading(1.0)],
        [sb.PVB(100, 0.1), sb.PVB(2000.0, 1)],
        [sb.SVI(100), sb.SVI(2000, delay=3.0, decay=1)],
        [sb.SVI(100, step_size=0.1), sb.SVI(200, step_size=1.0)],
        [sb.HPP(), sb.HPP(TruncatedExponential.from_gamma(2.0))],
        [
            sb.MHPP(TruncatedNormal.from_mean_variance(0.5, 1.0)),
            sb.MHPP(TruncatedNormal.from_mean_variance(0.9, 0.01)),
        ],
    ],
    ids=lambda alike: alike[0].name,
)
def test_policies_that_differ_in_numbers_share_a_program_and_not_their_results(alike):
    model = sb.models.Gaussian(["of", "these", "alone"])
    first, second = (sb.StreamLearner(model, policy) for policy in alike)
    third = sb.StreamLearner(model, alike[1], tolerance=1e-6, max_sweeps=20)
    rng = np.random.default_rng(0)
    data = [rng.normal(size=(40, 3)), rng.normal(1.0, size=(40, 3))]
    posteriors = []
    for learner in (first, second, third):
        state = learner.init(data[0])
        for batch in data:
            state, _ = learner.step(state, batch)
        posteriors.append(np.concatenate([np.ravel(x) for x in jax.tree.leaves(state.posterior)]))
    assert first._stepper is second._stepper is third._stepper
    assert first._stepper.learn.num_held == 1
    assert not np.allclose(posteriors[0], posteriors[1], rtol=1e-3)
    np.testing.assert_allclose(posteriors[1], posteriors[2], rtol=1e-3)


def test_what_distinguishes_programs_is_kept_apart():
    def shared(*policies):
        return stepper(PAIR, policies[0]) is stepper(PAIR, policies[1])

    assert not shared(sb.PowerPrior(0.9), sb.PowerPrior(kl_budget=0.9))
    assert not shared(sb.SVI(100), sb.SVI(100, step_size=0.1))
    assert not shared(sb.PVB(100, 0.1), sb.PVB(100, 0.1, minibatch_size=10))
    assert not shared(sb.HPP(), sb.HPP(max_rounds=1))
    assert not shared(sb.HPP(), sb.MHPP())
    assert sb.PowerPrior(0.9) != sb.PowerPrior(0.99)


def test_settings_are_replaced_and_the_others_kept():
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB(), tolerance=1e-3, max_sweeps=7)
    other = learner.replace(forgetting=sb.HPP(), max_sweeps=9)
    assert other.model == learner.model
    assert (other.forgetting, other.max_sweeps, other.tolerance) == (sb.HPP(), 9, 1e-3)
