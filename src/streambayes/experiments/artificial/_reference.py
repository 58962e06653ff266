"""The authors' own run of the experiment, stored with the package to compare with."""

import csv
import functools
import importlib.resources
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from streambayes.experiments.artificial._stream import Stream
from streambayes.experiments.artificial._track import Track

__all__ = ["Reference", "reference"]


class Reference(NamedTuple):
    """A stream of batches of 100, and what the authors' program learned from it.

    Attributes:
        stream: The counts.
        tracks: By name: the nine methods of ``methods(100)``, and beyond them ``Fading 0.9``,
            ``Fading 0.99`` (the past scaled without a return to the prior) and ``HPP plus sign`` (a
            prior over rho with slope +0.1).
    """

    stream: Stream
    tracks: Mapping[str, Track]


@functools.cache
def reference() -> Reference:
    """Numbers computed by the AMIDST toolbox, the program of the paper's authors.

    ``reference/beta_binomial.csv`` has a row per batch: ``t`` from 1; ``n1`` successes and ``n0``
    failures; and for each method ``alpha_a`` and ``alpha_b``, its pseudo-counts of failures and of
    successes, and where rho is learned its expectation ``rho`` and natural parameter ``omega``.
    """
    file = importlib.resources.files(__package__).joinpath("reference", "beta_binomial.csv")
    lines = file.read_text(encoding="utf-8").splitlines()
    rows = list(csv.reader(line for line in lines if not line.startswith("#")))
    values = np.array(rows[1:], dtype=float).T
    columns = dict(zip(rows[0], values, strict=True))
    names = [name.removesuffix(" alpha_a") for name in columns if name.endswith(" alpha_a")]
    return Reference(
        Stream(100, columns["n1"].astype(int), "the stored counts of the authors' run"),
        {
            name: Track(
                alpha=columns[f"{name} alpha_b"],
                beta=columns[f"{name} alpha_a"],
                rho=columns.get(f"{name} rho"),
                omega=columns.get(f"{name} omega"),
            )
            for name in names
        },
    )
