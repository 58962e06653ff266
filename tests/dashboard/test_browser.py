"""The live page and the report in a real browser."""

import contextlib
import json
import os
import queue
import shutil
import signal
import subprocess
import sys
import threading
import time

import numpy as np
import pytest
from playwright.sync_api import expect, sync_playwright

import streambayes as sb
from streambayes.dashboard import Dashboard
from streambayes.reports import write_report

from .conftest import stream

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")
if CHROMIUM is None and os.environ.get("STREAMBAYES_BROWSER") != "required":  # .ci/run says so
    pytest.skip("needs chromium: apt-get install chromium", allow_module_level=True)

WAIT = 60_000
FIGURES = ["#scores-figure", "#map-figure", "#block-figure"]


@pytest.fixture(scope="module")
def browser():
    with sync_playwright() as playwright:
        opened = playwright.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        yield opened
        opened.close()


class Tab:
    """A tab, and everything that was said or asked for in it."""

    def __init__(self, browser, **options):
        self.page = browser.new_page(viewport={"width": 1100, "height": 900}, **options)
        self.page.set_default_timeout(WAIT)
        self.said, self.asked = [], []
        self.page.on("console", lambda message: self.said.append((message.type, message.text)))
        self.page.on("pageerror", lambda error: self.said.append(("error", str(error))))
        self.page.on("request", lambda request: self.asked.append(request.url))
        self.page.on("dialog", lambda dialog: self.said.append(("dialog", dialog.message)))

    @contextlib.contextmanager
    def watching(self, folder):
        """Open the live page of a folder, and leave it before its server stops: later it would be asked in vain."""
        with Dashboard(folder, port=0) as served:
            self.page.goto(served.url)
            yield
            self.page.goto("about:blank")

    def see(self, what, text):
        expect(self.page.locator(what)).to_contain_text(text, timeout=WAIT)

    def drawn(self):
        for figure in FIGURES:
            self.page.wait_for_selector(f"{figure} .main-svg")

    def until(self, condition, given=None):
        """Wait; the page's policy forbids Playwright's own way, which evaluates text."""
        end = time.monotonic() + WAIT / 1000
        while not self.page.evaluate(condition, given):
            assert time.monotonic() < end, condition
            self.page.wait_for_timeout(50)

    def curve(self, figure, trace):
        """Numbers that are drawn."""
        return self.page.evaluate(
            "([id, trace]) => Array.from(document.querySelector(id).data[trace].y)", [figure, trace]
        )


@pytest.fixture
def tab(browser):
    """A tab in which nothing may go wrong, and which asks nobody but its own server."""
    opened = Tab(browser)
    yield opened
    assert opened.said == []
    hosts = {url.split("/")[2].split(":")[0] for url in opened.asked if url.startswith("http")}
    assert hosts <= {"127.0.0.1"}
    assert all(
        url.startswith(("http://127.0.0.1:", "data:", "blob:", "file://")) for url in opened.asked
    )
    opened.page.close()


@contextlib.contextmanager
def running(folder):
    """A run that learns a batch whenever it is given one."""
    given, written = queue.Queue(), queue.Queue()
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y", "z"]))

    def run():
        sb.run(
            learner,
            iter(given.get, None),
            record=folder,
            progress=False,
            on_record=lambda record: written.put((record, time.perf_counter())),
        )

    thread = threading.Thread(target=run)
    thread.start()

    def learn(batch):
        given.put(batch)
        return written.get(timeout=120)[1]

    try:
        yield learn
    finally:
        given.put(None)
        thread.join()


def test_a_run_is_watched_while_it_goes_on(tab, tmp_path, record_property):
    folder = tmp_path / "run"
    batches = list(stream(30, at=20))
    with tab.watching(folder), running(folder) as learn:
        tab.see("#status", "waiting for the first batch")
        for batch in batches[:20]:
            learn(batch)
        tab.see("#status", "20 batches")
        tab.see("#status", "rows/s")
        tab.see("#status", "running")
        tab.drawn()
        assert tab.page.locator("#event-list tbody tr").count() == 0
        # a change appears without a reload
        written = learn(batches[20])
        item = tab.page.wait_for_selector("#event-list tbody tr")
        latency = time.perf_counter() - written
        record_property("seconds from a record to its change on the page", f"{latency:.2f}")
        assert item.inner_text().startswith("20\nchange or unusual batch\tmean of y ")
        for batch in batches[21:]:
            learn(batch)
        tab.see("#status", "30 batches")
        tab.see("#event-list", "mean of y changed at once")
        tab.see("#story", "Batch 20: mean of y changed at once")
        tab.until("() => document.querySelector('#scores-figure').data[0].y.length === 30")
        assert sum(url.endswith("/page.js") for url in tab.asked) == 1
        scores = [record.prequential for record in sb.read_records(folder)]
        assert tab.curve("#scores-figure", 0)[1:] == pytest.approx(scores[1:], rel=1e-4)


