"""Tables and files are cut alike, and no row of a file is lost, whatever the order of the rows."""

import datetime as dt
import json
from functools import partial

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from pyarrow import csv, parquet

import streambayes as sb
from streambayes.sources import _order

NUM_ROWS = 60
RNG = np.random.default_rng(0)
ORDERS = {"sorted": np.arange(NUM_ROWS), "shuffled": RNG.permutation(NUM_ROWS)}
SORTED = "rows of .* would come too late: column .* is not in order; all rows are sorted in memory"
HOURS = pd.date_range("2026-01-30 22:00", periods=NUM_ROWS, freq="9h")
KEYS = {
    "whole": np.arange(NUM_ROWS) // 7,
    "float": np.repeat([3.0, 0.5, 1e20, -2.0], 15),
    "text": np.repeat(["b", "a", "03"], 20),
    "flag": np.repeat([True, False], 30),
    "day": HOURS.floor("D"),
    "moment": HOURS.floor("36h"),
    "date": HOURS.date,
    "stamp": HOURS.to_numpy().astype("datetime64[ns]"),
}
CUTS = [
    *({"by": name} for name in KEYS),
    {"rows": 7},
    {"rows": 7, "time": "n"},
    {"rows": 7, "time": "stamp"},
    {"every": 7, "time": "n"},
    {"every": 2.5, "time": "n"},
    {"every": "1mo", "time": "stamp"},
    {"every": "1w", "time": "moment"},
    {"every": "2d", "time": "date"},
]


def table(order):
    columns = {"n": np.arange(NUM_ROWS), "x": np.arange(NUM_ROWS) / 4, **KEYS}
    return pd.DataFrame({name: np.asarray(values)[order] for name, values in columns.items()})


def content(batches):
    return [(batch.label, batch.time, batch.columns["x"].tolist()) for batch in batches]


def through_json(offset):
    return json.loads(json.dumps(offset, allow_nan=False))


@pytest.mark.parametrize("order", ORDERS)
@pytest.mark.parametrize("cut", CUTS, ids=str)
@pytest.mark.filterwarnings("ignore:.*all rows are sorted in memory:UserWarning")
def test_tables_and_files_are_cut_alike(cut, order, tmp_path):
    frame = table(ORDERS[order])
    expected = content(sb.batches(frame, **cut))
    for first in (0, 25):
        part = pa.Table.from_pandas(frame[first : first + (25 if first == 0 else NUM_ROWS)])
        parquet.write_table(part, tmp_path / f"{first:02}.parquet", row_group_size=9)
    files = sb.batches(tmp_path / "*.parquet", **cut)
    assert content(files) == expected
    if cut.get("by") not in ("flag", "text"):  # text, as "True" and "03" are in a CSV file
        csv.write_csv(pa.Table.from_pandas(frame), tmp_path / "rows.csv")
        assert [each[2] for each in content(sb.batches(tmp_path / "rows.csv", **cut))] == [
            each[2] for each in expected
        ]
    for number, batch in enumerate(files):
        assert batch.num_late == 0
        assert content(files.after(through_json(batch.offset))) == expected[number + 1 :]


def test_values_that_overlap_in_time_are_refused_alike(tmp_path):
    for order, times in (("sorted", 9), ("shuffled", 0)):
        frame = table(ORDERS[order])
        frame.to_parquet(tmp_path / "rows.parquet")
        for data in (frame, tmp_path / "rows.parquet"):
            batches = partial(sb.batches, data, by="whole", time="stamp")
            if times:
                assert len([batch.time for batch in batches()]) == times
                continue
            with pytest.raises(ValueError, match="batches by 'whole' overlap, so that time goes"):
                list(batches())


def test_labels_of_keys():
    def labels(values):
        return [batch.label for batch in sb.batches({"key": values, "x": values}, by="key")]

    assert labels([3.0, 0.5, 1e20]) == ["3", "0.5", "100000000000000000000"]
    assert labels([3, 4]) == ["3", "4"]
    assert labels([True, False]) == ["True", "False"]
    assert labels([dt.date(2026, 1, 2)]) == ["2026-01-02"]
    nanoseconds = np.array(["2026-01-02", "2026-01-02T05:00"], "datetime64[ns]")
    assert labels(nanoseconds) == ["2026-01-02", "2026-01-02T05:00:00"]


