"""Batches of tables in memory."""

import datetime as dt

import numpy as np
import pandas as pd
import polars as pl
import pytest

import streambayes as sb


def frame(num_rows=100, freq="7h"):
    rng = np.random.default_rng(0)
    return pd.DataFrame(
        {
            "when": pd.date_range("2023-11-28 05:00", periods=num_rows, freq=freq),
            "site": np.resize(["b", "a", "c"], num_rows),
            "x": rng.normal(size=num_rows),
        }
    )


def content(batches):
    return [(batch.label, batch.time, batch.columns["x"].tolist()) for batch in batches]


def test_by_rows():
    cut = sb.batches({"x": np.arange(10)}, rows=4)
    assert len(cut) == 3
    assert [batch.columns["x"].tolist() for batch in cut] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [len(batch.columns["x"]) for batch in cut] == [4, 4, 2]  # a second time


def test_by_column_in_order_of_appearance():
    cut = list(sb.batches(frame(), by="site"))
    assert [batch.label for batch in cut] == ["b", "a", "c"]
    expected = frame().query("site == 'a'")["x"].to_numpy()
    np.testing.assert_array_equal(cut[1].columns["x"], expected)


@pytest.mark.parametrize(
    ("every", "freq"),
    [
        ("1mo", "MS"),
        ("1d", "D"),
        ("2d", "2D"),
        ("12h", "12h"),
        ("1w", "W-MON"),
        ("1q", "QS"),
        ("1y", "YS"),
        ("90m", "90min"),
    ],
)
def test_by_period_agrees_with_pandas(every, freq):
    data = frame()
    closed = {"closed": "left", "label": "left"} if every == "1w" else {}
    origin = {"origin": "epoch"} if every in ("2d", "12h", "90m", "1d") else {}
    groups = data.set_index("when").resample(freq, **closed, **origin)["x"]
    expected = [(start, values.to_numpy()) for start, values in groups if len(values)]
    cut = list(sb.batches(data, every=every, time="when"))
    assert len(cut) == len(expected)
    for batch, (start, values) in zip(cut, expected, strict=True):
        np.testing.assert_array_equal(batch.columns["x"], values)
        assert batch.time == start.timestamp()
        assert start.isoformat(sep="T").startswith(batch.label)


@pytest.mark.parametrize(
    ("every", "text"),
    [
        (pd.Timedelta("1D"), "1d"),
        (dt.timedelta(minutes=90), "90m"),
        (np.timedelta64(1, "W"), "7d"),
        (np.timedelta64(7_200_000_000_000, "ns"), "2h"),
    ],
)
def test_a_timedelta_is_a_period(every, text):
    found = content(sb.batches(frame(60), every=every, time="when"))
    assert found == content(sb.batches(frame(60), every=text, time="when"))


def test_any_class_of_number_is_a_period():
    data = {"t": np.arange(10.0)}
    for every in (5, np.int64(5), np.float32(5.0)):
        assert len(sb.batches(data, every=every, time="t")) == 2


def test_kinds_of_time():
    data = frame(30)
    expected = [batch.columns["x"].tolist() for batch in sb.batches(data, every="1d", time="when")]
    stamps = data["when"]
    others = [
        pl.from_pandas(data),
        {"when": stamps.to_numpy(), "x": data["x"].to_numpy()},
        {"when": [stamp.to_pydatetime() for stamp in stamps], "x": data["x"]},
        {"when": [stamp.isoformat() for stamp in stamps], "x": data["x"]},
        {"when": [s.to_pydatetime().replace(tzinfo=dt.UTC) for s in stamps], "x": data["x"]},
        data.assign(when=stamps.dt.tz_localize("UTC").dt.tz_convert("Asia/Tokyo")),
    ]
    for other in others:
        found = [
            batch.columns["x"].tolist() for batch in sb.batches(other, every="1d", time="when")
        ]
        assert found == expected


def test_an_index_of_times():
    data = frame(60).set_index("when")
    expected = content(sb.batches(frame(60), every="1w", time="when"))
    unnamed = data.rename_axis(None)
    for indexed, time in ((data, "when"), (data, "index"), (unnamed, "index")):
        assert content(sb.batches(indexed, every="1w", time=time)) == expected
    utc = data.tz_localize("UTC").tz_convert("Asia/Tokyo")
    assert content(sb.batches(utc, every="1w", time="index")) == expected
    years = pd.Series(np.arange(4.0), pd.period_range("2020", periods=4, freq="Y")).to_frame("x")
    cut = sb.batches(years, every="2y", time="index")
    assert [batch.label for batch in cut] == ["2020", "2022"]
    named = frame(60).assign(index=np.arange(60.0)).set_index("when")
    assert len(sb.batches(named, every=20.0, time="index")) == 3  # the column
    with pytest.raises(ValueError, match="time='index': the frame's index holds row numbers, not"):
        sb.batches(frame(), every="1d", time="index")
    with pytest.raises(ValueError, match="time='index': the frame's index holds several columns"):
        sb.batches(frame().set_index(["when", "site"]), every="1d", time="index")
    with pytest.raises(ValueError, match="column 'site', row 0: expected a date or ISO text"):
        sb.batches(frame().set_index("site"), every="1d", time="site")
    polars = pl.from_pandas(frame())
    with pytest.raises(ValueError, match="time='index': polars frames have no index; name the"):
        sb.batches(polars, every="1d", time="index")
    with pytest.raises(ValueError, match="time='index': Arrow tables have no index; name the"):
        sb.batches(polars.to_arrow(), every="1d", time="index")


