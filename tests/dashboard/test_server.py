"""The server of the live page: what it tells, and what it keeps to itself."""

import http.client
import json
import shutil
import time
import urllib.parse

import pytest

import streambayes as sb
from streambayes.dashboard import Dashboard

from .conftest import learned, stream

PATHS = [
    "/",
    "/page.js",
    "/page.css",
    "/plotly.js",
    "/runs",
    "/overview?run=first",
    "/block?run=first&number=0",
]


def ask(page, path, *, method="GET", **headers):
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
    try:
        connection.request(method, path, headers=headers)
        answer = connection.getresponse()
        return answer.status, dict(answer.getheaders()), answer.read().decode()
    finally:
        connection.close()


def told(page, path):
    status, _, text = ask(page, path)
    assert status == 200, text
    return json.loads(text)


def news(page, run, wanted=lambda _: True):
    """What the page is told, up to the first news that is wanted."""
    connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
    try:
        connection.request("GET", "/live?run=" + urllib.parse.quote(run))
        answer = connection.getresponse()
        assert answer.headers["Content-Type"].startswith("text/event-stream")
        end = time.monotonic() + 20
        while time.monotonic() < end:
            line = answer.readline().decode()
            assert line, "the stream has ended"
            if line.startswith("data: "):
                found = json.loads(line.removeprefix("data: "))
                if wanted(found):
                    return found
        pytest.fail(f"no such news; the last: {found}")
    finally:
        connection.close()


@pytest.fixture(scope="module")
def page(finished):
    with Dashboard(finished, port=0) as served:
        yield served


def test_it_tells_what_the_run_found(page, finished):
    found = news(page, "first", lambda now: now["reading"] is None)
    drift = sb.find_drift(finished / "first")
    assert found["num_batches"] == 40
    assert found["facts"] == {"policy": "Auto", "model": "Gaussian", "total": None}
    assert found["ended"] == "finished"
    assert [event["sentence"] for event in found["events"]] == [one.sentence for one in drift]
    overview = told(page, "/overview?run=first")
    assert overview["blocks"] == ["x", "y", "z"]
    assert len(overview["labels"]) == 40
    assert overview["story"]["headline"].startswith("0 to 39 · 40 batches · ")
    block = told(page, "/block?run=first&number=1")
    assert [parameter["name"] for parameter in block["parameters"]] == [
        "mean of y",
        "standard deviation of y",
    ]


def test_runs_are_found_by_name(page):
    assert told(page, "/runs")["total"] == 2
    found = told(page, "/runs?search=SEC")
    assert found == {"total": 2, "matching": 1, "runs": [{"key": "second", "name": "second"}]}
    assert news(page, "second")["facts"]["policy"] == "HPP"


