"""The pass over rows of a mixture as one kernel: every row is read once, sums stay in registers.

XLA writes the odds of every row and value to memory and reads them back, many times the rows themselves.
The kernel runs on NVIDIA GPUs, on float32; elsewhere, where tests run it, JAX interprets it.
"""

import functools
import itertools
import math
import os
from collections.abc import Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["fits", "gpu_kernel", "kernel_is_on", "mixture_totals"]

_VARIABLE = "STREAMBAYES_GPU_KERNEL"
_OFF = ("0", "off", "false", "no")
_chosen: bool | None = None

_LANES = 256
"""Rows of a tile, with an accumulator for each."""
_TILES = 2
"""Tiles in a turn of the loop, which share one logarithm."""
_WARPS = 4
_PROGRAMS = 1056
_MOST_TURNS = 512
"""Rows that one float32 accumulator may add up, before partial sums meet in float64."""
_MOST_SUMS = 64
"""Accumulators that the registers of a thread can hold."""


def gpu_kernel(on: bool | None = None) -> bool:
    """Whether mixtures of float32 columns are learned by the library's own kernel on a GPU.

    On by default, unless the environment variable ``STREAMBAYES_GPU_KERNEL`` is ``off``.

    Args:
        on: ``False`` for XLA's program instead, ``True`` for the kernel; left out, nothing changes.
    """
    global _chosen  # noqa: PLW0603
    if on is not None:
        if not isinstance(on, bool):
            message = f"gpu_kernel: expected True or False, got {on!r}"
            raise TypeError(message)
        _chosen = on
    if _chosen is None:
        return os.environ.get(_VARIABLE, "").lower() not in _OFF
    return _chosen


def kernel_is_on() -> bool:
    """Whether it is wanted, and has a GPU to run on."""
    return gpu_kernel() and jax.default_backend() == "gpu"


def fits(num_values: int, num_columns: int, values: Array) -> bool:
    """Whether a mixture of so many values over so many of the columns of a batch can use it."""
    small = num_values * (1 + 2 * num_columns) < _MOST_SUMS and math.prod(values.shape) < 2**31
    return small and values.dtype == jnp.float32


