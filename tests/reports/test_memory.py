"""Memories as a picture."""

import numpy as np
import pytest

import streambayes as sb


@pytest.fixture(scope="module")
def records():
    rng = np.random.default_rng(0)
    stream = [{"x": rng.normal(3 * (t > 5), 1, 30), "y": rng.normal(size=30)} for t in range(9)]
    model = sb.models.Gaussian(["x", "y"])
    return sb.run(sb.StreamLearner(model), stream, prequential=False).records


def test_weights_of_a_block_are_drawn(records):
    figure = sb.reports.plot_memory(records, "x")
    ax = figure.axes[0]
    drawn = ax.images[0].get_array()
    assert drawn.shape == (17, 9)
    np.testing.assert_allclose(np.asarray(drawn).sum(0)[1:], 1.0, atol=1e-3)
    # at the change the weight is on memories that reach back no further than this batch
    assert drawn[:3, 6].sum() > 0.9
    assert ax.get_title() == "memory of x"


def test_bad_input(records):
    with pytest.raises(ValueError, match="name one of the blocks: 'x', 'y'"):
        sb.reports.plot_memory(records)
    with pytest.raises(ValueError, match="no block 'z'; there are 'x', 'y'"):
        sb.reports.plot_memory(records, "z")
    other = sb.run(sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB()), [{"x": [1.0, 2.0]}])
    with pytest.raises(ValueError, match="no records of Auto"):
        sb.reports.plot_memory(other.records)
