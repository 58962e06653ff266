"""Beta against SciPy, and at concentrations from 1e-8 to 1e12."""

import itertools

import mpmath
import numpy as np
import scipy.stats

from streambayes.families import Beta
from tests.families._exact import error, exact

EXTREMES = np.array(list(itertools.product([1e-8, 0.5, 10.0, 1e6, 1e12], repeat=2)))


def test_density_and_moments():
    alpha, beta = np.array([0.5, 2.0, 30.0]), np.array([0.5, 7.0, 1.0])
    member, reference = Beta.from_concentrations(alpha, beta), scipy.stats.beta(alpha, beta)
    x = np.array([0.01, 0.3, 0.99])[:, None]
    np.testing.assert_allclose(member.log_prob(x), reference.logpdf(x), rtol=1e-11, atol=1e-12)
    np.testing.assert_allclose(member.entropy(), reference.entropy(), rtol=1e-10, atol=1e-12)
    np.testing.assert_allclose(member.mean(), reference.mean(), rtol=1e-14)


def test_natural_parameters_are_the_concentrations():
    member = Beta.from_concentrations(3.0, [1.0, 2.0])
    np.testing.assert_array_equal(member.naturals(), [[3.0, 3.0], [1.0, 2.0]])


def test_extremes():
    alpha, beta = EXTREMES.T
    member = Beta.from_concentrations(alpha, beta)
    found = zip(
        EXTREMES, member.log_normalizer(), member.entropy(), *member.expected_stats(), strict=True
    )
    with mpmath.workdps(70):
        for (a, b), log_normalizer, entropy, log_x, log_rest in found:
            a, b = exact(a), exact(b)  # noqa: PLW2901
            total = mpmath.psi(0, a + b)
            wanted = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
            stats = mpmath.psi(0, a) - total, mpmath.psi(0, b) - total
            assert error(log_normalizer, wanted) < 1e-14
            assert abs(log_x - stats[0]) <= 1e-15 * abs(stats[0])
            assert abs(log_rest - stats[1]) <= 1e-15 * abs(stats[1])
            assert error(entropy, wanted - (a - 1) * stats[0] - (b - 1) * stats[1]) < 1e-14


def test_density_at_extremes():
    """As precise as the point is: one rounding of x moves the density by its slope."""
    alpha, beta = EXTREMES.T
    member = Beta.from_concentrations(alpha, beta)
    mean = alpha / (alpha + beta)
    deviation = np.sqrt(mean * (1 - mean) / (alpha + beta + 1))
    for sigmas in (0.0, 1.0, -3.0):
        x = np.clip(mean + sigmas * deviation, 1e-300, 1 - 1e-16)
        with mpmath.workdps(70):
            for a, b, point, value in zip(alpha, beta, x, member.log_prob(x), strict=True):
                a, b, p = exact(a), exact(b), exact(point)  # noqa: PLW2901
                log_beta = mpmath.loggamma(a) + mpmath.loggamma(b) - mpmath.loggamma(a + b)
                wanted = (a - 1) * mpmath.log(p) + (b - 1) * mpmath.log1p(-p) - log_beta
                residual = abs(a * (1 - p) - b * p) / (1 - p)
                assert abs(value - wanted) <= 1e-14 * (1 + abs(wanted)) + 1e-15 * residual


def test_divergence_between_extremes_is_positive_and_finite():
    first, second = (Beta.from_concentrations(*EXTREMES.T[:, :, None]) for _ in range(2))
    second = Beta.from_concentrations(*EXTREMES.T[:, None, :])
    first = first.broadcast_to((len(EXTREMES), len(EXTREMES)))
    kl = first.kl(second.broadcast_to(first.batch_shape))
    assert np.isfinite(kl).all()
    assert (np.diagonal(kl) == 0).all()
    assert (kl[~np.eye(len(EXTREMES), dtype=bool)] > 0).all()
