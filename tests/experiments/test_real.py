"""Electricity, GPS and Finance on small slices."""

import numpy as np
import pytest

import streambayes as sb
from streambayes.experiments import electricity, finance, gps
from streambayes.experiments._demo import demonstrate
from streambayes.experiments.electricity import _experiment


def small(batches, num_rows):
    """The first rows of the first two batches."""
    return [
        sb.StreamBatch(
            {name: values[:num_rows] for name, values in batch.columns.items()}, batch.label
        )
        for batch in batches[:2]
    ]


def check(report, methods):
    assert list(report.contest.runs) == methods
    for method in methods:
        assert np.isfinite(report.contest.mean(method, "test_bound")[0])
        fall = report.contest.largest_fall(method)
        assert fall is None or fall < 1e-10
    assert all(path.stat().st_size > 20 for path in report.files)


@pytest.mark.parametrize("group", [None, "neighborhood"])
def test_gps(tmp_path, monkeypatch, group):
    stream = small(gps.hours(), 60)
    assert [batch.label for batch in stream] == ["0", "1"]
    monkeypatch.setattr("streambayes.experiments.gps._experiment.hours", lambda _: stream)
    methods = ["SVB", "PVB M=batch nu=0.1", "MHPP"]
    report = gps.reproduce(tmp_path, methods=methods, group=group, num_starts=1)
    check(report, methods)
    assert report.table[0]["paper"] == -1.93
    assert report.table[0]["paper_corrected"] == -1.976


def test_hours_are_in_order():
    assert [batch.label for batch in gps.hours()] == [str(hour) for hour in range(24)]


def test_finance(tmp_path):
    rng = np.random.default_rng(0)
    header = "issue_d,annual_inc,dti,revol_util,loan_status"
    lines = [
        f"{month}-2011,{rng.integers(20, 90)}000,{rng.uniform(0, 25):.2f},{rng.uniform(0, 99):.1f}%,"
        f"{rng.choice(['Fully Paid', 'Charged Off'])}"
        for month in ("Jan", "Feb")
        for _ in range(60)
    ]
    data = tmp_path / "loans.csv"
    data.write_text("\n".join([header, *lines]), encoding="utf-8")
    methods = ["SVB", "HPP"]
    report = finance.reproduce(tmp_path / "out", data=data, methods=methods, num_starts=1)
    check(report, methods)
    assert report.contest.labels == ("2011-01", "2011-02")


class TestElectricity:
    def test_calendar(self, tmp_path):
        months = electricity.calendar_months()
        assert [months[0].label, months[-1].label, len(months)] == ["1996-05", "1998-12", 32]
        report = electricity.reproduce(
            tmp_path, methods=["PVB M=batch nu=0.1"], num_starts=1, num_batches=1
        )
        check(report, ["SVB"])
        assert "complete conditional" in report.contest.refused["PVB M=batch nu=0.1"]

    def test_text(self, tmp_path):
        """The first month ends at the same place from coefficients of 0, of least squares, at random."""
        months = electricity.text_months()
        assert [month.label for month in months[:5]] == ["96_10", "96_11", "96_12", "96_5", "96_6"]
        assert sum(len(month.columns["up"]) for month in months) == 44_560
        report = electricity.reproduce(
            tmp_path, protocol="text", methods=["SVB"], num_starts=3, num_batches=1
        )
        found = [track.scores.test_bound for track in report.contest.runs["SVB"]]
        assert found == pytest.approx([found[0]] * 3, abs=1e-4)

    def test_a_protocol_that_is_none(self, tmp_path):
        with pytest.raises(ValueError, match="protocol must be one of calendar, text, paper, got"):
            electricity.reproduce(tmp_path, protocol="authors")

    def test_the_authors_months_by_the_calendar(self, tmp_path):
        """Their results are in text order; beside the calendar's months they must be in its order."""
        text = [month.label for month in electricity.text_months()]
        rows = [f"{place},data_{label}.arff,{place}.5" for place, label in enumerate(text)]
        for name in ("svb", "fading_0.9", "fading_0.99", "pp_0.9", "pp_0.99", "hpp", "mhpp"):
            lines = "\n".join(["t,file,tmll", *rows])
            (tmp_path / f"{name}.csv").write_text(lines, encoding="utf-8")
        months = electricity.calendar_months()
        found = _experiment._read_authors(tmp_path, months)["HPP"]
        assert (months[0].label, text[3], found[0]) == ("1996-05", "96_5", 3.5)
        in_text_order = _experiment._read_authors(tmp_path, electricity.text_months())["HPP"]
        assert in_text_order == [place + 0.5 for place in range(32)]

    def test_results_that_are_not_there(self, tmp_path):
        with pytest.raises(ValueError, match=r"svb\.csv is missing"):
            electricity.reproduce(tmp_path, reference=tmp_path)


def test_demo(tmp_path, monkeypatch):
    months = electricity.calendar_months()[20:22]
    monkeypatch.setattr("streambayes.experiments._demo.calendar_months", lambda: months)
    report = demonstrate(tmp_path)
    check(report, ["Auto", "SVB", "PP 0.9", "HPP", "MHPP"])
    assert "2 batches" in (tmp_path / "report.html").read_text(encoding="utf-8")
    assert len(list(sb.read_records(tmp_path / "runs" / "PP 0.9"))) == 2
    demonstrate(tmp_path)  # again, into the same folder
    assert len(list(sb.read_records(tmp_path / "runs" / "PP 0.9"))) == 2
