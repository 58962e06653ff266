"""MultivariateNormal against SciPy, and near singularity."""

import mpmath
import numpy as np
import pytest
import scipy.stats

from streambayes.families import MultivariateNormal, Normal
from tests.families._exact import exact, relative

PRECISION = np.array([[2.0, 0.5, 0.1], [0.5, 1.0, -0.3], [0.1, -0.3, 4.0]])


def conditioned(number, angle=0.7):
    """A 2 x 2 matrix of eigenvalues 1 and the inverse of a condition number."""
    axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    matrix = axes @ np.diag([1.0, 1.0 / number]) @ axes.T
    return 0.5 * (matrix + matrix.T)


def reference_kl(mean, precision, other_mean, other_precision):
    p, q = (
        mpmath.matrix([[exact(x) for x in row] for row in m]) for m in (precision, other_precision)
    )
    gap = mpmath.matrix([exact(a) - exact(b) for a, b in zip(mean, other_mean, strict=True)])
    ratio = q * p**-1
    trace = sum(ratio[i, i] for i in range(ratio.rows))
    return (trace - ratio.rows - mpmath.log(mpmath.det(ratio)) + (gap.T * q * gap)[0]) / 2


def test_density_and_moments():
    mean = np.array([1.0, -2.0, 0.5])
    member = MultivariateNormal.from_mean_precision(mean, PRECISION)
    reference = scipy.stats.multivariate_normal(mean, np.linalg.inv(PRECISION))
    x = np.random.default_rng(0).normal(size=(5, 3))
    np.testing.assert_allclose(member.log_prob(x), reference.logpdf(x), rtol=1e-12)
    np.testing.assert_allclose(member.entropy(), reference.entropy(), rtol=1e-13)
    np.testing.assert_allclose(member.mean(), mean, rtol=1e-13)
    np.testing.assert_allclose(member.covariance(), reference.cov, rtol=1e-12)


def test_conversion():
    member = MultivariateNormal.from_mean_precision([[1.0, 2.0, 3.0]] * 2, PRECISION)
    assert member.batch_shape == (2,)
    np.testing.assert_array_equal(member.precision, [PRECISION, PRECISION])
    np.testing.assert_allclose(member.naturals()[0][0], PRECISION @ [1.0, 2.0, 3.0], rtol=1e-15)


def test_one_dimension_is_a_normal():
    one = MultivariateNormal.from_mean_precision([2.0], [[3.0]])
    two = MultivariateNormal.from_mean_precision([-1.0], [[0.5]])
    flat, other = Normal.from_mean_precision(2.0, 3.0), Normal.from_mean_precision(-1.0, 0.5)
    assert one.kl(two) == pytest.approx(flat.kl(other), rel=1e-14)
    assert one.entropy() == pytest.approx(flat.entropy(), rel=1e-14)
    assert one.log_prob([0.3]) == pytest.approx(flat.log_prob(0.3), rel=1e-14)


@pytest.mark.parametrize("number", [1e4, 1e8, 1e12])
def test_near_singularity(number):
    """Errors of a rounding times the condition number: no method has less from these numbers."""
    precision, mean = conditioned(number), [1.0, -1.0]
    member = MultivariateNormal.from_mean_precision(mean, precision)
    others = {
        "close": conditioned(number) * (1 + 1e-6),
        "turned": conditioned(number, 0.7 + 1e-3),
        "wide": np.eye(2),
        "narrow": 1e-20 * np.eye(2),
    }
    assert member.is_proper()
    assert member.kl(member) == 0
    for value in (member.log_normalizer(), *member.expected_stats(), member.entropy()):
        assert np.isfinite(value).all()
    for other in others.values():
        second = MultivariateNormal.from_mean_precision(mean, other)
        with mpmath.workdps(80):
            found, wanted = member.kl(second), reference_kl(mean, precision, mean, other)
            assert found >= 0
            # the means come back from P m by a solve
            moved = member.mean() - second.mean()
            shift = 0.5 * float(moved @ other @ moved)
            assert abs(found - shift - wanted) <= 1e-15 * number * max(wanted, 1e-12)


def test_divergence_over_twenty_orders_of_magnitude():
    wide = MultivariateNormal.from_mean_precision([0.0, 0.0], 1e-10 * np.eye(2))
    narrow = MultivariateNormal.from_mean_precision([0.0, 0.0], 1e10 * np.eye(2))
    with mpmath.workdps(70):
        for one, two in ((wide, narrow), (narrow, wide)):
            wanted = reference_kl([0, 0], one.precision, [0, 0], two.precision)
            assert relative(one.kl(two), wanted) < 1e-15
