"""The paper's GPS experiment: places and days of the week, a batch for each hour of the day.

The paper learns Geolife, whose licence forbids passing it on. Police stops in Minneapolis stand in for
it unless a download is at hand.
"""

from collections.abc import Sequence
from pathlib import Path

from streambayes.datasets import geolife, minneapolis_stops
from streambayes.experiments._contest import Advance, hold_contest, policies_of_table_1
from streambayes.experiments._report import Published, Report, read_authors, write_report
from streambayes.learning import StreamBatch
from streambayes.models import ConditionalMixture
from streambayes.sources import batches

__all__ = ["DAYS", "MODEL", "PUBLISHED", "hours", "reproduce"]

DAYS = ("Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun")
MODEL = ConditionalMixture(
    ["longitude", "latitude"], given="day", categories=DAYS, num_components=5
)
_METHODS = (
    "SVB",
    "PVB M=10000 nu=0.1",
    "PVB M=10000 nu=0.01",
    "PVB M=batch nu=0.1",
    "PVB M=batch nu=0.01",
    "Fading 0.9",
    "Fading 0.99",
    "HPP",
    "MHPP",
)
PUBLISHED: Published = {
    "paper": dict(
        zip(_METHODS, (-1.93, -2.03, -2.72, -1.88, -2.42, -1.89, -1.92, -1.86, -1.74), strict=True)
    ),
    # the authors' sheet leaves the last hour out of the numerator only
    "paper_corrected": dict(
        zip(
            _METHODS,
            (-1.976, -2.076, -2.773, -1.926, -2.468, -1.941, -1.973, -1.908, -1.776),
            strict=True,
        )
    ),
}


def hours(data: str | Path | None = None) -> list[StreamBatch]:
    """A batch for each hour of the day in UTC, from 0 on.

    Args:
        data: Folder with a download of Geolife; the stops in Minneapolis by default.
    """
    rows = minneapolis_stops() if data is None else geolife(data)
    return sorted(batches(rows, by="hour"), key=lambda batch: int(batch.label or 0))


def reproduce(
    output: str | Path,
    *,
    data: str | Path | None = None,
    group: str | None = None,
    methods: Sequence[str] | None = None,
    num_starts: int = 5,
    num_batches: int | None = None,
    reference: str | Path | None = None,
    advance: Advance | None = None,
) -> Report:
    """Run the experiment and write its numbers and figures.

    Args:
        output: Folder to write into; it is made if it is not there.
        data: Folder with a download of Geolife; the stops in Minneapolis by default.
        group: Column whose values are held out together, such as ``trajectory`` of Geolife.
        methods: Names of methods to learn with; all by default, SVB in any case.
        num_starts: How many starts all methods share.
        num_batches: Learn only so many hours.
        reference: Folder with the authors' results, ``gps_tmll.csv``.
        advance: Called with what is being done, how many runs are done and how many there are.
    """
    stream = hours(data)[:num_batches]
    authors = None if reference is None else read_authors(Path(reference) / "gps_tmll.csv", 24)
    contest = hold_contest(
        MODEL,
        stream,
        policies_of_table_1(stream, methods),
        starts=num_starts,
        group=group,
        advance=advance,
        tolerance=1e-7,
    )
    where = "police stops in Minneapolis" if data is None else "Geolife"
    split = "rows" if group is None else f"whole values of {group}"
    title = f"GPS: {where}, {len(stream)} hours, a third of the {split} held out"
    return write_report(contest, Path(output), title, PUBLISHED, authors)
