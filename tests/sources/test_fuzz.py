"""Files that are damaged in thousands of ways: a sentence or rows, never anything else, and the state stays as it is."""

import io
import warnings

import jax
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, feather, parquet

import streambayes as sb

NUM_EXAMPLES = 1500
LEARNER = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB())
STATE = LEARNER.init({"x": np.arange(8.0), "y": np.arange(8.0) ** 2})


def table():
    rng = np.random.default_rng(0)
    return pa.table(
        {
            "x": rng.normal(size=40),
            "y": pa.array([None if n % 7 == 0 else n for n in range(40)]),
            "kind": ["a,b", 'say "c"', "d\ne", ""] * 10,
            "when": pa.array(np.datetime64("2026-01-01") + np.arange(40), pa.timestamp("us")),
        }
    )


def content(ending):
    file = io.BytesIO()
    if ending == "csv":
        csv.write_csv(table(), file)
    elif ending == "parquet":
        parquet.write_table(table(), file, row_group_size=15)
    elif ending == "arrow":
        feather.write_feather(table(), file, compression="uncompressed", chunksize=15)
    return file.getvalue()


CONTENTS = {ending: content(ending) for ending in ("csv", "parquet", "arrow")}


@st.composite
def damaged(draw, whole):
    """Bytes replaced, put in, taken out or repeated, in a few places; or the end cut off."""
    found = bytearray(whole)
    for _ in range(draw(st.integers(1, 4))):
        place = draw(st.integers(0, max(len(found) - 1, 0)))
        what = draw(st.sampled_from(["replace", "insert", "delete", "repeat", "cut"]))
        some = draw(st.binary(min_size=1, max_size=6))
        if what == "replace":
            found[place : place + len(some)] = some
        elif what == "insert":
            found[place:place] = some
        elif what == "delete":
            del found[place : place + draw(st.integers(1, 40))]
        elif what == "repeat":
            found[place:place] = found[place : place + draw(st.integers(1, 40))]
        else:
            del found[place:]
    return bytes(found)


def copy_of(state):
    return [np.array(leaf) for leaf in jax.tree.leaves(state)]


BEFORE = copy_of(STATE)


@pytest.mark.parametrize("ending", CONTENTS)
@settings(max_examples=NUM_EXAMPLES)
@given(data=st.data())
def test_damaged_files(ending, data, tmp_path_factory):
    path = tmp_path_factory.getbasetemp() / f"damaged.{ending}"
    path.write_bytes(data.draw(damaged(CONTENTS[ending])))
    cut = data.draw(st.sampled_from([{"rows": 9}, {"every": "1w", "time": "when"}, {"by": "kind"}]))
    said = "rows"
    try:
        for batch in sb.batches(path, **cut):
            LEARNER.step(STATE, batch)
    except (ValueError, sb.StepError) as error:
        said = str(error)
    assert said
    assert "\n" not in said
    assert all(
        np.array_equal(a, b, equal_nan=True) for a, b in zip(BEFORE, copy_of(STATE), strict=True)
    )


@settings(max_examples=NUM_EXAMPLES)
@given(data=st.data())
def test_damaged_checkpoints(data, tmp_path_factory):
    folder = tmp_path_factory.getbasetemp() / "damaged checkpoints"
    held = sb.Checkpoints(folder)
    if not len(held):
        for number in (1, 2):
            held.save(sb.Checkpoint(STATE, number, {"offset": [number]}))
    last = folder / "checkpoint-000000000002.sbz"
    whole = (folder / "checkpoint-000000000001.sbz").read_bytes()
    broken = data.draw(damaged(whole))
    last.write_bytes(broken)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        latest = held.latest()
    # a file that is still whole, such as with bytes after its end, is read; or else the one before is
    assert latest.facts == {"offset": [1]}
    assert all(
        np.array_equal(a, b, equal_nan=True)
        for a, b in zip(BEFORE, copy_of(latest.state), strict=True)
    )
    for warning in caught:
        assert "\n" not in str(warning.message)
