"""StepRecord: one step of a run as plain data, in memory and as a line of JSON in a file."""

import contextlib
import dataclasses
import json
import math
import os
import re
import urllib.parse
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO, final

from streambayes.learning._notes import Comparison, Looked
from streambayes.learning._watch import SCALES

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

__all__ = [
    "RECORDS",
    "RecordReader",
    "RecordWriter",
    "RunFacts",
    "StepRecord",
    "folder_name",
    "read_records",
    "records_of",
]

RECORDS = "records.jsonl"
"""The file in a run's folder.

Lines of four kinds, each a JSON object: ``{"run": ...}`` opens a run or goes on with it, ``{"blocks": ...}`` names the
blocks and their parameters, ``{"index": ...}`` is a record, ``{"ended": ...}`` says how the run ended. What a record
says of every block is a list in the order of the last ``blocks``, so that names are not repeated.
"""
_RECORD = re.compile(rb'\{"index": (\d+), "num_batches": (\d+),')
_TAIL = 4096
"""Bytes by which a file that was read is known again."""


@final
@dataclasses.dataclass(frozen=True)
class StepRecord:
    """One step of a run; scores are means over rows in the user's units.

    Attributes:
        index: Position in the stream, from 0.
        label: What the batch is called.
        time: The batch's time, if the stream has times.
        num_rows: Rows that were learned.
        num_test: Rows that were held out.
        bound: The bound reached, if the policy climbs one.
        fall: The most that the bound fell from one sweep to the next: rounding alone, since every sweep
            raises it.
        rho: Share of the past that was kept: one number, or one per block; none for the first batch,
            which has no past.
        omega: Natural parameter of the posterior over rho, likewise.
        log_bf: For ``Auto``, evidence for a change exactly here: the log Bayes factor of one against none;
            an alarm above 3. One number, or one per block.
        drifting: For ``Auto``, the probability that most of the past is no longer used, likewise.
        recalled: For ``Auto``, the weight of memories of earlier states, likewise.
        memory: For ``Auto``, the weights of the other memories by how far back they reach: 8, 16, ...,
            131,072 rows, and all of the past; likewise.
        looks: Per block, two log Bayes factors for each scale at which the watch has looked (this batch, the last 4,
            16 and 64): that the block starts over here, against going on as usual; and that it had started over
            at the look before. ``None`` where there was nothing to compare.
        pattern: Per block, how it goes on: the weights of fluctuating from batch to batch and of wandering, and
            how many rows are remembered while it wanders.
        rho_sd: Standard deviation of the posterior over rho, likewise, where rho is learned.
        moved: Per block, the divergence of what is believed after the batch from what was before, in nats.
        parameters: Per block, the mean and the standard deviation of each of its parameters, in the user's
            units, to eight digits or to a hundred-thousandth of the standard deviation.
        alone: Per block, the mean of each of its parameters by this batch alone, likewise.
        compared: Of blocks with evidence for a change, by the place of the scale: what was usual of each parameter
            before and what the look says by itself, mean and standard deviation of both.
        new_columns: Columns that vary for the first time, after others did.
        num_batches: Batches with rows that the state has seen, this one included.
        num_late: Rows that came too late for their batch since the one before, and are in none.
        remarks: What was done about rows that do not fit the model, by ``SchemaPolicy``.
        retained: Rows of data each block retains.
        test_bound: Held-out log-likelihood after learning, the authors' definition.
        test_predictive: Held-out log-likelihood after learning, the real predictive density.
        prequential: Log predictive density of the whole batch before learning from it, as ``predict`` predicts it;
            none for the first batch, which sets scale and start.
        predictive_method: How predictive densities were computed: ``exact`` or ``importance``.
        num_sweeps: Sweeps over the batch.
        num_rounds: Rounds between which the policy was refined.
        outcome: How the step ended.
        events: Anything out of the ordinary.
        seconds: Time the step took, scores included.
    """

    index: int
    label: str
    time: float | None
    num_rows: int
    num_test: int
    bound: float | None
    fall: float | None
    rho: float | dict[str, float] | None
    omega: float | dict[str, float] | None
    retained: dict[str, float]
    test_bound: float | None
    test_predictive: float | None
    prequential: float | None
    predictive_method: str | None
    num_sweeps: int
    num_rounds: int
    outcome: str
    events: tuple[str, ...]
    seconds: float
    log_bf: float | dict[str, float] | None = None
    drifting: float | dict[str, float] | None = None
    recalled: float | dict[str, float] | None = None
    memory: tuple[float, ...] | dict[str, tuple[float, ...]] | None = None
    looks: Looked | None = None
    pattern: dict[str, tuple[float, float, float]] | None = None
    rho_sd: float | dict[str, float] | None = None
    moved: dict[str, float] | None = None
    parameters: dict[str, dict[str, tuple[float, float]]] | None = None
    alone: dict[str, dict[str, float]] | None = None
    compared: dict[str, dict[int, dict[str, Comparison]]] | None = None
    new_columns: tuple[str, ...] = ()
    num_batches: int = 0
    num_late: int = 0
    remarks: tuple[str, ...] = ()


