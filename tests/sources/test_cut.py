"""Rows that keep coming, cut into batches: the same cuts whatever the chunks, and from any place on."""

import datetime as dt
import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import streambayes as sb

pytestmark = pytest.mark.filterwarnings("ignore:.*came too late for their batch:UserWarning")


class Rows(sb.sources.Source):
    """A table as a source whose chunks end at given rows."""

    def __init__(self, columns, bounds=()):
        self._columns = columns
        self._bounds = bounds
        self.committed = []

    def read(self, start, columns):
        num_rows = len(next(iter(self._columns.values())))
        first = start or 0
        for last in [
            *(bound for bound in sorted(self._bounds) if first < bound < num_rows),
            num_rows,
        ]:
            wanted = {
                name: values[first:last]
                for name, values in self._columns.items()
                if columns is None or name in columns
            }
            yield sb.sources.Chunk(wanted, lambda taken, first=first: first + taken, "rows", first)
            yield None
            first = last

    def commit(self, offset):
        self.committed.append(offset)


def content(batches):
    return [
        (
            batch.label,
            batch.time,
            batch.num_late,
            {name: values.tolist() for name, values in batch.columns.items()},
        )
        for batch in batches
    ]


def through_json(offset):
    return json.loads(json.dumps(offset, allow_nan=False))


bounds = st.lists(st.integers(1, 30), max_size=6)
times = st.lists(st.integers(0, 40), min_size=1, max_size=30)
CUTS = [
    {"rows": 4},
    {"by": "kind"},
    {"every": 5, "time": "t"},
    {"every": 5, "time": "t", "lateness": 7},
    {"every": 0.5, "time": "t", "lateness": 0.25},
]


