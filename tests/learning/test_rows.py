"""Passes over rows in blocks: the same sums, whatever the blocks."""

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.learning import _rows
from streambayes.learning._intake import pad, read_rows
from tests.tables import MODELS

SIZE = 2 * _rows.BLOCK + 77


def rows_of(name, *, missing):
    model, draw = MODELS[name]
    rng = np.random.default_rng(5)
    rows = read_rows(model, model.columns, draw(rng, SIZE))
    if missing:
        rows[rng.random(rows.shape) < 0.1] = np.nan
    return model, pad(rows, model.columns)


@pytest.mark.parametrize("missing", [False, True])
@pytest.mark.parametrize("name", MODELS)
def test_blocks_add_up(name, missing):
    """Two passes, since hidden variables may start the second one where the first left them."""
    model, batch = rows_of(name, missing=missing)
    with float64_scope():
        expectations = sb.families.Point(sb.families.Blocks.of_prior(model.prior())).expectations()

        @jax.jit
        def passed(batch):
            local = _rows.init_local(model, batch)
            local, first = _rows.pass_rows(model, expectations, batch, local)
            return first, _rows.pass_rows(model, expectations, batch, local)[1]

        whole, cut = passed(batch), passed(_rows.cut_batch(batch))
        assert _rows.cut_batch(batch).values.ndim == 3
        for mine, theirs in zip(jax.tree.leaves(cut), jax.tree.leaves(whole), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-8)


def test_a_batch_of_one_block_is_not_cut():
    model, draw = next(iter(MODELS.values()))
    rows = read_rows(model, model.columns, draw(np.random.default_rng(0), _rows.BLOCK))
    batch = pad(rows, model.columns)
    assert _rows.cut_batch(batch) is batch


def test_large_batches_are_scored_and_predicted_as_small_ones():
    net = sb.Network()
    z = net.categorical("z", 2, latent=True)
    net.normal("x", parents=[z])
    net.normal("y", parents=["x"])
    (batch,) = sb.datasets.make_drift(net, "none", num_batches=1, num_rows=SIZE)
    learner = sb.StreamLearner(net, sb.SVB(), tolerance=1e-9, max_sweeps=50)
    state, _ = learner.step(learner.init(batch), batch)
    parts = [slice(at, at + 700) for at in range(0, SIZE, 700)]
    pieces = [{name: values[part] for name, values in batch.columns.items()} for part in parts]
    np.testing.assert_allclose(
        learner.log_predictive(state, batch),
        np.concatenate([learner.log_predictive(state, piece) for piece in pieces]),
        rtol=1e-10,
    )
    whole, each = learner.score(state, batch), [learner.score(state, piece) for piece in pieces]
    assert whole.bound == pytest.approx(
        sum(score.bound * score.num_rows for score in each) / SIZE, rel=1e-10
    )
    np.testing.assert_allclose(
        learner.predict(state, batch, "y").upper,
        np.concatenate([learner.predict(state, piece, "y").upper for piece in pieces]),
        rtol=1e-10,
    )
