"""Auto against its specification in NumPy, and its theorems."""

import math

import jax
import numpy as np
import pytest
import scipy.special
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import streambayes as sb
from streambayes.families import Bank, Blocks
from streambayes.testing._climb import check_climb
from tests.forgetting.auto_reference import Draws, Values
from tests.tables import MODELS

SIZES = st.lists(st.sampled_from([1, 2, 3, 7, 20, 60]), min_size=2, max_size=40)
SCALES = st.sampled_from([1e-6, 1e-2, 1.0, 30.0])


def learned(learner, batches, times=None):
    """States and infos, batch by batch."""
    state = learner.init(batches[0])
    for number, batch in enumerate(batches):
        time = None if times is None else times[number]
        state, info = learner.step(state, batch, time=time)
        yield state, info


def bernoulli(prior=(1.0, 1.0), policy=None):
    model = sb.models.BetaBinomial("x")
    return sb.StreamLearner(model, policy, prior=sb.Beta.from_concentrations(*prior))


def normal(prior, policy=None, columns=("x",)):
    family = sb.NormalGamma.from_shape_rate_mean_scale(
        *(np.full(len(columns), each) for each in prior)
    )
    model = sb.models.Gaussian(list(columns))
    return sb.StreamLearner(model, policy, prior=family, scale=False)


def wandering(rng, sizes):
    """A share per batch that stays, drifts, jumps and comes back."""
    share, home = 0.3, 0.3
    for _ in sizes:
        move = rng.random()
        if move < 0.1:
            share = rng.random()
        elif move < 0.2:
            share = home
        elif move < 0.5:
            share = float(np.clip(share + rng.normal(0.0, 0.05), 0.02, 0.98))
        yield share


def draw_batches(seed, sizes):
    rng = np.random.default_rng(seed)
    shares = list(wandering(rng, sizes))
    return [{"x": rng.random(n) < p} for n, p in zip(sizes, shares, strict=True)]


def normal_batches(seed, sizes):
    rng = np.random.default_rng(seed)
    shares = list(wandering(rng, sizes))
    return [{"x": rng.normal(6.0 * p, 1.0, n)} for n, p in zip(sizes, shares, strict=True)]


CASES = {
    "draws": (bernoulli, Draws, draw_batches, lambda scale: (scale, 2.0 * scale)),
    "values": (normal, Values, normal_batches, lambda s: (1.0, 0.5, 1.0, s)),
}


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=12)
@given(seed=st.integers(0, 10**6), sizes=SIZES, scale=SCALES)
def test_it_is_what_the_specification_says(case, seed, sizes, scale):
    """Births, sharing, evidence, learning, pruning and all that is reported of it."""
    make, reference, batches_of, prior_of = CASES[case]
    prior = prior_of(scale)
    block, batches = reference(*prior), batches_of(seed, sizes)
    for batch, (state, info) in zip(batches, learned(make(prior), batches), strict=True):
        expected = block.learn(batch["x"])
        tight = {"rel": 1e-8, "abs": 1e-8}
        assert info.bound == pytest.approx(expected.pop("bound"), **tight)
        found = {name: getattr(info, name)["x"] for name in expected}
        assert found == pytest.approx(expected, **tight)
        assert state.changed_within(50.0)["x"] == pytest.approx(block.changed_within(50.0), **tight)
        assert sum(info.memory["x"]) + info.recalled["x"] == pytest.approx(1.0, abs=1e-12)


@pytest.mark.parametrize("case", CASES)
@settings(max_examples=30)
@given(seed=st.integers(0, 10**6), sizes=SIZES, scale=SCALES)
def test_no_horizon_in_hindsight_beats_it_by_more_than_the_theorem_allows(case, seed, sizes, scale):
    """T1: any data, any batch sizes, any prior."""
    make, reference, batches_of, prior_of = CASES[case]
    prior = prior_of(scale)
    block, batches = reference(*prior), batches_of(seed, sizes)
    evidence = 0.0
    constant = 0.0
    for batch, (_, info) in zip(batches, learned(make(prior), batches), strict=True):
        evidence += info.bound
        constant += block.constant(len(batch["x"]))
        block.learn(batch["x"])
        best = block.evidence_of_fades.max() + constant
        loss = math.log(64.0) + math.log(block.clock / sizes[0])
        assert evidence >= best - loss - 1e-9 * (1.0 + abs(best))


