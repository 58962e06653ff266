"""What a worker of a cluster does with the rows it holds: the only part of the library that runs there.

It is called by functions that arrive by value, so that a worker without the library can say so. What was compiled
stays in the process, and on disk for the next one.
"""

import contextlib
import ctypes
import functools
import gc
import os
import pickle
import re
import sys
import tempfile
import threading
import time
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple, final

import jax
import numpy as np

from streambayes._core.batch import Batch
from streambayes._core.folder import NotPrivateError, check_private, make_private, remove_own
from streambayes._core.precision import float64_scope
from streambayes.families import AbstractBelief, Blocks
from streambayes.forgetting import AbstractForgetting
from streambayes.learning._compiled import Piece, scorer, stepper
from streambayes.learning._intake import (
    Kind,
    aligned_zeros,
    bucket_size,
    missing_columns,
    pad_several,
    read_rows,
)
from streambayes.learning._learner import check_distances
from streambayes.models import AbstractModel

__all__ = [
    "Block",
    "BlockFacts",
    "LostError",
    "Order",
    "Part",
    "Worker",
    "added",
    "blank_batch",
    "failing",
    "hold",
    "kind_of",
    "lacking",
    "perform",
    "settle",
    "versions",
]

_BYTES = 2**22  # of a block
_MOST_ROWS = 2**16
_FEW = 2**12  # rows of a small block
_DAY = 86_400.0
_TOKEN = re.compile(r"[0-9a-f]{32}")
_KEPT_FILE = re.compile(r"\d+-\d+-\d+-\d+\.(npz|\d+-\d+)")
"""Folders of batches, and what is kept in them."""
_TOP_PAD, _MMAP_THRESHOLD = -2, -3  # parameters of glibc's mallopt
_KEPT_BYTES = 2**22
_FAILED = (ValueError, TypeError)  # what bad rows raise


class Part(NamedTuple):
    """What the driver knows of a partition, or of those of its blocks that are alike.

    Attributes:
        shard: The number of the partition.
        num_rows: Its rows.
        largest: Those of its largest block.
        lacks: A character for each column: 1 if it has missing cells.
        is_single: Whether cells are of float32.
    """

    shard: int
    num_rows: int
    largest: int
    lacks: str
    is_single: bool


class BlockFacts(NamedTuple):
    """What is known of a block beside its rows.

    Attributes:
        shard: The number of the partition.
        number: The number of the block in it.
        num_rows: Its rows.
        lacks: A character for each column: 1 if it has missing cells.
        is_single: Whether cells are of float32.
        mark: A checksum of the rows, if they are held.
    """

    shard: int
    number: int
    num_rows: int
    lacks: str
    is_single: bool
    mark: int

    @property
    def part(self) -> Part:
        """What the driver is told of it."""
        return Part(self.shard, self.num_rows, self.num_rows, self.lacks, self.is_single)


class Block(NamedTuple):
    """Rows as ``read_rows`` has them, a part of one partition small enough for one compiled call."""

    facts: BlockFacts
    values: np.ndarray


class Order(NamedTuple):
    """What a worker is asked to do.

    Attributes:
        operation: ``held``, ``summed``, ``passed``, ``scored``, ``sampled`` or ``forgotten``.
        job: The model and the policy, pickled: the key of what is compiled.
        versions: Those of the driver.
        token: The name of the batch, for what is kept of it.
        kind: What blocks are padded to, all alike, so that one program serves them.
        units: Shift and factor of each column.
        beliefs: Leaves of the belief, or of all beliefs so far, which tell how to find again hidden variables
            that are lost.
        stage: How many beliefs came before the last one, if hidden variables are kept.
        repeats: Passes over the rows for each belief.
        keeps: Whether the next pass starts from the hidden variables of this one.
        starts: How many rows come before a partition, by its number.
        stride: One row of so many is sampled.
    """

    operation: str
    job: bytes
    versions: dict[str, str]
    token: str
    kind: Kind | None = None
    units: tuple[Any, Any] = ((), ())
    beliefs: tuple[list[np.ndarray], ...] = ()
    stage: int = 0
    repeats: int = 1
    keeps: bool = False
    starts: dict[int, int] = {}  # noqa: RUF012
    stride: int = 1


