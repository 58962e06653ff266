"""Pictures of the report and of the live page for the documentation, from the runs of ``make demo``.

    make demo
    .venv/bin/python tools/page_pictures.py build/demo docs/figures/report

Needs chromium.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import sync_playwright

from streambayes.dashboard import Dashboard
from streambayes.reports import write_report

_DRAWN = "#block-figure .main-svg"


def main(demo: Path, pictures: Path) -> None:
    """Open both pages and take a picture of each."""
    pictures.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        tab = browser.new_page(viewport={"width": 900, "height": 1150})
        report = write_report(
            demo / "runs" / "Auto",
            Path(folder) / "report.html",
            title="Electricity, month by month",
        )
        tab.goto(report.resolve().as_uri())
        tab.wait_for_selector(_DRAWN)
        tab.screenshot(path=pictures / "report.png")
        tab = browser.new_page(viewport={"width": 900, "height": 1150}, color_scheme="dark")
        with Dashboard(demo / "runs", port=0) as page:
            tab.goto(page.url)
            tab.wait_for_selector(_DRAWN)
            tab.wait_for_timeout(1000)
            tab.screenshot(path=pictures / "watch.png")
        browser.close()


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
