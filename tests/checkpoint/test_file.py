"""Saved states: what goes in comes out, and nothing else does."""

import dataclasses
import itertools
import json
import pickle
import zipfile

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes._core.precision import to_host
from streambayes.checkpoint import _file
from streambayes.checkpoint._tree import describe, restore
from tests.tables import MODELS, POLICIES, QUICK, SLOW


def batches(name, num_batches, seed=0):
    model, draw = MODELS[name]
    rng = np.random.default_rng(seed)
    return model, [draw(rng, 20) for _ in range(num_batches)]


def identical(one, other):
    pairs = zip(jax.tree.leaves(one), jax.tree.leaves(other), strict=True)
    return jax.tree.structure(one) == jax.tree.structure(other) and all(
        np.array_equal(a, b, equal_nan=True) and np.asarray(a).dtype == np.asarray(b).dtype
        for a, b in pairs
    )


@pytest.fixture
def saved(tmp_path):
    model, stream = batches("gaussian", 2)
    state = sb.run(sb.StreamLearner(model, sb.MHPP()), stream).state
    sb.save(state, tmp_path / "state.sbz")
    return state, tmp_path / "state.sbz"


SAVED = [
    *itertools.product(QUICK, [sb.HPP(), sb.PVB(100, 0.1, minibatch_size=16)]),
    *itertools.product(SLOW, [sb.HPP()]),
]


@pytest.mark.parametrize(("name", "policy"), SAVED, ids=repr)
def test_save_load_and_continue_is_never_stopping(tmp_path, name, policy):
    model, stream = batches(name, 4)
    learner = sb.StreamLearner(model, policy)
    state = learner.init(stream[0])
    for number, batch in enumerate(stream):
        sb.save(state, tmp_path / f"{number}.sbz")
        loaded = sb.load(tmp_path / f"{number}.sbz")
        assert identical(loaded, state)
        assert identical(learner.step(loaded, batch)[0], learner.step(state, batch)[0])
        state, _ = learner.step(loaded, batch, time=3.5 * number)


@pytest.mark.parametrize("policy", POLICIES, ids=repr)
def test_every_policy_can_be_saved(tmp_path, policy):
    model, stream = batches("gaussian", 1)
    state = sb.StreamLearner(model, policy).init(stream[0])
    sb.save(state, tmp_path / "state.sbz")
    loaded = sb.load(tmp_path / "state.sbz")
    assert identical(loaded, state)
    assert (loaded.model, loaded.forgetting) == (model, policy)


def test_equal_states_are_equal_files(saved, tmp_path):
    state, path = saved
    sb.save(state, tmp_path / "again.sbz")
    assert path.read_bytes() == (tmp_path / "again.sbz").read_bytes()


def test_nothing_is_pickled_and_the_description_is_readable(saved):
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        assert archive.namelist() == ["manifest.json", "arrays.safetensors"]
        manifest = json.loads(archive.read("manifest.json"))
    assert manifest["format"] == "streambayes-state"
    assert manifest["version"] == 5
    assert manifest["library"] == sb.__version__
    assert manifest["state"]["fields"]["model"]["class"] == "models.Gaussian"


@pytest.mark.parametrize("keep", [0, 1, 100, 0.5, -1])
def test_a_file_cut_short_is_refused(saved, keep):
    _, path = saved
    content = path.read_bytes()
    length = int(len(content) * keep) if isinstance(keep, float) else keep
    path.write_bytes(content[:length])
    with pytest.raises(ValueError, match="is not a saved streambayes state, or it is cut short"):
        sb.load(path)


def test_every_flipped_byte_of_the_arrays_is_noticed(saved):
    _, path = saved
    content = bytearray(path.read_bytes())
    start = content.index(b"arrays.safetensors") + len("arrays.safetensors")
    end = content.index(b"PK\x01\x02")
    for place in range(start, end, 37):
        damaged = bytearray(content)
        damaged[place] ^= 0x40
        path.write_bytes(damaged)
        with pytest.raises(ValueError, match=r"cut short|damaged"):
            sb.load(path)