def test_numeric_time_and_unsorted_rows():
    data = {"t": np.array([12.0, 3.0, 14.9, 7.5, 0.1]), "x": np.arange(5)}
    cut = list(sb.batches(data, every=5.0, time="t"))
    assert [batch.columns["x"].tolist() for batch in cut] == [[1, 4], [3], [0, 2]]
    assert [batch.time for batch in cut] == [0.0, 5.0, 10.0]


def test_rows_with_time_end_at_their_last_row():
    cut = list(sb.batches(frame(10), rows=4, time="when"))
    assert cut[0].time == frame(10)["when"][3].timestamp()


def test_arrays_with_names():
    cut = list(sb.batches(np.arange(12).reshape(6, 2), rows=4, columns=["x", "y"]))
    assert cut[1].columns["y"].tolist() == [9, 11]


def test_a_run_over_months():
    run = sb.run(
        sb.StreamLearner(sb.models.Gaussian("x"), sb.HPP()),
        sb.batches(frame(300), every="1mo", time="when"),
    )
    assert [record.label for record in run.records] == ["2023-11", "2023-12", "2024-01", "2024-02"]
    elapsed = np.diff([record.time for record in run.records])
    np.testing.assert_array_equal(elapsed, np.array([30, 31, 31]) * 86400.0)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({}, "give one of rows, every and by"),
        ({"rows": 3, "by": "site"}, "give one of rows, every and by"),
        ({"rows": 0}, "rows must be a whole number of at least 1, got 0"),
        ({"every": "1mo"}, "every needs the name of the time column"),
        (
            {"every": "1mo", "time": "then"},
            r"no column 'then' \(did you mean 'when'\?\); the table has",
        ),
        ({"by": "place"}, "there is no column 'place'"),
        (
            {"every": "1 month", "time": "when"},
            "every must be a period such as '1d' or '1mo', got '1 month'",
        ),
        ({"every": "0d", "time": "when"}, "every must be a period"),
        ({"every": 3.0, "time": "when"}, "got 3.0; units are s, m .minutes., h, d, w, mo"),
        ({"every": "1d", "time": "x"}, "column 'x' is numeric, so every must be a positive number"),
        ({"every": -1.0, "time": "x"}, "for numeric times, a positive number, got -1.0"),
        (
            {"every": [1], "time": "when"},
            r"every must be a period such as '1d', a timedelta .* \[1\]",
        ),
        ({"every": pd.Timedelta("1ms"), "time": "when"}, "a timedelta of whole seconds or"),
        ({"every": np.timedelta64(1, "M"), "time": "when"}, "a timedelta of whole seconds or"),
        ({"every": np.timedelta64("NaT"), "time": "when"}, "a timedelta of whole seconds or"),
        ({"every": dt.timedelta(days=1), "time": "x"}, "column 'x' is numeric, so every must"),
        (
            {"rows": 3, "columns": ["When"]},
            r"column 'When' \(did you mean 'when'\?\); the table has",
        ),
        ({"rows": 3, "columns": "aa"}, "there is no column 'aa'; the table has"),
        (
            {"every": "1d", "time": "site"},
            "column 'site', row 0: expected a date or ISO text, got 'b'",
        ),
    ],
)
def test_bad_cuts_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        sb.batches(frame(), **arguments)


def test_a_missing_time_is_named():
    data = frame(5)
    data.loc[3, "when"] = pd.NaT
    with pytest.raises(ValueError, match="column 'when', row 3: the time is missing"):
        sb.batches(data, every="1d", time="when")


def test_an_array_needs_names():
    with pytest.raises(ValueError, match="an array needs the names of its columns"):
        sb.batches(np.zeros((3, 2)), rows=1)


def test_columns_of_different_length_are_refused():
    with pytest.raises(ValueError, match="columns must have the same length"):
        sb.batches({"x": [1, 2], "y": [1]}, rows=1)
    with pytest.raises(ValueError, match="the table has no columns"):
        sb.batches({}, rows=1)


def test_rows_with_time_are_taken_in_its_order():
    cut = list(sb.batches({"t": [1.0, 3.0, 2.0], "x": [0, 1, 2]}, rows=2, time="t"))
    assert [batch.columns["x"].tolist() for batch in cut] == [[0, 2], [1]]
    assert [batch.time for batch in cut] == [2.0, 3.0]


def test_a_bad_date_is_shown():
    with pytest.raises(ValueError, match="2024-13-01"):
        sb.batches({"t": ["2024-12-01", "2024-13-01"]}, every="1mo", time="t")


@pytest.mark.parametrize("key", [None, np.nan])
def test_a_missing_key_is_named(key):
    with pytest.raises(ValueError, match="column 'g', row 1: the value is missing"):
        sb.batches({"g": np.array(["a", key], dtype=object)}, by="g")


def test_keys_of_different_kinds_stay_apart():
    cut = sb.batches({"g": np.array([1, "1", 1], dtype=object), "x": np.arange(3)}, by="g")
    assert [batch.columns["x"].tolist() for batch in cut] == [[0, 2], [1]]


def test_keys_that_overlap_in_time_are_refused():
    with pytest.raises(ValueError, match="batches by 'g' overlap"):
        sb.batches({"g": [1, 2, 1], "t": [0.0, 5.0, 9.0]}, by="g", time="t")


def test_numeric_periods_are_not_one_off():
    cut = sb.batches({"t": np.array([0, 0.1, 0.2, 0.3, 0.6, 0.7])}, every=0.1, time="t")
    assert [len(batch.columns["t"]) for batch in cut] == [1] * 6


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ({"every": "00d"}, "a period"),
        ({"every": "1d", "rows": 2}, "one of"),
        ({"rows": 1.5}, "whole number"),
    ],
)
def test_odd_cuts_are_refused(arguments, sentence):
    with pytest.raises(ValueError, match=sentence):
        sb.batches(frame(), time="when", **arguments)
