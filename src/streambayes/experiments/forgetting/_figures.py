"""Figures of the comparison."""

from typing import TYPE_CHECKING

import numpy as np

from streambayes.experiments.forgetting._comparison import Comparison
from streambayes.reports._plotting import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_memory", "plot_recovery", "plot_regret"]

_STYLES = {
    "Auto": (COLOURS["vermilion"], "o", "-"),
    "HPP": (COLOURS["blue"], "s", "-"),
    "SVB": (COLOURS["black"], "^", "--"),
    "PP 0.9": (COLOURS["green"], "v", ":"),
    "PP 0.99": (COLOURS["sky"], "D", ":"),
}


def plot_regret(found: Comparison) -> "Figure":
    """How far behind the best fixed policy, by kind of stream and batch size: Auto, HPP, SVB and PP 0.9."""
    families = list(dict.fromkeys(cell.family for cell in found.cells))
    kinds = list(dict.fromkeys(cell.kind for cell in found.cells))
    figure, axes = new_figure(10.0, 4.2, len(families), sharey=True)
    for ax, family in zip(axes, families, strict=True):
        for shift, policy in enumerate(("Auto", "HPP", "SVB", "PP 0.9")):
            colour, marker, _ = _STYLES[policy]
            cells = found.of(family=family, policy=policy)
            ax.plot(
                [cell.test for cell in cells],
                [kinds.index(cell.kind) + 0.18 * (shift - 1.5) for cell in cells],
                marker,
                color=colour,
                markersize=4.5,
                alpha=0.8,
                label=policy,
            )
        ax.axvline(0.0, color=COLOURS["grey"], linewidth=1.0)
        ax.set_xscale("symlog", linthresh=1.0)
        ax.set_yticks(range(len(kinds)), kinds)
        ax.set_title(family)
        ax.set_xlabel("regret after learning (mnat a row)")
    axes[0].invert_yaxis()
    axes[-1].legend(frameon=False, loc="lower right")
    return figure


def plot_memory(found: Comparison) -> "Figure":
    """Rows retained where nothing changes, against the batch size."""
    families = list(dict.fromkeys(cell.family for cell in found.cells))
    figure, axes = new_figure(10.0, 3.4, len(families), sharey=True)
    for ax, family in zip(axes, families, strict=True):
        for policy, (colour, marker, line) in _STYLES.items():
            cells = found.of(family=family, policy=policy, kind="stationary")
            sizes, rows = ([getattr(c, name) for c in cells] for name in ("batch_size", "retained"))
            ax.plot(sizes, rows, marker=marker, linestyle=line, color=colour, label=policy)
        ax.set_xscale("log")
        ax.set_yscale("log")
        ax.set_title(family)
        ax.set_xlabel("rows of a batch")
    axes[0].set_ylabel("rows retained")
    axes[-1].legend(frameon=False)
    return figure


def plot_recovery(found: Comparison) -> "Figure":
    """Loss against the truth after an abrupt change, for batches of 10 rows or the next larger size."""
    families = list(dict.fromkeys(family for family, _, _ in found.recovery))
    figure, axes = new_figure(10.0, 3.4, max(len(families), 1), sharex=True)
    for ax, family in zip(axes, families, strict=False):
        sizes = sorted({size for one, size, _ in found.recovery if one == family})
        size = next((each for each in sizes if each >= 10), sizes[-1])
        for policy, (colour, _, line) in _STYLES.items():
            losses = found.recovery[family, size, policy]
            rows = max(size, 50) * np.arange(1, len(losses) + 1)
            ax.plot(rows, losses, linestyle=line, color=colour, label=policy)
        ax.set_title(f"{family}, batches of {size}")
        ax.set_xlabel("rows since the change")
    axes[0].set_ylabel("loss (nats a row)")
    axes[-1].legend(frameon=False)
    return figure
