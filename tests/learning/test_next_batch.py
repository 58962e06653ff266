"""What is said of the next batch, beside a plain computation, and how often it holds."""

import math

import numpy as np
import pytest
import scipy.stats

import streambayes as sb
from streambayes.learning._watch import KEPT


def foretold(values, level):
    """One parameter without bounds, number by number."""
    kinds = ["mean", 0.25, 0.5, 1.0, "step"]
    at, errors = dict.fromkeys(kinds), {kind: [] for kind in kinds}
    for count, value in enumerate(values, 1):
        for kind in kinds:
            if at[kind] is not None:
                chance = math.sqrt(1.0 + 1.0 / (count - 1)) if kind == "mean" else 1.0
                errors[kind].append((value - at[kind]) / chance)
            if kind == "step":
                at[kind] = value + (value - values[0]) / max(count - 1, 1)
                continue
            share = 1.0 / count if kind == "mean" else kind
            at[kind] = value if at[kind] is None else at[kind] + share * (value - at[kind])
    best = min(kinds, key=lambda kind: np.abs(errors[kind]).mean())
    missed = np.sort(np.abs(errors[best]))
    rank = math.ceil((len(missed) + 1) * level)
    if rank <= len(missed):
        reach = missed[rank - 1]
    else:
        wide = scipy.stats.t(len(missed)).ppf(0.5 + 0.5 * level)
        reach = wide * np.sqrt(np.mean(missed**2))
    return at[best], at[best] - reach, at[best] + reach


def learned(learner, batches):
    """States after each batch."""
    state = learner.init(batches[0])
    for batch in batches:
        state, _ = learner.step(state, batch)
        yield state


@pytest.mark.parametrize("level", [0.5, 0.9, 0.99])
def test_forecasts_are_those_of_a_plain_computation(level):
    rng = np.random.default_rng(0)
    levels = np.append(np.cumsum(rng.normal(size=50)), rng.normal(size=50))
    batches = [{"x": rng.normal(level, 1.0, 40)} for level in levels]
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    means = [batch["x"].mean() for batch in batches]
    for number, state in enumerate(learned(learner, batches), 1):
        if number < 3:
            found = learner.predict_next(state, level=level)["mean of x"]
            assert (found.lower, found.upper) == (-math.inf, math.inf)
        if number in {3, 10, 60, 100}:
            found = learner.predict_next(state, level=level)["mean of x"]
            expected = foretold(means[max(number - KEPT, 0) : number], level)
            assert (found.mean, found.lower, found.upper) == pytest.approx(expected, rel=1e-3)


def test_intervals_hold_and_stay_within_bounds():
    rng = np.random.default_rng(1)
    columns = ("price", "amount", "count", "hit")
    net = sb.Network()
    net.normal("price", transform="log")
    net.normal("amount")
    net.poisson("count")
    net.bernoulli("hit")
    learner = sb.StreamLearner(net, sb.SVB())
    batches = [
        {
            "price": np.exp(rng.normal(a, 0.3, 50)),
            "amount": rng.normal(5.0 * a, 2.0, 50),
            "count": rng.poisson(np.exp(a), 50),
            "hit": rng.random(50) < 1.0 / (1.0 + np.exp(3.0 + a)),
        }
        for a in rng.normal(1.0, 0.5, 120)
    ]
    names = {
        "median of price": lambda batch: np.exp(np.log(batch["price"]).mean()),
        "geometric standard deviation of price": lambda batch: np.exp(np.log(batch["price"]).std()),
        "mean of amount": lambda batch: batch["amount"].mean(),
        "rate of count": lambda batch: batch["count"].mean(),
        "probability of hit=1": lambda batch: batch["hit"].mean(),
    }
    held, values = [], []
    states = [*learned(learner, batches)]
    for state, following in zip(states[20:-1], batches[21:], strict=True):
        said = learner.predict_next(state)
        held.append([
            said[name].lower <= of(following) <= said[name].upper for name, of in names.items()
        ])  # fmt: skip
        values.append([
            np.mean((said[f"value of {name}"].lower <= following[name])
                    & (following[name] <= said[f"value of {name}"].upper))
            for name in columns[:3]
        ])  # fmt: skip
        assert said["geometric standard deviation of price"].lower > 1.0
        assert 0.0 <= said["probability of hit=1"].lower < said["probability of hit=1"].upper < 0.2
        assert said["rate of count"].lower > 0.0
    assert (np.abs(np.mean(held, axis=0) - 0.9) < 0.08).all()
    assert (np.abs(np.mean(values, axis=0) - 0.9) < 0.06).all()


