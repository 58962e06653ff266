"""NormalWishart against SciPy and NormalGamma, in other units, and at 1e12 degrees of freedom."""

import mpmath
import numpy as np
import pytest
import scipy.stats

from streambayes.families import MeanPrecision, NormalGamma, NormalWishart
from tests.families._exact import error, exact, relative

SCATTER = np.array([[2.0, 0.5], [0.5, 1.0]])
MEAN = np.array([1.0, -2.0])
LAMBDA = np.array([[1.5, -0.2], [-0.2, 0.7]])


def make(degrees=4.5, scatter=SCATTER, mean=MEAN, scale=0.7):
    return NormalWishart.from_degrees_scatter_mean_scale(degrees, scatter, mean, scale)


def precise(matrix):
    return mpmath.matrix([[exact(x) for x in row] for row in np.asarray(matrix)])


def log_multigamma(x, size):
    return size * (size - 1) * mpmath.log(mpmath.pi) / 4 + sum(
        mpmath.loggamma(x - mpmath.mpf(j) / 2) for j in range(size)
    )


def trace(matrix):
    return sum(matrix[i, i] for i in range(matrix.rows))


def reference_log_prob(member, mean, precision):
    nu, kappa, size = exact(member.degrees), exact(member.scale), len(mean)
    scatter, sharp = precise(member.scatter), precise(precision)
    gap = mpmath.matrix([exact(a) - exact(b) for a, b in zip(mean, member.location, strict=True)])
    log_det = mpmath.log(mpmath.det(sharp))
    wishart = (
        (nu - size - 1) / 2 * log_det - trace(scatter * sharp) / 2 - log_multigamma(nu / 2, size)
    )
    wishart += nu / 2 * (mpmath.log(mpmath.det(scatter)) - size * mpmath.log(2))
    normal = (log_det + size * mpmath.log(kappa / (2 * mpmath.pi))) / 2
    return wishart + normal - kappa * (gap.T * sharp * gap)[0] / 2


def reference_kl(one, two):
    nu, mu, size = exact(one.degrees), exact(two.degrees), len(one.location)
    scatter, other = precise(one.scatter), precise(two.scatter)
    ratio = other * scatter**-1
    psi = sum(mpmath.psi(0, (nu - j) / 2) for j in range(size))
    wishart = nu * (trace(ratio) - size) / 2 - mu / 2 * mpmath.log(mpmath.det(ratio))
    wishart += log_multigamma(mu / 2, size) - log_multigamma(nu / 2, size) + (nu - mu) / 2 * psi
    scales = exact(two.scale) / exact(one.scale)
    gap = mpmath.matrix(
        [exact(a) - exact(b) for a, b in zip(one.location, two.location, strict=True)]
    )
    distance = exact(two.scale) * nu * (gap.T * scatter**-1 * gap)[0]
    return wishart + (size * (scales - 1 - mpmath.log(scales)) + distance) / 2


def test_density():
    member, x = make(), MeanPrecision(np.array([0.5, -1.0]), LAMBDA)
    wishart = scipy.stats.wishart(4.5, np.linalg.inv(SCATTER)).logpdf(LAMBDA)
    normal = scipy.stats.multivariate_normal(MEAN, np.linalg.inv(0.7 * LAMBDA)).logpdf(x.mean)
    assert member.log_prob(x) == pytest.approx(wishart + normal, rel=1e-12)


def test_predictive():
    x = np.array([[0.0, 0.0], [1.0, -2.0], [100.0, 3.0]])
    degrees = 4.5 - 2 + 1
    shape = SCATTER * (1 + 1 / 0.7) / degrees
    student = scipy.stats.multivariate_t(MEAN, shape, degrees)
    np.testing.assert_allclose(make().log_predictive(x), student.logpdf(x), rtol=1e-11)


def test_conversion():
    member = make(degrees=[4.5, 9.0])
    assert member.batch_shape == (2,)
    np.testing.assert_allclose(member.scatter, [SCATTER, SCATTER], rtol=1e-14)
    np.testing.assert_allclose(member.location, [MEAN, MEAN], rtol=1e-15)
    np.testing.assert_array_equal(member.degrees, [4.5, 9.0])
    np.testing.assert_array_equal(member.scale, [0.7, 0.7])
    np.testing.assert_allclose(member.naturals()[3], [1.25, 3.5], rtol=1e-15)


