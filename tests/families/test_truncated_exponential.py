"""The truncated exponential against SciPy, and at slopes from -1e8 to 1e8."""

import mpmath
import numpy as np
import pytest
import scipy.stats

from streambayes.families import TruncatedExponential
from tests.families._exact import error, exact, relative

SLOPES = np.array(
    [s * w for w in (1e8, 1e3, 30.0, 1.0, 0.1001, 0.1, 0.0999, 1e-3, 1e-12) for s in (1, -1)]
    + [0.0]
)


def reference(slope):
    """Log normalizer, mean and variance."""
    w = exact(slope)
    if w == 0:
        return mpmath.mpf(0), mpmath.mpf(1) / 2, mpmath.mpf(1) / 12
    mean = -1 / mpmath.expm1(-w) - 1 / w
    # sinh of large slopes overflows nothing here
    return mpmath.log(mpmath.expm1(w) / w), mean, 1 / w**2 - 1 / (4 * mpmath.sinh(w / 2) ** 2)


def test_density_and_moments():
    gamma = np.array([0.1, 1.0, 20.0])
    member = TruncatedExponential.from_gamma(gamma)
    scipys = scipy.stats.truncexpon(b=gamma, scale=1 / gamma)
    x = np.array([0.0, 0.2, 0.9, 1.0])[:, None]
    np.testing.assert_allclose(member.log_prob(x), scipys.logpdf(x), rtol=1e-12, atol=1e-13)
    np.testing.assert_allclose(member.mean(), scipys.mean(), rtol=1e-12)
    np.testing.assert_allclose(member.variance(), scipys.var(), rtol=1e-10)


def test_the_papers_expectation():
    # section 4.3: E[rho] = 1 / (1 - e^-w) - 1 / w, with w = -gamma for the prior
    member = TruncatedExponential.from_gamma(0.1)
    assert member.slope == -0.1
    assert member.mean() == pytest.approx(1 / (1 - np.exp(0.1)) + 10, rel=1e-13)
    assert member.with_slope(0.0).mean() == 0.5


def test_no_density_outside_the_unit_interval():
    member = TruncatedExponential.from_gamma([1.0, -1.0])
    assert (member.log_prob(np.array([[-0.1], [1.1]])) == -np.inf).all()


def test_extremes():
    member = TruncatedExponential(slope=SLOPES)
    columns = (member.log_normalizer(), member.mean(), member.variance(), member.entropy())
    with mpmath.workdps(90):
        for slope, log_normalizer, mean, variance, entropy in zip(SLOPES, *columns, strict=True):
            wanted = reference(slope)
            if slope:
                assert relative(log_normalizer, wanted[0]) < 2e-15
            assert relative(mean, wanted[1]) < 4e-15
            assert relative(variance, wanted[2]) < 4e-13
            assert error(entropy, wanted[0] - exact(slope) * wanted[1]) < 1e-15
    assert member.log_normalizer()[-1] == 0


@pytest.mark.parametrize("step", [1e-12, 1e-6, 1e-2, 1.0, 1e3, -2.0, -1e-9])
def test_divergence(step):
    """Relative steps: close slopes, far ones, and slopes of the other sign."""
    first, others = SLOPES[:-1], SLOPES[:-1] * (1 + step)
    found = TruncatedExponential(slope=first).kl(TruncatedExponential(slope=others))
    with mpmath.workdps(90):
        for slope, other, value in zip(first, others, found, strict=True):
            mine, theirs = reference(slope), reference(other)
            wanted = (exact(slope) - exact(other)) * mine[1] - mine[0] + theirs[0]
            assert relative(value, wanted) < 2e-12


def test_samples_stay_inside():
    draws = TruncatedExponential(slope=SLOPES).sample(np.random.default_rng(0), 1000)
    assert ((draws >= 0) & (draws <= 1)).all()
    assert abs(draws[:, 0].mean() - 1) < 1e-6
    assert draws[:, 1].mean() < 1e-6
