"""Columns that are made of others, against pandas: of tables and of files."""

import re

import numpy as np
import pandas as pd
import pytest

import streambayes as sb

STEPS = {"difference": ["price"], "ratio": "price"}


@pytest.fixture(scope="module")
def frame():
    """With gaps, and rows of a day out of order."""
    rng = np.random.default_rng(0)
    price = np.exp(np.cumsum(rng.normal(0.0, 0.1, 90)))
    price[[7, 20, 21]] = np.nan
    table = pd.DataFrame(
        {"when": pd.date_range("2023-12-28 01:30", periods=90, freq="7h"), "price": price}
    )
    order = np.arange(90)
    order[[41, 42]] = order[[42, 41]]
    assert table["when"][41].date() == table["when"][42].date()
    return table.iloc[order].reset_index(drop=True)


@pytest.fixture(scope="module")
def expected(frame):
    """In the order of the table."""
    price, when = frame.sort_values("when")["price"], frame["when"].dt
    return {
        "price change": price.diff().sort_index(),
        "price ratio": (price / price.shift()).sort_index(),
        "month": when.strftime("%b"),
        "weekday": when.strftime("%a"),
        "hour": when.hour,
    }


@pytest.mark.parametrize("cut", [{"every": "1d"}, {"rows": 90}], ids=str)
@pytest.mark.parametrize("kind", ["table", "files"])
def test_steps_and_calendar_are_those_of_pandas(frame, expected, kind, cut, tmp_path):
    data = frame if "every" in cut else frame.sort_values("when")
    wanted = {name: values[data.index] for name, values in expected.items()}
    calendar = ["month", "weekday", "hour"]
    if kind == "files":
        data.to_csv(tmp_path / "rows.csv", index=False)
        data = str(tmp_path / "rows.csv")
    batches = list(sb.batches(data, **cut, time="when", **STEPS, calendar=calendar))
    for name, values in wanted.items():
        found = np.concatenate([batch.columns[name] for batch in batches])
        np.testing.assert_array_equal(found, values.to_numpy(), strict=False)
    assert "price" in batches[0].columns


def test_steps_go_on_from_every_batch(frame, tmp_path):
    """Over the ends of batches, a gap at an end too, and from the place of each, whatever it is."""
    frame.sort_values("when").to_csv(tmp_path / "rows.csv", index=False)
    batches = sb.batches(
        str(tmp_path / "rows.csv"), rows=7, time="when", columns=["price"], **STEPS
    )
    whole = list(batches)
    assert any(np.isnan(batch.columns["price"][-1]) for batch in whole)
    for number, batch in enumerate(whole):
        rest = list(batches.after(batch.offset))
        assert len(rest) == len(whole) - number - 1
        for mine, theirs in zip(rest, whole[number + 1 :], strict=True):
            assert mine.offset == theirs.offset
            for name in ("price change", "price ratio"):
                np.testing.assert_array_equal(mine.columns[name], theirs.columns[name])


def test_nothing_is_said_of_what_is_not_asked_for(frame, tmp_path):
    """Checkpoints of runs without such columns go on."""
    frame.to_csv(tmp_path / "rows.csv", index=False)
    batches = sb.batches(str(tmp_path / "rows.csv"), rows=50)
    assert batches.definition.keys() == {"source", "columns", "rows", "time"}
    assert next(iter(batches)).offset.keys() == {"source", "cut"}


def test_a_lost_column_has_no_steps(tmp_path):
    (tmp_path / "a.csv").write_text("x,y\n1,1\n2,3\n")
    (tmp_path / "b.csv").write_text("y\n4\n7\n")
    (tmp_path / "c.csv").write_text("x,y\n4,1\n6,1\n")
    batches = list(sb.batches(str(tmp_path / "*.csv"), rows=3, difference="x"))
    assert batches[0].absent["x change"].tolist() == [False, False, True]
    np.testing.assert_array_equal(batches[0].columns["x change"], [np.nan, 1.0, np.nan])
    np.testing.assert_array_equal(batches[1].columns["x change"], [np.nan, np.nan, 2.0])


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        ({"calendar": "month"}, "calendar needs the name of the time column, time=..."),
        ({"time": "t", "calendar": "day"}, "calendar must be some of 'month', 'weekday', 'hour'"),
        ({"time": "t", "calendar": "month"}, "needs dates or ISO text, and column 't' is numeric"),
        ({"difference": "z"}, "there is no column 'z'; the table has"),
        ({"difference": "x"}, "the rows have a column 'x change' already"),
        ({"ratio": "t"}, "column 't', row 0: a ratio needs numbers above 0, got 0"),
        ({"ratio": "g"}, "column 'g', row 0: expected a finite number, got 'a'"),
    ],
)
def test_what_cannot_be_made_is_refused(given, sentence):
    table = {"t": [0.0, 1.0], "x": [1.0, 2.0], "x change": [0.0, 1.0], "g": ["a", "b"]}
    with pytest.raises(ValueError, match=re.escape(sentence)):
        list(sb.batches(table, rows=2, **given))
