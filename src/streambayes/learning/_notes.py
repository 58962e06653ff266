"""What a step did to the parameters: how far each block moved, and where its parameters are now."""

import functools
from typing import Any, NamedTuple, final

import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.precision import float64_scope
from streambayes._core.program import Program
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief, Blocks, Point
from streambayes.learning._state import LearnerState
from streambayes.models import AbstractModel
from streambayes.models._base import parameter_names

__all__ = ["Noter", "Notes", "noter", "rounded"]

_DIGITS = 8


class Notes(NamedTuple):
    """Notes on a step, by readable name, to eight digits or to a hundred-thousandth of what is uncertain.

    Attributes:
        moved: Per block, the divergence of what is believed after the batch from what was before, in nats.
        parameters: Per block, the mean and the standard deviation of each of its parameters, in the user's
            units.
    """

    moved: dict[str, float]
    parameters: dict[str, dict[str, tuple[float, float]]]


@final
class Noter:
    """Takes notes of a model's steps; ``noted`` can be part of a larger program.

    Args:
        model: The model.
    """

    def __init__(self, model: AbstractModel[Any, Any]) -> None:
        self._model = model
        self._labels = model.labels()
        self._blocks = [str(label) for each in self._labels.values() for label in each.flat]
        shown = [part for section in parameter_names(model) for part in section]
        self._names = [str(name) for part in shown for name in part.names.flat]
        self._homes = [str(block) for part in shown for block in part.blocks.flat]
        self._program = Program(self.noted)

    def note(self, before: LearnerState, after: LearnerState) -> Notes:
        """Notes on the step between two states."""
        with float64_scope():
            flat = self._program(before.belief, after.belief, after.scale)
        notes = self.read(np.asarray(flat))
        for block in self._without_units(after.scale):
            del notes.moved[block], notes.parameters[block]
        return notes

    def noted(self, before: AbstractBelief, after: AbstractBelief, scale: Scale) -> Array:
        """The numbers in one array: movements of blocks, means of parameters, their standard deviations."""
        new = after.summary()
        moved = new.kl(before.summary())
        in_order = [moved[name].ravel() for name in self._labels]
        return jnp.concatenate([*in_order, *self._parameters(after, new, scale)])

    def read(self, flat: np.ndarray) -> Notes:
        """The notes in an array of numbers."""
        num_blocks, num_parameters = len(self._blocks), len(self._names)
        ends = num_blocks, num_blocks + num_parameters
        moved, means, deviations = np.split(flat, ends)
        means = rounded(means, deviations).tolist()
        moved, deviations = (rounded(part).tolist() for part in (moved, deviations))
        parameters: dict[str, dict[str, tuple[float, float]]] = {
            block: {} for block in self._blocks
        }
        for home, name, mean, deviation in zip(
            self._homes, self._names, means, deviations, strict=True
        ):
            parameters[home][name] = mean, deviation
        return Notes(
            moved=dict(zip(self._blocks, moved, strict=True)),
            parameters=parameters,
        )

    def _without_units(self, scale: Scale) -> set[str]:
        """Blocks of columns that have not varied yet: in which units, nobody knows."""
        return {
            str(label)
            for column, is_known in zip(self._model.columns, scale.frozen, strict=True)
            if not is_known
            for entry, touched in self._model.touched_by(column.name).items()
            for label in self._labels[entry][np.asarray(touched)]
        }

    def _parameters(self, belief: AbstractBelief, summary: Blocks, scale: Scale) -> list[Array]:
        """Means, then standard deviations; where a bank has none, those of its summary."""
        every = zip(
            self._model.marginals(belief, scale),
            self._model.marginals(Point(summary), scale),
            strict=True,
        )
        means, deviations = [], []
        for section, others in every:
            for part, other in zip(section, others, strict=True):
                mean, deviation = part.marginal.mean(), part.marginal.deviation()
                exists = jnp.isfinite(mean) & jnp.isfinite(deviation)
                means.append(jnp.where(exists, mean, other.marginal.mean()).ravel())
                deviations.append(jnp.where(exists, deviation, other.marginal.deviation()).ravel())
        return [*means, *deviations]


noter = functools.cache(Noter)


def rounded(
    numbers: np.ndarray, spreads: np.ndarray | None = None, digits: int = _DIGITS
) -> np.ndarray:
    """To so many digits, and as many of a small spread: there are many numbers in a record."""
    with np.errstate(divide="ignore", invalid="ignore", over="ignore"):
        places = digits - 1 - np.floor(np.log10(np.abs(numbers)))
        if spreads is not None:
            known = digits - 3 - np.floor(np.log10(spreads))
            places = np.where(np.isfinite(known), np.fmax(places, known), places)
        unit = 10.0 ** np.abs(places)  # a whole number, so that what is rounded is short to write
        short = np.where(
            places < 0, np.round(numbers / unit) * unit, np.round(numbers * unit) / unit
        )
    return np.where(np.isfinite(short), short, numbers)