def rewritten(path, change):
    """The file with its manifest changed and everything else in order."""
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = (
            json.loads(archive.read("manifest.json")),
            archive.read("arrays.safetensors"),
        )
    change(manifest)
    held = {key: manifest[key] for key in ("state", "facts", "streams")}
    manifest["sha256"] = _file._digest(held, arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", arrays)


@pytest.mark.parametrize(
    ("change", "sentence"),
    [
        (lambda m: m.update(format="other"), "is not a saved streambayes state"),
        (
            lambda m: m.update(version=99, library="9.9"),
            "has format version 99, this library reads versions 2 to 5; it was written by streambayes 9.9",
        ),
        (
            lambda m: m["state"].update({"class": "os:system"}),
            "class 'os:system' is not known; import the module",
        ),
        (lambda m: m["state"]["fields"].pop("prior"), "has fields"),
        (lambda m: m.update(streams=["a"]), "streams and states do not fit together"),
        (lambda m: m.update(streams=[["a"]]), "is damaged"),
        (
            lambda m: m["state"]["fields"]["model"]["fields"].update(names={"tuple": []}),
            "at least one name is needed, got none",
        ),
        (lambda m: m["state"]["fields"]["rows_seen"].update(array="zz"), "is damaged"),
        (lambda m: m["state"]["fields"]["rows_seen"].update(shape=[7]), "is damaged"),
        (
            lambda m: m.update(state=m["state"]["fields"]["model"]),
            "it holds a Gaussian, not a state",
        ),
    ],
)
def test_a_tampered_description_is_refused(saved, change, sentence):
    _, path = saved
    rewritten(path, change)
    with pytest.raises(ValueError, match=sentence):
        sb.load(path)


@pytest.mark.parametrize("version", [2, 3, 4])
def test_files_of_the_formats_before_are_read(saved, version):
    """Version 2 had nothing beside the state, version 3 no streams, none of them a watch, which begins now; all had shares."""
    state, path = saved
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = (archive.read(name) for name in ("manifest.json", "arrays.safetensors"))
    manifest = json.loads(manifest)
    del manifest["state"]["fields"]["watch"]
    manifest["state"]["fields"]["log_shares"] = {"tuple": [-1.1, -1.1, -1.1]}
    held = {key: manifest[key] for key in ("state", "facts", "streams")}
    if version < 4:
        del manifest["streams"], held["streams"]
    if version == 2:
        del manifest["facts"]
        held = manifest["state"]
    manifest |= {"version": version, "sha256": _file._digest(held, arrays)}
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", arrays)
    loaded = sb.load(path)
    assert identical(dataclasses.replace(loaded, watch=state.watch), state)
    batch = batches("gaussian", 1)[1][0]
    learner = sb.StreamLearner(state.model, state.forgetting)
    assert identical(loaded.watch, learner.init(batch).watch)


def test_many_states_of_the_format_before_are_read(tmp_path):
    rng = np.random.default_rng(0)
    fleet = sb.many(sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB()))
    states = fleet.init({name: {"x": rng.normal(size=12)} for name in ("a", "b")})
    sb.save(states, tmp_path / "fleet.sbz")
    rewritten(
        tmp_path / "fleet.sbz",
        lambda m: (m["state"]["fields"].pop("watch"), m.update(version=4)),
    )
    loaded = sb.load(tmp_path / "fleet.sbz")
    assert list(loaded) == ["a", "b"]
    assert identical(loaded.stacked, states.stacked)


def test_trust_of_earlier_states_begins_anew():
    """It was that of one forecaster among others, whose shares were beside it."""
    model, stream = batches("gaussian", 1)
    state = to_host(sb.StreamLearner(model).init(stream[0]))
    arrays = {}
    held = describe(state, arrays)
    held["fields"]["log_shares"] = {"tuple": [-1.1, -1.1, -1.1]}
    found = restore(held, arrays)
    for block, trust in state.memory.log_trust.items():
        np.testing.assert_array_equal(found.memory.log_trust[block], trust + np.log(0.1))
    assert identical(found.belief, state.belief)


@pytest.mark.parametrize("content", [b"not a zip", b"PK\x03\x04", json.dumps({"a": 1}).encode()])
def test_a_foreign_file_is_refused(tmp_path, content):
    path = tmp_path / "foreign.sbz"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="is not a saved streambayes state"):
        sb.load(path)


def test_a_zip_of_other_things_is_refused(tmp_path):
    with zipfile.ZipFile(tmp_path / "other.zip", "w") as archive:
        archive.writestr("hello.txt", "hello")
    with pytest.raises(ValueError, match="is not a saved streambayes state"):
        sb.load(tmp_path / "other.zip")


def test_a_missing_file_says_so(tmp_path):
    with pytest.raises(FileNotFoundError):
        sb.load(tmp_path / "nothing.sbz")