@final
@dataclasses.dataclass(frozen=True)
class RunFacts:
    """What is known of a run before its first record.

    Attributes:
        policy: Its forgetting policy, by name.
        model: Its model, by name.
        total: How many batches there are, if that is known.
    """

    policy: str | None = None
    model: str | None = None
    total: int | None = None


@final
class RecordWriter:
    """Appends the records of a run to a file, one line each, visible to readers at once.

    Args:
        folder: Where the file is; it is made if it is not there.
        is_past: Whether a record of this index and of so many batches with rows is one of those with which to
            go on; the first that is none is cut off and all after it, since these batches are learned anew.
            Without it the run begins, and there must be no records.
        facts: What is known of the run.
    """

    def __init__(
        self,
        folder: str | Path,
        *,
        is_past: Callable[[int, int], bool] | None = None,
        facts: RunFacts | None = None,
    ) -> None:
        path = Path(folder) / RECORDS
        path.parent.mkdir(parents=True, exist_ok=True)
        self._file = path.open("ab")
        try:
            _lock(self._file, path.parent)
            self._last: int | None = None
            if is_past is None:
                _check_empty(path)
            else:
                end, self._last = _end_of_records(path, is_past)
                self._file.truncate(end)
        except BaseException:
            self._file.close()
            raise
        self._facts = facts or RunFacts()
        self._has_begun = False
        self._blocks: dict[str, list[str]] = {}

    def write(self, record: StepRecord) -> None:
        """Append one record."""
        lines = []
        if not self._has_begun:
            lines.append({"run": dataclasses.asdict(self._facts)})
            self._has_begun = True
        if not _names_all(self._blocks, record):
            self._blocks = _with_names_of(self._blocks, record)
            lines.append({"blocks": self._blocks})
        self._write(*lines, _packed(record, self._blocks))

    def warn_unless_last(self, index: int) -> None:
        """Warn if records are there, and the last of them is not of this batch."""
        if self._last is not None and self._last != index:
            message = (
                f"{self._file.name}: the records of batches {self._last + 1} to {index} are missing; what is told of the "
                "run from its records lacks them"
            )
            warnings.warn(message, stacklevel=2)

    def sync(self) -> None:
        """Wait until all that was written is on the disk."""
        os.fsync(self._file.fileno())

    def close(self, ended: str = "finished") -> None:
        """No more records."""
        # where the disk is full, that is said already
        quiet = contextlib.nullcontext() if ended == "finished" else contextlib.suppress(OSError)
        with quiet:
            if self._has_begun and not self._file.closed:
                self._write({"ended": ended})
        with quiet:
            self._file.close()

    def _write(self, *lines: Mapping[str, Any]) -> None:
        text = "".join(json.dumps(line, allow_nan=False) + "\n" for line in lines)
        self._file.write(text.encode())
        self._file.flush()