def test_a_block_is_shown_when_it_is_chosen(tab, finished):
    with tab.watching(finished):
        tab.drawn()
        tab.see("#headline", "0 to 39 · 40 batches")
        tab.see("#num-events", "1")
        expected = {
            block: [
                record.parameters[block][f"mean of {block}"][0]
                for record in sb.read_records(finished / "first")
            ]
            for block in "xyz"
        }

        def shows(block):
            tab.until(
                "name => document.querySelector('#block-figure').dataset.block === name", block
            )
            assert tab.curve("#block-figure", 2) == pytest.approx(expected[block], rel=1e-4)

        shows("y")  # the one that has changed
        # a row of the map: the last of three
        area = tab.page.locator("#map-figure .nsewdrag").first
        area.scroll_into_view_if_needed()
        box = area.bounding_box()
        tab.page.mouse.move(box["x"] + box["width"] / 2, box["y"] + 0.8 * box["height"])
        tab.see("#map-hover", ", z: ")
        tab.page.mouse.down()
        tab.page.mouse.up()
        shows("z")
        tab.page.select_option("#blocks", label="x")
        shows("x")
        tab.page.click("#pattern-list button >> text=z")
        shows("z")
        tab.page.click("#event-list button")
        shows("y")
        tab.page.fill("#block-search", "Z")
        assert tab.page.locator("#blocks option").all_inner_texts() == ["z"]
        tab.page.select_option("#kind", "moved")
        tab.until("() => document.querySelector('#map-figure').data[0].zmin === -4")


def test_one_of_several_runs_is_picked(tab, finished):
    with tab.watching(finished):
        tab.see("#found", "2 of 2")
        tab.page.fill("#search", "sec")
        tab.see("#found", "1 of 2")
        tab.page.select_option("#runs", label="second")
        tab.see("#status", "10 of 10 batches")
        tab.see("#title", "second")
        tab.see("#map-text", "One share for all blocks")


def test_a_dropped_connection_recovers(browser, tmp_path):
    folder = tmp_path / "run"
    tab = Tab(browser)
    batches = list(stream(8))
    with running(folder) as learn:
        for batch in batches[:4]:
            learn(batch)
        with Dashboard(folder, port=0) as served:
            tab.page.goto(served.url)
            tab.see("#status", "4 batches")
            url, port = served.url, served.port
        tab.see("#status", "The connection is lost; trying again.")
        for batch in batches[4:]:
            learn(batch)
        with Dashboard(folder, port=port):
            tab.see("#status", "8 batches")
            assert "lost" not in tab.page.locator("#status").get_attribute("class")
    assert tab.asked.count(url) == 1  # the page was not loaded again
    # nothing but the connection itself is complained about
    assert all("ERR_" in text for _, text in tab.said), tab.said
    tab.page.close()


STREAM = """\
[model]
type = "Gaussian"
names = "x"
[forgetting]
policy = "SVB"
[source]
type = "folder"
folder = "coming"
settle = 0
poll = 0.05
[batches]
rows = 20
[output]
folder = "out"
"""


@pytest.mark.parametrize("exits", [True, False])
def test_the_command_serves_until_its_end_was_seen(browser, tmp_path, exits):
    config, coming = tmp_path / "stream.toml", tmp_path / "coming"
    config.write_text(STREAM)
    coming.mkdir()
    command = [sys.executable, "-m", "streambayes", "run", str(config), "--dashboard", "--log=json"]
    command += ["--until=5", *(["--exit"] if exits else [])]
    tab = Tab(browser)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as process:
        try:
            said = map(json.loads, process.stderr)
            url = next(line["dashboard"] for line in said if line["event"] == "started")
            tab.page.goto(url)
            tab.see("#status", "waiting for the first batch")
            cells = "".join(f"{cell:.4f}\n" for cell in np.random.default_rng(0).normal(size=120))
            (coming / "rows.csv").write_text("x\n" + cells)
            tab.see("#status", "stopped: --until 5 · 5 batches")
            tab.see("#headline", "0 to 4 · 5 batches")
            tab.until("() => document.querySelector('#block-figure').data?.[2].y.length === 5")
            if not exits:
                told = next(line["message"] for line in said if line["event"] == "serving")
                assert told == f"{url} is served until you press Ctrl-C."
                process.send_signal(signal.SIGINT)
            assert process.wait(60) == 0
            tab.see("#status", "no longer served")
            assert "lost" not in (tab.page.locator("#status").get_attribute("class") or "")
        finally:
            process.kill()
    tab.page.close()


