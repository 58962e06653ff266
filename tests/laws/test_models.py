"""Every model keeps the laws of ``streambayes.testing.check_model``."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambayes as sb
from streambayes.models import AbstractModel
from streambayes.testing import check_model
from tests.tables import MODELS


@pytest.mark.parametrize("name", MODELS)
def test_laws(name):
    model, draw = MODELS[name]
    rng = np.random.default_rng(11)
    check_model(model, [draw(rng, 30) for _ in range(4)])


@pytest.mark.parametrize("name", MODELS)
@settings(max_examples=12)
@given(seed=st.integers(0, 2**32 - 1), sizes=st.lists(st.integers(1, 30), min_size=2, max_size=5))
def test_bound_is_evidence_and_batches_chain(name, seed, sizes):
    """However a stream is cut, SVB ends at the same posterior and the same evidence."""
    model, draw = MODELS[name]
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
            lambda self, expectations, summary: true(self, expectations, summary) + summary.total,
        )
        rng = np.random.default_rng(0)
        with pytest.raises(AssertionError, match="law broken"):
            check_model(
                sb.models.Poisson("wrong"), [{"wrong": rng.poisson(3, 20)} for _ in range(2)]
            )


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("policy", [sb.SVB(), sb.HPP(), sb.MHPP(), sb.PVB(20, 0.1)], ids=repr)
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
