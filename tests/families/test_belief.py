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


def in_rows(family):
    """The same for each of three rows."""
    return GammaMarginal(family.broadcast_to((3, *family.batch_shape)))


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


def test_predictive_of_a_point_is_that_of_its_member():
    point = Point(blocks())
    with float64_scope():
        found = point.predictive("rate", in_rows)
        close(found, in_rows(point.blocks.params["rate"]), rtol=0.0)


def test_predictive_of_a_bank_is_the_mixture():
    """Rows lead in a predictive distribution: weights of blocks meet the last axes."""
    weights = np.array([[0.3, 0.9], [0.7, 0.1]])  # members, blocks
    members = blocks(), blocks(shape=(9.0, 1.5))
    many = bank([0.3, 0.7], *members)
    many.log_weights["rate"] = np.log(weights)
    with float64_scope():
        found = many.predictive("rate", in_rows)
        each = [in_rows(member.params["rate"]) for member in members]
        shape = (3, 2)  # rows, blocks

        def mixed(first, second):
            return weights[0] * first + weights[1] * second

        assert found.mean().shape == shape
        close(found.mean(), mixed(*(member.mean() for member in each)))
        close(found.cdf(X), mixed(*(member.cdf(X) for member in each)))
        centre = found.mean()
        close(
            found.variance(),
            mixed(*(member.variance() + (member.mean() - centre) ** 2 for member in each)),
        )
        median = found.quantile(jnp.full(shape, 0.5))
        close(found.cdf(median), jnp.full(shape, 0.5), rtol=1e-10)


def test_draws_of_a_point_are_those_of_its_families():
    point = Point(blocks())
    drawn, again = point.sample(np.random.default_rng(0), 5), np.random.default_rng(0)
    for name, family in point.blocks.params.items():
        close(drawn[name], family.sample(again, 5), rtol=0.0)


def test_draws_of_a_bank_come_from_members_by_their_weights(rng):
    """Members that lie far apart, so that each draw tells where it is from."""
    weights = np.array([[0.2, 0.9], [0.5, 0.05], [0.3, 0.05]])  # members, blocks
    centres = np.array([1.0, 10.0, 100.0])
    members = [
        Blocks(
            params={"rate": Gamma.from_shape_rate(np.full(2, 1e4), 1e4 / centre)},
            counts={"rate": np.zeros(2)},
        )
        for centre in centres
    ]
    many = bank([1.0, 1.0, 1.0], *members)
    many.log_weights["rate"] = np.log(weights)
    num_draws = 4000
    drawn = many.sample(rng, num_draws)["rate"]
    assert drawn.shape == (num_draws, 2)
    away = np.abs(drawn[..., None] / centres - 1.0)
    assert away.min(-1).max() < 0.1  # ten standard deviations of a member
    origin = away.argmin(-1)
    frequencies = np.stack([(origin == member).mean(0) for member in range(3)])
    spread = np.sqrt(weights * (1.0 - weights) / num_draws)
    assert (np.abs(frequencies - weights) < 5.0 * spread).all()
    # blocks are drawn independently, and so are rows
    both = ((origin[:, 0] == 1) & (origin[:, 1] == 0)).mean()
    assert abs(both - 0.45) < 5.0 * np.sqrt(0.45 * 0.55 / num_draws)
    again = ((origin[1:, 0] == 1) & (origin[:-1, 0] == 1)).mean()
    assert abs(again - 0.25) < 5.0 * np.sqrt(0.25 * 0.75 / num_draws)


def test_draws_of_a_bank_keep_the_parts_of_a_parameter_together(rng):
    """A mean and its precision come from one member."""
    members = [
        Blocks(
            params={"mean": NormalGamma.from_shape_rate_mean_scale(1e4, 1e4 / p, [m], 1e8)},
            counts={"mean": np.zeros(1)},
        )
        for m, p in ((-5.0, 1.0), (5.0, 100.0))
    ]
    many = bank([0.5, 0.5], *members)
    mean, precision = many.sample(rng, 500)["mean"]
    assert mean.shape == precision.shape == (500, 1)
    np.testing.assert_array_equal(mean > 0, precision > 10)
    assert 0 < (mean > 0).sum() < 500
