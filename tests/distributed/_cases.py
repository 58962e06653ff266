"""Models and rows whose posterior has to be the same on a cluster as on one machine."""

import dataclasses
import itertools
from typing import Any

import jax
import numpy as np

import streambayes as sb

NUM_ROWS = 600


@dataclasses.dataclass(frozen=True)
class Case:
    learner: sb.StreamLearner
    columns: tuple[str, ...]
    gaps: bool = False

    def batch(self, seed):
        """Rows of two groups; some cells are missing where the case says so."""
        rng = np.random.default_rng(seed)
        group = rng.integers(0, 2, NUM_ROWS)
        x = rng.normal(3.0 * group, 1.0)
        y = rng.normal(2.0 - x + 0.2 * seed, 0.5)
        rows = {"x": x, "y": y}
        if self.gaps:
            rows = {
                name: np.where(rng.random(NUM_ROWS) < 0.2, np.nan, values)
                for name, values in rows.items()
            }
        return {name: rows[name] for name in self.columns}

    def start(self):
        """A state that has learned a batch, so that there is a past to keep."""
        first = self.batch(0)
        return self.learner.step(self.learner.init(first), first)[0]


def network():
    net = sb.Network()
    group = net.categorical("group", 2, latent=True)
    x = net.normal("x", parents=[group])
    net.normal("y", parents=[group, x])
    return net


CASES = {
    "regression": Case(
        sb.StreamLearner(sb.models.LinearRegression("y", ["x"]), sb.HPP(), max_sweeps=8),
        ("x", "y"),
    ),
    "mixture HPP": Case(
        sb.StreamLearner(sb.models.GaussianMixture(["x", "y"], 2), sb.HPP(), max_sweeps=6),
        ("x", "y"),
    ),
    "mixture MHPP": Case(
        sb.StreamLearner(sb.models.GaussianMixture(["x", "y"], 2), sb.MHPP(), max_sweeps=6),
        ("x", "y"),
    ),
    "network with missing cells": Case(
        sb.StreamLearner(network(), sb.MHPP(), max_sweeps=6), ("x", "y"), gaps=True
    ),
}


def assert_same(one: Any, other: Any, tolerance=1e-9):
    """Whether all numbers of two states are the same, relative to the largest of their array.

    Of a column in its own units hardly more than rounding is left of the sum of the values: it counts beside a thousandth.
    """
    found = [[np.asarray(leaf, float) for leaf in jax.tree.leaves(each)] for each in (one, other)]
    for mine, theirs in zip(*found, strict=True):
        size = np.nan_to_num(np.abs(mine)).max(initial=1e-3)
        np.testing.assert_allclose(theirs, mine, rtol=0.0, atol=tolerance * size)


def cut(rows, bounds):
    """Rows in partitions; two bounds that are equal have an empty one between them."""
    ends = [0, *sorted(bounds), NUM_ROWS]
    return [
        {name: values[start:end] for name, values in rows.items()}
        for start, end in itertools.pairwise(ends)
    ]