def test_the_report_opens_with_its_figures(tab, finished, tmp_path):
    path = write_report(finished, tmp_path / "report.html")
    tab.page.goto(path.as_uri())
    tab.drawn()
    assert len(tab.curve("#scores-figure", 0)) == 40
    assert tab.page.locator("#scores-legend").inner_text().split("\n") == [
        "first",
        "second",
        "sudden change",
    ]
    records = list(sb.read_records(finished / "first"))
    expected = [record.parameters["y"]["mean of y"][0] for record in records]
    assert tab.curve("#block-figure", 2) == pytest.approx(expected, abs=1e-3)
    tab.page.select_option("#runs", label="second")
    tab.see("#map-text", "One share for all blocks")
    tab.page.emulate_media(media="print")
    assert not tab.page.is_visible("#picker")
    assert tab.page.is_visible("#scores-figure")
    assert len(tab.asked) == 1 + sum(url.startswith(("data:", "blob:")) for url in tab.asked)


def test_figures_keep_to_their_places(tab, tmp_path):
    """Whichever run and block is chosen, nothing is drawn over the rest of the page."""
    rng = np.random.default_rng(0)
    names = [f"x{number}" for number in range(30)]
    wide = sb.StreamLearner(sb.models.Gaussian(names), sb.MHPP())
    batches = [{name: rng.normal(size=30) for name in names} for _ in range(5)]
    sb.run(wide, batches, record=tmp_path / "a wide", progress=False)
    line = sb.StreamLearner(sb.models.LinearRegression("x0", names[1:6]), sb.SVB())
    sb.run(line, [*batches, *batches], record=tmp_path / "line", progress=False)
    tab.page.goto(write_report(tmp_path, tmp_path / "report.html").as_uri())
    tab.see("#story", "of different batches or rows")
    assert tab.page.evaluate(
        "() => document.querySelector('#scores-figure').layout.xaxis.range"
    ) == [-0.5, 9.5]

    def keeps():
        tab.drawn()
        for figure in FIGURES:
            room, drawn = (
                tab.page.locator(one).first.bounding_box()
                for one in (figure, f"{figure} .main-svg")
            )
            assert drawn["height"] == pytest.approx(room["height"], abs=1)
            assert drawn["width"] == pytest.approx(room["width"], abs=1)

    keeps()
    tab.page.select_option("#runs", label="line")
    keeps()
    tab.page.select_option("#kind", "moved")
    keeps()
    for number in range(tab.page.locator("#blocks option").count()):
        tab.page.select_option("#blocks", index=number)
        keeps()


def test_a_dark_page_is_printed_on_white(browser, finished, tmp_path):
    tab = Tab(browser, color_scheme="dark")
    tab.page.goto(write_report(finished, tmp_path / "report.html").as_uri())
    tab.drawn()
    ink = "() => document.querySelector('#scores-figure').layout.font.color"
    assert tab.page.evaluate(ink) == "#e8e8e8"
    tab.page.evaluate("() => window.inks = []")
    tab.page.evaluate(
        "() => addEventListener('beforeprint', () => inks.push(document.querySelector('#scores-figure').layout.font.color))"
    )
    tab.page.pdf(path=tmp_path / "report.pdf")
    assert tab.page.evaluate("() => inks") == ["#16181d"]
    assert tab.page.evaluate(ink) == "#e8e8e8"
    assert (tmp_path / "report.pdf").stat().st_size > 10_000
    tab.page.close()


@pytest.fixture(scope="module")
def devices(tmp_path_factory):
    """Weeks of devices whose names differ at their ends alone; one of them changes."""
    rng = np.random.default_rng(0)
    names = [f"temperature of the bearing of machine {number}" for number in range(3)]
    weeks = np.datetime64("2023-10-02") + 7 * np.arange(40)
    batches = [
        sb.StreamBatch(
            {name: rng.normal(size=60) + 3.0 * (place >= 25 and "1" in name) for name in names},
            label=str(week),
        )
        for place, week in enumerate(weeks)
    ]
    folder = tmp_path_factory.mktemp("devices")
    learner = sb.StreamLearner(sb.models.Gaussian(names))
    sb.run(learner, batches, record=folder / "plant", progress=False)
    return names, write_report(folder / "plant", folder / "report.html")


