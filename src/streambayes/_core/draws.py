"""Random numbers that NumPy's generators lack: logarithms of small gammas, one of several by its weight."""

from typing import Any

import numpy as np

__all__ = ["draw_choice", "draw_log_gamma"]


def draw_log_gamma(rng: np.random.Generator, shape: Any, size: tuple[int, ...]) -> np.ndarray:
    r"""$\ln x$, $x \sim \mathrm{Gamma}(a, 1)$, where $x$ itself may be too small for a float64.

    $x_{a + 1} u^{1 / a}$ with uniform $u$ is a $\mathrm{Gamma}(a, 1)$ (Marsaglia and Tsang, 2000).
    """
    larger = np.log(rng.standard_gamma(shape + 1.0, size))
    found: np.ndarray = larger - rng.standard_exponential(size) / shape
    return found


def draw_choice(rng: np.random.Generator, weights: Any, shape: tuple[int, ...]) -> np.ndarray:
    """Places on the last axis of the weights, each as often as its weight says: they need not sum to 1.

    The weights' other axes are the last ones of the shape.
    """
    reached = np.cumsum(weights, axis=-1)
    target = rng.random(shape) * reached[..., -1]
    found: np.ndarray = (reached <= target[..., None]).sum(-1)
    return found
