"""Streams that drift in a known way, drawn from any network."""

import dataclasses
import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Literal, final, get_args

import jax
import numpy as np

from streambayes._core.names import meant
from streambayes._core.precision import float64_scope
from streambayes.families import (
    AbstractFamily,
    Beta,
    Dirichlet,
    Gamma,
    MultivariateNormal,
    MultivariateNormalGamma,
    Normal,
    NormalGamma,
    NormalWishart,
)
from streambayes.learning import StreamBatch
from streambayes.models import AbstractNetwork
from streambayes.models._base import parameter_names

__all__ = ["Change", "DriftStream", "Kind", "make_drift"]

Kind = Literal["none", "abrupt", "gradual", "recurring", "partial", "outliers"]
Parameters = Mapping[str, Any]
_OUTLIER_SHARE = 0.2


@final
@dataclasses.dataclass(frozen=True)
class Change:
    """One change of the truth.

    Attributes:
        batch: The first batch with the new truth.
        until: The first batch in which the change is complete, or an outlier burst over.
        blocks: Readable names of the blocks that change.
    """

    batch: int
    until: int
    blocks: tuple[str, ...]


@final
class DriftStream:
    """Batches drawn from a network whose parameters change; can be iterated any number of times.

    Attributes:
        kind: How it drifts.
        changes: When, and which blocks.
    """

    def __init__(
        self,
        model: AbstractNetwork,
        kind: Kind,
        regimes: Sequence[Parameters],
        schedule: Sequence[tuple[int, int, float]],
        changes: tuple[Change, ...],
        *,
        num_rows: int,
        missing: Mapping[str, float],
        seed: int,
    ) -> None:
        self.kind = kind
        self.changes = changes
        self._model = model
        self._regimes = regimes
        self._schedule = schedule
        self._num_rows = num_rows
        self._missing = missing
        self._seed = seed

    def __len__(self) -> int:
        return len(self._schedule)

    def __iter__(self) -> Iterator[StreamBatch]:
        for number in range(len(self)):
            yield self._batch(number)

    def __getitem__(self, number: int) -> StreamBatch:
        return self._batch(self._place(number))

    def parameters(self, batch: int) -> dict[str, Any]:
        """The true parameters of a batch by entry of blocks, as ``sample`` of its family has them."""
        batch = self._place(batch)
        before, after, share = self._schedule[batch]
        weight = 0.0 if self.kind == "outliers" else share
        mixed: dict[str, Any] = jax.tree.map(
            lambda old, new: np.asarray((1.0 - weight) * old + weight * new),
            dict(self._regimes[before]),
            dict(self._regimes[after]),
        )
        return mixed

    def truth(self, batch: int) -> dict[str, float]:
        """The true parameters of a batch by readable name: those of ``LearnerState.summary``."""
        with float64_scope():
            values = self._model.shown(self.parameters(batch))
            return {
                str(name): float(value)
                for section, shown in zip(parameter_names(self._model), values, strict=True)
                for part, array in zip(section, shown, strict=True)
                for name, value in zip(part.names.flat, np.asarray(array).flat, strict=True)
            }

    def _place(self, number: int) -> int:
        """A batch from 0, or from the end if it is negative."""
        if not isinstance(number, int | np.integer):
            message = f"a batch goes by its number, got {number!r}"
            raise TypeError(message)
        if not -len(self) <= number < len(self):
            message = f"there is no batch {number}: the stream has {len(self)}, counted from 0"
            raise IndexError(message)
        return int(number) % len(self)

    def _batch(self, number: int) -> StreamBatch:
        before, after, share = self._schedule[number]
        rng = np.random.default_rng([self._seed, number])
        if self.kind == "outliers":
            strange = rng.random(self._num_rows) < share
            parameters = _rowwise(self._regimes[before], self._regimes[after], strange)
        else:
            parameters = _over_rows(self.parameters(number), self._num_rows)
        with float64_scope():
            drawn = self._model.draw(rng, parameters)
        columns = {}
        for column in self._model.columns:
            values = column.decode(drawn[column.name])
            gone = rng.random(self._num_rows) < self._missing.get(column.name, 0.0)
            columns[column.name] = _without(values, gone) if gone.any() else values
        return StreamBatch(columns=columns, label=str(number))


