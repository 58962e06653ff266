"""streambayes init: a configuration with comments, by a look at the data."""

import dataclasses
import importlib.util
import json
import math
import os
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any, final

import numpy as np
import typer

from streambayes._core.column import CATEGORY
from streambayes._core.proposed import ProposedModel
from streambayes.cli._config import read_config
from streambayes.cli._output import saying_errors
from streambayes.models import (
    AbstractNetwork,
    Gaussian,
    GaussianMixture,
    LinearRegression,
    MultivariateGaussian,
    NaiveBayes,
    Network,
    Proposal,
    propose,
)
from streambayes.models._column_kinds import OTHER_DATES
from streambayes.models.network._variables import (
    AbstractDiscrete,
    AbstractVariable,
    BernoulliVariable,
    CategoricalVariable,
    NormalVariable,
    PoissonVariable,
)
from streambayes.sources import Files
from streambayes.sources._times import seconds

__all__ = ["init"]

_CELLS = 10_000_000
"""Cells to look at."""
_SEPARATOR = '# separator = ","         # of CSV files'
_MOST_BATCHES = 100
_ROWS_A_BATCH = 10
"""Rows that a batch of a period has at least, on average."""
_LATE = 0.1
"""Share of the time of all rows up to which it is worth waiting for late ones."""
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
    "10y": 3650 * _DAY,
}


def init(
    data: str,
    output: Path,
    *,
    response: str | None,
    regressors: str | None,
    model: ProposedModel | None,
    separator: str | None,
) -> None:
    """Look at the data, write the configuration and say what to do with it."""
    with saying_errors(output):
        if output.exists():
            message = f"{output} is already there; give another name with --output"
            raise FileExistsError(message)
        separator = separator or _separator(data)
        look = _look(Files(data, separator=separator))
        proposal = propose(
            look.columns,
            response=response,
            regressors=None if regressors is None else _names(regressors, look.columns),
            model=model,
            is_whole=look.is_all,
        )
        text = _text(look, proposal, _relative(data, output), output, separator)
        read_config(output, text)  # what is written can be run
        with output.open("x", encoding="utf-8", newline="\n") as file:
            file.write(text)
    typer.echo(f"Written: {output}")
    typer.echo(f"Read it, then try: streambayes run {output} --dry-run")


@final
@dataclasses.dataclass(frozen=True)
class _Look:
    """Rows that were looked at.

    Attributes:
        columns: Their cells.
        num_rows: How many they are.
        share: Share of all rows that they are, as far as that can be told.
        is_all: Whether they are all rows.
    """

    columns: dict[str, np.ndarray]
    num_rows: int
    share: float
    is_all: bool


def _look(files: Files) -> _Look:
    columns, num_rows, is_all = _first_rows(files)
    share = 1.0 if is_all else _share(files, num_rows, files.num_rows())
    return _Look(columns, num_rows, share, is_all)


def _names(texts: str, columns: Iterable[str]) -> list[str]:
    """Names that are separated by commas, which a name may have itself."""
    return [texts] if texts in columns else [name.strip() for name in texts.split(",")]


def _first_rows(files: Files) -> tuple[dict[str, np.ndarray], int, bool]:
    """Columns of the first rows, how many rows, and whether these are all."""
    parts: list[dict[str, np.ndarray]] = []
    num_rows, is_all = 0, True
    for chunk in files.read(None, None):
        is_enough = num_rows * len(chunk.columns) >= _CELLS
        if is_enough or (parts and chunk.columns.keys() != parts[0].keys()):
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


def _separator(data: str) -> str | None:
    """What separates the cells, if it is not what the file's name says."""
    files = Files(data)
    dialect = files.dialect()
    return None if dialect is None or not files.written() else dialect.separator


def _relative(data: str, output: Path) -> str:
    """A path as the configuration has it, relative to its own folder."""
    if Path(data).is_absolute():
        return data
    folder = output.resolve().parent
    return Path(os.path.relpath(Path.cwd() / data, folder)).as_posix()


