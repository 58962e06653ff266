"""propose and from_frame: what columns are taken as, by their names and cells, and which model that makes."""

import datetime as dt
import re

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import streambayes as sb
from streambayes.models import from_frame, propose

ROWS = 200
RNG = np.random.default_rng(0)
NORMALS = RNG.normal(size=ROWS)
DAYS = np.datetime64("2020-01-01") + np.arange(ROWS)
WORDS = [f"word {row}" for row in range(ROWS)]


def some(values, seed=0):
    """Rows of these values, in any order."""
    return np.random.default_rng(seed).choice(np.array(values), ROWS)


CLOCK_TIMES = np.array([100 * hour + minute for hour in range(5, 24) for minute in range(60)])
CLOCK_TIMES = np.random.default_rng(1).choice(CLOCK_TIMES, ROWS)
SKEWED_COUNTS = RNG.negative_binomial(0.4, 0.1, ROWS)
SHARES = 1.0 / np.arange(1, 201)
DEST = RNG.choice([f"D{k:03d}" for k in range(200)], ROWS, p=SHARES / SHARES.sum())
COLUMNS = [
    # name, cells, what it is taken as, why
    ("rownames", np.arange(ROWS) + 1, "left out", "row numbers"),
    ("x", np.arange(1000.0, 1000.0 + ROWS), "left out", "row numbers"),
    ("member", RNG.permutation(5 * ROWS)[:ROWS], "left out", "numbers that name things"),
    ("zipcode", RNG.integers(10_000, 99_999, ROWS), "left out", "numbers that name things"),
    ("flight", RNG.integers(1, 8500, ROWS), "left out", "numbers that name things"),
    ("flightNum", RNG.integers(1, 8500, ROWS), "left out", "numbers that name things"),
    ("customer_id", RNG.integers(1, 900, ROWS), "left out", "numbers that name things"),
    ("Subject", np.repeat(np.arange(308, 328), 10), "categorical", "20 whole numbers"),
    ("chick", np.tile(np.arange(1, 21), 10), "left out", "labels: 1 to 20, 10 rows each"),
    ("title", WORDS, "left out", "differs from row to row"),
    ("name", [WORDS[row // 2] for row in range(ROWS)], "left out", "100 values in 200 rows: too"),
    ("dep_time", CLOCK_TIMES, "left out", "clock times written as hhmm: 1430 is not 1,430"),
    ("departure", CLOCK_TIMES, "left out", "clock times written as hhmm"),
    ("sched_time", CLOCK_TIMES - CLOCK_TIMES % 100 % 15, "left out", "clock times written as hhmm"),
    ("pressure", 1000 + some(range(-10, 40)), "normal", "numbers"),
    ("cost", 100 * some(range(1, 25)), "normal", "numbers"),
    ("wind_dir", 10 * some(range(37)), "left out", "directions in degrees, on a circle"),
    ("WindDir", 10.0 * some(range(37)), "left out", "directions in degrees"),
    ("angle", np.round(15 * NORMALS**3, 2), "normal", "numbers"),
    ("heading", 90 * some(range(4)), "categorical", "4 whole numbers"),
    ("bearings", 10 * some(range(37)), "normal", "numbers"),
    ("region", np.full(ROWS, 3), "left out", "the same in all rows"),
    ("speed", np.where(np.arange(ROWS) < 5, NORMALS, np.nan), "left out", "missing in all but 5"),
    ("empty", np.full(ROWS, np.nan), "left out", "all of its cells are missing"),
    ("rate", np.where(np.arange(ROWS) < 5, np.inf, NORMALS), "left out", "infinite"),
    ("year", some([2011, 2012, 2013]), "left out", "years; the time is"),
    ("yr", some([81, 82, 83]), "left out", "years; the time is"),
    ("built_year", np.where(NORMALS > 2, np.nan, some([1990, 1991])), "left out", "years,"),
    ("LastYear", some([0, 1, 2, 3, 6]), "categorical", "5 whole numbers"),
    ("score", np.sort(RNG.integers(1, 12, ROWS)), "normal", "numbers"),
    ("month", some(range(1, 13)), "left out", "the month, part of a date"),
    ("Month", np.array(["Jan", "Feb"] * 100), "left out", "the month, part of a date"),
    ("Day", some(range(1, 32)), "left out", "the day, part of a date"),
    ("hour", some(range(24)), "left out", "the hour, part of a date"),
    ("minute", some(range(60)), "left out", "the minute, part of a date"),
    ("WorkDay", some([0, 1]), "bernoulli", "0 or 1"),
    ("issue_month", np.array(["2007-06", "2007-07"] * 100), "left out", "dates, but not as"),
    ("sold", np.array(["31/01/2007", "01/02/2007"] * 100), "left out", "dates, but not as"),
    ("birth_date", some(DAYS), "left out", "dates; the time is"),
    ("date", some([20130131, 20130201, 20140730]), "left out", "days as numbers"),
    ("date", some([2000.0, 2000.083, 2001.5]), "left out", "decimal years"),
    ("air_time", NORMALS[::-1] * 20 + 100, "normal", "numbers"),
    ("TotalTime", np.round(NORMALS * 20 + 100), "normal", "numbers"),
    ("Time", some([0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 21]), "normal", "numbers"),
    ("celsius", np.round(5 / 9 * (NORMALS - 32), 6), "left out", "'x0' in other units"),
    ("price", np.exp(NORMALS), "normal", "skewed: a log transform is offered"),
    ("temp", np.round(60 + 8 * NORMALS), "normal", "numbers"),
    ("delay", np.round(40 * np.abs(NORMALS)) - 20, "normal", "numbers"),
    ("no", NORMALS[::-1], "normal", "numbers"),
    ("visits", RNG.poisson(2.0, ROWS), "poisson", "counts, mean 2.04 and variance 1.6"),
    ("num_calls", RNG.poisson(40.0, ROWS), "poisson", "counts"),
    ("trips", SKEWED_COUNTS, "normal", "overdispersed, so not Poisson"),
    ("cyl", some([4, 6, 8]), "categorical", "3 whole numbers"),
    ("rating", some([1, 2, 3, 4, 5]), "categorical", "5 whole numbers"),
    ("am", some([0.0, 1.0]), "bernoulli", "0 or 1"),
    ("is_new", some([True, False]), "bernoulli", "true or false"),
    ("dose", some([0.5, 1.0, 2.0]), "left out", "3 different numbers, which are not whole"),
    ("sex", some(["f", "m"]), "categorical", "2 values"),
    ("mixed", np.array([1.0, "?"] * 100, object), "left out", "numbers and text, such as '?'"),
    ("dest", DEST, "categorical", "the 19 most frequent, and others"),
    ("when", np.array([dt.time(3)] * ROWS), "left out", "neither numbers nor text"),
]


@pytest.mark.parametrize(
    ("name", "cells", "kind", "why"), COLUMNS, ids=[each[0] for each in COLUMNS]
)
def test_what_a_column_is_taken_as(name, cells, kind, why):
    proposal = propose({"x0": NORMALS, "the day": DAYS, name: cells})
    found = proposal.columns[-1]
    assert (found.name, found.kind) == (name, kind)
    assert why in found.why
    assert proposal.time == "the day"
    assert (name in {column.name for column in proposal.model.columns}) == (
        kind not in ("left out", "time")
    )


@pytest.mark.parametrize(
    ("columns", "time"),
    [
        ({"year": np.repeat([2001, 2002], 100)}, "year"),
        ({"firm": ["a", "b"] * 100, "year": np.tile(np.repeat([71, 72, 73, 74], 25), 2)}, "year"),
        ({"time": 1949 + np.arange(ROWS) / 12}, "time"),
        ({"t": 1_700_000_000 + 60 * np.arange(ROWS)}, "t"),
        ({"Month": np.repeat([5, 6, 7, 8], 50), "Day": np.tile(np.arange(1, 51), 4)}, "Month"),
        ({"": DAYS.astype(str)}, ""),
        (
            {
                "dates": [
                    dt.datetime(2020, 1, 1, tzinfo=dt.UTC) + dt.timedelta(hours=h)
                    for h in range(ROWS)
                ]
            },
            "dates",
        ),
        (
            {"year": np.full(ROWS, 2020), "born": some(DAYS), "time_hour": DAYS.astype(str)},
            "time_hour",
        ),
        ({"start": DAYS, "end_time": DAYS + 1}, "end_time"),
        (
            {
                "date": np.array([*DAYS[:-1], np.datetime64("NaT")]),
                "year": np.repeat([2001, 2002], 100),
            },
            "year",
        ),
        ({"made": np.where(NORMALS > 1, np.nan, 1990 + np.round(NORMALS))}, None),
        ({"air_time": np.sort(NORMALS)}, None),
        ({"birth_year": np.repeat([1990, 1991], 100), "dob": WORDS}, None),
    ],
    ids=lambda value: value if isinstance(value, str) else None,
)
def test_which_column_is_the_time(columns, time):
    assert propose({**columns, "y": NORMALS}).time == time


def test_an_index_of_dates_is_the_time():
    frame = pd.DataFrame({"y": NORMALS}, index=pd.DatetimeIndex(DAYS, tz="UTC"))
    assert propose(frame).time == "index"
    assert propose(frame.reset_index(drop=True)).time is None


def rows():
    return {
        "day": DAYS,
        "delay": NORMALS,
        "distance": np.exp(NORMALS),
        "visits": RNG.poisson(2.0, ROWS),
        "late": some([0, 1]),
        "origin": some(["a", "b"]),
        "month": some(range(1, 13)),
        "dest": DEST,
        "title": WORDS,
    }


@pytest.mark.parametrize("make", [dict, pd.DataFrame, pl.DataFrame, pa.table])
def test_all_kinds_of_tables(make):
    model = from_frame(make(rows()))
    kinds = {name: variable.distribution for variable in model.variables for name in variable.names}
    assert kinds == {
        "delay": "normal",
        "distance": "normal",
        "visits": "Poisson",
        "late": "Bernoulli",
        "origin": "categorical",
        "dest": "categorical",
    }
    assert model.categories_of("dest")[-1] == "other"


def test_numbers_alone_are_gaussian_and_others_are_asked_for():
    numbers = {"x": NORMALS, "y": np.exp(NORMALS)}
    assert from_frame(numbers) == sb.models.Gaussian(["x", "y"])
    mixture = propose(numbers, model="GaussianMixture").model
    assert mixture == sb.models.GaussianMixture(["x", "y"], 3)
    gaussian = propose(rows(), model="Gaussian")
    assert gaussian.model == sb.models.Gaussian(["delay", "distance"])
    assert "no column of a Gaussian" in str(gaussian)


def test_a_response_makes_a_regression_or_a_classifier():
    table = rows()
    linear = from_frame(table, response="delay", regressors="distance")
    assert linear == sb.models.LinearRegression("delay", ["distance"])
    all_that_fit = from_frame(table, response="delay")
    assert all_that_fit == sb.models.LinearRegression("delay", ["distance", "visits"])
    by_month = from_frame(table, response="delay", regressors=["month", "distance"])
    assert by_month.structure.owner["delay"].parents == ("month", "distance")
    assert by_month.categories_of("month") == tuple(range(1, 13))
    classes = from_frame(table, response="origin")
    assert isinstance(classes, sb.models.NaiveBayes)
    assert (classes.label, classes.normal, classes.poisson) == (
        "origin",
        ("delay", "distance"),
        ("visits",),
    )
    assert [name for name, _ in classes.categorical] == ["late", "dest"]
    assert from_frame(table, response="late", regressors="delay").classes == (0, 1)


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"regressors": "delay"}, "regressors need a response"),
        (
            {"response": "delai"},
            "there is no column 'delai' (did you mean 'delay'?); the table has",
        ),
        ({"response": "title"}, "column 'title' cannot be in a model: text that differs"),
        ({"response": "day"}, "column 'day' cannot be in a model: dates"),
        ({"response": "delay", "regressors": ["delay"]}, "is also among the regressors"),
        (
            {"response": "delay", "model": "Gaussian"},
            "a regression or a classifier, not a Gaussian",
        ),
        (
            {"response": "delay", "regressors": ["month", "dest", "origin", "late"]},
            "'month', 'dest', 'origin', 'late' make 960 regressions",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_a_sentence(settings, sentence):
    with pytest.raises(ValueError, match=re.escape(sentence)):
        propose(rows(), **settings)


def test_tables_without_a_column_to_learn():
    with pytest.raises(TypeError, match="names of columns must be text, got 0"):
        propose(pd.DataFrame([[1.0], [2.0]]))
    with pytest.raises(ValueError, match="there is no column that a model could learn"):
        propose({"title": WORDS})
    for empty in (pd.DataFrame({"a": [], "b": []}), pl.DataFrame({"a": []}), {"a": []}):
        with pytest.raises(ValueError, match="the frame has no rows"):
            from_frame(empty)
    with pytest.raises(ValueError, match="there is no column to predict 'delay' from"):
        propose({"delay": NORMALS, "title": WORDS}, response="delay")


def test_what_is_left_out_by_its_looks_is_taken_if_it_is_named():
    columns = {"delay": NORMALS, "dep_time": CLOCK_TIMES, "wind_dir": 10 * some(range(37))}
    model = from_frame(columns, response="delay", regressors=["dep_time", "wind_dir"])
    assert isinstance(model, sb.models.LinearRegression)
    assert model.regressors == ("dep_time", "wind_dir")


def test_a_proposal_prints_why():
    proposal = propose({"id": np.arange(ROWS), "y": NORMALS, "kind": some(["a", "b"])})
    assert str(proposal) == (
        "column  taken as     why\n"
        "id      left out     row numbers\n"
        "y       normal       numbers\n"
        "kind    categorical  2 values"
    )


def test_values_that_are_not_listed_are_learned_as_others():
    model = from_frame({"dest": DEST})
    learner = sb.StreamLearner(model, sb.SVB())
    policy = sb.SchemaPolicy(unseen_category="other")
    ended = sb.run(learner, sb.batches({"dest": DEST}, rows=ROWS), schema=policy, drift=False)
    share = np.mean([name not in model.categories_of("dest") for name in DEST])
    assert 0.2 < share < 0.5
    assert ended.state.summary()["probability of dest=other"].mean == pytest.approx(share, abs=0.05)
    assert ended.records[0].remarks == ()
    assert propose({"kind": some(["a", "b"])}, is_whole=False).model.categories_of("kind") == (
        "a",
        "b",
        "other",
    )
