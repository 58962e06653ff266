"""States learned apart, merged: what learning their rows together gives."""

from itertools import pairwise

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.forgetting import AbstractSinglePrior, PriorAnchor
from streambayes.learning._merge import _left
from tests.tables import EXACT, HIDDEN

GAUSSIAN, DRAW = EXACT["gaussian"]


def cut(batch, *places):
    """The rows of a batch, site by site."""
    ends = [0, *places, len(next(iter(batch.values())))]
    return [
        {name: np.asarray(values)[begin:end] for name, values in batch.items()}
        for begin, end in pairwise(ends)
    ]


def learned(learner, state, batches, times=None):
    """The state after some batches."""
    for place, batch in enumerate(batches):
        state, _ = learner.step(state, batch, time=None if times is None else times[place])
    return state


def assert_same(mine, theirs, rtol=1e-10):
    """Whether two states have learned the same."""
    for name in ("memory", "belief", "prior", "scale", "rows_seen", "pending", "last_time"):
        pairs = zip(
            jax.tree.leaves(getattr(mine, name)),
            jax.tree.leaves(getattr(theirs, name)),
            strict=True,
        )
        for one, other in pairs:
            held = np.asarray(other)
            assert np.asarray(one).dtype == held.dtype
            # entries of one array are in the same units: what is 0 but for rounding is compared with them
            slack = rtol * np.abs(held).max(initial=1.0, where=~np.isnan(held))
            np.testing.assert_allclose(one, other, rtol=rtol, atol=slack)


@pytest.mark.parametrize(
    "name",
    [
        "counts with gaps",
        "events",
        "gaussian with gaps",
        "multivariate",
        "regression, conjugate",
        "naive Bayes",
    ],
)
def test_as_all_rows_at_once(name):
    model, draw = EXACT[name]
    rows = draw(np.random.default_rng(1), 120)
    learner = sb.StreamLearner(model, sb.SVB())
    begin = learner.init(rows)
    whole = learned(learner, begin, [rows])
    for places in ((56,), (0, 56, 56)):  # two sites of 56 and 64; two more that have no rows
        sites = [learned(learner, begin, [part]) for part in cut(rows, *places)]
        assert_same(sb.merge(sites), whole)
        assert_same(sb.merge(reversed(sites), common=begin), whole)
    assert sb.merge(sites).retained == pytest.approx(whole.retained)


def test_closed_form():
    learner = sb.StreamLearner(
        sb.models.Poisson("x"), sb.SVB(), prior=sb.Gamma.from_shape_rate(2.0, 0.5)
    )
    parts = [{"x": [1, 4, 2]}, {"x": [0, 7]}, {"x": []}]
    merged = sb.merge([learned(learner, learner.init(part), [part]) for part in parts])
    posterior = merged.posterior["x"]
    assert posterior.shape == pytest.approx(2.0 + 14.0)
    assert posterior.rate == pytest.approx(0.5 + 5.0)
    assert (merged.rows_seen, merged.num_batches) == (5.0, 1)


class Sites:
    """Three sites that have learned batches of the same times, and one state that has learned all rows."""

    def __init__(self, policy, num_before=0, num_apart=3, seed=2):
        rng = np.random.default_rng(seed)
        self.learner = sb.StreamLearner(GAUSSIAN, policy)
        before = [DRAW(rng, 60) for _ in range(num_before)]
        apart = [DRAW(rng, 60) for _ in range(num_apart)]
        parts = [cut(batch, 20, 40) for batch in apart]
        self.begin = self.learner.init((before + apart)[0])
        self.common = learned(self.learner, self.begin, before)
        self.states = [
            learned(self.learner, self.common, site) for site in zip(*parts, strict=True)
        ]
        self.whole = learned(self.learner, self.common, apart)
        self.following = DRAW(rng, 60)


@pytest.mark.parametrize("num_before", [0, 2])
@pytest.mark.parametrize(
    "policy", [sb.SVB(), sb.PowerPrior(0.7), sb.PowerPrior(0), sb.Fading(0.8)], ids=lambda p: p.name
)
def test_batch_by_batch_from_a_common_state(policy, num_before):
    sites = Sites(policy, num_before)
    merged = sb.merge(sites.states, common=sites.common)
    assert_same(merged, sites.whole)
    assert merged.num_batches == sites.whole.num_batches == num_before + 3
    # a site that has learned nothing since is no burden
    assert_same(sb.merge([sites.common, *sites.states], common=sites.common), sites.whole)
    # learning goes on
    (mine, info), (theirs, other) = (
        sites.learner.step(state, sites.following) for state in (merged, sites.whole)
    )
    assert_same(mine, theirs)
    assert info.bound == pytest.approx(other.bound, rel=1e-10)


@pytest.mark.parametrize("policy", [sb.SVB(), sb.PowerPrior(0.7), sb.Fading(0.8)])
def test_in_two_stages(policy):
    sites = Sites(policy, 2)
    one, two, three = sites.states
    ahead = learned(
        sites.learner, three, [sites.following]
    )  # has learned more batches than the others
    at_once = sb.merge([one, two, ahead], common=sites.common)
    pair = sb.merge([one, two], common=sites.common)
    assert_same(sb.merge([pair, ahead], common=sites.common), at_once)
    assert_same(sb.merge([one], common=sites.common), one)


