"""run and compare: learners over a whole stream, with records and scores."""

import collections
import contextlib
import dataclasses
import itertools
import time as clock
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence, Sized
from pathlib import Path
from typing import TYPE_CHECKING, Any, final

import numpy as np

from streambayes._core.names import meant
from streambayes._core.outcome import Outcome
from streambayes._core.table import Table
from streambayes.forgetting import AbstractForgetting
from streambayes.learning._ahead import Ahead, Done, can_go_ahead
from streambayes.learning._intake import (
    Pieces,
    Resumable,
    Shards,
    StreamBatch,
    column_names,
    refuse_clusters,
    table,
)
from streambayes.learning._learner import Score, StepError, StreamLearner, Using
from streambayes.learning._notes import Notes, noter, rounded
from streambayes.learning._progress import Progress
from streambayes.learning._record import RecordWriter, RunFacts, StepRecord, folder_name
from streambayes.learning._schema import SchemaGuard, SchemaPolicy
from streambayes.learning._state import LearnerState, PosteriorSummary, StepInfo
from streambayes.models import AbstractModel

if TYPE_CHECKING:
    from matplotlib.figure import Figure

    from streambayes.checkpoint import Checkpoint, Checkpoints
    from streambayes.drift import Drift

__all__ = ["Comparison", "RecordSource", "Run", "Scores", "compare", "run"]

_KEPT = 1000
_FLAGS = {"true": True, "false": False, "1": True, "0": False, "1.0": True, "0.0": False}
_DRAWN = "predictive densities by importance sampling"


@final
@dataclasses.dataclass(frozen=True)
class Scores:
    """Means over all rows of a run, in the user's units; ``None`` for what was not asked for.

    Attributes:
        test_bound: Held-out log-likelihood, the authors' definition (TMLL).
        test_predictive: Held-out log-likelihood, the real predictive density.
        prequential: Log predictive density of each batch before learning from it, as ``predict`` predicts it.
    """

    test_bound: float | None
    test_predictive: float | None
    prequential: float | None


@final
@dataclasses.dataclass(frozen=True)
class Run:
    """A learner after a stream.

    Attributes:
        learner: The learner.
        state: Its state after the last batch.
        records: One per step; the most recent ones where they are also written to disk.
        scores: Means over the whole run.
        folder: Where all records are, if they were written.
    """

    learner: StreamLearner
    state: LearnerState = dataclasses.field(repr=False)
    records: tuple[StepRecord, ...] = dataclasses.field(repr=False)
    scores: Scores
    folder: Path | None = None

    @property
    def drift(self) -> "Drift":
        """What has changed, when, and by how much."""
        from streambayes.drift import find_drift  # a convenience: packages above this one use it

        return find_drift(self)

    def predict_next(self, *, level: float = 0.9) -> PosteriorSummary:
        """What may be expected of the next batch: ``StreamLearner.predict_next`` of the last state."""
        return self.learner.predict_next(self.state, level=level)

    def plot(self, *, dark: bool = False) -> "Figure":
        """How well it predicts, what it keeps of the past and how far blocks move, batch by batch."""
        from streambayes.reports import plot_run

        return plot_run(self, dark=dark)

    def report(self, path: str | Path) -> Path:
        """Write a report of the run, one file that any browser shows without a network."""
        from streambayes.reports import write_report

        return write_report(self, path)

    def table(self) -> Table:
        """The steps, one per row; with one rho per block, the lowest and whose it is."""
        columns = (
            "batch",
            "rows",
            "bound",
            "E[rho]",
            "block",
            "test bound",
            "test predictive",
            "prequential",
            "note",
        )
        rows = []
        for record in self.records:
            block, rho = _lowest(record.rho)
            notes = [] if record.outcome == Outcome.CONVERGED.name.lower() else [record.outcome]
            notes += [_DRAWN] if record.predictive_method == "importance" else []
            notes += [f"{record.num_late} late rows"] if record.num_late else []
            rows.append(
                {
                    "batch": record.label,
                    "rows": record.num_rows,
                    "bound": record.bound,
                    "E[rho]": rho,
                    "block": block,
                    "test bound": record.test_bound,
                    "test predictive": record.test_predictive,
                    "prequential": record.prequential,
                    "note": "; ".join([*notes, *record.events, *record.remarks]) or None,
                }
            )
        used = tuple(column for column in columns if any(row[column] is not None for row in rows))
        return Table(used, tuple({column: row[column] for column in used} for row in rows))


