"""Compiled programs are kept on disk for the next process, and JAX's own settings stay as they are."""

import gc
import hashlib
import os
import subprocess
import sys
import warnings
import weakref
import zlib
from pathlib import Path
from typing import NamedTuple

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import streambayes as sb
from streambayes._core import program
from streambayes._core.batch import Batch

LEARN = """
import hashlib, jax, numpy as np, streambayes as sb
from jax import stages
compiled = []
def compile(lowered, *args, original=stages.Lowered.compile, **options):
    compiled.append(lowered)
    return original(lowered, *args, **options)
stages.Lowered.compile = compile
{before}
learner = sb.StreamLearner(sb.models.BetaBinomial("x"), {policy}, watch=False)
batch = {{"x": np.arange(20) % 2}}
state, info = learner.step(learner.init(batch), batch)
leaves = jax.tree.leaves(learner.step(state, batch)[0])
print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)
print(info.bound.hex(), *info.retained.values())
print(hashlib.sha256(b"".join(np.asarray(leaf).tobytes() for leaf in leaves)).hexdigest())
print(len(compiled))
"""
MINE = """
@sb.definition
class Mine(sb.forgetting.AbstractSinglePrior):
    name = "mine"
    def open(self, memory, prior, clock):
        return sb.forgetting.PriorAnchor(tempered=memory.lerp(prior, {rho}), rho=jax.numpy.asarray({rho}))
"""


