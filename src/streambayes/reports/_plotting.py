"""Figures in one style, in colours that colour-blind readers can tell apart."""

import itertools
import math
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = [
    "COLOURS",
    "add_bar",
    "add_legend",
    "colours",
    "label_batches",
    "new_figure",
    "plain",
    "save_figure",
]

COLOURS = {  # Okabe and Ito's palette
    "black": "#000000",
    "orange": "#E69F00",
    "sky": "#56B4E9",
    "green": "#009E73",
    "blue": "#0072B2",
    "vermilion": "#D55E00",
    "purple": "#CC79A7",
    "grey": "#8C8C8C",
}


_LETTERS_PER_INCH = 9.0
_LIGHT = {"paper": "#FFFFFF", "ink": "#000000", "grid": "#E4E4E4"}
_DARK = {"paper": "#15171C", "ink": "#E8E8E8", "grid": "#343841"}


def new_figure(
    width: float, height: float, num_columns: int = 1, *, dark: bool = False, **options: Any
) -> "tuple[Figure, Sequence[Axes]]":
    """A figure of the given inches with a row of axes; it belongs to no global state.

    Args:
        width: Inches.
        height: Inches.
        num_columns: How many axes, side by side.
        dark: Light on dark.
        **options: Passed on to ``Figure.subplots``.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        message = "figures need matplotlib: pip install 'streambayes[cli]'"
        raise ImportError(message) from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(1, num_columns, squeeze=False, **options)[0]
    tones = _DARK if dark else _LIGHT
    figure.set_facecolor(tones["paper"])
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color=tones["grid"], linewidth=0.6)
        ax.set_axisbelow(True)
        ax.set_facecolor(tones["paper"])
        ax.spines[:].set_color(tones["ink"])
        ax.tick_params(colors=tones["ink"])
        for text in (ax.title, ax.xaxis.label, ax.yaxis.label):
            text.set_color(tones["ink"])
    return figure, axes


def colours() -> Iterator[str]:
    """Colours for one curve after the other; they show on light and on dark."""
    return itertools.cycle(COLOURS[name] for name in ("blue", "orange", "green", "purple", "sky"))


def add_legend(ax: "Axes", **options: Any) -> None:
    """A legend in the colours of the axes; none if nothing has a name."""
    if ax.get_legend_handles_labels()[0]:
        ax.legend(labelcolor=ax.title.get_color(), frameon=False, fontsize="small", **options)


def add_bar(ax: "Axes", image: Any, label: str) -> None:
    """What the colours of a map mean."""
    bar = ax.figure.colorbar(image, ax=ax, label=label)
    ink = ax.title.get_color()
    bar.ax.tick_params(colors=ink)
    bar.ax.yaxis.label.set_color(ink)


def label_batches(ax: "Axes", labels: Sequence[str]) -> None:
    """Name as many of the batches below the axes as there is room for; one by one from 0."""
    names = [plain(label, 18) for label in labels]
    width = ax.get_position().width * ax.get_figure(root=True).get_size_inches()[0]  # type: ignore[union-attr]
    room = _LETTERS_PER_INCH * width / (max(map(len, names), default=1) + 2)
    step = math.ceil(len(names) / min(max(room, 2.0), 8.0)) or 1
    ax.set_xticks(range(0, len(names), step), names[::step])
    ax.set_xlabel("batch")


def plain(name: str, most: int = 40) -> str:
    """A name that fits on one line, without what a figure would take for mathematics."""
    line = " ".join(name.split())
    short = line if len(line) <= most else line[: most - 1] + "…"
    return short.replace("$", r"\$")


def save_figure(figure: "Figure", folder: Path, name: str) -> tuple[Path, Path]:
    """Write a figure as PNG and as SVG; the same figure gives the same bytes."""
    import matplotlib as mpl

    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    with mpl.rc_context({"svg.hashsalt": name}):
        paper = figure.get_facecolor()
        figure.savefig(png, dpi=150, facecolor=paper, metadata={"Software": None})
        figure.savefig(svg, facecolor=paper, metadata={"Date": None})
    return png, svg
