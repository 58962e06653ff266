"""Every policy on every stream: how far each stays behind the best fixed one, which hindsight chooses."""

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, final

import numpy as np

from streambayes.experiments._contest import Advance
from streambayes.experiments.forgetting._lanes import Lanes, follow, release
from streambayes.experiments.forgetting._policies import FIXED, compared, fixed
from streambayes.experiments.forgetting._regret import regrets
from streambayes.experiments.forgetting._streams import (
    FAMILIES,
    KINDS,
    NEW_KINDS,
    NUM_ROWS,
    Rows,
    draw_rows,
)
from streambayes.learning import StreamLearner

__all__ = ["BATCH_SIZES", "SEEDS", "Cell", "Comparison", "compare_generated"]

BATCH_SIZES = (1, 10, 100, 1000)
SEEDS = (101, 102, 103, 104, 105)
_WINDOW = 50
_RECOVERED = 0.05
_REACH = 1500


@final
@dataclasses.dataclass(frozen=True)
class Cell:
    """One policy on one kind of stream, cut into batches of one size; means over seeds.

    Attributes:
        family: What is learned.
        kind: How it drifts.
        batch_size: Rows of a batch.
        policy: The policy.
        evidence: Regret in millinats a row: by how much its evidence stays behind that of the best fixed
            policy, which is chosen for each stream in hindsight. ``None`` for policies other than ``Auto`` and
            the fixed ones.
        test: Likewise for the predictive density of other rows with the same truth, after learning.
        forecast: Likewise for the rows of each batch one by one, before learning it.
        retained: Rows retained, on average over the second half of the stream.
    """

    family: str
    kind: str
    batch_size: int
    policy: str
    evidence: float | None
    test: float
    forecast: float
    retained: float


@final
@dataclasses.dataclass(frozen=True)
class Comparison:
    """What was found on generated streams.

    Attributes:
        cells: One for each policy, kind, family and batch size.
        recovery: After abrupt changes, by family, batch size and policy: mean loss against the truth in nats
            a row, for every window of 50 rows or every batch since.
    """

    cells: tuple[Cell, ...]
    recovery: Mapping[tuple[str, int, str], np.ndarray]

    def policies(self) -> list[str]:
        """In the order of the tables."""
        return list(dict.fromkeys(cell.policy for cell in self.cells))

    def of(self, **wanted: Any) -> list[Cell]:
        """Cells with such attributes."""
        return [
            cell
            for cell in self.cells
            if all(getattr(cell, name) == value for name, value in wanted.items())
        ]

    def summary(self) -> list[dict[str, Any]]:
        """By batch size and policy: the worst and the mean regret, and how often Auto tests better."""
        rows = []
        for size in dict.fromkeys(cell.batch_size for cell in self.cells):
            for policy in self.policies():
                cells = self.of(batch_size=size, policy=policy)
                calm = [cell for cell in cells if cell.kind != "bursts"]
                evidence = [cell.evidence for cell in cells if cell.evidence is not None]
                rows.append(
                    {
                        "batch_size": size,
                        "policy": policy,
                        "worst_evidence": max(evidence) if evidence else None,
                        "mean_evidence": float(np.mean(evidence)) if evidence else None,
                        "worst_test": max(cell.test for cell in calm),
                        "mean_test": float(np.mean([cell.test for cell in calm])),
                        "worst_forecast": max(cell.forecast for cell in cells),
                        "mean_forecast": float(np.mean([cell.forecast for cell in cells])),
                        "auto_is_better": float(np.mean([self._auto_wins(cell) for cell in calm])),
                    }
                )
        return rows

    def recovery_rows(self) -> list[dict[str, Any]]:
        """Rows after an abrupt change until the loss against the truth is first below 0.05 nats."""
        found = []
        for (family, size, policy), losses in self.recovery.items():
            step = max(size, _WINDOW)
            below = np.flatnonzero(losses < _RECOVERED)
            rows = float(step * (below[0] + 1)) if len(below) else None
            found.append({"family": family, "batch_size": size, "policy": policy, "rows": rows})
        return found

    def _auto_wins(self, cell: Cell) -> bool:
        (auto,) = self.of(
            family=cell.family, kind=cell.kind, batch_size=cell.batch_size, policy="Auto"
        )
        return auto.test < cell.test


