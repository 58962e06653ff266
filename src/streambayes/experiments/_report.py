"""A contest as files: a table, differences, every batch, figures."""

import csv
import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, final

from streambayes.experiments._contest import BASELINE, Contest, Difference, Score
from streambayes.experiments._contest_figures import plot_absolute, plot_differences, plot_rho
from streambayes.experiments._files import write_rows
from streambayes.reports._plotting import save_figure

__all__ = ["Published", "Report", "numbers", "read_authors", "read_table", "write_report"]

Published = Mapping[str, Mapping[str, float]]
"""Figures of the paper by method, under the name of a column."""
_COLUMNS: dict[Score, str] = {
    "test_bound": "tmll_bound",
    "test_predictive": "tmll_predictive",
    "prequential": "prequential",
}
_AUTHORS = {  # columns of the authors' sheets
    "svb": "SVB",
    "pvb_10k_0.1": "PVB M=10000 nu=0.1",
    "pvb_10k_0.01": "PVB M=10000 nu=0.01",
    "pvb_batch_0.1": "PVB M=batch nu=0.1",
    "pvb_batch_0.01": "PVB M=batch nu=0.01",
    "fading_0.9": "Fading 0.9",
    "fading_0.99": "Fading 0.99",
    "hpp": "HPP",
    "mhpp": "MHPP",
}


@final
@dataclasses.dataclass(frozen=True)
class Report:
    """What was found, and where it was written.

    Attributes:
        title: What was learned.
        contest: The runs.
        table: The rows of ``table.csv``.
        differences: The rows of ``differences.csv``.
        leaders: The rows of ``leaders.csv``.
        files: What was written.
    """

    title: str
    contest: Contest
    table: tuple[dict[str, Any], ...]
    differences: tuple[Difference, ...]
    leaders: tuple[dict[str, Any], ...]
    files: tuple[Path, ...]


def write_report(
    contest: Contest,
    folder: Path,
    title: str,
    published: Published,
    authors: Mapping[str, Sequence[float]] | None = None,
) -> Report:
    """Write all there is to see of a contest into a folder.

    Args:
        contest: The runs.
        folder: Where to write.
        title: What was learned.
        published: The paper's figures, to stand beside ours.
        authors: The authors' own results for every batch, by method.
    """
    folder.mkdir(parents=True, exist_ok=True)
    table = tuple(_table(contest, published))
    differences = tuple(_differences(contest))
    files = [
        write_rows(folder / "table.csv", table),
        write_rows(folder / "batches.csv", _batches(contest)),
    ]
    (folder / "differences.csv").unlink(missing_ok=True)  # of an earlier run
    if differences:
        rows = ({**dataclasses.asdict(one), "verdict": one.verdict} for one in differences)
        files.append(write_rows(folder / "differences.csv", rows))
    leaders = tuple(_leaders(contest))
    files.append(write_rows(folder / "leaders.csv", leaders))
    figures = {
        "tmll_difference": plot_differences(contest, authors),
        "tmll": plot_absolute(contest, authors),
        "expected_rho": plot_rho(contest),
    }
    for name, figure in figures.items():
        files += save_figure(figure, folder, name)
    return Report(title, contest, table, differences, leaders, tuple(files))


def read_authors(path: Path, num_batches: int) -> dict[str, list[float]]:
    """The authors' results for every batch, a column for each method; ``ValueError`` if they are not.

    Args:
        path: A CSV file with the columns ``svb``, ``hpp``, ``mhpp`` and so on.
        num_batches: How many rows it has.
    """
    rows = read_table(path, ("svb", "hpp", "mhpp"), num_batches)
    present = {name: column for column, name in _AUTHORS.items() if column in rows[0]}
    return {name: numbers(path, rows, column) for name, column in present.items()}


def read_table(path: Path, columns: Sequence[str], num_rows: int) -> list[dict[str, str]]:
    """The rows of a CSV file of the authors' results; ``ValueError`` if it is another file.

    Args:
        path: The file.
        columns: Columns that it has.
        num_rows: How many rows it has.
    """
    if not path.is_file():
        message = (
            f"{path.parent}: expected the authors' results for every batch, {path.name} is missing"
        )
        raise ValueError(message)
    try:
        with path.open(encoding="utf-8", newline="") as file:
            rows = list(csv.DictReader(file))
    except (UnicodeDecodeError, csv.Error):
        rows = []
    if len(rows) != num_rows or not set(columns) <= set(rows[0]):
        message = (
            f"{path}: expected a CSV file of {num_rows} rows with the columns {', '.join(columns)}; is it "
            "whole?"
        )
        raise ValueError(message)
    return rows


def numbers(path: Path, rows: Sequence[Mapping[str, str]], column: str) -> list[float]:
    """A column of the file; ``ValueError`` names the line that is no number."""
    found = []
    for line, row in enumerate(rows, start=2):
        try:
            found.append(float(row[column]))
        except (TypeError, ValueError):
            message = (
                f"{path}, line {line}: expected a number in column {column}, got {row[column]!r}"
            )
            raise ValueError(message) from None
    return found


def _table(contest: Contest, published: Published) -> Iterator[dict[str, Any]]:
    for method in (*contest.runs, *contest.refused):
        row: dict[str, Any] = {"method": method}
        learned = method in contest.runs
        for score, column in _COLUMNS.items():
            taken = learned and score in contest.scores
            mean, spread = contest.mean(method, score) if taken else (None, None)
            row |= {column: mean, f"{column}_sd": spread}
        row |= {column: figures.get(method) for column, figures in published.items()}
        row["seconds"] = contest.seconds(method) if learned else None
        row["largest_fall"] = contest.largest_fall(method) if learned else None
        row["note"] = None if learned else contest.refused[method]
        yield row


def _differences(contest: Contest) -> Iterator[Difference]:
    pairs = [(method, BASELINE) for method in contest.runs if method != BASELINE]
    if {"HPP", "MHPP"} <= set(contest.runs):
        pairs.append(("MHPP", "HPP"))
    for method, baseline in pairs:
        for score in contest.scores:
            yield contest.difference(method, baseline, score)


def _leaders(contest: Contest) -> Iterator[dict[str, Any]]:
    """Which method is best by each score, and which cannot be told apart from it."""
    for score in contest.scores:
        best, *tied = contest.leaders(score)
        yield {"score": score, "best": best, "tied": ", ".join(tied) or None}


def _batches(contest: Contest) -> Iterator[dict[str, Any]]:
    """A row for every method, start and batch."""
    for method, runs in contest.runs.items():
        for start, one in enumerate(runs):
            for record in one.records:
                rho = record.rho
                yield {
                    "method": method,
                    "start": start,
                    "batch": record.label,
                    "num_rows": record.num_rows,
                    "num_test": record.num_test,
                    "tmll_bound": record.test_bound,
                    "tmll_predictive": record.test_predictive,
                    "prequential": record.prequential,
                    "rho": sum(rho.values()) / len(rho) if isinstance(rho, dict) else rho,
                    "num_sweeps": record.num_sweeps,
                    "outcome": record.outcome,
                    "seconds": record.seconds,
                }