RecordSource = Run | Iterable[StepRecord] | str | Path
"""A run, its records, or the folder that they were written to: what ``records_of`` takes."""


@final
@dataclasses.dataclass(frozen=True)
class Comparison:
    """Several policies after the same stream; ``runs`` by the policy's name."""

    runs: Mapping[str, Run]

    def report(self, path: str | Path) -> Path:
        """Write a report of all runs, one file that any browser shows without a network."""
        from streambayes.reports import write_report

        return write_report(self, path)

    def table(self) -> Table:
        """The policies, one per row, with their scores: means over rows, higher is better."""
        columns = (
            "method",
            "test bound",
            "test predictive",
            "prequential",
            "mean E[rho]",
            "note",
        )
        rows = []
        for name, run in self.runs.items():
            shares = [_mean_rho(record.rho) for record in run.records]
            known = [share for share in shares if share is not None]
            rows.append(
                {
                    "method": name,
                    "test bound": run.scores.test_bound,
                    "test predictive": run.scores.test_predictive,
                    "prequential": run.scores.prequential,
                    "mean E[rho]": sum(known) / len(known) if known else None,
                    "note": _DRAWN
                    if any(record.predictive_method == "importance" for record in run.records)
                    else None,
                }
            )
        return _without_empty(Table(columns, tuple(rows)), ("note",))


def run(
    learner: StreamLearner,
    batches: Iterable[Any],
    *,
    test_fraction: float = 0.0,
    group: str | None = None,
    held_out: str | None = None,
    prequential: bool = True,
    seed: int = 0,
    state: LearnerState | None = None,
    drift: bool = True,
    progress: bool | None = None,
    record: str | Path | None = None,
    on_record: Callable[[StepRecord], Any] | None = None,
    checkpoint: "str | Path | Checkpoints | None" = None,
    resume: bool = False,
    schema: SchemaPolicy | None = None,
) -> Run:
    """Learn a stream, batch by batch.

    A list, a tuple and what ``sb.batches`` returns can be read again, so several batches of them are scored and
    learned in one call and the next ones read meanwhile, unless rows are held out or checkpoints kept.

    Args:
        learner: The learner.
        batches: Any iterable of batches: mappings, frames, arrays, or what ``sb.batches`` yields.
        test_fraction: Share of each batch's rows to hold out, at random, and to score after learning.
        group: A column; rows with the same value in it are held out together, or not at all. Without it
            rows are held out one by one, which flatters if neighbours in a group resemble each other.
        held_out: A column that is true for the rows to hold out, instead of holding out at random.
        prequential: Whether to score each batch before learning from it.
        seed: For the split and for the start.
        state: To go on from, instead of starting with the first batch; counting goes on from its
            batches.
        drift: Whether to note in the records how far each block has moved and where its parameters are, which
            ``Run.drift`` and reports need.
        progress: Whether to show progress; by default if standard error is a terminal or a notebook.
        record: Folder to write a record of every step to, as it happens; only the most recent ones
            then stay in memory.
        on_record: Called with every record, such as a ``DriftMonitor``.
        checkpoint: Folder to keep the last states in, or ``Checkpoints``. A state is written after every batch, or
            every few, together with how far the stream was read.
        resume: Go on from the last checkpoint, if there is one. Files and sources go on from their place; another
            stream is given from its start again, and what was learned is passed over. The run ends as one that was
            never stopped.
        schema: What to do when the stream's columns change; by default that is an error.
    """
    if not isinstance(learner, StreamLearner):
        message = (
            f"run: learner must be a StreamLearner, got a {type(learner).__name__}; make one of a model with "
            "sb.StreamLearner(model)"
        )
        raise TypeError(message)
    kept = _Checkpointing.of(checkpoint, resume=resume, state=state)
    return _drive(
        {"": learner},
        batches,
        test_fraction=test_fraction,
        group=group,
        held_out=held_out,
        prequential=prequential,
        seed=seed,
        states={} if state is None else {"": state},
        drift=drift,
        progress=progress,
        folders={} if record is None else {"": record},
        on_record=on_record,
        schema=schema,
        kept=kept,
    )[""]


