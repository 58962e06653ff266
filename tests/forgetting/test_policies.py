"""What is special to single policies: settings, limits, schedules."""

import numpy as np
import pytest

import streambayes as sb

COIN = sb.models.BetaBinomial("x")


def coin(seed, num_batches, num_rows=50, p=0.3):
    rng = np.random.default_rng(seed)
    return [{"x": rng.random(num_rows) < p} for _ in range(num_batches)]


def steps(policy, batches, model=COIN):
    learner = sb.StreamLearner(model, policy)
    state = learner.init(batches[0])
    for batch in batches:
        before = state
        state, info = learner.step(state, batch)
        yield before, state, info


@pytest.mark.parametrize("rho", [0.5, 0.9])
def test_retained_rows_tend_to_their_limit(rho):
    *_, (_, state, _) = steps(sb.PowerPrior(rho), coin(0, 300))
    assert state.retained["x"] == pytest.approx(sb.metrics.retained_limit(rho, 50), rel=1e-10)


def test_population_retains_its_size():
    *_, (_, state, _) = steps(sb.PVB(1000, 0.1), coin(0, 300))
    assert state.retained["x"] == pytest.approx(1000, rel=1e-9)
    posterior = state.posterior["x"]
    assert posterior.alpha + posterior.beta == pytest.approx(1002, rel=1e-9)


def test_kl_budget_is_spent_exactly():
    for before, after, info in steps(sb.PowerPrior(kl_budget=0.05), coin(1, 5)):
        if before.num_batches == 0:
            continue
        previous = before.posterior["x"]
        tempered = previous.lerp(sb.Beta.from_concentrations(1, 1), info.rho)
        assert tempered.kl(previous) == pytest.approx(0.05, rel=1e-9)
        assert 0 < info.rho < 1
        assert after.retained["x"] == pytest.approx(50 + info.rho * before.retained["x"], rel=1e-12)


def test_kl_budget_larger_than_all_is_known_forgets_all():
    *_, (_, state, info) = steps(sb.PowerPrior(kl_budget=1e9), coin(1, 3))
    assert info.rho == 0.0
    assert state.retained["x"] == 50


def test_no_kl_budget_forgets_nothing():
    *_, (_, state, info) = steps(sb.PowerPrior(kl_budget=0.0), coin(1, 3))
    assert info.rho == 1.0
    assert state.retained["x"] == 150


def test_svi_follows_its_schedule():
    batches = coin(2, 4)
    batch_rows, total = 50, 10_000
    expected = np.array([1.0, 1.0])
    for number, (_, state, _) in enumerate(steps(sb.SVI(total, delay=2.0, decay=0.6), batches), 1):
        heads = batches[number - 1]["x"].sum()
        target = 1.0 + total / batch_rows * np.array([heads, batch_rows - heads])
        size = (number + 2.0) ** -0.6
        expected = (1 - size) * expected + size * target
        posterior = state.posterior["x"]
        assert [float(posterior.alpha), float(posterior.beta)] == pytest.approx(expected, rel=1e-12)


def test_minibatches_are_small_batches():
    whole = coin(3, 1, num_rows=50)[0]
    parts = [{"x": whole["x"][start : start + 16]} for start in range(0, 50, 16)]
    *_, (_, by_parts, _) = steps(sb.PVB(200, 0.1), parts)
    *_, (_, at_once, info) = steps(sb.PVB(200, 0.1, minibatch_size=16), [whole])
    mine, theirs = at_once.posterior["x"], by_parts.posterior["x"]
    assert [float(mine.alpha), float(mine.beta)] == pytest.approx(
        [float(theirs.alpha), float(theirs.beta)], rel=1e-13
    )
    assert info.num_sweeps == 4


