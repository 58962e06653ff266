"""Values of latent variables that have become alike, or of which nothing is left, are told apart again."""

import numpy as np
import pytest

import streambayes as sb

CENTRES = np.array([[[-3, 0], [0, 3], [3, 0]], [[-3, -3], [3, 3], [0, -5]]], float)
MODEL = sb.models.ConditionalMixture(["x", "y"], "day", ["week", "weekend"], 3)
ONLY_DAY = {"day": ["weekend"], "x": [np.nan], "y": [np.nan]}
POLICIES = [
    sb.SVB(),
    sb.PowerPrior(0.9),
    sb.PowerPrior(0.5),
    sb.PowerPrior(0.01),
    sb.Fading(0.5),
    sb.HPP(),
    sb.MHPP(),
    sb.Auto(),
    sb.Auto(shared=True),
    sb.PVB(400, 0.5),
    sb.SVI(10_000),
]


def rows(rng, days, size=150):
    day, z = rng.choice(days, size), rng.integers(0, 3, size)
    points = CENTRES[day, z] + rng.normal(0.0, 0.6, (size, 2))
    return {"day": np.array(["week", "weekend"])[day], "x": points[:, 0], "y": points[:, 1]}


def away_and_back(learner, seed=0):
    """The state after weekends have been away for long, and a batch in which they return."""
    rng = np.random.default_rng(seed)
    state = learner.init(rows(rng, [0, 1]))
    for days in ([0, 1],) * 3 + ([0],) * 20:
        state, _ = learner.step(state, rows(rng, days))
    return state, rows(rng, [0, 1]), rows(rng, [1], 2000)


def of_weekends(learner, state, test):
    """Held-out log density of weekends, given that it is one."""
    return learner.score(state, test).predictive - learner.log_predictive(state, ONLY_DAY)[0]


@pytest.mark.parametrize("policy", POLICIES, ids=lambda policy: policy.name)
def test_a_category_that_returns_is_learned_as_if_it_were_new(policy):
    learner = sb.StreamLearner(MODEL, policy, num_restarts=5, watch=False)
    state, back, test = away_and_back(learner)
    state, info = learner.step(state, back)
    fresh = sb.StreamLearner(MODEL, sb.SVB(), num_restarts=5, watch=False)
    reference, _ = fresh.step(fresh.init(back), back)
    ahead = of_weekends(learner, state, test) - of_weekends(fresh, reference, test)
    assert ahead > -0.02  # the least of four seeds is 0.001
    if policy.maximises_bound:
        assert info.fall < 1e-9 * abs(info.bound)


def test_the_same_alone_among_many_and_in_pieces():
    learner = sb.StreamLearner(MODEL, sb.PowerPrior(0.01), watch=False)
    state, back, _ = away_and_back(learner)
    alone, info = learner.step(state, back)
    (told,) = info.events
    assert told.startswith("all values of component given day=weekend were alike, forgotten or")
    fleet = sb.many(learner)
    states, infos = fleet.step(sb.ManyStates.of({"a": state, "b": state}), {"a": back})
    assert infos["a"].events == info.events
    together, other = learner.step(state, sb.batches(back, rows=40))
    assert other.events == info.events
    for found in (states["a"], together):
        for name, family in alone.posterior.items():
            for mine, theirs in zip(
                family.naturals(), found.posterior[name].naturals(), strict=True
            ):
                np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-9)


def test_dead_components_wake_as_two():
    """They learn alike for ever, even where sweeps never stop: sweeps alone do not tell them apart."""
    centres = np.array([[-4, 0], [0, 4], [4, 0], [0, -4], [4, -4]], float)
    rng = np.random.default_rng(0)

    def batch(num_clusters, size=300):
        points = centres[rng.integers(0, num_clusters, size)] + rng.normal(0, 0.5, (size, 2))
        return {"x": points[:, 0], "y": points[:, 1]}

    learner = sb.StreamLearner(sb.models.GaussianMixture(["x", "y"], 5), sb.SVB(), watch=False)
    state = learner.init(batch(3))
    for _ in range(10):
        state, info = learner.step(state, batch(3))
        assert info.events == ()
    dead = [f"x | component={k}" for k in range(5) if info.retained[f"x | component={k}"] < 1]
    assert len(dead) == 2
    state, info = learner.step(state, batch(5, 300))
    assert "were alike" in info.events[0]
    means = sorted(state.summary()[f"mean of {name}"].mean for name in dead)
    assert means == pytest.approx([0.0, 4.0], abs=0.3)
