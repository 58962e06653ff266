"""The watch against a plain computation, and alike for all policies and models."""

import copy
import pickle

import numpy as np
import pytest
from scipy.special import betaln, logsumexp

import streambayes as sb
from streambayes.learning._watch import FIRST_SHARE, HORIZONS, LEVELS, threshold


class Plain:
    """One scale of the watch of a single probability, in NumPy: for draws, evidence is a ratio of Beta functions."""

    def __init__(self, prior, least):
        self.prior = np.array(prior, float)
        self.fades = [np.tile(self.prior, (len(HORIZONS), 1))] * 2
        self.log_weights = [np.full(len(HORIZONS) + len(LEVELS), -np.log(24.0))] * 2
        self.last, self.first, self.least = np.zeros(2), -np.inf, least

    def evidence(self, fades, message):
        rows, kept = message.sum(), np.exp(-message.sum() / HORIZONS)[:, None]
        faded = kept * fades + (1.0 - kept) * self.prior
        every, seen = fades[-1], (fades[-1] - self.prior).sum()
        trusted = np.minimum(1.0, LEVELS / max(seen, 1e-300))[:, None]
        priors = np.concatenate([faded, trusted * every + (1.0 - trusted) * self.prior])
        assert rows > 0
        gained = betaln(*(priors + message).T) - betaln(*priors.T)
        return faded + message, gained

    def look(self, ones, zeros):
        message = np.array([ones, zeros], float)
        started = np.tile(self.prior + self.last, (len(HORIZONS), 1))
        ways = [self.fades[0], self.fades[1], started]
        weights = [self.log_weights[0], self.log_weights[1], self.log_weights[1]]
        learned, gained = zip(*(self.evidence(way, message) for way in ways), strict=True)
        joint = [weight + gain for weight, gain in zip(weights, gained, strict=True)]
        total = [logsumexp(each) for each in joint]
        second = total[2] - total[1] if self.first >= FIRST_SHARE else -np.inf
        changed = second > 0 and self.first >= FIRST_SHARE * self.least
        changed = changed and self.first + second >= self.least
        unusual = second <= 0 and self.first >= FIRST_SHARE * self.least
        memory = 2 if changed else 1 if unusual else 0
        way = 2 if changed else 0
        restart = betaln(*(self.prior + message)) - betaln(*self.prior)
        has_past = (ways[0][-1] - self.prior).sum() > 0
        first = restart - total[memory] if has_past else -np.inf
        self.fades = [learned[memory], ways[memory]]
        self.log_weights = [joint[way] - total[way], weights[way]]
        self.last, self.first = message, first
        return first, second


def test_looks_are_those_of_a_plain_computation():
    rng = np.random.default_rng(0)
    chances = [0.3] * 10 + [0.7] * 6 + [0.2] + [0.7] * 5
    learner = sb.StreamLearner(sb.models.BetaBinomial("x"), sb.SVB())
    batches = [(rng.random(60) < chance).astype(float) for chance in chances]
    state = learner.init({"x": batches[0]})
    plain = Plain((1.0, 1.0), threshold(1, 0.01, 0))
    paths = set()
    for batch in batches:
        state, info = learner.step(state, {"x": batch})
        first, second = plain.look(batch.sum(), (1.0 - batch).sum())
        seen = info.seen.looks["x"][0]
        for mine, theirs in zip(seen, (first, second), strict=True):
            if np.isfinite(theirs):
                assert mine == pytest.approx(theirs, abs=1e-3)  # as it is noted
                paths.add((theirs > 0, plain.first >= plain.least))
            else:
                assert mine is None
    assert len(paths) > 2


POLICIES = [sb.HPP(), sb.Auto(), sb.PVB(1000, 0.1), sb.Fading(0.9)]


def test_every_policy_sees_the_same():
    rng = np.random.default_rng(1)
    batches = [
        {"a": rng.normal(3.0 * (number >= 8), 1.0, 50), "b": rng.normal(size=50)}
        for number in range(14)
    ]

    def seen(policy):
        learner = sb.StreamLearner(sb.models.Gaussian(["a", "b"]), policy)
        return sb.run(learner, batches, prequential=False, progress=False)

    plain = seen(sb.SVB())
    for policy in POLICIES:
        run = seen(policy)
        for mine, theirs in zip(run.records, plain.records, strict=True):
            for block, looks in (theirs.looks or {}).items():
                mine_looks = np.array(mine.looks[block], float)
                np.testing.assert_allclose(mine_looks, np.array(looks, float), atol=2e-3)
        events = [(event.block, event.kind, event.first) for event in run.drift]
        assert events == [(event.block, event.kind, event.first) for event in plain.drift]


