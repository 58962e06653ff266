"""Curves over the batches of a run: what was kept, what is retained, how well it predicts."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streambayes.learning import Comparison, Run, StepRecord
from streambayes.learning._record import records_of
from streambayes.learning._run import RecordSource
from streambayes.reports._plotting import (
    add_bar,
    add_legend,
    colours,
    label_batches,
    new_figure,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.figure import Figure

__all__ = ["plot_retained", "plot_rho", "plot_scores"]

_FEW = 5
_MOST_COLUMNS = 2000
Score = Literal["test_bound", "test_predictive", "prequential", "forecast"]
_TITLES = {
    "test_bound": "held-out rows, bound (TMLL)",
    "test_predictive": "held-out rows, predictive density",
    "prequential": "whole batch, before learning it",
    "forecast": "rows to learn, forecast",
}


def plot_rho(records: RecordSource, *, dark: bool = False) -> "Figure":
    """The share of the past that was kept, batch by batch: a curve, or a map where blocks have their own.

    Args:
        records: Of a run, the run itself, or the folder of its records.
        dark: Light on dark.
    """
    held = [record for record in records_of(records) if record.rho is not None]
    if not held:
        message = "plot_rho: no record has a share of the past that was kept"
        raise ValueError(message)
    return _drawn(held, [record.rho for record in held], "E[rho]", dark=dark, top=1.0)


def plot_retained(records: RecordSource, *, dark: bool = False) -> "Figure":
    """Rows of data that each block retains, batch by batch: curves, or a map where there are many blocks.

    Args:
        records: Of a run, the run itself, or the folder of its records.
        dark: Light on dark.
    """
    held = list(records_of(records))
    if not held:
        message = "plot_retained: there are no records"
        raise ValueError(message)
    values = [record.retained for record in held]
    return _drawn(held, values, "rows retained", dark=dark)


def plot_scores(
    runs: Comparison | Mapping[str, Run] | Run, score: Score | None = None, *, dark: bool = False
) -> "Figure":
    """How well each method predicts, batch by batch: log-likelihood in nats a row, higher is better.

    Args:
        runs: A comparison, runs by name, or a run.
        score: Which of the scores; by default the first that the records have.
        dark: Light on dark.
    """
    named = _named(runs)
    known = [
        name
        for name in _TITLES
        if any(
            getattr(record, name) is not None for run in named.values() for record in run.records
        )
    ]
    chosen: str = score if score is not None else next(iter(known), "score")
    if chosen not in known:
        message = f"plot_scores: the records have no {chosen}; there are {known}"
        raise ValueError(message)
    figure, (ax,) = new_figure(9.0, 3.6, dark=dark)
    for (name, run), colour in zip(named.items(), colours(), strict=False):
        values = [_number(getattr(record, chosen)) for record in run.records]
        ax.plot(values, label=plain(name), color=colour, linewidth=1.4)
    label_batches(ax, [record.label for record in next(iter(named.values())).records])
    ax.set_ylabel("nats a row")
    ax.set_title(_TITLES[chosen])
    if len(named) > 1:
        add_legend(ax)
    return figure


def _drawn(
    records: Sequence[StepRecord],
    values: list[Any],
    title: str,
    *,
    dark: bool,
    top: float | None = None,
) -> "Figure":
    """One number for each batch, or one for each block."""
    labels = [record.label for record in records]
    blocks = next((list(value) for value in values if isinstance(value, dict)), None)
    if blocks is None:
        table = {title: [_number(value) for value in values]}
    else:
        table = {name: [_number(value.get(name)) for value in values] for name in blocks}
    if len(table) > _FEW:
        return _map(table, labels, title, dark=dark, top=top)
    figure, (ax,) = new_figure(9.0, 3.6, dark=dark)
    for (name, curve), colour in zip(table.items(), colours(), strict=False):
        ax.plot(curve, label=plain(name), color=colour, linewidth=1.4)
    label_batches(ax, labels)
    ax.set_ylim(0.0, top if top is None else 1.02 * top)
    ax.set_ylabel(title)
    if len(table) > 1:
        add_legend(ax)
    return figure


def _map(
    table: Mapping[str, list[float]],
    labels: list[str],
    title: str,
    *,
    dark: bool,
    top: float | None,
) -> "Figure":
    """Blocks by batches; of many batches, means over neighbours."""
    cells = np.array(list(table.values()))
    step = max(1, math.ceil(cells.shape[1] / _MOST_COLUMNS))
    padded = np.pad(cells, ((0, 0), (0, -cells.shape[1] % step)), constant_values=np.nan)
    with np.errstate(invalid="ignore"):
        parts = np.ma.masked_invalid(padded.reshape(len(cells), -1, step)).mean(-1)
    height = min(2.0 + 0.22 * len(table), 14.0)
    figure, (ax,) = new_figure(9.0, height, dark=dark)
    image = ax.imshow(
        parts, aspect="auto", cmap="cividis", vmin=0.0, vmax=top, interpolation="nearest"
    )
    label_batches(ax, labels[::step])
    names = [plain(name) for name in table]
    places = np.unique(np.linspace(0, len(names) - 1, min(len(names), 60)).astype(int))
    ax.set_yticks(places, [names[place] for place in places], fontsize="x-small")
    ax.grid(visible=False)
    add_bar(ax, image, title)
    return figure


def _named(runs: Comparison | Mapping[str, Run] | Run) -> Mapping[str, Run]:
    if isinstance(runs, Comparison):
        return runs.runs
    return {runs.learner.forgetting.name: runs} if isinstance(runs, Run) else runs


def _number(value: float | None) -> float:
    return math.nan if value is None else value
