"""Results as tables in Markdown."""

import itertools
from collections.abc import Iterable, Iterator

from benchmarks.speed.results import Results
from benchmarks.speed.targets import verdicts
from benchmarks.speed.timing import Measurement

__all__ = ["BUSY", "report"]

BUSY = 0.1
"""Beyond this share, what other programs use of the processors spoils the numbers."""

TITLES = {
    "sweep": "Time of a sweep",
    "bound": "Time to the same bound, and what learned forgetting adds",
    "run": "Rows per second of `run`",
    "streams": "Updates per second of many streams",
    "memory": "Memory against the length of a stream",
    "growth": "Growth",
    "start": "Cold and warm start",
}


def report(results: Results) -> str:
    """The whole page.

    Args:
        results: What was measured.
    """
    lines = ["# Speed", "", *_about(results), "", *_asked(results)]
    for section, found in itertools.groupby(results.measurements, lambda one: one.section):
        lines += ["", f"## {TITLES[section]}", "", *_section(list(found))]
    return "\n".join(lines).rstrip() + "\n"


def _about(results: Results) -> Iterator[str]:
    about = results.about
    versions = ", ".join(f"{name} {version}" for name, version in about["versions"].items())
    yield (
        f"Written by `python -m benchmarks.speed` on {about['date']}: {about['cores']} cores of "
        f"{about['processor']}, {about['memory in GiB']} GiB of memory, {about['system']}; {versions}."
    )
    if about["quick"]:
        yield "Small sizes only (`--quick`): for trying it out, not for quoting."
    if about["busy share"] > BUSY:
        yield (
            f"Other programs used up to {about['busy share']:.0%} of the processors: measure again on an idle "
            "machine. Sides whose routines wait for each other's threads, scikit-learn and plain NumPy, "
            "suffer most."
        )
    yield ""
    yield (
        "Sides take turns in one process; medians of their turns, compiled and warm. In brackets: how "
        "many times faster the first column is."
    )


def _asked(results: Results) -> Iterator[str]:
    yield from _table(
        ["asked", "measured", "", "why not"],
        ([one.asked, one.measured, one.verdict, one.why] for one in verdicts(results)),
    )


def _section(found: list[Measurement]) -> Iterator[str]:
    """A table for each unit and set of sides, then what is to be said of them."""
    sides_of: dict[tuple[str, str], dict[str, None]] = {}
    for one in found:
        sides_of.setdefault((one.case, one.unit), {})[one.side] = None
    tables: dict[tuple[str, tuple[str, ...]], list[Measurement]] = {}
    for one in found:
        tables.setdefault((one.unit, tuple(sides_of[one.case, one.unit])), []).append(one)
    for (unit, sides), members in tables.items():
        yield from _pivot(unit, sides, members)
        yield ""
    for note in dict.fromkeys(_note(one) for one in found if one.note):
        yield f"- {note}"


def _pivot(unit: str, sides: tuple[str, ...], members: list[Measurement]) -> Iterator[str]:
    """A row for each case and size; what all rows share stands in the head."""
    labels = {(one.case, *one.size.items()): [one.case, *_sizes(one)] for one in members}
    shared = [
        part for part in next(iter(labels.values())) if all(part in x for x in labels.values())
    ]
    shared = shared if len(labels) > 1 else []
    rows = []
    for key, parts in labels.items():
        here = {one.side: one for one in members if (one.case, *one.size.items()) == key}
        own = ", ".join(part for part in parts if part not in shared)
        rows.append([own, *_cells(here, sides)])
    yield from _table([", ".join([*shared, unit]), *sides], rows)


def _cells(sides: dict[str, Measurement], columns: tuple[str, ...]) -> Iterator[str]:
    first = sides[columns[0]].median if columns[0] in sides else None
    for column in columns:
        value, unit = (sides[column].median, sides[column].unit) if column in sides else (None, "")
        if value is None:
            yield "left out"
        elif column == columns[0] or first is None or "second" not in unit:
            yield _number(value, unit)
        else:
            factor = first / value if "per second" in unit else value / first
            yield f"{_number(value, unit)} ({factor:.3g})"


def _sizes(one: Measurement) -> list[str]:
    return [f"{number:,} {what}" for what, number in one.size.items()]


def _note(one: Measurement) -> str:
    if one.median is None:
        return f"{one.side}, {', '.join([one.case, *_sizes(one)])}: {one.note}"
    return f"{one.side}: {one.note}"


def _number(value: float, unit: str) -> str:
    if unit.startswith("seconds"):
        for size, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
            if value >= size:
                return f"{value / size:.3g} {name}"
    if value >= 1e6:
        return f"{value / 1e6:.3g} million"
    return f"{value:,.0f}" if value >= 100 else f"{value:.3g}"


def _table(head: list[str], rows: Iterable[list[str]]) -> Iterator[str]:
    yield "| " + " | ".join(head) + " |"
    yield "|" + "---|" * len(head)
    for row in rows:
        yield "| " + " | ".join(row) + " |"
