"""Special functions against fifty digits and more."""

import itertools

import jax
import mpmath
import numpy as np
import pytest

from streambayes._core import gamma, numerics
from streambayes._core.formula import Formula
from streambayes._core.precision import in_float64

GRID = [1e-8, 1e-3, 0.3, 1.0, 2.0, 9.99, 10.0, 10.01, 37.5, 1e3, 1e6, 1e12]
GAPS = [1e-12, 1e-8, 1e-4, 0.02, 0.24, 0.26, -0.24, -0.49, -0.51]


@pytest.fixture(autouse=True)
def _digits():
    with mpmath.workdps(70):
        yield


@pytest.fixture(params=["on the host", "in a program"])
def way(request):
    """Both ways in which a formula is computed: by NumPy and SciPy, and by XLA."""
    return jax.jit if request.param == "in a program" else lambda function: function


def exact(*values):
    return [mpmath.mpf(float(value)) for value in values]


def log_gamma_bregman(x, y):
    return mpmath.loggamma(y) - mpmath.loggamma(x) - (y - x) * mpmath.psi(0, x)


def stirling_error(x):
    half = mpmath.mpf(1) / 2
    return mpmath.loggamma(x) - (x - half) * mpmath.log(x) + x - mpmath.log(2 * mpmath.pi) / 2


def stirling_bregman(x, y):
    slope = mpmath.psi(0, x) - mpmath.log(x) + 1 / (2 * x)
    return stirling_error(y) - stirling_error(x) - (y - x) * slope


def deviance(x, mean):
    return x * mpmath.log(x / mean) + mean - x


def log_beta(values):
    return sum(map(mpmath.loggamma, values)) - mpmath.loggamma(sum(values))


def log_beta_bregman(x, y):
    total = mpmath.psi(0, sum(x))
    slope = sum((b - a) * (mpmath.psi(0, a) - total) for a, b in zip(x, y, strict=True))
    return log_beta(y) - log_beta(x) - slope


def errors(function, reference, *columns):
    """Relative errors of a function of positive numbers, row by row."""
    columns = [np.asarray(column, float) for column in columns]
    found = in_float64(function)(*columns)
    wanted = [reference(*exact(*row)) for row in zip(*columns, strict=True)]
    return [
        float(abs(mpmath.mpf(mine) - theirs) / (abs(theirs) or 1))
        for mine, theirs in zip(found, wanted, strict=True)
    ]


def valued(function):
    """The function, with the value of a formula if it returns one."""

    def of(*arguments):
        found = function(*arguments)
        return found.value() if isinstance(found, Formula) else found

    return of


def pairs(*, gaps=()):
    """All ordered pairs of different grid points, or each point with one relatively close to it."""
    if not gaps:
        return np.array([pair for pair in itertools.product(GRID, GRID) if pair[0] != pair[1]]).T
    return np.array([(x, x * (1 + gap)) for x in GRID for gap in gaps]).T


ONE = {
    "stirling_error": (stirling_error, 2e-14),
    "log_gamma_half_step": (
        lambda x: mpmath.loggamma(x + mpmath.mpf(1) / 2) - mpmath.loggamma(x),
        1e-14,
    ),
    "gamma_entropy": (lambda a: a + mpmath.loggamma(a) + (1 - a) * mpmath.psi(0, a), 2e-15),
}
TWO = {
    "gammaln_bregman": (log_gamma_bregman, 4e-14),
    "stirling_bregman": (stirling_bregman, 1e-11),
    "deviance": (deviance, 1e-15),
    "ratio_excess": (lambda x, y: y / x - 1 - mpmath.log(y / x), 2e-15),
}


@pytest.mark.parametrize("name", ONE)
def test_functions_of_one_argument(name, way):
    reference, tolerance = ONE[name]
    assert max(errors(way(getattr(numerics, name)), reference, GRID)) < tolerance


@pytest.mark.parametrize(
    ("name", "reference"),
    [("gammaln", mpmath.loggamma), ("digamma", lambda x: mpmath.psi(0, x))],
)
def test_functions_of_programs(name, reference):
    """To rounding of what they are sums of, up to their values ten steps on."""
    x = np.concatenate([GRID, np.geomspace(1e-6, 1e6, 200)])
    found = in_float64(jax.jit(getattr(gamma, name)))(x)
    for point, value in zip(x, found, strict=True):
        wanted, above = reference(*exact(point)), reference(*exact(point + 10))
        assert abs(value - wanted) <= 1e-15 * max(abs(wanted), abs(above))