def make_drift(
    model: AbstractNetwork,
    kind: Kind = "abrupt",
    *,
    num_batches: int = 60,
    num_rows: int = 100,
    changes: Sequence[int] | None = None,
    width: int | None = None,
    blocks: Sequence[str] | None = None,
    missing: float | Mapping[str, float] = 0.0,
    regimes: Sequence[Parameters] | None = None,
    seed: int = 0,
) -> DriftStream:
    """A stream with known truth, drawn from a network.

    Args:
        model: A network, or a ready model that is one.
        kind: ``none``; ``abrupt``: new parameters at every change; ``gradual``: parameters move to new
            ones over ``width`` batches; ``recurring``: two sets of parameters take turns; ``partial``:
            only some blocks change; ``outliers``: for ``width`` batches a fifth of the rows come from
            elsewhere, the truth stays.
        num_batches: How many batches.
        num_rows: Rows in each.
        changes: The batches, from 0, at which it changes; after one and two thirds by default.
        width: How many batches a gradual change (a sixth of the stream) or a burst (2) takes.
        blocks: Readable names of the blocks that change, as ``model.labels()`` has them; by default
            all of them, and one at random for ``partial``.
        missing: Share of cells to leave out at random, for all columns or by column.
        regimes: The sets of parameters, in order, instead of ones drawn at random; each as
            ``DriftStream.parameters`` returns them. Blocks in which they differ are those that change.
        seed: Everything random follows from it.
    """
    _check(model, kind, num_batches, num_rows, seed)
    points = _points(kind, num_batches, changes)
    span = _span(kind, num_batches, points, width)
    gone = _missing(model, missing)
    num_regimes = 2 if kind in ("recurring", "outliers") else len(points) + 1
    if regimes is None:
        choosing, drawing = np.random.default_rng(seed).spawn(2)
        chosen = _chosen(model, kind, blocks, choosing)
        regimes = _regimes(model, num_regimes, chosen, drawing)
    else:
        _check_regimes(model, kind, num_regimes, regimes, blocks)
    schedule = [_at(kind, number, points, span) for number in range(num_batches)]
    lasts = span - 1 if kind == "gradual" else span  # a gradual change begins with its first step
    return DriftStream(
        model,
        kind,
        regimes,
        schedule,
        tuple(
            Change(
                point,
                min(point + lasts, num_batches),
                _differing(model, regimes[schedule[point - 1][0]], regimes[schedule[point][1]]),
            )
            for point in points
        ),
        num_rows=num_rows,
        missing=gone,
        seed=seed,
    )


def _points(kind: Kind, num_batches: int, changes: Sequence[int] | None) -> list[int]:
    """The batches at which it changes."""
    if kind == "none":
        if changes:
            message = f"make_drift: a stream of kind 'none' has no changes, got {changes}"
            raise ValueError(message)
        return []
    if changes is None:
        third = num_batches // 3
        if third < 1:
            message = f"make_drift: {kind} needs at least 3 batches or changes, got {num_batches}"
            raise ValueError(message)
        return [third, 2 * third]
    if isinstance(changes, str) or not isinstance(changes, Iterable):
        message = f"make_drift: changes must be a list of batches, got {changes!r}"
        raise TypeError(message)
    whole = all(isinstance(point, int | np.integer) for point in changes)
    if (
        not whole
        or len(set(changes)) < len(changes)
        or any(not 0 < p < num_batches for p in changes)
    ):
        message = (
            f"make_drift: changes must be distinct whole numbers in 1..{num_batches - 1}, got "
            f"{changes}"
        )
        raise ValueError(message)
    return sorted(map(int, changes))


