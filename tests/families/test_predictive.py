"""Distributions of values to come against SciPy, and the one without a closed form against integrals."""

import itertools

import jax
import mpmath
import numpy as np
import pytest
import scipy.integrate
import scipy.stats

from streambayes._core.precision import in_float64
from streambayes.families import (
    Gamma,
    Lomax,
    MixtureMarginal,
    NegativeBinomial,
    NoisyNormal,
    NormalMarginal,
    StudentMarginal,
)

LOCATION, SCALE = np.array([0.0, -2.0, 5.0]), np.array([1.0, 0.3, 2.0])
DEGREES = np.array([3.0, 12.0, 1e9])
SHAPE, RATE = np.array([2.5, 30.0, 1e6]), np.array([0.1, 4.0, 2e5])
GAMMA = Gamma.from_shape_rate(SHAPE, RATE)
VARIANCE = np.array([0.02, 0.5, 7.0])

KNOWN = {
    "normal": (NormalMarginal(LOCATION, SCALE), scipy.stats.norm(LOCATION, SCALE)),
    "student": (StudentMarginal(DEGREES, LOCATION, SCALE), scipy.stats.t(DEGREES, LOCATION, SCALE)),
    "negative binomial": (NegativeBinomial(GAMMA), scipy.stats.nbinom(SHAPE, RATE / (1 + RATE))),
    "lomax": (Lomax(GAMMA), scipy.stats.lomax(SHAPE, scale=RATE)),
}
NOISY = NoisyNormal(LOCATION, VARIANCE, GAMMA)
CONTINUOUS = {name: KNOWN[name][0] for name in ("normal", "student", "lomax")} | {"noisy": NOISY}
ALL = CONTINUOUS | {"negative binomial": KNOWN["negative binomial"][0]}
SHAPES = (0.5, 1.0, 3.0, 50.0, 1e4, 1e10)


def expected(function, variance, shape, rate):
    """Expectation of a function of the deviation of y, by integrals over u = ln(rate tau / shape)."""
    width = 1 / np.sqrt(shape)
    reach = 36 / shape + 9 * width
    ends = (-reach, -2 * width, 0.0, 2 * width, 2 * width + np.log1p(reach))

    def density(u):
        series = 0.5 * u**2 * (1 + u / 3 * (1 + u / 4 * (1 + u / 5 * (1 + u / 6))))
        return np.exp(-shape * (series if abs(u) < 1e-3 else np.expm1(u) - u))

    def product(u):
        return density(u) * function(np.sqrt(variance + rate / shape * np.exp(-u)))

    numerator, denominator = (
        sum(
            scipy.integrate.quad(integrand, *piece, epsabs=0, epsrel=1e-11, limit=200)[0]
            for piece in itertools.pairwise(ends)
        )
        for integrand in (product, density)
    )
    return numerator / denominator


@pytest.mark.parametrize("name", KNOWN)
def test_moments_and_distribution(name):
    predictive, reference = KNOWN[name]
    np.testing.assert_allclose(in_float64(predictive.mean)(), reference.mean(), rtol=1e-10)
    np.testing.assert_allclose(in_float64(predictive.variance)(), reference.var(), rtol=1e-8)
    np.testing.assert_allclose(in_float64(predictive.deviation)(), reference.std(), rtol=1e-8)
    log_density = getattr(reference, "logpmf" if name == "negative binomial" else "logpdf")
    x = reference.ppf(np.array([0.001, 0.2, 0.5, 0.999])[:, None])  # rows lead the batch
    np.testing.assert_allclose(in_float64(predictive.log_prob)(x), log_density(x), rtol=1e-8)
    np.testing.assert_allclose(in_float64(predictive.cdf)(x), reference.cdf(x), rtol=1e-7)


@pytest.mark.parametrize("shape", SHAPES)
def test_noisy_normal_is_the_integral_over_its_precision(shape):
    rate = 2.0 * shape
    for variance in (1e-3, 1.0, 300.0):
        noisy = NoisyNormal(np.array(1.0), np.array(variance), Gamma.from_shape_rate(shape, rate))
        for steps in (0.0, 0.7, 2.0, 5.0):
            distance = steps * np.sqrt(variance + 2.0)
            law = (variance, shape, rate)
            density = expected(lambda scale, d=distance: normal_density(d / scale) / scale, *law)
            below = expected(lambda scale, d=distance: scipy.special.ndtr(-d / scale), *law)
            found = np.exp(in_float64(noisy.log_prob)(1.0 + distance))
            assert found == pytest.approx(density, rel=1e-10)
            assert in_float64(noisy.cdf)(1.0 - distance) == pytest.approx(below, rel=1e-10)
            assert in_float64(noisy.cdf)(1.0 + distance) == pytest.approx(1 - below, rel=1e-10)


