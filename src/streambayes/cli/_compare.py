"""streambayes compare: every policy on streams that drift in known ways, and on real ones."""

from pathlib import Path
from typing import Any

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streambayes.cli._output import writing_into
from streambayes.cli._progress import bar
from streambayes.experiments.forgetting import Found
from streambayes.experiments.forgetting import compare as compare_policies

__all__ = ["compare", "show"]

_QUICK = {"batch_sizes": (100, 1000), "seeds": (101, 102), "real": False}


def compare(output: Path, *, quick: bool, new_kinds: bool, loans: Path | None, quiet: bool) -> None:
    """Run the comparison and print what it found, unless asked to be quiet."""
    settings: dict[str, Any] = dict(_QUICK) if quick else {}
    with writing_into(output), bar(quiet=quiet) as advance:
        found = compare_policies(
            output, new_kinds=new_kinds, loans=loans, advance=advance, **settings
        )
    if not quiet:
        show(Console(), found)


def show(console: Console, found: Found) -> None:
    """Print what was found."""
    console.print("[bold]Generated streams[/bold]: regret in mnat a row, worst / mean over streams")
    console.print(_summary(found))
    console.print(
        "Regret is relative to the best of SVB, fixed shares and 15 fixed horizons, chosen for each stream "
        "in hindsight; below 0 is better than all of them. 'Auto wins' counts streams without bursts on "
        "which Auto's test score is better.",
        highlight=False,
    )
    if found.generated.of(kind="stationary"):
        console.print("\n[bold]Rows retained[/bold] where nothing changes, by batch size")
        console.print(_memory(found))
    console.print("\n[bold]Which of ten columns drift[/bold], three of them")
    console.print(_plain(found.rankings))
    console.print("\n[bold]Cost of a step[/bold]")
    console.print(_plain(found.costs))
    if found.real:
        console.print("\n[bold]Real streams[/bold]: regret in mnat a row")
        console.print(_plain(found.real))
    console.print("\nWritten:", highlight=False)
    for file in found.files:
        console.print(f"  {file}", highlight=False, soft_wrap=True, markup=False)


def _summary(found: Found) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("batch", "policy"):
        table.add_column(head, no_wrap=True)
    for head in ("evidence", "test, no bursts", "forecast", "Auto wins"):
        table.add_column(head, justify="right")
    size = None
    for row in found.generated.summary():
        if row["batch_size"] != size:
            size = row["batch_size"]
            table.add_section()
        pairs = [
            "-"
            if row[f"worst_{score}"] is None
            else f"{row[f'worst_{score}']:.1f} / {row[f'mean_{score}']:.1f}"
            for score in ("evidence", "test", "forecast")
        ]
        wins = "" if row["policy"] == "Auto" else f"{row['auto_is_better']:.0%}"
        table.add_row(str(size), escape(row["policy"]), *pairs, wins)
    return table


def _memory(found: Found) -> Table:
    cells = found.generated.of(kind="stationary")
    sizes = list(dict.fromkeys(cell.batch_size for cell in cells))
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    for head in ("family", "policy"):
        table.add_column(head, no_wrap=True)
    for size in sizes:
        table.add_column(str(size), justify="right")
    for family in dict.fromkeys(cell.family for cell in cells):
        for policy in found.generated.policies():
            held = [c.retained for c in cells if (c.family, c.policy) == (family, policy)]
            table.add_row(family, escape(policy), *(f"{rows:.0f}" for rows in held))
    return table


def _plain(values: Any) -> Table:
    """Dataclasses of one kind, one to a line."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    names = list(vars(values[0]))
    for name in names:
        is_text = isinstance(getattr(values[0], name), str)
        table.add_column(name.replace("_", " "), justify="left" if is_text else "right")
    for value in values:
        table.add_row(*(_cell(getattr(value, name)) for name in names))
    return table


def _cell(value: Any) -> str:
    if value is None:
        return "-"
    return escape(value) if isinstance(value, str) else f"{value:.3g}"
