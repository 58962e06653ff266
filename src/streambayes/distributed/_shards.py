"""A batch on any cluster: what the driver asks of the workers, whichever way it reaches them."""

import abc
import contextlib
import functools
import math
import pickle
import uuid
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any, NamedTuple, final

import jax
import numpy as np

from streambayes._core.names import meant
from streambayes._core.scale import Scale
from streambayes.distributed._work import (
    LostError,
    Order,
    Part,
    Worker,
    added,
    blank_batch,
    kind_of,
    lacking,
    versions,
)
from streambayes.families import AbstractBelief
from streambayes.forgetting import AbstractForgetting
from streambayes.learning import LearnerState, Shards, StreamLearner
from streambayes.learning._compiled import Piece
from streambayes.learning._intake import Kind, missing_columns
from streambayes.learning._piecewise import Pass
from streambayes.models import AbstractModel

__all__ = [
    "ClusterError",
    "ClusterShards",
    "Reply",
    "check_columns",
    "check_complete",
    "check_settings",
    "in_order",
    "sent",
]


_FEW_SUMS = 512
"""Sums of a partition that all partitions may send to the driver."""


class ClusterError(RuntimeError):
    """A cluster cannot do what is asked of it, whatever the rows are."""


class Reply(NamedTuple):
    """What comes back from the workers for one partition, or for several that follow each other.

    Attributes:
        shard: The number of the first partition.
        failure: The name of an error and its sentence, on two lines; ``None`` if all went well.
        values: The result.
    """

    shard: int
    failure: str | None
    values: np.ndarray | None


@final
class _Held(NamedTuple):
    """Rows that the workers hold, as one learner reads them."""

    model: AbstractModel[Any, Any]
    policy: AbstractForgetting[Any, Any]
    worker: Worker
    order: Order
    parts: tuple[Part, ...]
    num_rows: int
    kind: Kind

    @property
    def keeps(self) -> bool:
        """Whether a pass starts from the hidden variables of the one before."""
        return self.worker.shapes(self.kind)[0] is not None


@final
class _Sums(NamedTuple):
    """Sums of rows that hide nothing, which were not held: all there is to know for a step in these units."""

    scale: Scale
    num_rows: int
    piece: Piece | None
    keeps: bool = False

    def __call__(self, belief: AbstractBelief) -> tuple[Piece, bool]:  # noqa: ARG002
        assert self.piece is not None
        return self.piece, False