def _text(look: _Look, proposal: Proposal, data: str, output: Path, separator: str | None) -> str:
    named = re.match(r"[\w-]*", Path(data).name)  # the report is called like it
    folder = f"runs/{(named and named[0]) or output.stem}"
    return "\n".join(
        [
            f"# A stream for streambayes run, by a look at {_looked_at(look)}.",
            f"# Check it with: streambayes run {_comment(output.name)} --dry-run",
            "# Keys behind a # are optional and have the value that they have without them,",
            "# or an example. Paths are relative to the folder of this file.",
            "",
            "# What each column is taken as:",
            *(f"#   {_comment(line)}" for line in str(proposal).splitlines()),
            "",
            "# What the rows look like.",
            "[model]",
            *_model(proposal.model),
            *_suggestions(proposal),
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
            *_batches(look, proposal),
            '# columns = ["x", "y"]    # read these only; by default all, so that new ones are noticed',
            '# difference = ["x"]      # another column with the difference to the row before: "x change"',
            '# ratio = ["x"]           # with the ratio to the row before: "x ratio"',
            '# calendar = ["month"]    # columns of the time: month, weekday, hour',
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
            "# scale = true            # centre and scale columns by the first batch",
            "# num_restarts = 1        # starts to try on the first batch",
            "# tolerance = 1e-12       # the bound has settled when it gains no more a row",
            "# max_sweeps = 1000",
            "",
            '# When columns change under way: "error" stops, "missing" takes cells as missing,',
            '# "ignore" leaves the rows, or a new column, out; "other" takes a value that is none',
            '# of the categories as the category "other", if there is one, else as missing.',
            "[schema]",
            '# new_column = "error"    # or "ignore"',
            '# lost_column = "error"',
            '# changed_type = "error"',
            _unseen(look, proposal),
            "",
            "# What is written.",
            "[output]",
            f"folder = {_quoted(folder)}",
            _report(),
            '# checkpoints = "s3://bucket/run"  # by default in the folder',
            "# every = 1               # batches from one checkpoint to the next",
            "# keep = 3                # checkpoints that are kept",
            "",
            "# How many false alarms of a change per batch to allow.",
            "[drift]",
            "# false_alarms = 0.01",
            "# min_change = 0.5        # the smallest change that is told, or { column = number, ... }",
            "# seasonal = 12           # after how many batches a season comes back",
            "",
            "# Columns of positive, skewed numbers whose logarithms are modelled.",
            "# [columns]",
            '# price = { transform = "log" }',
            "",
            "# Numbers for Prometheus at http://127.0.0.1:PORT/metrics.",
            "# [metrics]",
            "# port = 9464",
            "",
        ]
    )


def _looked_at(look: _Look) -> str:
    return f"{'all' if look.is_all else 'the first'} {look.num_rows:,} rows"


def _model(model: AbstractNetwork) -> list[str]:
    """The keys of ``[model]``."""
    lines = [f"type = {_quoted(type(model).__name__)}"]
    if isinstance(model, Network):
        for variable in model.declared:
            lines += ["", "[[model.variables]]", *_keys(_variable(variable))]
        return lines
    if isinstance(model, Gaussian | MultivariateGaussian):
        return [*lines, *_keys({"names": model.names})]
    if isinstance(model, GaussianMixture):
        components = {"names": model.names, "num_components": model.num_components}
        return [*lines, *_keys(components), '# covariance = "diagonal"  # or "full"']
    if isinstance(model, LinearRegression):
        roles = {"response": model.response, "regressors": model.regressors}
        return [*lines, *_keys(roles), '# coefficients = "joint"  # or "independent", "conjugate"']
    assert isinstance(model, NaiveBayes)
    given: dict[str, Any] = {"label": model.label, "classes": model.classes}
    given |= {"normal": model.normal} if model.normal else {}
    given |= {"poisson": model.poisson} if model.poisson else {}
    tables = dict(model.categorical)
    heading = ["", "[model.categorical]"] if tables else []
    return [*lines, *_keys(given), *heading, *_keys(tables)]


def _variable(variable: AbstractVariable) -> dict[str, Any]:
    """The keys of one of ``[[model.variables]]``."""
    kinds = {
        CategoricalVariable: "categorical",
        BernoulliVariable: "bernoulli",
        NormalVariable: "normal",
        PoissonVariable: "poisson",
    }
    given: dict[str, Any] = {"kind": kinds[type(variable)]}
    given |= {"names": variable.names} if variable.is_grouped else {"name": variable.names[0]}
    if isinstance(variable, CategoricalVariable):
        given["categories"] = variable.categories
    if variable.parents:
        given["parents"] = variable.parents
    return given


def _suggestions(proposal: Proposal) -> list[str]:
    """What else the model could be, in comments."""
    lines = []
    variables = proposal.model.variables
    discrete = [each.names[0] for each in variables if isinstance(each, AbstractDiscrete)]
    is_flat = isinstance(proposal.model, Network) and not any(each.parents for each in variables)
    if is_flat and discrete and len(variables) > len(discrete):
        lines += [
            "# Columns are independent of each other. With a line such as",
            f"#   parents = {_list(discrete[:1])}",
            "# those of a block above have parameters of their own for each category.",
        ]
    held = {name for each in variables for name in each.names}
    skewed = [each.name for each in proposal.columns if each.skewed and each.name in held]
    if skewed:
        lines += ["", "# Skewed columns are closer to normal as logarithms:"]
    for name in skewed:
        lines += [f"# [columns.{_key(name)}]", '# transform = "log"']
    return lines


