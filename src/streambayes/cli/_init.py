"""streambayes init: a configuration with comments, by a look at the first rows of the data."""

import dataclasses
import json
import math
import os
import re
from pathlib import Path
from typing import Annotated, Any, Literal, final

import numpy as np
import typer

from streambayes.cli._config import read_config
from streambayes.cli._output import saying_errors
from streambayes.sources import Files
from streambayes.sources._times import seconds

__all__ = ["init"]

Model = Literal["Gaussian", "MultivariateGaussian", "GaussianMixture", "Network"]

_ROWS = 10_000
"""Rows to look at."""
_MOST = 20
"""The most values of a column of text that is taken as one of categories."""
_COLUMNS = 50
"""The most columns of numbers to take: more take long to compile."""
_SEPARATOR = '# separator = ","         # of CSV files'
_WANTED = 100
"""Batches to aim at."""
_TIME = re.compile(
    r"(?:^|_|\b)(?:time|times|timestamp|date|datetime|day|when|ts)(?:$|_|\b)", re.IGNORECASE
)
_DAY = 86400
_PERIODS = {
    "1s": 1,
    "10s": 10,
    "1m": 60,
    "5m": 300,
    "15m": 900,
    "1h": 3600,
    "6h": 6 * 3600,
    "1d": _DAY,
    "1w": 7 * _DAY,
    "1mo": 30 * _DAY,
    "1q": 91 * _DAY,
    "1y": 365 * _DAY,
}


def init(
    data: Annotated[
        str,
        typer.Argument(
            metavar="DATA", help="CSV, Parquet or Arrow file, or a pattern such as 'trips/*.csv'."
        ),
    ],
    output: Annotated[
        Path, typer.Option("--output", "-o", help="File to write; one that is there is left alone.")
    ] = Path("stream.toml"),
    model: Annotated[
        Model | None, typer.Option("--model", help="Which model; by default one that fits.")
    ] = None,
    separator: Annotated[
        str | None,
        typer.Option(
            "--separator", help="What separates cells of CSV files; by default it is told."
        ),
    ] = None,
) -> None:
    """The configuration."""
    with saying_errors(output):
        if output.exists():
            message = f"{output} is already there; give another name with --output"
            raise FileExistsError(message)
        separator = separator or _separator(data)
        look = _look(Files(data, separator=separator))
        text = _text(look, _relative(data, output), output, _choice(look, model), separator)
        read_config(output, text)  # what is written can be run
        with output.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    typer.echo(f"Written: {output}")
    typer.echo(f"Read it, then try: streambayes run {output} --dry-run")


@final
@dataclasses.dataclass(frozen=True)
class _Look:
    """What the first rows tell.

    Attributes:
        num_rows: Rows that were looked at.
        share: Share of all rows that they are, as far as that can be told.
        numbers: Columns of numbers.
        flags: Columns of true and false.
        categories: Columns of few values, with these.
        others: Columns that no simple model takes, and why.
        time: The column of times.
        moments: Its values, in seconds.
    """

    num_rows: int
    share: float
    numbers: list[str]
    flags: list[str]
    categories: dict[str, list[str]]
    others: dict[str, str]
    time: str | None
    moments: np.ndarray


def _look(files: Files) -> _Look:
    columns, num_rows, is_all = _first_rows(files)
    total = files.num_rows()
    share = 1.0 if is_all else _share(files, num_rows, total)
    time, moments = _time_of(columns)
    found = {name: _judged(name, values) for name, values in columns.items() if name != time}
    for name in [name for name, judged in found.items() if judged is float][_COLUMNS:]:
        found[name] = f"{_COLUMNS} columns are enough to begin with"
    return _Look(
        num_rows=num_rows,
        share=share,
        numbers=[name for name, judged in found.items() if judged is float],
        flags=[name for name, judged in found.items() if judged is bool],
        categories={name: judged for name, judged in found.items() if isinstance(judged, list)},
        others={name: judged for name, judged in found.items() if isinstance(judged, str)},
        time=time,
        moments=moments,
    )


def _judged(name: str, values: np.ndarray) -> type | list[str] | str:
    """A column is of numbers (``float``), of flags (``bool``), of a list of values; or why it is of none."""
    known = [cell for cell in values.tolist() if cell is not None and cell == cell]  # noqa: PLR0124  # NaN
    kinds = {type(cell) for cell in known}
    if not name or not known:
        return "all of its cells that were read are missing" if name else "it has no name"
    if kinds == {bool}:
        return bool
    if kinds <= {bool, int, float}:
        if _TIME.search(name):
            return "it looks like a time; [batches] every takes a number for it"
        return float if all(map(math.isfinite, known)) else "some of its numbers are infinite"
    if kinds != {str}:
        return "its cells are neither numbers nor text"
    different = sorted(set(known))
    is_few = 2 <= len(different) <= _MOST
    return different if is_few else f"it is text with {len(different):,} values"


