"""Poisson against the textbook."""

import numpy as np
import pytest
from scipy import stats

import streambayes as sb


def test_posterior_predictive_and_summary():
    batch = {"calls": np.array([3, 0, 4, 1, 2])}
    learner = sb.StreamLearner(
        sb.models.Poisson("calls"), sb.SVB(), prior=sb.Gamma.from_shape_rate(2.0, 0.5)
    )
    state, _ = learner.step(learner.init(batch), batch)
    posterior = state.posterior["calls"]
    assert (posterior.shape, posterior.rate) == pytest.approx((12.0, 5.5), rel=1e-14)
    rows = {"calls": np.array([0, 1, 7, 40])}
    expected = stats.nbinom.logpmf(rows["calls"], 12.0, 5.5 / 6.5)
    np.testing.assert_allclose(learner.log_predictive(state, rows), expected, rtol=1e-10)
    row = state.summary()["rate of calls"]
    gamma = stats.gamma(12.0, scale=1 / 5.5)
    assert (row.mean, row.sd) == pytest.approx((gamma.mean(), gamma.std()), rel=1e-12)
    assert (row.lower, row.upper) == pytest.approx(gamma.ppf([0.05, 0.95]), rel=1e-9)


@pytest.mark.parametrize("value", [-1, 1.5, np.inf])
def test_counts_are_whole_and_not_negative(value):
    learner = sb.StreamLearner(sb.models.Poisson("calls"), sb.SVB())
    with pytest.raises(ValueError, match=r"column 'calls', row 1: expected a whole number"):
        learner.init({"calls": [2.0, value]})