def compare_generated(
    *,
    families: Sequence[str] = tuple(FAMILIES),
    batch_sizes: Sequence[int] = BATCH_SIZES,
    seeds: Sequence[int] = SEEDS,
    new_kinds: bool = False,
    advance: Advance | None = None,
) -> Comparison:
    """Learn generated streams with every policy.

    Args:
        families: What is learned.
        batch_sizes: How the 10,000 rows of each stream are cut.
        seeds: Streams of each kind.
        new_kinds: Four other kinds of streams instead, none of which ``Auto`` was designed on.
        advance: Called with what is being done, how much is done and how much there is.
    """
    kinds = tuple(NEW_KINDS if new_kinds else KINDS)
    cells: list[Cell] = []
    recovery: dict[tuple[str, int, str], np.ndarray] = {}
    total = len(families) * len(batch_sizes) * (1 + len(compared(NUM_ROWS)))
    done = 0
    for family in families:
        rows = [draw_rows(family, kind, seed) for kind in kinds for seed in seeds]
        for size in batch_sizes:
            lanes: dict[str, Lanes] = {}
            for names, policies in _programs(size):
                if advance is not None:
                    advance(f"{family}, batches of {size}: {names[-1]}", done, total)
                found = _followed(family, policies, rows, size)
                lanes |= {
                    name: Lanes(*(part[place] for part in found))
                    for place, name in enumerate(names)
                }
                done += 1
            cells += _cells(lanes, family, kinds, size)
            recovery |= {
                (family, size, name): losses for name, losses in _recoveries(lanes, rows, size)
            }
            release()
    if advance is not None:
        advance("done", total, total)
    return Comparison(tuple(cells), recovery)


def _programs(size: int) -> Iterator[tuple[list[str], list[Any]]]:
    """Policies that run in one program, with their names."""
    held = fixed(size)
    yield list(held), list(held.values())
    for policy in compared(NUM_ROWS):
        yield [policy.name], [policy]


def _followed(family: str, policies: list[Any], rows: Sequence[Rows], size: int) -> Lanes:
    one = FAMILIES[family]
    learner = StreamLearner(one.model, policies[0], prior=one.prior, scale=False)
    learned, tested = (
        np.stack([getattr(each, part) for each in rows]) for part in ("learned", "tested")
    )
    return follow(learner, policies, learned, tested, size, one.learned)


def _cells(
    lanes: Mapping[str, Lanes], family: str, kinds: Sequence[str], size: int
) -> Iterator[Cell]:
    held = {name: lanes[name] for name in fixed(size)}
    others = {name: one for name, one in lanes.items() if name not in held}

    def by_kind(of_streams: np.ndarray) -> np.ndarray:
        means: np.ndarray = of_streams.reshape(len(kinds), -1).mean(1)
        return means

    for name, one, regret in regrets(held, others, NUM_ROWS, NUM_ROWS):
        half = one.retained.shape[-1] // 2
        retained = by_kind(one.retained[:, half:].mean(-1))
        evidence = None if regret.evidence is None else by_kind(regret.evidence)
        test, forecast = by_kind(regret.test), by_kind(regret.forecast)
        for place, kind in enumerate(kinds):
            yield Cell(
                family=family,
                kind=kind,
                batch_size=size,
                policy=name,
                evidence=None if evidence is None else float(evidence[place]),
                test=float(test[place]),
                forecast=float(forecast[place]),
                retained=float(retained[place]),
            )


def _recoveries(
    lanes: Mapping[str, Lanes], rows: Sequence[Rows], size: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Mean loss against the truth after abrupt changes, in windows."""
    step = max(size, _WINDOW)
    shown = [*FIXED, *(name for name in lanes if name not in fixed(size))]
    for name in shown:
        losses = []
        for stream, each in enumerate(rows):
            truth = each.true_density.reshape(-1, size).sum(1)
            lost = (truth - lanes[name].test[stream]) / size
            for change in each.changes if 0 < len(each.changes) < 5 else ():
                first = -(-change // size)
                window = lost[first : first + _REACH // size]
                if len(window) == _REACH // size and step <= _REACH:
                    losses.append(window.reshape(-1, step // size).mean(1))
        if losses:
            yield name, np.mean(losses, axis=0)