@pytest.mark.parametrize("policy", [sb.SVB(), sb.PowerPrior(0.7), sb.Fading(0.8)])
@pytest.mark.parametrize("num_before", [0, 2])
def test_what_is_left_is_what_the_policy_leaves(policy, num_before):
    """The closed form against the policy's own word, batch by batch."""
    sites = Sites(policy, num_before, num_apart=1)
    common, left, seen = sites.common, sites.common.memory, sites.common.rows_seen
    rows = {name: np.ones_like(count) for name, count in left.counts.items()}
    left = sb.families.Blocks(params=left.params, counts=rows)  # which the sites' rows stand beside
    with float64_scope():
        for passed in range(4):
            found = _left(common, num_before + passed)
            for one, other in zip(
                jax.tree.leaves(found.params), jax.tree.leaves(left.params), strict=True
            ):
                np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-12)
            clock = sb.forgetting.Clock(rows=9.0, rows_seen=seen + 9.0 * passed, elapsed=0.0)
            left = policy.open(left, common.prior, clock).tempered


@pytest.mark.parametrize("policy", [sb.HPP(), sb.MHPP(), sb.PowerPrior(kl_budget=0.2)])
def test_learned_shares_add_what_every_site_has_kept(policy):
    sites = Sites(policy)
    merged = sb.merge(sites.states)
    for block, rows in merged.retained.items():
        assert rows == pytest.approx(sum(state.retained[block] for state in sites.states))
    score = sites.learner.score(merged, sites.following).predictive
    alone = [sites.learner.score(state, sites.following).predictive for state in sites.states]
    assert score > np.mean(alone)
    after, info = sites.learner.step(merged, sites.following)
    assert after.num_batches == 4
    assert info.bound is not None


def test_the_first_batch_alone_is_exact_with_learned_shares():
    sites = Sites(sb.HPP(), num_apart=1)
    assert_same(sb.merge(sites.states), sites.whole)


def test_coupled_blocks_come_close():
    model, draw = HIDDEN["regression"]
    rows = draw(np.random.default_rng(3), 120)
    learner = sb.StreamLearner(model, sb.SVB(), tolerance=1e-9)
    begin = learner.init(rows)
    whole = learned(learner, begin, [rows])
    merged = sb.merge([learned(learner, begin, [part]) for part in cut(rows, 56)])
    mine, theirs = (state.posterior["y: coefficients"] for state in (merged, whole))
    gap = mine.mean() - theirs.mean()
    assert np.all(np.abs(gap) < 0.3 * np.sqrt(np.diagonal(theirs.covariance())))
    assert np.abs(gap).max() > 1e-3  # but not the same
    assert merged.retained == pytest.approx(whole.retained)


def test_a_mixture_comes_close():
    model, draw = HIDDEN["mixture"]
    rng = np.random.default_rng(4)
    first, test = draw(rng, 64), draw(rng, 256)
    parts = [draw(rng, 64) for _ in range(4)]
    rows = {name: np.concatenate([part[name] for part in parts]) for name in first}
    learner = sb.StreamLearner(model, sb.SVB(), tolerance=1e-9)
    begin = learner.init(first)
    sites = [learned(learner, begin, [part]) for part in parts]
    merged, whole = sb.merge(sites), learned(learner, begin, [rows])
    scores = {
        name: learner.score(state, test).predictive
        for name, state in {"merged": merged, "whole": whole, **dict(enumerate(sites))}.items()
    }
    assert scores["merged"] == pytest.approx(scores["whole"], abs=0.01)
    assert scores["merged"] > max(scores[place] for place in range(4))
    after, _ = learner.step(merged, parts[0])
    assert after.rows_seen == 5 * 64


def test_nothing_learned_is_where_sweeps_start():
    model, draw = HIDDEN["mixture"]
    begin = sb.StreamLearner(model, sb.SVB()).init(draw(np.random.default_rng(4), 64))
    merged = sb.merge([begin, begin])
    assert_same(merged, begin)
    assert (merged.num_batches, merged.rows_seen) == (0, 0.0)


def test_times():
    learner = sb.StreamLearner(GAUSSIAN, sb.SVB())
    rng = np.random.default_rng(5)
    full, none = DRAW(rng, 20), {"x": [], "y": []}
    begin = learner.init(full)
    early = learned(learner, begin, [full, none], times=[3.0, 9.0])
    late = learned(learner, begin, [full], times=[8.0])
    timeless = learned(learner, begin, [full])
    merged = sb.merge([early, late, timeless])
    assert (merged.last_time, merged.pending) == (9.0, 1.0)  # rows at 8, nothing since
    merged = sb.merge([timeless, timeless])
    assert np.isnan(merged.last_time)
    assert merged.pending == 0.0


