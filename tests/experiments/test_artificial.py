"""The artificial experiment against the authors' own run of it and against computations of our own."""

import math

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from scipy.special import betaln, digamma

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.experiments import artificial
from streambayes.families import Blocks
from streambayes.forgetting import Clock
from streambayes.learning import sweep
from streambayes.learning._intake import pad

REFERENCE = artificial.reference()
METHODS = artificial.methods(100)
FIXED = {name: policy for name, policy in METHODS.items() if name not in {"HPP", "MHPP"}} | {
    "Fading 0.9": sb.Fading(0.9),
    "Fading 0.99": sb.Fading(0.99),
}
PLUS_SIGN = sb.TruncatedExponential.from_gamma(-0.1)


@pytest.fixture(scope="module")
def small():
    """HPP and MHPP on the stored stream, as the experiment runs them."""
    return {name: artificial.track(REFERENCE.stream, METHODS[name]) for name in ("HPP", "MHPP")}


@pytest.fixture(scope="module")
def large():
    """HPP on batches of 1000."""
    return artificial.track(artificial.generated(1000), sb.HPP())


@pytest.mark.parametrize("name", FIXED)
def test_methods_without_a_learned_rho_meet_the_authors_run(name):
    ours, authors = artificial.track(REFERENCE.stream, FIXED[name]), REFERENCE.tracks[name]
    np.testing.assert_allclose(ours.alpha, authors.alpha, rtol=1e-9)
    np.testing.assert_allclose(ours.beta, authors.beta, rtol=1e-9)