def compare(
    model: AbstractModel[Any, Any],
    batches: Iterable[Any],
    policies: Sequence[AbstractForgetting[Any, Any]],
    *,
    test_fraction: float = 1 / 3,
    group: str | None = None,
    held_out: str | None = None,
    prequential: bool = True,
    seed: int = 0,
    drift: bool = True,
    progress: bool | None = None,
    record: str | Path | None = None,
    schema: SchemaPolicy | None = None,
    **settings: Any,
) -> Comparison:
    """Learn one stream with several policies, on identical splits and from the same start.

    Args:
        model: The model.
        batches: Any iterable of batches; it is read once.
        policies: The policies.
        test_fraction: Share of each batch's rows to hold out, at random, and to score after learning.
        group: A column; rows with the same value in it are held out together, or not at all. Without it
            rows are held out one by one, which flatters if neighbours in a group resemble each other.
        held_out: A column that is true for the rows to hold out, instead of holding out at random.
        prequential: Whether to score each batch before learning from it.
        seed: For the split and for the start.
        drift: Whether to note in the records how far each block has moved and where its parameters are.
        progress: Whether to show progress; by default if standard error is a terminal or a notebook.
        record: Folder to write a record of every step to, as it happens, in a folder for each policy.
        schema: What to do when the stream's columns change; by default that is an error.
        **settings: Passed on to every ``StreamLearner``: ``prior``, ``scale``, ``start``, ...
    """
    if isinstance(policies, AbstractForgetting) or not all(
        isinstance(policy, AbstractForgetting) for policy in policies
    ):
        message = (
            f"compare: policies must be a list of policies such as [SVB(), HPP()], got {policies!r}"
        )
        raise TypeError(message)
    names = [policy.name for policy in policies]
    if not names or len(set(names)) < len(names):
        message = f"compare: policies must be one or more, and distinct, got {names}"
        raise ValueError(message)
    learners = {policy.name: StreamLearner(model, policy, **settings) for policy in policies}
    folders = {name: Path(record) / folder_name(name) for name in names} if record else {}
    return Comparison(
        _drive(
            learners,
            batches,
            test_fraction=test_fraction,
            group=group,
            held_out=held_out,
            prequential=prequential,
            seed=seed,
            states={},
            drift=drift,
            progress=progress,
            folders=folders,
            on_record=None,
            schema=schema,
        )
    )


def _drive(
    learners: Mapping[str, StreamLearner],
    batches: Iterable[Any],
    *,
    test_fraction: float,
    group: str | None,
    held_out: str | None,
    prequential: bool,
    seed: int,
    states: Mapping[str, LearnerState],
    drift: bool,
    progress: bool | None,
    folders: Mapping[str, str | Path],
    on_record: Callable[[StepRecord], Any] | None,
    schema: SchemaPolicy | None,
    kept: "_Checkpointing | None" = None,
) -> dict[str, Run]:
    _check_stream(batches, test_fraction, group, held_out)
    first = max((int(state.num_batches) for state in states.values()), default=0)
    total = _num_batches(batches, first)
    stream: Iterable[Any] = batches
    # what can be read again may be read before it is learned
    goes_ahead = isinstance(batches, list | tuple | Pieces) and not (
        test_fraction or held_out is not None or kept
    )
    if kept is not None:
        kept.check(
            next(iter(learners.values())),
            {
                "seed": int(seed),
                "test_fraction": float(test_fraction),
                "group": group,
                "held_out": held_out,
                "prequential": bool(prequential),
                "drift": bool(drift),
                "stream": batches.definition if isinstance(batches, Resumable) else None,
            },
        )
        first = kept.first
        stream = kept.rest_of(batches)
    drivers = {
        name: _Driver(
            learner,
            states.get(name),
            seed,
            folders.get(name),
            total=total,
            prequential=prequential,
            drift=drift,
            goes_ahead=goes_ahead,
            on_record=on_record,
            kept=kept,
        )
        for name, learner in learners.items()
    }
    columns = next(iter(learners.values())).model.columns
    guard = SchemaGuard(schema or SchemaPolicy(), columns, None if kept is None else kept.known)
    with (
        _closed_in_the_end(drivers.values(), batches, kept),
        Progress(progress, None if total is None else total - first) as shown,
    ):
        names = [column.name for column in columns]
        split = _Split(names, test_fraction, group, held_out, seed, guard)
        try:
            for index, batch, train, test in split.of(stream, first):
                with shown.watching(batch):
                    for driver in drivers.values():
                        for done in driver.take(index, batch, train, test):
                            shown.update(done.index + 1 - first, done)
                if kept is not None:
                    kept.reached(index + 1, batch, guard.known)
        except Exception:
            # what came before it is learned and recorded; not so at an interruption, which should be short
            for driver in drivers.values():
                collections.deque(driver.finish(), maxlen=0)
            raise
        for driver in drivers.values():
            for done in driver.finish():
                shown.update(done.index + 1 - first, done)
    return {name: driver.finished() for name, driver in drivers.items()}


