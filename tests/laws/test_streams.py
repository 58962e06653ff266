"""Streams of any cut: batches chain, and the first may have one row or none."""

import itertools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import streambayes as sb
from tests.tables import EVERYTHING, EXACT, MODELS, POLICIES, QUICK, SLOW


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


FIRST_STEPS = [
    *itertools.product(QUICK, [sb.SVB(), sb.HPP(), sb.MHPP(), sb.PVB(20, 0.1)]),
    *itertools.product(SLOW, [sb.MHPP()]),
    *itertools.product(["gaussian", "mixture", "regression", "network"], [sb.Auto()]),
]
if EVERYTHING:
    FIRST_STEPS = [
        (name, policy)
        for name, policy in itertools.product(MODELS, POLICIES)
        if policy.takes_coupled or not MODELS[name][0].is_coupled
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
