"""A report is one file that tells the story, shows what it is given as text and asks no other host."""

import dataclasses
import html
import json
import re
from html.parser import HTMLParser

import numpy as np
import pytest

import streambayes as sb
from streambayes.experiments.electricity import calendar_months
from streambayes.learning._record import RecordWriter
from streambayes.reports import write_report

NAMES = [f"x{place}" for place in range(10)]
HOSTILE = [
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "a" * 3000,
    "Ωμέγα \u202e 数据 \u2028",
    "../../etc/passwd",
    "$title ${story} %s {0}",
]


class Reader(HTMLParser):
    """What a page consists of: its text outside scripts, its elements and what they point to."""

    def __init__(self, text):
        super().__init__()
        self.elements, self.pointers, self.sentences = [], [], []
        self.data = None
        self._inside = None
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        self.elements.append(tag)
        self.pointers += [value for name, value in attrs if name in {"src", "href", "action"}]
        self._inside = "data" if ("id", "data") in attrs else tag

    def handle_endtag(self, tag):
        del tag
        self._inside = None

    def handle_data(self, data):
        if self._inside == "data":
            self.data = json.loads(data)
        elif data.strip() and self._inside in {"p", "li", "h1", "h2", "td", "th"}:
            self.sentences.append(data)


def read(path):
    return Reader(path.read_text(encoding="utf-8"))


def gaussians(seed, num_batches=40):
    rng = np.random.default_rng(seed)
    for number in range(num_batches):
        rows = rng.normal(size=(100, 10))
        rows[:, [2, 7]] += number >= 25
        yield dict(zip(NAMES, rows.T, strict=True))


@pytest.fixture(scope="module")
def run():
    learner = sb.StreamLearner(sb.models.Gaussian(NAMES))
    return sb.run(learner, gaussians(0), test_fraction=0.3, progress=False)


def test_the_report_names_the_two_that_changed_and_no_other(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(NAMES))
    hits = 0
    for seed in range(20):
        found = sb.run(learner, list(gaussians(seed)), prequential=False, progress=False)
        page = read(found.report(tmp_path / "report.html"))
        told = [text for text in page.sentences if text.startswith("Batch")]
        named = {name for name in NAMES for text in told if f"mean of {name} " in text}
        hits += named == {"x2", "x7"} and len(told) == 1
        assert all(text.startswith("Batch 25: ") for text in told if "x2" in text or "x7" in text)
    assert hits >= 19


def test_electricity_is_told_in_words(tmp_path):
    """The market is joined with that of Victoria in May 1997, whose columns appear then."""
    months = calendar_months()[:31]
    names = ["nswprice", "nswdemand", "vicprice", "vicdemand", "transfer"]
    learner = sb.StreamLearner(sb.models.Gaussian(names))
    found = sb.run(learner, months, test_fraction=1 / 3, prequential=False, progress=False)
    page = read(found.report(tmp_path / "report.html"))
    assert page.sentences[0] == "nswprice, nswdemand, vicprice, vicdemand and 1 more"
    assert page.sentences[1].startswith("1996-05 to 1998-11 · 31 batches · ")
    assert page.sentences[1].endswith(" · model Gaussian · forgetting Auto")
    (joined,) = [one for one in page.sentences if one.startswith("Batch 1997-05: ")]
    assert "columns 'transfer', 'vicdemand' and 'vicprice' vary for the first time" in joined
    every = [event["sentence"] for event in page.data["runs"][0]["news"]["events"]]
    assert every == [event.sentence for event in found.drift]


def test_it_tells_the_story_first_and_holds_the_figures(run, tmp_path):
    page = read(run.report(tmp_path / "new" / "report.html"))
    assert page.sentences[0] == "x0, x1, x2, x3 and 6 more"
    assert page.sentences[1] == (
        "0 to 39 · 40 batches · 2,800 rows learned, 1,200 more held out · model Gaussian · forgetting Auto"
    )
    assert page.pointers == ["data:,"]
    (held,) = page.data["runs"]
    assert held["overview"]["blocks"] == NAMES
    assert held["news"]["num_events"] == len(run.drift)
    assert len(held["parameters"]["names"]) == 20
    assert (tmp_path / "new" / "report.html").stat().st_size < 6_000_000
    assert [path.name for path in (tmp_path / "new").iterdir()] == ["report.html"]