def test_a_failed_write_leaves_the_old_file(saved, monkeypatch):
    state, path = saved
    before = path.read_bytes()

    def fail(_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(_file.os, "fsync", fail)
    with pytest.raises(OSError, match="No space left"):
        sb.save(state, path)
    assert path.read_bytes() == before
    assert list(path.parent.iterdir()) == [path]


def test_only_states_are_saved(tmp_path):
    with pytest.raises(TypeError, match="expected a state from StreamLearner, got dict"):
        sb.save({}, tmp_path / "x.sbz")


def test_a_changed_description_is_noticed(saved):
    _, path = saved
    with zipfile.ZipFile(path) as archive:
        manifest, arrays = archive.read("manifest.json"), archive.read("arrays.safetensors")
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", manifest.replace(b'"x"', b'"q"'))
        archive.writestr("arrays.safetensors", arrays)
    with pytest.raises(ValueError, match="does not match its checksum"):
        sb.load(path)


@pytest.mark.parametrize("mask", [0x01, 0x41, 0xFF])
def test_flipped_bytes_change_nothing_or_are_noticed(saved, mask):
    state, path = saved
    content = path.read_bytes()
    for place in range(0, len(content), 29):
        damaged = bytearray(content)
        damaged[place] ^= mask
        path.write_bytes(damaged)
        try:
            loaded = sb.load(path)
        except ValueError:
            continue
        assert identical(loaded, state)


def test_a_missing_folder_is_named(saved, tmp_path):
    state, _ = saved
    with pytest.raises(FileNotFoundError, match="there is no folder"):
        sb.save(state, tmp_path / "nowhere" / "state.sbz")


@pytest.mark.parametrize(("name", "column"), [("gaussian", "x"), ("network", "u")])
def test_pickled_states_and_learners_go_on_alike(name, column):
    model, stream = batches(name, 3)
    learner = sb.StreamLearner(model, sb.HPP(), scale={column: (1.0, 2.0)})
    state, _ = learner.step(learner.init(stream[0]), stream[0])
    other_learner, other = pickle.loads(pickle.dumps((learner, state)))
    assert identical(other_learner.step(other, stream[1])[0], learner.step(state, stream[1])[0])


@pytest.mark.parametrize(
    "policy",
    [
        sb.PVB(np.float32(8), np.float64(0.5)),
        sb.SVI(np.int64(100), step_size=np.float32(0.5)),
        sb.PowerPrior(kl_budget=np.float32(0.5)),
        sb.PowerPrior(np.float32(0.5)),
        sb.Fading(1),
    ],
    ids=lambda policy: policy.name,
)
def test_numbers_of_policies_are_plain_whatever_they_were_given_as(tmp_path, policy):
    learner = sb.StreamLearner(sb.models.BetaBinomial("x"), policy)
    sb.save(learner.init({"x": [1, 0]}), tmp_path / "state.sbz")
    held = sb.load(tmp_path / "state.sbz").forgetting
    assert held == policy
    assert hash(held) == hash(policy)
    assert repr(held) == repr(policy)
    assert "array" not in repr(held)


def test_a_number_beyond_all_floats_is_named():
    with pytest.raises(ValueError, match="PVB: population_size is too large"):
        sb.PVB(10**400, 0.5)
    with pytest.raises(ValueError, match="max_sweeps must be a whole number"):
        sb.StreamLearner(sb.models.BetaBinomial("x"), sb.SVB(), max_sweeps=10**20)


@pytest.mark.parametrize("policy", [sb.Auto(), sb.MHPP()], ids=repr)
def test_states_of_many_streams(tmp_path, policy):
    rng = np.random.default_rng(0)
    fleet = sb.many(sb.StreamLearner(sb.models.Gaussian("x"), policy))
    batches = {name: {"x": rng.normal(size=12)} for name in ("a", 7, 2.5)}
    states, _ = fleet.step(fleet.init(batches), batches)
    sb.save(states, tmp_path / "fleet.sbz")
    loaded = sb.load(tmp_path / "fleet.sbz")
    assert list(loaded) == ["a", 7, 2.5]
    more = {"a": {"x": rng.normal(size=5)}, 7: {"x": rng.normal(size=12)}}
    mine, theirs = (fleet.step(held, more)[0] for held in (loaded, states))
    assert identical(mine.stacked, theirs.stacked)
    held = sb.Checkpoints(tmp_path / "checkpoints")
    held.save(sb.Checkpoint(states, 1, {"offset": 12}))
    latest = held.latest()
    assert identical(latest.state.stacked, states.stacked)
    assert (latest.num_batches, latest.facts) == (1, {"offset": 12})
    with pytest.raises(ValueError, match="the checkpoint is of many streams, not of a run"):
        sb.run(fleet.learner, [], checkpoint=held, resume=True)
    odd = sb.ManyStates.of({("a", "b"): states["a"]})
    with pytest.raises(
        TypeError, match=r"streams must be called by text or numbers, got .'a', 'b'"
    ):
        sb.save(odd, tmp_path / "odd.sbz")
    assert not (tmp_path / "odd.sbz").exists()
