"""The truncated normal against SciPy, and at slopes from -1e8 to 1e8."""

import mpmath
import numpy as np
import pytest
import scipy.stats

from streambayes.families import TruncatedNormal
from tests.families._exact import exact, relative

SLOPES = np.array([1e8, -1e8, 1e3, -1e3, 30.0, -30.0, 0.1, -0.1, 1e-3, -1e-12, 0.0])


def reference(slope, variance):
    """Log normalizer, mean and variance, by quadrature of seventy digits about the mode."""
    w, v = exact(slope), exact(variance)
    mode = min(max(w * v, mpmath.mpf(0)), mpmath.mpf(1))
    pull, depth = abs(w - mode / v), 200
    reach = 2 * depth / (pull + mpmath.sqrt(pull**2 + 2 * depth / v))
    points = mpmath.linspace(max(-mode, -reach), min(1 - mode, reach), 7)
    tilt = w - mode / v

    def integral(power, centre=0):
        return mpmath.quad(
            lambda o: (o - centre) ** power * mpmath.exp(tilt * o - o * o / (2 * v)), points
        )

    mass = integral(0)
    offset = integral(1) / mass
    spread = integral(2, offset) / mass
    return w * mode - mode**2 / (2 * v) + mpmath.log(mass), mode + offset, spread


def test_density_and_moments():
    mean, variance = np.array([0.5, -1.0, 2.0]), np.array([0.01, 0.3, 5.0])
    member, deviation = TruncatedNormal.from_mean_variance(mean, variance), np.sqrt(variance)
    scipys = scipy.stats.truncnorm(-mean / deviation, (1 - mean) / deviation, mean, deviation)
    x = np.array([0.0, 0.3, 1.0])[:, None]
    np.testing.assert_allclose(member.log_prob(x), scipys.logpdf(x), rtol=1e-10, atol=1e-11)
    np.testing.assert_allclose(member.cdf(x), scipys.cdf(x), rtol=1e-10, atol=1e-14)
    np.testing.assert_allclose(member.mean(), scipys.mean(), rtol=1e-10)
    np.testing.assert_allclose(member.variance(), scipys.var(), rtol=1e-8)
    assert (member.log_prob(np.full((1, 3), 1.5)) == -np.inf).all()


def test_conversion():
    member = TruncatedNormal.from_mean_variance(0.3, [0.1, 0.2])
    np.testing.assert_allclose(member.slope * member.variance_before, 0.3, rtol=1e-15)
    moved = member.with_slope(np.array([1.0, 2.0]))
    np.testing.assert_array_equal(moved.variance_before, member.variance_before)
    np.testing.assert_array_equal(moved.slope, [1.0, 2.0])


@pytest.mark.parametrize("variance", [0.1, 1e-4, 10.0])
def test_extremes(variance):
    member = TruncatedNormal(slope=SLOPES, variance_before=np.full(len(SLOPES), variance))
    columns = (member.log_normalizer(), member.mean(), member.variance())
    with mpmath.workdps(40):
        for slope, log_normalizer, mean, spread in zip(SLOPES, *columns, strict=True):
            wanted = reference(slope, variance)
            assert relative(log_normalizer, wanted[0]) < 1e-13
            assert relative(mean, wanted[1]) < 1e-13
            assert relative(spread, wanted[2]) < 1e-13


@pytest.mark.parametrize("step", [1e-9, 1e-3, 0.7, -2.0])
def test_divergence(step):
    first, variance = SLOPES[[0, 1, 3, 4]], 0.1
    others = first * (1 + step)
    spread = np.full(len(first), variance)
    found = TruncatedNormal(slope=first, variance_before=spread).kl(
        TruncatedNormal(slope=others, variance_before=spread)
    )
    with mpmath.workdps(60):
        for slope, other, value in zip(first, others, found, strict=True):
            mine, theirs = reference(slope, variance), reference(other, variance)
            wanted = (exact(slope) - exact(other)) * mine[1] - mine[0] + theirs[0]
            assert relative(value, wanted) < 1e-11
