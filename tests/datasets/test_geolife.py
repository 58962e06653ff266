"""Geolife: small folders in the form of the download."""

import datetime as dt
import re

import numpy as np
import pytest

import streambayes as sb

HEADER = [
    "Geolife trajectory",
    "WGS 84",
    "Altitude is in Feet",
    "Reserved 3",
    "0,2,255,My Track,0,0,2,8421376",
    "0",
]
START = dt.datetime(2008, 10, 23, 23, 59, 0, tzinfo=dt.UTC)


def fix(number, start=START):
    """Line of the fix taken so many times ten seconds after the start."""
    moment = start + dt.timedelta(seconds=10 * number)
    days = (moment - dt.datetime(1899, 12, 30, tzinfo=dt.UTC)) / dt.timedelta(days=1)
    return f"{39.9 + number / 1000:.6f},{116.3 - number / 1000:.6f},0,492,{days:.10f},{moment:%Y-%m-%d,%H:%M:%S}"


def write(folder, user, name, lines, *, ending="\r\n", cut=0):
    path = folder / user / "Trajectory" / f"{name}.plt"
    path.parent.mkdir(parents=True, exist_ok=True)
    text = "".join(line + ending for line in lines)
    path.write_text(text[: len(text) - cut], newline="")
    return path


def one_file(tmp_path, fixes, **options):
    return write(tmp_path / "Data", "000", "20081023235900", HEADER + fixes, **options)


def complaint(folder, **options):
    with pytest.raises((ValueError, OSError)) as caught:
        sb.datasets.geolife(folder, **options)
    message = str(caught.value)
    assert message.startswith("geolife: ")
    assert "\n" not in message
    return message


def test_columns(tmp_path):
    one_file(tmp_path, [fix(number) for number in range(35)])
    data = sb.datasets.geolife(tmp_path)
    assert list(data) == ["time", "day", "hour", "latitude", "longitude", "trajectory"]
    moments = ["2008-10-23T23:59:00", "2008-10-24T00:00:40", "2008-10-24T00:02:20"]
    np.testing.assert_array_equal(data["time"][:3], np.array(moments, "M8[s]"))
    assert data["time"].dtype == "M8[s]"
    assert data["day"].tolist() == ["Thu", "Fri", "Fri", "Fri"]
    assert data["hour"].tolist() == [23, 0, 0, 0]
    np.testing.assert_array_equal(data["latitude"], [39.9, 39.91, 39.92, 39.93])
    np.testing.assert_array_equal(data["longitude"], [116.3, 116.29, 116.28, 116.27])
    assert data["trajectory"].tolist() == ["000/20081023235900"] * 4


@pytest.mark.parametrize(
    ("every", "kept"), [(1, range(21)), (10, [0, 10, 20]), (21, [0]), (99, [0])]
)
def test_every_keeps_the_first_fix_of_a_file_and_counts_on_from_it(tmp_path, every, kept):
    one_file(tmp_path, [fix(number) for number in range(21)])
    data = sb.datasets.geolife(tmp_path, every=every)
    np.testing.assert_allclose(data["latitude"], 39.9 + np.array(kept) / 1000, atol=1e-9)


def test_rows_of_all_files_are_in_order_of_time(tmp_path):
    data = tmp_path / "Data"
    later = START + dt.timedelta(seconds=45)
    write(data, "000", "a", HEADER + [fix(number, later) for number in range(7)])
    write(data, "017", "a", HEADER + [fix(number) for number in range(12)])
    write(data, "017", "b", HEADER)  # a trajectory without fixes
    found = sb.datasets.geolife(tmp_path, every=1)
    assert (np.diff(found["time"]).astype(int) >= 0).all()
    counts = dict(zip(*np.unique(found["trajectory"], return_counts=True), strict=True))
    assert counts == {"000/a": 7, "017/a": 12}
    assert found["trajectory"].tolist()[4:8] == ["017/a", "000/a", "017/a", "000/a"]
    first = found["latitude"][found["trajectory"] == "000/a"]
    np.testing.assert_allclose(first, 39.9 + np.arange(7) / 1000, atol=1e-9)