def versions() -> dict[str, str]:
    """What has to be the same everywhere for results to be the same."""
    from streambayes import __version__

    return {"streambayes": __version__, "jax": ".".join(jax.__version__.split(".")[:2])}


def hold(order: bytes, shard: int, tables: Iterable[Any]) -> Iterator[Block]:
    """The rows of a partition, checked, in blocks."""
    asked = _received(order)
    yield from _worker(asked.job).blocks(shard, tables, marked=asked.operation == "held")


def perform(order: bytes, blocks: Iterable[Block]) -> np.ndarray | None:
    """What was ordered, done to the blocks of one partition, held or not; ``None`` if there are none."""
    asked = _received(order)
    operation: Callable[..., np.ndarray | None] = getattr(_worker(asked.job), asked.operation)
    with float64_scope():
        return operation(asked, blocks)


def settle(order: bytes) -> None:
    """Spare what is there now from garbage collections, the first time that such an order is done.

    For processes that collect after every task, as Spark's do: with JAX among what is looked through, that took
    60 ms of processor time each.
    """
    asked = _unpacked(order)
    _spare(asked.job, asked.operation)


@functools.lru_cache(maxsize=256)
def _spare(job: bytes, operation: str) -> None:  # noqa: ARG001 - each compiles and keeps something of its own
    gc.unfreeze()
    gc.collect()
    gc.freeze()


def _received(order: bytes) -> Order:
    """What is asked, in a process that is ready for it."""
    asked = _unpacked(order)
    _check_versions(asked)
    _one_thread()  # before anything else wakes XLA
    _keep_memory()
    return asked


@functools.lru_cache(maxsize=1)
def _unpacked(order: bytes) -> Order:
    """An order, which several functions read for one partition, and the next partitions again."""
    asked: Order = pickle.loads(order)  # noqa: S301 - from the driver, as the cluster's own tasks are
    return asked


@contextlib.contextmanager
def failing(shard: int) -> Iterator[list[str]]:
    """A list that says, in the end, what was wrong with the rows of a partition, or with this worker."""
    said: list[str] = []
    try:
        yield said
    except _FAILED as error:
        kind = "TypeError" if isinstance(error, TypeError) else "ValueError"
        said.append(f"{kind}\n{error} (in partition {shard} of the batch)")
    except _WorkerError as error:
        said.append(f"ClusterError\n{error}")
    except LostError as error:
        said.append(f"LostError\n{error}")


class LostError(Exception):
    """Hidden variables that a pass should start from are not there, and the order does not tell how to find them."""


class _WorkerError(Exception):
    """This worker cannot take part."""


def _check_versions(asked: Order) -> None:
    mine = versions()
    for name, theirs in asked.versions.items():
        if mine[name] != theirs:
            message = (
                f"a worker has {name} {mine[name]}, the driver {theirs}: results would not be the same; install "
                f"{name} {theirs} where the workers run"
            )
            raise _WorkerError(message)


_initialising = threading.Lock()


@functools.cache
def _one_thread() -> None:
    """Keep XLA to one thread, as every slot of a cluster is meant to use one processor."""
    with _initialising:
        if "NPROC" in os.environ:
            return
        os.environ["NPROC"] = "1"
        try:
            jax.local_devices()
        finally:
            del os.environ["NPROC"]


@functools.cache
def _keep_memory() -> None:
    """Keep a few megabytes that were given back, where Dask has told malloc to keep next to nothing.

    XLA's matrix products take some hundred kilobytes and give them back, for every block of rows; getting them
    from the system each time took more than half of a pass of a mixture of 16 columns.
    """
    if "MALLOC_TRIM_THRESHOLD_" not in os.environ or sys.platform != "linux":
        return
    with contextlib.suppress(OSError, AttributeError):  # another library than glibc
        tuned = ctypes.CDLL(None).mallopt
        for parameter in (_TOP_PAD, _MMAP_THRESHOLD):
            tuned(parameter, _KEPT_BYTES)


