"""Cholesky factors of small symmetric matrices in plain operations, safe in large batches.

XLA's batched Cholesky can deadlock the CPU thread pool when two of them share a program; these loops
over columns cannot. The only place where a pivot is ever lifted.
"""

from collections.abc import Callable
from typing import Any, TypeVar

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.precision import compiled

__all__ = [
    "cholesky",
    "is_positive_definite",
    "log_det",
    "solve",
    "solve_lower",
    "solve_lower_transposed",
    "square_norm",
]

Carry = TypeVar("Carry")
_UNROLLED = 8
_EPSILON, _TINY = float(np.finfo(np.float64).eps), float(np.finfo(np.float64).tiny)


@compiled
def cholesky(matrix: Array) -> Array:
    r"""Lower $L$ with $LL^\top$ = matrix, shape (..., d, d).

    A pivot that rounding has pushed below $\varepsilon$ times its diagonal entry is lifted to it.
    """
    matrix = 0.5 * (matrix + jnp.swapaxes(matrix, -1, -2))
    diagonal = jnp.diagonal(matrix, axis1=-2, axis2=-1)
    floor = _EPSILON * jnp.abs(diagonal) + _TINY
    return _factor(matrix, floor)[0]


@compiled
def is_positive_definite(matrix: Array) -> Array:
    """Whether every pivot is positive as it stands, shape (...)."""
    _, smallest = _factor(matrix, jnp.full(matrix.shape[:-1], _TINY))
    return smallest > 0


def log_det(factor: Array) -> Array:
    """Log-determinant of the matrix whose Cholesky factor is given."""
    return 2.0 * jnp.log(jnp.diagonal(factor, axis1=-2, axis2=-1)).sum(-1)


@compiled
def solve_lower(factor: Array, right: Array) -> Array:
    r"""$L^{-1} B$ for lower $L$ of shape (..., d, d) and $B$ of shape (..., d, k)."""
    size = factor.shape[-1]
    shape = jnp.broadcast_shapes(factor.shape[:-2], right.shape[:-2])
    factor = jnp.broadcast_to(factor, (*shape, size, size))
    right = jnp.broadcast_to(right, (*shape, *right.shape[-2:]))

    def row(i: Array | int, solved: Array) -> Array:
        known = jnp.take(factor, i, axis=-2)  # entries from i on meet rows that are still zero
        value = jnp.take(right, i, axis=-2) - (known[..., :, None] * solved).sum(-2)
        value = value / jnp.take(known, i, axis=-1)[..., None]
        return jnp.where((jnp.arange(size) == i)[:, None], value[..., None, :], solved)

    return _loop(size, row, jnp.zeros_like(right))


def solve_lower_transposed(factor: Array, right: Array) -> Array:
    r"""$L^{-\top} B$ for lower $L$."""
    # L^T is lower triangular once rows and columns are reversed
    flipped = jnp.swapaxes(factor, -1, -2)[..., ::-1, ::-1]
    return solve_lower(flipped, right[..., ::-1, :])[..., ::-1, :]


def solve(factor: Array, right: Array) -> Array:
    r"""$(LL^\top)^{-1} B$ for the Cholesky factor $L$."""
    return solve_lower_transposed(factor, solve_lower(factor, right))


def square_norm(vector: Array, factor: Array) -> Array:
    r"""$v^\top LL^\top v \ge 0$ for the Cholesky factor $L$, shape (...)."""
    return jnp.square((vector[..., :, None] * factor).sum(-2)).sum(-1)


def _factor(matrix: Array, floor: Array) -> tuple[Array, Array]:
    size = matrix.shape[-1]
    positions = jnp.arange(size)

    def column(j: Array | int, carry: tuple[Array, Array, Array]) -> tuple[Array, Array, Array]:
        rest, factor, smallest = carry
        values = jnp.take(rest, j, axis=-1)
        pivot = jnp.take(values, j, axis=-1)
        root = jnp.sqrt(jnp.maximum(pivot, jnp.take(floor, j, axis=-1)))
        values = jnp.where(positions > j, values / root[..., None], 0.0)
        values = jnp.where(positions == j, root[..., None], values)
        factor = jnp.where(positions == j, values[..., :, None], factor)
        rest = rest - values[..., :, None] * values[..., None, :]
        return rest, factor, jnp.minimum(smallest, pivot)

    start = (matrix, jnp.zeros_like(matrix), jnp.full(matrix.shape[:-2], jnp.inf, matrix.dtype))
    _, factor, smallest = _loop(size, column, start)
    return factor, smallest


def _loop(size: int, body: Callable[[Any, Carry], Carry], start: Carry) -> Carry:
    if size <= _UNROLLED:
        for i in range(size):
            start = body(i, start)
        return start
    carry: Carry = jax.lax.fori_loop(0, size, body, start)
    return carry