@settings(max_examples=10)
@given(
    seed=st.integers(0, 10**6),
    sizes=st.lists(st.sampled_from([1, 5, 10]), min_size=1, max_size=14),
    size=st.integers(1, 10),
)
def test_alarms_are_rare_where_nothing_changes(seed, sizes, size):
    """T3: the Bayes factor of a change has mean 1 under what is predicted without one."""
    learner = bernoulli((0.7, 1.3))
    *_, (state, _) = learned(learner, draw_batches(seed, sizes))
    share = size / (sum(sizes) + size)
    total = probability = 0.0
    for ones in range(size + 1):
        _, info = learner.step(state, {"x": np.arange(size) < ones})
        factor = math.exp(info.log_bf["x"])
        stays = math.exp(info.bound) / ((1.0 - share) + share * factor)
        probability += math.comb(size, ones) * stays
        total += math.comb(size, ones) * stays * factor
    assert probability == pytest.approx(1.0, abs=1e-9)
    assert total == pytest.approx(1.0, abs=1e-9)


@pytest.mark.parametrize("case", CASES)
def test_memory_hardly_depends_on_the_batch_size(case):
    """T4: the same 10,000 rows of a world that stands still, cut into batches of 1, 10, 100, 1000."""
    make, _, _, prior_of = CASES[case]
    rng = np.random.default_rng(11)
    rows = rng.random(10_000) < 0.3 if case == "draws" else rng.normal(2.0, 1.0, 10_000)
    sizes = []
    for n in (1, 10, 100, 1000):
        learner = make(prior_of(1.0))
        run = sb.run(learner, [{"x": part} for part in rows.reshape(-1, n)], prequential=False)
        later = run.records[len(run.records) // 2 :]
        sizes.append(np.mean([record.retained["x"] for record in later]))
    assert max(sizes) < 2.0 * min(sizes)


def test_the_mixture_is_shown():
    """Mean, deviation and interval are those of all memories together, by SciPy."""
    learner = bernoulli()
    *_, (state, _) = learned(learner, draw_batches(3, [30] * 20))
    weights = np.exp(state.belief.log_weights["x"])
    assert weights.sum() == pytest.approx(1.0, abs=1e-12)
    members = scipy.stats.beta(
        state.belief.members.params["x"].alpha, state.belief.members.params["x"].beta
    )
    mean = (weights * members.mean()).sum()
    square = (weights * (members.var() + members.mean() ** 2)).sum()
    row = state.summary(level=0.8)["probability of x"]
    assert row.mean == pytest.approx(mean, rel=1e-10)
    assert row.sd == pytest.approx(math.sqrt(square - mean**2), rel=1e-8)
    assert (weights * members.cdf(row.lower)).sum() == pytest.approx(0.1, abs=1e-8)
    assert (weights * members.cdf(row.upper)).sum() == pytest.approx(0.9, abs=1e-8)
    density = np.exp(learner.log_predictive(state, {"x": [1]}, using="belief"))
    assert density[0] == pytest.approx(mean, rel=1e-10)


def test_it_is_the_default():
    assert sb.StreamLearner(sb.models.Gaussian("x")).forgetting == sb.Auto()


def of_an_average_row(state, batch):
    """For each memory of a share, the log evidence of a row that is what rows are on average."""
    members, share = state.belief.members.params["x"], np.mean(batch["x"])
    a, b = np.asarray(members.alpha), np.asarray(members.beta)
    return scipy.special.betaln(a + share, b + 1.0 - share) - scipy.special.betaln(a, b)


@pytest.mark.parametrize("policy", [sb.Auto(), sb.Auto(shared=True)], ids=repr)
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1, 4, 15]))
def test_predictions_lose_little_to_the_best_forecaster(policy, seed, size):
    """T2, for batches of equal size: what is believed, and every horizon."""
    learner = bernoulli(policy=policy)
    state, seen, allowed, predicted = None, 0, 0.0, 0.0
    alone = np.zeros(17)
    first = np.append(np.log(0.9), np.full(16, np.log(0.1 / 48)))  # restarts are 2/3 at the start
    for batch in draw_batches(seed, [size] * 30):
        state = learner.init(batch) if state is None else state
        predicted += learner.log_predictive(state, batch).sum()
        fit = of_an_average_row(state, batch)
        believed = scipy.special.logsumexp(fit + np.asarray(state.belief.log_weights["x"]))
        alone += size * np.append(believed, fit[:16])
        assert np.all(predicted >= alone + size * (first - allowed) - 1e-9 * (1 + abs(predicted)))
        state, _ = learner.step(state, batch)
        seen += size
        if seen > size:  # trust is shared from the second batch on
            allowed -= math.log(1.0 - 1.0 / seen)