@final
class RecordReader:
    """Reads the records of a run that was recorded in a folder, or is being recorded.

    Args:
        folder: The run's folder.

    Attributes:
        path: The file.
        facts: What the file says of the run.
        ended: How the run ended; ``None`` while it goes on.
    """

    def __init__(self, folder: str | Path) -> None:
        self.path = Path(folder) / RECORDS
        if not self.path.is_file():
            message = f"{self.path}: no such file; run(..., record=folder) writes one"
            raise FileNotFoundError(message)
        self.facts = RunFacts()
        self.ended: str | None = None
        self._blocks: dict[str, list[str]] = {}
        self._line = 0
        self._place = 0
        self._tail = b""

    def new(self) -> Iterator[StepRecord]:
        """Records that have been written since the last call.

        A last line that is being written, or was when the program ended, is left for the next call.
        """
        with self.path.open("rb") as file:
            file.seek(self._place)
            for text in file:
                if not text.endswith(b"\n"):
                    return
                self._line += 1
                self._place += len(text)
                self._tail = text[-_TAIL:]
                try:
                    record = self._read(_loaded(text))
                except _DAMAGE as error:
                    message = (
                        f"{self.path}, line {self._line}: not a record of a run ({error}); restore the file, "
                        "or cut it off before that line"
                    )
                    raise ValueError(message) from None
                if record is not None:
                    yield record

    @property
    def share_read(self) -> float:
        """How much of the file has been read."""
        return min(self._place / max(self.path.stat().st_size, 1), 1.0)

    @property
    def written(self) -> float | None:
        """When something was last written, in seconds since 1970; ``None`` if the file is gone."""
        return self.path.stat().st_mtime if self.path.exists() else None

    def is_replaced(self) -> bool:
        """Whether there is another file now, or none."""
        try:
            with self.path.open("rb") as file:
                file.seek(self._place - len(self._tail))
                return file.read(len(self._tail)) != self._tail
        except OSError:
            return True

    def _read(self, line: Any) -> StepRecord | None:
        if "run" in line:
            facts = RunFacts(**line["run"])
            _check(facts, _FACTS)
            self.facts, self.ended = facts, None
        elif "blocks" in line:
            if not _by_name(_list_of(_is_text))(line["blocks"]):
                message = "blocks must be lists of parameters by name"
                raise ValueError(message)
            self._blocks = line["blocks"]
        elif "ended" in line:
            self.ended = str(line["ended"])
        else:
            return _unpacked(line, self._blocks)
        return None


def read_records(folder: str | Path) -> Iterator[StepRecord]:
    """The records of a run that was recorded in ``folder``, one by one.

    A last line that is being written, or was when the program ended, is left out.
    """
    yield from RecordReader(folder).new()


def records_of(source: Any) -> Iterable[StepRecord]:
    """All records of a run, of the folder that they were written to, or of any iterable; one by one."""
    if isinstance(source, str | Path):
        return read_records(source)
    folder = getattr(source, "folder", None)
    if folder is not None and (folder / RECORDS).is_file():  # a run keeps the last ones only
        return read_records(folder)
    found: Iterable[StepRecord] = getattr(source, "records", source)
    return found


def folder_name(run: str) -> str:
    """The name of a run as that of a folder, whatever is in it; at most as long as systems allow."""
    quoted = urllib.parse.quote(run, safe=" =,()")[:200]
    return quoted if quoted.strip(". ") else quoted.replace(".", "%2E").replace(" ", "%20")


_BY_BLOCK = (
    "rho",
    "omega",
    "retained",
    "log_bf",
    "drifting",
    "recalled",
    "memory",
    "looks",
    "pattern",
    "rho_sd",
    "moved",
    "parameters",
    "alone",
    "compared",
)
"""Fields that may have an entry for every block."""


def _packed(record: StepRecord, blocks: Mapping[str, list[str]]) -> dict[str, Any]:
    """A record without names of blocks; numbers that are not finite become ``None``."""
    fields: dict[str, Any] = {"index": record.index, "num_batches": record.num_batches}
    fields |= {name: _finite(value) for name, value in vars(record).items()}
    for name in _BY_BLOCK:
        value = fields[name]
        if name in _BY_PARAMETER and value is not None:
            fields[name] = [_flat(value.get(block), names) for block, names in blocks.items()]
        elif name == "compared" and value is not None:  # few blocks are
            places = {block: place for place, block in enumerate(blocks)}
            fields[name] = {
                places[block]: {scale: _flat(each, blocks[block]) for scale, each in looks.items()}
                for block, looks in value.items()
            }
        elif isinstance(value, dict):
            fields[name] = [value.get(block) for block in blocks]
    return fields


