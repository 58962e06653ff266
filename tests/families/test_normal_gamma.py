"""NormalGamma against SciPy, in other units, and at shapes from 1e-8 to 1e12."""

import mpmath
import numpy as np
import pytest
import scipy.stats

from streambayes.families import MeanPrecision, NormalGamma
from tests.families._exact import error, exact, gamma_kl, relative

PARAMETERS = np.array([[0.8, 2.0, 1.5, 0.5], [30.0, 0.1, -4.0, 100.0]])
SHAPES = np.array([1e-8, 0.5, 10.0, 1e6, 1e12])


@pytest.fixture
def member():
    return NormalGamma.from_shape_rate_mean_scale(*PARAMETERS.T)


def extreme(shape=1.0, rate=1.0, mean=0.0, scale=1.0):
    """Members of all shapes whose rates and scales grow with them."""
    return NormalGamma.from_shape_rate_mean_scale(
        SHAPES * shape, SHAPES * rate, 0.5 + mean, SHAPES * scale
    )


def test_density(member):
    shape, rate, mean, scale = PARAMETERS.T
    x = MeanPrecision(np.array([[1.0], [-3.5]]), np.array([[0.3], [250.0]]))
    gamma = scipy.stats.gamma(shape, scale=1 / rate).logpdf(x.precision)
    normal = scipy.stats.norm(mean, 1 / np.sqrt(scale * x.precision)).logpdf(x.mean)
    np.testing.assert_allclose(member.log_prob(x), gamma + normal, rtol=1e-12)


def test_predictive(member):
    shape, rate, mean, scale = PARAMETERS.T
    x = np.array([-10.0, 0.0, 1.5, 1e4])[:, None]
    student = scipy.stats.t(2 * shape, mean, np.sqrt(rate * (scale + 1) / (shape * scale)))
    np.testing.assert_allclose(member.log_predictive(x), student.logpdf(x), rtol=1e-11)


def test_conversion(member):
    shape, rate, mean, scale = PARAMETERS.T
    np.testing.assert_allclose(
        member.naturals(),
        [mean * scale, -scale / 2, -rate - scale * mean**2 / 2, shape - 0.5],
        rtol=1e-15,
    )
    np.testing.assert_allclose(member.precision.shape, shape, rtol=1e-15)
    np.testing.assert_allclose(member.precision.rate, rate, rtol=1e-11)
    np.testing.assert_allclose(member.location, mean, rtol=1e-15)
    np.testing.assert_array_equal(member.scale, scale)


def test_rescaled(member):
    shift, factor = 7.0, -0.1
    moved = member.rescaled(shift, factor)
    x = MeanPrecision(np.array([1.0, -3.5]), np.array([0.3, 250.0]))
    image = MeanPrecision(shift + factor * x.mean, x.precision / factor**2)
    # d(mean) d(precision) = |factor| / factor^2 in the new units
    jacobian = np.log(abs(factor)) - 2 * np.log(abs(factor))
    np.testing.assert_allclose(moved.log_prob(image) + jacobian, member.log_prob(x), rtol=1e-10)
    back = moved.rescaled(-shift / factor, 1 / factor)
    for mine, theirs in zip(back.naturals(), member.naturals(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)


def test_extremes():
    member = extreme()
    gamma = member.precision
    x = MeanPrecision(member.location * 1.1, gamma.mean() * 1.2)
    columns = [gamma.shape, gamma.rate, member.location, member.scale, member.entropy()]
    columns += [member.log_normalizer(), *x, member.log_prob(x)]
    with mpmath.workdps(70):
        for *row, entropy, log_normalizer, mean, precision, log_prob in zip(*columns, strict=True):
            a, b, m, k, mu, tau = map(exact, (*row, mean, precision))
            psi = mpmath.psi(0, a)
            gamma_entropy = a + mpmath.loggamma(a) + (1 - a) * psi - mpmath.log(b)
            normal = (1 + mpmath.log(2 * mpmath.pi / k) - psi + mpmath.log(b)) / 2
            assert error(entropy, gamma_entropy + normal) < 1e-14
            parts = mpmath.loggamma(a), a * mpmath.log(b), mpmath.log(k) / 2
            size = 1 + sum(map(abs, parts))
            assert abs(log_normalizer - (parts[0] - parts[1] - parts[2])) < 1e-15 * size
            density = a * mpmath.log(b) - mpmath.loggamma(a) + (a - 1) * mpmath.log(tau) - b * tau
            density += mpmath.log(k * tau / (2 * mpmath.pi)) / 2 - k * tau * (mu - m) ** 2 / 2
            assert error(log_prob, density) < 1e-14


@pytest.mark.parametrize(
    "change",
    [
        {"shape": 1 + 1e-6},
        {"shape": 1 + 1e-3, "rate": 1 + 1e-3},
        {"scale": 1 + 1e-9},
        {"mean": 1e-9},
        {"shape": 1e3, "rate": 1e-3, "mean": 2.0, "scale": 1e6},
    ],
)
def test_divergence(change):
    first, second = extreme(), extreme(**change)
    assert (first.kl(first) == 0).all()
    both = first, second
    columns = [
        value
        for member in both
        for value in (member.precision.shape, member.precision.rate, member.location, member.scale)
    ]
    with mpmath.workdps(70):
        for *row, value in zip(*columns, first.kl(second), strict=True):
            a, b, m, k, c, d, n, j = map(exact, row)
            normal = j / k - 1 - mpmath.log(j / k) + j * a / b * (m - n) ** 2
            assert relative(value, gamma_kl(a, b, c, d) + normal / 2) < 1e-12
