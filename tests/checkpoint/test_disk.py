"""A disk that is full or read-only: the run stops with a sentence, and the last checkpoint is as it was."""

import subprocess

import numpy as np
import pytest

import streambayes as sb

LEARNER = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB())


def stream(num_batches=40):
    rng = np.random.default_rng(0)
    return [{"x": rng.normal(size=9), "y": rng.normal(size=9)} for _ in range(num_batches)]


def mount(*arguments):
    return (
        subprocess.run(["/usr/bin/mount", *arguments], capture_output=True, check=False).returncode
        == 0
    )


@pytest.fixture
def small(tmp_path):
    """A disk of 256 KiB."""
    folder = tmp_path / "small"
    folder.mkdir()
    if not mount("-t", "tmpfs", "-o", "size=256k", "tmpfs", str(folder)):
        pytest.skip("only root can mount a disk")
    yield folder
    subprocess.run(["/usr/bin/umount", str(folder)], check=True)


@pytest.mark.parametrize("what", ["checkpoint", "record", "both"])
def test_a_disk_that_is_full(small, tmp_path, what):
    left = 29_000 if what == "record" else 150_000  # a checkpoint has 25,000
    (small / "other").write_bytes(bytes(256 * 1024 - left))
    places = {
        place: (small if what in (place, "both") else tmp_path) / place
        for place in ("checkpoint", "record")
    }
    many = {**places, "checkpoint": sb.Checkpoints(places["checkpoint"], keep=30)}
    with pytest.raises(OSError, match="No space left on device") as caught:
        sb.run(LEARNER, stream(), progress=False, **many)
    reached = sb.Checkpoints(places["checkpoint"]).latest().num_batches
    assert 0 < reached < 40
    if what == "checkpoint":
        assert f"checkpoint-{reached + 1:012d}.sbz" in str(caught.value)
        assert f"batch {reached} is learned but not saved" in caught.value.__notes__[0]
    (small / "other").unlink()
    again = sb.run(LEARNER, stream(), progress=False, resume=True, **places)
    whole = sb.run(LEARNER, stream(), progress=False)
    assert again.scores == whole.scores
    assert [record.index for record in sb.read_records(places["record"])] == list(range(40))


def test_a_folder_that_is_read_only(small):
    sb.run(LEARNER, stream(2), progress=False, checkpoint=small / "run")
    assert mount("-o", "remount,ro", str(small))
    with pytest.raises(OSError, match=r"Read-only file system.*checkpoint-000000000003.sbz"):
        sb.run(LEARNER, stream(), progress=False, checkpoint=small / "run", resume=True)
    assert sb.Checkpoints(small / "run").latest().num_batches == 2
    with pytest.raises(OSError, match="Read-only file system"):
        sb.run(LEARNER, stream(), progress=False, checkpoint=small / "new")
    with pytest.raises(OSError, match="Read-only file system"):
        sb.run(LEARNER, stream(), progress=False, record=small / "new")