def _span(kind: Kind, num_batches: int, points: Sequence[int], width: int | None) -> int:
    """How many batches a change takes."""
    default = {"gradual": max(num_batches // 6, 1), "outliers": 2}
    if width is None:
        width = default.get(kind, 0)
    elif kind not in default:
        message = f"make_drift: only gradual changes and outliers have a width, {kind} has none"
        raise ValueError(message)
    elif not isinstance(width, int) or width < 1:
        message = f"make_drift: width must be a whole number of at least 1, got {width}"
        raise ValueError(message)
    for point, following in itertools.pairwise(points):
        if kind == "gradual" and following < point + width:
            message = (
                f"make_drift: gradual changes at {point} and {following} overlap; they take "
                f"{width} batches each"
            )
            raise ValueError(message)
    return width


def _at(kind: Kind, number: int, points: Sequence[int], span: int) -> tuple[int, int, float]:
    """The regime before, the regime after, and how far or how often the batch is in the latter."""
    passed = sum(point <= number for point in points)
    if kind == "outliers":
        inside = any(point <= number < point + span for point in points)
        return 0, 1, _OUTLIER_SHARE if inside else 0.0
    if kind == "recurring":
        return passed % 2, passed % 2, 0.0
    if kind == "gradual" and passed:
        done = (number - points[passed - 1] + 1) / span
        return passed - 1, passed, min(done, 1.0)
    return passed, passed, 0.0


def _regimes(
    model: AbstractNetwork,
    num_regimes: int,
    chosen: Mapping[str, np.ndarray],
    rng: np.random.Generator,
) -> list[Parameters]:
    """Parameters at random: the first set, then sets that differ from it in the chosen blocks."""
    drawn: list[Parameters] = []
    for _ in range(num_regimes):
        fresh = {
            name: jax.tree.map(lambda leaf: np.asarray(leaf[0]), _spread(family).sample(rng, 1))
            for name, family in model.prior().items()
        }
        if drawn:
            fresh = {
                name: jax.tree.map(
                    lambda new, old, mask=chosen[name]: np.where(
                        mask.reshape(mask.shape + (1,) * (new.ndim - mask.ndim)), new, old
                    ),
                    fresh[name],
                    drawn[-1][name],
                )
                for name in fresh
            }
        drawn.append(fresh)
    return drawn


def _spread(family: AbstractFamily) -> AbstractFamily:
    """What true parameters are drawn from: spreads near 1, means a few of them apart."""
    shape = family.batch_shape
    if isinstance(family, Dirichlet):
        return Dirichlet.from_concentration(5.0 * np.ones(np.shape(family.concentration)))
    if isinstance(family, MultivariateNormal | MultivariateNormalGamma | NormalWishart):
        size = np.shape(family.naturals()[0])[-1]
        zero, one = np.zeros(size), np.eye(size)
        if isinstance(family, MultivariateNormal):
            return MultivariateNormal.from_mean_precision(zero, 0.5 * one).broadcast_to(shape)
        if isinstance(family, MultivariateNormalGamma):
            return MultivariateNormalGamma.from_shape_rate_mean_scale(
                5.0, 1.0, zero, 0.1 * one
            ).broadcast_to(shape)
        degrees = size + 20.0
        return NormalWishart.from_degrees_scatter_mean_scale(
            degrees, degrees * one, zero, 0.05
        ).broadcast_to(shape)
    simple: dict[type, AbstractFamily] = {
        Beta: Beta.from_concentrations(3.0, 3.0),
        Gamma: Gamma.from_shape_rate(5.0, 1.0),
        Normal: Normal.from_mean_precision(0.0, 0.5),
        NormalGamma: NormalGamma.from_shape_rate_mean_scale(20.0, 20.0, 0.0, 0.05),
    }
    return simple[type(family)].broadcast_to(shape)


def _chosen(
    model: AbstractNetwork, kind: Kind, blocks: Sequence[str] | None, rng: np.random.Generator
) -> dict[str, np.ndarray]:
    """Which blocks change, per entry."""
    if isinstance(blocks, str):
        message = f"make_drift: blocks must be a list of names, got {blocks!r}"
        raise TypeError(message)
    labels = model.labels()
    every = [str(name) for entry in labels.values() for name in entry.flat]
    if blocks is None:
        blocks = [every[rng.integers(len(every))]] if kind == "partial" else every
    if not blocks:
        message = f"make_drift: name at least one block that changes; the model has {every}"
        raise ValueError(message)
    unknown = [name for name in blocks if name not in every]
    if unknown:
        message = f"make_drift: there is no block {unknown[0]!r}; the model has {every}"
        raise ValueError(message)
    return {
        entry: np.array([name in blocks for name in names.flat], bool).reshape(names.shape)
        for entry, names in labels.items()
    }


def _differing(model: AbstractNetwork, before: Parameters, after: Parameters) -> tuple[str, ...]:
    """Readable names of the blocks in which two sets of parameters differ."""
    names: list[str] = []
    for entry, labels in model.labels().items():
        differs = np.zeros(labels.shape, bool)
        pairs = zip(jax.tree.leaves(before[entry]), jax.tree.leaves(after[entry]), strict=True)
        for old, new in pairs:
            apart = np.asarray(old) != np.asarray(new)
            differs |= apart.reshape(*labels.shape, -1).any(-1)
        names.extend(str(name) for name in labels[differs].flat)
    return tuple(names)


def _check_regimes(
    model: AbstractNetwork,
    kind: Kind,
    num_regimes: int,
    regimes: Sequence[Parameters],
    blocks: Sequence[str] | None,
) -> None:
    if blocks is not None:
        message = "make_drift: regimes say themselves which blocks change; leave out blocks"
        raise ValueError(message)
    if len(regimes) != num_regimes:
        message = f"make_drift: {kind} needs {num_regimes} regimes, got {len(regimes)}"
        raise ValueError(message)
    wanted = set(model.prior())
    for regime in regimes:
        if set(regime) != wanted:
            message = (
                f"make_drift: a regime needs the entries {sorted(wanted)}, got {sorted(regime)}"
            )
            raise ValueError(message)


def _missing(model: AbstractNetwork, missing: float | Mapping[str, float]) -> dict[str, float]:
    names = [column.name for column in model.columns]
    shares = dict(missing) if isinstance(missing, Mapping) else dict.fromkeys(names, missing)
    for name, share in shares.items():
        if name not in names:
            message = f"make_drift: missing: there is no column {name!r}{meant(name, names)}; the model has {names}"
            raise ValueError(message)
        if not 0.0 <= share <= 1.0:
            message = (
                f"make_drift: missing must be a share in [0, 1], got {share} for column {name!r}"
            )
            raise ValueError(message)
    return shares


def _check(model: AbstractNetwork, kind: str, num_batches: int, num_rows: int, seed: int) -> None:
    if not isinstance(model, AbstractNetwork):
        message = f"make_drift: model must be a network, got {model!r}"
        raise TypeError(message)
    if kind not in get_args(Kind):
        message = f"make_drift: kind must be one of {', '.join(get_args(Kind))}, got {kind!r}"
        raise ValueError(message)
    for name, value in (("num_batches", num_batches), ("num_rows", num_rows)):
        if not isinstance(value, int) or value < 1:
            message = f"make_drift: {name} must be a whole number of at least 1, got {value}"
            raise ValueError(message)
    if not isinstance(seed, int) or seed < 0:
        message = f"make_drift: seed must be a whole number of at least 0, got {seed}"
        raise ValueError(message)


def _over_rows(parameters: Parameters, num_rows: int) -> dict[str, Any]:
    return {
        name: jax.tree.map(lambda leaf: np.broadcast_to(leaf, (num_rows, *leaf.shape)), value)
        for name, value in parameters.items()
    }


def _rowwise(usual: Parameters, strange: Parameters, chosen: np.ndarray) -> dict[str, Any]:
    return {
        name: jax.tree.map(
            lambda old, new: np.where(
                chosen.reshape(-1, *(1 for _ in old.shape)), new[None], old[None]
            ),
            usual[name],
            strange[name],
        )
        for name in usual
    }


def _without(values: np.ndarray, gone: np.ndarray) -> np.ndarray:
    """Values with missing cells: NaN among numbers, None among categories."""
    if values.dtype.kind in "US":
        held = values.astype(object)
        held[gone] = None
        return held
    return np.where(gone, np.nan, values)