@pytest.mark.parametrize(
    ("name", "policy", "threshold"),
    [
        ("HPP", sb.HPP(), 1e-4),
        ("MHPP", sb.MHPP(), 0.1),
        ("HPP plus sign", sb.HPP(rho_prior=PLUS_SIGN), 1e-4),
    ],
)
def test_learned_rho_meets_the_authors_run_under_their_stopping_rule(name, policy, threshold):
    ours, authors = _authors_loop(policy, threshold), REFERENCE.tracks[name]
    np.testing.assert_allclose(ours.alpha, authors.alpha, rtol=1e-6)
    np.testing.assert_allclose(ours.beta, authors.beta, rtol=1e-6)
    np.testing.assert_allclose(ours.rho, authors.rho, rtol=1e-6)
    # the program's gamma functions leave 2e-8 in omega even from its own stored posteriors, which
    # counts where omega is nearly 0 (0.027 at t = 52 of MHPP)
    np.testing.assert_allclose(ours.omega, authors.omega, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("policy", [sb.HPP(), sb.MHPP()], ids=lambda policy: policy.name)
def test_the_fixed_point_of_the_librarys_steps_is_the_independent_one(policy):
    ours, expected = _authors_loop(policy, threshold=0.0, num_rounds=60), _fixed_points(-0.1)
    np.testing.assert_allclose(ours.alpha, expected.alpha, rtol=1e-9)
    np.testing.assert_allclose(ours.beta, expected.beta, rtol=1e-9)
    np.testing.assert_allclose(ours.rho, expected.rho, rtol=1e-9)
    np.testing.assert_allclose(ours.omega, expected.omega, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("policy", [sb.HPP(max_rounds=1000), sb.MHPP(max_rounds=1000)])
def test_a_learner_stops_at_the_fixed_point_as_closely_as_its_bound_can_tell(policy):
    # the bound is flat there: an error e in rho costs e**2, so its last digit resolves 1e-8
    ours = artificial.track(REFERENCE.stream, policy, tolerance=0.0)
    expected = _fixed_points(-0.1)
    np.testing.assert_allclose(ours.alpha, expected.alpha, rtol=1e-7)
    np.testing.assert_allclose(ours.beta, expected.beta, rtol=1e-7)
    np.testing.assert_allclose(ours.rho, expected.rho, rtol=1e-7)
    np.testing.assert_allclose(ours.omega, expected.omega, rtol=1e-6, atol=1e-6)


def test_with_one_block_one_rho_per_block_is_one_rho(small):
    for quantity in ("alpha", "beta", "rho", "omega"):
        np.testing.assert_allclose(
            getattr(small["MHPP"], quantity), getattr(small["HPP"], quantity), rtol=1e-12
        )


def test_default_tolerance_is_close_to_the_fixed_point(small):
    expected = _fixed_points(-0.1)
    np.testing.assert_allclose(small["HPP"].alpha, expected.alpha, rtol=1e-5)
    np.testing.assert_allclose(small["HPP"].rho, expected.rho, rtol=1e-5)


def test_changes_are_seen_in_batches_of_100(small):
    rho = small["HPP"].rho
    assert rho[30] < 0.06
    assert rho[60] < 0.06
    for stable in (rho[20:30], rho[50:60], rho[80:100]):
        assert 0.55 < np.median(stable) < 0.75


def test_changes_are_seen_more_clearly_in_batches_of_1000(large):
    assert large.rho[30] < 0.003
    assert large.rho[60] < 0.003
    for stable in (large.rho[20:30], large.rho[50:60], large.rho[80:100]):
        assert np.median(stable) == pytest.approx(0.73, abs=0.03)


def test_power_prior_is_a_population_of_its_limit():
    power, population = FIXED["PP 0.9"], FIXED["PVB M=1000 nu=0.1"]
    one, other = (artificial.track(REFERENCE.stream, policy) for policy in (power, population))
    np.testing.assert_allclose(one.alpha, other.alpha, rtol=1e-12)
    np.testing.assert_allclose(one.sample_size[-1], 1002 - 1000 * 0.9**100, rtol=1e-12)


def test_stream_has_the_papers_schedule():
    truth = artificial.true_probability()
    assert [float(truth[t - 1]) for t in (1, 30, 31, 60, 61, 100)] == [0.2, 0.2, 0.5, 0.5, 0.8, 0.8]
    stream = artificial.generated(1000, seed=3)
    assert len(stream) == 100
    np.testing.assert_allclose(stream.successes / 1000, truth, atol=0.08)
    np.testing.assert_array_equal(artificial.generated(1000, seed=3).successes, stream.successes)
    assert (artificial.generated(1000, seed=4).successes != stream.successes).any()
    with pytest.raises(ValueError, match="batch_size must be at least 1, got 0"):
        artificial.generated(0)


def test_figures_are_returned_and_hold_every_method(small):
    tracks = dict.fromkeys(METHODS, small["HPP"])
    for figure in (
        artificial.plot_estimates(tracks),
        artificial.plot_sample_sizes(tracks, 100),
    ):
        labels = [text.get_text() for ax in figure.axes for text in ax.get_legend().get_texts()]
        assert len([label for label in labels if label.startswith(("SVB", "H", "M", "P"))]) == 9
        assert all(ax.get_xlabel() for ax in figure.axes)


def test_a_figure_of_rho_needs_one():
    with pytest.raises(ValueError, match="learns rho"):
        artificial.plot_forgetting({100: REFERENCE.tracks["SVB"]})


def _authors_loop(policy, threshold, num_rounds=10):
    """The loop over omega of the authors' program, from the library's own steps.

    omega restarts at its prior; a round tempers the prior with E[rho], learns the batch and updates
    omega. It watches the evidence of the batch under the tempered prior of that round less the
    divergence of the new q(rho), and stops when that changes by less than the threshold, in percent.
    What is reported is the posterior of the last round and the omega computed from it.
    """
    model = sb.models.BetaBinomial("draw")

    @jax.jit
    def one_round(batch, anchor, belief):
        rows = model.row_pass(belief.expectations(), batch, model.init_local(batch))
        belief, _, _ = sweep(model, policy, batch, anchor, belief, rows)
        evidence = model.expected_log_joint(belief.expectations(), rows[1])
        evidence -= belief.summary().kl(anchor.tempered)["draw"]
        anchor = policy.refine(anchor, policy.weigh(anchor, belief, belief.expectations()))
        (slope,) = jax.tree.leaves(anchor.omega)
        rho = policy.rho_prior.with_slope(slope)
        watched = evidence - jnp.maximum(0.0, rho.kl(policy.rho_prior))
        return anchor, belief, watched, (rho.mean(), rho.slope)

    history = []
    with float64_scope():
        prior = jax.tree.map(jnp.asarray, Blocks.of_prior(model.prior()))
        memory = policy.init(prior)
        for t, successes in enumerate(REFERENCE.stream.successes):
            draws = np.repeat([1.0, 0.0], [successes, 100 - successes])
            batch = pad(draws[None], model.columns)
            anchor = policy.open(memory, prior, Clock(100.0, 100.0 * t, 0.0))
            belief, before = policy.belief(memory), math.nan
            for _ in range(num_rounds):
                anchor, belief, watched, rho = one_round(batch, anchor, belief)
                if 100 * abs(watched - before) / abs(before) < threshold:
                    break
                before = float(watched)
            memory = belief.summary()
            beta = memory.params["draw"]
            history.append([float(number) for number in (beta.alpha, beta.beta, *rho)])
    return artificial.Track(*np.array(history).T)


def _fixed_points(omega_prior):
    """rho where prior, posterior and omega agree, batch by batch, without the library."""
    previous, history = np.ones(2), []
    for successes in REFERENCE.stream.successes:
        counts = np.array([successes, 100 - successes])
        rho = _expected(omega_prior)
        for _ in range(60):  # each brings it several times closer
            posterior = rho * previous + (1 - rho) * np.ones(2) + counts
            expected = digamma(posterior) - digamma(posterior.sum())
            omega = (previous - 1) @ expected - betaln(*previous) + omega_prior
            rho = _expected(omega)
        history.append((*posterior, rho, omega))
        previous = posterior
    return artificial.Track(*np.array(history).T)


def _expected(omega):
    if abs(omega) < 1e-3:
        return 0.5 + omega / 12 - omega**3 / 720
    return -1 / math.expm1(-omega) - 1 / omega