def _unpacked(fields: dict[str, Any], blocks: Mapping[str, list[str]]) -> StepRecord:
    """A record as it was; what is not known of a block is left out."""
    for name in _BY_BLOCK:
        value = fields.get(name)
        if name in _BY_PARAMETER and value is not None:
            fields[name] = {
                block: _named(numbers, names, _BY_PARAMETER[name])
                for (block, names), numbers in zip(blocks.items(), value, strict=True)
                if numbers is not None
            }
        elif name == "compared" and value is not None:
            known = list(blocks.items())
            fields[name] = {
                known[int(place)][0]: {
                    int(scale): _named(numbers, known[int(place)][1], Comparison)
                    for scale, numbers in looks.items()
                }
                for place, looks in value.items()
            }
        elif name in ("looks", "pattern") and value is not None:
            fields[name] = {
                block: _as_tuples(entry)
                for block, entry in zip(blocks, value, strict=True)
                if entry is not None
            }
        elif name == "memory" and value is not None:
            if isinstance(value[0], list):
                value = dict(zip(blocks, map(tuple, value), strict=True))
            fields[name] = value if isinstance(value, dict) else tuple(value)
        elif isinstance(value, list):
            entries = zip(blocks, value, strict=True)
            fields[name] = {block: entry for block, entry in entries if entry is not None}
    several = {
        name: tuple(fields[name])
        for name in ("events", "new_columns", "remarks")
        if isinstance(fields.get(name), list)
    }
    kept = {name: value for name, value in fields.items() if name not in _OF_EARLIER_VERSIONS}
    record = StepRecord(**{**kept, **several})
    _check(record, _FIELDS)
    return record


_OF_EARLIER_VERSIONS = ("log_restart", "forecast")
_BY_PARAMETER: dict[str, Callable[..., Any]] = {
    "parameters": lambda mean, sd: (mean, sd),
    "alone": lambda mean: mean,
}
"""Fields that have an entry for every parameter of a block, and how it is made of its numbers."""


def _flat(parameters: Any, names: list[str]) -> list[float | None] | None:
    """The numbers of a block's parameters in one list."""
    if parameters is None:
        return None
    values = [parameters.get(name) for name in names]
    size = max((len(value) for value in values if isinstance(value, list | tuple)), default=1)
    return [
        number
        for value in values
        for number in (value if isinstance(value, list | tuple) else (value,) * size)
    ]


def _named(
    numbers: list[float | None], names: list[str], made: Callable[..., Any]
) -> dict[str, Any]:
    values, size = _numbers(numbers), len(numbers) // max(len(names), 1)
    parts = zip(*(values[place::size] for place in range(size)), strict=True)
    return {
        name: made(*part)
        for name, part in zip(names, parts, strict=True)
        if made is _BY_PARAMETER["parameters"] or not all(map(math.isnan, part))
    }


def _as_tuples(value: Any) -> Any:
    """Lists as tuples."""
    return tuple(map(_as_tuples, value)) if isinstance(value, list) else value


def _numbers(value: Any) -> Any:
    """Lists as tuples, what is not known as NaN."""
    if isinstance(value, list):
        return tuple(map(_numbers, value))
    return math.nan if value is None else value


Fits = Callable[[Any], bool]


def _check(value: Any, fields: Mapping[str, Fits]) -> None:
    """Raise ``ValueError`` if a field holds what it cannot; readers rely on kinds."""
    for name, fits in fields.items():
        if not fits(getattr(value, name)):
            message = f"{name} cannot be {getattr(value, name)!r:.80}"
            raise ValueError(message)


def _is_number(value: Any) -> bool:
    """NaN stands for what is not known; infinite numbers are never written."""
    if isinstance(value, float):
        return not math.isinf(value)
    return isinstance(value, int) and not isinstance(value, bool) and abs(value) < 2**53


