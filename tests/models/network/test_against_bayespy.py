"""Networks with two latent variables against BayesPy, sweep by sweep: same priors, same start, same order of updates.

BayesPy keeps every constant of its bound, so the bounds themselves are compared. Entries
that no start is given for start at their prior in both.
"""

import jax
import jax.numpy as jnp
import numpy as np
from bayespy.inference import VB
from bayespy.nodes import (
    Add,
    Categorical,
    Dirichlet,
    Gamma,
    GaussianARD,
    GaussianGamma,
    Mixture,
    Poisson,
    SumMultiply,
)

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.forgetting import Clock
from streambayes.learning import sweep
from streambayes.testing._climb import internal_rows

NUM_ROWS = 50
NUM_SWEEPS = 30


def our_sweeps(learner, columns, **local):
    """After each sweep: what is believed of blocks and of the rows' hidden variables, and the bound."""
    state = learner.init(columns)
    model, policy = learner.model, learner.forgetting
    with float64_scope():
        batch = internal_rows(learner, state.scale, columns)
        clock = Clock(rows=jnp.asarray(50.0), rows_seen=jnp.zeros(()), elapsed=jnp.zeros(()))
        anchor = policy.open(state.memory, state.prior, clock)
        one_sweep = jax.jit(
            lambda belief, held: sweep(model, policy, batch, anchor, belief, (held, None))
        )
        belief, held = state.belief, model.init_local(batch).replaced(**local)
        for _ in range(NUM_SWEEPS):
            belief, (held, _), bound = one_sweep(belief, held)
            yield belief.summary().params, held, float(bound)


def padded(values):
    """Rows on the last axis, filled up to the batch's bucket."""
    wide = np.zeros((*values.shape[:-1], 64))
    wide[..., :NUM_ROWS] = values
    return wide


def near(mine, theirs, tolerance=1e-9):
    np.testing.assert_allclose(np.asarray(mine), theirs, rtol=tolerance, atol=tolerance)


def near_normal_gamma(mine, moments, tolerance=1e-9):
    """Expected statistics: precision times mean, times its square, precision, its log."""
    near(mine.location * mine.precision.mean(), moments[0], tolerance)
    near(mine.expected_stats().precision_mean_square, moments[1], tolerance)
    near(mine.precision.mean(), moments[2], tolerance)
    near(mine.precision.expected_stats().log_value, moments[3], tolerance)


def test_two_latent_classes():
    """z1 and z2 | z1 hidden; x | z1, z2 normal with a table of parameters; c | z1 and k | z2."""
    rng = np.random.default_rng(4)
    first = rng.integers(0, 2, NUM_ROWS)
    second = (first + rng.integers(0, 2, NUM_ROWS)) % 3
    x = rng.normal(2.0 * first - second, 0.8)
    c = np.where(rng.random(NUM_ROWS) < 0.7, first, 2)
    k = rng.poisson(1.0 + 3.0 * second)
    labels = rng.integers(0, 3, NUM_ROWS)
    concentrations = {"z1": [0.8, 1.1], "z2": np.full((2, 3), 0.9), "c": np.full((2, 3), 1.2)}
    starts = {name: 2.0 + rng.gamma(2.0, 2.0, np.shape(a)) for name, a in concentrations.items()}
    rates = 2.0 + 3.0 * rng.random(3)

    z1_table = Dirichlet(concentrations["z1"])
    z2_table = Dirichlet(concentrations["z2"], plates=(2,))
    c_table = Dirichlet(concentrations["c"], plates=(2,))
    rate = Gamma(1.5, 0.7, plates=(3,))
    blocks = GaussianGamma(
        np.full((2, 3), 0.3),
        np.full((2, 3), 0.5),
        np.full((2, 3), 1.4),
        np.full((2, 3), 0.9),
        ndim=0,
    )
    z1 = Categorical(z1_table, plates=(NUM_ROWS,))
    z2 = Mixture(z1, Categorical, z2_table)
    nodes = [
        Mixture(z1, Mixture, z2[:, None], GaussianARD, blocks, 1.0),
        Mixture(z1, Categorical, c_table),
        Mixture(z2, Poisson, rate),
    ]
    for node, values in zip(nodes, (x, c, k), strict=True):
        node.observe(values)
    z1_table.initialize_from_parameters(starts["z1"])
    z2_table.initialize_from_parameters(starts["z2"])
    c_table.initialize_from_parameters(starts["c"])
    rate.initialize_from_parameters(rates, 1.0)
    z2.initialize_from_value(labels)
    parameters = [z1_table, z2_table, c_table, rate, blocks]
    theirs = VB(*nodes, z1, z2, *parameters, autosave_filename="unused")

    net = sb.Network()
    net.categorical("z1", 2, latent=True)
    net.categorical("z2", 3, parents=["z1"], latent=True)
    net.normal("x", parents=["z1", "z2"])
    net.categorical("c", 3, parents=["z1"])
    net.poisson("k", parents=["z2"])
    learner = sb.StreamLearner(
        net,
        sb.SVB(),
        scale=False,
        prior={
            **{n: sb.Dirichlet.from_concentration(a) for n, a in concentrations.items()},
            "x": sb.NormalGamma.from_shape_rate_mean_scale(1.4, 0.9, 0.3, 0.5),
            "k": sb.Gamma.from_shape_rate(1.5, 0.7),
        },
        start={
            **{n: sb.Dirichlet.from_concentration(a) for n, a in starts.items()},
            "k": sb.Gamma.from_shape_rate(rates, 1.0),
        },
    )
    columns = {"x": x, "c": c, "k": k}
    local = {"z2": padded(np.eye(3)[labels].T)}
    last = -np.inf
    for posterior, held, bound in our_sweeps(learner, columns, shares=local):
        theirs.update(z1, z2, *parameters, verbose=False)
        near(held.shares["z1"][:, :NUM_ROWS].T, z1.u[0])
        near(held.shares["z2"][:, :NUM_ROWS].T, z2.u[0])
        for name, node in (("z1", z1_table), ("z2", z2_table), ("c", c_table)):
            near(posterior[name].concentration, node.phi[0])
        near(posterior["k"].mean(), rate.u[0])
        near_normal_gamma(posterior["x"], blocks.u)
        near(bound, theirs.compute_lowerbound(), 1e-11)
        assert bound >= last - 1e-10
        last = bound


