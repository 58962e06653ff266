"""Packing: blocks of all entries side by side in one array."""

import math
from collections.abc import Mapping
from typing import Any, final

import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes.families._base import AbstractFamily
from streambayes.families._blocks import Blocks

__all__ = ["Packing"]


@final
class Packing:
    """How blocks lie side by side, so that what is done to all of them alike is written, and compiled, once.

    The last axis of a packed array has the natural parameters and the counts of all blocks; numbers per block have
    the blocks on it. Leading axes are those of members, or of whatever blocks are stacked on.

    Args:
        like: Blocks without leading axes.
    """

    def __init__(self, like: Blocks) -> None:
        # by name: JAX keeps no other order of entries
        self._shapes = {name: np.shape(like.counts[name]) for name in sorted(like.counts)}
        self._families: dict[str, AbstractFamily] = dict(like.params)
        sizes = [math.prod(shape) for shape in self._shapes.values()]
        ends = np.cumsum(sizes).tolist()
        self.num_blocks: int = ends[-1]
        self._places = {
            name: slice(end - size, end)
            for name, size, end in zip(self._shapes, sizes, ends, strict=True)
        }
        owners, counts, at = [], [], 0
        for name, place in self._places.items():
            own = np.arange(place.start, place.stop)
            owners += [np.repeat(own, math.prod(e)) for e in self._events(name)] + [own]
            at = sum(map(len, owners))
            counts.append(np.arange(at - len(own), at))
        self._owner = np.concatenate(owners).astype(np.int32)
        self._counts = np.concatenate(counts).astype(np.int32)

    def packed(self, blocks: Blocks) -> Array:
        """Blocks as one array."""
        parts = []
        for name, shape in self._shapes.items():
            count = blocks.counts[name]
            lead = xp.shape(count)[: xp.ndim(count) - len(shape)]
            leaves = (*blocks.params[name].naturals(), count)
            parts += [xp.reshape(leaf, (*lead, -1)) for leaf in leaves]
        return xp.concatenate(parts, -1)

    def unpacked(self, packed: Array) -> Blocks:
        """The blocks in such an array."""
        params, counts, at = {}, {}, 0
        lead = packed.shape[:-1]
        for name, shape in self._shapes.items():
            leaves = []
            for event in (*self._events(name), ()):
                size = math.prod(shape) * math.prod(event)
                leaves.append(packed[..., at : at + size].reshape((*lead, *shape, *event)))
                at += size
            *naturals, counts[name] = leaves
            family = self._families[name]
            params[name] = family.with_naturals(naturals)
        return Blocks(params=params, counts=counts)

    def counts(self, packed: Array) -> Array:
        """Rows behind each block of packed ones."""
        return xp.take(packed, self._counts, axis=-1, mode="clip")

    def side_by_side(self, per_block: Mapping[str, Any]) -> Array:
        """Numbers per block, by entry, as one array."""
        parts = []
        for name, shape in self._shapes.items():
            lead = xp.shape(per_block[name])[: xp.ndim(per_block[name]) - len(shape)]
            parts.append(xp.reshape(per_block[name], (*lead, -1)))
        return xp.concatenate(parts, -1)

    def by_entry(self, numbers: Array) -> dict[str, Array]:
        """Numbers per block by entry."""
        return {
            name: numbers[..., place].reshape((*numbers.shape[:-1], *self._shapes[name]))
            for name, place in self._places.items()
        }

    def repeated(self, numbers: Array) -> Array:
        """A number per block for each number that is packed of it."""
        if self.num_blocks == 1:
            return numbers
        return xp.take(numbers, self._owner, axis=-1, mode="clip")

    def _events(self, name: str) -> list[tuple[int, ...]]:
        family = self._families[name]
        return [
            np.shape(value)[np.ndim(value) - event :]
            for value, event in zip(family.naturals(), family.natural.values(), strict=True)
        ]