def test_sites_on_disk(tmp_path):
    sites = Sites(sb.SVB(), 1)
    paths = [tmp_path / f"{place}.sbz" for place in range(3)]
    for path, state in zip(paths, sites.states, strict=True):
        sb.save(state, path)
    assert_same(sb.merge((sb.load(path) for path in paths), common=sites.common), sites.whole)


@sb.definition
class ByTime(AbstractSinglePrior):
    """A policy that merge has never heard of."""

    @property
    def name(self):
        return "by time"

    def open(self, memory, prior, clock):
        rho = 0.5**clock.elapsed
        return PriorAnchor(tempered=memory.lerp(prior, rho), rho=rho)


@pytest.fixture(scope="module")
def sites():
    return Sites(sb.SVB(), 1)


class TestErrors:
    def test_no_states(self):
        with pytest.raises(ValueError, match="there are no states; give the state of each site"):
            sb.merge([])

    def test_wrong_types(self, sites):
        with pytest.raises(TypeError, match="must be a list of states, got a LearnerState"):
            sb.merge(sites.begin)
        with pytest.raises(TypeError, match=r"list of states, got a dict; give its values\(\)"):
            sb.merge({"a": sites.begin})
        with pytest.raises(TypeError, match=r"state 1 must be a state .*, got a str"):
            sb.merge([sites.begin, "site"])
        with pytest.raises(TypeError, match=r"common must be a state .*, got a StreamLearner"):
            sb.merge([sites.begin], common=sites.learner)

    @pytest.mark.parametrize(
        ("policy", "reason"),
        [
            (sb.Auto(), "Auto do not add up, because its memories are weighed by the rows of one"),
            (sb.PVB(100, 0.1), "PVB 100, 0.1 do not add up, because each of them stands for all"),
            (sb.SVI(100), "SVI 100, 1, 0.7 do not add up, because each of them stands for all"),
            (ByTime(), "by time do not add up, because merge does not know what it leaves"),
        ],
    )
    def test_policies_that_do_not_add_up(self, policy, reason):
        begin = sb.StreamLearner(sb.models.Poisson("x"), policy).init({"x": [1, 2]})
        with pytest.raises(ValueError, match=f"{reason}.*; learn the sites with SVB"):
            sb.merge([begin, begin])

    def test_other_models_and_policies(self, sites):
        batch = {"x": [1.0, 2.0], "y": [0.0, 1.0]}
        other = sb.StreamLearner(sb.models.Gaussian(["y", "x"]), sb.SVB()).init(batch)
        with pytest.raises(ValueError, match="SVB, state 0 to Gaussian with SVB of other columns"):
            sb.merge([sites.begin, other])
        other = sb.StreamLearner(GAUSSIAN, sb.HPP()).init(batch)
        with pytest.raises(
            ValueError, match=r"common belongs to Gaussian with HPP, state 0 to .*SVB"
        ):
            sb.merge([sites.begin], common=other)

    def test_other_units(self, sites):
        apart = sites.learner.init({"x": [1.0, 2.0], "y": [0.0, 1.0]})
        with pytest.raises(
            ValueError, match="state 2 and state 0 are in different units; begin all"
        ):
            sb.merge([sites.begin, sites.begin, apart])

    def test_units_that_were_taken_later(self, sites):
        flat = {"x": [1.0, 1.0], "y": [0.0, 1.0]}
        begin = sites.learner.init(flat)
        after = learned(sites.learner, begin, [{"x": [1.0, 3.0], "y": [0.0, 1.0]}])
        with pytest.raises(
            ValueError, match=r"different units; .* rows in which every column varies"
        ):
            sb.merge([begin, after])

    def test_other_priors(self):
        rows = {"x": [1, 2]}
        states = [
            sb.StreamLearner(
                sb.models.Poisson("x"), sb.SVB(), prior=sb.Gamma.from_shape_rate(2.0, rate)
            ).init(rows)
            for rate in (1.0, 2.0)
        ]
        with pytest.raises(ValueError, match="state 1 and state 0 have different priors"):
            sb.merge(states)

    def test_a_common_state_that_comes_later(self, sites):
        sentence = (
            "state 1 has learned 0 rows in 0 batches, fewer than the 240 rows in 4 batches of"
        )
        with pytest.raises(ValueError, match=sentence):
            sb.merge([sites.whole, sites.begin], common=sites.whole)

    def test_a_common_state_that_the_sites_did_not_begin_from(self, sites):
        rng = np.random.default_rng(6)
        wide = {"x": rng.normal(3.0, 2e3, 60), "y": rng.normal(-1e3, 2e4, 60)}
        other = learned(sites.learner, sites.begin, [wide])
        with pytest.raises(ValueError, match="is no distribution; common must be the state"):
            sb.merge(sites.states, common=other)

    def test_learned_shares_of_a_common_state(self):
        sites = Sites(sb.HPP(), 1)
        with pytest.raises(ValueError, match="with HPP every site keeps another share of a common"):
            sb.merge(sites.states, common=sites.common)
