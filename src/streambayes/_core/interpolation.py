"""Smooth functions of one or two coordinates at many points, from their values at a few.

What costs a sum over many members at every point is computed at Chebyshev's points instead, and a polynomial goes
through them. It converges exponentially, and its last coefficients say how far off it may be.
"""

import functools
import math
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["interpolated"]

_LAST = 2
"""Coefficients by which the error is told."""


def interpolated(
    function: Callable[..., Array],
    points: Sequence[Array],
    ends: Sequence[tuple[Array, Array]],
    sizes: Sequence[int],
    tolerance: float,
) -> Array:
    r"""A function at points; where a polynomial may be farther off than the tolerance, the function itself.

    Args:
        function: Of as many coordinates as there are points, all of shape (num, \*blocks).
        points: The coordinates of the points, of shape (..., \*blocks).
        ends: Between what each coordinate lies, of shape (\*blocks); points beyond are taken to them.
        sizes: At how many values of each coordinate the function is asked.
        tolerance: The most that values may be off.
    """
    shape, blocks = points[0].shape, ends[0][0].shape
    points = [
        jnp.clip(point, low, high).reshape(-1, *blocks)
        for point, (low, high) in zip(points, ends, strict=True)
    ]
    (num, *_), chunk = points[0].shape, math.prod(sizes)
    num_chunks = -(-num // chunk)

    def in_chunks(nodes: Array, point: Array) -> Array:
        """Chebyshev's points first: the function is part of the program once."""
        spare = jnp.broadcast_to(nodes[:1], (num_chunks * chunk - num, *blocks))
        return jnp.concatenate([nodes, point, spare]).reshape(1 + num_chunks, chunk, *blocks)

    chunks = [*map(in_chunks, _grid(ends, sizes), points)]

    def goes_on(at: tuple[Any, ...]) -> Any:
        return (at[0] == 0) | (at[2] & (at[0] <= num_chunks))

    def ask(at: tuple[Any, ...]) -> tuple[Any, ...]:
        place, found, is_off, coefficients = at
        new = function(*(coordinate[place] for coordinate in chunks))
        series = _coefficients(new.reshape(*sizes, *blocks), len(sizes))
        is_first = place == 0
        is_off = jnp.where(is_first, ~(_error(series, len(sizes)) <= tolerance), is_off)
        coefficients = jnp.where(is_first, series, coefficients)
        return place + 1, found.at[place].set(new), is_off, coefficients

    start = (
        jnp.zeros((), int),
        jnp.zeros((1 + num_chunks, chunk, *blocks)),
        jnp.zeros((), bool),
        jnp.zeros((*sizes, *blocks)),
    )
    _, found, is_off, coefficients = jax.lax.while_loop(goes_on, ask, start)
    inner = [
        (2.0 * point - (low + high)) / jnp.where(high > low, high - low, 1.0)
        for point, (low, high) in zip(points, ends, strict=True)
    ]
    asked = found[1:].reshape(-1, *blocks)[:num]
    return jnp.where(is_off, asked, _polynomial(coefficients, inner)).reshape(shape)


def _grid(ends: Sequence[tuple[Array, Array]], sizes: Sequence[int]) -> list[Array]:
    """Chebyshev's points, by coordinate: (num, *blocks)."""
    nodes = np.meshgrid(*map(_nodes, sizes), indexing="ij")
    return [
        0.5 * (low + high) + 0.5 * (high - low) * each.reshape(-1, *(1 for _ in low.shape))
        for each, (low, high) in zip(nodes, ends, strict=True)
    ]


def _coefficients(values: Array, num: int) -> Array:
    for place in range(num):
        moved = jnp.tensordot(_transform(values.shape[place]), values, axes=(1, place))
        values = jnp.moveaxis(moved, 0, place)
    return values


def _error(coefficients: Array, num: int) -> Array:
    heights = jnp.abs(coefficients)
    axes = tuple(range(num))
    last = [jnp.moveaxis(heights, place, 0)[-_LAST:].sum(axes).max() for place in axes]
    return functools.reduce(jnp.add, last)


def _polynomial(coefficients: Array, points: Sequence[Array]) -> Array:
    """A Chebyshev series whose coefficients lead, by Clenshaw's rule."""
    x, *others = points
    terms = [_polynomial(each, others) if others else each for each in coefficients]
    after, behind = jnp.zeros_like(x), jnp.zeros_like(x)
    for term in reversed(terms[1:]):
        after, behind = term + 2.0 * x * after - behind, after
    return terms[0] + x * after - behind


@functools.cache
def _nodes(size: int) -> np.ndarray:
    nodes: np.ndarray = np.cos(np.pi * (np.arange(size) + 0.5) / size)
    return nodes


@functools.cache
def _transform(size: int) -> np.ndarray:
    """From values at the nodes to coefficients."""
    matrix: np.ndarray = np.cos(np.outer(np.arange(size), np.arccos(_nodes(size)))) * (2.0 / size)
    matrix[0] *= 0.5
    return matrix
