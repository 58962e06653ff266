"""StepRecord: one step of a run as plain data, in memory and as a line of JSON on disk."""

import dataclasses
import json
import math
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, Self, TextIO, final

__all__ = ["RecordWriter", "StepRecord", "read_records", "records_of"]

_FILE = "records.jsonl"


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
        log_restart: Per block, the log Bayes factor of starting over with this batch against going on from
            what was believed; ``None`` for policies that do not tell a batch from what they keep.
        rho_sd: Standard deviation of the posterior over rho, likewise, where rho is learned.
        moved: Per block, the divergence of what is believed after the batch from what was before, in nats.
        parameters: Per block, the mean and the standard deviation of each of its parameters, in the user's
            units, to eight digits or to a hundred-thousandth of the standard deviation.
        retained: Rows of data each block retains.
        test_bound: Held-out log-likelihood after learning, the authors' definition.
        test_predictive: Held-out log-likelihood after learning, the real predictive density.
        prequential: Log predictive density of the whole batch before learning from it; none for the
            first batch, which sets scale and start.
        forecast: Log density of the rows to learn by the policy's mixture of forecasters, before learning.
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
    forecast: float | None = None
    log_restart: dict[str, float] | None = None
    rho_sd: float | dict[str, float] | None = None
    moved: dict[str, float] | None = None
    parameters: dict[str, dict[str, tuple[float, float]]] | None = None

    def to_json(self) -> str:
        """One line of JSON; numbers that are not finite become null."""
        return json.dumps(_finite(dataclasses.asdict(self)), allow_nan=False)

    @classmethod
    def from_json(cls, line: str) -> Self:
        """The record that ``to_json`` wrote."""
        fields = json.loads(line)
        return cls(**_with_tuples(fields))


@final
class RecordWriter:
    """Appends records to a folder, one line each, visible to readers at once."""

    def __init__(self, folder: str | Path, *, append: bool) -> None:
        path = Path(folder)
        path.mkdir(parents=True, exist_ok=True)
        if not append and (path / _FILE).exists() and (path / _FILE).stat().st_size:
            message = f"{path} already holds the records of a run; choose another folder"
            raise FileExistsError(message)
        self._file: TextIO = (path / _FILE).open("a", encoding="utf-8")

    def write(self, record: StepRecord) -> None:
        """Append one record."""
        self._file.write(record.to_json() + "\n")
        self._file.flush()

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def read_records(folder: str | Path) -> Iterator[StepRecord]:
    """The records of a run that was recorded in ``folder``, one by one.

    A last line that is being written, or was when the program ended, is left out.
    """
    path = Path(folder) / _FILE
    if not path.is_file():
        message = f"{path}: no such file; run(..., record=folder) writes one"
        raise FileNotFoundError(message)
    with path.open("rb") as lines:
        for number, line in enumerate(lines, start=1):
            if not line.endswith(b"\n"):
                return
            try:
                yield StepRecord.from_json(line.decode())
            except (ValueError, TypeError, KeyError) as error:
                message = f"{path}, line {number}: not a record of a run ({error})"
                raise ValueError(message) from None


def records_of(source: Any) -> Iterable[StepRecord]:
    """All records of a run, of the folder that they were written to, or of any iterable; one by one."""
    if isinstance(source, str | Path):
        return read_records(source)
    folder = getattr(source, "folder", None)
    if folder is not None and (folder / _FILE).is_file():  # a run keeps the last ones only
        return read_records(folder)
    found: Iterable[StepRecord] = getattr(source, "records", source)
    return found


def _with_tuples(fields: dict[str, Any]) -> dict[str, Any]:
    """What JSON has made lists of, as it was."""
    memory = fields.get("memory")
    if isinstance(memory, dict):
        memory = {label: tuple(weights) for label, weights in memory.items()}
    elif memory is not None:
        memory = tuple(memory)
    parameters = fields.get("parameters")
    if parameters is not None:
        parameters = {
            block: {name: (_number(mean), _number(sd)) for name, (mean, sd) in of_block.items()}
            for block, of_block in parameters.items()
        }
    return {
        **fields,
        "events": tuple(fields["events"]),
        "memory": memory,
        "parameters": parameters,
    }


def _number(value: float | None) -> float:
    """A number that was not finite has become null."""
    return math.nan if value is None else value


def _finite(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _finite(entry) for key, entry in value.items()}
    if isinstance(value, tuple):
        return [_finite(entry) for entry in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
