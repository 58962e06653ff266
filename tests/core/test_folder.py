"""Folders are made for their owner alone; links are neither followed nor removed, nor is what others wrote."""

import os
import re

import pytest

from streambayes._core.folder import NotPrivateError, make_private, remove_own

MINE = re.compile(r"\d+\.npz")


def test_a_folder_is_made_with_its_parents_for_its_owner_alone(tmp_path):
    folder = tmp_path / "one" / "two"
    make_private(folder)
    make_private(folder)
    for made in (folder, folder.parent):
        assert made.stat().st_mode & 0o777 == 0o700


def link(folder, tmp_path):
    (tmp_path / "elsewhere").mkdir(mode=0o700)
    folder.symlink_to(tmp_path / "elsewhere")


def dangling(folder, tmp_path):
    folder.symlink_to(tmp_path / "nowhere")


def open_to_others(folder, _):
    folder.mkdir()
    folder.chmod(0o720)


def within_a_folder_for_all(folder, tmp_path):
    folder.mkdir(mode=0o700)
    tmp_path.chmod(0o777)


@pytest.mark.parametrize(
    ("planted", "why"),
    [
        (link, "it is a link or a file"),
        (dangling, "it is a link or a file"),
        (lambda folder, _: folder.touch(), "it is a link or a file"),
        (open_to_others, "others can write to it"),
        (within_a_folder_for_all, "others can replace .*/folder"),
    ],
)
def test_a_folder_that_others_could_have_filled_is_refused(tmp_path, planted, why):
    planted(tmp_path / "folder", tmp_path)
    with pytest.raises(NotPrivateError, match=f"folder is not private: {why}"):
        make_private(tmp_path / "folder")
    assert not (tmp_path / "nowhere").exists()


@pytest.mark.parametrize("place", ["", "link", "link/within"])
def test_what_someone_else_put_into_a_folder_for_all_is_refused(tmp_path, monkeypatch, place):
    """As another user sees it: what is ours belongs to someone else then."""
    everyones = tmp_path / "everyones"
    everyones.mkdir()
    everyones.chmod(0o1777)
    (tmp_path / "target").mkdir(mode=0o700)
    (everyones / "link").symlink_to(tmp_path / "target")
    (tmp_path / "target" / "within").mkdir(mode=0o700)
    folder = everyones / (place or "mine")
    make_private(everyones / "mine")
    mine = os.getuid()
    monkeypatch.setattr(os, "getuid", lambda: mine + 1)
    with pytest.raises(NotPrivateError):
        make_private(folder)


def test_nothing_is_removed_but_ones_own_files(tmp_path):
    folder, precious = tmp_path / "folder", tmp_path / "precious"
    make_private(folder)
    precious.mkdir(mode=0o700)
    for path in (precious / "1.npz", folder / "1.npz", folder / "notes.txt"):
        path.write_text("")
    (folder / "2.npz").symlink_to(precious / "1.npz")
    (folder / "3.npz").mkdir()
    remove_own(folder, MINE)
    assert {path.name for path in folder.iterdir()} == {"2.npz", "3.npz", "notes.txt"}
    (tmp_path / "link").symlink_to(precious)
    remove_own(tmp_path / "link", MINE)
    assert (precious / "1.npz").exists()
    remove_own(precious, MINE)
    assert not precious.exists()