def normal_density(z):
    return np.exp(-0.5 * z**2) / np.sqrt(2 * np.pi)


@pytest.mark.parametrize("shape", SHAPES)
def test_noisy_normal_without_variance_is_a_student_far_out_too(shape):
    gamma = Gamma.from_shape_rate(shape, 3.0 * shape)
    noisy = NoisyNormal(np.array(1.0), np.array(0.0), gamma)
    student = StudentMarginal(np.array(2 * shape), np.array(1.0), np.sqrt(3.0))
    x = 1.0 + np.sqrt(3.0) * np.array([-30.0, -3.0, -0.5, 0.0, 1.0, 8.0])
    found, wanted = (in_float64(each.log_prob)(x) for each in (noisy, student))
    np.testing.assert_allclose(found, wanted, rtol=1e-9, atol=1e-9)
    found, wanted = (in_float64(each.cdf)(x[1:]) for each in (noisy, student))
    np.testing.assert_allclose(found, wanted, rtol=1e-7 if shape < 1e8 else 1e-6)


def test_noisy_normal_with_a_known_precision_is_normal():
    noisy = NoisyNormal(LOCATION, VARIANCE, Gamma.from_shape_rate(1e14, 2e14))
    normal = scipy.stats.norm(LOCATION, np.sqrt(VARIANCE + 2.0))
    x = normal.ppf(np.array([1e-6, 0.3, 0.9])[:, None])
    np.testing.assert_allclose(in_float64(noisy.log_prob)(x), normal.logpdf(x), rtol=1e-11)
    np.testing.assert_allclose(in_float64(noisy.cdf)(x), normal.cdf(x), rtol=1e-11)


def test_noisy_normal_scores_an_outlier_by_the_tail_of_the_noise():
    # fifty thousand deviations away the tail of the noise is all that is left
    gamma = Gamma.from_shape_rate(5.0, 5.0)
    noisy = NoisyNormal(np.array(0.0), np.array(1.0), gamma)
    student = StudentMarginal(np.array(10.0), np.array(0.0), np.array(1.0))
    assert in_float64(noisy.log_prob)(5e4) == pytest.approx(
        in_float64(student.log_prob)(5e4), abs=1e-6
    )


@pytest.mark.parametrize("degrees", [0.5, 1.0, 7.0, 1e3, 1e6, 1e12])
def test_log_density_of_a_student_keeps_its_digits(degrees):
    student = StudentMarginal(np.array(degrees), np.array(2.0), np.array(3.0))
    for t in (0.0, 1e-3, 2.0, 40.0):
        with mpmath.workdps(40):
            nu = mpmath.mpf(degrees)
            constant = mpmath.loggamma((nu + 1) / 2) - mpmath.loggamma(nu / 2)
            constant -= mpmath.log(mpmath.pi * nu * 9) / 2
            wanted = float(constant - (nu + 1) / 2 * mpmath.log1p(mpmath.mpf(t) ** 2 / nu))
        assert in_float64(student.log_prob)(2.0 + 3.0 * t) == pytest.approx(wanted, rel=1e-13)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_densities_integrate_to_one(name):
    predictive = CONTINUOUS[name]
    step = 1e-2
    z = np.arange(-36.0, 36.0, step)[:, None]
    if name == "lomax":
        distance, x = RATE / SHAPE * np.exp(z), RATE / SHAPE * np.exp(z)
    else:
        spread = in_float64(predictive.deviation)()
        distance, x = spread * np.cosh(z), LOCATION + spread * np.sinh(z)
    total = step * (np.exp(in_float64(predictive.log_prob)(x)) * distance).sum(0)
    np.testing.assert_allclose(total, 1.0, rtol=1e-10)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_quantiles_invert_the_distribution_function(name):
    predictive = CONTINUOUS[name]
    probability = np.array([1e-4, 0.3, 0.5, 0.975])[:, None]
    x = in_float64(jax.jit(predictive.quantile))(probability)
    found = in_float64(predictive.cdf)(x)
    np.testing.assert_allclose(found, np.broadcast_to(probability, x.shape), rtol=1e-8)


@pytest.mark.parametrize(
    ("shape", "rate"),
    [(0.05, 1.0), (0.5, 1e-8), (3.0, 1e6), (50.0, 10.0), (1e6, 1.0), (1e10, 1e10), (1e10, 1.0)],
)
def test_quantiles_of_counts_are_the_least_that_reach_it(shape, rate):
    count = NegativeBinomial(Gamma.from_shape_rate(shape, rate))
    for probability in (0.01, 0.5, 0.9999):
        found = in_float64(jax.jit(count.quantile))(probability)
        assert found == np.floor(found) >= 0
        assert in_float64(count.cdf)(found) >= probability
        assert in_float64(count.cdf)(found - 1) < probability