def test_trust_follows_the_evidence_of_an_average_row():
    learner = bernoulli((1.0, 2.0))
    batches = draw_batches(8, [20] * 12)
    *_, (state, _) = learned(learner, batches)
    trust, weights = (
        np.exp(np.asarray(each["x"])) for each in (state.memory.log_trust, state.belief.log_weights)
    )
    forecast = trust + (1.0 - trust.sum()) * weights
    members = state.belief.members.params["x"]
    expected = forecast @ (np.asarray(members.alpha) / np.asarray(members.alpha + members.beta))
    said = learner.log_predictive(state, {"x": [1]})
    assert np.exp(said[0]) == pytest.approx(expected, rel=1e-12)
    believed = learner.log_predictive(state, {"x": [1]}, using="belief")
    assert believed[0] != said[0]
    fit = np.exp(of_an_average_row(state, batches[0]))
    after, _ = learner.step(state, batches[0])
    target = 0.25 / 16 / (0.75 + 0.25)  # of a fade, where there are recalls
    updated = (1.0 - 1.0 / 260) * trust * fit / (forecast @ fit) + 0.1 / 260 * target
    np.testing.assert_allclose(np.exp(after.memory.log_trust["x"][:16]), updated[:16], rtol=1e-9)


def test_a_run_predicts_by_the_forecast_and_tests_the_belief():
    batches = draw_batches(4, [20] * 6)
    learner = bernoulli()
    run = sb.run(learner, batches, test_fraction=0.2, seed=3)
    *_, (state, _) = learned(learner, batches)
    # the rows that the run has held out are not in this one
    assert run.scores.prequential != run.scores.test_predictive
    whole = sb.run(learner, batches)
    state, expected = learner.init(batches[0]), []
    for batch in batches:
        expected.append(learner.score(state, batch).predictive)
        assert learner.log_predictive(state, batch).mean() == pytest.approx(expected[-1])
        state, _ = learner.step(state, batch)
    found = [record.prequential for record in whole.records[1:]]
    assert found == pytest.approx(expected[1:], rel=1e-13)  # by another program
    assert whole.scores.prequential == pytest.approx(np.mean(expected[1:]))
    assert len(learner.log_predictive(state, {"x": []})) == 0
    with pytest.raises(ValueError, match="using must be 'forecast' or 'belief', got 'trust'"):
        learner.score(state, batches[0], using="trust")


def test_other_policies_predict_by_what_they_believe():
    *_, (state, _) = learned(bernoulli(policy=sb.HPP()), draw_batches(0, [5, 5]))
    learner, rows = bernoulli(policy=sb.HPP()), {"x": [0, 1]}
    said = learner.log_predictive(state, rows)
    np.testing.assert_array_equal(said, learner.log_predictive(state, rows, using="belief"))


TIMED = sb.Auto(clock="time")


def test_time_that_passes_with_the_rows_is_the_clock_of_rows():
    sizes = [20, 7, 60, 3, 20, 20, 60, 1, 7, 20, 20, 60]
    batches = draw_batches(5, sizes)
    times = 1e9 + 37.0 * np.cumsum(sizes)
    by_rows = learned(bernoulli(), batches)
    by_time = learned(bernoulli(policy=TIMED), batches, times)
    for (_, rows), (state, time) in zip(by_rows, by_time, strict=True):
        assert time.bound == pytest.approx(rows.bound, rel=1e-9)
        assert time.rho == pytest.approx(rows.rho, rel=1e-9)
        assert time.log_bf == pytest.approx(rows.log_bf, abs=1e-9)
        if state.num_batches > 1:  # before, the time per row is not known
            assert time.drifting == pytest.approx(rows.drifting, abs=1e-9)
            np.testing.assert_allclose(time.memory["x"], rows.memory["x"], atol=1e-9)
        else:
            assert time.drifting == {"x": 0.0}


