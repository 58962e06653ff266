"""Auto against its specification in NumPy, and its theorems."""

import math

import numpy as np
import pytest
import scipy.stats
from hypothesis import given, settings
from hypothesis import strategies as st

import streambayes as sb
from tests.forgetting.auto_reference import Draws, Values

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
    density = np.exp(learner.log_predictive(state, {"x": [1]}))
    assert density[0] == pytest.approx(mean, rel=1e-10)


def test_it_is_the_default():
    assert sb.StreamLearner(sb.models.Gaussian("x")).forgetting == sb.Auto()


@pytest.mark.parametrize("policy", [sb.Auto(), sb.Auto(shared=True), sb.HPP()], ids=repr)
@settings(max_examples=6)
@given(seed=st.integers(0, 10**6), size=st.sampled_from([1, 4, 15]))
def test_forecasts_lose_little_to_the_best_forecaster(policy, seed, size):
    """T2, for batches of equal size."""
    learner = normal((1.0, 0.5, 1.0, 0.1), policy)
    batches = normal_batches(seed, [size] * 30)
    state = learner.init(batches[0])
    mixed, seen, allowed = 0.0, 0, 0.0
    alone = dict.fromkeys(policy.forecasters, 0.0)
    for batch in batches:
        forecast, state = learner.forecast(state, batch)
        assert sum(forecast.shares.values()) == pytest.approx(1.0, abs=1e-12)
        mixed += forecast.log_density.sum()
        for name, densities in forecast.alone.items():
            alone[name] += densities.sum()
        # the shares of this batch were shared after each batch before it
        loss = size * (math.log(len(alone)) + allowed)
        assert mixed >= max(alone.values()) - loss - 1e-9 * (1.0 + abs(mixed))
        state, _ = learner.step(state, batch)
        seen += size
        if seen > size:  # shares are shared from the second batch on
            allowed -= math.log(1.0 - 1.0 / seen)


def test_the_forecasters_are_what_they_are_called():
    learner = bernoulli((1.0, 2.0))
    batches = draw_batches(8, [20] * 12)
    *_, (state, _) = learned(learner, batches)
    forecast, _ = learner.forecast(state, batches[0])
    np.testing.assert_allclose(
        forecast.alone["posterior"], learner.log_predictive(state, batches[0]), rtol=1e-12
    )
    parts = np.stack([np.exp(forecast.alone[name]) for name in forecast.shares])
    mixed = np.array(list(forecast.shares.values())) @ parts
    np.testing.assert_allclose(np.exp(forecast.log_density), mixed, rtol=1e-12)
    # one row: its evidence is its density before it is learned
    one = {"x": [1]}
    before = learner.forecast(state, one)[0].alone["before"]
    assert before[0] == pytest.approx(learner.step(state, one)[1].bound, rel=1e-10)
