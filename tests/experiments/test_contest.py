"""Contests: weighted means, spread over starts, intervals over resampled batches, files."""

import csv

import numpy as np
import pytest

import streambayes as sb
from streambayes.experiments._contest import Contest, Track, hold_contest, policies_of_table_1
from streambayes.experiments._report import read_authors, write_report
from streambayes.learning import Scores, StepRecord


def record(index, test_bound, num_test, rho=None):
    return StepRecord(
        index=index,
        label=f"month {index}",
        time=None,
        num_rows=2 * num_test,
        num_test=num_test,
        bound=-10.0,
        fall=0.0,
        rho=rho,
        omega=None,
        retained={},
        test_bound=test_bound,
        test_predictive=None,
        prequential=None,
        predictive_method=None,
        num_sweeps=1,
        num_rounds=1,
        outcome="converged",
        events=(),
        seconds=0.5,
    )


def made(differences, weights):
    """Two methods that differ by so much in each batch."""
    tracks = {}
    for name, apart in (("SVB", np.zeros(len(weights))), ("HPP", differences)):
        records = [
            record(index, -5.0 + value, weight)
            for index, (value, weight) in enumerate(zip(apart, weights, strict=True))
        ]
        mean = float(np.average(-5.0 + np.asarray(apart), weights=weights))
        tracks[name] = (Track(tuple(records), Scores(mean, None, None)),)
    return Contest(tracks, {})


def test_a_difference_is_weighted_by_rows():
    contest = made([1.0, -2.0, 0.5], [10, 20, 70])
    found = contest.difference("HPP", "SVB", "test_bound")
    assert found.mean == pytest.approx((10.0 - 40.0 + 35.0) / 100.0)
    assert found.lower < found.mean < found.upper
    assert contest.scores == ("test_bound",)


def test_the_interval_is_that_of_the_mean_of_batches():
    """With equal weights, many batches and the normal limit: 1.96 standard errors."""
    apart = np.random.default_rng(0).normal(0.3, 1.0, 400)
    found = made(apart, [10] * 400).difference("HPP", "SVB", "test_bound")
    error = apart.std() / 20.0
    assert found.lower == pytest.approx(apart.mean() - 1.96 * error, abs=0.15 * error)
    assert found.upper == pytest.approx(apart.mean() + 1.96 * error, abs=0.15 * error)


@pytest.mark.parametrize(
    ("apart", "verdict"),
    [([1.0, 2.0, 1.5], "better"), ([-1.0, -2.0, -1.5], "worse"), ([3.0, -2.0, -1.5], "tie")],
)
def test_what_is_a_tie(apart, verdict):
    assert made(apart, [5, 5, 5]).difference("HPP", "SVB", "test_bound").verdict == verdict


def test_leaders():
    assert made([1.0, 2.0, 1.5], [5, 5, 5]).leaders("test_bound") == ("HPP",)
    assert made([3.0, -2.0, 1.5], [5, 5, 5]).leaders("test_bound") == ("HPP", "SVB")
    assert made([-1.0, -2.0, -1.5], [5, 5, 5]).leaders("test_bound") == ("SVB",)


def test_what_starts_disagree_on_is_a_tie():
    better, worse = (made([apart] * 9, [5] * 9) for apart in (1.0, -0.5))
    together = {name: (*better.runs[name], *worse.runs[name]) for name in better.runs}
    found = Contest(together, {}).difference("HPP", "SVB", "test_bound")
    assert (found.mean, found.verdict) == (pytest.approx(0.25), "tie")
    assert (found.lower, found.upper) == (pytest.approx(-0.5), pytest.approx(1.0))


@pytest.fixture(scope="module")
def held():
    """A regression, for which PVB is refused, from two starts."""
    model = sb.models.LinearRegression("y", ["a"])
    stream = list(sb.datasets.make_drift(model, num_batches=4, num_rows=24, changes=[2]))
    policies = policies_of_table_1(stream, ["HPP", "PVB M=batch nu=0.1"])
    calls = []
    contest = hold_contest(
        model, stream, policies, starts=2, advance=lambda *told: calls.append(told)
    )
    return contest, calls


def test_every_method_from_every_start(held):
    contest, calls = held
    assert {name: len(tracks) for name, tracks in contest.runs.items()} == {"SVB": 2, "HPP": 2}
    assert list(contest.refused) == ["PVB M=batch nu=0.1"]
    assert "complete conditional" in contest.refused["PVB M=batch nu=0.1"]
    assert calls[0] == ("SVB, start 1 of 2", 0, 4)
    assert calls[-1][1:] == (4, 4)
    first, second = contest.runs["HPP"]
    assert first.scores != second.scores
    mean, spread = contest.mean("HPP", "test_bound")
    each = [first.scores.test_bound, second.scores.test_bound]
    assert (mean, spread) == pytest.approx((np.mean(each), np.std(each, ddof=1)))
    # methods share the split
    assert first.records[0].test_bound == pytest.approx(
        contest.runs["SVB"][0].records[0].test_bound
    )
    assert contest.largest_fall("HPP") < 1e-10


def test_files(held, tmp_path):
    contest, _ = held
    authors = {"SVB": [-1.0, -2.0], "HPP": [-0.5, -1.0]}
    report = write_report(contest, tmp_path / "new", "A title", {"paper": {"HPP": -1.5}}, authors)
    assert {path.name for path in (tmp_path / "new").iterdir()} == {
        "table.csv",
        "differences.csv",
        "leaders.csv",
        "batches.csv",
        *(f"{n}.{k}" for n in ("tmll", "tmll_difference", "expected_rho") for k in ("png", "svg")),
    }
    with (tmp_path / "new" / "table.csv").open(encoding="utf-8", newline="") as file:
        rows = list(csv.DictReader(file))
    assert list(rows[0])[:7] == [
        "method",
        "tmll_bound",
        "tmll_bound_sd",
        "tmll_predictive",
        "tmll_predictive_sd",
        "prequential",
        "prequential_sd",
    ]
    assert [row["method"] for row in rows] == ["SVB", "HPP", "PVB M=batch nu=0.1"]
    assert rows[1]["paper"] == "-1.5"
    assert float(rows[1]["tmll_bound"]) == report.table[1]["tmll_bound"]
    assert rows[2]["tmll_bound"] == ""
    assert {one.score for one in report.differences} == {
        "test_bound",
        "test_predictive",
        "prequential",
    }


def test_an_unknown_method():
    with pytest.raises(ValueError, match=r"^there is no method 'H'; choose from 'SVB', "):
        policies_of_table_1([sb.StreamBatch({"x": np.zeros(3)})], ["H"])
    assert list(policies_of_table_1([sb.StreamBatch({"x": np.zeros(3)})], ["hpp"])) == [
        "SVB",
        "HPP",
    ]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("batch,svb\n0,1\n", "a CSV file of 1 rows with the columns svb, hpp, mhpp; is it whole"),
        ("", "a CSV file of 1 rows"),
        ("svb,hpp,mhpp\n", "a CSV file of 1 rows"),
        ("svb,hpp,mhpp\n0,1,x\n", "line 2: expected a number in column mhpp, got 'x'"),
    ],
)
def test_results_that_cannot_be_read(tmp_path, text, sentence):
    path = tmp_path / "gps_tmll.csv"
    path.write_text(text, encoding="utf-8")
    with pytest.raises(ValueError, match=sentence):
        read_authors(path, 1)