def make_batches(name, rng, jump):
    """A model of one family, and batches in which something moves from batch 60 on."""
    late = np.arange(90) >= 60
    move = late * jump
    n = 60
    if name == "beta":
        return sb.models.BetaBinomial("x"), [
            {"x": (rng.random(n) < 0.3 + 0.4 * now).astype(float)} for now in move
        ]
    if name == "dirichlet":
        return sb.models.Categorical("x", range(4)), [
            {"x": rng.choice(4, n, p=np.array([0.4, 0.3, 0.2, 0.1])[:: -1 if now else 1])}
            for now in move
        ]
    if name == "gamma":
        return sb.models.Poisson("x"), [{"x": rng.poisson(4.0 + 4.0 * now, n)} for now in move]
    if name == "regression":
        return sb.models.LinearRegression("y", ["x"]), [
            {"x": (x := rng.normal(size=n)), "y": (1.0 + now) * x + rng.normal(size=n)}
            for now in move
        ]
    return sb.models.GaussianMixture("x", num_components=2), [
        {"x": rng.normal(np.array([-4.0, 4.0 + 2.0 * now])[rng.integers(0, 2, n)])} for now in move
    ]


@pytest.mark.parametrize("name", ["beta", "dirichlet", "gamma", "regression", "mixture"])
def test_families_are_quiet_where_nothing_changes_and_find_what_does(name):
    quiet = told = 0
    for seed in range(4):
        for jump in (0, 1):
            model, batches = make_batches(name, np.random.default_rng(seed), jump)
            learner = sb.StreamLearner(model, sb.SVB())
            drift = sb.run(learner, batches, prequential=False, progress=False).drift
            changes = [event for event in drift.events if event.kind != "outlier"]
            if jump:
                told += any(58 <= event.first <= 64 for event in changes)
            else:
                quiet += len(changes)
    assert quiet <= 4  # of 360 batches: nominal 3.6
    assert told == 4


def test_many_streams_see_what_each_sees():
    rng = np.random.default_rng(2)
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    fleet = sb.many(learner, watch=True)
    batches = [
        {name: {"x": rng.normal(5.0 * (name == "b" and number > 3), 1.0, 40)} for name in "ab"}
        for number in range(6)
    ]
    states = fleet.init(batches[0])
    own = {name: learner.init(batches[0][name]) for name in "ab"}
    for batch in batches:
        states, infos = fleet.step(states, batch)
        for name in "ab":
            own[name], info = learner.step(own[name], batch[name])
            np.testing.assert_allclose(
                np.array(infos[name].seen.looks["x"], float),
                np.array(info.seen.looks["x"], float),
                rtol=1e-6,
                atol=2e-3,
            )
            assert infos[name].seen.alone["x"] == pytest.approx(info.seen.alone["x"])


def test_a_learner_without_a_watch_says_so():
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB(), watch=False)
    run = sb.run(learner, [{"x": np.arange(5.0)}] * 3, progress=False)
    assert run.state.watch is None
    with pytest.raises(ValueError, match="watch=True"):
        run.drift  # noqa: B018


def test_a_batch_by_itself_is_told_block_by_block():
    """Of a regression, whose entries are not in the order of their names: what least squares find."""
    rng = np.random.default_rng(4)
    batch = {"b": rng.normal(3.0, 2.0, 200), "a": rng.normal(-1.0, 0.5, 200)}
    batch["y"] = 2.0 - batch["b"] + 3.0 * batch["a"] + rng.normal(0.0, 0.7, 200)
    learner = sb.StreamLearner(sb.models.LinearRegression("y", ["b", "a"]), sb.SVB())
    _, info = learner.step(learner.init(batch), batch)
    columns = np.column_stack([np.ones(200), batch["b"], batch["a"]])
    found, left, *_ = np.linalg.lstsq(columns, batch["y"])
    alone = {name: value for block in info.seen.alone.values() for name, value in block.items()}
    told = [
        alone[f"{name} of y{on}"]
        for name, on in (("intercept", ""), ("slope", " on b"), ("slope", " on a"))
    ]
    np.testing.assert_allclose(told, found, rtol=1e-4)
    residual = alone["residual standard deviation of y"]
    assert residual == pytest.approx(np.sqrt(left[0] / 200), rel=0.02)
    for name in ("a", "b"):
        assert alone[f"mean of {name}"] == pytest.approx(batch[name].mean(), rel=1e-6)
        assert alone[f"standard deviation of {name}"] == pytest.approx(batch[name].std(), rel=0.02)


def test_what_a_step_tells_can_be_copied_and_sent_to_another_process(rng):
    learner = sb.StreamLearner(sb.models.Gaussian("x"))
    state = learner.init({"x": rng.normal(size=20)})
    for _ in range(3):
        state, info = learner.step(state, {"x": rng.normal(size=20)})
    for other in (copy.deepcopy(info), pickle.loads(pickle.dumps(info))):
        assert other.seen == info.seen
        assert other.seen.alone == info.seen.alone != {}
        assert other.retained == info.retained