def test_masses_of_counts_add_up():
    for shape, rate in ((0.3, 0.01), (4.0, 0.7), (1e12, 1e11)):
        count = NegativeBinomial(Gamma.from_shape_rate(shape, rate))
        masses = np.exp(in_float64(count.log_prob)(np.arange(5000.0)))
        assert masses.sum() == pytest.approx(1.0, rel=1e-12)
        found = in_float64(count.cdf)(np.arange(5000.0) + 0.5)
        np.testing.assert_allclose(found, np.cumsum(masses), rtol=1e-11)


@pytest.mark.parametrize(("shape", "rate"), [(3e5, 3.0), (1e8, 1e4), (1e10, 1.0), (2.0, 1e-7)])
def test_counts_of_large_shapes_keep_their_digits(shape, rate):
    count = NegativeBinomial(Gamma.from_shape_rate(shape, rate))
    mean, spread = shape / rate, np.sqrt(shape / rate * (1 + 1 / rate))
    k = np.floor(mean + spread * np.array([-1.3, 0.0, 0.4, 3.0]))
    with mpmath.workdps(40):
        a, b = mpmath.mpf(shape), mpmath.mpf(rate)
        wanted = [
            float(
                mpmath.loggamma(a + n)
                - mpmath.loggamma(a)
                - mpmath.loggamma(n + 1)
                - a * mpmath.log1p(1 / b)
                - n * mpmath.log1p(b)
            )
            for n in map(mpmath.mpf, map(float, k))
        ]
    np.testing.assert_allclose(in_float64(count.log_prob)(k), wanted, rtol=1e-10)
    reference = scipy.stats.nbinom(shape, rate / (1 + rate))
    np.testing.assert_allclose(in_float64(count.cdf)(k), reference.cdf(k), rtol=1e-9)


def test_counts_of_a_known_rate_are_poisson():
    count = NegativeBinomial(Gamma.from_shape_rate(4e13, 1e13))
    k = np.arange(20.0)
    reference = scipy.stats.poisson(4.0)
    np.testing.assert_allclose(in_float64(count.log_prob)(k), reference.logpmf(k), rtol=1e-11)
    np.testing.assert_allclose(in_float64(count.cdf)(k), reference.cdf(k), rtol=1e-11)


def test_nothing_lies_outside_the_support():
    count, wait = ALL["negative binomial"], ALL["lomax"]
    for predictive, outside in ((count, (-1.0, -0.5, 2.5)), (wait, (-1.0, -1e-9))):
        for x in outside:
            np.testing.assert_array_equal(in_float64(predictive.log_prob)(x), -np.inf)
        np.testing.assert_array_equal(in_float64(predictive.cdf)(-0.5), 0.0)
    np.testing.assert_array_equal(in_float64(count.cdf)(2.5), in_float64(count.cdf)(2.0))
    np.testing.assert_allclose(in_float64(wait.log_prob)(0.0), np.log(SHAPE / RATE), rtol=1e-14)


def test_moments_that_do_not_exist():
    noise = Gamma.from_shape_rate([0.5, 0.8, 3.0], 2.0)
    noisy = NoisyNormal(np.ones(3), np.array([4.0, 4.0, 4.0]), noise)
    np.testing.assert_array_equal(in_float64(noisy.mean)(), [np.nan, 1.0, 1.0])
    np.testing.assert_array_equal(in_float64(noisy.variance)(), [np.inf, np.inf, 5.0])
    wait = Lomax(Gamma.from_shape_rate([0.5, 1.5, 3.0], 2.0))
    np.testing.assert_array_equal(in_float64(wait.mean)(), [np.inf, 4.0, 1.0])
    np.testing.assert_allclose(in_float64(wait.variance)(), [np.inf, np.inf, 3.0], rtol=1e-15)


@pytest.mark.parametrize("name", CONTINUOUS)
def test_moved(name):
    predictive, factor = CONTINUOUS[name], np.array([0.01, 3.0, 250.0])
    shift = np.array([0.0, 40.0, -7.0]) * (name != "lomax")
    arguments = (factor,) if name == "lomax" else (shift, factor)
    moved = in_float64(predictive.moved)(*arguments)
    x = in_float64(jax.jit(predictive.quantile))(np.array([0.1, 0.8])[:, None])
    found, wanted = (
        in_float64(each.cdf)(y) for each, y in ((moved, shift + factor * x), (predictive, x))
    )
    np.testing.assert_allclose(found, wanted, rtol=1e-10)
    found = in_float64(moved.log_prob)(shift + factor * x) + np.log(factor)
    np.testing.assert_allclose(found, in_float64(predictive.log_prob)(x), rtol=1e-10, atol=1e-12)
    found = in_float64(moved.deviation)()
    np.testing.assert_allclose(found, factor * in_float64(predictive.deviation)(), rtol=1e-12)


