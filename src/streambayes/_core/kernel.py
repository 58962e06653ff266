"""The pass over rows of a mixture as one kernel: every row is read once, sums stay in registers.

XLA writes the odds of every row and value to memory and reads them back, many times the rows themselves.
The kernel runs on NVIDIA GPUs, on float32; elsewhere, where tests run it, JAX interprets it. There are two of it: where
a thread can hold all sums, each has rows of its own; else a group of threads multiplies matrices of a tile of rows.
"""

import functools
import itertools
import math
import os
from collections.abc import Callable, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

__all__ = ["extents", "fits", "gpu_kernel", "kernel_is_on", "mixture_totals"]

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

_TILE_STAGES = 3
_TILE_PROGRAMS = 6336
_SUMS_OF_WARP = 1024
"""Sums that the registers of a warp can hold, of the kernel that multiplies matrices; for more it has four."""
_MOST_TILE_SUMS = 8192
_TOP = 15
"""Numbers below two to this power are split into two float16."""
_LEAST = -4.0
"""The least mean logarithm of squares, to base two, with which two float16 hold the digits of float32."""


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
    in_tiles = _wide(num_values) * _wide(2 * num_columns) <= _MOST_TILE_SUMS
    small = _is_small(num_values, 1 + 2 * num_columns) or in_tiles
    return small and math.prod(values.shape) < 2**31 and values.dtype == jnp.float32


def _is_small(num_values: int, num_sums: int) -> bool:
    """Whether a thread can hold all sums."""
    return num_values * num_sums < _MOST_SUMS


def extents(num_values: int, values: Array, places: Sequence[int], num_rows: Array) -> Array:
    """What ``mixture_totals`` has to know of a batch, once for all sweeps: shape (1 + 2 num_columns, some).

    Where sums are too many for a thread, the largest and the mean logarithm to base two of each statistic's sizes but
    zeros; else nothing.
    """
    num_sums = 1 + 2 * len(places)
    if _is_small(num_values, num_sums):
        return jnp.zeros((num_sums, 0))
    here = jnp.arange(values.shape[1]) < num_rows

    def of_column(place: int) -> tuple[Array, Array]:
        size = jnp.abs(jnp.where(here, values[place], 0.0))
        logs = jnp.log2(jnp.where(size > 0, size, 1.0)).sum(dtype=float)
        return size.max().astype(float), logs / jnp.maximum((size > 0).sum(), 1)

    largest, logs = (jnp.stack(each) for each in zip(*map(of_column, places), strict=True))
    sizes = jnp.concatenate([jnp.ones(1), largest, jnp.square(largest)])
    return jnp.stack([sizes, jnp.concatenate([jnp.zeros(1), logs, 2.0 * logs])], -1)


def mixture_totals(
    coefficients: Array, values: Array, places: Sequence[int], num_rows: Array, extent: Array
) -> tuple[Array, Array]:
    r"""Totals of 1, $x$ and $x^2$ for each value of a discrete variable that rows hide.

    With $t_i = (1, x_i, x_i^2)$ the log-odds of value k of row i are $g_k t_i$.

    Args:
        coefficients: $g$, shape (num_values, 1 + 2 num_columns).
        values: Columns in float32, shape (num_all_columns, num_padded).
        places: Which of them are $x$.
        num_rows: How many rows are real.
        extent: What ``extents`` has found.

    Returns:
        $\sum_i r_{ki} t_i$ with the shares $r$, in the shape of the coefficients, and
        $\sum_i \ln \sum_k \exp(g_k t_i)$; both in float64.
    """
    # powers of two, which the processor has an instruction for
    halved = coefficients / np.log(2.0)
    count = num_rows.astype(jnp.int32)[None]
    if _is_small(*coefficients.shape):
        totals, log, rounded = _totals_by_threads(halved, values, places, count)
    else:
        totals, log, rounded = _totals_by_tiles(halved, values, places, count, extent)
    # what rounding has done to the coefficients is alike in all rows, and told by its derivative
    return totals, (log + ((halved - rounded) * totals).sum()) * np.log(2.0)


def _totals_by_threads(
    coefficients: Array, values: Array, places: Sequence[int], num_rows: Array
) -> tuple[Array, Array, Array]:
    """Totals, the sum of logarithms to base two, and the coefficients as rounded."""
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
    rounded = _as_float32(coefficients)
    parts = call(rounded.astype(jnp.float32), values, num_rows)
    sums = parts.astype(jnp.float64).sum(0)
    last = num_values * num_sums
    return sums[:last].reshape(num_values, num_sums), sums[last], rounded


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
    exp2, reciprocal, log2 = _instructions(interpreted=interpreted)
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


