"""The same comparison on real streams: models whose batches have an evidence in closed form."""

import dataclasses
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, final

import numpy as np

from streambayes.datasets import electricity, lending_club, minneapolis_stops
from streambayes.experiments._contest import Advance
from streambayes.experiments.forgetting._lanes import Lanes, follow, release
from streambayes.experiments.forgetting._policies import compared, fixed
from streambayes.experiments.forgetting._regret import regrets
from streambayes.forgetting import AbstractForgetting, Auto
from streambayes.learning import StreamLearner
from streambayes.models import AbstractModel, Gaussian, LinearRegression

__all__ = ["RealCell", "compare_real"]

_TESTED = 3  # every third row is held out


@final
@dataclasses.dataclass(frozen=True)
class RealCell:
    """One policy on a real stream; regrets in millinats a row, as for generated streams.

    Attributes:
        stream: The stream, and how it is cut.
        policy: The policy.
        evidence: ``None`` for policies other than ``Auto`` and the fixed ones.
        test: Of rows that are held out between those of the batch.
        forecast: Of the rows of each batch, before learning it.
    """

    stream: str
    policy: str
    evidence: float | None
    test: float
    forecast: float


@final
@dataclasses.dataclass(frozen=True)
class _Stream:
    """Columns, standardised by the first rows, the model of them, and sizes of batches by name."""

    model: AbstractModel[Any, Any]
    columns: Mapping[str, np.ndarray]
    sizes: Mapping[str, int]


def compare_real(
    *, loans: str | Path | None = None, advance: Advance | None = None
) -> list[RealCell]:
    """Learn real streams with every policy: Electricity, Minneapolis stops and, if given, Lending Club.

    Needs ``streambayes[data]`` for Minneapolis, which is left out without it.

    Args:
        loans: The file that ``datasets.lending_club`` reads.
        advance: Called with what is being done, how much is done and how much there is.
    """
    streams = _streams(loans)
    cells: list[RealCell] = []
    total, done = sum(len(one.sizes) for one in streams.values()), 0
    for name, one in streams.items():
        for cut, size in one.sizes.items():
            title = f"{name}, {cut}"
            if advance is not None:
                advance(title, done, total)
            cells += _compared(title, one, size)
            release()
            done += 1
    if advance is not None:
        advance("done", total, total)
    return cells


def _streams(loans: str | Path | None) -> dict[str, _Stream]:
    market = electricity()
    # prices of an afternoon can be a hundred times those of the night
    price = np.log(np.maximum(market["nswprice"], 1.0))
    columns = {"price": price, "demand": market["nswdemand"]}
    cuts = {"daily": 48, "monthly": 1440}
    found = {
        "Electricity, Gaussians": _Stream(Gaussian(["price", "demand"]), columns, cuts),
        "Electricity, regression": _Stream(
            LinearRegression("price", ["demand"], "conjugate"), columns, cuts
        ),
    }
    cuts = {"100 rows": 100, "1000 rows": 1000}
    try:
        stops = minneapolis_stops()
    except ImportError:
        pass
    else:
        places = ("latitude", "longitude")
        found["Minneapolis, Gaussians"] = _Stream(
            Gaussian(list(places)), {name: stops[name] for name in places}, cuts
        )
    if loans is not None:
        means = ("log_income", "dti", "revol_util")
        held = lending_club(loans)
        whole = ~np.isnan([held[name] for name in means]).any(0)
        found["Lending Club, Gaussians"] = _Stream(
            Gaussian(list(means)), {name: held[name][whole] for name in means}, cuts
        )
    return found


def _compared(title: str, stream: _Stream, size: int) -> list[RealCell]:
    names = [column.name for column in stream.model.columns]
    rows = np.stack([stream.columns[name] for name in names])
    first = rows[:, :1000]
    rows = (rows - first.mean(1, keepdims=True)) / first.std(1, keepdims=True)
    size -= size % _TESTED
    rows = rows[:, : rows.shape[1] - rows.shape[1] % size]
    is_tested = np.arange(rows.shape[1]) % _TESTED == 1
    learned, tested = rows[None, :, ~is_tested], rows[None, :, is_tested]
    num_learned, num_tested = size - size // _TESTED, size // _TESTED
    entry = next(iter(stream.model.prior()))

    def lanes(policies: Sequence[AbstractForgetting[Any, Any]]) -> Lanes:
        learner = StreamLearner(stream.model, policies[0], scale=False)
        return follow(learner, policies, learned, tested, num_learned, entry, test_size=num_tested)

    held = fixed(num_learned)
    found = lanes(list(held.values()))
    every = {name: Lanes(*(part[k] for part in found)) for k, name in enumerate(held)}
    policies = [*compared(learned.shape[2]), Auto(shared=True)]
    others = {policy.name: Lanes(*(part[0] for part in lanes([policy]))) for policy in policies}
    return [
        RealCell(
            stream=title,
            policy=name,
            evidence=None if regret.evidence is None else float(regret.evidence[0]),
            test=float(regret.test[0]),
            forecast=float(regret.forecast[0]),
        )
        for name, _, regret in regrets(every, others, learned.shape[2], tested.shape[2])
    ]