def _first_rows(files: Files) -> tuple[dict[str, np.ndarray], int, bool]:
    """Columns of the first rows, how many rows, and whether these are all."""
    parts: list[dict[str, np.ndarray]] = []
    num_rows, is_all = 0, True
    for chunk in files.read(None, None):
        if num_rows >= _ROWS or (parts and chunk.columns.keys() != parts[0].keys()):
            is_all = False
            break
        if chunk.num_rows:
            parts.append(chunk.columns)
            num_rows += chunk.num_rows
    if not parts:
        message = f"{files.paths[0]} has no rows to look at"
        raise ValueError(message)
    joined = {name: np.concatenate([part[name] for part in parts]) for name in parts[0]}
    return joined, num_rows, is_all


def _share(files: Files, num_rows: int, total: int | None) -> float:
    """How much of all rows was read; of CSV files a guess by their size."""
    if total:
        return min(num_rows / total, 1.0)
    first = min(files.paths[0].stat().st_size, 2**20)  # a chunk is about so long
    return min(first / max(sum(path.stat().st_size for path in files.paths), 1), 1.0)


def _time_of(columns: dict[str, np.ndarray]) -> tuple[str | None, np.ndarray]:
    """The first column of dates, or of ISO text by a name such as time; and its values."""
    for name, values in columns.items():
        is_date = values.dtype.kind == "M" or type(values[0]).__name__ in {"datetime", "date"}
        is_text = values.dtype.kind == "O" and isinstance(values[0], str)
        if not is_date and not (is_text and _TIME.search(name)):
            continue
        try:
            return name, seconds(name, values)
        except (ValueError, TypeError, OverflowError):  # missing, or no times after all
            continue
    return None, np.empty(0)


def _choice(look: _Look, model: Model | None) -> Model:
    if not (look.numbers or look.flags or look.categories):
        reasons = "; ".join(f"{name!r}: {why}" for name, why in look.others.items())
        message = f"there is no column that a model could learn ({reasons or 'there are none'})"
        raise ValueError(message)
    if model is not None and model != "Network" and not look.numbers:
        message = f"--model {model} needs columns of numbers, and there are none"
        raise ValueError(message)
    return model or ("Gaussian" if look.numbers else "Network")


def _separator(data: str) -> str | None:
    """What separates the cells, if it is not what the file's name says."""
    names = Files(data).names()
    if len(names) == 1:  # which may be several
        return next((letter for letter in ";|\t" if letter in names[0]), None)
    return None


def _relative(data: str, output: Path) -> str:
    """A path as the configuration has it, relative to its own folder."""
    if Path(data).is_absolute():
        return data
    folder = output.resolve().parent
    return Path(os.path.relpath(Path.cwd() / data, folder)).as_posix()


def _text(look: _Look, data: str, output: Path, model: Model, separator: str | None) -> str:
    folder = f"runs/{output.stem}"
    return "\n".join(
        [
            f"# A stream for streambayes run, by a look at {look.num_rows:,} rows.",
            f"# Check it with: streambayes run {_comment(output.name)} --dry-run",
            "# Keys behind a # are optional and have the value that they have without them,",
            "# or an example. Paths are relative to the folder of this file.",
            "",
            "# What the rows look like.",
            "[model]",
            *_model(look, model),
            *_left_out(look, model),
            "",
            "# What is kept of the past. Auto needs no setting; others are SVB (keep all), HPP, MHPP,",
            "# PowerPrior, Fading, PVB and SVI.",
            "[forgetting]",
            'policy = "Auto"',
            "# shared = false          # one share of the past for the whole model",
            '# clock = "rows"          # or "time", with [batches] time',
            "",
            "# Where rows come from: files, folder, redis or kafka.",
            "[source]",
            'type = "files"',
            f"files = {_quoted(data)}",
            f"separator = {_quoted(separator)}" if separator else _SEPARATOR,
            '# missing = ["?"]         # what stands for a missing cell, besides an empty one, NA, NaN, null',
            '# types = {zip = "text"}  # columns of CSV files that the first cell does not tell',
            "",
            "# How rows are cut into batches: rows, every or by, one of them.",
            "[batches]",
            *_batches(look),
            '# columns = ["x", "y"]    # read these only; by default all, so that new ones are noticed',
            "",
            "# Rows of each batch that are held out and scored after learning.",
            "[test]",
            "# fraction = 0.2",
            '# group = "device"        # hold out whole groups',
            '# held_out = "is_test"    # a column that is true for the rows to hold out',
            "",
            "[learner]",
            "# seed = 0",
            "# prequential = true      # score each batch before learning from it",
            "# forecast = false        # forecast each batch row by row, too",
            "# scale = true            # centre and scale columns by the first batch",
            "# num_restarts = 1        # starts to try on the first batch",
            "# tolerance = 1e-12       # the bound has settled when it gains no more a row",
            "# max_sweeps = 1000",
            "",
            '# When columns change under way: "error" stops, "missing" takes cells as missing,',
            '# "ignore" leaves the rows, or a new column, out.',
            "[schema]",
            '# new_column = "error"    # or "ignore"',
            '# lost_column = "error"',
            '# changed_type = "error"',
            '# unseen_category = "error"',
            "",
            "# What is written.",
            "[output]",
            f"folder = {_quoted(folder)}",
            "report = false            # true writes report.html into the folder at the end",
            '# checkpoints = "s3://bucket/run"  # by default in the folder',
            "# every = 1               # batches from one checkpoint to the next",
            "# keep = 3                # checkpoints that are kept",
            "",
            "# How many false alarms of a change per batch to allow.",
            "[drift]",
            "# false_alarms = 0.01",
            "",
            "# Numbers for Prometheus at http://127.0.0.1:PORT/metrics.",
            "# [metrics]",
            "# port = 9464",
            "",
        ]
    )


