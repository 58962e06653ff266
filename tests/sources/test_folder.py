"""A folder that files keep arriving in."""

import os
import threading
import time

import numpy as np
import pytest

import streambayes as sb


def put(folder, name, numbers):
    """Move a complete file into the folder."""
    folder.mkdir(exist_ok=True)
    hidden = folder / f".{name}"
    hidden.write_text("x\n" + "".join(f"{number}\n" for number in numbers))
    hidden.rename(folder / name)


def follow(folder, **options):
    source = sb.sources.Folder(folder, settle=0.0, poll=0.05, end="_END", **options)
    return sb.batches(source, rows=4)


def numbers(batches):
    return [batch.columns["x"].tolist() for batch in batches]


def test_files_that_arrive_are_read_in_order(tmp_path):
    folder = tmp_path / "arriving"

    def deliver():
        for number in range(5):
            time.sleep(0.1)
            put(folder, f"part-{number}.csv", range(3 * number, 3 * number + 3))
        (folder / "notes.txt").write_text("no rows")
        (folder / "_END").touch()

    courier = threading.Thread(target=deliver)
    courier.start()
    found = numbers(follow(folder))
    courier.join()
    assert found == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9, 10, 11], [12, 13, 14]]


def test_it_goes_on_from_any_batch(tmp_path):
    for number in range(4):
        put(tmp_path, f"{number}.csv", range(3 * number, 3 * number + 3))
    (tmp_path / "_END").touch()
    batches = follow(tmp_path)
    offsets = [batch.offset for batch in batches]
    whole = numbers(batches)
    for number, offset in enumerate(offsets):
        assert numbers(batches.after(offset)) == whole[number + 1 :]
    (tmp_path / "_END").unlink()
    put(tmp_path, "4.csv", [100])
    (tmp_path / "_END").touch()
    assert numbers(batches.after(offsets[-1])) == [[100]]
    (tmp_path / "1.csv").unlink()
    with pytest.raises(
        FileNotFoundError, match=r"the run stopped in .*1.csv after 1 rows; it is gone"
    ):
        next(batches.after(offsets[0]))


def test_a_file_that_is_being_written_waits_and_those_after_it(tmp_path):
    put(tmp_path, "0.csv", [0, 1])
    put(tmp_path, "1.csv", [2, 3])
    source = sb.sources.Folder(tmp_path, settle=60.0, poll=0.01)
    chunks = source.read(None, None)
    assert [next(chunks) for _ in range(3)] == [None] * 3
    chunks.close()
    batches = sb.batches(source, rows=1)
    threading.Timer(0.3, batches.stop, ["a timer"]).start()
    assert list(batches) == []
    assert batches.stopped == "a timer"


def test_a_file_with_an_earlier_name_is_reported(tmp_path):
    put(tmp_path, "5.csv", [5, 6, 7, 8])
    batches = iter(follow(tmp_path))
    assert next(batches).columns["x"].tolist() == [5, 6, 7, 8]
    put(tmp_path, "4.csv", [4])
    (tmp_path / "_END").touch()
    with pytest.warns(UserWarning, match=r"4.csv came after a file with a later name was read"):
        assert list(batches) == []


def test_a_file_with_an_earlier_name_is_reported_when_a_run_goes_on(tmp_path):
    put(tmp_path, "5.csv", [5, 6, 7, 8, 9])
    (tmp_path / "_END").touch()
    offset = next(iter(follow(tmp_path))).offset
    put(tmp_path, "4.csv", [4])
    with pytest.warns(
        UserWarning, match=r"1 of 4.csv to 5.csv came after a file with a later name"
    ):
        assert numbers(follow(tmp_path).after(offset)) == [[9]]


def test_what_is_added_to_a_file_after_it_was_read_is_read_too(tmp_path):
    put(tmp_path, "5.csv", [5, 6, 7, 8])
    batches = iter(follow(tmp_path))
    next(batches)
    with (tmp_path / "5.csv").open("a") as file:
        file.write("9\n")
    put(tmp_path, "6.csv", [10])
    (tmp_path / "_END").touch()
    with pytest.warns(UserWarning, match=r"5.csv has changed after it was read; what was added is"):
        (batch,) = batches
    assert batch.columns["x"].tolist() == [9, 10]
    assert numbers(follow(tmp_path).after(batch.offset)) == []


def test_a_line_that_was_read_before_it_was_complete_is_an_error(tmp_path):
    put(tmp_path, "5.csv", [5, 6, 7])
    with (tmp_path / "5.csv").open("a") as file:
        file.write("8")
    batches = iter(follow(tmp_path))
    next(batches)
    with (tmp_path / "5.csv").open("a") as file:
        file.write("9\n")
    with pytest.raises(ValueError, match=r"5.csv was read while row 3 was being written"):
        next(batches)


@pytest.mark.parametrize("ahead", [5.0, -3600.0])
def test_a_file_that_still_grows_on_a_server_with_another_clock(tmp_path, ahead):
    path = tmp_path / "rows.csv"
    path.write_text("x\n")

    def write():
        for part in range(10):
            with path.open("a") as file:
                file.write("".join(f"{100 * part + row}\n" for row in range(100)))
            moment = time.time() + ahead
            os.utime(path, (moment, moment))
            time.sleep(0.1)
        (tmp_path / "_END").touch()

    writer = threading.Thread(target=write)
    writer.start()
    source = sb.sources.Folder(tmp_path, settle=2.0, poll=0.05, end="_END")
    found = numbers(sb.batches(source, rows=2000))
    writer.join()
    assert found == [list(range(1000))]


def test_what_is_no_file_is_left_out(tmp_path):
    put(tmp_path, "1.csv", [1])
    (tmp_path / "0.csv").mkdir()
    (tmp_path / "2.csv").symlink_to(tmp_path / "nowhere.csv")
    future = time.time() + 1000
    os.utime(tmp_path / "1.csv", (future, future))
    (tmp_path / "_END").touch()
    assert numbers(follow(tmp_path)) == [[1]]


def test_pattern_types_and_what_is_refused(tmp_path):
    put(tmp_path, "a-1.csv", [1])
    put(tmp_path, "b-1.csv", [2])
    (tmp_path / "_END").touch()
    assert numbers(follow(tmp_path, pattern="b-*", types={"x": "text"})) == [["2"]]
    with pytest.raises(ValueError, match=r"is a file; give its name to sb.batches"):
        sb.sources.Folder(tmp_path / "a-1.csv")
    with pytest.raises(ValueError, match="poll must be a positive number of seconds, got 0"):
        sb.sources.Folder(tmp_path, poll=0)
    with pytest.raises(
        ValueError, match="settle must be a number of seconds of at least 0, got nan"
    ):
        sb.sources.Folder(tmp_path, settle=np.nan)
    with pytest.raises(ValueError, match="column 'x' must be 'number' or 'text', got 'int'"):
        sb.sources.Folder(tmp_path, types={"x": "int"})