@pytest.mark.parametrize("name", TWO)
def test_functions_of_two_arguments(name, way):
    reference, tolerance = TWO[name]
    function = way(valued(getattr(numerics, name)))
    assert max(errors(function, reference, *pairs())) < tolerance
    assert max(errors(function, reference, *pairs(gaps=GAPS))) < tolerance


@pytest.mark.parametrize("name", TWO)
def test_divergences_of_equal_arguments_are_zero(name, way):
    function = way(valued(getattr(numerics, name)))
    assert not in_float64(function)(np.array(GRID), np.array(GRID)).any()


@pytest.mark.parametrize(
    ("name", "reference"),
    [
        ("log_gamma_ratio", lambda x, d: mpmath.loggamma(x + d) - mpmath.loggamma(x)),
        ("digamma_difference", lambda x, d: mpmath.psi(0, x + d) - mpmath.psi(0, x)),
    ],
)
def test_differences_over_a_step(name, reference, way):
    x, step = np.array(list(itertools.product(GRID, GRID))).T
    assert max(errors(way(getattr(numerics, name)), reference, x, step)) < 3e-15


def test_deviance_drop(way):
    x, y = pairs()
    for shift in (0.5, 10.0):
        found = in_float64(way(numerics.deviance_drop))(y, x, shift)
        for a, b, value in zip(x, y, found, strict=True):
            low, step = exact(a, b), mpmath.mpf(shift)
            wanted = deviance(low[1], low[0]) - deviance(low[1] + step, low[0] + step)
            assert abs(value - wanted) <= 1e-13 * wanted


def test_product_excess_where_the_ratios_cancel(way):
    gaps = [1e-10, 1e-3, 0.3, 1e6]
    x, y = pairs(gaps=gaps)
    u, v = y * 0.7, x * 0.7 * (1 + 1e-6)
    found = in_float64(way(valued(numerics.product_excess)))(x, y, u, v)
    for row, value in zip(zip(x, y, u, v, strict=True), found, strict=True):
        a, b, c, d = exact(*row)
        ratio = b / a * d / c
        wanted = ratio - 1 - mpmath.log(ratio)
        # e = 1e-6 is the sum of terms as large as the ratios' own gaps, or 1, and rounds at their size
        rounding = 1e-15 * min(b / a - 1, 1)
        assert abs(value - wanted) <= 1e-13 * wanted + rounding * mpmath.sqrt(2 * wanted)


def test_sum_of_others():
    values = np.array([1e12, 1e-8, 3.0, 1e-8])
    found = in_float64(numerics.sum_of_others)(values)
    np.testing.assert_allclose(found, [3.0 + 2e-8, 1e12 + 3.0, 1e12, 1e12 + 3.0], rtol=1e-15)


PARTS = [1e-8, 0.3, 5.0, 10.0, 1e6, 1e12]


def test_log_beta(way):
    points = np.array(list(itertools.product(PARTS, PARTS)))
    found = in_float64(way(valued(numerics.log_beta)))(points)
    for point, value in zip(points, found, strict=True):
        wanted = log_beta(exact(*point))
        assert abs(value - wanted) <= 5e-15 * abs(wanted)


@pytest.mark.parametrize(
    "change",
    [
        None,
        (1e-10, 1e-10),
        (1e-10, 0.0),
        (1e-3, 1e-3),
        (1e-3, -1e-3),
        (1e-6, 1.001e-6),
        (0.3, 0.3),
    ],
)
def test_log_beta_bregman(change, way):
    points = np.array(list(itertools.product(PARTS, PARTS)))
    if change is None:
        x, y = np.repeat(points, len(points), 0), np.tile(points, (len(points), 1))
    else:
        x, y = points, points * (1 + np.array(change))
    found = in_float64(way(valued(numerics.log_beta_bregman)))(x, y)
    parts = in_float64(numerics.gammaln_bregman)(x, y)
    for a, b, value, part in zip(x, y, found, parts, strict=True):
        wanted = log_beta_bregman(exact(*a), exact(*b))
        # a part of at most 10 that cancels against the total's is known to rounding
        small = np.where(np.minimum(a, b) <= 10, part, 0.0).max()
        assert abs(value - wanted) <= 5e-13 * wanted + 1e-15 * small
