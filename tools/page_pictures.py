"""Pictures of the report and of the live page for the documentation, from the runs of ``make demo``.

    make demo
    .venv/bin/python tools/page_pictures.py build/demo docs/figures/report

Needs chromium.
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, Page, sync_playwright

from streambayes.dashboard import Dashboard
from streambayes.reports import write_report

_DESKTOP, _PHONE = (900, 1150), (360, 760)


def main(demo: Path, pictures: Path) -> None:
    """Open both pages as they are seen on a desk and on a phone, in light and in the dark."""
    pictures.mkdir(parents=True, exist_ok=True)
    with sync_playwright() as playwright, tempfile.TemporaryDirectory() as folder:
        browser = playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        report = write_report(
            demo / "runs" / "Auto",
            Path(folder) / "report.html",
            title="Electricity in New South Wales",
        )
        address = report.resolve().as_uri()
        tab = _opened(browser, address, _DESKTOP, dark=False)
        _pictured(tab, pictures / "report.png")
        _pictured(tab, pictures / "report-below.png", "#map")
        tab = _opened(browser, address, _PHONE, dark=True)
        _pictured(tab, pictures / "phone.png")
        _pictured(tab, pictures / "phone-map.png", "#map")
        with Dashboard(demo / "runs", port=0) as page:
            tab = _opened(browser, page.url, _DESKTOP, dark=True)
            _pictured(tab, pictures / "watch.png")
            tab.close()
        browser.close()


def _opened(browser: Browser, address: str, size: tuple[int, int], *, dark: bool) -> Page:
    width, height = size
    tab = browser.new_page(
        viewport={"width": width, "height": height}, color_scheme="dark" if dark else "light"
    )
    tab.goto(address)
    tab.wait_for_selector("#block-figure .main-svg")
    tab.wait_for_timeout(1000)  # the figures have their sizes
    return tab


def _pictured(tab: Page, path: Path, section: str = "header") -> None:
    """What is seen from a section on."""
    tab.evaluate("section => document.querySelector(section).scrollIntoView()", section)
    tab.screenshot(path=path)


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