def _wide(number: int) -> int:
    """The next power of two that a product of matrices can have for a side."""
    return max(16, 1 << (number - 1).bit_length())


def _totals_by_tiles(
    coefficients: Array, values: Array, places: Sequence[int], num_rows: Array, extent: Array
) -> tuple[Array, Array, Array]:
    """The same where a thread cannot hold all sums.

    Each factor of a product is a sum of two float16, which hold 22 digits between them. Batches with a column whose range is
    too wide for that have float32 of the matrix units' own, of which three products take twice as long.
    """
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    interpreted = jax.default_backend() != "gpu"
    num_values, num_sums = coefficients.shape
    tall, wide = _wide(num_values), _wide(num_sums - 1)
    is_one_warp = tall * wide <= _SUMS_OF_WARP
    room, beside = (0, tall - num_values), (0, wide - num_sums + 1)

    slopes = coefficients[:, 1:]
    _, exponents = jnp.frexp(jnp.abs(slopes).max(1))
    units = jnp.exp2(exponents.astype(float) - _TOP)[:, None]  # float16 hold slopes in these
    constants = _as_float32(coefficients[:, 0])

    def added(
        slopes: Array, product: Callable[..., Array], split: Callable[[Array], Any], num_lanes: int
    ) -> list[Array]:
        most = values.shape[1] // (num_lanes * _MOST_TURNS)
        num_programs = 2 if interpreted else max(_TILE_PROGRAMS, most)
        call = pl.pallas_call(
            functools.partial(
                _tile_kernel,
                num_columns=len(places),
                num_lanes=num_lanes,
                num_programs=num_programs,
                interpreted=interpreted,
                product=product,
                split=split,
            ),
            out_shape=(
                _single(num_programs, tall),
                _single(num_programs, tall, wide),
                _single(num_programs),
            ),
            grid=(num_programs,),
            in_specs=[pl.no_block_spec] * 6,
            out_specs=(
                pl.BlockSpec((1, tall), lambda program: (program, 0)),
                pl.BlockSpec((1, tall, wide), lambda program: (program, 0, 0)),
                pl.BlockSpec((1,), lambda program: (program,)),
            ),
            compiler_params=triton.CompilerParams(
                num_warps=1 if is_one_warp else 4, num_stages=_TILE_STAGES
            ),
            interpret=interpreted,
        )
        found = call(
            jnp.pad(slopes, (room, beside)).astype(jnp.float32),
            jnp.pad(constants, room, constant_values=-np.inf).astype(jnp.float32),
            jnp.pad(units[:, 0], room).astype(jnp.float32),
            jnp.pad(jnp.asarray([*places, *places], jnp.int32), beside),
            values,
            num_rows,
        )
        return [*(part.astype(jnp.float64).sum(0) for part in found), slopes]

    def by_halves() -> list[Array]:
        return added(
            _as_halves(slopes / units), _product_of_halves, _halves, 32 if is_one_warp else 64
        )

    def by_wholes() -> list[Array]:
        product = functools.partial(_product_of_wholes, interpreted)
        return added(_as_float32(slopes / units), product, lambda numbers: numbers, 32)

    largest, logs = extent[1 + len(places) :].T
    near = ((largest < 2.0**_TOP) & (logs > _LEAST)).all()
    counts, totals, log, rounded = jax.lax.cond(near, by_halves, by_wholes)
    totals = jnp.concatenate([counts[:, None], totals], 1)[:num_values, :num_sums]
    rounded = jnp.concatenate([constants[:, None], rounded * units], 1)
    return totals * 2.0**-_TOP, log, rounded