def _model(look: _Look, model: Model) -> list[str]:
    if model == "Network":
        return _network(look)
    lines = [f"type = {_quoted(model)}", f"names = {_list(look.numbers)}"]
    if model == "GaussianMixture":
        lines += ["num_components = 3", '# covariance = "diagonal"  # or "full"']
    return lines


def _network(look: _Look) -> list[str]:
    """Categories by themselves; numbers depend on the first of them."""
    lines = ['type = "Network"']
    for name, values in look.categories.items():
        lines += _variable(
            "categorical", f"name = {_quoted(name)}", f"categories = {_list(values)}"
        )
    for name in look.flags:
        lines += _variable("bernoulli", f"name = {_quoted(name)}")
    if look.numbers:
        parents = [*look.categories, *look.flags][:1]
        lines += _variable(
            "normal", f"names = {_list(look.numbers)}", f"parents = {_list(parents)}"
        )
    return lines


def _variable(kind: str, *lines: str) -> list[str]:
    return ["", "[[model.variables]]", f"kind = {_quoted(kind)}", *lines]


def _left_out(look: _Look, model: Model) -> list[str]:
    """What the model does not take, in comments."""
    lines = []
    if model != "Network" and (look.categories or look.flags):
        names = _list([*look.categories, *look.flags])
        lines += [f"# Not in it: {names}, columns of few values. A network takes them, too:", "#"]
        lines += [f"# {line}".rstrip() for line in ["[model]", *_network(look)]]
    lines += [f"# Not in it: {_quoted(name)}, since {why}." for name, why in look.others.items()]
    return lines


def _batches(look: _Look) -> list[str]:
    by = '# by = "site"             # or: a batch ends where the value of a column changes'
    rows = [
        f"rows = {_rows_to_a_batch(look.num_rows / look.share)}",
        '# every = "1d"            # instead: a batch for each period of the column time',
        by,
        '# time = "time"           # the column of times; they must not go back',
    ]
    late_example = '# lateness = "10m"        # with every: how long to wait for rows of a period'
    if look.time is None:
        return [*rows, late_example]
    span = float(look.moments.max() - look.moments.min()) / look.share
    late = float((np.maximum.accumulate(look.moments) - look.moments).max())
    if span <= 0.0 or late > 0.1 * span:
        why = "is the same in all rows" if span <= 0.0 else "is not in order"
        return [*rows, late_example, f"# {_quoted(look.time)} looks like the time, but {why}."]
    every = min(_PERIODS, key=lambda name: abs(math.log(span / _PERIODS[name] / _WANTED)))
    lines = [
        f"every = {_quoted(every)}",
        f"time = {_quoted(look.time)}",
        "# rows = 1000             # instead of every: so many rows to a batch",
        by,
    ]
    if late:
        seen = f'lateness = "{math.ceil(late)}s"'
        return [*lines, f"{seen:<25} # how long to wait: rows were up to so late"]
    return [*lines, late_example]


def _rows_to_a_batch(total: float) -> int:
    """About twenty batches of so many rows; at least 10 and at most 1,000 to each, a round number."""
    return max(size for size in (10, 20, 50, 100, 200, 500, 1000) if size <= max(total / 20, 10))


def _list(texts: list[str]) -> str:
    return f"[{', '.join(map(_quoted, texts))}]"


def _quoted(text: str) -> str:
    """Text as TOML has it."""
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: Any) -> str:
    """Text as it may stand in a comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))