@pytest.mark.parametrize("path", PATHS)
def test_every_answer_forbids_what_it_does_not_need(page, path):
    status, headers, _ = ask(page, path)
    assert status == 200
    policy = {name.lower(): value for name, value in headers.items()}
    assert policy["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert policy["x-content-type-options"] == "nosniff"
    assert policy["cache-control"] == "no-store"


@pytest.mark.parametrize("path", PATHS)
def test_nothing_can_be_sent_to_it(page, path):
    for method in ("POST", "PUT", "DELETE"):
        assert ask(page, path, method=method)[0] == 405


@pytest.mark.parametrize(
    "run",
    [
        "..",
        "../first",
        "first/../second",
        "/etc",
        "first/records.jsonl",
        "%2e%2e",
        "first\0",
        "",
        ".",
        "leads-out",
        "file-leads-out",
        "x" * 4000,
    ],
)
def test_nothing_but_runs_can_be_read(run, tmp_path):
    learned(tmp_path / "runs" / "first", sb.SVB(), list(stream(3)))
    learned(tmp_path / "secret", sb.SVB(), list(stream(3)))
    (tmp_path / "runs" / "leads-out").symlink_to(tmp_path / "secret")
    (tmp_path / "runs" / "file-leads-out").mkdir()
    (tmp_path / "runs" / "file-leads-out" / "records.jsonl").symlink_to(
        tmp_path / "secret" / "records.jsonl"
    )
    with Dashboard(tmp_path / "runs", port=0) as page:
        assert told(page, "/runs")["total"] == 1
        for what in ("overview", "live", "block"):
            query = urllib.parse.urlencode({"run": run, "number": 0})
            assert ask(page, f"/{what}?{query}")[0] == 404


@pytest.mark.parametrize(
    "path",
    ["/../pyproject.toml", "/page.html", "/records.jsonl", "/first/records.jsonl", "//etc/passwd"],
)
def test_there_are_no_other_paths(page, path):
    assert ask(page, path)[0] == 404


@pytest.mark.parametrize("number", ["", "-1", "3", "1.5", "x", "9" * 400, "²"])
def test_blocks_that_there_are_not(page, number):
    assert ask(page, "/block?run=first&number=" + urllib.parse.quote(number))[0] == 404


def test_another_site_cannot_read_it_by_a_name_of_its_own(page):
    assert ask(page, "/runs", Host="evil.example")[0] == 403
    assert ask(page, "/runs", Host=f"localhost:{page.port}")[0] == 200
    assert ask(page, "/runs", Host=f"[::1]:{page.port}")[0] == 200


def test_others_need_a_token(finished):
    with pytest.raises(ValueError, match=r"could be seen by others: give a token"):
        Dashboard(finished, host="0.0.0.0", port=0)
    with pytest.raises(ValueError, match="token must have at least 8 letters, got 5"):
        Dashboard(finished, token="short")  # noqa: S106
    with Dashboard(finished, host="0.0.0.0", port=0, token="ein Geheimnis; ñ=&") as page:  # noqa: S106
        for path in PATHS:
            assert ask(page, path)[0] == 401
        assert ask(page, "/?token=wrong-token")[0] == 401
        assert ask(page, "/runs", Cookie=f"streambayes-{page.port}=guess")[0] == 401
        query = urllib.parse.urlparse(page.url).query
        status, headers, _ = ask(page, "/?" + query)
        assert (status, headers["location"]) == (303, "/")
        cookie = headers["set-cookie"]
        assert "HttpOnly" in cookie
        assert "SameSite=strict" in cookie
        held = cookie.split(";")[0]
        assert "Geheimnis" not in held
        for path in PATHS:
            assert ask(page, path, Cookie=held)[0] == 200


def test_where_it_listens(finished):
    with Dashboard(finished) as first, Dashboard(finished) as second:
        assert first.url == f"http://127.0.0.1:{first.port}/"
        assert second.port != first.port
        with pytest.raises(OSError, match=r"cannot listen on 127\.0\.0\.1, port"):
            Dashboard(finished, port=first.port)
    with pytest.raises(ValueError, match="port must lie between 0 and 65535"):
        Dashboard(finished, port=70000)
    with pytest.raises(NotADirectoryError, match="is a file; give the folder"):
        Dashboard(finished / "first" / "records.jsonl")


def test_a_run_that_goes_on_and_one_that_takes_its_place(tmp_path):
    folder = tmp_path / "run"
    with Dashboard(folder, port=0) as page:
        assert told(page, "/runs")["total"] == 0
        found = learned(folder, sb.SVB(), list(stream(3)))
        assert news(page, "run")["num_batches"] == 3
        learned(folder, sb.SVB(), list(stream(2)), state=found.state)
        assert news(page, "run", lambda now: now["num_batches"] == 5)["ended"] == "finished"
        shutil.rmtree(folder)
        learned(folder, sb.HPP(), list(stream(4)))
        assert news(page, "run", lambda now: now["facts"]["policy"] == "HPP")["num_batches"] == 4
        with (folder / "records.jsonl").open("a") as file:
            file.write("no record\n")
        broken = news(page, "run", lambda now: "cannot be read" in (now["ended"] or ""))
        assert "not a record of a run" in broken["ended"]
        assert broken["num_batches"] == 4


def test_it_waits_until_all_who_look_have_seen_the_end(tmp_path):
    folder = tmp_path / "run"
    learned(folder, sb.SVB(), list(stream(3)))
    with Dashboard(folder, port=0) as page:
        page.wait_until_seen(20.0)  # nobody looks
        connection = http.client.HTTPConnection("127.0.0.1", page.port, timeout=20)
        connection.request("GET", "/live?run=run")
        answer = connection.getresponse()
        while not answer.readline().startswith(b"data: "):
            pass
        started = time.monotonic()
        page.wait_until_seen(2.0)  # the end is known, but nobody has asked for the last figures
        assert time.monotonic() - started > 1.9
        told(page, "/overview?run=run")
        started = time.monotonic()
        page.wait_until_seen(20.0)
        assert 0.5 < time.monotonic() - started < 10.0
        connection.close()


def test_many_streams(tmp_path):
    learned(tmp_path / "one", sb.SVB(), list(stream(2)))
    for number in range(300):
        shutil.copytree(tmp_path / "one", tmp_path / f"device {number:03d}")
    with Dashboard(tmp_path, port=0) as page:
        found = told(page, "/runs?search=device")
        assert (found["total"], found["matching"], len(found["runs"])) == (301, 300, 200)
        for number in range(20):
            key = told(page, f"/runs?search=29{number % 10}")["runs"][0]["key"]
            assert news(page, key)["num_batches"] == 2
