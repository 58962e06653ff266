"""Gaussian mixtures against scikit-learn's variational mixture, sweep by sweep from one start.

scikit-learn's bound leaves out constants, so gains are compared. Its diagonal type is left alone: it
takes the digammas of another family.
"""

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from sklearn.mixture import BayesianGaussianMixture

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.forgetting import Clock
from streambayes.learning import sweep
from streambayes.models.network._factor import Moments
from streambayes.testing._climb import internal_rows

NUM_COMPONENTS = 3
NUM_SWEEPS = 25


def overlapping(num_columns):
    """Rows of three clusters that overlap, and responsibilities that know them a little."""
    rng = np.random.default_rng(7)
    members = rng.integers(0, NUM_COMPONENTS, 120)
    turn = np.eye(num_columns) + 0.5 * np.tri(num_columns, k=-1)
    rows = 3.0 + 2.2 * members[:, None] + rng.normal(size=(120, num_columns)) @ turn
    noise = rng.dirichlet(np.full(NUM_COMPONENTS, 0.5), 120)
    return rows, 0.8 * noise + 0.2 * np.eye(NUM_COMPONENTS)[members]


class Priors:
    """The same prior for both."""

    def __init__(self, num_columns):
        half = np.arange(float(num_columns * num_columns)).reshape(num_columns, num_columns) / 9.0
        self.concentration = 0.7
        self.scale = 0.4
        self.mean = np.linspace(4.0, 6.0, num_columns)
        self.degrees = num_columns + 1.5
        self.scatter = np.eye(num_columns) + half @ half.T

    def sklearn(self, rows, responsibilities):
        """A mixture after one M-step."""
        mixture = BayesianGaussianMixture(
            n_components=NUM_COMPONENTS,
            covariance_type="full",
            reg_covar=0.0,
            weight_concentration_prior_type="dirichlet_distribution",
            weight_concentration_prior=self.concentration,
            mean_precision_prior=self.scale,
            mean_prior=self.mean,
            degrees_of_freedom_prior=self.degrees,
            covariance_prior=self.scatter,
        )
        mixture._check_parameters(rows)
        mixture._m_step(rows, np.log(responsibilities))
        return mixture

    def wishart(self):
        return sb.NormalWishart.from_degrees_scatter_mean_scale(
            self.degrees, self.scatter, self.mean, self.scale
        )

    def gamma(self):
        return sb.NormalGamma.from_shape_rate_mean_scale(
            0.5 * self.degrees, 0.5 * self.scatter[0, 0], self.mean[0], self.scale
        )


def blocks_of(mixture):
    """scikit-learn's posterior as one of ours; it divides its scatters by their degrees."""
    degrees = mixture.degrees_of_freedom_
    scatter = mixture.covariances_ * degrees[:, None, None]
    return (
        sb.Dirichlet.from_concentration(mixture.weight_concentration_),
        sb.NormalWishart.from_degrees_scatter_mean_scale(
            degrees, scatter, mixture.means_, mixture.mean_precision_
        ),
    )


def compare(learner, rows, mixture, read):
    """Drive both; ``read`` makes degrees, scatters, means and scales of our block."""
    columns = {f"x{k}": rows[:, k] for k in range(rows.shape[1])}
    entry = ", ".join(columns)
    state = learner.init(columns)
    with float64_scope():
        model = learner.model
        batch = internal_rows(learner, state.scale, columns)
        clock = Clock(rows=jnp.asarray(120.0), rows_seen=jnp.zeros(()), elapsed=jnp.zeros(()))
        anchor = learner.forgetting.open(state.memory, state.prior, clock)
        one_sweep = jax.jit(
            lambda belief, held: sweep(
                model, learner.forgetting, batch, anchor, belief, (held, None)
            )
        )
        belief, held = state.belief, model.init_local(batch)
        bounds = []
        for _ in range(NUM_SWEEPS):
            log_norm, log_resp = mixture._e_step(rows)
            mixture._m_step(rows, log_resp)
            belief, (held, summary), bound = one_sweep(belief, held)
            shares = np.exp(log_resp)
            occurrences = summary.factors["component"].occurrences
            np.testing.assert_allclose(occurrences, shares.sum(0), rtol=1e-10)
            if isinstance(held, Moments):  # diagonal mixtures sum them out
                mine = np.asarray(held.shares["component"])[:, : len(rows)].T
                np.testing.assert_allclose(mine, shares, rtol=0, atol=1e-10)
            bounds.append((float(bound), mixture._compute_lower_bound(log_resp, log_norm)))
        posterior = belief.summary().params
        theirs = blocks_of(mixture)
        np.testing.assert_allclose(
            posterior["component"].concentration, theirs[0].concentration, rtol=1e-9
        )
        for mine, other in zip(
            read(posterior[entry]),
            (theirs[1].degrees, theirs[1].scatter, theirs[1].location, theirs[1].scale),
            strict=True,
        ):
            np.testing.assert_allclose(mine, other, rtol=1e-9, atol=1e-9)
    gains, others = np.diff(np.array(bounds), axis=0).T
    assert others.max() > 0.5  # they have climbed
    np.testing.assert_allclose(gains, others, rtol=0, atol=1e-9)