def _is_count(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 2**53


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_comparison(value: Any) -> bool:
    return all(map(_is_number, value))


def _is_place(value: Any) -> bool:
    return _is_count(value) and value < len(SCALES)


def _maybe(*fits: Fits) -> Fits:
    return lambda value: value is None or any(fit(value) for fit in fits)


def _list_of(fits: Fits, *, size: int | None = None) -> Fits:
    return lambda value: (
        isinstance(value, list | tuple)
        and (size is None or len(value) == size)
        and all(map(fits, value))
    )


def _by_name(fits: Fits, names: Fits = _is_text) -> Fits:
    return lambda value: (
        isinstance(value, dict) and all(map(names, value)) and all(map(fits, value.values()))
    )


_PAIR = _list_of(_is_number, size=2)
_LOOKS = _list_of(_list_of(_maybe(_is_number), size=2))
_FACTS: dict[str, Fits] = {
    "policy": _maybe(_is_text),
    "model": _maybe(_is_text),
    "total": _maybe(_is_count),
}
_FIELDS: dict[str, Fits] = {
    **dict.fromkeys(("index", "num_rows", "num_test", "num_sweeps", "num_rounds"), _is_count),
    **dict.fromkeys(("num_batches", "num_late"), _is_count),
    **dict.fromkeys(("label", "outcome"), _is_text),
    "predictive_method": _maybe(_is_text),
    **dict.fromkeys(("events", "new_columns", "remarks"), _list_of(_is_text)),
    "seconds": _is_number,
    **dict.fromkeys(("time", "bound", "fall", "test_bound"), _maybe(_is_number)),
    **dict.fromkeys(("test_predictive", "prequential"), _maybe(_is_number)),
    **dict.fromkeys(
        ("rho", "omega", "log_bf", "drifting", "recalled", "rho_sd"),
        _maybe(_is_number, _by_name(_is_number)),
    ),
    "memory": _maybe(_list_of(_maybe(_is_number)), _by_name(_list_of(_maybe(_is_number)))),
    "retained": _by_name(_is_number),
    "moved": _maybe(_by_name(_is_number)),
    "parameters": _maybe(_by_name(_by_name(_PAIR))),
    "alone": _maybe(_by_name(_by_name(_is_number))),
    "looks": _maybe(_by_name(lambda value: _LOOKS(value) and len(value) <= len(SCALES))),
    "pattern": _maybe(_by_name(_list_of(_is_number, size=3))),
    "compared": _maybe(_by_name(_by_name(_by_name(_is_comparison), _is_place))),
}
"""What each field of a record may hold."""
_DAMAGE = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError)
"""What a line that is no record may raise."""


def _loaded(line: bytes) -> Any:
    """JSON whose text can be written again: halves of characters cannot."""
    found = json.loads(line)
    if b"\\ud" in line.lower():
        json.dumps(found, ensure_ascii=False).encode()
    return found


def _names_all(blocks: Mapping[str, list[str]], record: StepRecord) -> bool:
    """Whether these are all names in a record."""
    return all(
        blocks.keys() >= value.keys()
        for name in _BY_BLOCK
        if isinstance(value := getattr(record, name), dict)
    ) and all(blocks[block] or not names for block, names in _parameters_of(record).items())


def _with_names_of(blocks: Mapping[str, list[str]], record: StepRecord) -> dict[str, list[str]]:
    found = {name: list(parameters) for name, parameters in _parameters_of(record).items()}
    every = dict(blocks)
    for name in _BY_BLOCK:
        value = getattr(record, name)
        if isinstance(value, dict):
            every |= {block: found.get(block) or every.get(block, []) for block in value}
    return every


def _parameters_of(record: StepRecord) -> dict[str, Any]:
    """Parameters of each block, in whatever field they are named."""
    named = {**(record.alone or {}), **(record.parameters or {})}
    return {block: names for block, names in named.items() if names}


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value


def _end_of_records(path: Path, is_past: Callable[[int, int], bool]) -> tuple[int, int | None]:
    """Where records of the past end, and which is the last; a line that was being written in a crash is none."""
    place, last = 0, None
    with path.open("rb") as file:
        for line in file:
            found = _RECORD.match(line)
            if not line.endswith(b"\n") or (found and not is_past(*map(int, found.groups()))):
                break
            last = int(found[1]) if found else last
            place += len(line)
    return place, last


def _check_empty(path: Path) -> None:
    if path.stat().st_size:
        message = f"{path.parent} already holds the records of a run; choose another folder"
        raise FileExistsError(message)


def _lock(file: BinaryIO, folder: Path) -> None:
    """One run at a time writes into a folder, where the system has locks."""
    if fcntl is None:
        return
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        message = f"{folder}: another run is writing its records there; choose another folder"
        raise FileExistsError(message) from None