class ClusterShards(Shards):
    """A batch on a cluster.

    Args:
        label: What to call the batch.
        time: A number on any clock.
        offset: Where a source stands after the batch.
        local_sweeps: Passes over the rows for each belief, if their hidden variables depend on each other.
        accelerate: Whether sweeps are extrapolated.
    """

    _where = "a cluster"

    def __init__(
        self,
        *,
        label: str | None = None,
        time: float | None = None,
        offset: Any = None,
        local_sweeps: int = 1,
        accelerate: bool = False,
    ) -> None:
        self.label = label
        self.time = time
        self.offset = offset
        self.accelerate = accelerate
        self._repeats = local_sweeps
        self._held: _Held | None = None
        self._sums: _Sums | None = None
        self._has_kept = False

    def __repr__(self) -> str:
        called = "" if self.label is None else f" {self.label!r}"
        return f"<batch{called} on {self._where}>"

    @staticmethod
    @abc.abstractmethod
    def _pickled(value: Any) -> bytes:
        """A value as the cluster's library pickles it: with classes of the user's own program."""

    @abc.abstractmethod
    def _place(self, model: AbstractModel[Any, Any], order: bytes) -> list[Part | Reply]:
        """Have the workers read, check and hold their partitions; replies say what failed."""

    @abc.abstractmethod
    def _read(self, model: AbstractModel[Any, Any], order: bytes, *, add: bool) -> list[Reply]:
        """Have an order carried out in every partition while it is read; nothing is held. ``add`` as below."""

    @abc.abstractmethod
    def _perform(self, order: bytes, *, add: bool) -> list[Reply]:
        """Have an order carried out in every partition that is held.

        If ``add``, partitions that follow each other may be added up, always the same ones in the same order.
        """

    @abc.abstractmethod
    def _let_go(self) -> None:
        """Free what is held."""

    def num_rows(self, learner: StreamLearner, state: LearnerState | None = None) -> int:
        sums = None if state is None else self._sum(learner, state)
        return self._hold(learner).num_rows if sums is None else sums.num_rows

    def some_rows(self, learner: StreamLearner, most: int) -> np.ndarray:
        held = self._hold(learner)
        if not held.num_rows:
            return np.zeros((len(learner.model.columns), 0))
        stride = 1
        while -(-held.num_rows // stride) > most:
            stride *= 2
        starts: dict[int, int] = {}
        before = 0
        for part in held.parts:
            starts.setdefault(part.shard, before)
            before += part.num_rows
        order = held.order._replace(operation="sampled", starts=starts, stride=stride)
        parts = self._asked(order, add=False)
        return np.concatenate([part.reshape(len(learner.model.columns), -1) for part in parts], 1)

    def passes(self, learner: StreamLearner, scale: Scale) -> Pass:
        if self._sums is not None and self._sums.scale is scale:
            return self._sums
        held = self._hold(learner)
        self._has_kept = self._has_kept or held.keeps
        order = held.order._replace(
            operation="passed",
            kind=held.kind,
            units=_units(scale),
            repeats=self._repeats if held.keeps else 1,
            keeps=held.keeps,
        )
        return _ClusterPasses(held, order, lambda order: self._asked(order, add=True))

    def score(
        self, learner: StreamLearner, state: LearnerState, belief: AbstractBelief
    ) -> tuple[float, float, str]:
        held = self._hold(learner)
        lacks = tuple(
            column.name
            for column, some in zip(learner.model.columns, lacking(held.parts), strict=True)
            if some
        )
        kind = held.kind._replace(dtype=np.dtype(np.float64), fused=False)
        order = held.order._replace(
            operation="scored",
            kind=kind,
            units=_units(state.scale),
            beliefs=(held.worker.leaves(belief),),
        )
        bound, predictive = np.sum(self._asked(order, add=True), axis=0).tolist()
        method = learner.model.predictive_method(blank_batch(kind._replace(missing=lacks)))
        return bound, predictive, method

    def release(self) -> None:
        held, self._held, self._sums = self._held, None, None
        if held is None:
            return
        if self._has_kept:
            self._has_kept = False
            with contextlib.suppress(ClusterError):  # it can no longer be asked to
                self._perform(pickle.dumps(held.order._replace(operation="forgotten")), add=False)
        self._let_go()

    def _hold(self, learner: StreamLearner) -> _Held:
        """The rows as the learner reads them, held by the workers from here on."""
        model, policy = learner.model, learner.forgetting
        if self._held is not None and (self._held.model, self._held.policy) == (model, policy):
            return self._held
        self.release()
        order = self._order("held", model, policy)
        found = self._place(model, pickle.dumps(order))
        try:
            _check([each for each in found if isinstance(each, Reply)])
        except BaseException:
            self._let_go()
            raise
        parts = tuple(sorted(each for each in found if isinstance(each, Part)))
        self._held = _Held(
            model=model,
            policy=policy,
            worker=_worker(model, policy),
            order=order,
            parts=parts,
            num_rows=sum(part.num_rows for part in parts),
            kind=kind_of(model, parts),
        )
        return self._held

    def _sum(self, learner: StreamLearner, state: LearnerState) -> _Sums | None:
        """What rows that hide nothing add up to, in one pass; ``None`` if they hide something or are held anyway."""
        model, policy = learner.model, learner.forgetting
        if self._sums is not None or self._held is not None:
            return self._sums
        kind = kind_of(model, [])
        if model.has_hidden(blank_batch(kind)):
            return None
        worker = _worker(model, policy)
        order = self._order("summed", model, policy)._replace(
            units=_units(state.scale), beliefs=(worker.leaves(state.belief),)
        )
        large = sum(leaf.size for leaf in jax.tree.leaves(worker.shapes(kind))) > _FEW_SUMS
        total = added(_answers(self._read(model, pickle.dumps(order), add=large)))
        if total is None:
            self._sums = _Sums(state.scale, 0, None)
            return self._sums
        num_columns = len(model.columns)
        num_rows, lacks = int(total[0]), total[1 : 1 + num_columns] > 0
        missing = missing_columns(lacks, model.columns, model.hidden_if_missing, num_rows)
        if model.has_hidden(blank_batch(kind._replace(missing=missing))):
            return None
        piece = _piece(worker, kind, total[1 + num_columns :])
        self._sums = _Sums(state.scale, num_rows, piece)
        return self._sums

    def _order(self, operation: str, model: Any, policy: Any) -> Order:
        job = _job(type(self)._pickled, model, policy)  # noqa: SLF001 - our own
        return Order(operation, job, versions(), uuid.uuid4().hex)

    def _asked(self, order: Order, *, add: bool) -> list[np.ndarray]:
        """What the workers have found in the rows that they hold."""
        return _answers(self._perform(pickle.dumps(order), add=add))


@final
class _ClusterPasses:
    """Passes over the rows of a batch on a cluster: a belief goes out, sums come back."""

    def __init__(
        self, held: _Held, order: Order, asked: Callable[[Order], list[np.ndarray]]
    ) -> None:
        self._held = held
        self._order = order
        self._asked = asked
        self.keeps = held.keeps
        self._past: list[list[np.ndarray]] = []
        self._hides = held.model.has_hidden(blank_batch(held.kind))

    def __call__(self, belief: AbstractBelief) -> tuple[Piece, bool]:
        now = self._held.worker.leaves(belief)
        order = self._order._replace(beliefs=(now,), stage=len(self._past))
        if self.keeps:
            self._past.append(now)
        try:
            total = added(self._asked(order))
        except LostError:
            total = added(self._asked(order._replace(beliefs=tuple(self._past))))
        if total is None:
            message = "the rows of the batch have changed while it was learned"
            raise ValueError(message)
        return _piece(self._held.worker, self._held.kind, total), self._hides


def _piece(worker: Worker, kind: Kind, total: np.ndarray) -> Piece:
    """Sums that came as one array, as they are."""
    shapes, tree = jax.tree.flatten(worker.shapes(kind)[1])
    ends = np.cumsum([leaf.size for leaf in shapes])[:-1]
    leaves = [
        values.reshape(leaf.shape).astype(leaf.dtype)
        for values, leaf in zip(np.split(total, ends), shapes, strict=True)
    ]
    found: Piece = jax.tree.unflatten(tree, leaves)
    return found


def _units(scale: Scale) -> tuple[np.ndarray, np.ndarray]:
    return np.asarray(scale.shift), np.asarray(scale.factor)


def sent(module: str, name: str, order: bytes, unable: Callable[..., Any]) -> Callable[..., Any]:
    """A function of this package as it is sent to the workers: by value, so that it runs where the library is not.

    Args:
        module: Its module.
        name: Its name.
        order: Its first argument.
        unable: What is returned instead where the library is not, given the failure as in ``Reply`` and the other
            arguments; sent by value as well.
    """

    def run(first: Any, *others: Any) -> Any:  # Spark looks at how many there are
        import importlib
        import sys

        try:
            found = importlib.import_module(f"streambayes.distributed.{module}")
        except Exception as error:  # noqa: BLE001 - whatever it is, the driver has to hear of it
            failure = (
                "ClusterError\na worker cannot import streambayes: "
                f"{type(error).__name__}: {error} (Python {sys.version.split()[0]} at {sys.executable}); install it "
                "where the workers run"
            )
            return unable(failure, first, *others)
        return getattr(found, name)(order, first, *others)

    return run


@functools.lru_cache(maxsize=16)
def _job(pickled: Callable[[Any], bytes], model: Any, policy: Any) -> bytes:
    """A model and a policy as workers get them: the same bytes every time, since they compile for them."""
    return pickled((model, policy))


_worker = functools.lru_cache(maxsize=16)(Worker)


def check_settings(local_sweeps: Any, accelerate: Any) -> dict[str, Any]:
    """How batches on a cluster are learned, as ``ClusterShards`` takes it; an error if it makes no sense."""
    if not isinstance(local_sweeps, int) or isinstance(local_sweeps, bool) or local_sweeps < 1:
        message = f"local_sweeps must be a whole number of at least 1, got {local_sweeps!r}"
        raise ValueError(message)
    if not isinstance(accelerate, bool):
        message = f"accelerate must be True or False, got {accelerate!r}"
        raise TypeError(message)
    return {"local_sweeps": local_sweeps, "accelerate": accelerate}


def check_columns(columns: Collection[str], *names: str | None) -> None:
    """Raise ``ValueError`` for a column that a frame lacks."""
    for name in names:
        if name is not None and name not in columns:
            present = ", ".join(repr(column) for column in columns) or "none"
            message = f"batches: there is no column {name!r}{meant(name, columns)}; the frame has {present}"
            raise ValueError(message)


def check_complete(names: Collection[str], columns: Collection[str]) -> None:
    """Raise ``ValueError`` for a column of the model that a batch lacks."""
    lost = [name for name in names if name not in columns]
    if lost:
        present = ", ".join(repr(name) for name in columns) or "none"
        message = f"the batch lacks column {lost[0]!r}{meant(lost[0], columns)}; it has {present}"
        raise ValueError(message)


def in_order(
    moments: Mapping[Any, float | None], by: str, time: str | None
) -> list[tuple[Any, float | None]]:
    """Values of a column with the times of their batches, in order; ``ValueError`` where they make no stream.

    Args:
        moments: The time of each value's rows.
        by: The column of the values.
        time: The column of the times, if there is one.
    """
    if any(value is None or value != value for value in moments):  # noqa: PLR0124 - NaN
        message = f"batches: column {by!r} has missing cells, whose rows belong to no batch"
        raise ValueError(message)
    found = sorted(moments.items())
    if time is None:
        return found
    before = -math.inf
    for value, moment in found:
        if moment is None or not math.isfinite(moment):
            message = f"batches: column {time!r} has no time in the rows of {value!r}"
            raise ValueError(message)
        if moment < before:
            message = f"batches: batches by {by!r} overlap, so that time goes back at {value!r}; leave time out"
            raise ValueError(message)
        before = moment
    return found


def _answers(replies: Sequence[Reply]) -> list[np.ndarray]:
    """What the workers have found, in the order of the partitions that have rows."""
    _check(replies)
    each = sorted(replies, key=lambda reply: reply.shard)
    return [reply.values for reply in each if reply.values is not None]


def _check(replies: Sequence[Reply]) -> None:
    """Raise what the first worker that failed has said."""
    for reply in sorted(replies, key=lambda reply: reply.shard):
        if reply.failure is not None:
            name, _, text = reply.failure.partition("\n")
            raise _ERRORS[name](text)


_ERRORS: dict[str, type[Exception]] = {
    "ClusterError": ClusterError,
    "LostError": LostError,
    "TypeError": TypeError,
    "ValueError": ValueError,
}
