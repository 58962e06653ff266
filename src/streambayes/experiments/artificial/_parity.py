"""How far our numbers are from those of the authors' program, on the same counts."""

import dataclasses
from collections.abc import Mapping
from typing import final

import numpy as np

from streambayes.experiments.artificial._track import Track

__all__ = ["Parity", "parity"]

_EXACT = "the same up to rounding"
_EARLY = "the authors' program stops its loop over omega before it settles; ours goes on"


@final
@dataclasses.dataclass(frozen=True)
class Parity:
    """One quantity of one method where it differs most from the authors' run.

    Attributes:
        method: The method.
        quantity: ``alpha`` (successes), ``beta`` (failures) or ``rho``.
        difference: The largest relative difference over all batches.
        t: The batch where it occurs, from 1.
        ours: Our value there.
        authors: Theirs.
        reason: Why they differ.
    """

    method: str
    quantity: str
    difference: float
    t: int
    ours: float
    authors: float
    reason: str


def parity(ours: Mapping[str, Track], authors: Mapping[str, Track]) -> tuple[Parity, ...]:
    """The largest relative differences, for each method that both have."""
    found = []
    for method, mine in ours.items():
        theirs = authors[method]
        quantities = ("alpha", "beta") if mine.omega is None else ("alpha", "beta", "rho")
        for quantity in quantities:
            x, y = getattr(mine, quantity), getattr(theirs, quantity)
            relative = np.abs(x - y) / np.abs(y)
            worst = int(np.argmax(relative))
            found.append(
                Parity(
                    method=method,
                    quantity=quantity,
                    difference=float(relative[worst]),
                    t=worst + 1,
                    ours=float(x[worst]),
                    authors=float(y[worst]),
                    reason=_EXACT if mine.omega is None else _EARLY,
                )
            )
    return tuple(found)