COEFFICIENTS = ("intercept", "b[f1]", "b[f2]")


def their_factors(values, guesses, second):
    """BayesPy's nodes by our names, in the order of our updates, and the observed ones."""
    own = {name: GaussianGamma(0.1, 1.5, 2.0, 1.8, ndim=0) for name in ("f1", "f2")}
    scores = [GaussianARD(node, 1.0, plates=(NUM_ROWS,)) for node in own.values()]
    scores[1].initialize_from_parameters(second, 5.0)
    noises, slopes, leaves = {}, {}, []
    for name, row, guess in zip("abc", values, guesses, strict=True):
        each = [GaussianARD(0.0, 0.6) for _ in COEFFICIENTS]
        for entry, node, value in zip(COEFFICIENTS, each, guess, strict=True):
            node.initialize_from_parameters(value, 10.0)
            slopes[f"{name}: {entry}"] = node
        noise = noises[f"{name}: noise"] = Gamma(1.2, 0.8)
        noise.initialize_from_parameters(3.0, 2.0)
        products = (SumMultiply(",", *pair) for pair in zip(each[1:], scores, strict=True))
        leaf = GaussianARD(Add(each[0], *products), noise, plates=(NUM_ROWS,))
        leaf.observe(np.nan_to_num(row), mask=~np.isnan(row))
        leaves.append(leaf)
    return scores, {**own, **noises, **slopes}, leaves


def our_factors(guesses):
    net = sb.Network()
    net.normal("f1", latent=True)
    net.normal("f2", latent=True)
    own = sb.NormalGamma.from_shape_rate_mean_scale(2.0, 1.8, 0.1, 1.5)
    prior, start = {"f1": own, "f2": own}, {}
    for name, guess in zip("abc", guesses, strict=True):
        net.normal(name, parents=["f1", "f2"], coefficients="independent")
        for entry, value in zip(COEFFICIENTS, guess, strict=True):
            prior[f"{name}: {entry}"] = sb.Normal.from_mean_precision(0.0, 0.6)
            start[f"{name}: {entry}"] = sb.Normal.from_mean_precision(value, 10.0)
        prior[f"{name}: noise"] = sb.Gamma.from_shape_rate(1.2, 0.8)
        start[f"{name}: noise"] = sb.Gamma.from_shape_rate(3.0, 2.0)
    return sb.StreamLearner(net, sb.SVB(), scale=False, prior=prior, start=start)


def test_two_latent_normals():
    """f1 and f2 normal and hidden; three columns with gaps, linear in both, coefficients independent."""
    rng = np.random.default_rng(5)
    centres = np.array([[1.0], [0.0], [-2.0]])
    values = centres + rng.normal(size=(3, 2)) @ rng.normal(size=(2, NUM_ROWS))
    values += 0.4 * rng.normal(size=(3, NUM_ROWS))
    values[rng.integers(0, 3, 8), np.arange(0, 24, 3)] = np.nan
    guesses, second = rng.normal(size=(3, 3)), rng.normal(size=NUM_ROWS)
    scores, nodes, leaves = their_factors(values, guesses, second)
    order = [*scores, *nodes.values()]
    theirs = VB(*leaves, *order, autosave_filename="unused")
    local = {"means": {"f2": padded(second)}, "squares": {"f2": padded(second**2 + 0.2)}}
    columns = dict(zip("abc", values, strict=True))
    last = -np.inf
    for posterior, held, bound in our_sweeps(our_factors(guesses), columns, **local):
        theirs.update(*order, verbose=False)
        for name, node in zip(("f1", "f2"), scores, strict=True):
            near(held.means[name][:NUM_ROWS], node.u[0])
            near(held.squares[name][:NUM_ROWS], node.u[1])
        for name, node in nodes.items():
            block = posterior[name]
            if isinstance(block, sb.NormalGamma):
                near_normal_gamma(block, node.u)
            elif isinstance(block, sb.Normal):
                near(block.expected_stats().value, node.u[0])
                near(block.expected_stats().square, node.u[1])
            else:
                near(block.mean(), node.u[0])
        near(bound, theirs.compute_lowerbound(), 1e-11)
        assert bound >= last - 1e-10
        last = bound