def test_a_long_gap_forgets():
    batches = draw_batches(5, [50] * 12)
    times = np.arange(12.0)
    *_, (near, _) = learned(bernoulli(policy=TIMED), batches, times)
    times[-1] += 1e5
    *_, (far, info) = learned(bernoulli(policy=TIMED), batches, times)
    assert far.retained["x"] < 0.7 * near.retained["x"]
    assert info.rho["x"] < 0.7


def test_gaps_compose():
    """A batch without rows on the way changes nothing."""
    batches = draw_batches(6, [30] * 9)
    learner = bernoulli(policy=TIMED)
    *_, (state, _) = learned(learner, batches[:8], np.arange(8.0))
    once = learner.step(state, batches[8], time=50.0)[1]
    waited, _ = learner.step(state, {"x": []}, time=20.0)
    assert learner.step(waited, batches[8], time=50.0)[1] == once


def test_a_change_within_one_time_is_followed():
    rng = np.random.default_rng(0)
    batches = [{"x": rng.normal(8.0 * (t > 7), 1.0, 50)} for t in range(10)]
    learner = sb.StreamLearner(sb.models.Gaussian("x"), TIMED)
    for times in (np.zeros(10), np.minimum(np.arange(10.0), 7.0)):
        *_, (state, _) = found = list(learned(learner, batches, times))
        infos = [info for _, info in found]
        assert infos[8].log_bf["x"] > 20.0
        assert infos[7].log_bf["x"] < 3.0
        assert state.summary()["mean of x"].mean == pytest.approx(8.0, abs=0.4)
        assert all(np.isfinite(info.bound) for info in infos)


def test_a_block_without_rows_stays_as_it_is():
    """What has passed meanwhile counts when it has rows again, as in one long gap."""
    rng = np.random.default_rng(0)
    model = sb.models.NaiveBayes("day", ["weekday", "weekend"], normal=["x"])
    learner = sb.StreamLearner(model, scale=False)
    block = "x | day=weekend"

    def batch(days, num_rows=40):
        return {"day": np.resize(days, num_rows), "x": rng.normal(5.0, 1.0, num_rows)}

    both = [batch(["weekday", "weekend"]) for _ in range(4)]
    *_, (state, _) = learned(learner, both)
    after, info = learner.step(state, batch(["weekday"], 30))
    assert after.retained[block] == state.retained[block]
    assert (info.rho[block], info.log_bf[block]) == (1.0, 0.0)
    mine, theirs = (each.summary()[f"mean of {block}"] for each in (state, after))
    assert mine == theirs
    assert np.isfinite(theirs.sd)
    split = learner.step(after, batch(["weekday"], 50))[0]
    last = batch(["weekend"])
    whole = learner.step(state, batch(["weekday"], 80))[0]
    one, other = (learner.step(each, last)[1] for each in (split, whole))
    assert one.retained[block] == pytest.approx(other.retained[block])
    assert one.log_bf[block] == pytest.approx(other.log_bf[block])


def test_one_choice_for_all_blocks():
    """Shared, the evidence of blocks adds up: the two columns are one block of twice the size."""
    rng = np.random.default_rng(2)
    x = [rng.normal(3.0 * (t > 7), 1.0, 30) for t in range(12)]
    twice = [{"x": values, "y": values} for values in x]
    policy = sb.Auto(shared=True)
    learner = normal((1.0, 1.0, 0.0, 0.1), policy, columns=("x", "y"))
    for state, info in learned(learner, twice):
        weights = state.belief.log_weights["x, y"]
        np.testing.assert_allclose(weights[:, 0], weights[:, 1])
        assert isinstance(info.log_bf, float)
        assert len(info.memory) == 16
    one = normal((1.0, 1.0, 0.0, 0.1))
    together = [info for _, info in learned(learner, twice)]
    alone = [info for _, info in learned(one, [{"x": values} for values in x])]
    assert together[8].log_bf > alone[8].log_bf["x"] > 3.0
    first = together[0].bound, alone[0].bound
    assert first[0] == pytest.approx(2.0 * first[1])


