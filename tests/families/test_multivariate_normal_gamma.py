"""MultivariateNormalGamma against SciPy and NormalGamma, in other units, and at shapes from 1e-8 to 1e12."""

import jax
import mpmath
import numpy as np
import pytest
import scipy.stats

from streambayes._core.precision import float64_scope
from streambayes.families import (
    MeanPrecision,
    MultivariateNormal,
    MultivariateNormalGamma,
    NormalGamma,
)
from tests.families._exact import error, exact, gamma_kl, relative

SCALE = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 4.0]])
MEAN = np.array([1.0, -2.0, 0.5])
SHAPES = np.array([1e-8, 0.5, 10.0, 1e6, 1e12])
POINT = MeanPrecision(np.array([0.7, -2.5, 0.1]), np.array(0.3))
# units of a regression: every coefficient in its own, the first takes up the origins of the others
MATRIX = np.array([[0.5, -3.0, 0.2], [0.0, 10.0, 0.0], [0.0, 0.0, 0.04]])
OFFSET, FACTOR = np.array([7.0, 0.0, 0.0]), -0.5


def make(shape=0.8, rate=2.0, mean=MEAN, scale=SCALE):
    return MultivariateNormalGamma.from_shape_rate_mean_scale(shape, rate, mean, scale)


def extreme(shape=1.0, rate=1.0, mean=0.0, scale=1.0):
    """Members of all shapes whose rates and scales grow with them."""
    matrices = SHAPES[:, None, None] * (scale * SCALE)
    return make(SHAPES * shape, SHAPES * rate, MEAN + mean, matrices)


def precise(matrix):
    return mpmath.matrix([[exact(x) for x in row] for row in np.asarray(matrix)])


def gap(one, two):
    return mpmath.matrix([exact(a) - exact(b) for a, b in zip(one, two, strict=True)])


def members(batch):
    """Each member of a batch in numbers that a reference can take."""
    gamma = batch.precision
    return zip(gamma.shape, gamma.rate, batch.location, batch.scale, strict=True)


def reference_kl(one, two):
    (a, b, m, k), (c, d, n, j) = one, two
    ratio = precise(j) * precise(k) ** -1
    trace = sum(ratio[i, i] for i in range(ratio.rows))
    apart = gap(m, n)
    distance = exact(a) / exact(b) * (apart.T * precise(j) * apart)[0]
    normal = trace - ratio.rows - mpmath.log(mpmath.det(ratio)) + distance
    return gamma_kl(a, b, c, d) + normal / 2


def test_density():
    x = MeanPrecision(np.random.default_rng(0).normal(size=(5, 3)), np.geomspace(1e-2, 1e2, 5))
    gamma = scipy.stats.gamma(0.8, scale=1 / 2.0).logpdf(x.precision)
    normal = [
        scipy.stats.multivariate_normal(MEAN, np.linalg.inv(tau * SCALE)).logpdf(b)
        for b, tau in zip(*x, strict=True)
    ]
    np.testing.assert_allclose(make().log_prob(x), gamma + normal, rtol=1e-12)


def test_conversion():
    member = make(shape=[0.8, 9.0])
    assert member.batch_shape == (2,)
    product = SCALE @ MEAN
    wanted = product, -SCALE / 2, -2.0 - MEAN @ product / 2
    for value, expected in zip(member.naturals(), wanted, strict=False):
        np.testing.assert_allclose(value, [expected, expected], rtol=1e-15)
    np.testing.assert_allclose(member.naturals()[3], [1.3, 9.5], rtol=1e-15)
    np.testing.assert_allclose(member.precision.shape, [0.8, 9.0], rtol=1e-15)
    np.testing.assert_allclose(member.precision.rate, 2.0, rtol=1e-14)
    np.testing.assert_allclose(member.location, [MEAN, MEAN], rtol=1e-14)
    np.testing.assert_array_equal(member.scale, [SCALE, SCALE])


