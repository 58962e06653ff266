"""A run of 1,000 blocks and 10,000 batches, its report, and its live page in headless Chromium.

    .venv/bin/python benchmarks/large_run.py build/large

Learns the stream first, if the folder is not there: ten minutes and 1.2 GB of disk. Prints a table.
"""

import resource
import shutil
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
from playwright.sync_api import Page, sync_playwright

import streambayes as sb
from streambayes.dashboard import Dashboard
from streambayes.reports import write_report

_BLOCKS, _BATCHES, _ROWS = 1000, 10_000, 50


def learn(folder: Path) -> None:
    """Some columns jump every hundred batches."""
    rng = np.random.default_rng(0)
    names = [f"sensor {number:04d}" for number in range(_BLOCKS)]

    def stream() -> Iterator[dict[str, Any]]:
        level = np.zeros(_BLOCKS)
        for number in range(_BATCHES):
            if number % 100 == 99:
                level[rng.integers(0, _BLOCKS, 3)] += rng.normal(0.0, 2.0, 3)
            yield dict(zip(names, rng.normal(level, 1.0, (_ROWS, _BLOCKS)).T, strict=True))

    learner = sb.StreamLearner(sb.models.Gaussian(names), sb.MHPP())
    sb.run(learner, stream(), prequential=False, record=folder)


def seconds_until(page: Page, list_id: str, choice: dict[str, Any], condition: str) -> float:
    """Choose something in a list; seconds until a condition holds."""
    started = time.perf_counter()
    page.select_option(list_id, **choice)
    while not page.evaluate(condition):
        page.wait_for_timeout(5)
    return time.perf_counter() - started


def look(page: Page) -> dict[str, float]:
    """Use the page: choose a block, the other map, search."""
    shown = "document.querySelector('#blocks').selectedOptions[0].text"
    return {
        "another block is drawn": seconds_until(
            page,
            "#blocks",
            {"index": 77},
            f"() => document.querySelector('#block-figure').dataset.block === {shown}",
        ),
        "the other map is drawn": seconds_until(
            page,
            "#kind",
            {"value": "moved"},
            "() => document.querySelector('#map-figure').data[0].zmin === -4",
        ),
    }


def main(folder: Path) -> None:
    """Measure, and print."""
    if not folder.exists():
        learn(folder)
    rows: dict[str, str] = {}
    rows["records on disk"] = f"{(folder / 'records.jsonl').stat().st_size / 1e6:,.0f} MB"
    started = time.perf_counter()
    report = write_report(folder, folder.parent / "large.html")
    rows["report is written"] = f"{time.perf_counter() - started:.0f} s"
    rows["its size"] = f"{report.stat().st_size / 1e6:.1f} MB"
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        page = browser.new_page()
        started = time.perf_counter()
        page.goto(report.resolve().as_uri())
        page.wait_for_selector("#block-figure .main-svg")
        rows["report: opened, figures drawn"] = f"{time.perf_counter() - started:.1f} s"
        rows |= {f"report: {what}": f"{taken:.2f} s" for what, taken in look(page).items()}
        with Dashboard(folder, port=0) as served:
            page = browser.new_page()
            started = time.perf_counter()
            page.goto(served.url)
            page.wait_for_selector("#block-figure .main-svg")
            rows["live page: first figures"] = f"{time.perf_counter() - started:.1f} s"
            longest = 0.0
            while "finished" not in page.inner_text("#status"):
                asked = time.perf_counter()
                page.evaluate("() => 1")
                longest = max(longest, time.perf_counter() - asked)
                page.wait_for_timeout(100)
            rows["live page: all has been read"] = f"{time.perf_counter() - started:.0f} s"
            rows["live page: the longest that it does not react meanwhile"] = f"{longest:.2f} s"
            page.wait_for_timeout(8000)
            rows |= {f"live page: {what}": f"{taken:.2f} s" for what, taken in look(page).items()}
        browser.close()
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e6
    rows["memory of all that, at the peak"] = f"{peak:.2f} GB"
    print("| | |\n|---|---|")
    for what, value in rows.items():
        print(f"| {what} | {value} |")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