def in_figures(tab, what):
    """Something of each figure."""
    script = "id => { const figure = document.querySelector(id); return WHAT; }"
    return [tab.page.evaluate(script.replace("WHAT", what), figure) for figure in FIGURES]


@pytest.mark.parametrize("width", [1100, 360])
def test_a_batch_stands_at_one_place_and_names_are_told_apart(tab, devices, width):
    names, path = devices
    tab.page.set_viewport_size({"width": width, "height": 800})
    tab.page.goto(path.as_uri())
    tab.drawn()
    axis = "figure._fullLayout.xaxis"
    first, *others = in_figures(tab, f"[{axis}._offset, {axis}._length]")
    assert others == [first, first]
    ticks = [
        "".join(tick.split())
        for tick in tab.page.locator("#map-figure .ytick text").all_text_contents()
    ]
    assert ticks == [name.replace(" ", "") for name in names]  # on several lines, and whole
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= width


def test_ticks_stand_where_months_begin_and_every_change_is_marked(tab, devices):
    names, path = devices
    tab.page.goto(path.as_uri())
    tab.drawn()
    ticks = in_figures(tab, "[figure.layout.xaxis.tickvals, figure.layout.xaxis.ticktext]")
    months = ["Nov<br>2023", "Dec", "Jan<br>2024", "Feb", "Mar", "Apr", "May", "Jun", "Jul"]
    assert ticks == 3 * [[[5, 9, 13, 18, 22, 26, 31, 35, 39], months]]
    marked = "figure.data.filter((one) => one.yaxis === 'y99').map((one) => one.x)"
    assert in_figures(tab, marked) == [[[25, 25, None]], [], [[25, 25, None]]]
    spots = "figure.data.filter((one) => one.mode === 'markers').map((one) => [one.x, one.y])"
    assert in_figures(tab, spots) == [[], [[[25], [1]]], []]
    tab.see("#story", "2023-10-02 to 2024-07-01 · 40 batches")
    for legend in ("#scores-legend", "#map-legend", "#block-legend"):
        tab.see(legend, "sudden change")
    tab.see("#pattern-list", names[1])


@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_report_fits_a_phone(browser, finished, tmp_path, scheme):
    path = write_report(finished, tmp_path / "report.html")
    tab = Tab(browser, color_scheme=scheme)
    tab.page.set_viewport_size({"width": 360, "height": 700})
    tab.page.goto(path.as_uri())
    tab.drawn()
    assert tab.page.evaluate("document.documentElement.scrollWidth") <= 360
    light = (
        tab.page.evaluate("getComputedStyle(document.body).backgroundColor") == "rgb(255, 255, 255)"
    )
    assert light == (scheme == "light")
    assert tab.said == []
    tab.page.close()


def test_names_are_shown_as_text(tab, tmp_path):
    """A run's name, columns and labels of batches with markup in them, on the live page and in the report."""
    names = ["<img src=x onerror=alert(1)>", "</script><script>alert(2)</script>", "a" * 400]
    rng = np.random.default_rng(0)
    batches = [
        sb.StreamBatch(
            {name: rng.normal(size=60) + 3.0 * (number >= 8) for name in names},
            label=f"<b>{number}</b>",
        )
        for number in range(12)
    ]
    folder = tmp_path / "%3Cscript%3Ealert(3)%3C%2Fscript%3E"
    learner = sb.StreamLearner(sb.models.Gaussian(names))
    sb.run(learner, batches, record=folder, progress=False)
    page = write_report(folder, tmp_path / "report.html", title="<script>alert(4)</script>")

    def looks_right():
        tab.drawn()
        tab.see("#event-list", "mean of <img src=x onerror=alert(1)> changed at once")
        tab.see("#event-list", "<b>8</b>")
        assert tab.page.locator("img").count() == 0
        labels = tab.page.locator("#map-figure .ytick text").all_text_contents()
        assert labels[0].startswith("<img src=x ")
        assert "<b>0</b>" in tab.page.locator("#scores-figure .xtick text").all_text_contents()

    tab.page.goto(page.as_uri())
    tab.see("#title", "<script>alert(4)</script>")
    looks_right()
    with tab.watching(tmp_path):
        tab.see("#title", "<script>alert(3)</script>")
        looks_right()
