"""One mixture to learn, and everyone who learns it from the same start."""

import dataclasses
import functools
import warnings

import numpy as np
from bayespy.inference import VB
from bayespy.nodes import Categorical, Dirichlet, GaussianARD, GaussianGamma, Mixture
from benchmarks.speed.plain_mixture import PlainMixture, Posterior
from sklearn.exceptions import ConvergenceWarning
from sklearn.mixture import BayesianGaussianMixture

import streambayes as sb

__all__ = ["Problem", "TheirMixture", "fit_sklearn", "make_problem"]


@dataclasses.dataclass(frozen=True)
class Problem:
    """Rows that overlapping components have drawn, and where sweeps start.

    Attributes:
        rows: Shape (num_rows, num_columns).
        labels: A component for each row; sweeps start from the posterior that they imply.
        num_components: How many.
    """

    rows: np.ndarray
    labels: np.ndarray
    num_components: int

    @property
    def size(self) -> dict[str, int]:
        """For records."""
        num_rows, num_columns = self.rows.shape
        return {"rows": num_rows, "columns": num_columns, "components": self.num_components}

    @property
    def names(self) -> list[str]:
        """Of the columns."""
        return [f"x{place}" for place in range(self.rows.shape[1])]

    @functools.cached_property
    def columns(self) -> dict[str, np.ndarray]:
        """The rows as the library likes them."""
        return dict(zip(self.names, np.ascontiguousarray(self.rows.T), strict=True))

    def plain(self) -> PlainMixture:
        """The problem in plain NumPy."""
        return PlainMixture(self.rows, self.labels, self.num_components)

    @functools.cached_property
    def start(self) -> Posterior:
        """What the labels imply."""
        return self.plain().posterior

    def learner(self, max_sweeps: int) -> sb.StreamLearner:
        """A learner that sweeps so often, or until the bound gains nothing."""
        start = self.start
        blocks = sb.NormalGamma.from_shape_rate_mean_scale(
            start.shape, start.rate, start.mean, start.scale
        )
        return sb.StreamLearner(
            sb.models.GaussianMixture(self.names, self.num_components),
            sb.SVB(),
            scale=False,
            start={
                "component": sb.Dirichlet.from_concentration(start.concentration),
                ", ".join(self.names): blocks,
            },
            tolerance=0.0,
            max_sweeps=max_sweeps,
        )


def make_problem(num_rows: int, num_columns: int, num_components: int) -> Problem:
    """A mixture whose neighbours are about three standard deviations apart.

    Args:
        num_rows: How many rows.
        num_columns: How many columns.
        num_components: How many components.
    """
    rng = np.random.default_rng(20170806)
    centres = rng.normal(0.0, 2.1 / np.sqrt(num_columns), (num_components, num_columns))
    rows = rng.normal(size=(num_rows, num_columns))
    rows += centres[rng.integers(num_components, size=num_rows)]
    guesses = rows[rng.choice(num_rows, num_components, replace=False)]
    lengths = 0.5 * np.square(guesses).sum(1)
    parts = np.array_split(rows, 1 + num_rows // 100_000)
    labels = np.concatenate([(part @ guesses.T - lengths).argmax(1) for part in parts])
    return Problem(rows, labels, num_components)


class TheirMixture:
    """The problem in BayesPy: the same nodes, the same start, the same order of updates."""

    def __init__(self, problem: Problem) -> None:
        num_rows, num_columns = problem.rows.shape
        shape = (num_columns, problem.num_components)
        self._weights = Dirichlet(np.ones(problem.num_components))
        self._blocks = GaussianGamma(
            np.zeros(shape), np.ones(shape), np.ones(shape), np.ones(shape), ndim=0
        )
        self._hidden = Categorical(self._weights, plates=(num_rows, 1))
        seen = Mixture(self._hidden, GaussianARD, self._blocks, 1.0)
        seen.observe(problem.rows)
        self._hidden.initialize_from_value(problem.labels[:, None])
        nodes = (seen, self._hidden, self._weights, self._blocks)
        self._inference = VB(*nodes, autosave_filename="unused")
        for node in (self._weights, self._blocks):
            node.update()

    def sweep(self, repeat: int) -> float:
        """So many sweeps; the bound they reach."""
        nodes = (self._hidden, self._weights, self._blocks)
        self._inference.update(*nodes, repeat=repeat, tol=-np.inf, verbose=False)
        return float(self._inference.L[self._inference.iter - 1])


def fit_sklearn(problem: Problem, num_sweeps: int) -> None:
    """The nearest model of scikit-learn, swept so often.

    Args:
        problem: What to learn.
        num_sweeps: How often.
    """
    model = BayesianGaussianMixture(
        n_components=problem.num_components,
        covariance_type="diag",
        weight_concentration_prior_type="dirichlet_distribution",
        weight_concentration_prior=1.0,
        mean_precision_prior=1.0,
        init_params="random_from_data",
        max_iter=num_sweeps,
        tol=0.0,
        random_state=0,
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        model.fit(problem.rows)
