"""A conjugate regression over a stream, in plain NumPy."""

import numpy as np

__all__ = ["PlainRegression"]


class PlainRegression:
    """The library's default prior of a conjugate regression with ``scale=False``.

    Coefficients and noise precision are MultivariateNormalGamma(shape 1, rate 0.1, mean 0, scale a
    tenth of the identity). The sums that it keeps hold what is learned of the regressors, too.

    Args:
        num_columns: Regressors and, last, the response.
    """

    def __init__(self, num_columns: int) -> None:
        self._num_rows = 0.0
        self._sums = np.zeros(num_columns)
        self._products = np.zeros((num_columns, num_columns))
        self.coefficients: np.ndarray = np.zeros(num_columns)
        self.shape = self.rate = np.nan

    def learn(self, rows: np.ndarray) -> None:
        """One batch, shape (num_rows, num_columns), and the posterior after it."""
        self._num_rows += len(rows)
        self._sums += rows.sum(0)
        self._products += rows.T @ rows
        whole = np.empty((len(self._sums) + 1,) * 2)
        whole[0, 0] = self._num_rows
        whole[0, 1:] = whole[1:, 0] = self._sums
        whole[1:, 1:] = self._products
        scale = whole[:-1, :-1] + 0.1 * np.eye(len(self._sums))
        scaled_mean = whole[:-1, -1]
        self.coefficients = np.linalg.solve(scale, scaled_mean)
        self.shape = 1.0 + 0.5 * self._num_rows
        self.rate = 0.1 + 0.5 * (whole[-1, -1] - scaled_mean @ self.coefficients)
