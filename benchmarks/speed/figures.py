"""Results as log-log plots."""

import itertools
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from benchmarks.speed import growth, memory, run, streams, sweep
from benchmarks.speed.results import Results
from benchmarks.speed.sides import BAYESPY, NUMPY, OURS, RIVER, RIVER_BOTH, RIVER_MANY, SKLEARN
from benchmarks.speed.timing import Measurement

from streambayes.reports._plotting import COLOURS, new_figure

__all__ = ["draw"]

STYLES = {  # colour and marker
    OURS: ("blue", "o"),
    SKLEARN: ("orange", "s"),
    BAYESPY: ("vermilion", "^"),
    NUMPY: ("grey", "D"),
    RIVER: ("vermilion", "v"),
    RIVER_BOTH: ("orange", "v"),
    RIVER_MANY: ("orange", "^"),
}
OTHERS = (("blue", "o"), ("green", "s"), ("purple", "^"), ("sky", "D"), ("black", "v"))
"""For sides of our own."""


def draw(results: Results, folder: Path) -> list[Path]:
    """Every figure that there are measurements for, as PNG.

    Args:
        results: What was measured.
        folder: Where to write.
    """
    sweeps = {
        f"{components} components, {columns} columns": results.where(
            sweep.SECTION, sweep.CASE, {"columns": columns, "components": components}
        )
        for columns, components in (sweep.SMALL, sweep.LARGE)
    }
    grown = {case: results.where(growth.SECTION, case) for case in (growth.COMPONENTS, growth.PAST)}
    fleets = {
        case: results.where(streams.SECTION, case)
        for case in (streams.REGRESSION, streams.CLASSIFIER)
    }
    peaks = [one for one in results.where(memory.SECTION) if one.unit == memory.UNIT]
    figures = {
        "sweep": (sweeps, "rows", 1.0),
        "components": ({growth.COMPONENTS: grown[growth.COMPONENTS]}, "components", 1.0),
        "past": ({growth.PAST: grown[growth.PAST]}, "past batches", 0.0),
        "run": ({run.CASE: results.where(run.SECTION)}, "rows per batch", None),
        "streams": (fleets, "streams", None),
        "memory": ({memory.CASE: peaks}, "rows", 0.0),
    }
    folder.mkdir(parents=True, exist_ok=True)
    written = []
    for name, (every, what, slope) in figures.items():
        panels = {title: found for title, found in every.items() if found}
        if panels:
            written.append(folder / f"{name}.png")
            figure, axes = new_figure(4.6 * len(panels), 3.6, len(panels))
            for ax, (title, found) in zip(axes, panels.items(), strict=True):
                _panel(ax, title, found, what, slope)
            figure.savefig(written[-1], dpi=120, facecolor="white", metadata={"Software": None})
    return written


def _panel(ax: Any, title: str, found: list[Measurement], what: str, slope: float | None) -> None:
    """Sides against a size, with a line of the slope that a reader should look for."""
    others = itertools.cycle(OTHERS)
    for side in dict.fromkeys(one.side for one in found):
        points = _points(one for one in found if one.side == side)
        colour, marker = STYLES[side] if side in STYLES else next(others)
        xs, ys = [size[what] for size, _ in points], [value for _, value in points]
        if points:
            ax.plot(xs, ys, color=COLOURS[colour], marker=marker, markersize=4, label=side)
    ax.set(xscale="log", yscale="log", xlabel=what, ylabel=found[0].unit)
    ax.set_title(title, fontsize=9)
    first = _points(one for one in found if one.side == found[0].side)
    if slope is not None and first:
        ends = [first[0][0][what], first[-1][0][what]]
        high = 0.5 * first[-1][1]  # through the largest size, where overheads are least
        guide = [high * (ends[0] / ends[1]) ** slope, high]
        name = "in proportion" if slope else "level"
        ax.plot(ends, guide, color=COLOURS["black"], linestyle=":", linewidth=1, label=name)
    if slope == 0.0:
        bottom, top = ax.get_ylim()
        ax.set_ylim(bottom / 3, top * 3)
    ax.legend(fontsize=7, frameon=False)


def _points(found: Iterable[Measurement]) -> list[tuple[dict[str, int], float]]:
    return [(one.size, one.median) for one in found if one.median is not None]
