"""Random numbers on the host follow the distributions that they are named after."""

import numpy as np
import pytest
from scipy import stats

from streambayes._core.draws import draw_choice, draw_log_gamma

NUM_DRAWS = 20_000


@pytest.mark.parametrize("shape", [0.01, 0.3, 1.0, 7.5, 1e6])
def test_log_gamma(shape, rng):
    found = draw_log_gamma(rng, np.array(shape), (NUM_DRAWS,))
    assert stats.kstest(found, stats.loggamma(shape).cdf).pvalue > 1e-4


def test_log_gamma_where_the_gamma_itself_is_zero(rng):
    """Far below: nearly ln(u) / shape."""
    found = draw_log_gamma(rng, np.array([1e-3, 1e-6]), (NUM_DRAWS, 2))
    assert (found[:, 1] < -800.0).mean() > 0.99
    for place, shape in enumerate((1e-3, 1e-6)):
        assert stats.kstest(-found[:, place] * shape, "expon").pvalue > 1e-4


def test_choice(rng):
    weights = np.array([[0.0, 2.0, 6.0, 0.0], [1.0, 0.0, 0.0, 0.0]])
    found = draw_choice(rng, weights, (NUM_DRAWS, 2))
    assert set(found[:, 0]) == {1, 2}  # what has no weight is never chosen
    assert set(found[:, 1]) == {0}
    assert (found[:, 0] == 1).mean() == pytest.approx(0.25, abs=5 * np.sqrt(0.1875 / NUM_DRAWS))


def test_choice_by_weights_of_each_row(rng):
    weights = rng.random((NUM_DRAWS, 3))
    found = draw_choice(rng, weights, (NUM_DRAWS,))
    shares = weights / weights.sum(-1, keepdims=True)
    hits = np.eye(3)[found] - shares
    error = np.sqrt((shares * (1.0 - shares)).sum(0))
    assert (np.abs(hits.sum(0)) < 5.0 * error).all()
