"""A digest shows what the records say, whatever their number."""

import base64
import collections
import dataclasses
import json

import numpy as np
import pytest

import streambayes as sb
from streambayes.reports._digest import Digest
from streambayes.reports._story import compare_in_words, tell


def learned(policy, num_batches=30):
    rng = np.random.default_rng(1)
    batches = [
        {"x": rng.normal(size=40) + 3 * (number >= 20), "y": rng.normal(size=40)}
        for number in range(num_batches)
    ]
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), policy)
    return sb.run(learner, batches, test_fraction=0.25, progress=False)


def digested(records, name="run"):
    digest = Digest(name)
    for record in records:
        digest.take(record)
    return digest


def decoded(table, num_columns, lowest, highest):
    codes = np.frombuffer(base64.b64decode(table["codes"]), np.uint8).reshape(-1, num_columns)
    return np.where(codes == 255, np.nan, lowest + codes / 254 * (highest - lowest))


@pytest.fixture(scope="module")
def run():
    return learned(sb.MHPP())


@pytest.fixture(scope="module")
def long(run):
    """5,000 batches with numbers of their own."""
    rng = np.random.default_rng(2)
    record = run.records[-1]
    return [
        dataclasses.replace(
            record,
            index=index,
            label=f"b{index}",
            rho={"x": rng.uniform(), "y": rng.uniform()},
            moved={"x": rng.exponential(), "y": rng.exponential()},
            alone={"x": {"mean of x": rng.normal()}, "y": {"mean of y": rng.normal()}},
            looks={"x": ((-1.0, -1.0),), "y": ((-1.0, -1.0),)},
            compared={},
            prequential=rng.normal(),
            parameters={"x": {"mean of x": (rng.normal(), 1.0)}, "y": {"mean of y": (0.0, 1.0)}},
        )
        for index in range(5000)
    ]


def test_a_short_run_is_shown_batch_by_batch(run):
    overview = digested(run.records).overview()
    assert overview["labels"] == [record.label for record in run.records]
    assert overview["step"] == 1
    shares = decoded(overview["maps"]["rho"], 30, 0.0, 1.0)
    assert np.isnan(shares[:, 0]).all()
    for place, block in enumerate(overview["blocks"]):
        expected = [record.rho[block] for record in run.records[1:]]
        assert shares[place, 1:] == pytest.approx(expected, abs=0.5 / 254 + 1e-9)
    moved = 10 ** decoded(overview["maps"]["moved"], 30, -4.0, 4.0)
    expected = [record.moved["x"] for record in run.records[1:]]
    assert np.log10(moved[0, 1:]) == pytest.approx(
        np.log10(np.clip(expected, 1e-4, 1e4)), abs=0.016
    )
    curve = overview["curves"]["test_predictive"]
    assert curve == pytest.approx([record.test_predictive for record in run.records], rel=1e-5)


def test_scores_are_those_of_the_run(run):
    scores = digested(run.records).scores
    for name, score in scores.items():
        assert score == pytest.approx(getattr(run.scores, name), rel=1e-12)
    assert set(scores) == {"test_bound", "test_predictive", "prequential"}


def test_events_are_those_of_the_run(run):
    digest = digested(run.records)
    told = list(run.drift)
    assert list(digest.events) == told
    assert [event["sentence"] for event in digest.news()["events"]] == [
        event.sentence for event in told
    ]
    overview = digest.overview()
    kinds = list(overview["kinds"])
    assert [
        (first, last, kinds[kind], overview["blocks"][block])
        for first, last, kind, block in overview["marks"]
    ] == [(event.first, event.last, event.kind, event.block) for event in told]
    assert {one["block"] for one in overview["patterns"]} == {"x", "y"}


def test_what_was_believed_is_compared_with_the_mean_so_far_and_the_last_batch(run):
    digest = digested(run.records)
    ratios = []
    for block in ("x", "y"):
        name = f"mean of {block}"
        alone = np.array([record.alone[block][name] for record in run.records])
        believed = np.array([record.parameters[block][name][0] for record in run.records])
        so_far = np.cumsum(alone) / np.arange(1, 31)  # all batches have 30 rows to learn
        errors = [np.abs(alone[1:] - each[:-1]).mean() for each in (believed, so_far, alone)]
        assert digest._foreseen.errors(block, name) == pytest.approx(errors)
        ratios.append([errors[0] / errors[1], errors[0] / errors[2]])
    mean, last, number = digest.foreseen
    assert (mean, last) == pytest.approx(np.exp(np.log(ratios).mean(0)))
    assert number == 2
    assert mean < 0.9  # x has changed
    assert digested(run.records[:5]).foreseen is None
    less = f"its error is {100 * (1 - mean):.0f} % less than that of the mean of all batches"
    assert less in tell(digest).said[0]