@final
class _Checkpointing:
    """Where the states of a run are kept, and the one from which it goes on."""

    def __init__(self, checkpoints: "Checkpoints", resumed: "Checkpoint | None") -> None:
        self._checkpoints = checkpoints
        self._settings: dict[str, Any] = {}
        self._source: Resumable | None = None
        self._learned: tuple[LearnerState, dict[str, Any]]
        self._waiting: Checkpoint | None = None
        self._sync: Callable[[], None]
        self.resumed = resumed
        self.is_begun_anew = resumed is None and checkpoints.has_begun
        self.first = 0 if resumed is None else resumed.num_batches

    @classmethod
    def of(
        cls, checkpoint: Any, *, resume: bool, state: LearnerState | None
    ) -> "_Checkpointing | None":
        """From the arguments of ``run``; ``None`` if no states are kept."""
        from streambayes.checkpoint import Checkpoints  # a convenience, as Run.drift

        if checkpoint is None:
            if resume:
                message = "run: resume=True needs checkpoint=..., the folder of the checkpoints"
                raise ValueError(message)
            return None
        if state is not None:
            message = "run: checkpoint and state exclude each other: checkpoints hold the state"
            raise ValueError(message)
        found = checkpoint if isinstance(checkpoint, Checkpoints) else Checkpoints(checkpoint)
        if not resume and len(found):
            message = f"{found} holds the checkpoints of a run; go on with resume=True, or choose another folder"
            raise FileExistsError(message)
        return cls(found, found.latest())

    def check(self, learner: StreamLearner, settings: dict[str, Any]) -> None:
        """Raise ``ValueError`` unless the run was begun in the same way."""
        self._settings = settings
        if self.resumed is None:
            return
        state = self.state
        if state is None:
            message = "run: the checkpoint is of many streams, not of a run"
            raise ValueError(message)
        held = self.resumed.facts.get("settings", {})
        for name, value in settings.items():
            if held.get(name) != value:
                message = f"run: the run was begun with {name}={held.get(name)!r}, and cannot go on with {value!r}"
                raise ValueError(message)
        if (state.model, state.forgetting) != (learner.model, learner.forgetting):
            message = (
                f"run: the checkpoint is of {state.model!r} with {state.forgetting!r}, not of {learner.model!r} "
                f"with {learner.forgetting!r}"
            )
            raise ValueError(message)

    @property
    def state(self) -> LearnerState | None:
        """The state to go on from."""
        state = None if self.resumed is None else self.resumed.state
        return state if isinstance(state, LearnerState) else None

    @property
    def known(self) -> list[str] | None:
        """The stream's columns, as they were."""
        return None if self.resumed is None else self.resumed.facts.get("columns")

    def rest_of(self, batches: Iterable[Any]) -> Iterator[Any]:
        """The batches that are still to be learned."""
        if not isinstance(batches, Resumable):
            return itertools.islice(batches, self.first, None)
        self._source = batches
        offset = None if self.resumed is None else self.resumed.facts["offset"]
        if offset is not None:
            batches.commit(offset)  # if the run died before it could say so
        return batches.after(offset)

    def begin(self, sync: Callable[[], None]) -> None:
        """The run may write from here on; ``sync`` waits until its records are on the disk."""
        self._sync = sync
        if self.resumed is None:
            self._checkpoints.begin()

    def learned(self, state: LearnerState, progress: dict[str, Any]) -> None:
        """A state that is to be saved, and what belongs to it."""
        self._learned = (state, progress)

    def reached(
        self, num_batches: int, batch: StreamBatch | Pieces | Shards, known: list[str] | None
    ) -> None:
        """Save what was learned, with how far the stream was read, if it is time for that."""
        from streambayes.checkpoint import Checkpoint

        state, progress = self._learned
        offset = batch.offset if isinstance(batch, StreamBatch | Shards) else None
        facts = {"settings": self._settings, "columns": known, "offset": offset, **progress}
        self._waiting = Checkpoint(state, num_batches, facts)
        if num_batches % self._checkpoints.every == 0:
            self.finish()

    def finish(self) -> None:
        """Save what is not yet saved."""
        if self._waiting is None:
            return
        checkpoint, self._waiting = self._waiting, None
        try:
            self._sync()
            self._checkpoints.save(checkpoint)
        except OSError as error:
            error.add_note(
                f"batch {checkpoint.num_batches - 1} is learned but not saved; the checkpoint before it is whole: "
                "go on from there with resume=True"
            )
            raise
        if self._source is not None:
            self._source.commit(checkpoint.facts["offset"])


