"""Counts obey the same arithmetic as natural parameters."""

import jax
import numpy as np
import pytest

from streambayes._core.precision import in_float64
from streambayes.families import Beta, Blocks, Gamma


def make(size=1.0):
    return Blocks(
        params={
            "rate": Gamma.from_shape_rate([2.0 * size, 3.0], 1.0),
            "share": Beta.from_concentrations(size, 2.0),
        },
        counts={"rate": np.array([size, 2.0]), "share": np.array(5.0 * size)},
    )


def same(mine, theirs):
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=1e-14)


def combined(rule, *members):
    return jax.tree.map(rule, *members)


@pytest.mark.parametrize(
    "weight", [0.25, {"rate": np.array([0.25, 0.5]), "share": np.array(0.75)}], ids=["one", "each"]
)
def test_lerp_and_scaled(weight):
    one, two = make(), make(3.0)
    per_block = weight if isinstance(weight, dict) else dict.fromkeys(one.params, weight)
    found = in_float64(one.lerp)(two, weight)
    scaled = in_float64(one.scaled)(weight)
    for name, w in per_block.items():
        wanted = combined(lambda a, b, w=w: w * a + (1 - w) * b, one.only([name]), two.only([name]))
        same(found.only([name]), wanted)
        same(scaled.only([name]), combined(lambda a, w=w: w * a, one.only([name])))


def test_sum():
    same(in_float64(make().__add__)(make(3.0)), combined(np.add, make(), make(3.0)))


def test_select():
    one, two = make(), make(3.0)
    same(in_float64(one.select)(True, two), one)
    same(in_float64(one.select)(False, two), two)
    found = in_float64(one.select)({"rate": np.array([True, False]), "share": np.array(False)}, two)
    np.testing.assert_array_equal(found.counts["rate"], [1.0, 2.0])
    np.testing.assert_array_equal(found.params["rate"].shape, [2.0, 3.0])
    assert found.counts["share"] == 15.0
    assert found.params["share"] == two.params["share"]


def test_parts():
    one, part = make(), make(3.0).only(["share"])
    assert set(part.params) == set(part.counts) == {"share"}
    mixed = one.replaced(part)
    assert mixed.params["share"] == part.params["share"]
    assert mixed.counts["share"] == 15.0
    assert mixed.params["rate"] == one.params["rate"]


def test_a_prior_has_seen_nothing():
    prior = in_float64(Blocks.of_prior)(make().params)
    assert not any(np.any(count) for count in prior.counts.values())
    assert prior.counts["rate"].shape == (2,)


def test_judgements():
    good = make()
    bad = Blocks(
        params={**good.params, "rate": good.params["rate"].scaled(-1.0)}, counts=good.counts
    )
    lost = Blocks(
        params={**good.params, "share": good.params["share"].scaled(np.nan)}, counts=good.counts
    )
    assert [bool(in_float64(blocks.is_proper)()) for blocks in (good, bad)] == [True, False]
    assert [bool(in_float64(blocks.is_finite)()) for blocks in (good, lost)] == [True, False]
    kl = in_float64(good.kl)(make(3.0))
    assert kl["rate"][0] > 0
    assert kl["rate"][1] == 0
    assert kl["share"] == good.params["share"].kl(make(3.0).params["share"])