def test_names_that_differ_at_their_end_stay_apart(run):
    names = [f"{'a long name of a sensor ' * 20}number {number}" for number in range(2)]
    records = [
        dataclasses.replace(
            record,
            parameters={name: {f"mean of {name}": (0.0, 1.0)} for name in names},
            alone=None,
            moved=None,
            rho=None,
        )
        for record in run.records
    ]
    shown = digested(records).overview()["blocks"]
    assert [name[-8:] for name in shown] == ["number 0", "number 1"]
    assert {len(name) for name in shown} == {160}


def test_parameters_of_a_block(run):
    digest = digested(run.records)
    block = digest.block(0)
    names = [parameter["name"] for parameter in block["parameters"]]
    assert names == list(run.records[0].parameters["x"])
    for parameter in block["parameters"]:
        for place, kind in enumerate(("mean", "sd")):
            expected = [record.parameters["x"][parameter["name"]][place] for record in run.records]
            assert parameter[kind] == pytest.approx(expected, rel=1e-5)


@pytest.mark.parametrize(("centre", "spread"), [(1e7, 1.0), (116.32741, 1e-4), (1.7e9, 1.0)])
def test_small_changes_of_large_numbers_are_seen(run, centre, spread):
    means = [centre + 5.0 * spread * (record.index >= 20) for record in run.records]
    records = [
        dataclasses.replace(record, parameters={"x": {"mean of x": (mean, 0.1 * spread)}})
        for record, mean in zip(run.records, means, strict=True)
    ]
    digest = digested(records)
    (parameter,) = digest.block(0)["parameters"]
    assert parameter["mean"] == pytest.approx(means, abs=0.01 * spread)
    packed = digest.all_parameters(1_000_000)["mean"]
    assert packed["highest"][0] - packed["lowest"][0] == pytest.approx(5.0 * spread, rel=1e-6)


def test_all_parameters_packed(run):
    packed = digested(run.records).all_parameters(1_000_000)
    codes = np.frombuffer(base64.b64decode(packed["mean"]["codes"]), "<u2").reshape(-1, 30)
    lowest, highest = (np.array(packed["mean"][end])[:, None] for end in ("lowest", "highest"))
    means = lowest + codes / 65534 * (highest - lowest)
    for row, (name, home) in enumerate(zip(packed["names"], packed["homes"], strict=True)):
        block = ["x", "y"][home]
        expected = [record.parameters[block][name][0] for record in run.records]
        assert means[row] == pytest.approx(expected, abs=2e-5 * np.ptp(expected) + 1e-8)


def test_a_long_run_keeps_extremes_ends_and_means(long):
    digest = digested(long)
    overview = digest.overview()
    step = overview["step"]
    assert step == 8
    assert len(overview["labels"]) == 625
    assert overview["starts"] == list(range(0, 5000, 8))
    groups = [long[start : start + step] for start in range(0, 5000, step)]
    shares = decoded(overview["maps"]["rho"], 625, 0.0, 1.0)
    expected = [min(record.rho["x"] for record in group) for group in groups]
    assert shares[0] == pytest.approx(expected, abs=0.002)
    scores = [np.mean([record.prequential for record in group]) for group in groups]
    assert overview["curves"]["prequential"] == pytest.approx(scores, rel=1e-4, abs=1e-6)
    means = digest.block(0)["parameters"][0]["mean"]
    ends = [group[-1].parameters["x"]["mean of x"][0] for group in groups]
    assert means == pytest.approx(ends, rel=1e-5)
    coarse = digest.overview(100)
    assert coarse["step"] == 56
    expected = [
        min(record.rho["x"] for record in long[start : start + 56]) for start in range(0, 5000, 56)
    ]
    found = decoded(coarse["maps"]["rho"], len(coarse["labels"]), 0.0, 1.0)[0]
    assert found == pytest.approx(expected, abs=0.002)
    mean, lowest, label, block = digest.kept()
    every = [share for record in long for share in record.rho.values()]
    assert (mean, lowest) == pytest.approx((np.mean(every), min(every)))
    assert long[int(label[1:])].rho[block] == lowest


def test_a_long_run_without_scores_or_shares(long):
    nothing = dict.fromkeys(("prequential", "test_bound", "test_predictive", "rho"))
    digest = digested(dataclasses.replace(record, **nothing) for record in long[:1100])
    overview = digest.overview()
    assert overview["curves"] == {}
    assert set(overview["maps"]) == {"moved"}
    assert digest.kept() is None


