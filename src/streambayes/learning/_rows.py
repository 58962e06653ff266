"""The pass over rows, in blocks that stay in the processor's cache."""

import dataclasses
from collections.abc import Callable, Mapping
from typing import Any

import jax
import jax.numpy as jnp
from jax import Array

from streambayes._core.batch import Batch
from streambayes.models import AbstractModel

__all__ = [
    "BLOCK",
    "blank",
    "blank_summary",
    "cut_batch",
    "init_local",
    "map_rows",
    "pass_rows",
    "row_width",
    "sum_rows",
]

Model = AbstractModel[Any, Any]
BLOCK = 512
"""Rows of a block; a larger batch is padded to a multiple. Sizes of blocks are the fastest that were measured."""
_FEWEST, _MOST = 64, 2048
_WIDEST = 17_500
"""Numbers in an array of a block. XLA shares larger ones among threads, which takes longer than the work itself."""
_MANY = 4096


def cut_batch(model: Model, expectations: Mapping[str, Any], batch: Batch) -> Batch:
    """The batch in blocks on a leading axis, or as it is if one block holds it.

    Where rows have hidden variables, a block has the fewer rows the wider the arrays are that a pass makes of them.
    """
    if not _is_to_be_cut(batch):
        return batch
    if not model.has_hidden(batch):
        return _cut(batch, BLOCK)
    size, num_padded = BLOCK, batch.values.shape[-1]
    width = row_width(model, expectations, batch)
    while size > _FEWEST and size * width > _WIDEST:
        size //= 2
    while size < _MOST and 2 * size * width <= _WIDEST and num_padded % (8 * size) == 0:
        size *= 2
    return _cut(batch, size)


def row_width(model: Model, expectations: Mapping[str, Any], batch: Batch) -> int:
    """Numbers that the widest array of a pass has for each row."""
    some = dataclasses.replace(batch, values=batch.values[..., :BLOCK])
    program = jax.make_jaxpr(
        lambda expectations, rows: model.row_pass(expectations, rows, model.init_local(rows))
    )(expectations, some)
    return _widest(program.jaxpr) // some.values.shape[-1]


def _widest(program: Any) -> int:
    """Numbers in the largest array of a program, and of those that it calls."""
    parts = [
        getattr(part, "jaxpr", part)
        for line in program.eqns
        for value in line.params.values()
        for part in (value if isinstance(value, tuple) else (value,))
    ]
    inner = [_widest(part) for part in parts if hasattr(part, "eqns")]
    own = [int(made.aval.size) for line in program.eqns for made in line.outvars]
    return max([1, *inner, *own])


def _cut(batch: Batch, size: int) -> Batch:
    num_blocks = batch.values.shape[-1] // size
    values = batch.values.reshape(-1, num_blocks, size).swapaxes(0, 1)
    num_rows = jnp.clip(batch.num_rows - size * jnp.arange(num_blocks), 0, size)
    return dataclasses.replace(batch, values=values, num_rows=num_rows)


def init_local(model: Model, batch: Batch) -> Any:
    """``model.init_local``, for every block if the batch is cut."""
    return jax.vmap(model.init_local)(batch) if _is_cut(batch) else model.init_local(batch)


def blank(function: Callable[..., Any], *args: Any) -> Any:
    """Zeros in the shapes of what a function returns."""
    shapes = jax.eval_shape(function, *args)
    return jax.tree.map(lambda leaf: jnp.zeros(leaf.shape, leaf.dtype), shapes)


def blank_summary(model: Model, expectations: Mapping[str, Any], batch: Batch, local: Any) -> Any:
    """Sums over no rows."""
    if _is_cut(batch):
        batch, local = jax.tree.map(lambda leaf: leaf[0], (batch, local))
    return blank(lambda: model.row_pass(expectations, batch, local)[1])


def pass_rows(
    model: Model, expectations: Mapping[str, Any], batch: Batch, local: Any
) -> tuple[Any, Any]:
    """``model.row_pass``, one block after the other if the batch is cut.

    As there, the same object comes back where hidden variables of rows need not be kept.
    """
    if not _is_cut(batch):
        return model.row_pass(expectations, batch, local)

    held = True

    def one(number: Array, at: tuple[Any, Any]) -> tuple[Any, Any]:
        nonlocal held
        total, local = at
        rows, mine = jax.tree.map(lambda leaf: leaf[number], (batch, local))
        new, summary = model.row_pass(expectations, rows, mine)
        if new is not mine:
            held = False
            local = jax.tree.map(lambda leaf, block: leaf.at[number].set(block), local, new)
        return jax.tree.map(jnp.add, total, summary), local

    start = blank_summary(model, expectations, batch, local)
    filled = (batch.num_rows > 0).sum()  # blocks of padding are left out
    summary, after = jax.lax.fori_loop(0, filled, one, (start, local))
    return local if held else after, summary


def sum_rows(function: Callable[[Batch], Any], batch: Batch) -> Any:
    """A function of rows that is a sum over them, one block after the other, of the batch as it lies there."""
    if not _is_to_be_cut(batch):
        return function(batch)
    num_padded = batch.values.shape[-1]
    size = 2 * BLOCK if num_padded > _MANY and num_padded % (2 * BLOCK) == 0 else BLOCK

    def one(number: Array, total: Any) -> Any:
        values = jax.lax.dynamic_slice_in_dim(batch.values, size * number, size, axis=-1)
        num_rows = jnp.clip(batch.num_rows - size * number, 0, size)
        some = function(dataclasses.replace(batch, values=values, num_rows=num_rows))
        return jax.tree.map(jnp.add, total, some)

    start = blank(function, dataclasses.replace(batch, values=batch.values[..., :size]))
    return jax.lax.fori_loop(0, -(-batch.num_rows // size), one, start)


def map_rows(function: Callable[[Batch], Any], batch: Batch) -> Any:
    """A function of rows, with results that have rows on the first axis, one block after the other."""
    if not _is_to_be_cut(batch):
        return function(batch)
    size = BLOCK  # what is worked out once for a block may be more than its rows take
    while size < _MOST and batch.values.shape[-1] % (2 * size) == 0:
        size *= 2
    found = jax.lax.map(function, _cut(batch, size))
    return jax.tree.map(lambda leaf: leaf.reshape(-1, *leaf.shape[2:]), found)


def _is_to_be_cut(batch: Batch) -> bool:
    size = batch.values.shape[-1]
    if size <= BLOCK or size % BLOCK or batch.fused:
        return False
    return jax.default_backend() == "cpu"  # others have no such cache


def _is_cut(batch: Batch) -> bool:
    return batch.values.ndim == 3
