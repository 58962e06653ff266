r"""Figures of the artificial stream; each function returns a matplotlib figure."""

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from streambayes.experiments.artificial._stream import true_probability
from streambayes.experiments.artificial._track import Track
from streambayes.families import TruncatedExponential
from streambayes.metrics import retained_limit
from streambayes.reports._plotting import COLOURS, new_figure

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_estimates", "plot_forgetting", "plot_omega", "plot_sample_sizes"]

# three methods to a panel; where two coincide the later one is dashed and shows both
_PANELS: tuple[tuple[str, tuple[tuple[str, str, dict[str, Any]], ...]], ...] = (
    (
        "No forgetting, and learned forgetting",
        (
            ("SVB", "SVB", {"color": COLOURS["orange"], "linewidth": 1.8}),
            ("HPP", "HPP", {"color": COLOURS["blue"], "linewidth": 2.6}),
            ("MHPP", "MHPP", {"color": COLOURS["sky"], "linewidth": 1.4, "linestyle": (0, (3, 2))}),
        ),
    ),
    (
        r"Fixed: $\rho = 0.9$, $\nu = 0.1$",
        (
            ("PP 0.9", r"PP, $\rho = 0.9$", {"color": COLOURS["green"], "linewidth": 2.6}),
            (
                "PVB M=1000 nu=0.1",
                r"PVB, $M = 1000$",
                {"color": COLOURS["vermilion"], "linewidth": 1.6, "linestyle": (0, (3, 2))},
            ),
            (
                "PVB M=batch nu=0.1",
                r"PVB, $M = |x_t|$",
                {"color": COLOURS["purple"], "linewidth": 1.6, "linestyle": (0, (1, 1.2))},
            ),
        ),
    ),
    (
        r"Fixed: $\rho = 0.99$, $\nu = 0.01$",
        (
            ("PP 0.99", r"PP, $\rho = 0.99$", {"color": COLOURS["green"], "linewidth": 2.6}),
            (
                "PVB M=1000 nu=0.01",
                r"PVB, $M = 1000$",
                {"color": COLOURS["vermilion"], "linewidth": 1.6, "linestyle": (0, (3, 2))},
            ),
            (
                "PVB M=batch nu=0.01",
                r"PVB, $M = |x_t|$",
                {"color": COLOURS["purple"], "linewidth": 1.6, "linestyle": (0, (1, 1.2))},
            ),
        ),
    ),
)
_SERIES: dict[int, dict[str, Any]] = {
    100: {"color": COLOURS["blue"], "marker": "o"},
    1000: {"color": COLOURS["vermilion"], "marker": "s"},
}


def plot_estimates(tracks: Mapping[str, Track]) -> "Figure":
    r"""$E[\beta_t]$ of nine methods beside the probability that produced the draws."""
    figure, axes = new_figure(11, 3.7, 3, sharey=True)
    truth = true_probability()
    t = np.arange(1, len(truth) + 1)
    for ax in axes:
        ax.plot(
            t,
            truth,
            color=COLOURS["grey"],
            linewidth=4,
            alpha=0.45,
            drawstyle="steps-mid",
            label="true $p$",
        )
    _fill(axes, {name: track.mean for name, track in tracks.items()})
    axes[0].set(ylabel=r"$E[\beta_t]$ (probability)", ylim=(0.1, 0.9))
    for ax in axes:
        ax.legend(loc="upper left", frameon=False, fontsize=9)
    return figure


def plot_sample_sizes(tracks: Mapping[str, Track], batch_size: int) -> "Figure":
    """Equivalent sample size of nine methods, the prior's 2 included, with the limits of fixed ones."""
    figure, axes = new_figure(11, 3.7, 3, sharey=True)
    sizes = {name: track.sample_size for name, track in tracks.items()}
    _fill(axes, sizes)
    _mark_changes(axes[0])
    for ax, rho in ((axes[1], 0.9), (axes[2], 0.99)):
        ax.axhline(
            retained_limit(rho, batch_size) + 2,
            color=COLOURS["grey"],
            linewidth=1,
            zorder=1,
            label=r"limit of PP, $n / (1 - \rho) + 2$",
        )
    axes[0].set(ylabel=r"ESS$_t$ (draws, logarithmic)", yscale="log", ylim=(2, 2e4))
    for ax in axes:
        ax.legend(loc="lower right", frameon=False, fontsize=9)
    return figure


