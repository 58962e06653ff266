"""The paper's Finance experiment on a stand-in: loans of Lending Club, a batch for each month.

The bank's data of the paper was never public.
"""

from collections.abc import Sequence
from pathlib import Path

from streambayes.datasets import lending_club
from streambayes.experiments._contest import Advance, hold_contest, policies_of_table_1
from streambayes.experiments._report import Published, Report, read_authors, write_report
from streambayes.learning import StreamBatch
from streambayes.models import MixtureNaiveBayes
from streambayes.sources import batches

__all__ = ["MODEL", "PUBLISHED", "months", "reproduce"]

MODEL = MixtureNaiveBayes("default", 2, ["log_income", "dti", "revol_util"], 5)
PUBLISHED: Published = {
    "paper": {
        "SVB": -19.84,
        "PVB M=10000 nu=0.1": -22.29,
        "PVB M=10000 nu=0.01": -22.57,
        "PVB M=batch nu=0.1": -21.81,
        "PVB M=batch nu=0.01": -22.07,
        "Fading 0.9": -19.05,
        "Fading 0.99": -19.78,
        "HPP": -19.83,
        "MHPP": -19.40,
    }
}


def months(data: str | Path) -> list[StreamBatch]:
    """A batch for each month, 2007 in one.

    Args:
        data: The file that ``datasets.lending_club`` reads.
    """
    return list(batches(lending_club(data), by="batch"))


def reproduce(
    output: str | Path,
    *,
    data: str | Path,
    methods: Sequence[str] | None = None,
    num_starts: int = 5,
    num_batches: int | None = None,
    reference: str | Path | None = None,
    advance: Advance | None = None,
) -> Report:
    """Run the experiment and write its numbers and figures.

    Args:
        output: Folder to write into; it is made if it is not there.
        data: Loans as the company published them, CSV or parquet.
        methods: Names of methods to learn with; all by default, SVB in any case.
        num_starts: How many starts all methods share.
        num_batches: Learn only so many months.
        reference: Folder with the authors' results on the bank's data, ``finance_tmll.csv``.
        advance: Called with what is being done, how many runs are done and how many there are.
    """
    stream = months(data)[:num_batches]
    authors = None if reference is None else read_authors(Path(reference) / "finance_tmll.csv", 63)
    contest = hold_contest(
        MODEL,
        stream,
        policies_of_table_1(stream, methods),
        starts=num_starts,
        advance=advance,
        tolerance=1e-7,
    )
    title = f"Finance: Lending Club, {len(stream)} batches, a third of the rows held out"
    return write_report(contest, Path(output), title, PUBLISHED, authors)
