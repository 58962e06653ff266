"""Batch: the rows of one batch in the form that compiled code reads."""

import jax.numpy as jnp
from jax import Array

from streambayes._core.pytree import pytree, static

__all__ = ["Batch"]


@pytree
class Batch:
    """Named columns over padded rows.

    Attributes:
        values: One row per column, shape (num_columns, num_padded); what lies beyond ``num_rows``
            may be anything, NaN included.
        num_rows: How many of the padded rows are real, a scalar.
        columns: The columns' names in the order of ``values``.
    """

    values: Array
    num_rows: Array
    columns: tuple[str, ...] = static()

    @property
    def mask(self) -> Array:
        """Which rows are real, shape (num_padded,)."""
        return jnp.arange(self.values.shape[1]) < self.num_rows

    def column(self, name: str) -> Array:
        """One column, shape (num_padded,)."""
        return self.values[self.columns.index(name)]