def mixture_totals(
    coefficients: Array, values: Array, places: Sequence[int], num_rows: Array
) -> tuple[Array, Array]:
    r"""Totals of 1, $x$ and $x^2$ for each value of a discrete variable that rows hide.

    With $t_i = (1, x_i, x_i^2)$ the log-odds of value k of row i are $g_k t_i$.

    Args:
        coefficients: $g$, shape (num_values, 1 + 2 num_columns).
        values: Columns in float32, shape (num_all_columns, num_padded).
        places: Which of them are $x$.
        num_rows: How many rows are real.

    Returns:
        $\sum_i r_{ki} t_i$ with the shares $r$, in the shape of the coefficients, and
        $\sum_i \ln \sum_k \exp(g_k t_i)$; both in float64.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    interpreted = jax.default_backend() != "gpu"
    num_programs = 2 if interpreted else max(_PROGRAMS, values.shape[1] // (_LANES * _MOST_TURNS))
    num_values, num_sums = coefficients.shape
    width = 1 << (num_values * num_sums).bit_length()  # room for one more
    call = pl.pallas_call(
        functools.partial(
            _kernel, places=places, num_programs=num_programs, interpreted=interpreted
        ),
        out_shape=_single(num_programs, width),
        grid=(num_programs,),
        in_specs=[pl.no_block_spec] * 3,
        out_specs=pl.BlockSpec((1, width), lambda program: (program, 0)),
        compiler_params=triton.CompilerParams(num_warps=_WARPS, num_stages=2),
        interpret=interpreted,
    )
    # powers of two, which the processor has an instruction for
    halves = (coefficients / np.log(2.0)).astype(jnp.float32)
    parts = call(halves, values, num_rows.astype(jnp.int32)[None])
    sums = parts.astype(jnp.float64).sum(0)
    last = num_values * num_sums
    return sums[:last].reshape(num_values, num_sums), sums[last] * np.log(2.0)


def _kernel(
    coefficients: Any,
    values: Any,
    num_rows: Any,
    out: Any,
    *,
    places: Sequence[int],
    num_programs: int,
    interpreted: bool,
) -> None:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    num_values, num_sums = coefficients.shape
    exp2, reciprocal, log2 = (
        (jnp.exp2, jnp.reciprocal, jnp.log2)
        if interpreted
        else (functools.partial(_assembly, op) for op in ("ex2", "rcp", "lg2"))
    )
    slopes = [[coefficients[k, at] for at in range(num_sums)] for k in range(num_values)]
    program, size = pl.program_id(0), num_rows[0]
    lanes = jax.lax.iota(jnp.int32, _LANES)
    columns = [jnp.asarray(place, jnp.int32) for place in places]

    def odds_of(logits: list[Array]) -> tuple[Array, list[Array], Array]:
        most = functools.reduce(jnp.maximum, logits)
        odds = [exp2(each - most) for each in logits]
        total: Array = functools.reduce(jnp.add, odds)
        return most, odds, total

    def add(starts: list[Any], sums: tuple[Array, ...], *, whole: bool) -> tuple[Array, ...]:
        """The sums with the rows of some tiles."""
        held = list(sums)
        scale: Any = 1.0
        tiles = []
        for start in starts:  # all loads first, so that they overlap
            lanes_here = None if whole else start + lanes < size
            other = None if whole else 0.0
            rows = pl.ds(start, _LANES)
            tiles.append(
                [triton.load(values.at[c, rows], mask=lanes_here, other=other) for c in columns]
            )
        for start, xs in zip(starts, tiles, strict=True):
            most, odds, total = odds_of([_logit(xs, slope) for slope in slopes])
            share = reciprocal(total)
            if not whole:
                here = start + lanes < size
                share, most = jnp.where(here, share, 0.0), jnp.where(here, most, 0.0)
                total = jnp.where(here, total, 1.0)
            first = [x * share for x in xs]
            statistics = [share, *first, *(t * x for t, x in zip(first, xs, strict=True))]
            for at, (each, statistic) in enumerate(itertools.product(odds, statistics)):
                held[at] = each * statistic + held[at]
            held[-1] = held[-1] + most
            scale = scale * total
        held[-1] = held[-1] + log2(scale)
        return tuple(held)

    def tile(number: Any) -> Any:
        return (program + number * num_programs) * _LANES

    turns = size // (_LANES * num_programs * _TILES)
    sums = tuple(jnp.zeros(_LANES, jnp.float32) for _ in range(num_values * num_sums + 1))
    sums = jax.lax.fori_loop(
        0,
        turns,
        lambda turn, held: add([tile(turn * _TILES + t) for t in range(_TILES)], held, whole=True),
        sums,
    )
    for t in range(_TILES):  # what is left, and the tile that is not full
        sums = add([tile(turns * _TILES + t)], sums, whole=False)
    for at, lane_sums in enumerate(sums):
        out[0, at] = jnp.sum(lane_sums)


def _single(*shape: int) -> jax.ShapeDtypeStruct:
    return jax.ShapeDtypeStruct(shape, jnp.float32)  # type: ignore[no-untyped-call]


def _logit(rows: list[Array], slope: list[Array]) -> Array:
    found, num_columns = slope[0], len(rows)
    for x, one, two in zip(rows, slope[1 : 1 + num_columns], slope[1 + num_columns :], strict=True):
        found = (x * two + one) * x + found
    return found


def _assembly(operation: str, x: Array) -> Array:
    """The processor's own approximation, to one or two units of the last digit of float32."""
    from jax.experimental.pallas import triton

    found: Array = triton.elementwise_inline_asm(
        f"{operation}.approx.ftz.f32 $0, $1;",
        args=[x],
        constraints="=f,f",
        pack=1,
        result_shape_dtypes=[_single(*x.shape)],
    )[0]
    return found