def test_what_fades_to_nothing_is_the_prior_again():
    net = sb.Network()
    kind = net.categorical("kind", ["here", "away"])
    net.normal("x", parents=[kind])
    net.poisson("calls", parents=[kind])
    both = {"kind": ["here", "away"] * 3, "x": [0.0, 5.0, 1.0, 6.0, 2.0, 7.0], "calls": [1] * 6}
    here = {"kind": ["here"] * 3, "x": [1.0, 1.0, 1.0], "calls": [0] * 3}  # and they are all alike
    for policy in (sb.Fading(0.5), sb.Fading(0.0), sb.PowerPrior(0.5), sb.PowerPrior(0.0)):
        learner = sb.StreamLearner(net, policy, watch=False)
        state, _ = learner.step(learner.init(both), both)
        for _ in range(700):
            state, info = learner.step(state, here)
        assert info.retained["x | kind=away"] == pytest.approx(0.0, abs=1e-12)
        first = learner.init(both)
        for name, place in (("x", 1), ("calls", 1)):
            held, fresh = (
                [part[place] for part in each.belief.summary().params[name].naturals()]
                for each in (state, first)
            )
            assert held == pytest.approx(fresh, rel=1e-12), policy.name
        back, _ = learner.step(state, both)
        assert np.isfinite(learner.score(back, both).predictive)


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: sb.PowerPrior(1.5), r"PowerPrior: rho must lie in \[0, 1\], got 1.5"),
        (lambda: sb.PowerPrior(-0.1), "PowerPrior: rho"),
        (lambda: sb.PowerPrior(float("nan")), "PowerPrior: rho"),
        (sb.PowerPrior, "one of rho and kl_budget"),
        (lambda: sb.PowerPrior(0.5, kl_budget=0.1), "one of rho and kl_budget"),
        (lambda: sb.PowerPrior(kl_budget=-1.0), "kl_budget must be at least 0"),
        (lambda: sb.Fading(2.0), "Fading: rho"),
        (lambda: sb.PVB(0, 0.1), "PVB: population_size must be positive and finite, got 0"),
        (lambda: sb.PVB(100, 0.0), r"PVB: step_size must lie in \(0, 1\]"),
        (lambda: sb.PVB(100, 0.1, minibatch_size=0), "minibatch_size must be a whole number"),
        (lambda: sb.SVI(0), "SVI: num_rows must be positive"),
        (lambda: sb.SVI(10, decay=0.5), r"SVI: decay must lie in \(0.5, 1\]"),
        (lambda: sb.SVI(10, delay=-1.0), "SVI: delay"),
        (lambda: sb.SVI(10, step_size=2.0), "SVI: step_size"),
        (lambda: sb.HPP(max_rounds=0), "HPP: max_rounds must be a whole number of at"),
        (
            lambda: sb.MHPP(rho_prior=sb.TruncatedExponential.from_gamma([0.1, 0.2])),
            "MHPP: rho_prior must be a single distribution",
        ),
    ],
)
def test_bad_settings_are_refused(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: sb.Fading("x"), "^Fading: rho must be a number, got 'x'$"),
        (lambda: sb.Fading(None), "Fading: rho must be a number, got None"),
        (lambda: sb.PowerPrior("0.5"), "PowerPrior: rho must be a number, got '0.5'"),
        (lambda: sb.PVB(100, "x"), "PVB: step_size must be a number, got 'x'"),
        (lambda: sb.SVI(10, delay="x"), "SVI: delay must be a number, got 'x'"),
    ],
)
def test_text_is_no_number(make, sentence):
    with pytest.raises(TypeError, match=sentence):
        make()
    with pytest.raises(
        ValueError, match="max_rounds must be a whole number of at least 1, got '9'"
    ):
        sb.MHPP(max_rounds="9")


def test_policies_without_rho_report_none():
    *_, (_, _, info) = steps(sb.PVB(100, 0.1), coin(0, 2))
    assert (info.rho, info.omega, info.bound) == (None, None, None)
    *_, (_, _, info) = steps(sb.SVB(), coin(0, 2))
    assert (info.rho, info.omega) == (1.0, None)
