"""Runs to look at."""

import numpy as np
import pytest

import streambayes as sb


def stream(num_batches=40, columns=("x", "y", "z"), changing="y", at=25):
    rng = np.random.default_rng(0)
    for number in range(num_batches):
        rows = {name: rng.normal(size=60) for name in columns}
        rows[changing] += 3.0 * (number >= at)
        yield rows


def learned(folder, policy=None, batches=None, **options):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y", "z"]), policy or sb.Auto())
    return sb.run(learner, batches or stream(), record=folder, progress=False, **options)


@pytest.fixture(scope="session")
def finished(tmp_path_factory):
    """A folder with two runs that are over."""
    folder = tmp_path_factory.mktemp("finished")
    learned(folder / "first")
    learned(folder / "second", sb.HPP(), list(stream(10)))
    return folder
