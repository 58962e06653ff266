"""Columns that change under way: what the policy says is done, and said."""

import jax
import numpy as np
import pandas as pd
import pytest

import streambayes as sb

RNG = np.random.default_rng(0)
NET = sb.Network()
NET.categorical("kind", ["u", "v"])
NET.normal("x", parents=["kind"])
LEARNER = sb.StreamLearner(NET, sb.SVB())


def good(num_rows=8):
    return {"kind": np.resize(["u", "v"], num_rows), "x": RNG.normal(size=num_rows)}


GOOD = [good(), good()]
CASES = {
    "new_column": good() | {"other": np.arange(8)},
    "lost_column": {"kind": good()["kind"]},
    "changed_type": good() | {"x": np.array([1.0, 2.0, "three", 4.0, None, "5", 6.0, 7.0], object)},
    "unseen_category": good()
    | {"kind": np.array(["u", "w", "v", None, "z", "u", "u", "u"], object)},
}
SENTENCES = {
    "new_column": "column 'other', row 0: the column is new",
    "lost_column": "the batch lacks column 'x'",
    "changed_type": "column 'x', row 2: expected a finite number, got 'three'",
    "unseen_category": "column 'kind', row 1: expected one of 'u', 'v', got 'w'",
}


@pytest.mark.parametrize("case", CASES)
def test_by_default_it_is_an_error_that_names_the_place_and_changes_nothing(case, tmp_path):
    learned = sb.run(LEARNER, GOOD, progress=False)
    with pytest.raises(ValueError, match=SENTENCES[case]) as caught:
        sb.run(LEARNER, [*GOOD, CASES[case]], checkpoint=tmp_path, progress=False)
    assert caught.value.__notes__ == ["in batch 2 of the stream"]
    latest = sb.Checkpoints(tmp_path).latest()
    assert latest.num_batches == 2
    pairs = zip(jax.tree.leaves(latest.state), jax.tree.leaves(learned.state), strict=True)
    assert all(np.array_equal(a, b, equal_nan=True) for a, b in pairs)


def expected(case, action):
    """The batch as it should be learned."""
    batch = {name: np.array(values, object) for name, values in CASES[case].items()}
    wrong = {"changed_type": ("x", [2, 5]), "unseen_category": ("kind", [1, 4])}
    if case == "new_column":
        del batch["other"]
    elif case == "lost_column":
        batch["x"] = np.full(8, np.nan)
        if action == "ignore":
            batch = {name: values[:0] for name, values in batch.items()}
    else:
        name, rows = wrong[case]
        batch[name][rows] = None
        if action == "ignore":
            batch = {name: np.delete(values, rows) for name, values in batch.items()}
    return batch


REMARKS = {
    ("new_column", "ignore"): "column 'other' is new and left out, first in row 0",
    ("lost_column", "missing"): "8 cells taken as missing: column 'x' is lost, first in row 0",
    ("lost_column", "ignore"): "8 rows left out: column 'x' is lost, first in row 0",
    ("changed_type", "missing"): (
        "2 cells taken as missing: 'three' in column 'x' is no number that fits, first in row 2"
    ),
    (
        "changed_type",
        "ignore",
    ): "2 rows left out: 'three' in column 'x' is no number that fits, first in row 2",
    ("unseen_category", "missing"): (
        "2 cells taken as missing: 'w' in column 'kind' is no category, first in row 1"
    ),
    ("unseen_category", "ignore"): (
        "2 rows left out: 'w' in column 'kind' is no category, first in row 1"
    ),
}


@pytest.mark.parametrize(("case", "action"), REMARKS)
def test_what_the_policy_says_is_done_and_said(case, action, tmp_path):
    schema = sb.SchemaPolicy(**{case: action})
    stream = [*GOOD, CASES[case], good()]
    run = sb.run(LEARNER, stream, schema=schema, record=tmp_path, progress=False)
    plain = sb.run(LEARNER, [*GOOD, expected(case, action), stream[-1]], progress=False)
    for mine, theirs in zip(jax.tree.leaves(run.state), jax.tree.leaves(plain.state), strict=True):
        np.testing.assert_array_equal(mine, theirs)
    remarks = [record.remarks for record in sb.read_records(tmp_path)]
    assert remarks == [(), (), (REMARKS[case, action],), ()]
    assert run.table()[2]["note"].endswith(REMARKS[case, action])


def test_new_columns_of_frames_and_of_resumed_runs(tmp_path):
    frames = [pd.DataFrame(batch) for batch in (*GOOD, CASES["new_column"])]
    with pytest.raises(ValueError, match="column 'other', row 0: the column is new"):
        sb.run(LEARNER, frames, progress=False)
    options = {"checkpoint": tmp_path, "resume": True, "progress": False}
    sb.run(LEARNER, frames[:2], **options)
    with pytest.raises(ValueError, match="column 'other', row 0: the column is new"):
        sb.run(LEARNER, frames, **options)
    schema = sb.SchemaPolicy(new_column="ignore")
    stream = [*frames, frames[-1]]
    run = sb.run(LEARNER, stream, schema=schema, **options)
    assert [len(record.remarks) for record in run.records] == [1, 0]  # it is new once


def test_numbers_that_a_column_cannot_hold_are_of_another_type():
    batch = good() | {"x": np.array([np.inf, *range(7)])}
    with pytest.raises(ValueError, match="column 'x', row 0: expected a finite number, got inf"):
        sb.run(LEARNER, [*GOOD, batch], progress=False)
    schema = sb.SchemaPolicy(changed_type="ignore")
    run = sb.run(LEARNER, [*GOOD, batch], schema=schema, progress=False)
    assert run.records[-1].num_rows == 7
    counts = sb.StreamLearner(sb.models.Poisson("n"), sb.SVB())
    stream = [{"n": [3, 4]}, {"n": [2, -1, 2.5, None]}]
    run = sb.run(counts, stream, schema=schema, progress=False)
    assert run.records[-1].remarks == (
        "2 rows left out: -1 in column 'n' is no number that fits, first in row 1",
    )
    assert run.records[-1].num_rows == 2


def test_a_column_of_the_model_is_never_new():
    schema = sb.SchemaPolicy(lost_column="missing")
    run = sb.run(LEARNER, [CASES["lost_column"], *GOOD], schema=schema, progress=False)
    assert [len(record.remarks) for record in run.records] == [1, 0, 0]


def test_text_columns_of_numbers():
    texts = good() | {"x": np.array(["1.5"] * 8)}
    with pytest.raises(ValueError, match=r"column 'x', row 0: expected a finite number, got '1.5'"):
        sb.run(LEARNER, [*GOOD, texts], progress=False)
    schema = sb.SchemaPolicy(changed_type="ignore")
    run = sb.run(LEARNER, [*GOOD, texts], schema=schema, progress=False)
    assert run.records[-1].outcome == "empty"


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"new_column": "missing"}, "new_column must be one of 'error', 'ignore', got 'missing'"),
        (
            {"lost_column": "drop"},
            "lost_column must be one of 'error', 'missing', 'ignore', got 'drop'",
        ),
    ],
)
def test_what_is_refused(options, sentence):
    with pytest.raises(ValueError, match=sentence):
        sb.SchemaPolicy(**options)
