"""BetaBinomial against the textbook."""

import numpy as np
import pytest
from scipy import stats

import streambayes as sb


@pytest.fixture
def draws():
    return {"x": np.array([1, 0, 0, 1, 1, 0, 1, 1])}


def test_posterior_counts_successes_and_failures(draws):
    learner = sb.StreamLearner(
        sb.models.BetaBinomial("x"), sb.SVB(), prior=sb.Beta.from_concentrations(2.5, 0.5)
    )
    state, _ = learner.step(learner.init(draws), draws)
    posterior = state.posterior["x"]
    assert posterior.alpha == pytest.approx(2.5 + 5, rel=1e-14)
    assert posterior.beta == pytest.approx(0.5 + 3, rel=1e-14)


def test_counts_and_draws_agree_but_for_arrangements(draws):
    counts = {"k": [5], "n": [8]}
    by_draw = sb.StreamLearner(sb.models.BetaBinomial("x"), sb.HPP())
    by_count = sb.StreamLearner(sb.models.BetaBinomial("k", trials="n"), sb.HPP())
    one, other = by_draw.init(draws), by_count.init(counts)
    for _ in range(3):
        one, info = by_draw.step(one, draws)
        other, other_info = by_count.step(other, counts)
        assert info.rho == pytest.approx(other_info.rho, rel=1e-12)
        arrangements = np.log(56.0)
        assert other_info.bound - info.bound == pytest.approx(arrangements, rel=1e-10)
        assert one.retained["x"] == pytest.approx(other.retained["k"], rel=1e-13)


def test_predictive_is_beta_binomial():
    learner = sb.StreamLearner(sb.models.BetaBinomial("k", trials="n"), sb.SVB())
    state, _ = learner.step(learner.init({"k": [3], "n": [9]}), {"k": [3], "n": [9]})
    rows = {"k": np.arange(6), "n": np.full(6, 5)}
    expected = stats.betabinom.logpmf(rows["k"], 5, 1 + 3, 1 + 6)
    np.testing.assert_allclose(learner.log_predictive(state, rows), expected, rtol=1e-11)


def test_summary_is_the_beta(draws):
    learner = sb.StreamLearner(sb.models.BetaBinomial("x"), sb.SVB())
    state, _ = learner.step(learner.init(draws), draws)
    row = state.summary(level=0.8)["probability of x"]
    beta = stats.beta(6, 4)
    assert (row.mean, row.sd) == pytest.approx((beta.mean(), beta.std()), rel=1e-12)
    assert (row.lower, row.upper) == pytest.approx(beta.ppf([0.1, 0.9]), rel=1e-10)


def test_more_successes_than_trials_is_refused():
    learner = sb.StreamLearner(sb.models.BetaBinomial("k", trials="n"), sb.SVB())
    with pytest.raises(ValueError, match=r"column 'k', row 1: 4 successes in 3 trials"):
        learner.init({"k": [1, 4], "n": [3, 3]})


def test_a_row_with_a_missing_cell_is_left_out():
    """Successes without trials, or trials without successes, say nothing."""
    gaps = {"k": [3, np.nan, 2, np.nan], "n": [9, 5, np.nan, np.nan]}
    learner = sb.StreamLearner(sb.models.BetaBinomial("k", trials="n"), sb.SVB())
    state, info = learner.step(learner.init(gaps), gaps)
    whole, other = learner.step(learner.init({"k": [3], "n": [9]}), {"k": [3], "n": [9]})
    assert state.posterior["k"] == whole.posterior["k"]
    assert info.bound == pytest.approx(other.bound, rel=1e-14)
    assert (state.retained, state.rows_seen) == ({"k": 9.0}, 9.0)
    density = learner.log_predictive(state, gaps)
    assert density[0] == pytest.approx(stats.betabinom.logpmf(3, 9, 4, 7), rel=1e-11)
    np.testing.assert_array_equal(density[1:], 0.0)
