"""Files that are damaged in thousands of ways: a sentence or rows, never anything else, and the state stays as it is."""

import copy
import functools
import io
import json
import re
import warnings
import zipfile

import jax
import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyarrow import csv, feather, parquet
from safetensors.numpy import load, save

import streambayes as sb
from streambayes.checkpoint import _file
from streambayes.learning._record import RECORDS
from streambayes.reports._digest import Digest
from streambayes.reports._story import tell

NUM_EXAMPLES = 1500
NUM_CHANGES = 500
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


NESTED = functools.reduce(lambda inner, _: [inner], range(900), 0)
NUMBERS = [-1, 0, 1, 7, 10**9, 2**63, 10**30, -(10**400), 0.5, 1e308, float("nan"), float("inf")]
TEXTS = ["", "x", "\ud800", "a\nb", "models.Gaussian", "learning.LearnerState"]
PARTS = [[], [1], [[1]], ["x", "x"], {}, {"a": 1}, {"array": "a0", "shape": [-1]}, {"tuple": []}]
ODD = [None, True, NESTED, *NUMBERS, *TEXTS, *PARTS]
"""What does not belong where it is put: other types, other shapes, numbers without measure."""


def places(node, path=()):
    """The way to everything in a JSON document."""
    inside = node.items() if isinstance(node, dict) else ()
    for key, value in enumerate(node) if isinstance(node, list) else inside:
        yield (*path, key)
        yield from places(value, (*path, key))


def at(node, path):
    return functools.reduce(lambda inner, key: inner[key], path, node)


@st.composite
def changed(draw, document):
    """A JSON document with values replaced, by odd ones or by others of its own, taken out or repeated."""
    document = copy.deepcopy(document)
    for _ in range(draw(st.integers(1, 3))):
        every = list(places(document))
        if not every:
            break
        *path, key = draw(st.sampled_from(every))
        parent, other = at(document, path), at(document, draw(st.sampled_from(every)))
        what = draw(st.sampled_from(["odd", "odd", "other", "delete", "repeat"]))
        if what == "delete":
            del parent[key]
        elif what == "repeat" and isinstance(parent, list):
            parent.insert(key, parent[key])
        else:
            parent[key] = copy.deepcopy(other if what == "other" else draw(st.sampled_from(ODD)))
    return document


@st.composite
def other_arrays(draw, arrays):
    """Arrays swapped, taken out, of other types, lengths and shapes, or with odd numbers in them."""
    arrays = dict(arrays)
    name, other = draw(st.sampled_from(sorted(arrays))), draw(st.sampled_from(sorted(arrays)))
    held = arrays[name]
    what = draw(st.sampled_from(["swap", "delete", "type", "longer", "shape", "fill"]))
    if what == "swap":
        arrays[name], arrays[other] = arrays[other], arrays[name]
    elif what == "delete":
        del arrays[name]
    elif what == "type":
        with np.errstate(invalid="ignore"):
            arrays[name] = held.astype(draw(st.sampled_from(["i1", "u8", "f4", "?", "i8"])))
    elif what == "longer":
        arrays[name] = np.append(held, held)
    elif what == "shape":
        arrays[name] = np.ascontiguousarray(held[None])
    elif held.dtype.kind == "f":
        arrays[name] = np.full_like(held, draw(st.sampled_from([np.nan, -np.inf, -1.0, 1e308])))
    return arrays


def copy_of(state):
    return [np.array(leaf) for leaf in jax.tree.leaves(state)]


BEFORE = copy_of(STATE)


@pytest.mark.parametrize("ending", CONTENTS)
@pytest.mark.filterwarnings("ignore:.*all rows are sorted in memory:UserWarning")
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


@functools.cache
def whole_states():
    """Files of one stream and of several, with models and policies of several kinds."""
    rows = {"x": [0.5, 1.0, 4.0, 2.0], "y": [1.0, 3.0, 2.0, 7.0]}
    mixture = sb.StreamLearner(sb.models.GaussianMixture(["x", "y"], 2), sb.MHPP())
    return (
        _file.packed(STATE, {"num_batches": 1, "offset": [1]}),
        _file.packed(mixture.init(rows)),
        _file.packed(sb.many(LEARNER).init({"a": rows, 7: rows})),
    )


