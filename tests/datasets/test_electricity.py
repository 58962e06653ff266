"""Elec2: the facts that its page states."""

import importlib.resources

import numpy as np
import pytest

import streambayes as sb

NUMBERS = {
    "nswprice": (0, 33308),
    "nswdemand": (4274, 10996),
    "vicprice": (0, 481405),
    "vicdemand": (3375, 7237),
    "transfer": (-946, 1334),
}
VICTORIA = 363 * 48  # rows before Victoria


@pytest.fixture(scope="module")
def raw():
    return sb.datasets.electricity()


@pytest.fixture(scope="module")
def scaled():
    return sb.datasets.electricity(scaled=True)


def test_columns(raw, scaled):
    names = ["date", "month", "period", *NUMBERS, "up", "duplicate"]
    assert list(raw) == list(scaled) == names
    assert {len(values) for values in (*raw.values(), *scaled.values())} == {45_312}
    kinds = {name: values.dtype.str[1:] for name, values in raw.items()}
    assert kinds == dict.fromkeys(NUMBERS, "f8") | {
        "date": "M8[D]",
        "month": "M8[M]",
        "period": "i8",
        "up": "i8",
        "duplicate": "b1",
    }
    assert set(np.unique(raw["up"])) == {0, 1}


def test_every_day_has_48_rows_and_no_day_is_left_out(raw):
    days, counts = np.unique(raw["date"], return_counts=True)
    assert (days[0], days[-1]) == (np.datetime64("1996-05-07"), np.datetime64("1998-12-05"))
    assert (np.diff(days) == np.timedelta64(1, "D")).all()
    twice = np.datetime64("1997-05-04")
    assert set(counts[days != twice]) == {48}
    assert counts[days == twice] == 96
    assert (np.diff(raw["date"]).astype(int) >= 0).all()
    np.testing.assert_array_equal(raw["period"], np.tile(np.arange(1, 49), 944))


def test_months_are_those_of_the_calendar(raw):
    assert len(np.unique(raw["month"])) == 32
    np.testing.assert_array_equal(raw["month"], raw["date"].astype("datetime64[M]"))


def test_duplicate_marks_the_copy_without_victoria(raw):
    marked = np.flatnonzero(raw["duplicate"])
    np.testing.assert_array_equal(marked, np.arange(VICTORIA - 48, VICTORIA))
    copy = marked + 48
    assert set(raw["date"][marked]) == set(raw["date"][copy]) == {np.datetime64("1997-05-04")}
    np.testing.assert_array_equal(raw["nswdemand"][marked], raw["nswdemand"][copy])
    assert (raw["nswprice"][marked] == raw["nswprice"][copy]).sum() == 47
    assert np.isnan(raw["vicdemand"][marked]).all()
    assert np.isfinite(raw["vicdemand"][copy]).all()


def test_weekends_need_less_so_the_dates_are_right(raw):
    """Saturdays and Sundays by the dates have the least demand."""
    weekday = (raw["date"].astype(int) + 3) % 7
    means = [raw["nswdemand"][weekday == day].mean() for day in range(7)]
    assert max(means[5:]) < min(means[:5]) - 500


def test_missing_cells(raw):
    gone = {name: np.flatnonzero(np.isnan(raw[name])) for name in NUMBERS}
    assert len(gone["nswprice"]) == len(gone["nswdemand"]) == 0
    np.testing.assert_array_equal(gone["vicprice"], np.arange(VICTORIA))
    np.testing.assert_array_equal(gone["vicdemand"], [*range(VICTORIA), 20716])
    week = range(VICTORIA, VICTORIA + 7 * 48)
    np.testing.assert_array_equal(gone["transfer"], [*week, 17927, 17976])
    assert (raw["transfer"][:VICTORIA] == 0).all()


@pytest.mark.parametrize("name", NUMBERS)
def test_numbers_are_whole_and_in_range(raw, name):
    values = raw[name][~np.isnan(raw[name])]
    assert (values.min(), values.max()) == NUMBERS[name]
    np.testing.assert_array_equal(values, np.rint(values))


def test_the_largest_price_is_far_from_the_others(raw):
    price = raw["vicprice"]
    row = np.nanargmax(price)
    assert raw["date"][row] == np.datetime64("1997-11-25")
    assert price[row] / np.nanquantile(price, 0.999) == pytest.approx(15.9, abs=0.05)


def test_class_says_whether_the_price_is_above_the_mean_of_the_day_before(raw):
    price = raw["nswprice"]
    sums = np.concatenate([[0.0], np.cumsum(price)])
    before = (sums[48:-1] - sums[:-49]) / 48
    np.testing.assert_array_equal(raw["up"][48:], price[48:] > before)


@pytest.mark.parametrize("name", ["period", *NUMBERS])
def test_scaled_is_min_max_with_six_decimals(raw, scaled, name):
    low, high = np.nanmin(raw[name]), np.nanmax(raw[name])
    exact = (raw[name] - low) / (high - low)
    gone = np.isnan(exact)
    values = scaled[name]
    assert (values.min(), values.max()) == (0.0, 1.0)
    assert np.abs(values - exact)[~gone].max() <= 0.5e-6 + 1e-12
    np.testing.assert_array_equal(values, np.round(values, 6))
    if gone.any():
        assert len(set(values[gone])) == 1
        assert abs(values[gone][0] - np.nanmean(exact)) < 1e-6


def test_other_columns_are_not_scaled(raw, scaled):
    for name in ("date", "month", "up", "duplicate"):
        np.testing.assert_array_equal(raw[name], scaled[name])


def test_every_call_has_arrays_of_its_own(raw):
    other = sb.datasets.electricity()
    other["nswprice"][:] = 0.0
    assert raw["nswprice"].any()
    assert sb.datasets.electricity()["nswprice"].any()


def test_batches_by_month(raw):
    months = sb.batches(raw, time="date", every="1mo")
    assert [batch.label for batch in months][:: len(months) - 1] == ["1996-05", "1998-12"]
    assert len(months) == len(sb.batches(raw, by="month")) == 32


def test_the_file_is_small_and_has_its_notice():
    folder = importlib.resources.files("streambayes.datasets")
    assert len((folder / "electricity.npz").read_bytes()) < 1_000_000
    notice = (folder / "electricity.txt").read_text(encoding="utf-8")
    for text in ("scikit-multiflow", "BSD 3-Clause License", "M. Harries"):
        assert text in notice