def _num_batches(batches: Any, first: int) -> int | None:
    """How many there will have been, if that is known."""
    try:
        return first + len(batches) if isinstance(batches, Sized) else None
    except TypeError:  # files that do not say so
        return None


@contextlib.contextmanager
def _closed_in_the_end(
    drivers: Collection["_Driver"], batches: Iterable[Any], kept: _Checkpointing | None
) -> Iterator[None]:
    """What was learned is saved, and records say how a run has ended."""
    ended = "finished"
    try:
        try:
            yield
        finally:
            if kept is not None:
                kept.finish()
        if isinstance(batches, Resumable) and batches.stopped is not None:
            ended = f"stopped: {batches.stopped}"
    except BaseException as error:
        ended = f"stopped: {error}" if str(error) else f"stopped: {type(error).__name__}"
        raise
    finally:
        for driver in drivers:
            driver.close(ended)


def _check_stream(
    batches: Any, test_fraction: float, group: str | None, held_out: str | None
) -> None:
    if held_out is not None and group is not None:
        message = "held_out and group exclude each other: give one of them"
        raise ValueError(message)
    if not 0.0 <= test_fraction < 1.0:
        message = f"test_fraction must lie in [0, 1), got {test_fraction}"
        raise ValueError(message)
    refuse_clusters(
        batches,
        "put a batch on a cluster into a list, or cut a frame there with its batches(by=...)",
    )
    is_array = isinstance(batches, np.ndarray) and batches.ndim < 3
    if isinstance(batches, Mapping | str) or hasattr(batches, "columns") or is_array:
        message = (
            f"expected an iterable of batches, got one {type(batches).__name__}; cut a table with "
            "sb.batches(table, rows=...), or put a single batch into a list"
        )
        raise TypeError(message)


@final
@dataclasses.dataclass(frozen=True)
class _Split:
    """How every batch is split into rows to learn and rows to hold out."""

    names: list[str]
    test_fraction: float
    group: str | None
    held_out: str | None
    seed: int
    guard: SchemaGuard

    def of(
        self, batches: Iterable[Any], first: int
    ) -> Iterator[tuple[int, Any, Any, dict[str, Any] | None]]:
        """Every batch, whole and in parts."""
        names = [*self.names, *(name for name in (self.group, self.held_out) if name is not None)]
        for index, data in enumerate(batches, start=first):
            try:
                if isinstance(data, Pieces | Shards):
                    self._check_whole()
                    yield index, data, data, None
                    continue
                batch = data if isinstance(data, StreamBatch) else StreamBatch(table(data, names))
                batch = self.guard.passed(batch, column_names(data))
                yield index, batch, *self._parts(batch, index)
            except (ValueError, TypeError) as error:
                _say_where(error, index, data)
                raise

    def _check_whole(self) -> None:
        if self.test_fraction or self.held_out is not None:
            message = (
                "a batch in pieces cannot be split into rows to learn and rows to hold out: hold out whole "
                "batches, with learner.score"
            )
            raise ValueError(message)

    def _parts(
        self, batch: StreamBatch, index: int
    ) -> tuple[dict[str, Any], dict[str, Any] | None]:
        if not self.test_fraction and self.held_out is None:
            return batch.columns, None
        columns = {
            name: np.asanyarray(values)
            for name, values in batch.columns.items()
            if name in self.names
        }
        lengths = {name: len(values) for name, values in columns.items()}
        if self.held_out is not None:
            held_out = _flags(self.held_out, self._column(batch, self.held_out))
            lengths[self.held_out] = len(held_out)
        else:
            num_rows = next(iter(lengths.values()), 0)
            groups = np.arange(num_rows)
            if self.group is not None:
                texts = self._column(batch, self.group).astype(str)
                groups = np.unique(texts, return_inverse=True)[1]
                lengths[self.group] = len(groups)
            held_out = self._drawn(groups, np.random.default_rng([self.seed, index]))
        if len(set(lengths.values())) > 1:
            message = f"columns differ in length: {lengths}"
            raise ValueError(message)
        return (
            {name: values[~held_out] for name, values in columns.items()},
            {name: values[held_out] for name, values in columns.items()},
        )

    def _drawn(self, groups: np.ndarray, rng: np.random.Generator) -> np.ndarray:
        """Which rows are held out, whole groups at random; at least one group is learned."""
        sizes = np.bincount(groups)
        order = rng.permutation(len(sizes))
        wanted = round(len(groups) * self.test_fraction)
        # as many groups as come nearest to what is wanted
        middles = sizes[order].cumsum() - sizes[order] / 2
        num_groups = int((middles <= wanted).sum()) if wanted else 0
        chosen = np.zeros(len(sizes), bool)
        chosen[order[: min(num_groups, max(len(sizes) - 1, 0))]] = True
        held_out: np.ndarray = chosen[groups]
        return held_out

    def _column(self, batch: StreamBatch, name: str) -> np.ndarray:
        if name not in batch.columns:
            present = ", ".join(repr(other) for other in batch.columns)
            message = (
                f"the batch lacks column {name!r}, by which rows are held out{meant(name, batch.columns)}; it has "
                f"{present}"
            )
            raise ValueError(message)
        return np.asarray(batch.columns[name])


