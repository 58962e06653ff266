"""Sums over the members of a bank, which lie on the first axis.

More than 32 are laid on two axes: XLA takes two kernels for a sum over a longer one.
"""

from jax import Array

from streambayes._core.arrays import xp

__all__ = ["log_shares", "log_total", "total_of"]

_LONG = 32


def total_of(values: Array) -> Array:
    """Their sum."""
    return _folded(values).sum((0, 1))


def log_total(log_values: Array) -> Array:
    """The logarithm of the sum of their exponentials."""
    return xp.logsumexp(_folded(log_values), axis=(0, 1))


def log_shares(log_values: Array) -> Array:
    """Logarithms of their shares in that sum."""
    return xp.log_softmax(_folded(log_values), axis=(0, 1)).reshape(log_values.shape)


def _folded(values: Array) -> Array:
    rows = 2 if values.shape[0] > _LONG and values.shape[0] % 2 == 0 else 1
    return values.reshape(rows, -1, *values.shape[1:])
