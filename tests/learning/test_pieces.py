"""A batch in pieces is learned as the batch that the pieces are together."""

import jax
import numpy as np
import pytest

import streambayes as sb


def a_network():
    """Hidden variables of both kinds, which are kept from pass to pass, and missing cells."""
    net = sb.Network()
    z = net.categorical("z", 2, latent=True)
    net.normal("x", parents=[z])
    net.normal("y", parents=["x", z])
    return net


CASES = {
    "nothing hidden": (lambda: sb.models.LinearRegression("y", ["x"]), sb.HPP(), 0.0),
    "one sweep": (lambda: sb.models.Gaussian(["x", "y"]), sb.PVB(500, 0.1), 0.0),
    "summed out": (lambda: sb.models.GaussianMixture(["x", "y"], 2), sb.MHPP(), 0.0),
    "kept": (a_network, sb.HPP(), 0.0),
    "a bank": (a_network, sb.Auto(), 0.0),
    "missing": (a_network, sb.SVB(), 0.2),
}


def rows_of(seed, num_rows, share_missing):
    rng = np.random.default_rng(seed)
    kind = rng.integers(2, size=num_rows)
    x = rng.normal(3.0 * kind, 1.0)
    y = 0.5 * x - 2.0 * kind + rng.normal(0.0, 0.3, num_rows)
    x[rng.random(num_rows) < share_missing] = np.nan
    return {"x": x, "y": y}


@pytest.mark.parametrize("case", CASES)
def test_the_same_as_whole(case):
    make, policy, share_missing = CASES[case]
    learner = sb.StreamLearner(make(), policy, max_sweeps=40)
    first, second = (rows_of(seed, 330, share_missing) for seed in range(2))
    state = learner.init(first)
    pieces = sb.batches(second, rows=100)
    state, _ = learner.step(state, first)
    whole, info = learner.step(state, second, time=3.0)
    parts, info_of_parts = learner.step(state, pieces, time=3.0)
    assert info_of_parts.num_rows == info.num_rows == 330
    assert info_of_parts.num_sweeps == info.num_sweeps
    assert info_of_parts.num_rounds == info.num_rounds
    assert info_of_parts.outcome == info.outcome
    if info.bound is not None:
        assert info_of_parts.bound == pytest.approx(info.bound, rel=1e-12)
    for mine, theirs in zip(jax.tree.leaves(parts), jax.tree.leaves(whole), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=1e-9, atol=1e-12)
    scores = learner.score(parts, pieces), learner.score(whole, second)
    assert scores[0].bound == pytest.approx(scores[1].bound, rel=1e-9)
    assert scores[0].num_rows == scores[1].num_rows
    assert scores[0].method == scores[1].method


def test_run_takes_a_batch_in_pieces():
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB())
    batches = [rows_of(seed, 50, 0.0) for seed in range(3)]
    mine = sb.run(learner, [sb.batches(batch, rows=20) for batch in batches])
    theirs = sb.run(learner, batches)
    assert [record.num_rows for record in mine.records] == [50, 50, 50]
    assert mine.scores.prequential == pytest.approx(theirs.scores.prequential, rel=1e-12)
    with pytest.raises(ValueError, match="a batch in pieces cannot be split"):
        sb.run(learner, [sb.batches(batches[0], rows=20)], test_fraction=0.2)


def test_pieces_without_rows():
    learner = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVB())
    empty = sb.batches({"x": np.zeros(0)}, rows=10)
    batch = {"x": np.array([1.0, 2.0, 4.0])}
    state, info = learner.step(learner.init(batch), empty)
    assert info.outcome is sb.Outcome.EMPTY
    assert np.isnan(learner.score(state, empty).predictive)


def test_bad_pieces_say_where_and_change_nothing():
    learner = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVB())
    values = np.arange(30.0)
    state = learner.init({"x": values})
    before = [np.array(leaf) for leaf in jax.tree.leaves(state)]
    values[25] = np.inf
    with pytest.raises(ValueError, match="row 5: expected a finite number, got inf") as caught:
        learner.step(state, sb.batches({"x": values}, rows=10))
    assert caught.value.__notes__ == ["in piece 2 of the batch"]
    for held, leaf in zip(before, jax.tree.leaves(state), strict=True):
        np.testing.assert_array_equal(held, leaf)
    svi = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVI(100, minibatch_size=10))
    pieces = sb.batches({"x": np.arange(30.0)}, rows=10)
    with pytest.raises(ValueError, match="give the pieces as batches of their own"):
        svi.step(svi.init(pieces), pieces)


def test_large_first_batches_start_from_some_of_their_rows(monkeypatch):
    from streambayes.learning import _learner

    rows = rows_of(0, 2000, 0.0)
    some = {name: values[::4] for name, values in rows.items()}
    learner = sb.StreamLearner(sb.models.GaussianMixture(["x", "y"], 2), sb.SVB(), scale=False)
    monkeypatch.setattr(_learner, "_ROWS_FOR_START", 500)
    for given in (rows, sb.batches(rows, rows=170)):
        for mine, theirs in zip(
            jax.tree.leaves(learner.init(given)), jax.tree.leaves(learner.init(some)), strict=True
        ):
            np.testing.assert_array_equal(mine, theirs)
