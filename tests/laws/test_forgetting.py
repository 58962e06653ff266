"""Every policy keeps the laws of ``streambayes.testing.check_forgetting``, and its own."""

import itertools

import jax
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambayes as sb
from streambayes.forgetting import AbstractForgetting
from streambayes.testing import check_forgetting
from tests.tables import EVERYTHING, EXACT, MODELS, NORMAL, POLICIES, QUICK, SLOW


def naturals(state):
    return [np.asarray(leaf) for leaf in jax.tree.leaves(state.belief.summary())]


def learned(policy, model, batches, **settings):
    learner = sb.StreamLearner(model, policy, **settings)
    state = learner.init(batches[0])
    for batch in batches:
        state, _ = learner.step(state, batch)
    return state


def drawn(name, seed, num_batches=4, num_rows=25):
    model, draw = MODELS[name]
    rng = np.random.default_rng(seed)
    return model, [draw(rng, num_rows) for _ in range(num_batches)]


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_laws(policy):
    check_forgetting(policy)


def test_table_is_complete():
    import streambayes.forgetting as package

    concrete = {
        value
        for name, value in vars(package).items()
        if isinstance(value, type)
        and issubclass(value, AbstractForgetting)
        and "Abstract" not in name
    }
    assert {type(policy) for policy in POLICIES} == concrete


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=8)
@given(seed=st.integers(0, 2**32 - 1), rho=st.sampled_from([0.05, 0.6, 0.97]))
def test_power_prior_weights_past_rows(name, seed, rho):
    """Lemma 1: the rows of a batch k batches back have weight rho^k."""
    model, batches = drawn(name, seed)
    found = learned(sb.PowerPrior(rho), model, batches)
    scale = {
        column.name: (float(found.scale.shift[place]), float(found.scale.factor[place]))
        for place, column in enumerate(model.columns)
        if column.kind == "continuous"
    }
    plain = sb.StreamLearner(model, sb.SVB(), scale=scale)
    start = plain.init(batches[0])
    expected = naturals(start)
    for back, batch in enumerate(reversed(batches)):
        message = [
            after - before
            for after, before in zip(
                naturals(plain.step(start, batch)[0]), naturals(start), strict=True
            )
        ]
        expected = [sum_ + rho**back * part for sum_, part in zip(expected, message, strict=True)]
    for mine, theirs in zip(naturals(found), expected, strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", EXACT)
def test_limits_of_the_power_prior(name):
    model, batches = drawn(name, seed=1)
    forgetful = learned(sb.PowerPrior(0.0), model, batches)
    for mine, theirs in zip(
        naturals(learned(sb.PowerPrior(1.0), model, batches)),
        naturals(learned(sb.SVB(), model, batches)),
        strict=True,
    ):
        np.testing.assert_array_equal(mine, theirs)
    learner = sb.StreamLearner(model, sb.SVB())
    refit = learner.step(learner.init(batches[0]), batches[-1])[0]
    for mine, theirs in zip(naturals(forgetful), naturals(refit), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("policy", [sb.HPP, sb.MHPP])
def test_a_steep_prior_over_rho_decides(policy):
    model, batches = drawn("gaussian", seed=2)
    trusting = policy(rho_prior=sb.TruncatedExponential.from_gamma(-1e8))
    suspicious = policy(rho_prior=sb.TruncatedExponential.from_gamma(1e8))
    for steep, plain in ((trusting, sb.SVB()), (suspicious, sb.PowerPrior(0.0))):
        for mine, theirs in zip(
            naturals(learned(steep, model, batches)),
            naturals(learned(plain, model, batches)),
            strict=True,
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("name", ["draws", "counts", "categories", "events", "multivariate"])
@pytest.mark.parametrize("rho_prior", [sb.TruncatedExponential.from_gamma(0.1), NORMAL], ids=repr)
def test_one_block_has_one_rho(name, rho_prior):
    """MHPP on a single block is HPP."""
    model, batches = drawn(name, seed=4)
    one = learned(sb.HPP(rho_prior), model, batches)
    other = learned(sb.MHPP(rho_prior), model, batches)
    for mine, theirs in zip(naturals(one), naturals(other), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-10)


def test_mhpp_is_hpp_on_each_column_alone():
    model, batches = drawn("gaussian", seed=6)
    together = learned(sb.MHPP(), model, batches)
    for name in ("x", "y"):
        alone = learned(sb.HPP(), sb.models.Gaussian(name), batches)
        assert together.retained[name] == pytest.approx(alone.retained[name], rel=1e-6)


@pytest.mark.parametrize("name", QUICK)
@settings(max_examples=6)
@given(
    seed=st.integers(0, 2**32 - 1),
    policy=st.sampled_from([policy for policy in POLICIES if policy.maximises_bound]),
)
def test_steps_stay_proper_and_finite(name, seed, policy):
    check_steps(*drawn(name, seed), policy)


@pytest.mark.parametrize("name", SLOW)
@settings(max_examples=6)
@given(seed=st.integers(0, 2**32 - 1))
def test_steps_of_larger_models_stay_proper_and_finite(name, seed):
    check_steps(*drawn(name, seed, num_rows=15), sb.Auto())


OTHERS = [
    sb.PowerPrior(0.9),
    sb.PowerPrior(kl_budget=0.2),
    sb.Fading(0.9),
    sb.HPP(rho_prior=NORMAL),
    sb.MHPP(),
]


@pytest.mark.parametrize(
    ("name", "policy"),
    [*itertools.product(SLOW if EVERYTHING else ["mixture", "regression, independent"], OTHERS)],
    ids=repr,
)
def test_other_policies_learn_hidden_variables_and_coupled_blocks_too(name, policy):
    check_steps(*drawn(name, seed=5, num_rows=15), policy)


def check_steps(model, batches, policy):
    learner = sb.StreamLearner(model, policy)
    state = learner.init(batches[0])
    for batch in batches:
        state, info = learner.step(state, batch)
        assert np.isfinite(info.bound)
        shares = info.rho.values() if isinstance(info.rho, dict) else [info.rho]
        assert all(0.0 <= rho <= 1.0 for rho in shares)
        assert all(np.all(family.is_proper()) for family in state.posterior.values())
        assert info.outcome is sb.Outcome.CONVERGED


@pytest.mark.parametrize(
    "policy", [policy for policy in POLICIES if not policy.maximises_bound], ids=repr
)
def test_policies_without_a_bound_need_blocks_that_are_not_coupled(policy):
    """A damped step towards a population is defined block by block."""
    refused = set()
    for name, (model, _) in MODELS.items():
        try:
            sb.StreamLearner(model, policy)
        except ValueError as error:
            assert "are coupled" in str(error)  # noqa: PT017  # which models raise is what is tested
            refused.add(name)
    assert refused == {"regression", "regression, independent", "regression with gaps", "network"}


def test_a_population_of_a_mixture_is_retained():
    """Components share the rows that the posterior stands for."""
    model, batches = drawn("mixture", seed=3, num_batches=60, num_rows=15)
    state = learned(sb.PVB(500, 0.2), model, batches)
    rows = np.asarray(state.belief.summary().counts["component"])
    per_component = np.asarray(state.belief.summary().counts["x, y"])
    assert rows == pytest.approx(500, rel=1e-4)
    np.testing.assert_allclose(per_component.sum(0), 500, rtol=1e-4)
    means = sorted(state.summary()[f"mean of x | component={k}"].mean for k in range(2))
    assert means == pytest.approx([-2.0, 3.0], abs=0.3)


class TestTheCheckItself:
    """A check that cannot fail is none."""

    def test_a_refinement_in_the_wrong_direction_is_found(self, monkeypatch):
        from streambayes.forgetting import _hierarchical

        true = _hierarchical.AbstractHierarchical._anchor
        monkeypatch.setattr(
            _hierarchical.AbstractHierarchical,
            "_anchor",
            lambda self, previous, prior, gain: true(
                self, previous, prior, jax.tree.map(lambda g: -g, gain)
            ),
        )
        with pytest.raises(AssertionError, match="the bound never falls"):
            check_forgetting(sb.HPP(max_rounds=17))