@functools.lru_cache(maxsize=16)
def _worker(job: bytes) -> "Worker":
    model, policy = pickle.loads(job)  # noqa: S301
    return Worker(model, policy)


@final
class Worker:
    """The work on blocks for one model and policy.

    Args:
        model: The model.
        policy: The policy, whose beliefs are passed around.
    """

    def __init__(
        self, model: AbstractModel[Any, Any], policy: AbstractForgetting[Any, Any]
    ) -> None:
        self._model = model
        self._columns = model.columns
        self._stepper = stepper(model, policy)
        self._scorer = scorer(model)
        with float64_scope():
            self._start = jax.eval_shape(
                lambda: policy.belief(policy.init(Blocks.of_prior(model.prior())))
            )
        self._tree = jax.tree.structure(self._start)
        self._known: dict[Kind, tuple[Any, Piece]] = {}

    def blocks(self, shard: int, tables: Iterable[Any], *, marked: bool = True) -> Iterator[Block]:
        """Tables of any size, checked, in blocks of a size."""
        size = _block_size(len(self._columns))
        held: list[np.ndarray] = []
        before, number, room = 0, 0, size
        for table in tables:
            try:
                rows = read_rows(self._model, self._columns, table)
            except _FAILED as error:
                if before:
                    message = f"{error}, counted from row {before}"
                    raise type(error)(message) from None
                raise
            before += rows.shape[1]
            while rows.shape[1]:
                held.append(rows[:, :room])
                rows = rows[:, room:]
                room -= held[-1].shape[1]
                if not room:
                    yield _block(shard, number, held, marked=marked)
                    held, number, room = [], number + 1, size
        if held:
            yield _block(shard, number, held, marked=marked)

    def leaves(self, belief: AbstractBelief) -> list[np.ndarray]:
        """A belief as it travels."""
        return [np.asarray(leaf) for leaf in jax.tree.leaves(belief)]

    def shapes(self, kind: Kind) -> tuple[Any, Piece]:
        """Shapes of the hidden variables that a pass hands on, ``None`` for none, and of its sums."""
        if kind not in self._known:
            batch = blank_batch(kind)
            units = np.ones(len(kind.columns))
            with float64_scope():
                self._known[kind] = jax.eval_shape(
                    self._stepper.piece_passed, self._start, units, units, batch, None
                )
        return self._known[kind]

    def summed(self, asked: Order, blocks: Iterable[Block]) -> np.ndarray | None:
        """As one array: the number of rows, for each column that of blocks that lack cells of it, sums of a pass.

        The sums are of no use if rows hide variables, and zero from the first block on that does.
        """
        return added(self._sum_blocks(asked, blocks))

    def _sum_blocks(self, asked: Order, blocks: Iterable[Block]) -> Iterator[np.ndarray]:
        few, most = bucket_size(_FEW), _block_size(len(self._columns))  # two programs serve all
        hides = False
        for block in blocks:
            kind = kind_of(self._model, [block.facts.part])
            kind = kind._replace(size=few if kind.size <= few else most)
            hides = hides or self._model.has_hidden(blank_batch(kind))
            if hides:
                sums = np.zeros(sum(leaf.size for leaf in jax.tree.leaves(self.shapes(kind)[1])))
            else:
                batch, belief = _padded(block.values, kind), self._belief(asked)
                sums = _flat(self._stepper.pass_piece(belief, *asked.units, batch, None)[1])
            yield np.concatenate([[block.facts.num_rows], lacking([block.facts.part]), sums])

    def _belief(self, asked: Order) -> AbstractBelief:
        """The last belief of an order."""
        found: AbstractBelief = jax.tree.unflatten(self._tree, asked.beliefs[-1])
        return found

    def passed(self, asked: Order, blocks: Iterable[Block]) -> np.ndarray | None:
        """Sums of a pass over the rows, as one array."""
        return added(self._pass_block(asked, block) for block in blocks)

    def _pass_block(self, asked: Order, block: Block) -> np.ndarray:
        assert asked.kind is not None
        batch = _padded(block.values, asked.kind)
        kept = _Kept(asked.token, block.facts) if asked.keeps else None
        local, beliefs = None, asked.beliefs
        if kept is not None and asked.stage:
            local = kept.read(asked.stage, self.shapes(asked.kind)[0])
            if local is not None:
                beliefs = beliefs[-1:]
            elif len(beliefs) <= asked.stage:
                raise LostError
        for leaves in beliefs:
            belief = jax.tree.unflatten(self._tree, leaves)
            for _ in range(asked.repeats):
                local, piece = self._stepper.pass_piece(belief, *asked.units, batch, local)
        if kept is not None:
            kept.write(asked.stage + 1, local)
        return _flat(piece)

    def scored(self, asked: Order, blocks: Iterable[Block]) -> np.ndarray | None:
        """Sums over rows of both log-likelihoods."""
        belief = self._belief(asked)
        return added(self._score_block(asked, belief, block) for block in blocks)

    def _score_block(self, asked: Order, belief: AbstractBelief, block: Block) -> np.ndarray:
        assert asked.kind is not None
        check_distances(self._columns, asked.units, block.values)
        batch = _padded(block.values, asked.kind)
        return np.array(self._scorer.score(belief, *asked.units, batch), float)

    def sampled(self, asked: Order, blocks: Iterable[Block]) -> np.ndarray | None:
        """Rows at equal distances, column after column."""
        some, before = [], 0
        for block in blocks:
            first = -(asked.starts[block.facts.shard] + before) % asked.stride
            some.append(block.values[:, first :: asked.stride])
            before += block.facts.num_rows
        return np.concatenate(some, axis=1).astype(float).ravel() if some else None

    def forgotten(self, asked: Order, blocks: Iterable[Block]) -> None:
        """Remove what this machine has kept of the batch."""
        for _ in blocks:
            pass
        remove_own(_folder() / asked.token, _KEPT_FILE)


