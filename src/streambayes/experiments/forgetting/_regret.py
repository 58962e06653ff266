"""How far policies stay behind the best fixed one of each stream, which hindsight chooses."""

from collections.abc import Iterator, Mapping
from typing import NamedTuple

import numpy as np

from streambayes.experiments.forgetting._lanes import Lanes
from streambayes.experiments.forgetting._policies import FIXED

__all__ = ["Regret", "regrets"]


class Regret(NamedTuple):
    """What a policy loses in millinats a row, shape (num_streams,) each.

    Attributes:
        evidence: Of batches given the past. ``None`` for policies other than ``Auto`` and the fixed ones.
        test: Of other rows, after learning.
        forecast: Of the rows of each batch before learning it, as ``predict`` predicts them.
    """

    evidence: np.ndarray | None
    test: np.ndarray
    forecast: np.ndarray


def regrets(
    fixed: Mapping[str, Lanes], others: Mapping[str, Lanes], num_learned: int, num_tested: int
) -> Iterator[tuple[str, Lanes, Regret]]:
    """The fixed policies that are shown and the others, each with its regret.

    Args:
        fixed: What became of the streams under all that hindsight chooses from.
        others: Under the policies that are compared.
        num_learned: Rows of a stream.
        num_tested: Rows that were tested on.
    """
    best = {
        part: np.max([getattr(one, part).sum(-1) for one in fixed.values()], axis=0)
        for part in ("bound", "test", "forecast")
    }
    for name, one in [*((name, fixed[name]) for name in FIXED), *others.items()]:
        has_evidence = name in FIXED or name.startswith("Auto")
        yield (
            name,
            one,
            Regret(
                (best["bound"] - one.bound.sum(-1)) * (1000.0 / num_learned)
                if has_evidence
                else None,
                (best["test"] - one.test.sum(-1)) * (1000.0 / num_tested),
                (best["forecast"] - one.forecast.sum(-1)) * (1000.0 / num_learned),
            ),
        )