def _flags(name: str, cells: np.ndarray) -> np.ndarray:
    """A column of true and false, which may be 1 and 0 or text."""
    if cells.dtype.kind == "b":
        return cells
    known = [_FLAGS.get(str(cell).lower()) for cell in cells.tolist()]
    if None in known:
        row = known.index(None)
        message = f"column {name!r}, row {row}: expected true or false, got {cells[row]!r}"
        raise ValueError(message)
    return np.array(known, bool)


def _say_where(error: Exception, index: int, batch: Any) -> None:
    label = batch.label if isinstance(batch, StreamBatch | Pieces | Shards) else None
    called = "" if label is None else f" ({label!r})"
    note = f"in batch {index}{called} of the stream"
    if note not in getattr(error, "__notes__", ()):
        error.add_note(note)


@final
class _Driver:
    """One learner of a run: its state, its records, its scores so far."""

    def __init__(
        self,
        learner: StreamLearner,
        state: LearnerState | None,
        seed: int,
        record: str | Path | None,
        *,
        total: int | None,
        prequential: bool,
        drift: bool,
        goes_ahead: bool,
        on_record: Callable[[StepRecord], Any] | None,
        kept: "_Checkpointing | None",
    ) -> None:
        self._learner = learner
        self._kept = kept
        resumed = None if kept is None else kept.resumed
        if kept is not None:
            state = kept.state
        self._state = state
        # for a first batch with rows, to take scale and start from
        self._waiting = state is None if resumed is None else bool(resumed.facts["waiting"])
        self._prequential = prequential
        self._seed = seed
        self._folder = None if record is None else Path(record).absolute()
        facts = RunFacts(learner.forgetting.name, type(learner.model).__name__, total)
        self._num_batches = 0 if state is None else int(state.num_batches)
        self._writer = (
            None
            if record is None
            else RecordWriter(record, is_past=self._is_past(state, resumed), facts=facts)
        )
        if self._writer is not None and resumed is not None:
            self._writer.warn_unless_last(resumed.num_batches - 1)
        if kept is not None:
            kept.begin(lambda: self._writer.sync() if self._writer is not None else None)
        most = None if record is None else _KEPT
        self._records: collections.deque[StepRecord] = collections.deque(maxlen=most)
        self._sums = dict.fromkeys(("test_bound", "test_predictive", "prequential"), (0.0, 0))
        if resumed is not None:
            self._sums = {name: tuple(resumed.facts["sums"][name]) for name in self._sums}
        self._goes_ahead = goes_ahead
        self._ahead: Ahead | None = None
        self._is_new = True
        self._drift = drift
        self._on_record = on_record

    def _is_past(
        self, state: LearnerState | None, resumed: "Checkpoint | None"
    ) -> Callable[[int, int], bool] | None:
        """Which records that are there already are of the past."""
        if resumed is not None:
            return lambda index, _: index < resumed.num_batches
        if (
            self._kept is not None and self._kept.is_begun_anew
        ):  # stopped before its first checkpoint
            return lambda *_: False
        if state is not None:
            return lambda _, num_batches: num_batches <= self._num_batches
        return None

    def take(
        self,
        index: int,
        batch: StreamBatch | Pieces | Shards,
        train: Any,
        test: dict[str, Any] | None,
    ) -> Iterator[StepRecord]:
        """Learn a batch, now or together with later ones; the records that are complete."""
        if isinstance(batch, Pieces | Shards) or not self._goes_ahead:
            yield from self.finish()
            yield self._step(index, batch, train, test)
            return
        try:
            if self._ahead is None:
                state = self._state
                if state is None or self._waiting:
                    state = self._learner.init(train, seed=self._seed)
                if not can_go_ahead(self._learner, state) or not _has_rows(batch):
                    yield self._step(index, batch, train, test)
                    return
                self._ahead = Ahead(
                    self._learner, state, with_notes=self._drift, with_scores=self._prequential
                )
            for done in self._ahead.take((index, batch), batch):
                yield self._learned_ahead(done)
        except (ValueError, TypeError) as error:
            _say_where(error, index, batch)
            raise

    def finish(self) -> Iterator[StepRecord]:
        """The records of batches that are still on their way."""
        if self._ahead is not None:
            yield from map(self._learned_ahead, self._ahead.finish())
            self._go_on_from(self._ahead.state)
            self._ahead = None

    def _go_on_from(self, state: LearnerState) -> None:
        self._state = state
        self._waiting = self._waiting and bool(state.num_batches == 0)

    def _learned_ahead(self, done: Done) -> StepRecord:
        """What was learned ahead, as a record."""
        index, batch = done.mark
        if isinstance(done.info, StepError):
            self._ahead = None
            _say_where(done.info, index, batch)
            raise done.info
        return self._noted(index, batch, done.info, done.seconds, done.notes, done.score)

    def _step(
        self,
        index: int,
        batch: StreamBatch | Pieces | Shards,
        train: Any,
        test: dict[str, Any] | None,
    ) -> StepRecord:
        """Score, learn, score, record."""
        started = clock.perf_counter()
        learner = self._learner
        try:
            state = self._state
            if state is None or self._waiting:
                state = learner.init(train, seed=self._seed)
            before = None
            if self._prequential and state.num_batches > 0:
                before = _score(learner, state, batch, "forecast")
            others: contextlib.AbstractContextManager[None] = contextlib.nullcontext()
            if self._is_new:
                others = learner.others_prepared(state, train, with_scores=self._prequential)
            with others:
                after, info = learner.step(state, train, time=batch.time)
            self._is_new = False
        except (ValueError, TypeError, StepError) as error:
            _say_where(error, index, batch)
            raise
        held_out = None if test is None else _score(learner, after, test, "belief")
        notes = None
        if self._drift and info.outcome != Outcome.EMPTY:
            notes = noter(learner.model).note(state.belief, after.belief, after.scale)
        self._go_on_from(after)
        seconds = clock.perf_counter() - started
        fresh = after.scale.frozen & ~state.scale.frozen & state.scale.is_constant
        names = [column.name for column in learner.model.columns]
        new_columns = tuple(itertools.compress(names, fresh)) if self._num_batches else ()
        record = self._noted(index, batch, info, seconds, notes, before, held_out, new_columns)
        if self._kept is not None:
            self._kept.learned(after, {"waiting": self._waiting, "sums": dict(self._sums)})
        return record

    def _noted(
        self,
        index: int,
        batch: StreamBatch | Pieces | Shards,
        info: StepInfo,
        seconds: float,
        notes: Notes | None,
        before: Score | None = None,
        held_out: Score | None = None,
        new_columns: tuple[str, ...] = (),
    ) -> StepRecord:
        """The record of a batch, kept and added to the scores."""
        has_past = self._num_batches > 0
        self._num_batches += info.outcome != Outcome.EMPTY
        scores = [score for score in (held_out, before) if score is not None]
        seen = info.seen if self._drift else None
        record = StepRecord(
            index=index,
            label=str(index) if batch.label is None else batch.label,
            time=batch.time,
            num_rows=info.num_rows,
            num_test=0 if held_out is None else held_out.num_rows,
            bound=info.bound,
            fall=info.fall,
            rho=_short(info.rho) if has_past else None,
            omega=_short(info.omega) if has_past else None,
            retained=_short(info.retained),
            test_bound=None if held_out is None else held_out.bound,
            test_predictive=None if held_out is None else held_out.predictive,
            prequential=None if before is None else before.predictive,
            predictive_method=max((score.method for score in scores), default=None),
            num_sweeps=info.num_sweeps,
            num_rounds=info.num_rounds,
            outcome=info.outcome.name.lower(),
            events=info.events,
            seconds=seconds,
            log_bf=_short(info.log_bf) if has_past else None,
            drifting=_short(info.drifting) if has_past else None,
            recalled=_short(info.recalled) if has_past else None,
            memory=_shares(info.memory),
            looks=seen.looks if seen and has_past else None,
            pattern=seen.pattern if seen else None,
            rho_sd=_short(info.rho_sd) if has_past else None,
            # in new units there is nothing to compare it with
            moved=notes.moved if notes and has_past and not info.events else None,
            parameters=notes.parameters if notes else None,
            alone=seen.alone if seen else None,
            compared=seen.compared if seen and has_past else None,
            new_columns=new_columns,
            num_batches=self._num_batches,
            num_late=batch.num_late if isinstance(batch, StreamBatch) else 0,
            remarks=batch.remarks if isinstance(batch, StreamBatch) else (),
        )
        self._add("test_bound", record.test_bound, record.num_test)
        self._add("test_predictive", record.test_predictive, record.num_test)
        self._add("prequential", record.prequential, 0 if before is None else before.num_rows)
        self._records.append(record)
        if self._writer is not None:
            self._writer.write(record)
        if self._on_record is not None:
            self._on_record(record)
        return record

    def close(self, ended: str = "finished") -> None:
        """No more records."""
        if self._writer is not None:
            self._writer.close(ended)

    def finished(self) -> Run:
        """The run so far."""
        if self._state is None:
            message = "the stream has no batches"
            raise ValueError(message)
        means = {
            name: total / num_rows if num_rows else None
            for name, (total, num_rows) in self._sums.items()
        }
        return Run(self._learner, self._state, tuple(self._records), Scores(**means), self._folder)

    def _add(self, name: str, mean: float | None, num_rows: int) -> None:
        if mean is None:
            return
        total, rows = self._sums[name]
        self._sums[name] = (total + mean * num_rows, rows + num_rows)