@pytest.mark.parametrize("policy", [sb.Auto(), sb.HPP(), sb.SVB(), sb.PVB(1000, 0.1)], ids=repr)
def test_every_policy_can_be_shown(policy):
    run = learned(policy, 8)
    digest = digested(run.records)
    data = [digest.news(), digest.overview(), digest.block(1), digest.all_parameters(1000)]
    json.loads(json.dumps(data, allow_nan=False))
    story = tell(digest)
    assert story.changed.startswith("Nothing beyond the usual fluctuation in 8 batches.")
    assert len(story.said) >= 2


def test_no_record_yet():
    digest = Digest("empty")
    json.dumps([digest.news(), digest.overview(), digest.all_parameters(1000)], allow_nan=False)
    assert tell(digest).headline == "No batch has been learned yet."


def test_nothing_is_said_of_changes_that_were_not_looked_for(run):
    nothing = [dataclasses.replace(record, parameters=None, moved=None) for record in run.records]
    assert "its records say nothing of parameters" in tell(digested(nothing)).changed
    story = tell(digested(run.records[:1]))
    assert story.headline.startswith("0 · 1 batch · 30 rows learned")
    assert story.changed == "There is nothing yet to compare the first batch with."
    stopped = digested(run.records)
    stopped.ended = "stopped: no more disk"
    assert tell(stopped).said[-1] == "The run has not come to its end: stopped: no more disk."


def test_runs_of_different_data_are_not_compared(run):
    digests = [digested(run.records, "whole"), digested(run.records[:4], "part")]
    (said,) = compare_in_words(digests)
    assert said == "The runs are of different batches or rows, so their scores are not compared."


def test_the_story(run):
    digest = digested(run.records, "MHPP")
    story = tell(digest)
    assert story.headline == "0 to 29 · 30 batches · 900 rows learned, 300 more held out"
    assert story.changed == "In 1 of 30 batches something changed: 1 sudden change."
    (told,) = story.changes
    assert told.startswith("Batch 20: mean of x changed at once, ")
    assert f"{run.scores.test_predictive:.4f} nats a row" in story.said[1]
    other = digested(learned(sb.SVB()).records, "SVB")
    (first, *_) = compare_in_words([other, digest])
    assert first.startswith("Best by held-out rows, predictive density: MHPP, ")
    gap = other.scores["test_predictive"] - digest.scores["test_predictive"]
    assert f"SVB {gap:+.4f}" in first


def test_changes_are_told_batch_by_batch_and_the_most_important_first(run):
    (event,) = run.drift

    def at(first, block, evidence):
        change = dataclasses.replace(event.changes[0], parameter=f"mean of {block}")
        return dataclasses.replace(
            event,
            block=block,
            first=first,
            last=first,
            label=f"b{first}",
            evidence=evidence,
            changes=(change,),
        )

    events = [at(number, "x", 20.0 + number) for number in range(7)]
    events += [at(3, "y", 90.0), at(3, "z", 10.0), at(3, "v", 9.0), at(3, "w", 8.0)]
    digest = digested(run.records)
    digest._monitor._events = {(one.block, one.first): one for one in events}
    story = tell(digest)
    assert [sentence.split(":")[0] for sentence in story.changes[:5]] == [
        f"Batch b{number}" for number in (2, 3, 4, 5, 6)
    ]
    assert (
        story.more == "These are the 5 most important batches; the table of changes has 2 others."
    )
    arrow = event.changes[0].arrow
    assert story.changes[1].startswith(f"Batch b3: mean of y changed at once, {arrow} (")
    others = ", ".join(f"mean of {name} {arrow}" for name in "xzvw")
    assert story.changes[1].endswith(f"; likewise {others}.")
    counts = collections.Counter(one["first"] for one in digest.told())
    assert counts == {number: 1 + 4 * (number == 3) for number in range(7)}


def test_late_rows_are_said(run):
    records = [dataclasses.replace(record, num_late=2) for record in run.records[:3]]
    assert (
        "6 rows came too late for their batches and were not learned."
        in tell(digested(records)).said
    )


def test_trends_stand_before_changes():
    rng = np.random.default_rng(0)
    batches = [
        {"up": rng.normal(0.2 * number, 1.0, 40), "jump": rng.normal(9.0 * (number > 20), 1.0, 40)}
        for number in range(60)
    ]
    learner = sb.StreamLearner(sb.models.Gaussian(["up", "jump"]), sb.SVB())
    run = sb.run(learner, batches, progress=False, prequential=False)
    lines = tell(digested(run.records)).changes
    assert lines[0].startswith("Over all batches: mean of up rises, ")
    assert lines[1].startswith("Batch 21: mean of jump changed at once, ")
    assert lines == run.drift.lines() == str(run.drift).splitlines()
