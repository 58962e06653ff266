"""What a step did to the parameters: how far each block moved, and where its parameters are now."""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping
from typing import Any, NamedTuple, final

import jax
import jax.numpy as jnp
import numpy as np
from jax import Array

from streambayes._core.arrays import xp
from streambayes._core.precision import float64_scope, in_float64, to_host
from streambayes._core.program import Program
from streambayes._core.scale import Scale
from streambayes.families import AbstractBelief, Blocks, Packing, Point
from streambayes.learning._watch import KEPT, SCALES, Watch, watched
from streambayes.models import AbstractModel
from streambayes.models._base import parameter_names

__all__ = ["Comparison", "Looked", "Noter", "Notes", "Seen", "noter", "rounded"]

_DIGITS = 8


class Comparison(NamedTuple):
    """One parameter before a batch, as the watch has it, and by the batch alone, or the batches of a look."""

    usual: float
    usual_sd: float
    now: float
    now_sd: float


Looked = dict[str, tuple[tuple[float | None, float | None], ...]]


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
class Seen:
    """What the watch saw in a batch, by readable name; read when it is asked for.

    Attributes:
        looks: Per block, two log Bayes factors for each scale at which the watch has looked (this batch, the last 4,
            16 and 64): that the block starts over here, against going on as usual; and that it had started over
            at the look before. ``None`` where there was nothing to compare.
        pattern: Per block, how it goes on: the weights of fluctuating from batch to batch and of wandering, and
            how many rows are remembered while it wanders.
        alone: Per block, the mean of each of its parameters by the batch alone, in the user's units.
        compared: Of blocks with evidence for a change, by the number of the scale: what was usual of each parameter
            before, and what the look says by itself.
    """

    def __init__(self, reading: "_Reading", number: int) -> None:
        self._reading, self._number = reading, number

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Seen):
            return NotImplemented
        scales = self._reading.scale, other._reading.scale
        return (
            self._reading.noter is other._reading.noter
            and np.array_equal(self.flat, other.flat, equal_nan=True)
            and all(map(np.array_equal, *map(jax.tree.leaves, scales)))
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"Seen of {len(self.looks)} blocks"

    @property
    def flat(self) -> np.ndarray:
        """All of it in one array, as the watch has returned it."""
        found: np.ndarray = self._reading.flats[self._number]
        return found

    @property
    def _parts(self) -> tuple[Any, ...]:
        return self._reading.parts[self._number]

    @property
    def looks(self) -> Looked:
        found: Looked = self._parts[0]
        return found

    @property
    def pattern(self) -> dict[str, tuple[float, float, float]]:
        found: dict[str, tuple[float, float, float]] = self._parts[1]
        return found

    @property
    def alone(self) -> dict[str, dict[str, float]]:
        found: dict[str, dict[str, float]] = self._parts[2]
        return found

    @property
    def compared(self) -> dict[str, dict[int, dict[str, Comparison]]]:
        found: dict[str, dict[int, dict[str, Comparison]]] = self._parts[3]
        return found


@final
class _Reading:
    """What the watch saw in a batch or in several, taken apart together as soon as any of it is asked for.

    Until then the watch may be at work, while the next batch is learned.
    """

    def __init__(self, noter: "Noter", seen: Array | np.ndarray, scale: Scale) -> None:
        self.noter, self._seen, self.scale = noter, seen, scale

    def __getstate__(self) -> dict[str, Any]:
        return {"noter": self.noter, "_seen": self.flats, "scale": self.scale}

    @functools.cached_property
    def flats(self) -> np.ndarray:
        """What the watch has returned, batches on the first axis."""
        return np.atleast_2d(np.asarray(self._seen))

    @functools.cached_property
    def parts(self) -> list[tuple[Any, ...]]:
        """For each batch what ``Seen`` has."""
        return self.noter.read_watch(self.flats, self.scale)


@final
class Noter:
    """Takes notes of a model's steps, and takes its watch a batch further.

    ``noted`` can be part of a larger program. The watch has a program of its own: it is the same for every policy and
    every number of rows.

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
        self._are_spreads = np.concatenate(
            [np.full(part.names.size, part.support == "positive") for part in shown]
        )
        places = {block: place for place, block in enumerate(self._blocks)}
        self._places = np.array([places[home] for home in self._homes], int)
        self._packing = Packing(Blocks.of_prior(model.prior()))
        self._watch = Program(self.watched, of=("watch", model))
        self._watch_several = Program(self._watched_several, of=("watch_several", model))
        self.watch_many = Program(jax.vmap(self.watched), of=("watch_many", model))

    def __reduce__(self) -> tuple[Any, ...]:
        return _noter_of, (self._model,)  # its programs belong to this process

    def note(self, before: AbstractBelief, after: AbstractBelief, scale: Scale) -> Notes:
        """Notes on a step, by what was believed before and after it."""
        several = jax.tree.map(lambda leaf: leaf[None], to_host(after))
        (notes,) = self.note_several(before, several, scale)
        for block in self.without_units(scale):
            for each in notes:
                each.pop(block, None)
        return notes

    def note_several(
        self, before: AbstractBelief, after: AbstractBelief, scale: Scale
    ) -> list[Notes]:
        """Notes on several steps, by what was believed before the first and, on a leading axis, after each."""
        before, after = to_host(before), to_host(after).of_several()
        with float64_scope():
            new = after.summary()
            old: Blocks = jax.tree.map(
                lambda first, each: np.concatenate([first[None], each[:-1]]), before.summary(), new
            )
            moments = np.asarray(self._moments(after, scale))
            if not np.isfinite(moments).all():  # where a bank has none, those of its summary
                others = np.asarray(self._moments(Point(new), scale))
                moments = np.where(np.isfinite(moments).all(0), moments, others)
            divergences = new.kl(old)
        size = moments.shape[1]
        moved = rounded(
            np.concatenate([divergences[name].reshape(size, -1) for name in self._labels], 1)
        )
        means, deviations = rounded(*moments), rounded(moments[1])
        return [
            Notes(
                moved=dict(zip(self._blocks, far, strict=True)),
                parameters=self._by_block(zip(mean, deviation, strict=True)),
            )
            for far, mean, deviation in zip(
                moved.tolist(), means.tolist(), deviations.tolist(), strict=True
            )
        ]

    def begin(self, prior: Blocks) -> Watch:
        """A watch before any batch."""
        return Watch.begin(prior, len(self._names))

    def restarted(self, watch: Watch, prior: Blocks, chosen: Mapping[str, Any]) -> Watch:
        """A watch without what was seen of the chosen blocks."""
        masks = [
            np.broadcast_to(np.asarray(chosen.get(name, False)), labels.shape).ravel()
            for name, labels in self._labels.items()
        ]
        return watch.restarted(prior, chosen, np.concatenate(masks)[self._places])

    def watch(
        self, watch: Watch, prior: Blocks, scale: Scale, message: Blocks
    ) -> tuple[Watch, Seen]:
        """The watch after a batch, and what it saw."""
        with float64_scope():
            after, flat = self._watch(watch, prior, scale, message)
        return after, self.seen(flat, scale)

    def prepare(self, watch: Watch, prior: Blocks, scale: Scale, num_batches: int | None) -> None:
        """Load or compile what watches a batch, or several that are learned together."""
        lead = () if num_batches is None else (num_batches,)
        message: Blocks = jax.tree.map(
            lambda leaf: jax.ShapeDtypeStruct((*lead, *np.shape(leaf)), float),  # type: ignore[no-untyped-call]
            prior,
        )
        if num_batches is None:
            self._watch.prepare(watch, prior, scale, message)
        else:
            count = jax.ShapeDtypeStruct((), int)  # type: ignore[no-untyped-call]
            self._watch_several.prepare(watch, prior, scale, message, count, capacity=num_batches)

    def watch_several(
        self, watch: Watch, prior: Blocks, scale: Scale, messages: Blocks, count: Any
    ) -> tuple[Watch, Array]:
        """The watch after so many of the batches whose messages are given, and what ``seen`` reads of each."""
        with float64_scope():
            capacity = len(next(iter(messages.counts.values())))
            found: tuple[Watch, Array] = self._watch_several(
                watch, prior, scale, messages, count, capacity=capacity
            )
        return found

    def seen(self, flat: Array | np.ndarray, scale: Scale) -> Seen:
        """What the watch saw in a batch."""
        return Seen(_Reading(self, flat, scale), 0)

    def seen_several(self, flats: np.ndarray, scale: Scale) -> list[Seen]:
        """What the watch saw in each of several batches."""
        reading = _Reading(self, flats, scale)
        return [Seen(reading, number) for number in range(len(flats))]

    def _watched_several(
        self,
        watch: Watch,
        prior: Blocks,
        scale: Scale,
        messages: Blocks,
        count: Array,
        capacity: int,
    ) -> tuple[Watch, Array]:
        def one(number: Array, at: tuple[Watch, Array]) -> tuple[Watch, Array]:
            message = jax.tree.map(lambda leaf: leaf[number], messages)
            after, flat = self.watched(at[0], prior, scale, message)
            return after, at[1].at[number].set(flat)

        first = jax.tree.map(lambda leaf: leaf[0], messages)
        size = jax.eval_shape(self.watched, watch, prior, scale, first)[1].shape
        found: tuple[Watch, Array] = jax.lax.fori_loop(
            0, count, one, (watch, jnp.zeros((capacity, *size)))
        )
        return found

    def watched(
        self, watch: Watch, prior: Blocks, scale: Scale, message: Blocks
    ) -> tuple[Watch, Any]:
        """The watch after a batch, and what it saw in one array, as ``read_watch`` takes it."""
        after, looks = watched(watch, prior, message)

        def by_block(values: dict[str, Array], size: int) -> Array:
            parts = [xp.reshape(values[name], (size, -1)) for name in self._labels]
            return xp.concatenate(parts, 1).ravel()

        num = len(SCALES)
        evidence = by_block(looks.evidence, 2 * num)
        now = looks.compared[1, 0]
        alone = self._means(Point(self._packing.unpacked(now)), scale)
        is_new = ~xp.isnan(evidence[: len(self._blocks)])[self._places]
        alone = xp.where(is_new & self._is_known(now), alone, np.nan)
        recent = xp.put(watch.recent, watch.num_batches % KEPT, alone)
        after = Watch(after.scales, after.num_batches, recent)
        return after, xp.concatenate([evidence, by_block(looks.pattern, 3), looks.compared.ravel()])

    def _is_known(self, packed: Array) -> Array:
        """Which parameters blocks with so many rows show: a single row has no spread."""
        every = self._packing.by_entry(self._packing.counts(packed))
        lead = packed.shape[:-1]
        by_block = xp.concatenate([every[name].reshape((*lead, -1)) for name in self._labels], -1)
        counts = xp.take(by_block, self._places, axis=-1)
        return counts >= np.where(self._are_spreads, 2.0, 0.0)

    @in_float64
    def read_watch(self, flats: np.ndarray, scale: Scale) -> list[tuple[Any, ...]]:
        """What the watch saw in several batches, taken apart."""
        size, num, num_blocks = len(flats), len(SCALES), len(self._blocks)
        evidence: Any
        both: Any
        ends = np.cumsum([2 * num * num_blocks, 3 * num_blocks])
        evidence, pattern, both = np.split(flats, ends, axis=1)
        evidence, both = evidence.reshape(size, num, 2, num_blocks), both.reshape(size, 2, num, -1)
        looks = np.round(np.where(np.isfinite(evidence), evidence, np.nan), 3)
        clear = looks[:, :, 0] >= 0.0
        batches, places = np.nonzero(clear.any(-1))
        pairs = both[batches, :, places].reshape(2 * len(places), both.shape[-1])
        means, deviations = self._read_moments(np.concatenate([both[:, 1, 0], pairs]), scale)
        compared: list[dict[str, dict[int, dict[str, Comparison]]]] = [{} for _ in flats]
        rows = [
            each[size:].reshape(len(places), 2, each.shape[-1]).tolist()
            for each in (means, deviations)
        ]
        for batch, look, *both_moments in zip(batches, places.tolist(), *rows, strict=True):
            columns = [part[which] for which in (0, 1) for part in both_moments]
            by_block = self._by_block(map(Comparison, *columns))
            for block in itertools.compress(self._blocks, clear[batch, look]):
                compared[batch].setdefault(block, {})[look] = {
                    name: each for name, each in by_block[block].items() if not math.isnan(each.now)
                }
        shown = looks.astype(object)
        shown[np.isnan(looks)] = None
        due = (~np.isnan(evidence[:, :, 0]).all(-1)) * np.arange(1, num + 1)
        patterns = rounded(pattern.reshape(size, 3, -1).transpose(0, 2, 1), digits=4).tolist()
        unknown = self.without_units(scale)
        found = zip(shown, due.max(1), patterns, means[:size].tolist(), compared, strict=True)
        parts: list[tuple[Any, ...]] = []
        for look_of, num_due, pattern_of, alone, compared_of in found:
            pairs = look_of[: max(num_due, 1)].transpose(2, 0, 1).tolist()
            part: tuple[dict[str, Any], ...] = (
                {
                    block: tuple(map(tuple, each))
                    for block, each in zip(self._blocks, pairs, strict=True)
                },
                dict(zip(self._blocks, map(tuple, pattern_of), strict=True)),
                {
                    block: {name: value for name, value in of.items() if not math.isnan(value)}
                    for block, of in self._by_block(alone).items()
                },
                compared_of,
            )
            for block in unknown:
                for each in part:
                    each.pop(block, None)
            parts.append(part)
        return parts

    def _read_moments(self, packed: Any, scale: Scale) -> tuple[np.ndarray, np.ndarray]:
        """Means and standard deviations of all parameters, NaN where they are not known; rounded."""
        every = self._moments(Point(self._packing.unpacked(packed)), scale)
        means, deviations = np.where(self._is_known(packed), every, np.nan)
        return rounded(means, deviations), rounded(deviations)

    def _by_block(self, values: Iterable[Any]) -> dict[str, dict[str, Any]]:
        """What is known of each parameter, by block."""
        found: dict[str, dict[str, Any]] = {block: {} for block in self._blocks}
        for home, name, value in zip(self._homes, self._names, values, strict=True):
            found[home][name] = value
        return found

    def without_units(self, scale: Scale) -> frozenset[str]:
        """Blocks whose columns are still constant: their scale is undefined."""
        if scale.frozen.all():
            return frozenset()
        return frozenset(
            str(label)
            for column, is_known in zip(self._model.columns, scale.frozen, strict=True)
            if not is_known
            for entry, touched in self._model.touched_by(column.name).items()
            for label in self._labels[entry][np.asarray(touched)]
        )

    def _means(self, belief: AbstractBelief, scale: Scale) -> Array:
        """Means of all parameters."""
        every = [part for section in self._model.marginals(belief, scale) for part in section]
        return xp.concatenate([part.centre().ravel() for part in every])

    def _moments(self, belief: AbstractBelief, scale: Scale) -> Array:
        """Means and standard deviations of all parameters, (2, ..., num_parameters)."""
        every = [part for section in self._model.marginals(belief, scale) for part in section]
        kinds = []
        for part in every:
            lead = (-1,) if xp.ndim(part.marginal.mean()) > part.names.ndim else ()
            kinds.append([xp.reshape(each, (*lead, part.names.size)) for each in part.moments()])
        return xp.stack([xp.concatenate(each, -1) for each in zip(*kinds, strict=True)])


noter = functools.cache(Noter)


def _noter_of(model: AbstractModel[Any, Any]) -> Noter:
    return noter(model)


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
