"""Cholesky factors of small symmetric matrices in plain operations, safe in large batches.

XLA's batched Cholesky can deadlock the CPU thread pool when two of them share a program; this loop
over columns cannot. The only place where a pivot is ever lifted. A factor comes with its inverse, so
that everything after it is a product; unrolled loops would take seconds to compile.
"""

from typing import Any, NamedTuple

import numpy as np
from jax import Array

from streambayes._core.arrays import holds_jax, xp
from streambayes._core.precision import compiled

__all__ = [
    "Factor",
    "cholesky",
    "is_positive_definite",
    "log_det",
    "lower",
    "row_products",
    "solve",
    "solve_lower",
    "solve_lower_transposed",
    "square_norm",
]

_FEW_ROWS = 256
_FEW_PRODUCTS = 2**18
_SMALL = 16
_EPSILON, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


class Factor(NamedTuple):
    r"""Lower $L$ with $LL^\top$ the matrix, and $L^{-1}$, both of shape (..., d, d)."""

    lower: Array
    inverse: Array

    def scaled(self, weight: Array) -> "Factor":
        """The factor of the matrix times the square of a weight."""
        return Factor(weight * self.lower, self.inverse / weight)


@compiled
def cholesky(matrix: Array) -> Factor:
    r"""The factor of a matrix of shape (..., d, d).

    A pivot that rounding has pushed below $\varepsilon$ times its diagonal entry is lifted to it.
    """
    matrix, size = _symmetric(matrix), matrix.shape[-1]
    if not holds_jax(matrix):
        by_library = _by_library(matrix)
        if by_library is not None:
            return by_library
    beside = xp.broadcast_to(xp.eye(size), matrix.shape)
    held, pivots = _eliminated(xp.concatenate([matrix, beside], -1), _floor(matrix))
    return Factor(
        _lower(held[..., :size], pivots), held[..., size:] / xp.sqrt(pivots)[..., :, None]
    )


@compiled
def lower(matrix: Array) -> Array:
    """The factor alone, without its inverse: half the work."""
    matrix = _symmetric(matrix)
    return _lower(*_eliminated(matrix, _floor(matrix)))


@compiled
def is_positive_definite(matrix: Array) -> Array:
    """Whether every pivot is positive as it stands, and no denormal number: shape (...)."""
    _, pivots = _eliminated(matrix, xp.full(matrix.shape[:-1], _TINY))
    positive: Array = (pivots > _TINY).all(-1)
    return positive


def log_det(factor: Factor) -> Array:
    """Log-determinant of the matrix whose factor is given."""
    return 2.0 * xp.log(xp.diagonal(factor.lower, axis1=-2, axis2=-1)).sum(-1)


def solve_lower(factor: Factor, right: Any) -> Array:
    r"""$L^{-1} B$ for $B$ of shape (..., d, k)."""
    return _product(factor.inverse, right)


def solve_lower_transposed(factor: Factor, right: Any) -> Array:
    r"""$L^{-\top} B$."""
    return _product(xp.swapaxes(factor.inverse, -1, -2), right)


def solve(factor: Factor, right: Array) -> Array:
    r"""$(LL^\top)^{-1} B$."""
    return solve_lower_transposed(factor, solve_lower(factor, right))


def square_norm(vector: Array, factor: Factor) -> Array:
    r"""$v^\top LL^\top v \ge 0$, shape (...)."""
    return xp.square((vector[..., :, None] * factor.lower).sum(-2)).sum(-1)


def row_products(left: Array, right: Array) -> Array:
    r"""$\sum_n a_{in} b_{jn}$ for $a$ of shape (i, n) and $b$ of shape (j, n).

    Over few rows XLA is told the products and the sum: for thousands of streams at once, that is ten times
    faster than its product of as many small matrices.
    """
    num_products = left.shape[0] * right.shape[0] * left.shape[-1]
    if left.shape[-1] > _FEW_ROWS or num_products > _FEW_PRODUCTS:
        return left @ right.T
    return (left[:, None, :] * right[None, :, :]).sum(-1)


def _by_library(matrix: Any) -> Factor | None:
    """The factors of NumPy's matrices, if all their pivots may stay as they are."""
    try:
        found = np.linalg.cholesky(matrix)
    except np.linalg.LinAlgError:
        return None
    pivots = np.square(np.diagonal(found, axis1=-2, axis2=-1))
    if not (pivots > 2.0 * _floor(matrix)).all():
        return None
    return Factor(found, np.tril(np.linalg.inv(found)))  # type: ignore[arg-type]


def _product(left: Array, right: Array) -> Array:
    """The product of small matrices, as products and a sum: XLA hands others to threads, which takes longer."""
    if left.shape[-1] > _SMALL or not holds_jax((left, right)):
        return left @ right
    return (left[..., :, :, None] * right[..., None, :, :]).sum(-2)


def _symmetric(matrix: Array) -> Array:
    return 0.5 * (matrix + xp.swapaxes(matrix, -1, -2))


def _floor(matrix: Array) -> Array:
    """What pivots are lifted to."""
    return _EPSILON * xp.abs(xp.diagonal(matrix, axis1=-2, axis2=-1)) + _TINY


def _lower(upper: Array, pivots: Array) -> Array:
    """L of the matrix that elimination has made upper."""
    roots = xp.sqrt(pivots)[..., None, :]
    below = xp.tril(xp.swapaxes(upper, -1, -2), -1) / roots
    return below + roots * xp.eye(pivots.shape[-1])


def _eliminated(matrix: Array, floor: Array) -> tuple[Array, Array]:
    """Rows after elimination below the diagonal, and the pivots; the matrix may have columns beside it."""
    size, lead, shape = floor.shape[-1], floor.shape[:-1], matrix.shape
    # matrices side by side on the last axis: loops over them are the long ones
    matrix = xp.moveaxis(matrix.reshape(-1, *shape[-2:]), 0, -1)
    floor = xp.moveaxis(floor.reshape(-1, size), 0, -1)
    rows = xp.arange(size)[:, None, None]

    # one array, changed in one expression: XLA makes one kernel of it
    def column(j: Any, held: Array) -> Array:
        left, row = (_at(held, j, axis) for axis in (1, 0))
        pivot = xp.maximum(_at(row, j, 1), _at(floor[:, None], j, 0))
        return xp.where(rows > j, held - (left / pivot) * row, held)

    held = xp.fori_loop(0, size, column, matrix)
    pivots = xp.maximum(xp.diagonal(held[:, :size]), floor.T)
    return xp.moveaxis(held, -1, 0).reshape(shape), pivots.reshape(*lead, size)


def _at(array: Array, index: Any, axis: int) -> Array:
    found: Array = xp.entry(array, index, axis)
    return found
