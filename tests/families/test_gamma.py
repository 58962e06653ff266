"""Gamma against SciPy, and at shapes from 1e-8 to 1e12."""

import itertools

import mpmath
import numpy as np
import pytest
import scipy.stats

from streambayes.families import Gamma
from tests.families._exact import error, exact, gamma_kl, relative

SHAPES = [1e-8, 0.5, 9.99, 10.01, 1e6, 1e12]
RATES = [1e-8, 1.0, 1e12]
EXTREMES = np.array(list(itertools.product(SHAPES, RATES)))


def test_density_and_moments():
    shape, rate = np.array([0.5, 3.0, 1e4]), np.array([2.0, 0.1, 7.0])
    member = Gamma.from_shape_rate(shape, rate)
    reference = scipy.stats.gamma(shape, scale=1 / rate)
    x = reference.ppf([[0.1], [0.5], [0.999]])
    np.testing.assert_allclose(member.log_prob(x), reference.logpdf(x), rtol=1e-11)
    np.testing.assert_allclose(member.entropy(), reference.entropy(), rtol=1e-11)
    np.testing.assert_allclose(member.mean(), reference.mean(), rtol=1e-14)


def test_conversion():
    member = Gamma.from_shape_rate([0.25, 3.0], 2.0)
    np.testing.assert_array_equal(member.naturals(), [[-0.75, 2.0], [-2.0, -2.0]])
    np.testing.assert_array_equal(member.shape, [0.25, 3.0])
    np.testing.assert_array_equal(member.rate, [2.0, 2.0])


def test_extremes():
    member = Gamma.from_shape_rate(*EXTREMES.T)
    x = np.maximum(member.mean(), 1e-300) * 1.5
    columns = [member.shape, member.rate, member.log_normalizer(), member.entropy()]
    columns += [member.expected_stats().log_value, x, member.log_prob(x)]
    with mpmath.workdps(70):
        for shape, rate, log_normalizer, entropy, log_value, point, log_prob in zip(
            *columns, strict=True
        ):
            a, b, p = exact(shape), exact(rate), exact(point)
            log_gamma, log_rate = mpmath.loggamma(a), mpmath.log(b)
            # two terms of opposite sign round at the larger one's size
            size = max(1, abs(log_gamma), abs(a * log_rate))
            assert abs(log_normalizer - (log_gamma - a * log_rate)) < 1e-15 * size
            assert error(log_value, mpmath.psi(0, a) - log_rate) < 1e-14
            wanted = a + log_gamma + (1 - a) * mpmath.psi(0, a) - log_rate
            assert error(entropy, wanted) < 1e-14
            density = a * log_rate + (a - 1) * mpmath.log(p) - b * p - log_gamma
            assert error(log_prob, density) < 1e-14


def test_divergence_of_far_members():
    first = Gamma.from_shape_rate(*EXTREMES.T[:, :, None]).broadcast_to((18, 18))
    second = Gamma.from_shape_rate(*EXTREMES.T[:, None, :]).broadcast_to((18, 18))
    found = first.kl(second)
    assert (np.diagonal(found) == 0).all()
    with mpmath.workdps(90):
        for i, j in itertools.product(range(18), repeat=2):
            if i != j:
                mine, theirs = (
                    (family.shape[place], family.rate[place])
                    for family, place in ((first, (i, j)), (second, (i, j)))
                )
                assert relative(found[i, j], gamma_kl(*mine, *theirs)) < 1e-14


@pytest.mark.parametrize(
    ("of_shape", "of_rate"), [(1e-9, 1e-9), (1e-3, 1e-3), (1e-6, -1e-6), (0.0, 1e-10), (0.3, 0.3)]
)
def test_divergence_of_close_members(of_shape, of_rate):
    first = Gamma.from_shape_rate(*EXTREMES.T)
    second = Gamma(
        shape_minus_one=first.shape * (1 + of_shape) - 1, negative_rate=-first.rate * (1 + of_rate)
    )
    with mpmath.workdps(70):
        for *row, value in zip(
            first.shape, first.rate, second.shape, second.rate, first.kl(second), strict=True
        ):
            wanted = gamma_kl(*row)
            # a ratio of means is known to rounding of the ratios it is made of
            means = 1e-16 * max(abs(of_shape), abs(of_rate)) * mpmath.sqrt(exact(row[2]) * wanted)
            assert abs(value - wanted) <= 1e-13 * wanted + means