def _block_size(num_columns: int) -> int:
    """Rows of a block: a power of two, at most some megabytes."""
    fitting = max(_BYTES // (8 * num_columns), 512)
    return int(min(1 << (fitting.bit_length() - 1), _MOST_ROWS))


def _block(shard: int, number: int, held: list[np.ndarray], *, marked: bool) -> Block:
    num_rows = sum(part.shape[1] for part in held)
    values = aligned_zeros((len(held[0]), num_rows), np.result_type(*held))
    np.concatenate(held, axis=1, out=values)
    facts = BlockFacts(
        shard=shard,
        number=number,
        num_rows=num_rows,
        lacks="".join("01"[bool(some)] for some in np.isnan(values).any(1)),
        is_single=values.dtype == np.float32,
        mark=zlib.crc32(values.data) if marked else 0,
    )
    return Block(facts, values)


def lacking(parts: Sequence[Part]) -> np.ndarray:
    """Which columns have missing cells in any of these parts."""
    cells = np.array([list(part.lacks) for part in parts])
    found: np.ndarray = np.any(cells == "1", axis=0)
    return found


def kind_of(model: AbstractModel[Any, Any], parts: Sequence[Part]) -> Kind:
    """What the blocks of these parts are padded to, all alike."""
    columns = model.columns
    num_rows = sum(part.num_rows for part in parts)
    lacks = lacking(parts) if parts else np.zeros(len(columns), bool)
    single = bool(parts) and all(part.is_single for part in parts)
    return Kind(
        size=bucket_size(max((part.largest for part in parts), default=0)),
        dtype=np.dtype(np.float32 if single else np.float64),
        columns=tuple(column.name for column in columns),
        missing=missing_columns(lacks, columns, model.hidden_if_missing, num_rows),
        fused=False,
    )


def blank_batch(kind: Kind) -> Batch:
    """A batch of this kind without rows."""
    return _padded(np.zeros((len(kind.columns), 0)), kind)


def _padded(values: np.ndarray, kind: Kind) -> Batch:
    """Rows as a batch of this kind; without a copy, if they need no padding."""
    if (values.shape[1], values.dtype) == (kind.size, kind.dtype):
        return Batch(
            values=values,  # type: ignore[arg-type]
            num_rows=np.int64(kind.size),  # type: ignore[arg-type]
            columns=kind.columns,
            missing=kind.missing,
            fused=kind.fused,
        )
    several = pad_several([values], kind, 1)
    found: Batch = jax.tree.map(lambda leaf: leaf[0], several)
    return found


def _flat(piece: Piece) -> np.ndarray:
    return np.concatenate([np.asarray(leaf, float).ravel() for leaf in jax.tree.leaves(piece)])


def added(parts: Iterable[np.ndarray]) -> np.ndarray | None:
    """The sum in this order; ``None`` of nothing."""
    total = None
    for part in parts:
        total = part if total is None else total + part
    return total


@final
class _Kept:
    """Hidden variables of a block between two passes, where all workers of a machine find them.

    They are only kept to save time: whatever is not found can be worked out again from the beliefs so far.
    """

    def __init__(self, token: str, facts: BlockFacts) -> None:
        self._folder = _folder() / token
        self._name = f"{facts.shard}-{facts.number}-{facts.mark}"

    def _path(self, stage: int) -> Path:
        return self._folder / f"{self._name}-{stage}.npz"

    def read(self, stage: int, shapes: Any) -> Any:
        """Those after so many beliefs; ``None`` if they are lost."""
        wanted, tree = jax.tree.flatten(shapes)
        try:
            check_private(self._folder)
            with np.load(self._path(stage), allow_pickle=False) as held:
                leaves = [held[f"arr_{place}"] for place in range(len(wanted))]
        except (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile):
            return None
        if [leaf.shape for leaf in leaves] != [leaf.shape for leaf in wanted]:
            return None
        return jax.tree.unflatten(tree, leaves)

    def write(self, stage: int, local: Any) -> None:
        """Keep these, and those before them for a task that is done again."""
        path = self._path(stage)
        with contextlib.suppress(OSError):
            if not _make_folder(self._folder):
                return
            partial = path.with_suffix(f".{os.getpid()}-{threading.get_ident()}")
            with partial.open("wb") as file:
                np.savez(file, *(np.asarray(leaf) for leaf in jax.tree.leaves(local)))
            partial.replace(path)
            self._path(stage - 2).unlink(missing_ok=True)


def _folder() -> Path:
    return Path(tempfile.gettempdir()) / f"streambayes-{_user()}"


def _user() -> str:
    return str(os.getuid()) if hasattr(os, "getuid") else os.environ.get("USERNAME", "user")


def _make_folder(folder: Path) -> bool:
    """Whether there is a folder for a batch, of this user alone; those that were left behind long ago go."""
    try:
        if folder.is_dir():
            check_private(folder)
            return True
        make_private(folder.parent)
        make_private(folder)
    except NotPrivateError as error:
        _warn_once(
            f"hidden variables are not kept between passes, so that batches take longer: {error}; remove it, or "
            "set TMPDIR to a folder of your own"
        )
        return False
    with os.scandir(folder.parent) as entries:
        for other in entries:
            is_batch = _TOKEN.fullmatch(other.name) and other.is_dir(follow_symlinks=False)
            if is_batch and time.time() - other.stat(follow_symlinks=False).st_mtime > _DAY:
                remove_own(Path(other.path), _KEPT_FILE)
    return True


@functools.cache
def _warn_once(message: str) -> None:
    warnings.warn(message, stacklevel=2)
