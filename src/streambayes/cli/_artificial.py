"""The artificial experiment on the terminal: progress while it runs, then what it found."""

from pathlib import Path

from rich import box
from rich.console import Console
from rich.markup import escape
from rich.table import Table

from streambayes.cli._progress import bar
from streambayes.experiments.artificial import Finding, Parity, Reproduction, reproduce

__all__ = ["reproduce_artificial"]


def reproduce_artificial(output: Path, *, seed: int | None, quiet: bool) -> None:
    """Run it and print what it found, unless asked to be quiet."""
    with bar(quiet=quiet) as advance:
        found = reproduce(output, seed=seed, advance=advance)
    if not quiet:
        _print(Console(), found)


def _print(console: Console, found: Reproduction) -> None:
    for batch_size, stream in found.streams.items():
        console.print(f"Batches of {batch_size}: {stream.source}.", highlight=False)
    console.print("\n[bold]What the paper says of this stream, measured[/bold]")
    console.print(_findings_table(found.findings))
    console.print(
        "ESS is set against its limit, n / (1 - rho) + 2 or M + 2. With rho = 0.99 or nu = 0.01 the "
        "limit is far off after 100 batches, and until then M matters.",
        highlight=False,
    )
    console.print("\n[bold]Largest relative difference from the authors' program[/bold]")
    console.print(_parity_table(found.parity))
    console.print(
        "HPP and MHPP differ because the authors' program stops its loop over omega early "
        "(after a change of 0.0001 % for HPP, 0.1 % for MHPP); ours goes on until it settles.",
        highlight=False,
    )
    console.print("\nWritten:", highlight=False)
    for file in found.files:
        console.print(f"  {file}", highlight=False, soft_wrap=True, markup=False)


def _findings_table(findings: tuple[Finding, ...]) -> Table:
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("quantity", no_wrap=True)
    table.add_column("measured", justify="right")
    table.add_column("expected", justify="right")
    table.add_column("met")
    size = 0
    for finding in findings:
        if finding.batch_size != size:
            size = finding.batch_size
            table.add_section()
            table.add_row(f"[italic]batches of {size}[/italic]")
        table.add_row(
            escape(finding.statement),
            _short(finding.measured),
            _range(finding.lower, finding.upper),
            "yes" if finding.holds else "[bold]no[/bold]",
        )
    return table


def _parity_table(parities: tuple[Parity, ...]) -> Table:
    """The largest difference of each method, over its quantities."""
    table = Table(box=box.SIMPLE_HEAD, pad_edge=False)
    table.add_column("method")
    table.add_column("difference", justify="right")
    table.add_column("of")
    table.add_column("at t", justify="right")
    worst: dict[str, Parity] = {}
    for one in parities:
        if one.method not in worst or one.difference > worst[one.method].difference:
            worst[one.method] = one
    for one in worst.values():
        table.add_row(one.method, f"{one.difference:.1e}", one.quantity, str(one.t))
    return table


def _range(lower: float, upper: float) -> str:
    """A range of shares; its ends 0 and 1 go without saying."""
    if lower == 0:
        return f"< {_short(upper)}"
    return f"> {_short(lower)}" if upper == 1 else f"{_short(lower)}-{_short(upper)}"


def _short(number: float) -> str:
    return f"{number:.1e}" if 0 < abs(number) < 1e-4 else f"{number:.4g}"