@pytest.mark.parametrize("name", ALL)
def test_compiled_one_by_one(name):
    predictive, x = ALL[name], np.array([[1.0, 2.0, 5.0], [3.0, 0.0, 4.0]])
    for method in ("log_prob", "cdf"):

        def rows(each, values, method=method):
            return getattr(each, method)(values)

        found = in_float64(jax.jit(jax.vmap(rows, in_axes=(0, 1), out_axes=1)))(predictive, x)
        np.testing.assert_allclose(found, in_float64(getattr(predictive, method))(x), rtol=1e-13)


@pytest.mark.parametrize("name", ALL)
def test_mixture(name):
    weights, members = np.array([0.2, 0.5, 0.3]), ALL[name]
    mixture = MixtureMarginal(weights=weights, members=members)
    means, variances = in_float64(members.mean)(), in_float64(members.variance)()
    mean = weights @ means
    assert in_float64(mixture.mean)() == pytest.approx(mean, rel=1e-14)
    variance = weights @ (variances + (means - mean) ** 2)
    assert in_float64(mixture.variance)() == pytest.approx(variance, rel=1e-13)
    x = in_float64(jax.jit(mixture.quantile))(0.7)
    reached = weights @ in_float64(members.cdf)(x)
    assert in_float64(mixture.cdf)(x) == pytest.approx(reached, rel=1e-13)
    if name in CONTINUOUS:
        assert reached == pytest.approx(0.7, rel=1e-10)
    else:
        assert x == np.floor(x)
        assert reached >= 0.7 > weights @ in_float64(members.cdf)(x - 1)


def test_rows_lead_the_batch_of_the_precision():
    rows = np.array([[0.0], [1.0], [4.0], [9.0]])
    location, variance = rows + LOCATION, 0.1 * rows + VARIANCE
    noisy = NoisyNormal(location, variance, GAMMA)
    spread_out = NoisyNormal(location, variance, GAMMA.broadcast_to(location.shape))
    for method in ("log_prob", "cdf", "quantile"):
        found, wanted = (
            in_float64(jax.jit(getattr(each, method)))(0.4) for each in (noisy, spread_out)
        )
        assert found.shape == location.shape
        np.testing.assert_allclose(found, wanted, rtol=1e-13)
    for method in ("mean", "variance"):
        found, wanted = (in_float64(getattr(each, method))() for each in (noisy, spread_out))
        np.testing.assert_array_equal(found, wanted)
    # a bank of four members, each with one precision for five rows
    bank = NoisyNormal(
        np.ones((4, 5)), np.ones((4, 5)), Gamma.from_shape_rate(np.arange(2.0, 6), 1)
    )
    mixture = MixtureMarginal(weights=np.full((4, 1), 0.25), members=bank)
    assert in_float64(mixture.variance)() == pytest.approx(np.full(5, 1 + 25 / 12 / 4), rel=1e-14)
    assert in_float64(jax.jit(mixture.quantile))(0.5) == pytest.approx(np.ones(5), abs=1e-9)


@pytest.mark.parametrize(
    ("shape", "digits"), [(3.0, 1e-3), (10.0, 5e-6), (100.0, 1e-11), (1e6, 1e-13)]
)
@pytest.mark.parametrize("variance", [0.0, 0.1, 5.0])
def test_quantiles_by_few_nodes(shape, digits, variance):
    gamma = Gamma.from_shape_rate(shape, 2.0 * shape)
    tails = np.array([0.25, 0.05, 0.995, 5e-4, 5e-8])
    full, few = (NoisyNormal(np.array(1.0), np.array(variance), gamma, nodes) for nodes in (96, 24))
    np.testing.assert_allclose(
        in_float64(few.quantile)(tails) - 1.0, in_float64(full.quantile)(tails) - 1.0, rtol=digits
    )


def test_quantiles_of_a_mixture_of_normals():
    mixture = MixtureMarginal(np.array([0.5, 0.499, 0.001]), NormalMarginal(LOCATION, SCALE))
    tails = np.array([1e-9, 0.01, 0.25, 0.4995, 0.5, 0.75, 0.9999])
    points = in_float64(jax.jit(mixture.quantile))(tails)
    np.testing.assert_allclose(in_float64(mixture.cdf)(points), tails, rtol=1e-9)