@pytest.mark.parametrize("num_columns", [2, 3])
def test_full_covariance(num_columns):
    rows, responsibilities = overlapping(num_columns)
    priors = Priors(num_columns)
    mixture = priors.sklearn(rows, responsibilities)
    names = [f"x{k}" for k in range(num_columns)]
    weights, blocks = blocks_of(mixture)
    learner = sb.StreamLearner(
        sb.models.GaussianMixture(names, NUM_COMPONENTS, "full"),
        sb.SVB(),
        prior={
            "component": sb.Dirichlet.from_concentration(np.full(3, priors.concentration)),
            ", ".join(names): priors.wishart(),
        },
        start={"component": weights, ", ".join(names): blocks},
        scale=False,
    )
    compare(learner, rows, mixture, lambda b: (b.degrees, b.scatter, b.location, b.scale))


def test_one_column_with_a_mean_and_a_precision():
    """In one dimension a Wishart is a Gamma, and the diagonal mixture is the full one."""
    rows, responsibilities = overlapping(1)
    priors = Priors(1)
    mixture = priors.sklearn(rows, responsibilities)
    weights, blocks = blocks_of(mixture)
    start = sb.NormalGamma.from_shape_rate_mean_scale(
        0.5 * blocks.degrees[:, None],
        0.5 * blocks.scatter[:, :, 0],
        blocks.location,
        blocks.scale[:, None],
    )
    learner = sb.StreamLearner(
        sb.models.GaussianMixture("x0", NUM_COMPONENTS),
        sb.SVB(),
        prior={
            "component": sb.Dirichlet.from_concentration(np.full(3, priors.concentration)),
            "x0": priors.gamma(),
        },
        start={"component": weights, "x0": start},
        scale=False,
    )

    def read(block):
        gamma = block.precision
        return (
            2.0 * gamma.shape[:, 0],
            2.0 * gamma.rate[:, :, None],
            block.location,
            block.scale[:, 0],
        )

    compare(learner, rows, mixture, read)


def test_learner_ends_where_sklearn_ends():
    """Through the public interface, with the rows scaled for arithmetic, at convergence."""
    rows, responsibilities = overlapping(2)
    priors = Priors(2)
    mixture = priors.sklearn(rows, responsibilities)
    weights, blocks = blocks_of(mixture)
    learner = sb.StreamLearner(
        sb.models.GaussianMixture(["x0", "x1"], NUM_COMPONENTS, "full"),
        sb.SVB(),
        prior={
            "component": sb.Dirichlet.from_concentration(np.full(3, priors.concentration)),
            "x0, x1": priors.wishart(),
        },
        start={"component": weights, "x0, x1": blocks},
        max_sweeps=5000,
        tolerance=1e-14,
    )
    state, info = learner.step(learner.init(rows), rows)
    assert info.outcome == sb.Outcome.CONVERGED
    for _ in range(400):
        _, log_resp = mixture._e_step(rows)
        mixture._m_step(rows, log_resp)
    posterior = state.posterior["x0, x1"]
    np.testing.assert_allclose(posterior.location, mixture.means_, rtol=1e-5)
    np.testing.assert_allclose(posterior.degrees, mixture.degrees_of_freedom_, rtol=1e-5)
