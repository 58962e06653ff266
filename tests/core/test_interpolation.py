"""Functions at many points from a few."""

import jax
import jax.numpy as jnp
import numpy as np
import pytest

from streambayes._core.interpolation import interpolated
from streambayes._core.precision import in_float64


def at(function, points, ends, sizes, tolerance):
    return in_float64(jax.jit(lambda: interpolated(function, points, ends, sizes, tolerance)))()


def test_one_coordinate_for_each_block():
    rates, points = np.array([0.5, 2.0, 5.0]), np.random.default_rng(0).uniform(size=(300, 3))
    low, high = np.zeros(3), np.ones(3)
    found = at(lambda x: jnp.exp(rates * x), [points], [(low, high)], [20], 1e-9)
    np.testing.assert_allclose(found, np.exp(rates * points), rtol=1e-10)
    assert not np.array_equal(found, np.exp(rates * points))  # not by the function itself


def test_two_coordinates():
    x, y = np.random.default_rng(1).uniform(-1.0, 2.0, size=(2, 4, 50))
    ends = [(np.array(-1.0), np.array(2.0))] * 2
    found = at(lambda x, y: jnp.log(3.0 + x * y), [x, y], ends, [24, 24], 1e-6)
    np.testing.assert_allclose(found, np.log(3.0 + x * y), atol=1e-6)


@pytest.mark.parametrize("size", [7, 20, 55])
def test_what_is_not_smooth_is_asked_at_every_point(size):
    points = np.linspace(-1.0, 1.0, size)
    ends = [(np.array(-1.0), np.array(1.0))]
    found = at(jnp.abs, [points], ends, [20], 1e-6)
    np.testing.assert_array_equal(found, np.abs(points))


def test_a_single_point_between_equal_ends():
    ends = [(np.array(0.3), np.array(0.3))]
    found = at(jnp.exp, [np.full(5, 0.3)], ends, [8], 1e-6)
    np.testing.assert_allclose(found, np.exp(0.3), rtol=1e-12)
