"""The comparison of policies: what it measures, and what it must show of Auto."""

import numpy as np
import pytest
from scipy.special import betaln

import streambayes as sb
from streambayes.experiments.forgetting import Comparison, compare_generated, rank_partial
from streambayes.experiments.forgetting._lanes import follow
from streambayes.experiments.forgetting._policies import fixed
from streambayes.experiments.forgetting._streams import (
    FAMILIES,
    KINDS,
    NEW_KINDS,
    NUM_ROWS,
    draw_rows,
)


def lanes(family, policies, rows, size):
    one = FAMILIES[family]
    learner = sb.StreamLearner(one.model, policies[0], prior=one.prior, scale=False)
    learned, tested = (np.stack([getattr(r, part) for r in rows]) for part in ("learned", "tested"))
    return learner, follow(learner, policies, learned, tested, size, one.learned)


def test_lanes_are_what_the_learner_does():
    rows = [draw_rows("Gaussian", kind, 3) for kind in ("abrupt", "walk")]
    learner, found = lanes("Gaussian", [sb.Auto()], rows, 1000)
    for place, stream in enumerate(rows):
        batches, tested = (
            [{"x": part} for part in values[0].reshape(-1, 1000)]
            for values in (stream.learned, stream.tested)
        )
        state = learner.init(batches[0])
        for t, (batch, test) in enumerate(zip(batches, tested, strict=True)):
            forecast = learner.log_predictive(state, batch).sum()
            state, info = learner.step(state, batch)
            score = 1000 * learner.score(state, test, using="belief").predictive
            assert found.bound[0, place, t] == pytest.approx(info.bound, rel=1e-9)
            assert found.retained[0, place, t] == pytest.approx(info.retained["x"], rel=1e-9)
            assert found.test[0, place, t] == pytest.approx(score, rel=1e-9)
            assert found.forecast[0, place, t] == pytest.approx(forecast)


def test_horizons_forget_by_rows():
    """The evidence of a horizon in closed form."""
    (stream,) = rows = [draw_rows("Beta", "gradual", 1)]
    policies = fixed(500)
    _, found = lanes("Beta", list(policies.values()), rows, 500)
    place = list(policies).index("horizon 1024")
    params, share = np.ones(2), np.exp(-500 / 1024)
    for t, batch in enumerate(stream.learned[0].reshape(-1, 500)):
        params = 1.0 + share * (params - 1.0)
        after = params + np.array([batch.sum(), 500 - batch.sum()])
        assert found.bound[place, 0, t] == pytest.approx(betaln(*after) - betaln(*params))
        params = after


@pytest.mark.parametrize("family", FAMILIES)
def test_no_policy_in_hindsight_is_far_ahead_of_auto(family):
    seeds, kinds = (1, 2), [*KINDS, *NEW_KINDS]
    rows = [draw_rows(family, kind, seed) for kind in kinds for seed in seeds]
    _, held = lanes(family, list(fixed(100).values()), rows, 100)
    _, auto = lanes(family, [sb.Auto()], rows, 100)
    behind = 1000 / NUM_ROWS * (held.bound.sum(-1).max(0) - auto.bound[0].sum(-1))
    behind = dict(zip(kinds, behind.reshape(len(kinds), -1).mean(1), strict=True))
    assert max(behind.values()) < 1.5, behind
    assert np.mean(list(behind.values())) < 0.0


def test_memory_finds_the_blocks_that_drift():
    for ranking in rank_partial([sb.Auto()], seeds=(5, 6)):
        assert ranking.auc >= 0.95, ranking
        assert ranking.alarms < 20.0


@pytest.fixture(scope="module")
def comparison():
    return compare_generated(families=["Beta"], batch_sizes=(1000,), seeds=(4,))


def test_a_comparison_has_every_policy_on_every_kind(comparison):
    assert isinstance(comparison, Comparison)
    policies = comparison.policies()
    assert {"SVB", "PP 0.9", "Auto", "HPP", "MHPP"} <= set(policies)
    assert len(comparison.cells) == len(policies) * len(KINDS)
    summary = {row["policy"]: row for row in comparison.summary()}
    assert summary["HPP"]["worst_evidence"] is None
    assert summary["Auto"]["worst_evidence"] < 1.5 < summary["SVB"]["worst_evidence"]
    assert comparison.of(policy="SVB", kind="stationary")[0].evidence == pytest.approx(0.0, abs=0.2)
    assert comparison.of(policy="SVB", kind="stationary")[0].retained == pytest.approx(8000.0)


def test_recovery_is_counted_from_the_change(comparison):
    rows = {row["policy"]: row["rows"] for row in comparison.recovery_rows()}
    assert rows["Auto"] == 1000.0
