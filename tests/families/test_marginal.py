"""Marginals against SciPy."""

import jax
import numpy as np
import pytest
import scipy.stats

from streambayes._core.precision import in_float64
from streambayes.families import (
    Beta,
    BetaMarginal,
    Gamma,
    GammaMarginal,
    MixtureMarginal,
    SpreadMarginal,
    StudentMarginal,
    WeightedDraws,
)

SHAPE, RATE = np.array([2.5, 30.0, 1e6]), np.array([0.1, 4.0, 2e6])
ALPHA, BETA = np.array([0.5, 3.0, 4e5]), np.array([0.7, 40.0, 1e5])
DEGREES, LOCATION, SCALE = (
    np.array([3.0, 12.0, 1e9]),
    np.array([0.0, -2.0, 5.0]),
    np.array([1.0, 0.3, 2.0]),
)


class Spread:
    """SciPy's distribution of the square root of an inverse Gamma."""

    precision = scipy.stats.gamma(SHAPE, scale=1 / RATE)
    inverse = scipy.stats.invgamma(SHAPE, scale=RATE)

    def mean(self):
        log_ratio = scipy.special.gammaln(SHAPE - 0.5) - scipy.special.gammaln(SHAPE)
        return np.sqrt(RATE) * np.exp(log_ratio)

    def var(self):
        exact = self.inverse.mean() - self.mean() ** 2
        # two digits or none are left of the difference at a shape of a million
        return np.where(SHAPE < 1e5, exact, RATE / (4 * SHAPE**2) * (1 + 7 / (4 * SHAPE)))

    def cdf(self, x):
        return self.inverse.cdf(x**2)

    def ppf(self, p):
        return np.sqrt(self.inverse.ppf(p))


MARGINALS = {
    "beta": (BetaMarginal(Beta.from_concentrations(ALPHA, BETA)), scipy.stats.beta(ALPHA, BETA)),
    "gamma": (
        GammaMarginal(Gamma.from_shape_rate(SHAPE, RATE)),
        scipy.stats.gamma(SHAPE, scale=1 / RATE),
    ),
    "student": (StudentMarginal(DEGREES, LOCATION, SCALE), scipy.stats.t(DEGREES, LOCATION, SCALE)),
    "spread": (SpreadMarginal(Gamma.from_shape_rate(SHAPE, RATE), np.ones(())), Spread()),
}


@pytest.mark.parametrize("name", MARGINALS)
def test_moments_and_distribution(name):
    marginal, reference = MARGINALS[name]
    np.testing.assert_allclose(in_float64(marginal.mean)(), reference.mean(), rtol=1e-9)
    np.testing.assert_allclose(in_float64(marginal.variance)(), reference.var(), rtol=1e-7)
    for probability in (0.025, 0.5, 0.999):
        x = reference.ppf(probability)
        found = in_float64(marginal.cdf)(x)
        np.testing.assert_allclose(found, probability, rtol=1e-8)
        quantile = in_float64(jax.jit(marginal.quantile))(probability)
        np.testing.assert_allclose(quantile, x, rtol=1e-8, atol=1e-15)


def test_moments_that_do_not_exist():
    student = StudentMarginal(np.array([0.5, 1.5, 3.0]), np.zeros(3), np.ones(3))
    np.testing.assert_array_equal(in_float64(student.mean)(), [np.nan, 0.0, 0.0])
    np.testing.assert_allclose(in_float64(student.variance)(), [np.inf, np.inf, 3.0], rtol=1e-15)
    spread = SpreadMarginal(Gamma.from_shape_rate([0.4, 0.8, 1.5], 1.0), np.ones(3))
    np.testing.assert_array_equal(np.isinf(in_float64(spread.mean)()), [True, False, False])
    np.testing.assert_array_equal(np.isinf(in_float64(spread.variance)()), [True, True, False])


def test_heavy_tails_have_quantiles():
    cauchy = StudentMarginal(np.array(1.0), np.array(2.0), np.array(3.0))
    for probability in (0.001, 0.3, 0.9999):
        wanted = scipy.stats.cauchy(2.0, 3.0).ppf(probability)
        found = in_float64(jax.jit(cauchy.quantile))(probability)
        assert found == pytest.approx(wanted, rel=1e-8)


def test_mixture():
    weights = np.array([0.2, 0.5, 0.3])
    members, reference = MARGINALS["student"]
    mixture = MixtureMarginal(weights=weights, members=members)
    mean = weights @ reference.mean()
    variance = weights @ (reference.var() + (reference.mean() - mean) ** 2)
    assert in_float64(mixture.mean)() == pytest.approx(mean, rel=1e-14)
    assert in_float64(mixture.variance)() == pytest.approx(variance, rel=1e-9)
    for x in (-3.0, 0.1, 6.0):
        assert in_float64(mixture.cdf)(x) == pytest.approx(weights @ reference.cdf(x), rel=1e-10)
    median = in_float64(jax.jit(mixture.quantile))(0.5)
    assert weights @ reference.cdf(median) == pytest.approx(0.5, rel=1e-10)


@pytest.fixture
def draws():
    """Seven weighted draws of each of two quantities."""
    rng = np.random.default_rng(8)
    weights = rng.dirichlet(np.ones(7), 2).T
    return WeightedDraws(weights, rng.normal([0.0, 50.0], [1.0, 9.0], (7, 2)))


def test_moments_of_weighted_draws(draws):
    means = [np.average(draws.values[:, k], weights=draws.weights[:, k]) for k in range(2)]
    spread = [
        np.average((draws.values[:, k] - means[k]) ** 2, weights=draws.weights[:, k])
        for k in range(2)
    ]
    np.testing.assert_allclose(in_float64(draws.mean)(), means, rtol=1e-14)
    np.testing.assert_allclose(in_float64(draws.variance)(), spread, rtol=1e-13)


def test_quantiles_of_weighted_draws_are_draws(draws):
    """The least draw up to which the weights reach the probability; axes of probabilities lead."""
    probabilities = np.array([0.0001, 0.05, 0.4, 0.95, 1.0])
    found = in_float64(jax.jit(draws.quantile))(probabilities[:, None])
    assert found.shape == (5, 2)
    for k in range(2):
        order = np.argsort(draws.values[:, k])
        reached = np.cumsum(draws.weights[order, k])
        wanted = [
            draws.values[order[min(np.searchsorted(reached, p), 6)], k] for p in probabilities
        ]
        np.testing.assert_allclose(found[:, k], wanted, rtol=1e-14)


def test_distribution_function_of_weighted_draws(draws):
    at = np.concatenate([draws.values, draws.values - 1e-9, [[-1e9, -1e9], [1e9, 1e9]]])
    found = in_float64(draws.cdf)(at)
    wanted = (draws.weights * (draws.values <= at[:, None])).sum(1)
    np.testing.assert_allclose(found, wanted, rtol=1e-11, atol=1e-15)


def test_one_draw_is_a_point():
    draw = WeightedDraws(np.ones((1, 3)), np.array([[2.0, -1.0, 0.0]]))
    for probability in (0.01, 0.5, 0.99):
        found = in_float64(jax.jit(draw.quantile))(probability)
        np.testing.assert_allclose(found, [2.0, -1.0, 0.0], rtol=1e-14, atol=1e-14)
