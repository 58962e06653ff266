"""Passes over rows in blocks: the same sums, whatever the blocks."""

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.learning import _learner, _rows
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

        blocks = _rows.cut_batch(model, expectations, batch)
        whole, cut = passed(batch), passed(blocks)
        assert blocks.values.ndim == 3
        for mine, theirs in zip(jax.tree.leaves(cut), jax.tree.leaves(whole), strict=True):
            np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-8)


@pytest.mark.parametrize(("num_components", "size"), [(5, 2048), (20, 512), (50, 256), (500, 64)])
def test_blocks_have_fewer_rows_where_rows_are_wide(num_components, size):
    model = sb.models.GaussianMixture(["x", "y"], num_components)
    rng = np.random.default_rng(0)
    batch = pad(rng.normal(size=(2, 16 * _rows.BLOCK - 100)), model.columns)
    with float64_scope():
        prior = sb.families.Blocks.of_prior(model.prior())
        expectations = sb.families.Point(
            model.start(jax.random.key(0), batch, prior)
        ).expectations()
        blocks = _rows.cut_batch(model, expectations, batch)
        assert blocks.values.shape[-1] == size

        @jax.jit
        def passed(batch):
            return _rows.pass_rows(model, expectations, batch, _rows.init_local(model, batch))[1]

        for mine, theirs in zip(
            jax.tree.leaves(passed(blocks)), jax.tree.leaves(passed(batch)), strict=True
        ):
            np.testing.assert_allclose(mine, theirs, rtol=1e-11, atol=1e-8)


def test_a_batch_of_one_block_is_not_cut():
    model, draw = next(iter(MODELS.values()))
    rows = read_rows(model, model.columns, draw(np.random.default_rng(0), _rows.BLOCK))
    batch = pad(rows, model.columns)
    with float64_scope():
        expectations = sb.families.Point(sb.families.Blocks.of_prior(model.prior())).expectations()
        assert _rows.cut_batch(model, expectations, batch) is batch


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


@pytest.mark.parametrize("name", MODELS)
def test_rows_of_float32_are_summed_in_float64(name):
    model, draw = MODELS[name]
    columns = {
        column.name: values
        if column.categories
        else np.asarray(values, np.float32)  # categories are positions, whatever they are
        for column, values in (
            (column, draw(np.random.default_rng(5), SIZE)[column.name]) for column in model.columns
        )
    }
    rows = read_rows(model, model.columns, columns)
    with float64_scope():
        expectations = sb.families.Point(sb.families.Blocks.of_prior(model.prior())).expectations()

        @jax.jit
        def passed(batch):
            batch = _rows.cut_batch(model, expectations, batch)
            return _rows.pass_rows(model, expectations, batch, _rows.init_local(model, batch))[1]

        exact = passed(pad(rows, model.columns))
        batch = pad(rows.astype(np.float32), model.columns, as_given=True)
        assert batch.values.dtype == np.float32
        for mine, theirs in zip(
            jax.tree.leaves(passed(batch)), jax.tree.leaves(exact), strict=True
        ):
            assert mine.dtype == np.float64
            # the data are the same numbers; squares kept for later sweeps are rounded once
            np.testing.assert_allclose(mine, theirs, rtol=1e-6, atol=1e-4)


def test_a_learner_keeps_float32():
    rng = np.random.default_rng(0)
    single = {name: (1000 + rng.normal(size=5000)).astype(np.float32) for name in "xy"}
    double = {name: column.astype(float) for name, column in single.items()}
    learner = sb.StreamLearner(sb.models.GaussianMixture(["x", "y"], 2), sb.HPP(), max_sweeps=20)
    assert read_rows(learner.model, learner.model.columns, single).dtype == np.float32
    state = learner.init(single)
    mine, mine_info = learner.step(state, single)
    theirs, their_info = learner.step(learner.init(double), double)
    assert mine_info.bound == pytest.approx(their_info.bound, rel=1e-9)
    assert [row.mean for row in mine.summary().rows] == pytest.approx(
        [row.mean for row in theirs.summary().rows], rel=1e-6
    )
    assert learner.score(mine, single).predictive == learner.score(mine, double).predictive


@pytest.mark.parametrize(
    ("name", "policy", "missing"),
    [
        ("mixture", sb.SVB(), False),
        ("mixture", sb.MHPP(), True),
        ("mixture", sb.Auto(), False),
        ("factors", sb.SVB(), True),
    ],
)
def test_parts_that_threads_share_are_learned_as_the_whole(name, policy, missing, monkeypatch):
    model = {
        "mixture": sb.models.GaussianMixture(["x", "y"], 3),
        "factors": _with_hidden_parent(),  # a pass starts from what the one before has left
    }[name]
    rng = np.random.default_rng(3)
    kinds = rng.integers(3, size=SIZE)
    rows = {column: rng.normal(3.0 * kinds, 1.0) for column in "xy"}
    if missing:
        rows["y"][::7] = np.nan
    learner = sb.StreamLearner(model, policy, max_sweeps=30)
    state = learner.init(rows)
    found = []
    for num_cores in (1, 2):
        monkeypatch.setattr(_learner, "cores", lambda num_cores=num_cores: num_cores)
        monkeypatch.setattr(_learner, "_NUMBERS_OF_A_PART", 512)
        found.append(learner.step(state, rows))
    (whole, whole_info), (shared, info) = found
    assert info.num_sweeps == whole_info.num_sweeps
    assert info.bound == pytest.approx(whole_info.bound, rel=1e-12)
    assert info.num_rows == SIZE
    for mine, theirs in zip(
        jax.tree.leaves(shared.memory), jax.tree.leaves(whole.memory), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-8, atol=1e-8)


def _with_hidden_parent():
    net = sb.Network()
    z = net.categorical("z", 2, latent=True)
    f = net.normal("f", parents=[z], latent=True)
    net.normal(["x", "y"], parents=[f])
    return net
