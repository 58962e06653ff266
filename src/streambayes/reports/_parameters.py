"""Parameters over the batches of a run: one with its band, or components of a mixture as they move."""

import math
from collections.abc import Sequence
from statistics import NormalDist
from typing import TYPE_CHECKING

import numpy as np

from streambayes.drift import find_drift
from streambayes.learning import StepRecord
from streambayes.learning._record import records_of
from streambayes.learning._run import RecordSource
from streambayes.learning._state import check_level
from streambayes.reports._plotting import (
    COLOURS,
    add_legend,
    colours,
    label_batches,
    new_figure,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_components", "plot_parameter"]


def plot_parameter(
    records: RecordSource, parameter: str, *, level: float = 0.9, dark: bool = False
) -> "Figure":
    """What is believed of a parameter, batch by batch: its mean, a band, and where its block has changed.

    Args:
        records: Of a run, the run itself, or the folder of its records.
        parameter: Its readable name, such as ``mean of x``.
        level: Probability of the band, which takes the posterior as normal.
        dark: Light on dark.
    """
    check_level("plot_parameter", level)
    held = list(records_of(records))
    home = _home(held, parameter)
    track = np.array([_found(record, home, parameter) for record in held])
    reach = NormalDist().inv_cdf(0.5 + 0.5 * level)
    figure, (ax,) = new_figure(9.0, 3.6, dark=dark)
    places = np.arange(len(held))
    ax.fill_between(
        places,
        track[:, 0] - reach * track[:, 1],
        track[:, 0] + reach * track[:, 1],
        color=COLOURS["sky"],
        alpha=0.35,
        linewidth=0.0,
        label=f"{level:.0%} band",
    )
    ax.plot(places, track[:, 0], color=COLOURS["blue"], linewidth=1.4, label="mean")
    by_index = {record.index: place for place, record in enumerate(held)}
    told = [event for event in find_drift(held) if event.block == home]
    for number, event in enumerate(told):
        ax.axvline(
            by_index[event.first],
            color=COLOURS["vermilion"],
            linewidth=1.0,
            linestyle=":" if event.kind == "outlier" else "--",
            label=None if number else "change",
        )
    label_batches(ax, [record.label for record in held])
    ax.set_ylabel(plain(parameter))
    add_legend(ax)
    return figure


def plot_components(records: RecordSource, x: str, y: str, *, dark: bool = False) -> "Figure":
    """How the components of a mixture move in the plane of two columns: from the ring to the dot.

    Args:
        records: Of a run, the run itself, or the folder of its records.
        x: A column.
        y: Another one.
        dark: Light on dark.
    """
    held = list(records_of(records))
    known = [name for parameters in _last(held).values() for name in parameters]
    heads = [_centre(known, column) for column in (x, y)]
    tails = [
        name.removeprefix(heads[0])
        for name in known
        if name == heads[0] or name.startswith(f"{heads[0]} | ")
    ]
    figure, (ax,) = new_figure(6.0, 5.4, dark=dark)
    for tail, colour in zip(tails, colours(), strict=False):
        ways = []
        for head in heads:
            name = f"{head}{tail}"
            home = _home(held, name)
            ways.append([_found(record, home, name)[0] for record in held])
        ax.plot(*ways, color=colour, linewidth=1.0, alpha=0.7)
        ax.plot(ways[0][0], ways[1][0], "o", color=colour, markerfacecolor="none")
        ax.plot(ways[0][-1], ways[1][-1], "o", color=colour, label=plain(tail.strip(" |")) or None)
    ax.set_xlabel(plain(heads[0]))
    ax.set_ylabel(plain(heads[1]))
    add_legend(ax)
    return figure


def _centre(known: Sequence[str], column: str) -> str:
    """What the centres of a column are called: means, or medians where its logarithm is modelled."""
    for head in (f"mean of {column}", f"median of {column}"):
        if any(name == head or name.startswith(f"{head} | ") for name in known):
            return head
    message = f"plot_components: no means of column {column!r} in these records"
    raise ValueError(message)


def _last(records: Sequence[StepRecord]) -> dict[str, dict[str, tuple[float, float]]]:
    for record in reversed(records):
        if record.parameters:
            return record.parameters
    message = "these records say nothing of parameters; learn the stream with run(..., drift=True)"
    raise ValueError(message)


def _home(records: Sequence[StepRecord], parameter: str) -> str:
    """The block of a parameter."""
    last = _last(records)
    for block, parameters in last.items():
        if parameter in parameters:
            return block
    known = [name for parameters in last.values() for name in parameters]
    shown = ", ".join(map(repr, known[:10])) + (", ..." if len(known) > 10 else "")
    message = f"no parameter {parameter!r}; there are {shown}"
    raise ValueError(message)


def _found(record: StepRecord, block: str, parameter: str) -> tuple[float, float]:
    parameters = (record.parameters or {}).get(block, {})
    return parameters.get(parameter, (math.nan, math.nan))
