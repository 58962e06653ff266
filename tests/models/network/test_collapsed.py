"""One hidden discrete variable is summed out: the same as updating its shares and summing."""

import dataclasses

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.families import Blocks, Point
from streambayes.learning._intake import pad, read_rows
from streambayes.models.network._local import Rows


def with_counts():
    """A latent variable with an observed parent, between other parents, above variables of all kinds."""
    net = sb.Network()
    net.categorical("day", ["a", "b", "c"])
    net.bernoulli("late")
    net.categorical("z", 4, parents=["late"], latent=True)
    net.normal(["x", "y"], parents=["day", "z", "late"])
    net.poisson("calls", parents=["z"])
    net.exponential(["wait", "stay"], parents=["z", "day"])
    net.categorical("kind", 3, parents=["z"])
    return net


def mixture():
    return sb.models.GaussianMixture(["x", "y"], 5)


@pytest.mark.parametrize(
    ("make", "missing"),
    [
        (with_counts, ()),
        (with_counts, ("x", "calls", "kind")),
        (mixture, ()),
        (mixture, ("x", "y")),
    ],
)
def test_sums_and_entropy(make, missing, monkeypatch):
    net = make()
    rng = np.random.default_rng(0)
    (batch,) = sb.datasets.make_drift(net, "none", num_batches=1, num_rows=50)
    rows = read_rows(net, net.columns, batch)
    lacking = np.isin([column.name for column in net.columns], missing)
    rows[lacking[:, None] & (rng.random(rows.shape) < 0.3)] = np.nan
    with float64_scope():
        padded = pad(rows, net.columns, missing=missing)
        start = net.start(jax.random.key(1), padded, Blocks.of_prior(net.prior()))
        expectations = Point(start).expectations()

        def passed():
            run = jax.jit(lambda: net.row_pass(expectations, padded, net.init_local(padded))[1])
            return run()

        assert net._rows(padded).collapses
        summed_out = passed()
        monkeypatch.setattr(Rows, "collapses", property(lambda _: False))
        updated = passed()
    for mine, theirs in zip(jax.tree.leaves(summed_out), jax.tree.leaves(updated), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10, atol=1e-10)


def test_where_it_applies():
    net = with_counts()
    rows = read_rows(net, net.columns, sb.datasets.make_drift(net, num_rows=20)[0])
    with float64_scope():
        assert net._rows(pad(rows, net.columns)).collapses
        assert not net._rows(pad(rows, net.columns, missing=("day",))).collapses
        assert net._rows(pad(rows, net.columns, missing=("x", "kind"))).collapses
    full = sb.models.GaussianMixture(["x", "y"], 3, covariance="full")
    with float64_scope():
        assert not full._rows(pad(np.zeros((2, 20)), full.columns)).collapses


@pytest.mark.parametrize("kind", ["mixture", "two normals and a column apart", "with counts"])
def test_by_kernel(kind):
    """Where powers of columns are all there is; elsewhere a batch that allows it changes nothing."""
    net = {"mixture": mixture, "with counts": with_counts}.get(kind, sb.Network)()
    if kind.startswith("two"):
        net.normal("apart")
        z = net.categorical("z", 3, latent=True)
        net.normal("b", parents=[z])
        net.normal(["c", "a"], parents=[z])
    (batch,) = sb.datasets.make_drift(net, "none", num_batches=1, num_rows=700)
    rows = read_rows(net, net.columns, batch).astype(np.float32)
    with float64_scope():
        plain = pad(rows, net.columns, as_given=True)
        fused = dataclasses.replace(plain, fused=True)
        start = net.start(jax.random.key(1), plain, Blocks.of_prior(net.prior()))
        expectations = Point(start).expectations()
        sums = jax.jit(lambda batch: net.row_pass(expectations, batch, net.init_local(batch))[1])
        found, wanted = sums(fused), sums(plain)
        assert (net.init_local(fused).shape[1] == 0) == (kind != "with counts")
        bounds = [float(net.expected_log_joint(expectations, sums)) for sums in (found, wanted)]
    assert bounds[0] == pytest.approx(bounds[1], rel=1e-6)
    pairs = zip(jax.tree.leaves(found.factors), jax.tree.leaves(wanted.factors), strict=True)
    for mine, theirs in pairs:
        np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-4)