def test_one_coefficient_is_a_normal_gamma():
    def both(shape, rate, mean, scale):
        flat = NormalGamma.from_shape_rate_mean_scale(shape, rate, mean, scale)
        return make(shape, rate, np.reshape(mean, (-1, 1)), np.reshape(scale, (-1, 1, 1))), flat

    one, flat = both([1.3, 1e6], [0.4, 3e6], [2.0, 0.5], [3.0, 70.0])
    two, other = both([20.0, 2e6], [9.0, 5e6], [-1.0, 0.4], [0.1, 71.0])
    x = MeanPrecision(np.array([1.0, 0.49]), np.array([2.5, 0.3]))
    point = MeanPrecision(x.mean[:, None], x.precision)
    draws, flat_draws = (each.sample(np.random.default_rng(0), 4) for each in (one, flat))
    shift, factor = 7.0, -0.1
    moved = one.rescaled([[factor]], [[1 / factor]], [shift], factor)
    pairs = [
        *zip(one.naturals(), flat.naturals(), strict=True),
        *zip(moved.naturals(), flat.rescaled(shift, factor).naturals(), strict=True),
        *zip(one.expected_stats(), flat.expected_stats(), strict=True),
        *zip(one.sufficient_stats(point), flat.sufficient_stats(x), strict=True),
        *zip(one.precision.naturals(), flat.precision.naturals(), strict=True),
        *zip(draws, flat_draws, strict=True),
        (one.scale, flat.scale),
        (one.location, flat.location),
        (one.log_normalizer(), flat.log_normalizer()),
        (one.entropy(), flat.entropy()),
        (one.kl(two), flat.kl(other)),
        (two.kl(one), other.kl(flat)),
        (one.log_prob(point), flat.log_prob(x)),
        (one.log_base_measure(point), flat.log_base_measure(x)),
        (one.expected_log_base_measure(), flat.expected_log_base_measure()),
        (one.is_proper(), flat.is_proper()),
    ]
    for mine, theirs in pairs:
        np.testing.assert_allclose(np.reshape(mine, np.shape(theirs)), theirs, rtol=1e-13)


def test_evidence_of_a_regression():
    """A row adds its statistics; what the log-normalizer gains is the density of the responses."""
    rng = np.random.default_rng(1)
    rows, response = rng.normal(size=(6, 3)), rng.normal(size=6)
    prior = make()
    update = MultivariateNormalGamma(
        rows.T @ response, -0.5 * rows.T @ rows, -0.5 * response @ response, 3.0
    )
    posterior = prior + update
    found = posterior.log_normalizer() - prior.log_normalizer() - 3.0 * np.log(2 * np.pi)
    spread = 2.0 / 0.8 * (np.eye(6) + rows @ np.linalg.inv(SCALE) @ rows.T)
    student = scipy.stats.multivariate_t(rows @ MEAN, spread, 2 * 0.8)
    assert found == pytest.approx(student.logpdf(response), rel=1e-12)
    total = SCALE + rows.T @ rows
    centre = np.linalg.solve(total, SCALE @ MEAN + rows.T @ response)
    np.testing.assert_allclose(posterior.location, centre, rtol=1e-12)
    assert posterior.precision.shape == pytest.approx(3.8, rel=1e-14)


def test_rescaled():
    member, inverse = make(), np.linalg.inv(MATRIX)
    moved = member.rescaled(MATRIX, inverse, OFFSET, FACTOR)
    image = MeanPrecision(MATRIX @ POINT.mean + OFFSET, POINT.precision / FACTOR**2)
    # d(b): |det T|; d(tau): f^-2
    jacobian = np.linalg.slogdet(MATRIX)[1] - 2 * np.log(abs(FACTOR))
    before = member.log_prob(POINT)
    assert moved.log_prob(image) + jacobian == pytest.approx(before, rel=1e-11)
    np.testing.assert_allclose(moved.location, MATRIX @ MEAN + OFFSET, rtol=1e-12)
    assert moved.precision.shape == pytest.approx(0.8, rel=1e-15)
    assert moved.precision.rate == pytest.approx(2.0 * FACTOR**2, rel=1e-10)
    made = make(
        0.8, 2.0 * FACTOR**2, MATRIX @ MEAN + OFFSET, FACTOR**2 * inverse.T @ SCALE @ inverse
    )
    back = moved.rescaled(inverse, MATRIX, -inverse @ OFFSET, 1 / FACTOR)
    for found, wanted in ((moved, made), (back, member)):
        for mine, theirs in zip(found.naturals(), wanted.naturals(), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-10)
    # divergences know no units
    other = make(3.0, 1.0, MEAN + 0.1, 2.0 * SCALE)
    after = moved.kl(other.rescaled(MATRIX, inverse, OFFSET, FACTOR))
    assert after == pytest.approx(member.kl(other), rel=1e-11)