def test_one_dimension_is_a_normal_gamma():
    # Wishart(nu, 1 / V) of one variable is Gamma(nu / 2, V / 2)
    def both(shape, rate, mean, scale):
        return (
            make(2 * shape, np.array([[2 * rate]]), np.array([mean]), scale),
            NormalGamma.from_shape_rate_mean_scale(shape, rate, mean, scale),
        )

    (one, flat), (two, other) = both(1.3, 0.4, 2.0, 3.0), both(20.0, 9.0, -1.0, 0.1)
    assert one.kl(two) == pytest.approx(flat.kl(other), rel=1e-13)
    assert one.entropy() == pytest.approx(flat.entropy(), rel=1e-13)
    assert one.log_normalizer() == pytest.approx(flat.log_normalizer(), rel=1e-12)
    x = MeanPrecision(np.array([1.0]), np.array([[2.5]]))
    assert one.log_prob(x) == pytest.approx(flat.log_prob(MeanPrecision(1.0, 2.5)), rel=1e-13)
    assert one.log_predictive([0.3]) == pytest.approx(flat.log_predictive(0.3), rel=1e-13)


def test_rescaled():
    member, shift, factor = make(), np.array([3.0, -1.0]), np.array([0.1, -5.0])
    moved = member.rescaled(shift, factor)
    mean = np.array([0.5, -1.0])
    image = MeanPrecision(shift + factor * mean, LAMBDA / np.outer(factor, factor))
    # d(mean): prod |f|; d(Lambda): prod |f|^-(d + 1)
    jacobian = (1 - 3) * np.log(np.abs(factor)).sum()
    before = member.log_prob(MeanPrecision(mean, LAMBDA))
    assert moved.log_prob(image) + jacobian == pytest.approx(before, rel=1e-11)
    back = moved.rescaled(-shift / factor, 1 / factor)
    for mine, theirs in zip(back.naturals(), member.naturals(), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-11)


@pytest.mark.parametrize("degrees", [1.0 + 1e-8, 2.5, 30.0, 1e6, 1e12])
def test_extreme_degrees(degrees):
    member = make(degrees, SCATTER * degrees, MEAN, degrees)
    # about one standard deviation from the mean of Lambda
    sharp = np.linalg.inv(SCATTER) * (1 + 1 / np.sqrt(degrees))
    sharp = 0.5 * (sharp + sharp.T)
    x = MeanPrecision(MEAN + 1.0 / degrees, sharp)
    with mpmath.workdps(70):
        wanted = reference_log_prob(member, *x)
        # a rounding of Lambda moves the density by its slope, here sqrt(degrees)
        assert abs(member.log_prob(x) - wanted) <= 1e-14 * (1 + abs(wanted)) + 4e-16 * np.sqrt(
            degrees
        )
        nu, size = exact(member.degrees), 2
        halves = [(nu - j) / 2 for j in range(size)]
        psi = sum(mpmath.psi(0, half) for half in halves)
        log_det = psi + size * mpmath.log(2) - mpmath.log(mpmath.det(precise(member.scatter)))
        entropy = log_multigamma(nu / 2, size) - (nu - size - 1) / 2 * log_det + nu * size / 2
        entropy += nu / 2 * (size * mpmath.log(2) - mpmath.log(mpmath.det(precise(member.scatter))))
        entropy += size * (1 + mpmath.log(2 * mpmath.pi / exact(member.scale))) / 2 - log_det / 2
        assert error(member.entropy(), entropy) < 1e-14
        # the digammas and the determinant cancel: rounding of the digammas is left
        found = member.expected_stats().log_det_precision
        assert abs(found - log_det) <= 1e-15 * (1 + abs(psi))


@pytest.mark.parametrize("degrees", [2.5, 30.0, 1e6, 1e12])
@pytest.mark.parametrize("step", [1e-9, 1e-3, 0.2, 3.0])
def test_divergence_at_extreme_degrees(degrees, step):
    """Degrees and scatter grow together, so that the mean stays and large parts cancel."""
    centre = np.zeros(2)
    one = make(degrees, SCATTER * degrees, centre, degrees)
    two = make(degrees * (1 + step), SCATTER * degrees * (1 + step), centre, degrees)
    assert one.kl(one) == 0
    with mpmath.workdps(90):
        for mine, theirs in ((one, two), (two, one)):
            assert relative(mine.kl(theirs), reference_kl(mine, theirs)) < 2e-14


def test_near_singularity():
    angle = 0.7
    axes = np.array([[np.cos(angle), -np.sin(angle)], [np.sin(angle), np.cos(angle)]])
    scatter = axes @ np.diag([1.0, 1e-12]) @ axes.T
    scatter = 0.5 * (scatter + scatter.T)
    one, two = make(5.0, scatter, np.zeros(2), 1.0), make(6.0, SCATTER, np.zeros(2), 2.0)
    assert one.is_proper()
    assert one.kl(one) == 0
    values = [one.log_normalizer(), one.entropy(), *one.expected_stats()]
    values += [one.kl(two), two.kl(one), one.log_predictive([1.0, 1.0])]
    values.append(one.log_prob(MeanPrecision(np.zeros(2), np.linalg.inv(scatter))))
    assert all(np.isfinite(value).all() for value in values)
    with mpmath.workdps(70):
        for mine, theirs in ((one, two), (two, one)):
            # a rounding times the condition number
            assert relative(mine.kl(theirs), reference_kl(mine, theirs)) < 1e-4