@pytest.mark.parametrize("missing", [None, np.nan, np.datetime64("NaT"), pd.NA])
def test_missing_keys_are_named_alike(missing, tmp_path):
    is_time = isinstance(missing, np.datetime64)
    known = np.datetime64("2026-01-02") if is_time else "a"
    frame = pd.DataFrame({"key": [known, missing], "x": [1.0, 2.0]})
    frame.to_parquet(tmp_path / "rows.parquet")
    for data in (frame, tmp_path / "rows.parquet"):
        for cut in ({"by": "key"}, {"every": "1d", "time": "key"}) if is_time else ({"by": "key"},):
            with pytest.raises(
                ValueError, match=r"column 'key', row 1: the (value|time) is missing"
            ):
                list(sb.batches(data, **cut))


@pytest.fixture
def shuffled(tmp_path):
    """Files in an order of their own, and their batches when they are cut by a period."""
    frame = table(ORDERS["shuffled"])
    for number in range(3):
        part = pa.Table.from_pandas(frame[20 * number : 20 * number + 20])
        csv.write_csv(part, tmp_path / f"{number}.csv")
    return tmp_path


def test_what_is_sorted_is_said(shuffled):
    files = sb.batches(shuffled / "*.csv", every=10, time="n")
    with pytest.warns(UserWarning, match=rf"\d+ of 60 {SORTED} first"):
        sizes = [len(batch.columns["x"]) for batch in files]
    assert sizes == [10] * 6
    assert [batch.time for batch in files] == [0, 10, 20, 30, 40, 50]  # once is enough
    files = sb.batches(shuffled / "*.csv", rows=10, time="n")
    assert files.time == 59
    with pytest.warns(UserWarning, match=SORTED):
        times = [batch.time for batch in files]
    assert times == [9, 19, 29, 39, 49, 59]


def test_rows_that_do_not_fit_into_memory_are_refused(shuffled, monkeypatch):
    monkeypatch.setattr(_order, "_free_memory", lambda: 2000.0)
    files = sb.batches(shuffled / "*.csv", every=10, time="n")
    with pytest.raises(
        ValueError, match=r"\d+ of 60 rows of 0.csv and 2 more would come too late, since "
    ):
        next(iter(files))
    within = sb.batches(shuffled / "*.csv", every=10, time="n", lateness=60)
    assert sum(len(batch.columns["x"]) for batch in within) == NUM_ROWS  # nothing to be sorted


@pytest.mark.filterwarnings("ignore:.*all rows are sorted in memory:UserWarning")
def test_files_that_change_between_two_runs(shuffled):
    def files():
        return sb.batches(shuffled / "*.csv", every=10, time="n")

    offsets = [through_json(batch.offset) for batch in files()]

    def add(name, rows):
        csv.write_csv(pa.table({"n": rows, "x": np.array(rows) / 4}), shuffled / name)

    add("3.csv", [60, 75, 71])  # later ones are read on
    assert [batch.time for batch in files().after(offsets[3])] == [40, 50, 60, 70]
    add("3.csv", [60, 12])
    with pytest.raises(
        ValueError, match="have come, gone or changed among the 40 that were learned"
    ):
        next(files().after(offsets[3]))
    assert next(files().after(offsets[0])).columns["n"].tolist().count(12) == 2
    add("3.csv", [60, 39])
    with pytest.raises(
        ValueError, match="1 rows belong to batches that are learned; the files have changed"
    ):
        list(files().after(offsets[3]))
    for name in ("0", "1", "2", "3"):
        (shuffled / f"{name}.csv").unlink()
    add("3.csv", list(range(50)))
    with pytest.raises(
        ValueError, match=r"the run sorted the rows of 3.csv, which are in order now"
    ):
        next(files().after(offsets[3]))
    plain = through_json(next(iter(files())).offset)
    add("4.csv", [5])
    with pytest.raises(
        ValueError, match="in their own order, and now 1 of them would come too late"
    ):
        next(files().after(plain))