@pytest.mark.parametrize("below", ["", "Data", "Geolife Trajectories 1.3/Data"])
def test_the_folder_may_be_data_or_hold_it(tmp_path, below):
    write(tmp_path / below, "000", "a", [*HEADER, fix(0)])
    assert len(sb.datasets.geolife(tmp_path)["time"]) == 1
    assert len(sb.datasets.geolife(str(tmp_path))["time"]) == 1


@pytest.mark.parametrize("ending", ["\n", "\r\n"])
def test_line_endings_and_a_last_line_without_one(tmp_path, ending):
    one_file(tmp_path, [fix(0), fix(1)], ending=ending, cut=len(ending))
    assert len(sb.datasets.geolife(tmp_path, every=1)["time"]) == 2


def test_impossible_places_are_kept(tmp_path):
    one_file(tmp_path, [fix(0).replace("39.900000", "400.166667")])
    assert sb.datasets.geolife(tmp_path)["latitude"] == 400.166667


def test_batches_by_hour(tmp_path):
    one_file(tmp_path, [fix(number) for number in range(35)])
    data = sb.datasets.geolife(tmp_path, every=1)
    assert [batch.label for batch in sb.batches(data, by="hour")] == ["23", "0"]


def test_a_missing_folder(tmp_path):
    message = complaint(tmp_path / "nowhere")
    assert f"there is no folder {tmp_path / 'nowhere'}; download Geolife" in message


def test_a_folder_without_trajectories(tmp_path):
    (tmp_path / "000").mkdir()
    message = complaint(tmp_path)
    assert f"{tmp_path} has no files Data/<user>/Trajectory/*.plt; give the folder" in message


@pytest.mark.parametrize("cut", [3, 11, 20, 50])
def test_a_file_cut_in_the_middle_of_its_last_line(tmp_path, cut):
    """Even if that line is one of those left out."""
    path = one_file(tmp_path, [fix(number) for number in range(5)], cut=cut)
    message = complaint(tmp_path)
    assert f"{path} is cut in the middle of line 11, '39." in message
    assert message.endswith("unpack Geolife again")


def test_no_fixes_at_all(tmp_path):
    write(tmp_path, "000", "a", HEADER)
    assert "has fixes below its header; unpack Geolife again" in complaint(tmp_path)


@pytest.mark.parametrize("num_lines", [0, 4])
def test_a_file_cut_in_its_header(tmp_path, num_lines):
    path = write(tmp_path, "000", "a", HEADER[:num_lines])
    message = complaint(tmp_path)
    assert (
        f"{path} is cut: expected 6 header lines, then the fixes, got {num_lines} lines" in message
    )
    assert message.endswith("unpack Geolife again")


@pytest.mark.parametrize(
    "line",
    [
        "39.9,116.3,0,492,39744.99,2008-10-23",
        "39.9,116.3,0,492,39744.99,2008-10-23,23:59:00,1",
        "",
        "north,116.3,0,492,39744.99,2008-10-23,23:59:00",
        "39.9,,0,492,39744.99,2008-10-23,23:59:00",
        "39.9,nan,0,492,39744.99,2008-10-23,23:59:00",
        "39.9,116.3,0,492,39744.99,2008-13-23,23:59:00",
        "39.9,116.3,0,492,39744.99,2008-10-23,23:59",
        "39.9,116.3,0,492,39744.99,23/10/2008,23:59:00",
    ],
)
def test_a_line_that_cannot_be_read(tmp_path, line):
    fixes = [fix(number) for number in range(25)]
    fixes[10] = line
    path = one_file(tmp_path, fixes)
    message = complaint(tmp_path)
    assert (
        f"{path}, line 17: expected latitude, longitude, 0, altitude, days, date, time" in message
    )
    assert f"got {line!r}; mend the line" in message


def test_lines_that_make_up_for_each_other_are_found(tmp_path):
    """Seven fields on average, but not in each, and neither line is kept."""
    fixes = [fix(number) for number in range(5)]
    fixes[1], fixes[2] = fixes[1] + ",1", fixes[2].rpartition(",")[0]
    path = one_file(tmp_path, fixes)
    assert f"{path}, line 8: " in complaint(tmp_path)


@pytest.mark.parametrize("every", [0, -1, 2.0, None])
def test_every_must_be_a_whole_number(tmp_path, every):
    pattern = re.escape(f"every must be a whole number of at least 1, got {every!r}")
    assert re.search(pattern, complaint(tmp_path, every=every))
