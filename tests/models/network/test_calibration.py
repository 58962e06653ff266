"""Intervals hold as often as they say, with cells missing: a small part of benchmarks/calibration.py."""

import numpy as np
import pytest
from scipy import stats

import streambayes as sb

REPLICATES = 60
KINDS = ("joint", "independent", "conjugate")


def given_busy(kind):
    net = sb.Network()
    busy = net.bernoulli("busy")
    getattr(net, kind)("v", parents=[busy])
    return net


def learned(model, missing):
    """For each of many streams without drift: itself, what was learned of it, a batch not yet seen."""
    learner = sb.StreamLearner(model, sb.SVB())
    for seed in range(REPLICATES):
        stream = sb.datasets.make_drift(
            model, "none", num_batches=4, num_rows=100, missing=missing, seed=seed
        )
        *seen, unseen = stream
        state = learner.init(seen[0])
        for batch in seen:
            state, _ = learner.step(state, batch)
        yield learner, stream, state, unseen


@pytest.mark.parametrize(
    ("model", "missing"),
    [
        (
            sb.models.NaiveBayes("label", 2, normal=["x", "y"], categorical={"c": 3}, poisson="k"),
            dict.fromkeys(("x", "y", "c", "k"), 0.3),
        ),
        (sb.models.LinearRegression("y", ["a", "b"]), {"y": 0.3}),
    ],
    ids=["classifier", "regression"],
)
def test_parameters(model, missing):
    """Nominal 90 per cent, with 30 per cent of the cells of leaves missing."""
    held = []
    for _, stream, state, _ in learned(model, missing):
        truth = stream.truth(0)
        held += [row.lower <= truth[row.name] <= row.upper for row in state.summary(0.9).rows]
    assert 0.85 <= np.mean(held) <= 0.95


@pytest.mark.parametrize(
    ("model", "target"),
    [
        *((sb.models.LinearRegression("y", ["a", "b"], kind), "y") for kind in KINDS),
        (sb.models.GaussianMixture(["x", "y"], 2), "y"),
        (given_busy("exponential"), "v"),
    ],
    ids=[*KINDS, "mixture", "times"],
)
def test_predictions(model, target):
    """Values that rows hide, in intervals of 50 and of 90 per cent."""
    held = {0.5: [], 0.9: []}
    for learner, _, state, unseen in learned(model, 0.0):
        for level, inside in held.items():
            found = learner.predict(state, unseen, target, level=level)
            values = unseen.columns[target]
            inside.extend((found.lower <= values) & (values <= found.upper))
    for level, inside in held.items():
        assert np.mean(inside) == pytest.approx(level, abs=0.03)


def test_counts():
    """Ends are whole numbers, so that intervals hold somewhat more: as much as SciPy says."""
    held, promised = [], []
    for learner, _, state, unseen in learned(given_busy("poisson"), 0.0):
        found = learner.predict(state, unseen, "v", level=0.5)
        values, busy = unseen.columns["v"], unseen.columns["busy"]
        held.extend((found.lower <= values) & (values <= found.upper))
        shape, rate = (
            part[busy] for part in (state.posterior["v"].shape, state.posterior["v"].rate)
        )
        counts = stats.nbinom(shape, rate / (1.0 + rate))
        promised.extend(counts.cdf(found.upper) - counts.cdf(found.lower - 1))
    assert np.mean(promised) > 0.5
    assert np.mean(held) == pytest.approx(np.mean(promised), abs=0.03)