def plot_forgetting(tracks: Mapping[int, Track]) -> "Figure":
    r"""$E[\rho_t]$ of HPP by batch size."""
    figure, (ax,) = new_figure(8, 3.9)
    for batch_size, track in tracks.items():
        rho = _known(track.rho)
        ax.plot(
            np.arange(2, len(rho) + 1),
            rho[1:],
            linewidth=1.4,
            markersize=3.2,
            label=f"batches of {batch_size}",
            **_SERIES[batch_size],
        )
    _mark_changes(ax)
    ax.set(
        xlabel="batch $t$",
        ylabel=r"$E[\rho_t]$ (share of the past that is kept)",
        xlim=(0, 101),
        ylim=(-0.02, 1),
    )
    figure.legend(loc="outside upper center", ncols=3, frameon=False, fontsize=9)
    return figure


def plot_omega(tracks: Mapping[int, Track]) -> "Figure":
    r"""$E[\rho] = 1 / (1 - e^{-\omega}) - 1 / \omega$, and the values that HPP met by batch size."""
    figure, (ax,) = new_figure(8, 3.9)
    grid = 2.0 * np.sinh(np.linspace(-7, 7, 801))  # even steps on the axis
    curve = np.asarray(TruncatedExponential.from_gamma(-grid).mean())
    ax.plot(
        grid,
        curve,
        color=COLOURS["grey"],
        linewidth=1.4,
        label=r"$E[\rho] = 1 / (1 - e^{-\omega}) - 1 / \omega$",
        zorder=1,
    )
    for batch_size, track in tracks.items():
        ax.scatter(
            _known(track.omega)[1:],
            _known(track.rho)[1:],
            s=26,
            facecolors="none",
            edgecolors=_SERIES[batch_size]["color"],
            marker=_SERIES[batch_size]["marker"],
            label=f"batches of {batch_size}",
            zorder=2,
        )
    ax.set_xscale("asinh", linear_width=2)
    ticks = [-1000, -100, -30, -10, -3, -1, 0, 1, 3, 10, 30, 100, 1000]
    ax.set_xticks(ticks, [f"{tick}" for tick in ticks])
    ax.set(
        xlabel=r"$\omega$ (nats; linear near 0, logarithmic far from it)",
        ylabel=r"$E[\rho]$",
        xlim=(-1000, 1000),
        ylim=(-0.02, 1.02),
    )
    ax.legend(loc="upper left", frameon=False, fontsize=9)
    return figure


def _fill(axes: "Sequence[Axes]", values: Mapping[str, np.ndarray]) -> None:
    """The lines of nine methods over three panels."""
    for ax, (title, members) in zip(axes, _PANELS, strict=True):
        for name, label, style in members:
            ax.plot(np.arange(1, len(values[name]) + 1), values[name], label=label, **style)
        ax.set_title(title, fontsize=10)
        ax.set(xlabel="batch $t$", xlim=(0, 101))


def _mark_changes(ax: "Axes") -> None:
    """Where the probability changes: between two batches."""
    changes = np.flatnonzero(np.diff(true_probability())) + 1.5
    for place, change in enumerate(changes):
        ax.axvline(
            change,
            color=COLOURS["black"],
            linewidth=1,
            linestyle=(0, (1, 2)),
            label="change of $p$" if place == 0 else None,
        )


def _known(series: np.ndarray | None) -> np.ndarray:
    if series is None:
        message = "this figure needs a method that learns rho"
        raise ValueError(message)
    return series
