"""Which of many blocks drift: blocks ranked by how much of the past each retains."""

import dataclasses
from collections.abc import Sequence
from typing import Any, final

import numpy as np

from streambayes.experiments.forgetting._streams import KINDS, NUM_ROWS
from streambayes.forgetting import AbstractForgetting
from streambayes.learning import StreamLearner, run
from streambayes.models import Gaussian

__all__ = ["Ranking", "rank_partial"]

_NUM_BLOCKS = 10
_NUM_DRIFTING = 3


@final
@dataclasses.dataclass(frozen=True)
class Ranking:
    """How well retained memory tells drifting blocks from others.

    Attributes:
        kind: How three of ten blocks drift.
        policy: The policy.
        auc: Probability that a drifting block retains less than another: mean over the batches of the second
            half, by which all kinds have moved, and over seeds.
        auc_early: The same from the second tenth of the stream on, where abrupt streams have not changed yet.
        drifting: For ``Auto``, ``auc`` by the probability ``drifting``.
        alarms: For ``Auto``, in how many of 1000 batches a block that stands still has ``drifting`` above 1/2.
    """

    kind: str
    policy: str
    auc: float
    auc_early: float
    drifting: float | None
    alarms: float | None


def rank_partial(
    policies: Sequence[AbstractForgetting[Any, Any]],
    *,
    seeds: Sequence[int],
    kinds: Sequence[str] = ("abrupt", "gradual", "walk"),
    batch_size: int = 100,
) -> list[Ranking]:
    """Learn ten Gaussian columns, three of which drift, and rank them.

    Args:
        policies: Policies with a memory for each block.
        seeds: Streams of each kind.
        kinds: How three of the columns drift.
        batch_size: Rows of a batch.
    """
    names = [f"x{place}" for place in range(_NUM_BLOCKS)]
    found = []
    for policy in policies:
        for kind in kinds:
            by_memory, early, by_drifting, alarms = [], [], [], []
            for seed in seeds:
                rng = np.random.default_rng([seed, list(KINDS).index(kind)])
                rows = rng.normal(size=(NUM_ROWS, _NUM_BLOCKS))
                rows[:, :_NUM_DRIFTING] += KINDS[kind](rng, _NUM_DRIFTING)
                stream = [
                    dict(zip(names, part.T, strict=True))
                    for part in np.split(rows, NUM_ROWS // batch_size)
                ]
                learned = run(
                    StreamLearner(Gaussian(names), policy),
                    stream,
                    prequential=False,
                    progress=False,
                )
                early += [
                    _auc([-record.retained[name] for name in names])
                    for record in learned.records[len(stream) // 10 :]
                ]
                for record in learned.records[len(stream) // 2 :]:
                    by_memory.append(_auc([-record.retained[name] for name in names]))
                    if isinstance(record.drifting, dict):
                        shares = [record.drifting[name] for name in names]
                        by_drifting.append(_auc(shares))
                        alarms.append(np.mean(np.array(shares[_NUM_DRIFTING:]) > 0.5))
            found.append(
                Ranking(
                    kind=kind,
                    policy=policy.name,
                    auc=float(np.mean(by_memory)),
                    auc_early=float(np.mean(early)),
                    drifting=float(np.mean(by_drifting)) if by_drifting else None,
                    alarms=1000.0 * float(np.mean(alarms)) if alarms else None,
                )
            )
    return found


def _auc(scores: list[float]) -> float:
    """Share of pairs in which a drifting block scores above another; half for ties."""
    drifting, other = np.array(scores[:_NUM_DRIFTING])[:, None], np.array(scores[_NUM_DRIFTING:])
    return float(np.mean((drifting > other) + 0.5 * (drifting == other)))
