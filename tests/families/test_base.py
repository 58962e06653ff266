"""What constructors refuse, and what their messages say."""

import numpy as np
import pytest

from streambayes.families import (
    Beta,
    Categorical,
    Dirichlet,
    Gamma,
    MultivariateNormal,
    MultivariateNormalGamma,
    Normal,
    NormalGamma,
    NormalWishart,
    TruncatedExponential,
    TruncatedNormal,
)

EYE, BAD = np.eye(2), [0.0, -1.0, np.nan, np.inf]
GOOD = {
    Beta.from_concentrations: {"alpha": 1.0, "beta": 1.0},
    Dirichlet.from_concentration: {"concentration": [1.0, 2.0]},
    Categorical.from_probabilities: {"probabilities": [0.5, 0.5]},
    Gamma.from_shape_rate: {"shape": 1.0, "rate": 1.0},
    Normal.from_mean_precision: {"mean": 0.0, "precision": 1.0},
    NormalGamma.from_shape_rate_mean_scale: {"shape": 1.0, "rate": 1.0, "mean": 0.0, "scale": 1.0},
    MultivariateNormal.from_mean_precision: {"mean": [0.0, 0.0], "precision": EYE},
    MultivariateNormalGamma.from_shape_rate_mean_scale: {
        "shape": 1.0,
        "rate": 1.0,
        "mean": [0.0, 0.0],
        "scale": EYE,
    },
    NormalWishart.from_degrees_scatter_mean_scale: {
        "degrees": 2.0,
        "scatter": EYE,
        "mean": [0.0, 0.0],
        "scale": 1.0,
    },
    TruncatedExponential.from_gamma: {"gamma": 0.1},
    TruncatedNormal.from_mean_variance: {"mean": 0.5, "variance": 1.0},
}
VECTORS = {"mean": [0.0, 0.0]}
MATRICES = [
    -EYE,
    np.zeros((2, 2)),
    np.array([[1.0, 2.0], [2.0, 1.0]]),
    np.array([[1.0, 0.5], [0.0, 1.0]]),
    np.full((2, 2), np.nan),
    np.diag([1.0, np.inf]),
    np.ones((2, 3)),
    np.eye(3),
    np.ones(2),
    1.0,
]


def cases():
    """A constructor, an argument, and a value that it must refuse."""
    for make, arguments in GOOD.items():
        for name, good in arguments.items():
            if name in ("precision", "scatter", "scale") and np.ndim(good) == 2:
                values = MATRICES
            elif name in ("mean", "gamma"):
                values = [np.full(np.shape(good), value) for value in (np.nan, np.inf, -np.inf)]
            elif name == "probabilities":
                values = [[0.5, -0.5], [0.5, np.nan], [0.0, 0.0], [0.5, 1.5], 0.5]
            elif name == "concentration":
                values = [*([1.0, value] for value in BAD), 1.0]
            elif name == "degrees":
                values = [*BAD, 1.0]
            else:
                values = BAD
            for value in values:
                yield make, name, value


@pytest.mark.parametrize(
    ("make", "name", "value"), list(cases()), ids=lambda v: getattr(v, "__qualname__", None)
)
def test_bad_values_are_named(make, name, value):
    family = make.__self__.__name__
    with pytest.raises(ValueError, match=rf"^{family}: .*\b{name}\b"):
        make(**{**GOOD[make], name: value})


@pytest.mark.parametrize(
    "make", [m for m in GOOD if len(GOOD[m]) > 1], ids=lambda m: m.__qualname__
)
def test_batches_that_do_not_fit_are_named(make):
    def batch(value, size):
        return np.broadcast_to(value, (size, *np.shape(value)))

    first, second, *_ = GOOD[make]
    wrong = {
        **GOOD[make],
        first: batch(GOOD[make][first], 2),
        second: batch(GOOD[make][second], 3),
    }
    with pytest.raises(ValueError, match=rf"^{make.__self__.__name__}: .*{first}.*{second}"):
        make(**wrong)


@pytest.mark.parametrize("make", GOOD, ids=lambda m: m.__qualname__)
def test_arguments_broadcast_to_one_batch(make):
    for name, good in GOOD[make].items():
        member = make(**{**GOOD[make], name: np.broadcast_to(good, (3, *np.shape(good)))})
        assert member.batch_shape == (3,)
        assert all(len(value) == 3 for value in vars(member).values())
