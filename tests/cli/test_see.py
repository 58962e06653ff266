"""The commands ``streambayes report`` and ``streambayes watch``."""

import os
import re
import signal
import subprocess
import sys
import urllib.request

import numpy as np
import pytest
from typer.testing import CliRunner

import streambayes as sb
from streambayes.cli._app import app


def asked(*arguments, **options):
    return CliRunner().invoke(app, list(map(str, arguments)), **options)


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    rng = np.random.default_rng(0)
    batches = [{"x": rng.normal(size=50) + 4 * (number > 7)} for number in range(12)]
    made = tmp_path_factory.mktemp("see") / "run"
    learner = sb.StreamLearner(sb.models.Gaussian("x"))
    sb.run(learner, batches, record=made, progress=False)
    return made


def test_a_report_of_a_folder(folder, tmp_path):
    path = tmp_path / "new" / "out.html"
    result = asked("report", folder, "-o", path, "--title", "A <sensor>")
    assert result.exit_code == 0, result.output
    assert result.output == f"Written: {path}\n"
    text = path.read_text()
    assert "<title>A &lt;sensor&gt;</title>" in text
    assert "Batch 8: mean of x changed at once" in text
    assert asked("report", folder, "-o", path, "--quiet").output == ""


def test_a_report_of_the_current_folder_has_a_name(folder, tmp_path, monkeypatch):
    monkeypatch.chdir(folder)
    assert asked("report", ".", "-o", tmp_path / "report.html").exit_code == 0
    assert "<title>run</title>" in (tmp_path / "report.html").read_text()


@pytest.mark.parametrize(
    ("given", "sentence"),
    [
        (["report", "nowhere"], "no records of a run there"),
        (["report", "{folder}", "-o", "{tmp}"], "is a folder; give the name of a file"),
        (
            ["report", "{folder}", "--false-alarms", "2"],
            "false_alarms must be a number from 1e-12 to 0.5, got 2",
        ),
        (["report", "{folder}/records.jsonl"], "is a file; give the folder"),
        (["watch", "{folder}", "--host", "0.0.0.0"], "could be seen by others: give a token"),
        (["watch", "{folder}", "--token", "abc"], "token must have at least 8 letters, got 3"),
        (["watch", "{folder}", "--port", "99999"], "port must lie between 0 and 65535"),
        (
            ["watch", "{folder}", "--host", "no.such.host.invalid", "--token", "x" * 9],
            "cannot listen",
        ),
        (
            ["watch", "{folder}", "--false-alarms", "0"],
            "false_alarms must be a number from 1e-12 to 0.5",
        ),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(
    given, sentence, folder, tmp_path, monkeypatch
):
    monkeypatch.chdir(tmp_path)
    result = asked(*(part.format(folder=folder, tmp=tmp_path) for part in given))
    assert result.exit_code == 2
    assert sentence in result.output
    assert result.output.count("\n") == 1
    assert list(tmp_path.iterdir()) == []


def test_a_page_is_served_until_it_is_interrupted(folder):
    environment = {**os.environ, "STREAMBAYES_TOKEN": "a long secret"}
    command = [sys.executable, "-m", "streambayes", "watch", str(folder), "--port", "0"]
    served = subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env=environment)
    try:
        url = re.match(
            r"http://127\.0\.0\.1:\d+/\?token=a\+long\+secret", served.stdout.readline()
        )[0]
        opener = urllib.request.build_opener(urllib.request.HTTPCookieProcessor())
        with opener.open(url, timeout=30) as page:
            assert "page.js" in page.read().decode()
        served.send_signal(signal.SIGINT)
        assert served.wait(timeout=30) in {0, 130, -signal.SIGINT}
    finally:
        served.kill()
        served.wait()
        served.stdout.close()


@pytest.mark.parametrize("command", ["report", "watch"])
def test_help_has_examples(command):
    result = asked(command, "--help")
    assert result.exit_code == 0
    assert f"streambayes {command} runs" in result.output