def table(moments):
    number = np.arange(len(moments))
    return {
        "t": np.array(moments),
        "number": number,
        "kind": np.array([["a", "b"][n // 3 % 2] for n in number], dtype=object),
        "gaps": np.where(number % 3 == 0, np.nan, number / 3),
        "when": np.datetime64("2026-01-01") + number.astype("timedelta64[h]"),
    }


@pytest.mark.parametrize("cut", CUTS, ids=str)
@given(moments=times, chunks=bounds, others=bounds)
def test_chunks_do_not_matter_and_every_cut_is_a_place_to_go_on_from(cut, moments, chunks, others):
    columns = table(moments)
    whole = list(sb.batches(Rows(columns), **cut))
    assert repr(content(sb.batches(Rows(columns, chunks), **cut))) == repr(content(whole))
    again = sb.batches(Rows(columns, others), **cut)
    for number, batch in enumerate(sb.batches(Rows(columns, chunks), **cut)):
        rest = again.after(through_json(batch.offset))
        assert repr(content(rest)) == repr(content(whole[number + 1 :]))


def by_hand(moments, every, lateness):
    """Batches of row numbers, and how many rows were late before each: row by row."""
    latest, over, late, held, found = -np.inf, -np.inf, 0, {}, []
    for row, moment in enumerate(moments):
        latest = max(latest, moment)
        period = moment // every
        now_over = (latest - lateness) // every
        for open_period in sorted(held):
            if open_period < now_over:
                found.append((open_period * every, held.pop(open_period), late))
                late = 0
        if period < over:
            late += 1
        else:
            held.setdefault(period, []).append(row)
        over = max(over, now_over)
    for open_period in sorted(held):
        found.append((open_period * every, held.pop(open_period), late))
        late = 0
    return found


@given(moments=times, chunks=bounds, every=st.integers(1, 9), lateness=st.integers(0, 12))
def test_periods_with_lateness_are_those_by_hand(moments, chunks, every, lateness):
    columns = table(moments)
    batches = sb.batches(Rows(columns, chunks), every=every, time="t", lateness=lateness)
    found = [(b.time, b.columns["number"].tolist(), b.num_late) for b in batches]
    assert found == by_hand(moments, every, lateness)


@given(moments=times, chunks=bounds)
def test_sorted_rows_are_cut_as_a_table_is(moments, chunks):
    columns = table(sorted(moments))
    for cut in ({"rows": 3}, {"rows": 3, "time": "t"}, {"every": 4, "time": "t"}):
        expected = repr(content(sb.batches(columns, **cut)))
        assert repr(content(sb.batches(Rows(columns, chunks), **cut))) == expected


def test_calendar_periods_of_text_and_dates():
    start = dt.datetime(2026, 1, 30, 22, tzinfo=dt.UTC)
    moments = [start + dt.timedelta(hours=5 * n) for n in range(200)]
    texts = np.array([moment.isoformat() for moment in moments], dtype=object)
    dates = np.array([moment.replace(tzinfo=None) for moment in moments], "datetime64[us]")
    for every, labels in (("1mo", ["2026-01", "2026-02", "2026-03"]), ("1w", None), ("6h", None)):
        expected = content(sb.batches({"when": texts}, every=every, time="when"))
        for values in (texts, dates):
            found = content(sb.batches(Rows({"when": values}, [50]), every=every, time="when"))
            assert [cut[:3] for cut in found] == [cut[:3] for cut in expected]
            assert labels is None or [cut[0] for cut in found] == labels


def test_late_rows_are_counted_and_reported(tmp_path):
    t = np.array([0, 1, 11, 2, 3, 12, 31, 5, 32.0])
    source = Rows({"t": t, "x": np.arange(9.0)})
    batches = sb.batches(source, every=10, time="t")
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    run = sb.run(learner, batches, record=tmp_path, progress=False)
    assert [record.num_rows for record in run.records] == [2, 2, 2]
    assert [record.num_late for record in run.records] == [0, 2, 1]
    assert [row["note"] for row in run.table()] == [None, "2 late rows", "1 late rows"]
    assert [record.num_late for record in sb.read_records(tmp_path)] == [0, 2, 1]


def test_rows_of_a_period_that_is_not_over_are_kept_in_the_offset():
    source = Rows({"t": np.array([0, 12, 3, 25.0]), "x": np.array([1.0, np.nan, 3.0, np.inf])})
    first = next(iter(sb.batches(source, every=10, time="t", lateness=10)))
    assert first.columns["x"].tolist() == [1.0, 3.0]
    held = through_json(first.offset)["cut"]["open"]
    assert held == [[10.0, [{"t": ["<f8", [12.0]], "x": ["<f8", [{"float": "nan"}]]}]]]
    source = Rows({"t": np.array([0, 12, 25.0]), "x": np.array([{}, {}, {}])})
    with pytest.raises(ValueError, match="column 'x' holds a dict, which cannot be kept"):
        next(iter(sb.batches(source, every=10, time="t", lateness=10)))


def test_columns_that_come_and_go():
    class Parts(sb.sources.Source):
        def read(self, start, columns):
            del start, columns
            tables = [{"x": [1.0, 2.0], "y": ["u", "v"]}, {"x": [3.0]}, {"x": [4], "z": [5]}]
            for number, part in enumerate(tables):
                arrays = {name: np.array(values) for name, values in part.items()}
                yield sb.sources.Chunk(arrays, lambda taken, n=number: [n, taken], "parts")

    (batch,) = sb.batches(Parts(), rows=10)
    assert batch.columns["x"].tolist() == [1.0, 2.0, 3.0, 4.0]
    assert batch.columns["y"].tolist()[:2] == ["u", "v"]
    assert batch.absent["y"].tolist() == [False, False, True, True]
    assert batch.absent["z"].tolist() == [True, True, True, False]
    assert "x" not in batch.absent
    learner = sb.StreamLearner(sb.models.Gaussian("z"))
    with pytest.raises(ValueError, match="column 'z', row 0: the column is lost"):
        learner.init(batch)


def test_stop_leaves_what_is_not_complete():
    batches = sb.batches(Rows({"x": np.arange(10.0)}, [3, 5]), rows=2)
    found = []
    for batch in batches:
        found.append(batch)
        if len(found) == 2:
            batches.stop("enough")
    assert (len(found), batches.stopped) == (2, "enough")
    rest = batches.after(found[-1].offset)
    assert [batch.columns["x"].tolist() for batch in rest] == [[4, 5], [6, 7], [8, 9]]
    assert batches.stopped is None
    rest = batches.after(None)
    batches.stop()  # before the first one is asked for
    assert list(rest) == []
    batches.stop()  # before it has begun
    assert list(batches) == []
    assert len(list(batches)) == 5


@pytest.mark.parametrize(
    "damage",
    [
        lambda offset: offset.pop("cut"),
        lambda offset: offset.update(source={"row": [1]}),
        lambda offset: offset["cut"].update(open=[7]),
        lambda offset: offset["cut"].update(latest={}),
    ],
)
def test_a_damaged_place_is_a_sentence(damage):
    columns = {"t": np.arange(10.0), "x": np.arange(10.0)}
    batches = sb.batches(Rows(columns), every=1, time="t", lateness=5)
    offset = through_json(next(iter(batches)).offset)
    damage(offset)
    with pytest.raises(ValueError, match=r"where the run stopped is damaged .* earlier checkpoint"):
        list(batches.after(offset))


def test_stop_leaves_periods_that_are_held():
    columns = {"t": np.arange(10.0), "x": np.arange(10.0)}
    batches = sb.batches(Rows(columns), every=1, time="t", lateness=5)
    found = []
    for batch in batches:
        found.append(batch)
        if len(found) == 6:  # the source has ended
            batches.stop()
    assert len(found) == 6
    rest = batches.after(through_json(found[-1].offset))
    assert [batch.columns["x"].tolist() for batch in rest] == [[6], [7], [8], [9]]


@pytest.mark.parametrize(
    ("cut", "sentence"),
    [
        ({"every": "1h", "time": "t"}, "column 't' is numeric, so every must be a positive number"),
        ({"every": 1.0, "time": "kind"}, "every must be a period such as '1d' or '1mo', got 1.0"),
        ({"every": 0, "time": "t"}, "a positive number, got 0"),
        ({"every": "1x", "time": "t"}, "every must be a period such as '1d' or '1mo', got '1x'"),
        ({"every": 1.0}, "every needs the name of the time column"),
        ({"every": 1.0, "time": "none"}, "there is no column 'none' to cut by; there are"),
        ({"rows": 2, "time": "none"}, "there is no column 'none' to cut by; there are"),
        ({"every": "9999999s", "time": "t"}, "every must be a period such as"),
        ({"every": True, "time": "t"}, "a positive number, got True"),
        ({"every": "1d", "time": "gaps"}, "column 'gaps', row 0: the time is missing"),
        ({"every": 1.0, "time": "t", "lateness": None}, "lateness must be a length of time"),
        ({"by": "gaps"}, "column 'gaps', row 0: the value is missing"),
        ({"rows": 2, "lateness": 3}, "lateness goes with every"),
        (
            {"every": 1.0, "time": "t", "lateness": "1mo"},
            "lateness must be a length of time such as",
        ),
        ({"every": 1.0, "time": "t", "lateness": -1}, "lateness must be a length of time such as"),
        ({"rows": 2, "time": "t"}, "column 't', row 1 of the batch: the time goes back"),
    ],
)
def test_what_is_refused(cut, sentence):
    with pytest.raises(ValueError, match=sentence):
        list(sb.batches(Rows(table([3, 1, 2])), **cut))
    with pytest.raises(ValueError, match="a table has no late rows"):
        sb.batches(table([1, 2]), every=1, time="t", lateness=1)


def test_errors_say_where_the_rows_are():
    columns = {"t": np.array([0.0, 1.0, np.nan]), "x": np.arange(3.0)}
    with pytest.raises(ValueError, match="column 't', row 0: the time is missing") as caught:
        list(sb.batches(Rows(columns, [2]), every=1, time="t"))
    assert caught.value.__notes__ == ["in rows, rows from 2 on"]


def test_a_slow_learner_slows_the_reading():
    read = []

    class Counted(Rows):
        def read(self, start, columns):
            for chunk in super().read(start, columns):
                if chunk is not None:
                    read.append(chunk.first_row)
                yield chunk

    batches = iter(sb.batches(Counted({"x": np.arange(100.0)}, range(10, 100, 10)), rows=25))
    assert read == []
    next(batches)
    assert read == [0, 10, 20]
    next(batches)
    assert read == [0, 10, 20, 30, 40]
