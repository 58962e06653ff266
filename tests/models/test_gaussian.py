"""Gaussian models against the textbook, with and without scaling."""

import numpy as np
import pytest
from scipy import stats

import streambayes as sb


@pytest.fixture
def rows():
    rng = np.random.default_rng(3)
    return rng.multivariate_normal([50.0, -2.0], [[9.0, 1.5], [1.5, 1.0]], 25)


def textbook(x, shape, rate, mean, scale):
    """NormalGamma after rows x."""
    n, centre = len(x), x.mean()
    kappa = scale + n
    location = (scale * mean + n * centre) / kappa
    spread = 0.5 * ((x - centre) ** 2).sum()
    pull = 0.5 * scale * n * (centre - mean) ** 2 / kappa
    return shape + n / 2, rate + spread + pull, location, kappa


@pytest.mark.parametrize("scale", [True, False, {"x": (48.0, 2.0)}])
def test_posterior_of_independent_columns_in_users_units(rows, scale):
    prior = sb.NormalGamma.from_shape_rate_mean_scale(1.5, 2.0, [40.0, 1.0], [0.3, 2.0])
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB(), prior=prior, scale=scale)
    state, _ = learner.step(learner.init(rows), rows)
    posterior = state.posterior["x, y"]
    for place, (mean, kappa) in enumerate([(40.0, 0.3), (1.0, 2.0)]):
        x = rows[:, place]
        shape, rate, location, strength = textbook(x, 1.5, 2.0, mean, kappa)
        found = (
            posterior.precision.shape[place],
            posterior.precision.rate[place],
            posterior.location[place],
            posterior.scale[place],
        )
        assert found == pytest.approx((shape, rate, location, strength), rel=1e-11)


def test_predictive_is_student_t(rows):
    model = sb.models.Gaussian(["x", "y"])
    prior = sb.NormalGamma.from_shape_rate_mean_scale(1.5, 2.0, [40.0, 1.0], [0.3, 2.0])
    learner = sb.StreamLearner(model, sb.SVB(), prior=prior)
    state, _ = learner.step(learner.init(rows), rows)
    expected = np.zeros(len(rows))
    for place, (mean, kappa) in enumerate([(40.0, 0.3), (1.0, 2.0)]):
        shape, rate, location, strength = textbook(rows[:, place], 1.5, 2.0, mean, kappa)
        spread = np.sqrt(rate * (strength + 1) / (shape * strength))
        expected += stats.t(2 * shape, location, spread).logpdf(rows[:, place])
    np.testing.assert_allclose(learner.log_predictive(state, rows), expected, rtol=1e-10)


def test_default_prior_is_on_the_scaled_column(rows):
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    state = learner.init(rows[:, 0])
    centre, width = rows[:, 0].mean(), rows[:, 0].std()
    prior = state.posterior["x"]
    found = (prior.location[0], prior.precision.shape[0], prior.precision.rate[0], prior.scale[0])
    assert found == pytest.approx((centre, 1.0, width**2, 1.0), rel=1e-12)


