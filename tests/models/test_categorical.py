"""Categorical against the textbook."""

import numpy as np
import pytest
from scipy import stats

import streambayes as sb


def test_posterior_counts_occurrences():
    model = sb.models.Categorical("colour", ["red", "green", "blue"])
    batch = {"colour": ["red", "blue", "blue", "red", "blue"]}
    learner = sb.StreamLearner(
        model, sb.SVB(), prior=sb.Dirichlet.from_concentration([0.5, 1.0, 2.0])
    )
    state, _ = learner.step(learner.init(batch), batch)
    concentration = state.posterior["colour"].concentration
    np.testing.assert_allclose(concentration, [2.5, 1.0, 5.0], rtol=1e-14)
    expected = np.log(concentration / concentration.sum())
    rows = {"colour": ["red", "green", "blue"]}
    np.testing.assert_allclose(learner.log_predictive(state, rows), expected, rtol=1e-13)
    row = state.summary()["probability of colour=blue"]
    beta = stats.beta(5.0, 3.5)
    assert (row.mean, row.sd) == pytest.approx((beta.mean(), beta.std()), rel=1e-12)
    assert (row.lower, row.upper) == pytest.approx(beta.ppf([0.05, 0.95]), rel=1e-10)


def test_two_categories_are_a_beta_binomial():
    rng = np.random.default_rng(5)
    pair = sb.StreamLearner(sb.models.Categorical("x", 2), sb.HPP())
    coin = sb.StreamLearner(sb.models.BetaBinomial("x"), sb.HPP())
    batches = [{"x": (rng.random(50) < p).astype(int)} for p in (0.2, 0.2, 0.7, 0.7)]
    one, other = pair.init(batches[0]), coin.init(batches[0])
    for batch in batches:
        one, info = pair.step(one, batch)
        other, other_info = coin.step(other, batch)
        assert (info.rho, info.bound) == pytest.approx((other_info.rho, other_info.bound), rel=1e-9)


@pytest.mark.parametrize("categories", [1, [], ["a"], ["a", "a"]])
def test_fewer_than_two_categories_are_refused(categories):
    with pytest.raises(ValueError, match="at least two distinct categories"):
        sb.models.Categorical("x", categories)


def test_unseen_category_is_named():
    learner = sb.StreamLearner(sb.models.Categorical("colour", ["red", "green"]), sb.SVB())
    with pytest.raises(
        ValueError, match=r"column 'colour', row 1: expected one of 'red', 'green', got 'pink'"
    ):
        learner.init({"colour": ["red", "pink"]})