def test_runs_side_by_side(tmp_path):
    model = sb.models.Gaussian(NAMES)
    policies = [sb.SVB(), sb.MHPP()]
    found = sb.compare(
        model, list(gaussians(0)), policies, record=tmp_path / "runs", progress=False
    )
    page = read(found.report(tmp_path / "one.html"))
    assert page.sentences[0] == "2 runs"
    assert page.sentences[1].startswith("Best by held-out rows, predictive density: MHPP, ")
    assert [one["news"]["name"] for one in page.data["runs"]] == ["SVB", "MHPP"]
    from_disk = read(write_report(tmp_path / "runs", tmp_path / "two.html", title="Two <ways>"))
    assert from_disk.sentences[0] == "Two <ways>"
    assert {one["news"]["name"] for one in from_disk.data["runs"]} == {"SVB", "MHPP"}
    by_name = read(write_report(dict(found.runs), tmp_path / "three.html"))
    assert by_name.data["runs"][0]["news"]["events"] == page.data["runs"][0]["news"]["events"]


def test_names_and_values_are_text(run, tmp_path):
    blocks = dict(zip(NAMES, [*HOSTILE, *NAMES[len(HOSTILE) :]], strict=True))

    def renamed(entries):
        return {blocks[name]: value for name, value in entries.items()}

    def parameters_of(block, of):
        return {name.replace(block, blocks[block]): value for name, value in of.items()}

    records = [
        dataclasses.replace(
            record,
            label=HOSTILE[record.index % len(HOSTILE)],
            rho=None if record.rho is None else renamed(record.rho),
            retained=renamed(record.retained),
            moved=None if record.moved is None else renamed(record.moved),
            looks=None if record.looks is None else renamed(record.looks),
            pattern=renamed(record.pattern),
            compared=None
            if record.compared is None
            else {
                blocks[block]: {scale: parameters_of(block, each) for scale, each in looks.items()}
                for block, looks in record.compared.items()
            },
            alone={blocks[block]: parameters_of(block, of) for block, of in record.alone.items()},
            parameters={
                blocks[block]: parameters_of(block, of) for block, of in record.parameters.items()
            },
            events=tuple(HOSTILE),
        )
        if record.index
        else record
        for record in run.records
    ]
    plain = run.report(tmp_path / "plain.html")
    for name in HOSTILE:
        page = read(write_report({name: records}, tmp_path / "out" / "report.html"))
        # neither elements nor addresses that another report does not have
        assert set(page.elements) <= {*read(plain).elements, "ul", "li"}
        assert page.elements.count("script") == 3
        assert page.pointers == ["data:,"]
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["report.html"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["out", "plain.html"]


def test_nothing_is_asked_of_another_host(run, tmp_path):
    text = run.report(tmp_path / "report.html").read_text()
    policy = re.search(r'Content-Security-Policy" content="([^"]*)"', text)[1]
    assert html.unescape(policy).startswith("default-src 'none';")
    assert "connect-src" not in policy
    assert "http" not in policy


def test_many_blocks_and_batches_stay_small(run, tmp_path):
    """400 blocks by 1,500 batches: parameters are thinned out to fit."""
    rng = np.random.default_rng(0)
    blocks = [f"sensor {number}" for number in range(400)]
    record = run.records[-1]
    writer = RecordWriter(tmp_path / "run")
    for index in range(1500):
        shares, means = rng.uniform(size=400).tolist(), rng.normal(size=400).tolist()
        writer.write(
            dataclasses.replace(
                record,
                index=index,
                label=str(index),
                rho=dict(zip(blocks, shares, strict=True)),
                retained=dict.fromkeys(blocks, 1.0),
                moved=dict(zip(blocks, shares, strict=True)),
                looks=dict.fromkeys(blocks, ((-1.0, -1.0),)),
                pattern=dict.fromkeys(blocks, (0.1, 0.1, 100.0)),
                alone={
                    block: {f"mean of {block}": mean, f"sd of {block}": 1.0}
                    for block, mean in zip(blocks, means, strict=True)
                },
                compared={},
                log_bf=None,
                drifting=None,
                recalled=None,
                memory=None,
                parameters={
                    block: {f"mean of {block}": (mean, 10.0), f"sd of {block}": (1.0, 0.1)}
                    for block, mean in zip(blocks, means, strict=True)
                },
            )
        )
    writer.close()
    seen = []
    path = write_report(
        tmp_path / "run", tmp_path / "report.html", on_progress=lambda *now: seen.append(now)
    )
    assert path.stat().st_size < 15_000_000
    assert seen[-1][0] == "run"
    assert 0.9 < seen[-1][1] <= 1.0


def test_folders_in_folders(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian("x0"))
    batches = [{"x0": np.random.default_rng(seed).normal(size=20)} for seed in range(3)]
    for name in ("market", "policies/PP 0.9", "a%41", "aA", "%2E%2E"):
        sb.run(learner, batches, record=tmp_path / "runs" / name, progress=False)
    page = read(write_report(tmp_path / "runs", tmp_path / "report.html"))
    names = {one["news"]["name"] for one in page.data["runs"]}
    assert names == {"market", "policies/PP 0.9", "a%41", "aA", ".."}


def test_a_run_whose_records_are_gone_is_reported_from_memory(tmp_path):
    learner = sb.StreamLearner(sb.models.Gaussian(NAMES))
    found = sb.run(learner, list(gaussians(0)), record=tmp_path / "run", progress=False)
    before = read(found.report(tmp_path / "report.html"))
    (tmp_path / "run" / "records.jsonl").unlink()
    after = read(found.report(tmp_path / "report.html"))
    assert after.sentences == before.sentences


def test_what_cannot_be_reported(run, tmp_path):
    with pytest.raises(FileNotFoundError, match="no records of a run there"):
        write_report(tmp_path / "nowhere", tmp_path / "report.html")
    with pytest.raises(ValueError, match="nothing to report: no batch has been learned"):
        write_report([], tmp_path / "report.html")
    with pytest.raises(ValueError, match="nothing to report: no runs were given"):
        write_report({}, tmp_path / "report.html")
    with pytest.raises(
        TypeError, match=r"expected records of a run, got 'a'; several runs are given by"
    ):
        write_report(["a", "b"], tmp_path / "report.html")
    with pytest.raises(ValueError, match="is what the records of a run are called"):
        run.report(tmp_path / "records.jsonl")
    with pytest.raises(IsADirectoryError, match="is a folder; give the name of a file"):
        run.report(tmp_path)
    (tmp_path / "file").write_text("x")
    with pytest.raises(NotADirectoryError, match="is a file; give the folder"):
        write_report(tmp_path / "file", tmp_path / "report.html")
    for number in range(51):
        writer = RecordWriter(tmp_path / "many" / str(number))
        writer.write(run.records[0])
        writer.close()
    with pytest.raises(ValueError, match="holds 51 runs, and a report has room for 50: choose one"):
        write_report(tmp_path / "many", tmp_path / "report.html")
    assert not (tmp_path / "report.html").exists()


def test_an_interrupted_report_leaves_the_old_one(run, tmp_path, monkeypatch):
    path = run.report(tmp_path / "report.html")
    before = path.read_bytes()

    def refused(*_, **__):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("pathlib.Path.replace", refused)
    with pytest.raises(OSError, match="No space left"):
        run.report(path)
    assert path.read_bytes() == before
    assert [one.name for one in tmp_path.iterdir()] == ["report.html"]