def test_rescaling_that_rounds_nothing_is_exact():
    member = extreme()
    eye, none = np.eye(3), np.zeros(3)
    assert member.rescaled(eye, eye, none, 1.0) == member
    doubled = member.rescaled(2.0 * eye, 0.5 * eye, none, 2.0)
    assert doubled.rescaled(0.5 * eye, 2.0 * eye, none, 0.5) == member
    np.testing.assert_array_equal(doubled.scale, member.scale)


def test_rescaling_extends_a_batch_and_compiles():
    member, factors = make(), np.array([1.0, 0.5])
    moved = member.rescaled(MATRIX, np.linalg.inv(MATRIX), OFFSET, factors)
    assert moved.batch_shape == (2,)
    assert all(len(value) == 2 for value in moved.naturals())
    with float64_scope():
        compiled = jax.jit(type(member).rescaled)(
            member, MATRIX, np.linalg.inv(MATRIX), OFFSET, factors
        )
    for mine, theirs in zip(compiled.naturals(), moved.naturals(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-13)


def test_rescaled_given_the_precision():
    """At a fixed precision the coefficients are a MultivariateNormal, and move as one."""
    inverse = np.linalg.inv(MATRIX)
    member = MultivariateNormal.from_mean_precision(MEAN, SCALE)
    moved = member.rescaled(MATRIX, inverse, OFFSET)
    image = MATRIX @ POINT.mean + OFFSET
    jacobian = np.linalg.slogdet(MATRIX)[1]
    before = member.log_prob(POINT.mean)
    assert moved.log_prob(image) + jacobian == pytest.approx(before, rel=1e-12)
    np.testing.assert_allclose(moved.mean(), MATRIX @ MEAN + OFFSET, rtol=1e-12)
    np.testing.assert_allclose(moved.covariance(), MATRIX @ member.covariance() @ MATRIX.T, 1e-12)
    joint = make().rescaled(MATRIX, inverse, OFFSET, 1.0)
    for mine, theirs in zip(moved.naturals(), joint.naturals(), strict=False):
        np.testing.assert_array_equal(mine, theirs)
    assert member.rescaled(np.eye(3), np.eye(3), np.zeros(3)) == member
    assert member.rescaled(MATRIX, inverse, np.zeros((2, 3))).batch_shape == (2,)


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"matrix": np.eye(2)}, "matrix"),
        ({"inverse": np.eye(2)}, "inverse"),
        ({"offset": 0.0}, "offset"),
        ({"offset": [np.nan, 0.0, 0.0]}, "mean"),
        ({"inverse": np.zeros((3, 3))}, "scale"),
        ({"factor": 0.0}, "rate"),
        ({"offset": [1e9, 0.0, 0.0]}, "too far from 0"),
    ],
)
def test_units_that_do_not_fit_are_named(change, named):
    units = {"matrix": np.eye(3), "inverse": np.eye(3), "offset": np.zeros(3), "factor": 1.0}
    with pytest.raises(ValueError, match=rf"^MultivariateNormalGamma: .*\b{named}\b"):
        make().rescaled(**{**units, **change})
    if "factor" in change or named == "too far from 0":
        return
    units = {name: value for name, value in {**units, **change}.items() if name != "factor"}
    named = named.replace("scale", "precision")
    with pytest.raises(ValueError, match=rf"^MultivariateNormal: .*\b{named}\b"):
        MultivariateNormal.from_mean_precision(MEAN, SCALE).rescaled(**units)


