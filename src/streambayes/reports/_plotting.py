"""Figures in one style, in colours that colour-blind readers can tell apart."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["COLOURS", "new_figure", "save_figure"]

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


def new_figure(
    width: float, height: float, num_columns: int = 1, **options: Any
) -> "tuple[Figure, Sequence[Axes]]":
    """A figure of the given inches with a row of axes; it belongs to no global state.

    Args:
        width: Inches.
        height: Inches.
        num_columns: How many axes, side by side.
        **options: Passed on to ``Figure.subplots``.
    """
    try:
        from matplotlib.figure import Figure
    except ImportError:
        message = "figures need matplotlib: pip install 'streambayes[cli]'"
        raise ImportError(message) from None
    figure = Figure(figsize=(width, height), layout="constrained")
    axes: Sequence[Axes] = figure.subplots(1, num_columns, squeeze=False, **options)[0]
    for ax in axes:
        ax.spines[["top", "right"]].set_visible(False)
        ax.grid(color="#E4E4E4", linewidth=0.6)
        ax.set_axisbelow(True)
    return figure, axes


def save_figure(figure: "Figure", folder: Path, name: str) -> tuple[Path, Path]:
    """Write a figure as PNG and as SVG; the same figure gives the same bytes."""
    import matplotlib as mpl

    png, svg = folder / f"{name}.png", folder / f"{name}.svg"
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(png, dpi=150, facecolor="white", metadata={"Software": None})
        figure.savefig(svg, facecolor="white", metadata={"Date": None})
    return png, svg
