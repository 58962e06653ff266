"""The kernel of a mixture's pass over rows, interpreted, against the same sums in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

import streambayes as sb
from streambayes._core import kernel
from streambayes._core.precision import float64_scope
from streambayes.learning import _intake


def assert_totals(values, num_rows, slopes, places):
    x = values[places, :num_rows].astype(float)
    statistics = np.concatenate([np.ones((1, num_rows)), x, x**2])
    logits = slopes @ statistics
    log_total = np.logaddexp.reduce(logits, axis=0)
    totals = np.exp(logits - log_total) @ statistics.T

    with float64_scope():
        columns, rows = jnp.asarray(values), jnp.asarray(num_rows)
        extent = kernel.extents(len(slopes), columns, places, rows)
        found = kernel.mixture_totals(jnp.asarray(slopes), columns, places, rows, extent)
        mine = [np.asarray(part) for part in found]
    # sums may cancel: what rounding does is measured by the size of what is added up
    terms = np.exp(logits - log_total) @ np.abs(statistics).T
    assert np.all(np.abs(mine[0] - totals) <= 1e-6 * terms)
    terms = (np.abs(slopes) @ np.abs(statistics)).max(0, initial=0.0).sum()
    assert abs(mine[1] - log_total.sum()) <= 1e-7 * terms
    assert mine[0].dtype == mine[1].dtype == np.float64


def slopes_of(rng, num_values, num_columns):
    slopes = rng.normal(size=(num_values, 1 + 2 * num_columns))
    slopes[:, 1 + num_columns :] = -0.1 - np.abs(slopes[:, 1 + num_columns :])
    return slopes / max(1.0, 0.5 * num_columns)  # float32 has as many digits of a larger sum


@pytest.mark.parametrize("num_rows", [0, 1, 255, 256, 257, 2500])
@pytest.mark.parametrize(
    ("num_values", "places"), [(2, [0]), (5, [2, 0]), (20, [2, 0]), (17, list(range(16)))]
)
def test_totals_are_those_of_numpy(num_rows, num_values, places):
    rng = np.random.default_rng(num_rows)
    shape = (max(3, len(places)), 4096)
    values = np.full(shape, np.nan, np.float32)  # what lies beyond the rows is never used
    values[:, :num_rows] = rng.normal(0.5, 2.0, (len(values), num_rows))
    assert_totals(values, num_rows, slopes_of(rng, num_values, len(places)), places)


@pytest.mark.parametrize("size", [1e-12, 1e12])
def test_columns_may_have_any_unit(size):
    rng = np.random.default_rng(0)
    values = np.float32(size) * rng.normal(0.5, 2.0, (2, 4096)).astype(np.float32)
    slopes = slopes_of(rng, 20, 2) / np.array([1.0, size, size, size**2, size**2])
    assert_totals(values, 4000, slopes, [0, 1])


@pytest.mark.parametrize("far", [150.0, 300.0, 1e9])
def test_a_row_far_from_the_others_takes_no_digits_from_them(far):
    rng = np.random.default_rng(0)
    values = rng.normal(0.5, 2.0, (2, 4096)).astype(np.float32)
    values[0, 7] = far
    slopes = slopes_of(rng, 20, 2)
    slopes[0, 1], slopes[0, 3] = 0.0, -1.0 / far**2  # the first value alone holds it
    assert_totals(values, 4000, slopes, [0, 1])


def test_it_is_for_float32_and_for_sums_that_registers_hold():
    values = jnp.zeros((2, 16), np.float32)
    assert kernel.fits(5, 2, values)
    assert not kernel.fits(5, 2, values.astype(np.int32))
    assert kernel.fits(20, 16, values)
    assert kernel.fits(32, 64, values)
    assert not kernel.fits(200, 64, values)


def test_a_wide_mixture_learns_what_it_learns_without(monkeypatch):
    rng = np.random.default_rng(0)
    centres = rng.normal(0.0, 3.0, (3, 10))[:, rng.integers(10, size=300)]
    batch = {n: row.astype(np.float32) for n, row in zip("xyz", centres, strict=True)}
    batch = {n: row + rng.normal(size=300).astype(np.float32) for n, row in batch.items()}
    learner = sb.StreamLearner(sb.models.GaussianMixture(list("xyz"), 10), sb.SVB(), max_sweeps=5)
    state = learner.init(batch)
    (wanted, other), (found, info) = [
        (
            monkeypatch.setattr(_intake, "kernel_is_on", lambda on=on: on),
            learner.step(state, batch),
        )[1]
        for on in (False, True)
    ]
    assert info.bound == pytest.approx(other.bound, rel=1e-6)
    assert info.bound != other.bound  # it was another program
    assert found.retained == pytest.approx(wanted.retained, rel=1e-5)


def test_it_can_be_switched_off(monkeypatch):
    monkeypatch.setattr(kernel, "_chosen", None)
    assert sb.gpu_kernel()
    monkeypatch.setenv("STREAMBAYES_GPU_KERNEL", "off")
    assert not sb.gpu_kernel()
    assert sb.gpu_kernel(True)
    assert not sb.gpu_kernel(False)
    assert not sb.gpu_kernel()
    with pytest.raises(TypeError, match="expected True or False, got 'no'"):
        sb.gpu_kernel("no")
