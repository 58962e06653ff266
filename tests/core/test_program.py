"""Compiled programs are kept on disk for the next process, and JAX's own settings stay as they are."""

import gc
import os
import subprocess
import sys
import warnings

import pytest

from streambayes._core import program

LEARN = """
import jax, numpy as np, streambayes as sb
{before}
learner = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVB())
batch = {{"x": np.arange(20.0)}}
learner.step(learner.init(batch), batch)
print(jax.config.jax_compilation_cache_dir, jax.config.jax_persistent_cache_min_compile_time_secs)
"""


def learned(tmp_path, before="", **environment):
    """Learn a batch in a process of its own; what it prints, and what lies in its cache then."""
    folder = tmp_path / "caches"
    kept = {key: os.environ[key] for key in ("PATH", "HOME") if key in os.environ}
    done = subprocess.run(
        [sys.executable, "-c", LEARN.format(before=before)],
        env={**kept, "XDG_CACHE_HOME": str(folder), **environment},
        capture_output=True,
        text=True,
        check=True,
    )
    files = sorted(path for path in folder.rglob("*") if path.is_file())
    return done.stdout.strip(), {path.name: path.stat().st_mtime_ns for path in files}


def test_the_next_process_finds_it(tmp_path):
    said, files = learned(tmp_path)
    assert said == "None 1.0"
    assert any(name.startswith("jit__learn") for name in files)
    again, after = learned(tmp_path)
    programs = {name for name in files if name.endswith("-cache")}
    assert (again, {name for name in after if name.endswith("-cache")}) == (said, programs)
    assert all(after[name] == files[name] for name in programs)  # nothing was compiled anew


@pytest.mark.parametrize("off", ["off", "0", ""])
def test_switched_off_by_the_environment(tmp_path, off):
    assert learned(tmp_path, STREAMBAYES_COMPILE_CACHE=off) == ("None 1.0", {})


def test_switched_off_by_the_program(tmp_path):
    assert learned(tmp_path, "assert sb.compile_cache(False) is None") == ("None 1.0", {})


def test_another_folder(tmp_path):
    said, files = learned(tmp_path, f"sb.compile_cache({str(tmp_path / 'mine')!r})")
    assert (said, files) == ("None 1.0", {})
    assert list((tmp_path / "mine").rglob("jit__learn*"))


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
    assert learned(tmp_path, before) == (f"{theirs} 1.0", {})


def test_a_folder_that_cannot_be_made_does_no_harm(tmp_path):
    (tmp_path / "file").write_text("", encoding="utf-8")
    before = f"sb.compile_cache({str(tmp_path / 'file' / 'folder')!r})"
    assert learned(tmp_path, before) == ("None 1.0", {})


def test_the_oldest_programs_go_when_it_is_full(tmp_path, monkeypatch):
    folder = tmp_path / "programs"
    folder.mkdir(mode=0o700)
    (tmp_path / "elsewhere").write_bytes(b"0" * 100)
    (folder / "link-cache").symlink_to(tmp_path / "elsewhere")
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