def taken_apart(content):
    """Description and arrays of a saved state."""
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return json.loads(archive.read("manifest.json")), archive.read("arrays.safetensors")


def put_together(manifest, numbers):
    """A file with these and their checksum."""
    held = {key: manifest.get(key) for key in ("state", "facts", "streams")}
    file = io.BytesIO()
    with zipfile.ZipFile(file, "w") as archive:
        digest = _file._digest(held, numbers)
        archive.writestr("manifest.json", json.dumps({**manifest, "sha256": digest}))
        archive.writestr("arrays.safetensors", numbers)
    return file.getvalue()


@settings(max_examples=NUM_CHANGES)
@given(data=st.data())
def test_changed_states_with_their_checksum(data):
    """Whatever is in the file, it is a sentence, or a state of the right shape in all of its parts."""
    manifest, numbers = taken_apart(data.draw(st.sampled_from(whole_states())))
    if data.draw(st.booleans()):
        manifest = data.draw(changed(manifest))
    else:
        numbers = save(data.draw(other_arrays(load(numbers))))
    said, file = "", put_together(manifest, numbers)
    try:
        state, facts = _file.unpacked(file, "the file")
    except ValueError as error:
        said = str(error)
    if said:
        assert said.startswith("the file")
        assert "\n" not in said
        return
    assert isinstance(facts, dict)
    one = next(iter(state.values())) if isinstance(state, sb.ManyStates) else state
    assert one.retained.keys() == {
        str(label) for each in one.model.labels().values() for label in each.flat
    }


@pytest.mark.parametrize(
    ("sentence", "change"),
    [
        ("has format version", lambda m: m.update(version=[5])),
        ("facts must be an object", lambda m: m.update(facts=[1])),
        (
            "at most 100,000 categories are possible",
            lambda m: m["state"]["fields"]["model"]["fields"].update(num_components=10**9),
        ),
        (
            "a state needs a model and a policy, it has a",
            lambda m: m["state"]["fields"].update(forgetting=m["state"]["fields"]["model"]),
        ),
        ("there is no array", lambda m: m["state"]["fields"]["rows_seen"].update(array=["a"])),
    ],
)
def test_changes_that_were_no_sentence_once(sentence, change):
    manifest, numbers = taken_apart(whole_states()[1])
    change(manifest)
    with pytest.raises(ValueError, match=rf"^the file .*{sentence}"):
        _file.unpacked(put_together(manifest, numbers), "the file")


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    """The lines of a run in which something has changed."""
    folder = tmp_path_factory.mktemp("recorded")
    rng = np.random.default_rng(0)
    batches = [{"x": rng.normal(9.0 * (n > 4), size=30)} for n in range(8)]
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.HPP())
    sb.run(learner, batches, record=folder, test_fraction=0.2)
    return (folder / RECORDS).read_text().splitlines()


@settings(max_examples=NUM_CHANGES)
@given(data=st.data())
def test_damaged_records(data, recorded, tmp_path_factory):
    """A sentence with the line, or records of which a story can be told."""
    folder = tmp_path_factory.getbasetemp() / "damaged records"
    folder.mkdir(exist_ok=True)
    lines = list(recorded)
    number = data.draw(st.integers(0, len(lines) - 1))
    lines[number] = json.dumps(data.draw(changed([json.loads(lines[number])])))[1:-1]
    (folder / RECORDS).write_text("\n".join(lines) + "\n")
    digest, said = Digest("run"), ""
    try:
        for record in sb.read_records(folder):
            digest.take(record)
    except ValueError as error:
        said = str(error)
    if said:
        # names of blocks are wrong for the records that come after them
        wrong = str(number + 1) if number > 1 else r"\d+"
        assert re.search(rf"{RECORDS}, line {wrong}: not a record of a run \(", said)
        assert "\n" not in said
        return
    json.dumps([tell(digest), digest.news()]).encode()