def test_densities_and_samples_know_that_the_choice_is_one():
    rng = np.random.default_rng(2)
    columns = ("x", "y")
    batches = [{name: rng.normal(0.0, 1.0, 10) for name in columns} for _ in range(6)]
    batches.append(dict.fromkeys(columns, np.array([6.0])))
    learner = normal((1.0, 1.0, 0.0, 0.1), sb.Auto(shared=True), columns)
    *_, (state, _) = learned(learner, batches)
    weights = np.exp(state.belief.log_weights["x, y"][:, 0])
    members = state.belief.members.params["x, y"]
    rows = np.array([[6.0, 6.0], [0.0, 0.0]])
    with jax.enable_x64(True):
        each = [
            jax.tree.map(lambda leaf, e=e: leaf[e], members).log_predictive(rows).sum(1)
            for e in range(len(weights))
        ]
    expected = np.log(weights @ np.exp(np.array(each)))
    found = learner.log_predictive(state, {"x": rows[:, 0], "y": rows[:, 1]}, using="belief")
    np.testing.assert_allclose(found, expected, rtol=1e-9)
    believed = state.belief.log_weights["x, y"][:, 0]
    trust = np.exp(state.memory.log_trust["x, y"][:, 0])
    weights = trust + (1.0 - trust.sum()) * np.exp(believed)
    found = learner.log_predictive(state, {"x": rows[:, 0], "y": rows[:, 1]})
    np.testing.assert_allclose(found, np.log(weights @ np.exp(np.array(each))), rtol=1e-9)


@pytest.mark.parametrize("is_joint", [True, False])
def test_samples_of_a_bank_choose_for_all_blocks_or_for_each(is_joint):
    with jax.enable_x64(True):
        far = sb.Normal.from_mean_precision(np.array([[-9.0, -9.0], [9.0, 9.0]]), np.ones((2, 2)))
        members = Blocks.of_prior({"a": far, "b": far})
        weights = dict.fromkeys("ab", np.log(np.full((2, 2), 0.5)))
        bank = Bank(log_weights=weights, members=members, is_joint=is_joint)
        a, b = bank.sample(np.random.default_rng(0), 400).values()
    drawn = np.concatenate([a, b], 1) > 0.0
    alike = (drawn == drawn[:, :1]).all(1).mean()
    assert alike == (1.0 if is_joint else pytest.approx(0.125, abs=0.06))
    assert drawn.mean() == pytest.approx(0.5, abs=0.1)


def test_a_mixture_whose_start_saw_no_rows_finds_its_components():
    rng = np.random.default_rng(0)
    rows = {"a": np.array([0.0, 10.0, 20.0])[rng.integers(0, 3, 300)] + rng.normal(size=300)}
    prior = {"component": sb.Dirichlet.from_concentration([0.3, 0.3, 0.3])}
    bounds = []
    for policy in (sb.SVB(), sb.Auto()):
        model = sb.models.GaussianMixture(["a"], 3)
        learner = sb.StreamLearner(model, policy, scale=False, prior=prior)
        bounds.append(learner.step(learner.init({"a": []}), rows)[1].bound)
    assert bounds[1] == pytest.approx(bounds[0], rel=1e-6)


@pytest.mark.parametrize(
    ("make", "error", "words"),
    [
        (lambda: sb.Auto(clock="days"), ValueError, "clock must be 'rows' or 'time'"),
        (lambda: sb.Auto(shared=1), TypeError, "shared must be True or False, got 1"),
        (
            lambda: sb.StreamLearner(sb.models.LinearRegression("y", ["x"]), sb.Auto(shared=True)),
            ValueError,
            "Auto shared needs a model .* blocks of LinearRegression are coupled",
        ),
        (
            lambda: list(learned(bernoulli(policy=TIMED), draw_batches(0, [3]))),
            ValueError,
            "Auto by time measures time: every batch needs one",
        ),
        (
            lambda: sb.run(bernoulli(policy=TIMED), draw_batches(0, [3, 3]), prequential=False),
            ValueError,
            "every batch needs one",
        ),
    ],
)
def test_bad_settings(make, error, words):
    with pytest.raises(error, match=words):
        make()


