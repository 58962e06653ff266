"""A diagonal mixture of normals learned by coordinate ascent, in plain NumPy."""

import math
from typing import NamedTuple

import numpy as np
from scipy.special import digamma, gammaln

__all__ = ["PlainMixture", "Posterior"]

LOG_TWO_PI = math.log(2.0 * math.pi)


class Posterior(NamedTuple):
    """Dirichlet over weights, shape (K,); NormalGamma by component and column, shape (K, D)."""

    concentration: np.ndarray
    shape: np.ndarray
    rate: np.ndarray
    mean: np.ndarray
    scale: np.ndarray


class PlainMixture:
    """The library's default prior with ``scale=False``: Dirichlet(1), NormalGamma(1, 1, 0, 1).

    Args:
        rows: Shape (N, D).
        labels: A component for each row, to start from.
        num_components: K.
    """

    def __init__(self, rows: np.ndarray, labels: np.ndarray, num_components: int) -> None:
        num_columns = rows.shape[1]
        self._stats = np.hstack([rows, rows * rows])
        totals = np.stack(
            [np.bincount(labels, column, num_components) for column in self._stats.T], axis=1
        )
        self._prior = Posterior(
            np.ones(num_components), *np.ones((2, 1, num_columns)), *np.array([[[0.0]], [[1.0]]])
        )
        self.posterior = self._learned(np.bincount(labels, minlength=num_components), totals)

    def sweep(self) -> float:
        """One pass over rows and parameters; the bound it reaches."""
        slopes, constants = self._log_density()
        odds = self._stats @ slopes.T
        odds += constants
        highest = odds.max(1, keepdims=True)
        odds -= highest
        shares = np.exp(odds, out=odds)
        sums = shares.sum(1, keepdims=True)
        shares /= sums
        counts, totals = shares.sum(0), shares.T @ self._stats
        # entropy of what is hidden: log-normalizers less expected log-odds, which are linear in totals
        hidden = np.log(sums).sum() + highest.sum() - self._fit(slopes, constants, counts, totals)
        self.posterior = self._learned(counts, totals)
        return float(self._fit(*self._log_density(), counts, totals) + hidden - self._kl())

    def _log_density(self) -> tuple[np.ndarray, np.ndarray]:
        """Expected log-density of a row by component: slopes in its statistics, and constants."""
        at = self.posterior
        precision = at.shape / at.rate
        slopes = np.hstack([precision * at.mean, -0.5 * precision])
        each = digamma(at.shape) - np.log(at.rate) - LOG_TWO_PI
        each -= 1.0 / at.scale + precision * at.mean**2
        return slopes, self._log_weights() + 0.5 * each.sum(1)

    def _fit(
        self, slopes: np.ndarray, constants: np.ndarray, counts: np.ndarray, totals: np.ndarray
    ) -> float:
        return float(np.vdot(slopes, totals) + constants @ counts)

    def _log_weights(self) -> np.ndarray:
        held = self.posterior.concentration
        expected: np.ndarray = digamma(held) - digamma(held.sum())
        return expected

    def _learned(self, counts: np.ndarray, totals: np.ndarray) -> Posterior:
        """The posterior given rows by component, their sums and their sums of squares."""
        prior = self._prior
        sums, squares = np.split(totals, 2, axis=1)
        scale = prior.scale + counts[:, None] + np.zeros_like(sums)
        mean = (prior.scale * prior.mean + sums) / scale
        gap = squares + prior.scale * prior.mean**2 - scale * mean**2
        shape = prior.shape + 0.5 * counts[:, None]
        return Posterior(prior.concentration + counts, shape, prior.rate + 0.5 * gap, mean, scale)

    def _kl(self) -> float:
        """From the posterior to the prior."""
        at, prior = self.posterior, self._prior
        weights = (
            (at.concentration - prior.concentration) @ self._log_weights()
            + (gammaln(prior.concentration) - gammaln(at.concentration)).sum()
            + gammaln(at.concentration.sum())
            - gammaln(prior.concentration.sum())
        )
        precision = at.shape / at.rate
        of_precision = (
            (at.shape - prior.shape) * digamma(at.shape)
            - gammaln(at.shape)
            + gammaln(prior.shape)
            + prior.shape * np.log(at.rate / prior.rate)
            + precision * (prior.rate - at.rate)
        )
        ratio = prior.scale / at.scale
        of_mean = ratio - 1.0 - np.log(ratio)
        of_mean += prior.scale * precision * (at.mean - prior.mean) ** 2
        return float(weights + of_precision.sum() + 0.5 * of_mean.sum())
