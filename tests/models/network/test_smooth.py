"""Densities of many rows under a bank are those of each row."""

import numpy as np
import pytest

import streambayes as sb
from streambayes.models.network._smooth import is_short

NAMES = ("a", "b", "c")
MODELS = {
    "joint": sb.models.LinearRegression("c", NAMES[:2]),
    "independent": sb.models.LinearRegression("c", NAMES[:2], "independent"),
    "normals": sb.models.Gaussian(NAMES),
    "classes": sb.models.NaiveBayes("k", 2, normal=NAMES),
}
NUM_ROWS = 200


def drawn(rng, num_rows, shift):
    a, b = rng.normal(shift, 1.0, num_rows), rng.standard_t(3, num_rows)
    c = a * shift - b + rng.normal(size=num_rows) * (1.0 + shift)
    return {"a": a, "b": b, "c": c, "k": rng.integers(0, 2, num_rows)}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("name", MODELS)
def test_to_a_millionth_of_a_nat(name, seed):
    rng = np.random.default_rng(seed)
    learner = sb.StreamLearner(MODELS[name], sb.Auto(), watch=False)
    sizes = rng.integers(1, 80, 8)
    batches = [
        drawn(rng, size, shift) for size, shift in zip(sizes, (0, 0, 0, 2, 2, 0, 0, 1), strict=True)
    ]
    state = learner.init(batches[0])
    for batch in batches:
        state, _ = learner.step(state, batch)
    rows = drawn(rng, NUM_ROWS, 1.0)
    rows["a"][0] = 40.0  # far away
    together = learner.log_predictive(state, rows)
    apart = [
        learner.log_predictive(state, {key: values[at : at + 50] for key, values in rows.items()})
        for at in range(0, NUM_ROWS, 50)
    ]
    assert is_short(state.belief, np.zeros(64))
    assert not is_short(state.belief, np.zeros(NUM_ROWS))
    np.testing.assert_allclose(together, np.concatenate(apart), rtol=0.0, atol=1e-6)
