"""Dirichlet against SciPy, and at concentrations from 1e-8 to 1e12."""

import mpmath
import numpy as np
import pytest
import scipy.stats

from streambayes.families import Beta, Dirichlet
from tests.families._exact import error, exact, relative

EXTREMES = [
    [1e-8, 1e-8, 1e-8],
    [1e-8, 1.0, 1e12],
    [1e12, 1e12, 1e12],
    [1e12, 1e12, 1e-8],
    [9.99, 10.0, 10.01],
    [1e6, 3e6, 0.5],
]


def reference_kl(x, y):
    x, y = [exact(v) for v in x], [exact(v) for v in y]
    gammas = sum(mpmath.loggamma(b) - mpmath.loggamma(a) for a, b in zip(x, y, strict=True))
    total = mpmath.loggamma(sum(x)) - mpmath.loggamma(sum(y))
    slope = sum(
        (a - b) * (mpmath.psi(0, a) - mpmath.psi(0, sum(x))) for a, b in zip(x, y, strict=True)
    )
    return gammas + total + slope


def test_density_and_moments():
    concentration = np.array([0.5, 2.0, 7.0])
    member, reference = (
        Dirichlet.from_concentration(concentration),
        scipy.stats.dirichlet(concentration),
    )
    x = np.array([[0.2, 0.3, 0.5], [0.01, 0.09, 0.9]])
    np.testing.assert_allclose(member.log_prob(x), [reference.logpdf(row) for row in x], rtol=1e-12)
    np.testing.assert_allclose(member.entropy(), reference.entropy(), rtol=1e-12)
    np.testing.assert_allclose(member.mean(), reference.mean(), rtol=1e-14)


def test_two_categories_are_a_beta():
    one, two = Dirichlet.from_concentration([2.0, 5.0]), Dirichlet.from_concentration([3.0, 1.0])
    beta = Beta.from_concentrations(2.0, 5.0)
    assert one.kl(two) == pytest.approx(beta.kl(Beta.from_concentrations(3.0, 1.0)), rel=1e-14)
    assert one.entropy() == pytest.approx(beta.entropy(), rel=1e-14)
    assert one.log_prob([0.3, 0.7]) == pytest.approx(beta.log_prob(0.3), rel=1e-13)


def test_extremes():
    member = Dirichlet.from_concentration(EXTREMES)
    stats = member.expected_stats().log_probabilities
    with mpmath.workdps(70):
        for row, stat, log_normalizer, entropy in zip(
            EXTREMES, stats, member.log_normalizer(), member.entropy(), strict=True
        ):
            x = [exact(v) for v in row]
            normalizer = sum(map(mpmath.loggamma, x)) - mpmath.loggamma(sum(x))
            wanted = [mpmath.psi(0, v) - mpmath.psi(0, sum(x)) for v in x]
            energy = sum((v - 1) * w for v, w in zip(x, wanted, strict=True))
            assert max(map(relative, stat, wanted)) < 1e-15
            assert error(log_normalizer, normalizer) < 1e-14
            assert error(entropy, normalizer - energy) < 1e-14


@pytest.mark.parametrize(
    "change", [[1e-9, 1e-9, 1e-9], [1e-3, 1e-3, 1e-3], [1e-6, -1e-6, 2e-6], [0.5, 0.5, 0.5]]
)
def test_divergence_of_close_members(change):
    x = np.array(EXTREMES)
    y = x * (1 + np.array(change))
    found = Dirichlet.from_concentration(x).kl(Dirichlet.from_concentration(y))
    with mpmath.workdps(70):
        for row, other, value in zip(x, y, found, strict=True):
            assert relative(value, reference_kl(row, other)) < 1e-12


def test_divergence_of_far_members():
    x = np.array(EXTREMES)
    found = Dirichlet.from_concentration(x[:, None].repeat(len(x), 1)).kl(
        Dirichlet.from_concentration(x[None].repeat(len(x), 0))
    )
    with mpmath.workdps(70):
        for i, row in enumerate(x):
            for j, other in enumerate(x):
                if i != j:
                    assert relative(found[i, j], reference_kl(row, other)) < 1e-12
