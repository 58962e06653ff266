"""Every model keeps the laws of ``streambayes.testing.check_model``."""

import itertools

import jax.numpy as jnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.learning._intake import pad, read_rows
from streambayes.models import AbstractModel
from streambayes.testing import check_model
from tests.tables import EXACT, MODELS, QUICK, SLOW


@pytest.mark.parametrize("name", MODELS)
def test_laws(name):
    model, draw = MODELS[name]
    rng = np.random.default_rng(11)
    check_model(model, [draw(rng, 30) for _ in range(4)])


@pytest.mark.parametrize("name", EXACT)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(1, 16), min_size=2, max_size=4))
def test_bound_is_evidence_and_batches_chain(name, seed, sizes):
    """However a stream is cut, SVB ends at the same posterior and the same evidence."""
    model, draw = EXACT[name]
    rng = np.random.default_rng(seed)
    whole = draw(rng, sum(sizes))
    learner = sb.StreamLearner(model, sb.SVB(), scale=False)
    state = start = learner.init(whole)
    total, at = 0.0, 0
    for size in sizes:
        batch = {column: values[at : at + size] for column, values in whole.items()}
        at += size
        state, info = learner.step(state, batch)
        total += info.bound
    after, info = learner.step(start, whole)
    assert total == pytest.approx(info.bound, rel=1e-8, abs=1e-8)
    assert state.retained == pytest.approx(after.retained)


@pytest.mark.parametrize("name", MODELS)
def test_table_says_where_one_sweep_is_exact(name):
    model, draw = MODELS[name]
    rows = read_rows(model, model.columns, draw(np.random.default_rng(0), 30))
    with float64_scope():
        hides = model.has_hidden(pad(rows, model.columns))
    assert (name in EXACT) == (not hides and not model.is_coupled)


def test_table_is_complete():
    """A new model gets its line in the table."""
    known = {type(model) for model, _ in MODELS.values()}
    concrete = {
        value
        for name, value in vars(sb.models).items()
        if isinstance(value, type) and issubclass(value, AbstractModel) and "Abstract" not in name
    }
    assert known == concrete


class TestTheCheckItself:
    """A check that cannot fail is none."""

    def test_a_wrong_joint_is_found(self, monkeypatch):
        true = sb.models.Poisson.expected_log_joint
        monkeypatch.setattr(
            sb.models.Poisson,
            "expected_log_joint",
            lambda self, expectations, summary: (
                true(self, expectations, summary) + summary.factors["wrong"].total
            ),
        )
        rng = np.random.default_rng(0)
        with pytest.raises(AssertionError, match="law broken"):
            check_model(
                sb.models.Poisson("wrong"), [{"wrong": rng.poisson(3, 20)} for _ in range(2)]
            )

    def test_a_missing_cell_that_is_counted_is_found(self, monkeypatch):
        true = sb.models.BetaBinomial.sums
        monkeypatch.setattr(
            sb.models.BetaBinomial,
            "sums",
            lambda self, batch: true(self, batch.with_values(jnp.nan_to_num(batch.values))),
        )
        rng = np.random.default_rng(0)
        with pytest.raises(AssertionError, match="a row that misses every cell adds nothing"):
            check_model(
                sb.models.BetaBinomial("gap"), [{"gap": rng.random(20) < 0.3} for _ in range(2)]
            )


FIRST_STEPS = [
    *itertools.product(QUICK, [sb.SVB(), sb.HPP(), sb.MHPP(), sb.PVB(20, 0.1)]),
    *itertools.product(SLOW, [sb.MHPP()]),
]


@pytest.mark.parametrize(("name", "policy"), FIRST_STEPS, ids=repr)
@pytest.mark.parametrize("sizes", [(1, 1, 5), (0, 1, 5)])
def test_a_stream_may_start_with_one_row_or_none(name, policy, sizes):
    model, draw = MODELS[name]
    rng = np.random.default_rng(0)
    batches = [{column: values[:size] for column, values in draw(rng, 5).items()} for size in sizes]
    learner = sb.StreamLearner(model, policy)
    state = learner.init(batches[0])
    for batch, size in zip(batches, sizes, strict=True):
        state, info = learner.step(state, batch)
        assert info.num_rows == size
        assert info.bound is None or np.isfinite(info.bound)
    assert all(np.isfinite(parameter.mean) for parameter in state.summary().rows)
