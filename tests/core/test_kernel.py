"""The kernel of a mixture's pass over rows, interpreted, against the same sums in NumPy."""

import jax.numpy as jnp
import numpy as np
import pytest

import streambayes as sb
from streambayes._core import kernel
from streambayes._core.precision import float64_scope


@pytest.mark.parametrize("num_rows", [0, 1, 255, 256, 257, 2500])
@pytest.mark.parametrize(("num_values", "places"), [(2, [0]), (5, [2, 0])])
def test_totals_are_those_of_numpy(num_rows, num_values, places):
    rng = np.random.default_rng(num_rows)
    values = np.full((3, 4096), np.nan, np.float32)  # what lies beyond the rows is never used
    values[:, :num_rows] = rng.normal(0.5, 2.0, (3, num_rows))
    slopes = rng.normal(size=(num_values, 1 + 2 * len(places)))
    slopes[:, 1 + len(places) :] = -0.1 - np.abs(slopes[:, 1 + len(places) :])

    x = values[places, :num_rows].astype(float)
    statistics = np.concatenate([np.ones((1, num_rows)), x, x**2])
    logits = slopes @ statistics
    log_total = np.logaddexp.reduce(logits, axis=0)
    totals = np.exp(logits - log_total) @ statistics.T

    with float64_scope():
        found = kernel.mixture_totals(
            jnp.asarray(slopes), jnp.asarray(values), places, jnp.asarray(num_rows)
        )
        mine = [np.asarray(part) for part in found]
    # sums may cancel: what rounding does is measured by the size of what is added up
    terms = np.exp(logits - log_total) @ np.abs(statistics).T
    assert np.all(np.abs(mine[0] - totals) <= 1e-6 * terms)
    terms = (np.abs(slopes) @ np.abs(statistics)).max(0, initial=0.0).sum()
    assert abs(mine[1] - log_total.sum()) <= 1e-6 * terms
    assert mine[0].dtype == mine[1].dtype == np.float64


def test_it_is_for_float32_and_for_few_sums():
    values = jnp.zeros((2, 16), np.float32)
    assert kernel.fits(5, 2, values)
    assert not kernel.fits(5, 2, values.astype(np.int32))
    assert not kernel.fits(20, 16, values)


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
