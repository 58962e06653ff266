"""What a newcomer runs first: a real stream, five ways to forget, a table, figures and a report."""

import dataclasses
from pathlib import Path

from streambayes.experiments._contest import Advance, hold_contest
from streambayes.experiments._report import Report, write_report
from streambayes.experiments.electricity import calendar_months
from streambayes.forgetting import HPP, MHPP, SVB, Auto, PowerPrior
from streambayes.models import Network
from streambayes.reports import write_report as write_page

__all__ = ["demonstrate", "market"]


def market() -> Network:
    """Whether the price goes up, from what was known at home; the neighbour's columns stand beside it.

    Nothing depends on the columns of Victoria, so they may be missing for a year at no cost.
    """
    net = Network()
    home = net.normal(["period", "nswprice", "nswdemand"])
    net.normal(["vicprice", "vicdemand", "transfer"])
    net.normal("up", parents=home, coefficients="conjugate")
    return net


def demonstrate(output: str | Path, *, advance: Advance | None = None) -> Report:
    """Learn the electricity market month by month with Auto, SVB, PP, HPP and MHPP.

    Args:
        output: Folder to write into; it is made if it is not there.
        advance: Called with what is being done, how many runs are done and how many there are.
    """
    contest = hold_contest(
        market(),
        calendar_months()[:31],  # the last one has five days
        {
            "Auto": Auto(),
            "SVB": SVB(),
            "PP 0.9": PowerPrior(0.9),
            "HPP": HPP(),
            "MHPP": MHPP(),
        },
        starts=1,
        prequential=False,
        advance=advance,
        record=Path(output) / "runs",
    )
    title = "Electricity: 31 months of a market that was joined with another after a year"
    found = write_report(contest, Path(output), title, {})
    page = write_page(Path(output) / "runs", Path(output) / "report.html", title=title)
    return dataclasses.replace(found, files=(page, *found.files))
