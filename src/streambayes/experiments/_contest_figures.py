"""Figures of a contest; each function returns a matplotlib figure."""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streambayes.experiments._contest import BASELINE, Contest, Score
from streambayes.reports._plotting import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_absolute", "plot_differences", "plot_rho"]

_STYLES: dict[str, dict[str, Any]] = {
    "SVB": {"color": COLOURS["black"], "linewidth": 1.4},
    "HPP": {"color": COLOURS["blue"], "linewidth": 2.2},
    "MHPP": {"color": COLOURS["vermilion"], "linewidth": 1.8},
    "Auto": {"color": COLOURS["sky"], "linewidth": 2.2, "linestyle": (0, (5, 1))},
    "Fading 0.9": {"color": COLOURS["green"], "linewidth": 1.4},
    "Fading 0.99": {"color": COLOURS["green"], "linewidth": 1.2, "linestyle": (0, (3, 2))},
    "PP 0.9": {"color": COLOURS["purple"], "linewidth": 1.4},
    "PP 0.99": {"color": COLOURS["purple"], "linewidth": 1.2, "linestyle": (0, (3, 2))},
    "SVI": {"color": COLOURS["grey"], "linewidth": 1.2},
    "PVB M=10000 nu=0.1": {"color": COLOURS["orange"], "linewidth": 1.2},
    "PVB M=10000 nu=0.01": {
        "color": COLOURS["orange"],
        "linewidth": 1.2,
        "linestyle": (0, (3, 2)),
    },
    "PVB M=batch nu=0.1": {"color": COLOURS["sky"], "linewidth": 1.2},
    "PVB M=batch nu=0.01": {"color": COLOURS["sky"], "linewidth": 1.2, "linestyle": (0, (3, 2))},
}
Curves = Mapping[str, Sequence[float]]


def plot_differences(contest: Contest, authors: Curves | None = None) -> "Figure":
    """Held-out log-likelihood of every batch, less that of SVB: both definitions, and the authors'."""
    panels = [(name, _less_baseline(curves)) for name, curves in _panels(contest)]
    theirs = None if authors is None else _less_baseline(authors)
    label = "test log-likelihood less SVB's, nats per row"
    return _plot_panels(panels, theirs, contest.labels, label, _limits_of_differences)


def plot_absolute(contest: Contest, authors: Curves | None = None) -> "Figure":
    """Held-out log-likelihood of every batch."""
    label = "test log-likelihood, nats per row"
    return _plot_panels(_panels(contest), authors, contest.labels, label, _limits)


def plot_rho(contest: Contest) -> "Figure":
    r"""$E[\rho_t]$ of the first start: HPP as a line, MHPP as quantiles over its blocks."""
    figure, (ax,) = new_figure(9, 3.6)
    if "MHPP" in contest.runs:
        per_batch = [record.rho for record in contest.runs["MHPP"][0].records]
        x = [place for place, rho in enumerate(per_batch) if isinstance(rho, dict)]
        blocks = np.array([sorted(rho.values()) for rho in per_batch if isinstance(rho, dict)])
        colour = COLOURS["vermilion"]
        ends = {quantile: np.quantile(blocks, quantile, axis=1) for quantile in (0, 0.25, 0.75, 1)}
        ax.fill_between(
            x, ends[0], ends[1], color=colour, alpha=0.12, linewidth=0, label="MHPP, all blocks"
        )
        ax.fill_between(
            x,
            ends[0.25],
            ends[0.75],
            color=colour,
            alpha=0.3,
            linewidth=0,
            label="MHPP, middle half",
        )
        ax.plot(x, np.median(blocks, axis=1), color=colour, linewidth=1.4, label="MHPP, median")
    if "HPP" in contest.runs:
        rho = {
            place: record.rho
            for place, record in enumerate(contest.runs["HPP"][0].records)
            if isinstance(record.rho, float)
        }
        ax.plot(list(rho), list(rho.values()), label="HPP", **_STYLES["HPP"])
    ax.set_ylim(-0.03, 1.03)
    ax.set_ylabel(r"$E[\rho_t]$: share of the past that is kept")
    _label_batches(ax, contest.labels)
    if ax.get_legend_handles_labels()[0]:
        ax.legend(loc="center left", bbox_to_anchor=(1.0, 0.5), frameon=False)
    return figure


def _plot_panels(
    ours: Sequence[tuple[str, Curves]],
    theirs: Curves | None,
    labels: Sequence[str],
    title: str,
    limits: Callable[[Sequence[Curves]], tuple[float, float]],
) -> "Figure":
    """A panel for each of our scores, on one scale, and one for the authors' results on their own."""
    panels = [*ours, *([] if theirs is None else [("the authors' own results", theirs)])]
    figure, axes = new_figure(5.2 * len(panels) + 1.8, 4.0, len(panels))
    for ax, (name, curves) in zip(axes, panels, strict=True):
        for method, values in curves.items():
            ax.plot(np.arange(len(values)), values, label=method, **_STYLES.get(method, {}))
        ax.set_title(name, fontsize=10)
        shown = [curves] if curves is theirs else [each for _, each in ours]
        ax.set_ylim(*limits(shown))
        if all(len(values) == len(labels) for values in curves.values()):
            _label_batches(ax, labels)
        else:
            ax.set_xlabel("batch")
    axes[0].set_ylabel(title)
    figure.legend(*axes[0].get_legend_handles_labels(), loc="outside right center", frameon=False)
    return figure


def _limits(panels: Sequence[Curves]) -> tuple[float, float]:
    """Nearly all of the curves; a few batches can be far off and would flatten the rest."""
    shown = np.concatenate([np.asarray(v, float) for curves in panels for v in curves.values()])
    shown = shown[np.isfinite(shown)]
    low, high = np.quantile(shown, [0.02, 0.98])
    room = 0.25 * (high - low) + 1e-9
    return max(low - room, shown.min() - 0.1 * room), min(high + room, shown.max() + 0.1 * room)


def _limits_of_differences(panels: Sequence[Curves]) -> tuple[float, float]:
    """The same, but methods far below SVB leave at the bottom, lest they flatten the others."""
    low, high = _limits(panels)
    return max(low, -2.0 * high) if high > 0 else low, high


def _panels(contest: Contest) -> list[tuple[str, Curves]]:
    """Held-out scores that were taken, by batch and method."""
    titles: dict[Score, str] = {
        "test_bound": "bound, as the authors score",
        "test_predictive": "predictive density",
    }
    return [
        (title, {method: contest.curve(method, score).tolist() for method in contest.runs})
        for score, title in titles.items()
        if score in contest.scores
    ]


def _less_baseline(curves: Curves) -> Curves:
    base = np.asarray(curves[BASELINE], float)
    return {
        method: (np.asarray(values, float) - base).tolist() for method, values in curves.items()
    }


def _label_batches(ax: "Axes", labels: Sequence[str]) -> None:
    step = max(1, len(labels) // 8)
    places = range(0, len(labels), step)
    ax.set_xticks(list(places), [labels[place] for place in places], rotation=45, ha="right")
    ax.tick_params(labelsize=8)