def test_a_mean_out_of_reach_is_refused():
    # the terms of m'Km cancel, and with them the digits that the rate would need
    scale = np.array([[1.0, 1.0 - 1e-12], [1.0 - 1e-12, 1.0]])
    mean = np.array([1e6, -1e6])
    assert mean @ scale @ mean < 10
    with pytest.raises(ValueError, match="too far from 0"):
        make(1.0, 1.0, mean, scale)


def test_extremes():
    member = extreme()
    x = MeanPrecision(member.location * 1.1, member.precision.mean() * 1.2)
    found = zip(
        members(member),
        zip(*x, strict=True),
        zip(member.entropy(), member.log_normalizer(), member.log_prob(x), strict=True),
        strict=True,
    )
    with mpmath.workdps(70):
        for (shape, rate, mean, scale), (point, precision), values in found:
            a, b, tau = map(exact, (shape, rate, precision))
            k, apart, size = precise(scale), gap(point, mean), len(mean)
            psi, log_det = mpmath.psi(0, a), mpmath.log(mpmath.det(k))
            entropy = a + mpmath.loggamma(a) + (1 - a) * psi - mpmath.log(b)
            entropy += (size * (1 + mpmath.log(2 * mpmath.pi * b) - psi) - log_det) / 2
            assert error(values[0], entropy) < 1e-14
            parts = mpmath.loggamma(a), a * mpmath.log(b), log_det / 2
            rounding = 1e-15 * (1 + sum(map(abs, parts)))
            assert abs(values[1] - (parts[0] - parts[1] - parts[2])) < rounding
            density = a * mpmath.log(b) - mpmath.loggamma(a) + (a - 1) * mpmath.log(tau) - b * tau
            density += (log_det + size * mpmath.log(tau / (2 * mpmath.pi))) / 2
            density -= tau * (apart.T * k * apart)[0] / 2
            assert error(values[2], density) < 1e-14


@pytest.mark.parametrize(
    "change",
    [
        {"shape": 1 + 1e-6},
        {"shape": 1 + 1e-3, "rate": 1 + 1e-3},
        {"scale": 1 + 1e-9},
        {"mean": 1e-6},
        {"scale": np.array([[1.0, 0.9, 1.1], [0.9, 1.2, 1.0], [1.1, 1.0, 0.8]])},
        {"shape": 1e3, "rate": 1e-3, "mean": 2.0, "scale": 1e4},
    ],
)
def test_divergence(change):
    first, second = extreme(), extreme(**change)
    assert (first.kl(first) == 0).all()
    with mpmath.workdps(70):
        for one, two, value in zip(members(first), members(second), first.kl(second), strict=True):
            assert relative(value, reference_kl(one, two)) < 1e-12


@pytest.mark.parametrize("size", [2, 12])
@pytest.mark.parametrize("number", [1e4, 1e8, 1e12])
def test_near_singularity(size, number):
    """Twelve coefficients take the loop that is not unrolled."""
    rng = np.random.default_rng(2)
    axes, _ = np.linalg.qr(rng.normal(size=(size, size)))
    matrix = (axes * np.geomspace(1.0, 1.0 / number, size)) @ axes.T
    scale = 0.5 * (matrix + matrix.T)
    one, two = make(3.0, 2.0, np.ones(size), scale), make(5.0, 1.0, np.zeros(size), np.eye(size))
    assert one.is_proper()
    assert one.kl(one) == 0
    x = MeanPrecision(np.zeros(size), np.array(2.0))
    values = [one.log_normalizer(), one.entropy(), one.log_prob(x), *one.expected_stats()]
    assert all(np.isfinite(value).all() for value in values)
    with mpmath.workdps(80):
        for mine, theirs in ((one, two), (two, one)):
            numbers = [
                (m.precision.shape, m.precision.rate, m.location, m.scale) for m in (mine, theirs)
            ]
            # a rounding times the condition number
            assert relative(mine.kl(theirs), reference_kl(*numbers)) < 1e-15 * number
