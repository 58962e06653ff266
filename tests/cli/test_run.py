"""The command ``streambayes run``."""

import json
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
import warnings

import jax
import numpy as np
import pytest
from typer.testing import CliRunner

import streambayes as sb
from streambayes.cli import _run
from streambayes.cli._app import app

CONFIG = """\
[model]
type = "Gaussian"
names = "x"
[forgetting]
policy = "SVB"
[source]
type = "files"
files = "rows-*.csv"
[batches]
rows = 20
[output]
folder = "out"
"""
LIVE = """\
type = "folder"
folder = "coming"
settle = 0
poll = 0.05
"""


def asked(*arguments, **options):
    return CliRunner().invoke(app, ["run", *map(str, arguments)], **options)


def write_rows(path, number, *, shift=0.0, num_rows=50):
    rng = np.random.default_rng(number)
    path.parent.mkdir(parents=True, exist_ok=True)
    hours = (f"2024-01-{number + 1:02d}T{row % 24:02d}:00" for row in range(24))
    cells = zip(sorted(hours), rng.normal(shift, size=num_rows), strict=False)
    text = "time,x\n" + "".join(f"{moment},{cell:.6f}\n" for moment, cell in cells)
    if num_rows > 24:
        more = rng.normal(shift, size=num_rows - 24)
        text += "".join(f"2024-01-{number + 1:02d}T23:30,{cell:.6f}\n" for cell in more)
    path.write_text(text)


@pytest.fixture
def config(tmp_path):
    for number in range(3):
        write_rows(tmp_path / f"rows-{number}.csv", number, shift=6.0 * (number == 2))
    path = tmp_path / "stream.toml"
    path.write_text(CONFIG)
    return path


def change(path, old, new):
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def last(folder):
    return sb.Checkpoints(folder / "checkpoints").latest()