def test_multivariate_posterior_and_predictive(rows):
    scatter = np.array([[2.0, 0.3], [0.3, 1.0]])
    prior = sb.NormalWishart.from_degrees_scatter_mean_scale(4.0, scatter, [45.0, 0.0], 0.5)
    learner = sb.StreamLearner(sb.models.MultivariateGaussian(["x", "y"]), sb.SVB(), prior=prior)
    state, _ = learner.step(learner.init(rows), rows)
    posterior = state.posterior["x, y"]
    n, centre = len(rows), rows.mean(0)
    kappa, degrees = 0.5 + n, 4.0 + n
    gap = centre - np.array([45.0, 0.0])
    location = (0.5 * np.array([45.0, 0.0]) + n * centre) / kappa
    spread = scatter + (rows - centre).T @ (rows - centre) + 0.5 * n / kappa * np.outer(gap, gap)
    np.testing.assert_allclose(posterior.degrees, degrees, rtol=1e-12)
    np.testing.assert_allclose(posterior.location, location, rtol=1e-11)
    np.testing.assert_allclose(posterior.scatter, spread, rtol=1e-10)
    student = stats.multivariate_t(
        location, spread * (kappa + 1) / (kappa * (degrees - 1)), df=degrees - 1
    )
    np.testing.assert_allclose(
        learner.log_predictive(state, rows), student.logpdf(rows), rtol=1e-10
    )
    summary = state.summary()
    t = stats.t(degrees - 1, location[0], np.sqrt(spread[0, 0] / (kappa * (degrees - 1))))
    row = summary["mean of x"]
    assert (row.mean, row.sd) == pytest.approx((t.mean(), t.std()), rel=1e-10)
    assert (row.lower, row.upper) == pytest.approx(t.ppf([0.05, 0.95]), rel=1e-9)
    gamma = stats.invgamma((degrees - 1) / 2, scale=spread[1, 1] / 2)
    row = summary["standard deviation of y"]
    assert (row.lower, row.upper) == pytest.approx(np.sqrt(gamma.ppf([0.05, 0.95])), rel=1e-9)


def test_one_column_is_the_same_with_either_model(rows):
    wishart = sb.NormalWishart.from_degrees_scatter_mean_scale(3.0, [[4.0]], [45.0], 0.5)
    gamma = sb.NormalGamma.from_shape_rate_mean_scale(1.5, 2.0, 45.0, 0.5)
    one = sb.StreamLearner(sb.models.MultivariateGaussian("x"), sb.HPP(), prior=wishart)
    other = sb.StreamLearner(sb.models.Gaussian("x"), sb.HPP(), prior=gamma)
    first, second = rows[:12, 0], rows[12:, 0] + 20.0
    mine, theirs = one.init(first), other.init(first)
    for batch in (first, second):
        mine, info = one.step(mine, batch)
        theirs, other_info = other.step(theirs, batch)
        assert (info.bound, info.rho) == pytest.approx((other_info.bound, other_info.rho), rel=1e-9)


@pytest.mark.parametrize("names", [[], ["x", "x"]])
def test_columns_are_distinct(names):
    with pytest.raises(ValueError, match=r"names must be distinct|at least one name is needed"):
        sb.models.Gaussian(names)


@pytest.mark.parametrize("size", [1e-12, 1e12, 1e200])
def test_extreme_units(rows, size):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    plain, scaled = learner.init(rows), learner.init(rows * size)
    for _ in range(2):
        plain, info = learner.step(plain, rows)
        scaled, other = learner.step(scaled, rows * size)
    assert other.rho == pytest.approx(info.rho, rel=1e-9)
    assert scaled.summary()["mean of x"].mean == pytest.approx(
        plain.summary()["mean of x"].mean * size, rel=1e-9
    )


@pytest.mark.parametrize("kind", [sb.models.Gaussian, sb.models.MultivariateGaussian])
@pytest.mark.parametrize("offset", [1e7, 1.7e9, 1e12])
def test_columns_far_from_zero(rows, offset, kind):
    """Seconds since 1970 have a mean a billion times their spread."""
    learner = sb.StreamLearner(kind(["x", "y"]), sb.SVB())
    near, _ = learner.step(learner.init(rows), rows)
    moved = np.round(rows * 2**10) / 2**10  # numbers that survive the offset
    far, _ = learner.step(learner.init(moved + offset), moved + offset)
    near, _ = learner.step(learner.init(moved), moved)
    for column in ("x", "y"):
        mine = far.summary()[f"standard deviation of {column}"]
        theirs = near.summary()[f"standard deviation of {column}"]
        assert (mine.mean, mine.sd) == pytest.approx((theirs.mean, theirs.sd), rel=1e-3)
        assert far.summary()[f"mean of {column}"].sd == pytest.approx(
            near.summary()[f"mean of {column}"].sd, rel=1e-3
        )
    if offset > 1e8:
        with pytest.raises(ValueError, match="too far from 0"):
            _ = far.posterior
