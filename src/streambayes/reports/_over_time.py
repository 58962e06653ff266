"""Curves over the batches of a run: what was kept, what is retained, how well it predicts."""

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from streambayes.learning import Comparison, Run, StepRecord
from streambayes.learning._record import records_of
from streambayes.learning._run import RecordSource
from streambayes.reports._digest import SCORES
from streambayes.reports._plotting import (
    add_bar,
    add_legend,
    colours,
    label_batches,
    new_figure,
    plain,
)

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

__all__ = ["plot_retained", "plot_rho", "plot_run", "plot_scores"]

_FEW = 5
_MOST_COLUMNS = 2000
Score = Literal["test_bound", "test_predictive", "prequential"]


def plot_run(run: Run, *, dark: bool = False) -> "Figure":
    """How well a run predicts, what it kept of the past and what it retains, batch by batch.

    Args:
        run: The run.
        dark: Light on dark.
    """
    held = list(records_of(run))
    shares = [record.rho for record in held]
    curves: list[tuple[str, list[Any], float | None]] = [
        ("rows retained", [record.retained for record in held], None)
    ]
    if any(share is not None for share in shares):
        curves.insert(0, ("E[rho]", shares, 1.0))
    scores = _known({"": held})
    figure, axes = new_figure(
        4.5 * (len(curves) + bool(scores)), 3.6, len(curves) + bool(scores), dark=dark
    )
    for ax, (title, values, top) in zip(axes[-len(curves) :], curves, strict=True):
        _draw(ax, [record.label for record in held], _by_block(values, title), title, top)
    if scores:
        _draw_scores(axes[0], {run.learner.forgetting.name: held}, scores[0])
    return figure


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
    named = {name: list(run.records) for name, run in _named(runs).items()}
    known = _known(named)
    chosen: str = score if score is not None else next(iter(known), "score")
    if chosen not in known:
        message = f"plot_scores: the records have no {chosen}; there are {known}"
        raise ValueError(message)
    figure, (ax,) = new_figure(9.0, 3.6, dark=dark)
    _draw_scores(ax, named, chosen)
    return figure


def _known(named: Mapping[str, list[StepRecord]]) -> list[str]:
    """Scores that records have."""
    every = [record for records in named.values() for record in records]
    return [name for name in SCORES if any(getattr(record, name) is not None for record in every)]


def _draw_scores(ax: "Axes", named: Mapping[str, list[StepRecord]], score: str) -> None:
    for (name, records), colour in zip(named.items(), colours(), strict=False):
        values = [_number(getattr(record, score)) for record in records]
        ax.plot(values, label=plain(name), color=colour, linewidth=1.4)
    label_batches(ax, [record.label for record in next(iter(named.values()))])
    ax.set_ylabel("nats a row")
    ax.set_title(SCORES[score])
    if len(named) > 1:
        add_legend(ax)


def _drawn(
    records: Sequence[StepRecord],
    values: list[Any],
    title: str,
    *,
    dark: bool,
    top: float | None = None,
) -> "Figure":
    """One number for each batch, or one for each block."""
    table = _by_block(values, title)
    height = 3.6 if len(table) <= _FEW else min(2.0 + 0.22 * len(table), 14.0)
    figure, (ax,) = new_figure(9.0, height, dark=dark)
    _draw(ax, [record.label for record in records], table, title, top)
    return figure


def _by_block(values: list[Any], title: str) -> dict[str, list[float]]:
    """A curve for every block, or one."""
    blocks = dict.fromkeys(name for value in values if isinstance(value, dict) for name in value)
    if not blocks:
        return {title: [_number(value) for value in values]}
    return {name: [_number((value or {}).get(name)) for value in values] for name in blocks}


def _draw(
    ax: "Axes", labels: list[str], table: Mapping[str, list[float]], title: str, top: float | None
) -> None:
    """Curves, or a map where there are many."""
    if len(table) > _FEW:
        _draw_map(ax, table, labels, title, top)
        return
    for (name, curve), colour in zip(table.items(), colours(), strict=False):
        ax.plot(curve, label=plain(name), color=colour, linewidth=1.4)
    label_batches(ax, labels)
    ax.set_ylim(0.0, top if top is None else 1.02 * top)
    ax.set_ylabel(title)
    if len(table) > 1:
        add_legend(ax)


def _draw_map(
    ax: "Axes", table: Mapping[str, list[float]], labels: list[str], title: str, top: float | None
) -> None:
    """Blocks by batches; of many batches, means over neighbours."""
    cells = np.array(list(table.values()))
    step = max(1, math.ceil(cells.shape[1] / _MOST_COLUMNS))
    padded = np.pad(cells, ((0, 0), (0, -cells.shape[1] % step)), constant_values=np.nan)
    with np.errstate(invalid="ignore"):
        parts = np.ma.masked_invalid(padded.reshape(len(cells), -1, step)).mean(-1)
    image = ax.imshow(
        parts, aspect="auto", cmap="cividis", vmin=0.0, vmax=top, interpolation="nearest"
    )
    label_batches(ax, labels[::step])
    names = [plain(name) for name in table]
    height = ax.get_position().height * ax.get_figure(root=True).get_size_inches()[1]  # type: ignore[union-attr]
    step = math.ceil(len(names) / max(6.0 * height, 1.0))
    ax.set_yticks(range(0, len(names), step), names[::step], fontsize="x-small")
    ax.grid(visible=False)
    add_bar(ax, image, title)


def _named(runs: Comparison | Mapping[str, Run] | Run) -> Mapping[str, Run]:
    if isinstance(runs, Comparison):
        return runs.runs
    return {runs.learner.forgetting.name: runs} if isinstance(runs, Run) else runs


def _number(value: float | None) -> float:
    return math.nan if value is None else value