@pytest.mark.parametrize("cut", ["date", "month"])
def test_intervals_of_electricity_hold(cut):
    """Between 85 and 95 of 100: means of batches and values."""
    market = sb.datasets.electricity()
    columns = {"price": np.log(np.maximum(market["nswprice"], 1.0)), "demand": market["nswdemand"]}
    edges = np.flatnonzero(np.diff(market[cut])) + 1
    batches = [
        dict(zip(columns, parts, strict=True))
        for parts in zip(*(np.split(each, edges) for each in columns.values()), strict=True)
    ][:200]
    learner = sb.StreamLearner(sb.models.Gaussian([*columns]))
    means, values = [], []
    states = [*learned(learner, batches)]
    for state, following in zip(states[4:-1], batches[5:], strict=True):
        said = learner.predict_next(state)
        for name, each in following.items():
            mean, value = said[f"mean of {name}"], said[f"value of {name}"]
            means.append(mean.lower <= each.mean() <= mean.upper)
            values.append(np.mean((value.lower <= each) & (each <= value.upper)))
    assert 0.85 < np.mean(means) < 0.95
    assert 0.85 < np.mean(values) < 0.95


def test_what_grows_goes_on_growing():
    rng = np.random.default_rng(5)
    batches = [{"x": rng.normal(2.0 * number, 1.0, 60)} for number in range(30)]
    learner = sb.StreamLearner(sb.models.Gaussian("x"))
    *_, state = learned(learner, batches)
    found = learner.predict_next(state)["mean of x"]
    assert found.lower < 60.0 < found.upper
    assert found.mean == pytest.approx(60.0, abs=0.4)
    assert found.upper - found.lower < 1.5


def test_batches_without_rows_of_a_block_say_nothing_of_it():
    net = sb.Network()
    kind = net.categorical("kind", ["a", "b"])
    net.normal("x", parents=[kind])
    rng = np.random.default_rng(2)
    batches = [
        {"kind": ["a"] * 30 + ["b"] * (30 if number % 2 else 0), "x": rng.normal(size=30 + 30 * (number % 2))}
        for number in range(12)
    ]  # fmt: skip
    learner = sb.StreamLearner(net, sb.SVB())
    *_, state = learned(learner, batches)
    means = [batch["x"][30:].mean() for batch in batches[1::2]]
    found = learner.predict_next(state)["mean of x | kind=b"]
    assert (found.mean, found.lower, found.upper) == pytest.approx(foretold(means, 0.9), abs=2e-3)


def test_a_column_that_varies_for_the_first_time_begins_anew():
    rng = np.random.default_rng(3)
    batches = [
        {"x": rng.normal(size=20), "y": rng.normal(7.0, 1.0, 20) if number > 3 else np.zeros(20)}
        for number in range(9)
    ]
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB())
    *_, state = learned(learner, batches)
    found = learner.predict_next(state)
    means = [batch["y"].mean() for batch in batches[4:]]
    assert found["mean of y"].mean == pytest.approx(foretold(means, 0.9)[0], abs=0.01)
    means = [batch["x"].mean() for batch in batches]
    assert found["mean of x"].mean == pytest.approx(foretold(means, 0.9)[0], abs=0.01)


def test_of_many_streams_and_of_a_run_and_saved(tmp_path):
    rng = np.random.default_rng(4)
    learner = sb.StreamLearner(sb.models.Gaussian("x"))
    batches = [{"x": rng.normal(size=25)} for _ in range(6)]
    run = sb.run(learner, batches, progress=False)
    said = learner.predict_next(run.state)
    assert run.predict_next() == said
    sb.save(run.state, tmp_path / "state.sb")
    assert learner.predict_next(sb.load(tmp_path / "state.sb")) == said
    fleet = sb.many(learner, watch=True)
    states = fleet.init({"one": batches[0]})
    for batch in batches:
        states, _ = fleet.step(states, {"one": batch})
    for mine, theirs in zip(learner.predict_next(states["one"]).rows, said.rows, strict=True):
        assert (mine.mean, mine.lower, mine.upper) == pytest.approx(
            (theirs.mean, theirs.lower, theirs.upper), rel=1e-6
        )
    blind = learner.replace(watch=False)
    with pytest.raises(ValueError, match="how far batches lie apart is learned with"):
        blind.predict_next(blind.init(batches[0]))
