"""The contract holds for a policy whose belief is a weighted bank: nothing but its own file is needed."""

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import streambayes as sb
from streambayes import definition, pytree
from streambayes.families import Bank, Blocks
from streambayes.forgetting import AbstractForgetting, Report
from streambayes.testing import check_forgetting

SHARES = (1.0, 0.5)


@pytree
class Anchor:
    log_weights: dict[str, Any]
    tempered: Blocks


@definition
class TwoMemories(AbstractForgetting[Bank, Anchor]):
    """One member of each block keeps everything, one keeps half; the batch's evidence weighs them."""

    @property
    def name(self):
        return "two memories"

    def init(self, prior):
        members = jax.tree.map(lambda leaf: jnp.stack([leaf, leaf]), prior)
        weights = {
            name: jnp.full(count.shape, jnp.log(0.5)) for name, count in members.counts.items()
        }
        return Bank(log_weights=weights, members=members)

    def belief(self, memory):
        return memory

    def restart(self, memory, prior, chosen):
        fresh = self.init(prior)
        weights = {
            name: jnp.where(chosen[name], fresh.log_weights[name], memory.log_weights[name])
            for name in chosen
        }
        return Bank(log_weights=weights, members=fresh.members.select(dict(chosen), memory.members))

    def open(self, memory, prior, clock):
        del clock
        shares = {
            name: jnp.reshape(jnp.array(SHARES), (2,) + (1,) * (count.ndim - 1))
            for name, count in memory.members.counts.items()
        }
        return Anchor(memory.log_weights, memory.members.lerp(prior, shares))

    def update(self, anchor, belief, messages):
        tempered = anchor.tempered.only(messages.params)
        members = tempered + messages
        weights = {
            name: jax.nn.log_softmax(
                anchor.log_weights[name]
                + members.params[name].log_normalizer()
                - tempered.params[name].log_normalizer(),
                axis=0,
            )
            for name in messages.params
        }
        return Bank({**belief.log_weights, **weights}, belief.members.replaced(members))

    def weigh(self, anchor, belief, expectations):
        del expectations
        far = belief.members.kl(anchor.tempered)
        return sum(
            (jnp.exp(now) * (now - anchor.log_weights[name] + far[name])).sum()
            for name, now in belief.log_weights.items()
        )

    def refine(self, anchor, weighed):
        del weighed
        return anchor

    def divergence(self, anchor, weighed):
        del anchor
        return weighed

    def is_proper(self, anchor):
        return anchor.tempered.is_proper()

    def close(self, anchor, belief, clock):
        del anchor, clock
        return belief, Report(rho=None, omega=None)


def test_it_keeps_the_laws():
    check_forgetting(TwoMemories())


@pytest.fixture(scope="module")
def states():
    rng = np.random.default_rng(0)
    model = sb.models.Gaussian(["steady", "moving"])
    learner = sb.StreamLearner(model, TwoMemories())
    batches = [
        {"steady": rng.normal(size=60), "moving": rng.normal(3.0 * (t >= 6), 1.0, 60)}
        for t in range(7)
    ]
    state = learner.init(batches[0])
    for batch in batches:
        state, _ = learner.step(state, batch)
    return learner, state, batches[-1]


def test_evidence_weighs_the_memories(states):
    _, state, _ = states
    keeps_all, keeps_half = np.exp(state.belief.log_weights["steady, moving"])
    assert keeps_all[0] > 0.5 > keeps_half[0]
    assert keeps_half[1] > 0.99


def test_what_is_shown_is_the_mixture(states):
    learner, state, batch = states
    weights = np.exp(state.belief.log_weights["steady, moving"])
    members = state.belief.members.params["steady, moving"]
    means = np.asarray(members.location) * state.scale.factor + state.scale.shift
    expected = (weights * means).sum(0)
    summary = state.summary()
    assert summary["mean of steady"].mean == pytest.approx(expected[0], rel=1e-12)
    assert summary["mean of moving"].mean == pytest.approx(expected[1], rel=1e-12)
    with jax.enable_x64(True):
        rows = (
            np.column_stack([batch["steady"], batch["moving"]]) - state.scale.shift
        ) / state.scale.factor
        densities = np.exp(
            np.stack(
                [
                    np.asarray(
                        jax.tree.map(lambda leaf, e=e: leaf[e], members).log_predictive(rows)
                    )
                    for e in range(2)
                ]
            )
        )
    mixed = np.log((weights[:, None] * densities).sum(0)).sum(1) - np.log(state.scale.factor).sum()
    np.testing.assert_allclose(learner.log_predictive(state, batch), mixed, rtol=1e-10)


def test_it_can_be_saved(states, tmp_path):
    learner, state, batch = states
    sb.save(state, tmp_path / "bank.sbz")
    loaded = sb.load(tmp_path / "bank.sbz")
    assert learner.step(loaded, batch)[1] == learner.step(state, batch)[1]
