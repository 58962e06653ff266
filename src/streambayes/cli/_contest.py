"""A contest on the terminal: progress while it runs, then its table and what is a tie."""

from collections.abc import Callable
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streambayes.cli._progress import bar
from streambayes.experiments._contest import BASELINE, Advance, Difference
from streambayes.experiments._report import Report

__all__ = ["show_contest"]

_HEADS = {
    "tmll_bound": "TMLL, bound",
    "tmll_predictive": "TMLL, predictive",
    "prequential": "prequential",
}
_NAMES = {"test_bound": "tmll_bound", "test_predictive": "tmll_predictive"}


def show_contest(reproduce: Callable[[Advance], Report], *, quiet: bool) -> None:
    """Run it and print what it found, unless asked to be quiet."""
    with bar(quiet=quiet) as advance:
        found = reproduce(advance)
    if not quiet:
        _print(Console(), found)


def _print(console: Console, found: Report) -> None:
    console.print(f"[bold]{escape(found.title)}[/bold]", highlight=False)
    console.print(_scores(found))
    console.print(_legend(found), highlight=False)
    console.print(
        "\n[bold]Differences[/bold], with intervals of 95 % over resampled batches and starts"
    )
    console.print(_differences(found.differences))
    for row in found.leaders:
        head = _HEADS[_NAMES.get(row["score"], row["score"])]
        tied = f"; cannot be told apart from it: {row['tied']}" if row["tied"] else ""
        console.print(
            f"Best by {head}: [bold]{escape(row['best'])}[/bold]{escape(tied)}.", highlight=False
        )
    for method, reason in found.contest.refused.items():
        console.print(f"{escape(method)} does not apply: {escape(reason)}.", highlight=False)
    console.print("\nWritten:", highlight=False)
    for file in found.files:
        console.print(f"  {file}", highlight=False, soft_wrap=True, markup=False)


def _legend(found: Report) -> str:
    spread = ", ± its spread over starts" if _num_starts(found) > 1 else ""
    text = (
        f"Log-likelihood in nats per row, higher is better{spread}. TMLL: rows of a batch that were held "
        "out, after learning the batch."
    )
    if "prequential" in found.contest.scores:
        text += " Prequential: a whole batch, before learning it."
    return text


def _num_starts(found: Report) -> int:
    return len(next(iter(found.contest.runs.values())))


def _scores(found: Report) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method", no_wrap=True)
    learned = [row for row in found.table if row["method"] in found.contest.runs]
    columns = [name for name in _HEADS if learned[0][name] is not None]
    published = [name for name in learned[0] if name.startswith("paper")]
    for name in (*columns, *published, "seconds"):
        table.add_column(_HEADS.get(name, name.replace("_", ", ")), justify="right")
    best = {name: max(row[name] for row in learned) for name in columns}
    starts = _num_starts(found)
    for row in learned:
        cells = []
        for name in columns:
            spread = f" ± {row[f'{name}_sd']:.3f}" if starts > 1 else ""
            text = f"{row[name]:.3f}{spread}"
            cells.append(f"[bold]{text}[/bold]" if row[name] == best[name] else text)
        cells += [_or_dash(row[name]) for name in published]
        table.add_row(escape(row["method"]), *cells, f"{row['seconds']:.1f}")
    return table


def _differences(differences: tuple[Difference, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column(f"less {BASELINE}", no_wrap=True)
    scores = list(dict.fromkeys(one.score for one in differences))
    for score in scores:
        table.add_column(_HEADS[_NAMES.get(score, score)], justify="right", no_wrap=True)
    pairs = list(dict.fromkeys((one.method, one.baseline) for one in differences))
    found = {(one.method, one.baseline, one.score): one for one in differences}
    for method, baseline in pairs:
        cells = []
        for score in scores:
            one = found[method, baseline, score]
            ends = f"{_short(one.lower)} .. {_short(one.upper)}"
            cells.append(f"{_short(one.mean)} {one.verdict}\n{ends}")
        name = method if baseline == BASELINE else f"{method} less {baseline}"
        table.add_row(escape(name), *cells)
    return table


def _short(number: float) -> str:
    digits = 4 if abs(number) < 10 else 1
    return f"{number:+.{digits}f}"


def _or_dash(number: Any) -> str:
    return "-" if number is None else f"{number:.2f}"