def _unseen(look: _Look, proposal: Proposal) -> str:
    """What to do with values that were not seen."""
    categories = any(column.kind == CATEGORY for column in proposal.model.columns)
    if any(each.has_others for each in proposal.columns) or (categories and not look.is_all):
        return 'unseen_category = "other"'
    return '# unseen_category = "error"'


def _report() -> str:
    if importlib.util.find_spec("plotly") is None:
        return "# report = true           # report.html in the folder at the end; needs streambayes[report]"
    return "report = true             # report.html in the folder at the end"


def _batches(look: _Look, proposal: Proposal) -> list[str]:
    """By period if there is a time, else by rows."""
    time = proposal.time
    by = '# by = "site"             # or: a batch ends where the value of a column changes'
    late_example = '# lateness = "10m"        # with every: how long to wait for rows of a period'
    if time is None:
        unread = [each.name for each in proposal.columns if each.why.startswith(OTHER_DATES)]
        return [
            *(
                f"# Rows are taken as they stand in the file, since the dates of {_comment(name)} cannot be read:"
                " write them as 2013-01-31 for batches in order of time."
                for name in unread
            ),
            f"rows = {_rows_to_a_batch(look.num_rows / look.share)}",
            '# every = "1d"            # instead: a batch for each period of the column time',
            by,
            '# time = "time"           # the column of times: dates, ISO text or numbers',
            late_example,
            *_how_to_date(proposal),
        ]
    moments = seconds(time, look.columns[time])
    is_number = look.columns[time].dtype.kind in "biuf"
    span = float(moments.max() - moments.min()) / look.share
    every = _every(moments, span, look.num_rows / look.share, is_number=is_number)
    lines = [
        f"every = {every}",
        f"time = {_quoted(time)}",
        "# rows = 1000             # instead of every: so many rows to a batch",
        by,
    ]
    late = float((np.maximum.accumulate(moments) - moments).max())
    if late > _LATE * span:
        lines += [
            late_example,
            "# Its rows are not in order of time; a run sorts those of files first.",
        ]
    elif late:
        seen = f"lateness = {late:g}" if is_number else f'lateness = "{math.ceil(late)}s"'
        lines.append(f"{seen:<25} # how long to wait: rows were up to so late")
    else:
        lines.append(late_example)
    return lines + (_how_to_date(proposal) if is_number else [])


def _every(moments: np.ndarray, span: float, num_rows: float, *, is_number: bool) -> str:
    """A period that gives as many batches as there are rows for, not shorter than from moment to moment."""
    wanted = min(max(num_rows / _ROWS_A_BATCH, 1.0), _MOST_BATCHES)
    distinct = np.unique(moments)
    is_whole = is_number and (distinct == np.floor(distinct)).all()
    shortest = 1.0 if is_whole else 0.9 * float(np.median(np.diff(distinct)))
    lengths = {_quoted(name): float(length) for name, length in _PERIODS.items()}
    if is_number:
        powers = range(math.floor(math.log10(shortest)), math.ceil(math.log10(span)) + 1)
        sizes = [digit * 10.0**power for power in powers for digit in (1, 2, 5)]
        lengths = {f"{size:g}": size for size in sizes}
    fitting = {name: length for name, length in lengths.items() if length >= shortest} or lengths
    return min(fitting, key=lambda name: abs(math.log(span / fitting[name] / wanted)))


def _how_to_date(proposal: Proposal) -> list[str]:
    """How parts of a date could be a time."""
    parts = [each.name for each in proposal.columns if "part of a date" in each.why]
    if proposal.time is not None:
        parts = [proposal.time, *parts]
    if len(parts) < 2:
        return []
    return [
        f"# {_list(parts)} are parts of a date: joined in one column of",
        "# dates such as 2013-01-31, or 2013-01-31T05:00, they could be the time.",
    ]


def _rows_to_a_batch(total: float) -> int:
    """About twenty batches of so many rows; at least 10 and at most 1,000 to each, a round number."""
    return max(size for size in (10, 20, 50, 100, 200, 500, 1000) if size <= max(total / 20, 10))


def _keys(given: Mapping[str, Any]) -> list[str]:
    """Keys with their values as TOML has them."""
    return [f"{_key(name)} = {_value(value)}" for name, value in given.items()]


def _key(name: str) -> str:
    is_bare = name.isascii() and name.replace("_", "").replace("-", "").isalnum()
    return name if is_bare else _quoted(name)


def _value(value: Any) -> str:
    return _list(value) if isinstance(value, tuple | list) else _quoted(value)


def _list(values: Iterable[str | int]) -> str:
    return f"[{', '.join(map(_quoted, values))}]"


def _quoted(value: str | int) -> str:
    """Text or a number as TOML has it."""
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


def _comment(text: Any) -> str:
    """Text as it may stand in a comment."""
    return "".join(letter if letter.isprintable() else "?" for letter in str(text))
