"""The exact posterior over rho and the true bound, against SciPy's quadrature."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import integrate, special

import streambayes as sb
from tests.tables import MODELS, QUICK

NORMAL = sb.TruncatedNormal.from_mean_variance(0.4, 0.2)
COIN = sb.models.BetaBinomial("x")


def steps(policy, model, batches):
    learner = sb.StreamLearner(model, policy)
    state = learner.init(batches[0])
    for batch in batches:
        before = state
        state, info = learner.step(state, batch)
        yield before, state, info


def coin_steps(policy, shares=(0.2, 0.25, 0.6)):
    rng = np.random.default_rng(0)
    return list(steps(policy, COIN, [{"x": rng.random(60) < share} for share in shares]))


def concentrations(beta):
    return np.array([beta.alpha, beta.beta], dtype=float)


def divergence(before, after, rho):
    """KL of the posterior from the power prior, by SciPy."""
    previous = concentrations(before.posterior["x"]) if before.num_batches else np.ones(2)
    mine, theirs = concentrations(after.posterior["x"]), rho * previous + (1 - rho)
    expected = special.digamma(mine) - special.digamma(mine.sum())
    return (mine - theirs) @ expected - special.betaln(*mine) + special.betaln(*theirs)


@pytest.mark.parametrize("rho_prior", [sb.TruncatedExponential.from_gamma(0.1), NORMAL], ids=repr)
def test_exact_posterior_over_rho(rho_prior):
    for before, after, _ in coin_steps(sb.HPP(rho_prior)):

        def joint(rho, before=before, after=after):
            return np.exp(rho_prior.log_prob(rho) - divergence(before, after, rho))

        evidence, _ = integrate.quad(joint, 0, 1, epsabs=1e-12, epsrel=1e-12)
        first, _ = integrate.quad(lambda rho: rho * joint(rho), 0, 1, epsabs=1e-12, epsrel=1e-12)
        exact = sb.metrics.exact_rho(before, after)
        assert exact.log_evidence == pytest.approx(np.log(evidence), rel=1e-9)
        assert exact.mean == pytest.approx(first / evidence, rel=1e-9)
        place = len(exact.rho) // 3
        expected = joint(exact.rho[place]) / evidence
        assert exact.density[place] == pytest.approx(expected, rel=1e-8)


@pytest.mark.parametrize("rho_prior", [sb.TruncatedExponential.from_gamma(0.1), NORMAL], ids=repr)
def test_gap_between_the_bounds(rho_prior):
    for before, after, info in coin_steps(sb.HPP(rho_prior)):
        posterior = rho_prior.with_slope(np.asarray(info.omega))

        def shortfall(rho, before=before, after=after, posterior=posterior):
            ends = divergence(before, after, 0.0), divergence(before, after, 1.0)
            chord = (1 - rho) * ends[0] + rho * ends[1]
            return np.exp(posterior.log_prob(rho)) * (chord - divergence(before, after, rho))

        expected, _ = integrate.quad(shortfall, 0, 1, epsabs=1e-12, epsrel=1e-12)
        gap = sb.metrics.bound_gap(before, after, info)
        assert gap == pytest.approx(expected, rel=1e-8, abs=1e-12)


LEARNED = [
    *itertools.product(QUICK, [sb.HPP(), sb.MHPP(), sb.MHPP(NORMAL)]),
    *((f"regression{kind}", sb.HPP()) for kind in ("", ", independent", ", conjugate")),
]


@pytest.mark.parametrize(("name", "policy"), LEARNED, ids=repr)
@settings(max_examples=4)
@given(seed=st.integers(0, 2**32 - 1))
def test_the_bound_is_below_the_true_one(name, policy, seed):
    """L-hat <= L <= the optimum over all posteriors of rho."""
    model, draw = MODELS[name]
    rng = np.random.default_rng(seed)
    for before, after, info in steps(policy, model, [draw(rng, 25) for _ in range(3)]):
        gap = sb.metrics.bound_gap(before, after, info)
        assert gap >= -1e-10
        if before.num_batches == 0:
            assert gap == pytest.approx(0.0, abs=1e-10)


def test_the_exact_posterior_maximises_the_true_bound():
    before, after, info = coin_steps(sb.HPP())[-1]
    exact = sb.metrics.exact_rho(before, after)
    prior = sb.HPP().rho_prior
    ends = divergence(before, after, 0.0), divergence(before, after, 1.0)
    posterior = prior.with_slope(np.asarray(info.omega))
    chord = (1 - info.rho) * ends[0] + info.rho * ends[1]
    learned = -chord - posterior.kl(prior) + sb.metrics.bound_gap(before, after, info)
    assert exact.log_evidence >= learned
    assert exact.log_evidence - learned < 0.5


def test_one_for_each_block_under_mhpp():
    model, draw = MODELS["gaussian"]
    rng = np.random.default_rng(0)
    *_, (before, after, _) = steps(sb.MHPP(), model, [draw(rng, 25) for _ in range(3)])
    exact = sb.metrics.exact_rho(before, after)["x, y"]
    assert exact.mean.shape == (2,)
    assert ((exact.mean > 0) & (exact.mean < 1)).all()


def test_steep_posteriors_are_resolved():
    """A jump seen in 20,000 rows leaves rho within 1e-3 of 0."""
    rng = np.random.default_rng(0)
    jump = [{"x": rng.random(20_000) < share} for share in (0.2, 0.8)]
    *_, (before, after, info) = steps(sb.HPP(), COIN, jump)
    exact = sb.metrics.exact_rho(before, after)
    assert info.rho < 1e-3
    assert exact.mean < 1e-3
    assert sb.metrics.bound_gap(before, after, info) >= 0


def test_policies_without_rho_have_none():
    before, after, _ = coin_steps(sb.SVB())[-1]
    with pytest.raises(TypeError, match="SVB has no posterior over rho; HPP and MHPP do"):
        sb.metrics.exact_rho(before, after)


@pytest.mark.parametrize(("rho", "limit"), [(0.0, 100.0), (0.9, 1000.0), (1.0, np.inf)])
def test_limit_of_retained_rows(rho, limit):
    assert sb.metrics.retained_limit(rho, 100) == pytest.approx(limit)


def test_limit_needs_a_share():
    with pytest.raises(ValueError, match="rho must lie in"):
        sb.metrics.retained_limit(1.2, 100)
