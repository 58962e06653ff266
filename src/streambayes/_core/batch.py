"""Batch: the rows of one batch in the form that compiled code reads."""

import dataclasses

import jax.numpy as jnp
from jax import Array

from streambayes._core.pytree import pytree, static

__all__ = ["Batch"]


@pytree
class Batch:
    """Named columns over padded rows.

    Attributes:
        values: One row per column, shape (num_columns, num_padded), of float64 or float32; NaN for
            missing cells; what lies beyond ``num_rows`` may be anything, NaN included.
        num_rows: How many of the padded rows are real, a scalar.
        columns: The columns' names in the order of ``values``.
        missing: Names of columns that may have missing cells: for the others the code that deals with
            them is not even compiled.
        fused: Whether a model that has a kernel for its pass over rows uses it.
    """

    values: Array
    num_rows: Array
    columns: tuple[str, ...] = static()
    missing: tuple[str, ...] = static(default=())
    fused: bool = static(default=False)

    @property
    def mask(self) -> Array:
        """Which rows are real, shape (num_padded,)."""
        return jnp.arange(self.values.shape[1]) < self.num_rows

    @property
    def observed(self) -> Array:
        """Which cells are there, shape (num_columns, num_padded)."""
        if not self.missing:
            return jnp.broadcast_to(self.mask, self.values.shape)
        return self.mask & ~jnp.isnan(self.values)

    def column(self, name: str) -> Array:
        """One column, shape (num_padded,), in float64: so is all that is made of it."""
        return self.values[self.columns.index(name)].astype(float)

    def with_values(self, values: Array) -> "Batch":
        """The same cells with other values."""
        return dataclasses.replace(self, values=values)