def test_many_streams_need_times_too():
    together = sb.many(bernoulli(policy=TIMED))
    batches = {"a": {"x": [1, 0]}, "b": {"x": [0, 0]}}
    states = together.init(batches)
    with pytest.raises(ValueError, match="every batch needs one"):
        together.step(states, batches)
    states, info = together.step(states, batches, time=1.0)
    assert not info.failed


def test_other_policies_do_not_know_when_a_block_has_changed():
    *_, (state, _) = learned(bernoulli(policy=sb.SVB()), draw_batches(0, [5]))
    with pytest.raises(TypeError, match="known to Auto"):
        state.changed_within(10)
    *_, (state, _) = learned(bernoulli(), draw_batches(0, [5]))
    with pytest.raises(ValueError, match="span must be a number of at least 0 and finite, got nan"):
        state.changed_within(float("nan"))


def test_hidden_variables_are_predicted_too():
    rng = np.random.default_rng(0)
    learner = sb.StreamLearner(sb.models.GaussianMixture(["x"], 2))
    batches = [{"x": rng.normal(rng.choice([-3.0, 3.0], 60), 1.0)} for _ in range(4)]
    state = learner.init(batches[0])
    for batch in batches:
        said = learner.log_predictive(state, batch)
        state, _ = learner.step(state, batch)
    assert np.all(np.isfinite(said))
    assert said.mean() == pytest.approx(-np.log(2) - 1.42, abs=0.4)


def test_what_came_back_is_recalled():
    rng = np.random.default_rng(1)
    levels = [0.0] * 20 + [4.0] * 10 + [0.0] * 3
    batches = [{"x": rng.normal(level, 1.0, 50)} for level in levels]
    infos = [info for _, info in learned(sb.StreamLearner(sb.models.Gaussian("x")), batches)]
    assert infos[20].log_bf["x"] > 3.0
    assert infos[20].retained["x"] < 60.0
    assert infos[29].recalled["x"] < 0.2
    assert infos[-1].recalled["x"] > 0.5
    assert infos[-1].retained["x"] > 200.0  # three batches have 150


@pytest.mark.parametrize(
    ("name", "policy"),
    [
        ("mixture", sb.Auto()),
        ("mixture", sb.Auto(shared=True)),
        ("regression", sb.Auto()),
        ("regression, independent", sb.Auto()),
        ("network", sb.Auto()),  # it has two latent variables
    ],
    ids=repr,
)
def test_the_bound_never_falls(name, policy):
    """T5, from sweep to sweep, on a stream that changes."""
    model, draw = MODELS[name]
    rng = np.random.default_rng(3)
    batches = [draw(rng, 40) for _ in range(4)]
    for column in model.columns:
        if column.is_measured:  # a jump
            batches[3][column.name] = 2.0 * batches[3][column.name]
    check_climb(sb.StreamLearner(model, policy), batches)


def test_saved_and_gone_on(tmp_path):
    batches = normal_batches(4, [20] * 9)
    learner = normal((1.0, 1.0, 0.0, 0.1))
    *_, (state, _) = learned(learner, batches[:7])
    sb.save(state, tmp_path / "auto.sbz")
    loaded = sb.load(tmp_path / "auto.sbz")
    assert loaded.forgetting == sb.Auto()
    for batch in batches[7:]:
        np.testing.assert_array_equal(
            learner.log_predictive(state, batch), learner.log_predictive(loaded, batch)
        )
        state, info = learner.step(state, batch)
        loaded, other = learner.step(loaded, batch)
        assert info == other


def test_blocks_without_rows_stay_although_the_choice_is_shared():
    rng = np.random.default_rng(0)
    net = sb.Network()
    day = net.categorical("day", 2)
    net.normal("x", parents=[day])

    def batch(days):
        chosen = rng.choice(days, 100)
        return {"day": chosen, "x": rng.normal(5.0 * chosen, 1.0)}

    learner = sb.StreamLearner(net, sb.Auto(shared=True), watch=False)
    state = learner.init(batch([0, 1]))
    for _ in range(10):
        state, _ = learner.step(state, batch([0, 1]))
    before = state.retained["x | day=1"]
    for _ in range(30):  # a change of the days themselves, which the model restarts for
        state, _ = learner.step(state, batch([0]))
    assert state.retained["x | day=1"] == pytest.approx(before, rel=0.05)
    assert before > 300
