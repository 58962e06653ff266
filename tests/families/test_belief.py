"""A bank of members against the point and the mixture that it stands for."""

import jax
import jax.numpy as jnp
import numpy as np

from streambayes._core.precision import float64_scope
from streambayes.families import (
    Bank,
    Blocks,
    Gamma,
    GammaMarginal,
    NormalGamma,
    Point,
)

X = np.array([0.1, 0.9, 4.0])[:, None]


def blocks(shape=(2.0, 5.0), mean=0.0):
    """Two blocks of rates and one of means, with the rows behind them."""
    return Blocks(
        params={
            "rate": Gamma.from_shape_rate(np.array(shape), [1.0, 3.0]),
            "mean": NormalGamma.from_shape_rate_mean_scale(3.0, 2.0, [mean], 1.0),
        },
        counts={"rate": np.array([4.0, 10.0]), "mean": np.array([7.0])},
    )


def bank(weights, *members):
    stacked = jax.tree.map(lambda *leaves: np.stack(leaves), *members)
    log_weights = {
        name: np.log(np.broadcast_to(np.reshape(weights, (-1, 1)), counts.shape))
        for name, counts in stacked.counts.items()
    }
    return Bank(log_weights=log_weights, members=stacked)


def log_density(family):
    return family.log_prob(X)


def close(mine, theirs, rtol=1e-13):
    for a, b in zip(jax.tree.leaves(mine), jax.tree.leaves(theirs), strict=True):
        np.testing.assert_allclose(a, b, rtol=rtol)


def test_identical_members_are_the_point():
    point, many = Point(blocks()), bank([0.25, 0.75], blocks(), blocks())
    with float64_scope():
        pairs = [
            (point.expectations(), many.expectations()),
            (point.summary(), many.summary()),
            (point.log_mean("rate", log_density), many.log_mean("rate", log_density)),
        ]
        mine, theirs = (belief.marginal("rate", GammaMarginal) for belief in (point, many))
        pairs += [(mine.mean(), theirs.mean()), (mine.variance(), theirs.variance())]
        pairs.append((mine.cdf(X), theirs.cdf(X)))
    for one, two in pairs:
        close(one, two)


def test_two_members_are_the_mixture():
    weights, one, two = [0.3, 0.7], blocks(), blocks(shape=(9.0, 1.5), mean=2.0)
    many = bank(weights, one, two)

    def mixed(first, second):
        return jax.tree.map(lambda a, b: weights[0] * a + weights[1] * b, first, second)

    with float64_scope():
        close(many.expectations(), mixed(one.expectations(), two.expectations()))
        close(many.summary(), mixed(one, two))
        found = many.log_mean("rate", log_density)
        densities = (np.exp(log_density(member.params["rate"])) for member in (one, two))
        close(jnp.exp(found), mixed(*densities), rtol=1e-12)
        marginal = many.marginal("rate", GammaMarginal)
        first, second = (GammaMarginal(member.params["rate"]) for member in (one, two))
        close(marginal.mean(), mixed(first.mean(), second.mean()))
        close(marginal.cdf(X[0]), mixed(first.cdf(X[0]), second.cdf(X[0])))
        centre = marginal.mean()
        spread = [m.variance() + (m.mean() - centre) ** 2 for m in (first, second)]
        close(marginal.variance(), mixed(*spread))