def learned(tmp_path, before="", policy="sb.SVB()", **environment):
    """Learn batches in a process of its own; what it prints, and what lies in its cache then."""
    folder = tmp_path / "caches"
    kept = {key: os.environ[key] for key in ("PATH", "HOME", "PYTHONPATH") if key in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", LEARN.format(before=before, policy=policy)],
        env={**kept, "XDG_CACHE_HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    settings, *results, num_compiled = done.stdout.splitlines()
    return Learned(settings, results, int(num_compiled), files)


class Learned(NamedTuple):
    """What a process has learned, how many programs it compiled for that, and the files it left."""

    settings: str
    results: list[str]
    num_compiled: int
    files: list[Path]

    @property
    def programs(self):
        return {path.name: path.read_bytes() for path in self.files if "program-" in path.name}


def test_the_next_process_finds_it_and_traces_nothing(tmp_path):
    first = learned(tmp_path)
    assert first.settings == "None 1.0"
    assert len(first.programs) == len(first.files) == first.num_compiled > 0
    again = learned(tmp_path)
    assert again.num_compiled == 0
    assert (again.results, again.programs) == (first.results, first.programs)


@pytest.fixture
def folder(tmp_path, monkeypatch):
    """Where programs are kept meanwhile."""
    monkeypatch.setattr(program, "_chosen", tmp_path / "programs")
    given = jax.config.jax_compilation_cache_dir
    jax.config.update("jax_compilation_cache_dir", None)
    yield tmp_path / "programs"
    jax.config.update("jax_compilation_cache_dir", given)


def traced(argument, of=("doubled",), **static):
    """How often a program of this process without a past is traced, and what it returns."""
    calls = []

    def doubled(value, times=2.0):
        calls.append(value)
        return {"sum": (value * times).sum(), "bits": jnp.sin(value)}

    found = program.Program(doubled, of=of)(argument, **static)
    return len(calls), {name: np.asarray(value).tobytes() for name, value in found.items()}


def test_what_is_found_has_the_same_bits(folder):
    num, first = traced(np.arange(5.0, dtype=np.float32))
    assert num == 1
    assert traced(np.arange(5.0, dtype=np.float32)) == (0, first)
    assert len(list(folder.rglob("program-*"))) == 1


@pytest.mark.parametrize(
    "change",
    [
        {"argument": np.ones(4, np.float32)},
        {"argument": np.ones(5, np.int32)},
        {"argument": np.ones((1, 5), np.float32)},
        {"argument": np.ones(5, np.float32), "of": ("other",)},
        {"argument": np.ones(5, np.float32), "of": ("doubled", sb.Auto())},
        {"argument": np.ones(5, np.float32), "times": 3.0},
    ],
    ids=str,
)
def test_another_program_has_another_file(folder, change):
    traced(np.ones(5, np.float32))
    assert traced(**change)[0] == 1
    assert len(list(folder.rglob("program-*"))) == 2
    assert traced(**change)[0] == traced(np.ones(5, np.float32))[0] == 0


def test_weak_types_are_told_apart(folder):
    one = program.Program(lambda value: value + np.float32(1.0), of=("one",))
    assert one(np.float32(1.0)).dtype == one(1.0).dtype == np.float32
    assert len(list(folder.rglob("program-*"))) == 2


@pytest.mark.usefixtures("folder")
def test_another_library_or_setting_of_jax_is_another_program(monkeypatch):
    traced(np.ones(5))
    partitionable = jax.config.jax_threefry_partitionable
    jax.config.update("jax_threefry_partitionable", not partitionable)
    assert traced(np.ones(5))[0] == 1
    jax.config.update("jax_threefry_partitionable", partitionable)
    assert traced(np.ones(5))[0] == 0
    monkeypatch.setattr(program, "_process", lambda _: ("other code",))
    assert traced(np.ones(5))[0] == 1


def test_the_code_of_the_library_is_part_of_the_key(tmp_path, monkeypatch):
    (tmp_path / "package").mkdir()
    (tmp_path / "module.py").write_text("number = 1", encoding="utf-8")
    monkeypatch.setattr(program, "__file__", str(tmp_path / "package" / "program.py"))
    program._process.cache_clear()
    before = program._process(jax.devices()[0])
    (tmp_path / "module.py").write_text("number = 2", encoding="utf-8")
    program._process.cache_clear()
    assert program._process(jax.devices()[0]) != before
    program._process.cache_clear()


def test_a_program_under_the_name_of_another_is_not_run(folder):
    _, first = traced(np.arange(5.0))
    (path,) = folder.rglob("program-*")
    _, second = traced(np.arange(5.0), times=3.0)
    (other,) = set(folder.rglob("program-*")) - {path}
    other.write_bytes(path.read_bytes())
    assert traced(np.arange(5.0), times=3.0) == (1, second)
    assert traced(np.arange(5.0), times=3.0) == (0, second)
    assert first != second


def test_where_jax_is_to_compile_nothing():
    learner = sb.StreamLearner(sb.models.BetaBinomial("x"), sb.SVB(), watch=False)
    batch = {"x": [0, 1, 1, 1]}
    with jax.disable_jit():
        state, _ = learner.step(learner.init(batch), batch)
        score = learner.score(state, batch)
    expected, _ = learner.step(learner.init(batch), batch)
    assert state.retained == pytest.approx(expected.retained, rel=1e-12)
    assert score.bound == pytest.approx(learner.score(expected, batch).bound, rel=1e-12)


@pytest.mark.parametrize("damage", ["cut", "changed", "foreign", "facts", "code", "empty"])
def test_what_is_damaged_is_compiled_anew(folder, damage):
    _, first = traced(np.arange(5.0))
    (path,) = folder.rglob("program-*")
    written = path.read_bytes()
    facts, code = zlib.decompress(written.split(b"\n", 1)[1]).split(b"\n", 1)
    packed = zlib.compress((b"{}\n" + code) if damage == "facts" else facts + b"\n" + code[::-1])
    path.write_bytes(
        {
            "cut": written[: len(written) // 2],
            "changed": written[:-1] + bytes([written[-1] ^ 1]),
            "foreign": b"something else\n" * 100,
            "empty": b"",
        }.get(damage, hashlib.sha256(packed).hexdigest().encode() + b"\n" + packed)
    )
    assert traced(np.arange(5.0)) == (1, first)
    assert traced(np.arange(5.0)) == (0, first)  # and whole again


def test_a_policy_of_the_users_own_is_traced(tmp_path):
    """Its code may be another in the next process, under the same name."""
    first = learned(tmp_path, MINE.format(rho=0.25), "Mine()")
    assert any(path.name.startswith("jit__learn") for path in first.files)
    again = learned(tmp_path, MINE.format(rho=0.25), "Mine()")
    assert again.num_compiled > 0  # XLA's part of it is found
    assert again.files == first.files
    assert again.results == first.results
    assert learned(tmp_path, MINE.format(rho=0.75), "Mine()").results != first.results


@pytest.mark.parametrize("off", ["off", "0", ""])
def test_switched_off_by_the_environment(tmp_path, off):
    nothing = learned(tmp_path, STREAMBAYES_COMPILE_CACHE=off)
    assert (nothing.settings, nothing.files) == ("None 1.0", [])


def test_switched_off_by_the_program(tmp_path):
    nothing = learned(tmp_path, "assert sb.compile_cache(False) is None")
    assert (nothing.settings, nothing.files) == ("None 1.0", [])


def test_another_folder(tmp_path):
    found = learned(tmp_path, f"sb.compile_cache({str(tmp_path / 'mine')!r})")
    assert (found.settings, found.files) == ("None 1.0", [])
    assert list((tmp_path / "mine").rglob("program-*"))


@pytest.mark.parametrize("on", ["1", "on", "True"])
def test_switched_on_by_the_environment(monkeypatch, on):
    monkeypatch.setenv("STREAMBAYES_COMPILE_CACHE", on)
    assert program.compile_cache().parts[-2:] == ("streambayes", "compiled")


def test_a_file_is_no_folder(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(ValueError, match="file is a file; give a folder"):
        program.compile_cache(tmp_path / "file")


def test_a_folder_that_jax_was_given_comes_first(tmp_path):
    theirs = tmp_path / "theirs"
    before = f"jax.config.update('jax_compilation_cache_dir', {str(theirs)!r})"
    found = learned(tmp_path, before)
    assert (found.settings, found.files) == (f"{theirs} 1.0", [])


def test_a_folder_that_cannot_be_made_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    before = f"sb.compile_cache({str(tmp_path / 'file' / 'folder')!r})"
    found = learned(tmp_path, before)
    assert (found.settings, found.files) == ("None 1.0", [])


def test_a_folder_that_was_asked_for_and_cannot_be_used_is_told(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("", encoding="utf-8")
    monkeypatch.setattr(program, "_chosen", tmp_path / "file" / "folder")
    with pytest.warns(UserWarning, match="neither read nor kept in .*: Not a directory; name"):
        assert program.folder_for_programs(tmp_path / "file" / "folder") is None


def test_the_oldest_programs_go_when_it_is_full(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir(mode=0o700)
    (tmp_path / "elsewhere").write_bytes(b"0" * 100)
    (folder / "link-cache").symlink_to(tmp_path / "elsewhere")
    (folder / f"program-{'0' * 64}").write_bytes(b"0" * 100)
    os.utime(folder / f"program-{'0' * 64}", (999, 999))
    (folder / "notes").write_bytes(b"0" * 100)  # of someone who keeps them there
    for place, name in enumerate(("old-cache", "middle-cache", "new-cache")):
        path = folder / name
        path.write_bytes(b"0" * 100)
        os.utime(path, (1000 + place, 1000 + place))
    monkeypatch.setattr(program, "_MOST_BYTES", 250)
    program._prepared.cache_clear()
    assert program._prepared(folder) == folder
    left = {path.name for path in folder.iterdir()}
    assert left == {"middle-cache", "new-cache", "link-cache", "notes"}


def test_a_folder_that_others_can_write_to_is_not_used(tmp_path):
    """What lies there is run."""
    theirs = program.folder_for_programs(tmp_path)
    theirs.chmod(0o777)
    program._prepared.cache_clear()
    with pytest.warns(UserWarning, match="not private: others can write to it; remove it, or name"):
        assert program.folder_for_programs(tmp_path) is None
    with warnings.catch_warnings(action="error"):  # once is enough
        assert program.folder_for_programs(tmp_path) is None
    assert list(theirs.iterdir()) == []


@pytest.mark.parametrize("enabled", [True, False])
def test_no_garbage_is_collected_while_a_program_compiles(enabled):
    """An exception out of a signal is lost in what the collector calls, so that a Ctrl-C would have no effect."""
    seen = []

    def collected(phase, _):
        seen.append(phase)

    def function(number):
        seen.clear()
        kept = [[] for _ in range(10 * gc.get_threshold()[0])]  # enough for the collector to run
        seen.append(len(kept) > 0)
        return number + 1.0

    gc.callbacks.append(collected)
    try:
        if not enabled:
            gc.disable()
        assert program.Program(function)(1.0) == 2.0
        assert gc.isenabled() == enabled
    finally:
        gc.callbacks.remove(collected)
        gc.enable()
    assert seen[: seen.index(True) + 1] == [True]


MANY_SHAPES = """
import jax.numpy as jnp, numpy as np, streambayes as sb
from streambayes._core import program
from streambayes._core.batch import Batch
sb.compile_cache(False)
def few(batch):
    return [jnp.sin(batch.values[each:]).sum(0) for each in range(3)]
several = [program.Program(few), program.Program(lambda batch: few(batch)[::-1])]
first, most = program._num_maps(), 0
program._MOST_MAPS = first + 300
for size in range(1, 76):
    for each in several:
        found = each(Batch(np.ones((3, size)), np.int64(size), ("x",)))
        most = max(most, program._num_maps() - first)
print(most, sum(each.num_held for each in several))
"""


@pytest.mark.skipif(not Path("/proc/self/maps").exists(), reason="there are no memory maps to see")
def test_programs_that_are_held_are_bounded():
    """A process through hundreds of shapes keeps to its memory maps: each program has about ten of them."""
    done = subprocess.run(
        [sys.executable, "-c", MANY_SHAPES], capture_output=True, text=True, check=True
    )
    most, held = map(int, done.stdout.split())
    assert most < 400
    assert 4 <= held < 50


def batch_of(size):
    return Batch(np.ones((1, size)), np.int64(size), ("x",))


def test_what_was_used_last_is_held(monkeypatch):
    counted = []

    def function(batch):
        counted.append(batch.values.shape[1])
        return batch.values.sum()

    each = program.Program(function)
    monkeypatch.setattr(program, "_held", weakref.WeakSet())
    monkeypatch.setattr(program, "_MOST_HELD", 4)
    for size in (1, 2, 3, 4, 5, 1, 6, 7, 8, 9, 1):
        assert each(batch_of(size)) == size
    assert counted == [1, 2, 3, 4, 5, 6, 7, 8, 9]
