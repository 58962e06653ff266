"""Anderson's acceleration of sweeps: the next belief is extrapolated from the last few, if that raises the bound."""

from typing import Any, final

import jax
import jax.numpy as jnp
import numpy as np

from streambayes.families import AbstractBelief, Blocks
from streambayes.learning._sweep import Ascent

__all__ = ["Jumps"]

_WINDOW = 6
_FEWEST = 3


@final
class Jumps:
    """Jumps between sweeps, each of which is taken back unless the sweep after it ends higher than before.

    A sweep maps a belief to a better one. From a few such pairs follows where the map would stay as it is if it were
    linear: that is where the next sweep begins. Only the end of a sweep without a jump counts as settled.

    Args:
        tolerance: The bound has settled when it gains at most this much.
    """

    def __init__(self, tolerance: float) -> None:
        self._tolerance = tolerance
        self._starts: list[np.ndarray] = []
        self._steps: list[np.ndarray] = []
        self._before: Ascent | None = None
        self._climbs = True

    def judged(self, at: Ascent, after: Ascent, *, is_over: bool) -> tuple[Ascent, bool]:
        """Where a sweep has led, or where it was before a jump that did not help; and whether that is the end."""
        before, self._before = self._before, None
        if before is not None and not float(after.bound) >= float(before.bound):
            self._forget()
            return before._replace(num_sweeps=after.num_sweeps), False
        if int(after.num_rounds) != int(at.num_rounds):  # the policy was refined: another map
            self._forget()
        start, end = _numbers(at.belief), _numbers(after.belief)
        self._starts = [*self._starts, start][-_WINDOW:]
        with np.errstate(invalid="ignore"):  # log weights of members that are out
            self._steps = [*self._steps, end - start][-_WINDOW:]
        self._climbs = float(after.bound) - float(at.bound) > self._tolerance
        if before is not None:
            return after._replace(last_bound=jnp.full((), -jnp.inf)), False
        return after, is_over

    def onward(self, at: Ascent) -> Ascent:
        """Where the next sweep begins: beyond the end of the last one, if that still gained something."""
        if len(self._steps) < _FEWEST or not self._climbs:
            return at
        starts, steps = np.stack(self._starts, 1), np.stack(self._steps, 1)
        known = np.isfinite(steps).all(1)
        reached = _numbers(at.belief)
        reached[known] = _extrapolated(starts[known], steps[known])
        belief = _with_numbers(at.belief, reached)
        if np.isnan(reached).any() or not _is_proper(belief):
            return at
        self._before = at
        return at._replace(belief=belief)

    def _forget(self) -> None:
        self._starts, self._steps = [], []


def _extrapolated(starts: np.ndarray, steps: np.ndarray) -> np.ndarray:
    """Where sweeps would end that are linear, given some of them, one in each column."""
    size = np.abs(starts).max(1) + np.abs(steps).max(1) + np.finfo(float).tiny
    bends = np.diff(steps, axis=1)
    shares, *_ = np.linalg.lstsq(bends / size[:, None], steps[:, -1] / size, rcond=1e-10)
    found: np.ndarray = starts[:, -1] + steps[:, -1] - (np.diff(starts, axis=1) + bends) @ shares
    return found


def _is_proper(belief: AbstractBelief) -> bool:
    """Whether all members of all blocks are distributions."""
    blocks = jax.tree.leaves(belief, is_leaf=lambda part: isinstance(part, Blocks))
    return all(bool(np.all(part.is_proper())) for part in blocks if isinstance(part, Blocks))


def _numbers(belief: AbstractBelief) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(belief)])


def _with_numbers(belief: Any, numbers: np.ndarray) -> Any:
    leaves, tree = jax.tree.flatten(belief)
    ends = np.cumsum([np.size(leaf) for leaf in leaves])[:-1]
    parts = zip(np.split(numbers, ends), leaves, strict=True)
    return jax.tree.unflatten(tree, [part.reshape(np.shape(leaf)) for part, leaf in parts])