def _tile_kernel(
    slopes: Any,
    constants: Any,
    units: Any,
    places: Any,
    values: Any,
    num_rows: Any,
    counts: Any,
    totals: Any,
    logs: Any,
    *,
    num_columns: int,
    num_lanes: int,
    num_programs: int,
    interpreted: bool,
    product: Callable[..., Array],
    split: Callable[[Array], Any],
) -> None:
    from jax.experimental import pallas as pl
    from jax.experimental.pallas import triton

    tall, wide = slopes.shape
    exp2, reciprocal, log2 = _instructions(interpreted=interpreted)
    slope, constant, unit = split(slopes[:, :]), constants[:][:, None], units[:][:, None]
    program, size = pl.program_id(0), num_rows[0]
    lanes = jax.lax.iota(jnp.int32, num_lanes)

    def across(each: Array) -> Array:
        """Of every statistic, for every row."""
        return jnp.broadcast_to(each[:, None], (wide, num_lanes))

    def along(each: Array) -> Array:
        """Of every row, for every statistic."""
        return jnp.broadcast_to(each[None], (wide, num_lanes))

    number = jax.lax.iota(jnp.int32, wide)
    column, is_first = across(places[:]), across(number < num_columns)
    is_one = None if 2 * num_columns == wide else across(number < 2 * num_columns)

    def add(turn: Any, held: tuple[Array, ...], *, whole: bool) -> tuple[Array, ...]:
        """The sums with the rows of a tile."""
        rows = (program + turn * num_programs) * num_lanes + lanes
        here, mask = rows < size, is_one
        if not whole:
            mask = along(here) if mask is None else mask & along(here)
        x = triton.load(
            values.at[column, along(rows)], mask=mask, other=None if mask is None else 0.0
        )
        statistics = split(jnp.where(is_first, x, x * x))
        logits = product(slope, statistics) * unit + constant
        most = jnp.max(logits, axis=0)
        odds = exp2(logits - most[None])
        total = jnp.sum(odds, axis=0)
        share, log = reciprocal(total) * 2.0**_TOP, most + log2(total)
        if not whole:
            share, log = jnp.where(here, share, 0.0), jnp.where(here, log, 0.0)
        shares = odds * share[None]
        # matrix units round sums toward zero, so each tile has sums of its own that are added to those held
        tile = product(split(shares), statistics, over_rows=True)
        return held[0] + jnp.sum(shares, axis=1), held[1] + tile, held[2] + log

    sums = tuple(jnp.zeros(shape, jnp.float32) for shape in (tall, (tall, wide), num_lanes))
    turns = size // (num_lanes * num_programs)
    sums = jax.lax.fori_loop(0, turns, functools.partial(add, whole=True), sums)
    sums = add(turns, sums, whole=False)  # what is left, and the tile that is not full
    counts[0, :], totals[0, :, :], logs[0] = sums[0], sums[1], jnp.sum(sums[2])


def _halves(numbers: Array) -> tuple[Array, Array]:
    """Numbers as sums of two float16."""
    high = numbers.astype(jnp.float16)
    return high, (numbers - high.astype(jnp.float32)).astype(jnp.float16)


def _as_halves(numbers: Array) -> Array:
    """Numbers in float64 that two float16 hold."""
    high = jax.lax.reduce_precision(numbers, 5, 10)
    return high + jax.lax.reduce_precision(numbers - high, 5, 10)


def _as_float32(numbers: Array) -> Array:
    """Numbers in float64 that float32 holds."""
    return jax.lax.reduce_precision(numbers, 8, 23)


def _product_of_halves(left: Any, right: Any, *, over_rows: bool = False) -> Array:
    """A product of matrices that are split, its smallest parts first."""
    low = _dot(left[0], right[1], over_rows=over_rows) + _dot(
        left[1], right[0], over_rows=over_rows
    )
    return low + _dot(left[0], right[0], over_rows=over_rows)


def _product_of_wholes(
    interpreted: bool, left: Array, right: Array, *, over_rows: bool = False
) -> Array:
    # the interpreter has products of float32 as they are
    precision = None if interpreted else jax.lax.DotAlgorithmPreset.TF32_TF32_F32_X3
    return _dot(left, right, precision, over_rows=over_rows)


def _dot(left: Array, right: Array, precision: Any = None, *, over_rows: bool) -> Array:
    """A product of matrices with the columns or the rows of the right one, added up in float32."""
    return jax.lax.dot_general(
        left,
        right,
        (((1,), (1 if over_rows else 0,)), ((), ())),
        precision=precision,
        preferred_element_type=jnp.float32,
    )


def _instructions(*, interpreted: bool) -> tuple[Callable[[Array], Array], ...]:
    """Powers of two, reciprocals and logarithms to base two."""
    if interpreted:
        return jnp.exp2, jnp.reciprocal, jnp.log2
    return tuple(functools.partial(_assembly, each) for each in ("ex2", "rcp", "lg2"))


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
