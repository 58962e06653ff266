"""Log densities under a bank of members as smooth functions, computed at a few points where there are many rows."""

from collections.abc import Callable
from typing import Any

import jax.numpy as jnp
from jax import Array

from streambayes._core.interpolation import interpolated
from streambayes.families import AbstractBelief

__all__ = ["across_variances", "along_line", "is_short"]

_FEW_ROWS = 64
_LINE = 20
_PLANE = (14, 6)
_ERROR = 1e-7
"""In nats: how far a polynomial may be off."""


def is_short(belief: AbstractBelief, rows: Any, *, most_members: int = 6) -> bool:
    """Whether asking all members at every row is little work."""
    num_rows: int = rows.num_rows if hasattr(rows, "num_rows") else rows.shape[0]
    return belief.num_members <= most_members or num_rows <= _FEW_ROWS


def along_line(
    exact: Callable[[Array], Array], values: Array, present: Array, centre: Array, width: Array
) -> Array:
    r"""A log density of one number, at values of shape (rows, ...) that are present.

    The polynomial is one of $d / \sqrt{1 + d^2}$, $d$ the distance from the centre in units of 8 widths.
    """
    width = 8.0 * width

    def moved(u: Array) -> Array:
        return exact(centre + width * u / jnp.sqrt(1.0 - jnp.square(u)))

    shape = (len(values), *centre.shape)
    distance = jnp.broadcast_to((values - centre) / width, shape)
    point = distance / jnp.sqrt(1.0 + jnp.square(distance))
    return interpolated(moved, [point], [_ends(point, present, 1)], [_LINE], _ERROR)


def across_variances(
    exact: Callable[[Array, Array], Array],
    distance: Array,
    variance: Array,
    present: Array,
    noise: Array,
) -> Array:
    r"""A log density of a distance $r$ for a variance $v$ beside that of the noise.

    Both are of shape (members, rows, ...). With $V$ the sum of the variances, the polynomial is one of
    $r^2 / (r^2 + 25 V)$ and $v / V$, and adds up to the log density with $-\tfrac12 \ln V$.
    """
    total, square = variance + noise, jnp.square(distance)
    far, share = square / (square + 25.0 * total), variance / total

    def moved(far: Array, share: Array) -> Array:
        total = noise / (1.0 - share)
        found = exact(jnp.sqrt(25.0 * total * far / (1.0 - far)), share * total)
        return found + 0.5 * jnp.log(total)

    ends = [_ends(far, present, 2), _ends(share, present, 2)]
    return interpolated(moved, [far, share], ends, _PLANE, _ERROR) - 0.5 * jnp.log(total)


def _ends(points: Array, present: Array, num_axes: int) -> tuple[Array, Array]:
    """The least and the most of the points that are present, over the first axes."""
    axes = tuple(range(num_axes))
    low = jnp.where(present, points, jnp.inf).min(axes)
    high = jnp.where(present, points, -jnp.inf).max(axes)
    any_present = low <= high
    return jnp.where(any_present, low, 0.0), jnp.where(any_present, high, 0.0)
