"""The whole comparison, written into a folder."""

import dataclasses
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any, final

from streambayes.experiments._contest import Advance
from streambayes.experiments._files import write_rows
from streambayes.experiments.forgetting._comparison import (
    BATCH_SIZES,
    SEEDS,
    Comparison,
    compare_generated,
)
from streambayes.experiments.forgetting._cost import Cost, measure_costs
from streambayes.experiments.forgetting._figures import plot_memory, plot_recovery, plot_regret
from streambayes.experiments.forgetting._partial import Ranking, rank_partial
from streambayes.experiments.forgetting._real import RealCell, compare_real
from streambayes.forgetting import MHPP, Auto
from streambayes.reports._plotting import save_figure

__all__ = ["Found", "compare"]


@final
@dataclasses.dataclass(frozen=True)
class Found:
    """What the comparison found.

    Attributes:
        generated: Policies on generated streams.
        rankings: Which of ten blocks drift.
        costs: What a step takes.
        real: Policies on real streams; none if they were not asked for.
        files: What was written.
    """

    generated: Comparison
    rankings: tuple[Ranking, ...]
    costs: tuple[Cost, ...]
    real: tuple[RealCell, ...]
    files: tuple[Path, ...]


def compare(
    output: str | Path,
    *,
    batch_sizes: Sequence[int] = BATCH_SIZES,
    seeds: Sequence[int] = SEEDS,
    new_kinds: bool = False,
    real: bool = True,
    loans: str | Path | None = None,
    advance: Advance | None = None,
) -> Found:
    """Compare policies and write numbers and figures.

    Args:
        output: Folder to write into; it is made if it is not there.
        batch_sizes: How generated streams are cut.
        seeds: Streams of each kind.
        new_kinds: Four other kinds of generated streams instead, on which nothing was chosen.
        real: Whether to learn real streams too.
        loans: The file of loans that ``datasets.lending_club`` reads; without it that stream is left out.
        advance: Called with what is being done, how much is done and how much there is.
    """
    folder = Path(output)
    folder.mkdir(parents=True, exist_ok=True)
    generated = compare_generated(
        batch_sizes=batch_sizes, seeds=seeds, new_kinds=new_kinds, advance=advance
    )
    files = [
        write_rows(folder / "cells.csv", _rows(generated.cells)),
        write_rows(folder / "summary.csv", generated.summary()),
        write_rows(folder / "recovery.csv", generated.recovery_rows()),
    ]
    figures = {"regret": plot_regret(generated)}
    if not new_kinds:
        figures |= {"memory": plot_memory(generated), "recovery": plot_recovery(generated)}
    for name, figure in figures.items():
        files += save_figure(figure, folder, name)
    rankings = tuple(rank_partial([Auto(), MHPP()], seeds=seeds))
    files.append(write_rows(folder / "partial.csv", _rows(rankings)))
    costs = tuple(measure_costs())
    files.append(write_rows(folder / "cost.csv", _rows(costs)))
    learned = tuple(compare_real(loans=loans, advance=advance)) if real else ()
    if learned:
        files.append(write_rows(folder / "real.csv", _rows(learned)))
    return Found(generated, rankings, costs, learned, tuple(files))


def _rows(values: Iterable[Any]) -> Iterable[dict[str, Any]]:
    return (dataclasses.asdict(value) for value in values)