@pytest.fixture(autouse=True)
def heeded():
    """Signals as a program has them that is started on a terminal: in the background, SIGINT is ignored."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


def is_same(state, other):
    leaves, others = jax.tree.leaves(state), jax.tree.leaves(other)
    return len(leaves) == len(others) and all(
        np.array_equal(one, two, equal_nan=True) for one, two in zip(leaves, others, strict=True)
    )


def test_a_run_ends_with_records_checkpoints_and_a_report(config, tmp_path):
    change(config, 'folder = "out"', 'folder = "out"\nreport = true\nkeep = 2')
    change(config, '"SVB"', '"HPP"')
    result = asked(config)
    assert result.exit_code == 0, result.output
    out = tmp_path / "out"
    records = list(sb.read_records(out))
    assert [record.num_rows for record in records] == [20] * 7 + [10]
    assert last(out).num_batches == 8
    assert len(sb.Checkpoints(out / "checkpoints")) == 2
    assert "Batch 5" in (out / "report.html").read_text()
    assert result.stderr.count("batch ") >= 8
    assert "Beginning: Gaussian with HPP, from" in result.stderr
    assert "bound" in result.stderr
    assert "E[rho]" in result.stderr
    for said in ("8, in", "150", "prequential", "mean of x changed at once", "report.html"):
        assert said in result.stdout
    for handled in (signal.SIGINT, signal.SIGTERM):
        assert signal.getsignal(handled) in {signal.default_int_handler, signal.SIG_DFL}


def test_columns_that_are_made_and_transformed(config, tmp_path):
    """What is told is of the ratio, in its own units; a run that goes on has the last value."""
    for path in sorted(tmp_path.glob("rows-*.csv")):
        head, *lines = path.read_text().splitlines()
        cells = [line.split(",") for line in lines]
        path.write_text("\n".join([head, *(f"{t},{np.exp(float(x))}" for t, x in cells)]) + "\n")
    change(config, 'names = "x"', 'names = "x ratio"')
    change(config, "rows = 20", 'rows = 20\ntime = "time"\nratio = ["x"]')
    change(config, "[output]", '[columns."x ratio"]\ntransform = "log"\n[output]')
    result = asked(config, "--until", 3)
    assert result.exit_code == 0, result.output
    result = asked(config, "--resume")
    assert result.exit_code == 0, result.output
    last_record = list(sb.read_records(tmp_path / "out"))[-1]
    assert list(last_record.parameters["x ratio"]) == [
        "median of x ratio",
        "geometric standard deviation of x ratio",
    ]
    assert last_record.retained == {"x ratio": 149.0}  # the first row has none


def test_a_run_that_was_stopped_goes_on_to_the_same_end(config, tmp_path):
    assert asked(config, "--quiet").output == ""
    whole = last(tmp_path / "out")
    change(config, 'folder = "out"', 'folder = "parts"\ncheckpoints = "saved/states"\nevery = 3')
    parts = sb.Checkpoints(tmp_path / "saved" / "states")
    for until, number in (("3", 3), ("4", 4), ("4", 4)):
        result = asked(config, "--until", until, "--resume")
        assert result.exit_code == 0, result.output
        assert parts.latest().num_batches == number
        assert result.stderr.endswith(f"Go on with: streambayes run {config} --resume\n")
    result = asked(config, "--resume")
    assert result.exit_code == 0, result.output
    assert "Going on after 4 batches" in result.stderr
    assert "8, 4 of them now" in result.stdout
    assert is_same(parts.latest().state, whole.state)
    names = "index", "num_rows", "bound", "prequential", "retained"
    mine, others = (
        [[getattr(record, name) for name in names] for record in sb.read_records(tmp_path / folder)]
        for folder in ("parts", "out")
    )
    assert mine == others


def test_until_a_moment(config, tmp_path):
    change(config, "rows = 20", 'every = "12h"\ntime = "time"')
    assert asked(config, "--until", "2024-01-02", "--resume").exit_code == 0
    assert [record.label for record in sb.read_records(tmp_path / "out")] == [
        "2024-01-01T00:00",
        "2024-01-01T12:00",
        "2024-01-02T00:00",
    ]
    assert asked(config, "--until", "2024-01-02T00:00", "--resume").exit_code == 0
    assert last(tmp_path / "out").num_batches == 3
    assert asked(config, "--until", "2024-01-02T13:00+01:00", "--resume").exit_code == 0
    assert last(tmp_path / "out").num_batches == 4


def test_stops_among_the_last_batches_which_were_held_for_late_rows(config, tmp_path):
    change(config, "rows = 20", 'every = "12h"\ntime = "time"\nlateness = "2d"')
    assert asked(config).exit_code == 0
    whole = last(tmp_path / "out")
    assert whole.num_batches == 6
    change(config, 'folder = "out"', 'folder = "parts"')
    for number in range(1, 7):
        assert asked(config, "--until", number, "--resume").exit_code == 0
        assert last(tmp_path / "parts").num_batches == number
    assert is_same(last(tmp_path / "parts").state, whole.state)


def test_late_rows_and_rows_left_out_are_counted(config, tmp_path):
    (tmp_path / "arriving").mkdir()
    text = "time,x\n" + "".join(f"2024-02-0{day},{day}\n" for day in (1, 1, 2, 1, 3, 2, 4))
    (tmp_path / "arriving" / "rows.csv").write_text(text + "2024-02-04,none such\n")
    (tmp_path / "arriving" / "_END").touch()
    live = 'type = "folder"\nfolder = "arriving"\nsettle = 0\npoll = 0.05\nend = "_END"'
    change(config, 'type = "files"\nfiles = "rows-*.csv"', live)
    change(config, "rows = 20", 'every = "1d"\ntime = "time"')
    config.write_text(config.read_text() + '[schema]\nchanged_type = "ignore"\n')
    result = asked(config, "--log", "json")
    assert result.exit_code == 5, result.output
    *_, warned, _, end, error = map(json.loads, result.stderr.splitlines())
    assert (end["event"], end["late_rows"], end["rows_left_out"]) == ("finished", 2, 1)
    assert (end["rows"], end["batches"], result.stdout) == (5, 4, "")
    assert warned["message"].startswith("2 rows so far came too late for their batch")
    assert warned["message"].endswith("lateness='86400s' would have waited for them")
    assert (error["event"], error["code"]) == ("error", 5)
    assert error["message"].startswith("2 of 7 rows (28.6 %) came too late for their batch")
    # of files none is late
    change(config, live, 'type = "files"\nfiles = "arriving/rows.csv"')
    change(config, 'folder = "out"', 'folder = "sorted"')
    result = asked(config, "--log", "json")
    assert result.exit_code == 0, result.output
    end = json.loads(result.stderr.splitlines()[-1])
    assert (end["rows"], end["late_rows"], end["rows_left_out"]) == (7, 0, 1)


@pytest.mark.parametrize("quiet", [False, True])
def test_a_dry_run_writes_nothing(config, tmp_path, quiet):
    before = sorted(tmp_path.rglob("*"))
    result = asked(config, "--dry-run", *(["--quiet"] if quiet else []))
    assert result.exit_code == 0, result.output
    assert sorted(tmp_path.rglob("*")) == before
    if quiet:
        assert result.output == ""
        return
    for said in ("Gaussian", "SVB", "rows = 20", "20 rows", "and 2 more files", "blocks"):
        assert said in result.stdout


def test_a_dry_run_looks_at_the_first_batch(config, tmp_path):
    (tmp_path / "rows-0.csv").write_text("x\n1\nabc\n")
    result = asked(config, "--dry-run")
    assert result.exit_code == 2
    assert "the first batch: column 'x', row 1" in result.stderr
    config.write_text(config.read_text() + '[schema]\nchanged_type = "missing"\n')
    assert asked(config, "--dry-run").exit_code == 0


def test_a_folder_that_holds_a_run_is_refused(config, tmp_path):
    assert asked(config, "--until", 1).exit_code == 0
    for more in ([], ["--dry-run"]):
        result = asked(config, *more)
        assert result.exit_code == 2
        assert f"already holds a run; go on with streambayes run {config} --resume" in result.stderr
        assert result.output.count("\n") == 1
    assert "1 batches" in asked(config, "--dry-run", "--resume").stdout
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "records.jsonl").write_text("{}\n")
    change(config, 'folder = "out"', 'folder = "other"')
    assert "already holds a run" in asked(config).stderr
    result = asked(config, "--resume")
    assert (result.exit_code, result.stderr.count("Error: ")) == (2, 1)


def test_another_configuration_cannot_go_on(config):
    assert asked(config, "--until", 1).exit_code == 0
    change(config, '"SVB"', '"HPP"')
    result = asked(config, "--resume")
    assert result.exit_code == 2
    assert "the checkpoint is of" in result.stderr
    change(config, '"HPP"', '"SVB"')
    change(config, "rows = 20", "rows = 25")
    result = asked(config, "--resume")
    assert (result.exit_code, "the run was begun with stream=" in result.stderr) == (2, True)


@pytest.mark.parametrize(
    ("until", "sentence"),
    [
        ("0", "--until must be a number of batches of at least 1"),
        ("soon", "or a moment such as 2024-06-01 or 2024-06-01T12:00, got 'soon'"),
        ("2024-01-01", "--until: a moment needs batches with times, [batches] time"),
    ],
)
def test_until_nothing_sensible(config, tmp_path, until, sentence):
    result = asked(config, "--until", until)
    assert result.exit_code == 2
    assert sentence in result.stderr
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("rows", "sentence"),
    [
        ("time,x\n2024-01-03,abc\n", "column 'x', row 10"),
        ("time,x,z\n2024-01-03,1,2\n", "column 'z', row 10: the column is new; leave it out with"),
        ("time,z\n2024-01-03,1\n", "column 'z', row 10: the column is new"),
        ("time\n2024-01-03\n", "column 'x', row 10: the column is lost"),
    ],
)
def test_schema_drift_names_batch_row_and_column(config, tmp_path, rows, sentence):
    (tmp_path / "rows-1.csv").write_text(rows)
    result = asked(config)
    assert result.exit_code == 3
    error, go_on = result.stderr.splitlines()[-2:]
    assert error.startswith("Error: ")
    assert sentence in error
    assert "(in batch 2 of the stream)" in error
    assert "SchemaPolicy" not in error
    assert go_on == f"Go on with: streambayes run {config} --resume"
    assert last(tmp_path / "out").num_batches == 2
    write_rows(tmp_path / "rows-1.csv", 1)
    assert asked(config, "--resume").exit_code == 0
    assert last(tmp_path / "out").num_batches == 8


def test_a_remedy_is_one_of_the_configuration(config, tmp_path):
    (tmp_path / "rows-1.csv").write_text("time,x,z\n2024-01-03,1,2\n")
    assert 'leave it out with [schema] new_column = "ignore"' in asked(config).stderr
    config.write_text(config.read_text() + '[schema]\nnew_column = "ignore"\n')
    result = asked(config, "--resume")
    assert result.exit_code == 0
    assert "column 'z' is new and left out" in result.stderr


def test_a_stream_without_batches(config, tmp_path):
    for path in tmp_path.glob("rows-*"):
        path.write_text("time,x\n")
    result = asked(config)
    assert result.exit_code == 3
    assert "Error: the stream has no batches\n" in result.stderr
    assert "the files have no rows" in asked(config, "--dry-run").stdout


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (ConnectionError("the server is gone"), "the server is gone"),
        (OSError(28, "No space left on device", "/x"), "/x cannot be read or written (no space"),
        (MemoryError(), "MemoryError"),
    ],
)
def test_a_source_or_a_disk_that_fails(config, monkeypatch, error, sentence):
    def read(*_):
        raise error

    monkeypatch.setattr(sb.sources.Files, "read", read)
    for form in ("text", "json"):
        result = asked(config, "--resume", "--log", form)
        assert result.exit_code == 4
        assert sentence in result.stderr
        assert f"streambayes run {config} --resume" in result.stderr
        assert "Traceback" not in result.output
    assert json.loads(result.stderr.splitlines()[-1])["code"] == 4


def test_mistakes_of_our_own_are_not_hidden(config, monkeypatch):
    def read(*_):
        raise KeyError

    monkeypatch.setattr(sb.sources.Files, "read", read)
    result = asked(config)
    assert (result.exit_code, type(result.exception)) == (1, KeyError)


def test_lines_of_json(config, monkeypatch):
    learn = _run.learn

    def warned(*arguments, **options):
        warnings.warn("take care\nof it", stacklevel=1)
        return learn(*arguments, **options)

    monkeypatch.setattr(_run, "learn", warned)
    change(config, '"SVB"', '"HPP"')
    result = asked(config, "--log", "json")
    assert (result.exit_code, result.stdout) == (0, "")
    lines = [json.loads(line) for line in result.stderr.splitlines()]
    assert {"time", "level", "event", "message"} <= set.intersection(*map(set, lines))
    events = [line["event"] for line in lines]
    assert events[:2] == ["started", "warning"]
    assert events[-1] == "finished"
    assert events.count("batch") == 8
    assert (lines[1]["level"], lines[1]["message"]) == ("warning", "take care of it")
    drift = [line for line in lines if line["event"] == "drift"]
    assert [(line["kind"], line["level"]) for line in drift] == [
        ("provisional", "info"),
        ("abrupt", "warning"),
    ]
    for line in drift:
        assert (line["block"], line["first"], line["parameter"]) == ("x", 5, "mean of x")
        assert line["before"] == pytest.approx(0.0, abs=0.5)
        assert line["after"] == pytest.approx(6.0, abs=0.5)
    batch = next(line for line in lines if line["event"] == "batch")
    assert (batch["batch"], batch["rows"], batch["rho"]) == (0, 20, None)
    assert lines[-1]["batches"] == 8
    assert lines[0]["time"].endswith("+00:00")


def test_errors_are_lines_of_json_too(config):
    change(config, "rows = 20", "rows = 0")
    result = asked(config, "--log", "json", "--quiet")
    line = json.loads(result.stderr)
    assert (result.exit_code, line["event"], line["level"], line["code"]) == (
        2,
        "error",
        "error",
        2,
    )
    assert asked(config, "--log", "xml").exit_code == 2


def test_on_a_terminal_there_is_one_line(config, monkeypatch):
    monkeypatch.setenv("FORCE_COLOR", "1")
    monkeypatch.setenv("TERM", "xterm")
    result = asked(config)
    assert result.exit_code == 0, result.output
    assert "\x1b[" in result.stderr
    assert "Finished after 8 batches, 150 rows" in result.stderr


def test_a_port_that_is_taken(config, tmp_path):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        config.write_text(config.read_text() + f"[metrics]\nport = {port}\n")
        result = asked(config)
    assert result.exit_code == 2
    assert f"[metrics] port: cannot listen on 127.0.0.1:{port} (address already" in result.stderr
    assert result.output.count("\n") == 1
    assert not (tmp_path / "out").exists()


class Live:
    """A run in a process of its own that follows a folder."""

    def __init__(self, config, *more):
        command = [sys.executable, "-m", "streambayes", "run", str(config), "--log", "json", *more]
        self.process = subprocess.Popen(
            command, stderr=subprocess.PIPE, text=True, env={**os.environ, "JAX_PLATFORMS": "cpu"}
        )
        self.lines = []

    def until(self, event, number=1):
        """Read lines until so many of an event have come; the last."""
        while number:
            line = self.process.stderr.readline()
            assert line, self.lines
            self.lines.append(json.loads(line))
            number -= self.lines[-1]["event"] == event
        return self.lines[-1]

    def ended_by(self, sent):
        self.process.send_signal(sent)
        return self.process.wait(timeout=20)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.process.kill()
        self.process.wait()
        self.process.stderr.close()


def fetched(url):
    with urllib.request.build_opener().open(url, timeout=20) as page:
        return page.read().decode()


def test_signals_end_a_live_run_cleanly_and_it_goes_on(config, tmp_path):
    change(config, 'type = "files"\nfiles = "rows-*.csv"\n', LIVE)
    config.write_text(config.read_text() + "[metrics]\nport = 0\n")
    coming = tmp_path / "coming"
    write_rows(coming / "a.csv", 0)
    with Live(config, "--dashboard") as live:
        started = live.until("started")
        live.until("batch", 2)
        text = fetched(started["metrics"])
        assert "page.js" in fetched(started["dashboard"])
        sent = time.monotonic()
        assert live.ended_by(signal.SIGTERM) == 143
        assert time.monotonic() - sent < 10
        stopped = live.until("stopped")
    assert (stopped["why"], stopped["batches"], stopped["rows"]) == ("SIGTERM", 2, 40)
    assert "streambayes_batches_total 2.0" in text
    assert "streambayes_rows_total 40.0" in text
    for name in ("late_rows_total", "drift_events_total", "bound", "rho"):
        assert f"\nstreambayes_{name} " in text
    assert re.search(r'\nstreambayes_score\{score="prequential"\} -\d', text)
    assert '\nstreambayes_block_retained{block="x"} 40.0' in text
    assert re.search(r'\nstreambayes_block_moved\{block="x"\} \d', text)
    assert 'streambayes_step_seconds_bucket{le="+Inf"} 2.0' in text
    assert "streambayes_last_batch_timestamp_seconds 1" in text
    assert last(tmp_path / "out").num_batches == 2
    with Live(config, "--resume") as live:
        assert live.until("started")["batches"] == 2
        write_rows(coming / "b.csv", 1)
        live.until("batch", 3)
        assert live.ended_by(signal.SIGINT) == 130
    assert last(tmp_path / "out").num_batches == 5
    whole = "".join(path.read_text() for path in (coming / "a.csv", coming / "b.csv"))
    whole = whole.replace("time,x\n", "").splitlines()[:100]
    rows = np.array([float(line.split(",")[1]) for line in whole])
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    stream = sb.batches({"x": rows}, rows=20)
    state = sb.run(learner, stream, progress=False).state
    assert is_same(last(tmp_path / "out").state.belief, state.belief)


def test_a_run_that_waits_for_its_first_batch_ends_at_once(config):
    change(config, 'type = "files"\nfiles = "rows-*.csv"\n', LIVE)
    with Live(config) as live:
        live.until("started")
        time.sleep(0.5)
        assert live.ended_by(signal.SIGTERM) == 143
        assert live.until("stopped")["batches"] == 0


def test_a_second_interrupt_is_not_waited_for(config, monkeypatch):
    read = sb.sources.Files.read

    def interrupted(*arguments):
        chunks = read(*arguments)
        yield next(chunks)
        os.kill(os.getpid(), signal.SIGINT)
        os.kill(os.getpid(), signal.SIGINT)
        yield from chunks

    monkeypatch.setattr(sb.sources.Files, "read", interrupted)
    result = asked(config)
    assert result.exit_code == 130
    assert "Error: interrupted" in result.stderr
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler


class Finalised:
    """Python drops exceptions that come while it finalises something."""

    def __del__(self):
        os.kill(os.getpid(), signal.SIGINT)


@pytest.mark.parametrize("place", ["Metrics", "_opening", "learn"])
def test_a_signal_before_the_first_batch_is_never_lost(config, tmp_path, monkeypatch, place):
    """Not even one that comes where an exception would be: a live stream would go on for ever."""
    config.write_text(config.read_text() + "[metrics]\nport = 0\n")
    whole = getattr(_run, place)

    def signalled(*arguments, **options):
        Finalised()
        return whole(*arguments, **options)

    monkeypatch.setattr(_run, place, signalled)
    result = asked(config)
    assert result.exit_code == 130, result.output
    assert "Stopped (SIGINT) after 0 batches" in result.stderr
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    monkeypatch.undo()
    assert asked(config, "--resume").exit_code == 0
    assert last(tmp_path / "out").num_batches == 8


def test_help_has_examples_and_exit_codes():
    result = asked("--help")
    assert result.exit_code == 0
    for said in ("streambayes run stream.toml --resume", "Exit codes", "143", "--until"):
        assert said in result.output


def test_a_signal_before_the_run_begins_ends_the_program(config, tmp_path):
    code = (
        "import os, signal, sys\n"
        "from streambayes.cli import _run, main\n"
        "def slow(path):\n"
        "    os.kill(os.getpid(), signal.SIGINT)\n"
        "    raise AssertionError('the signal was lost')\n"
        "_run.read_config = slow\n"
        "main()\n"
    )
    process = subprocess.run(
        [sys.executable, "-c", code, "run", str(config)],
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert (process.returncode, process.stderr) == (130, "")
    assert not (tmp_path / "out").exists()


def test_a_signal_that_is_ignored_stays_so(config, monkeypatch):
    read = sb.sources.Files.read

    def signalled(*arguments):
        os.kill(os.getpid(), signal.SIGINT)
        yield from read(*arguments)

    signal.signal(signal.SIGINT, signal.SIG_IGN)
    monkeypatch.setattr(sb.sources.Files, "read", signalled)
    assert asked(config).exit_code == 0
    assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