def _short(value: Any) -> Any:
    """What is known of every block, to ten digits."""
    if not isinstance(value, dict) or not value:
        return value
    numbers = np.fromiter(value.values(), float, len(value))
    return dict(zip(value, rounded(numbers, digits=10).tolist(), strict=True))


def _shares(memory: Any) -> Any:
    """Weights to four digits: there are many of them in a record."""
    if isinstance(memory, dict):
        every = _four_digits(list(memory.values()))
        return dict(zip(memory, map(tuple, every), strict=True))
    return None if memory is None else tuple(_four_digits(memory))


def _four_digits(weights: Any) -> list[Any]:
    found: list[Any] = np.round(weights, 4).tolist()
    return found


def _has_rows(batch: StreamBatch) -> bool:
    return any(len(column) for column in batch.columns.values())


def _score(learner: StreamLearner, state: LearnerState, rows: Any, using: Using) -> Score | None:
    score = learner.score(state, rows, using=using)
    return score if score.num_rows else None


def _without_empty(table: Table, names: tuple[str, ...]) -> Table:
    """Without those of the named columns that say nothing."""
    empty = {name for name in names if all(row[name] is None for row in table)}
    kept = tuple(column for column in table.columns if column not in empty)
    return Table(kept, tuple({column: row[column] for column in kept} for row in table))


def _lowest(rho: float | dict[str, float] | None) -> tuple[str | None, float | None]:
    if isinstance(rho, dict):
        return min(rho.items(), key=lambda entry: entry[1])
    return None, rho


def _mean_rho(rho: float | dict[str, float] | None) -> float | None:
    return sum(rho.values()) / len(rho) if isinstance(rho, dict) else rho
