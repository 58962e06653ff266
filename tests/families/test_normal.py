"""Normal against SciPy, and at precisions that differ by twenty orders of magnitude."""

import mpmath
import numpy as np
import scipy.stats

from streambayes.families import Normal
from tests.families._exact import exact, relative


def test_density_and_moments():
    mean, precision = np.array([0.0, -3.0]), np.array([0.1, 25.0])
    member, reference = (
        Normal.from_mean_precision(mean, precision),
        scipy.stats.norm(mean, precision**-0.5),
    )
    x = np.array([[-3.1], [0.0], [5.0]])
    np.testing.assert_allclose(member.log_prob(x), reference.logpdf(x), rtol=1e-13)
    np.testing.assert_allclose(member.entropy(), reference.entropy(), rtol=1e-13)
    np.testing.assert_allclose(
        member.expected_stats().square, reference.var() + mean**2, rtol=1e-14
    )


def test_conversion():
    member = Normal.from_mean_precision([1.5, -2.0], 4.0)
    np.testing.assert_array_equal(member.naturals(), [[6.0, -8.0], [-2.0, -2.0]])
    np.testing.assert_array_equal(member.mean(), [1.5, -2.0])
    np.testing.assert_array_equal(member.precision, [4.0, 4.0])


def test_divergence_between_extremes():
    precisions = np.array([1e-8, 1.0, 1.0 + 1e-12, 1e12])
    first = Normal.from_mean_precision(0.0, precisions[:, None].repeat(4, 1))
    second = Normal.from_mean_precision(0.0, precisions[None].repeat(4, 0))
    found = first.kl(second)
    with mpmath.workdps(70):
        for i, mine in enumerate(precisions):
            for j, theirs in enumerate(precisions):
                ratio = exact(theirs) / exact(mine)
                wanted = (ratio - 1 - mpmath.log(ratio)) / 2
                assert found[i, j] == 0 if i == j else relative(found[i, j], wanted) < 1e-15
