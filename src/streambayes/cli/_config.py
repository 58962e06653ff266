"""The configuration of ``streambayes run``: read from TOML, checked as a whole before anything starts."""

import contextlib
import dataclasses
import glob
import importlib.util
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, final

from streambayes import forgetting, models, sources
from streambayes._core.column import CONTINUOUS
from streambayes._core.names import meant
from streambayes.checkpoint import Checkpoints
from streambayes.cli._failure import ConfigError
from streambayes.cli._keys import (
    COLUMN,
    MODELS,
    POLICIES,
    SECTIONS,
    SOURCES,
    VARIABLES,
    Keys,
    shown,
)
from streambayes.drift import DriftMonitor
from streambayes.families import TruncatedExponential
from streambayes.forgetting import AbstractForgetting
from streambayes.learning import SchemaPolicy, StreamLearner
from streambayes.models import AbstractModel, Network
from streambayes.sources import Source, SourceBatches

__all__ = ["Config", "read_config"]


@final
@dataclasses.dataclass(frozen=True)
class Config:
    """All that a run needs, built and checked.

    Attributes:
        path: The file, as it was given.
        learner: The model with its policy.
        source: Where rows come from.
        cut: How rows are cut into batches: the arguments of ``sb.batches``.
        stream: The batches.
        split: What is held out and scored, and the seed: arguments of ``sb.run``.
        schema: What to do when columns change.
        folder: Where records and the report go.
        checkpoints: Where states go.
        place: The same in words.
        report: Whether to write a report at the end.
        drift: Settings of ``DriftMonitor``.
        port: Of the metrics; ``None`` for none.
    """

    path: Path
    learner: StreamLearner
    source: Source
    cut: Mapping[str, Any]
    stream: SourceBatches
    split: Mapping[str, Any]
    schema: SchemaPolicy
    folder: Path
    checkpoints: Checkpoints
    place: str
    report: bool
    drift: Mapping[str, Any]
    port: int | None

    @property
    def has_times(self) -> bool:
        """Whether batches have times."""
        return self.cut.get("time") is not None


_NEEDED = ("model", "source", "batches", "output")
_NAMES = re.compile(r"^(batches|DriftMonitor|SchemaPolicy|Folder|RedisStream|KafkaTopic): ")
"""Parts of the library, which say their names first."""
_RUN = ("seed", "prequential")
"""Keys of ``[learner]`` that ``sb.run`` takes; the others are the learner's."""


def read_config(path: Path, text: str | None = None) -> Config:
    """Read a file and build all that it describes; ``ConfigError`` if that cannot be done.

    Args:
        path: The file. Paths in it are relative to its folder.
        text: What the file holds, if it is not to be read.
    """
    try:
        return _Reader(path, _parsed(path, text)).config()
    except _Wrong as error:
        message = f"{path}: {error}"
        raise ConfigError(message) from None


class _Wrong(Exception):  # noqa: N818  # never seen outside
    """What is wrong, without the name of the file."""


def _parsed(path: Path, text: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(path.read_bytes().decode("utf-8-sig") if text is None else text)
    except tomllib.TOMLDecodeError as error:
        message = f"not valid TOML: {str(error)[:1].lower()}{str(error)[1:]}"
        raise _Wrong(message) from None
    except UnicodeDecodeError as error:
        message = f"not text in UTF-8: byte {error.start} does not fit"
        raise _Wrong(message) from None
    except (
        ValueError,
        RecursionError,
    ) as error:  # a number of thousands of digits, endless nesting
        message = f"not valid TOML: {error}"
        raise _Wrong(message) from None
    except OSError as error:
        message = f"cannot be read ({(error.strerror or str(error)).lower()})"
        raise _Wrong(message) from None


@final
class _Reader:
    """Builds a configuration section by section."""

    def __init__(self, path: Path, tables: dict[str, Any]) -> None:
        self._path = path
        self._base = path.resolve().parent
        for name, table in tables.items():
            if name not in SECTIONS:
                sections = ", ".join(f"[{section}]" for section in SECTIONS)
                message = (
                    f"there is no section [{name}]{meant(name, SECTIONS)}; sections are {sections}"
                )
                raise _Wrong(message)
            if not isinstance(table, dict):
                message = f"[{name}] must be a section, got {shown(table)}"
                raise _Wrong(message)
        for name in _NEEDED:
            if name not in tables:
                message = f"section [{name}] is missing"
                raise _Wrong(message)
        self._tables: dict[str, dict[str, Any]] = {name: tables.get(name, {}) for name in SECTIONS}
        for name, keys in SECTIONS.items():
            if keys is not None and (name in tables or not keys.needed):
                _check_keys(f"[{name}]", self._tables[name], keys)

    def config(self) -> Config:
        """All of it."""
        model = self._model()
        policy = self._policy()
        source = self._source()
        cut = self._cut(policy)
        split = self._split()
        learner = self._learner(model, policy)
        stream = self._stream(source, cut)
        self._check_columns(model, source, stream, cut, split)
        with _section("schema"):
            schema = SchemaPolicy(**self._tables["schema"])
        with _section("drift"):
            DriftMonitor(**self._tables["drift"]).check_names(model)
        folder, place, checkpoints = self._output()
        return Config(
            path=self._path,
            learner=learner,
            source=source,
            cut=cut,
            stream=stream,
            split=split,
            schema=schema,
            folder=folder,
            checkpoints=checkpoints,
            place=place,
            report=self._tables["output"].get("report", _is_there("plotly")),
            drift=dict(self._tables["drift"]),
            port=self._port(),
        )

    def _model(self) -> AbstractModel[Any, Any]:
        name, given = _chosen("[model]", self._tables["model"], "type", MODELS)
        with _section("model"):
            model = _network(given["variables"]) if name == "Network" else _ready(name, given)
            model = self._transformed(model)
            _ = model.columns, model.prior(), model.labels()  # a network is checked when it is used
        return model

    def _transformed(self, model: AbstractModel[Any, Any]) -> AbstractModel[Any, Any]:
        """The model with what ``[columns.NAME]`` says of its columns."""
        taken = {}
        normal = [column.name for column in model.columns if column.kind == CONTINUOUS]
        for name, table in self._tables["columns"].items():
            where = f"[columns.{name}]"
            if not isinstance(table, dict):
                message = f"{where} must be a section, got {shown(table)}"
                raise _Wrong(message)
            _check_keys(where, table, COLUMN)
            if name not in normal:
                known = ", ".join(map(repr, normal)) or "none"
                message = f"{where} normal columns of the model are {known}{meant(name, normal)}"
                raise _Wrong(message)
            if "transform" in table:
                taken[name] = table["transform"]
        if not isinstance(model, Network):
            given: AbstractModel[Any, Any] = _with_transform(model, taken)
            return given
        return Network(
            tuple(
                _with_transform(
                    variable, {name: taken[name] for name in variable.names if name in taken}
                )
                for variable in model.declared
            )
        )

    def _policy(self) -> AbstractForgetting[Any, Any]:
        table = {"policy": "Auto", **self._tables["forgetting"]}
        name, given = _chosen("[forgetting]", table, "policy", POLICIES)
        with _section("forgetting"):
            if "gamma" in given:
                given["rho_prior"] = TruncatedExponential.from_gamma(float(given.pop("gamma")))
            policy: AbstractForgetting[Any, Any] = getattr(forgetting, name)(**given)
        return policy

    def _source(self) -> Source:
        kind, given = _chosen("[source]", self._tables["source"], "type", SOURCES)
        with _section("source"):
            if kind == "files":
                files = given.pop("files")
                names = files if isinstance(files, list) else [files]
                return sources.Files([self._located(name) for name in names], **given)
            if kind == "folder":
                return sources.Folder(self._base / given.pop("folder"), **given)
            if kind == "redis":
                return sources.RedisStream(given.pop("stream"), **given)
            return sources.KafkaTopic(given.pop("topic"), **given)

    def _located(self, name: str) -> Path:
        """A file or a pattern; letters of the folder's own path are no pattern."""
        path = self._base / name
        is_plain = Path(name).is_absolute() or path.exists()
        return path if is_plain else Path(glob.escape(str(self._base))) / name

    def _cut(self, policy: AbstractForgetting[Any, Any]) -> dict[str, Any]:
        cut = dict(self._tables["batches"])
        if getattr(policy, "clock", None) == "time" and "time" not in cut:
            message = '[forgetting] clock = "time" needs the column of times, [batches] time'
            raise _Wrong(message)
        return cut

    def _split(self) -> dict[str, Any]:
        test, learner = self._tables["test"], self._tables["learner"]
        fraction = test.get("fraction", 0.0)
        if not 0.0 <= fraction < 1.0:
            message = f"[test] fraction must lie in [0, 1), got {fraction}"
            raise _Wrong(message)
        if "held_out" in test and (fraction or "group" in test):
            message = "[test] held_out and fraction exclude each other: give one of them"
            raise _Wrong(message)
        if "group" in test and not fraction:
            message = "[test] group needs a fraction to hold out, [test] fraction"
            raise _Wrong(message)
        return {
            "test_fraction": float(fraction),
            "group": test.get("group"),
            "held_out": test.get("held_out"),
            **{name: learner[name] for name in _RUN if name in learner},
        }

    def _learner(
        self, model: AbstractModel[Any, Any], policy: AbstractForgetting[Any, Any]
    ) -> StreamLearner:
        table = self._tables["learner"]
        with _section("learner"):
            return StreamLearner(
                model, policy, **{name: value for name, value in table.items() if name not in _RUN}
            )

    def _stream(self, source: Source, cut: Mapping[str, Any]) -> SourceBatches:
        with _section("batches"):
            stream = sources.batches(source, **cut)
        assert isinstance(stream, SourceBatches)
        return stream

    def _check_columns(
        self,
        model: AbstractModel[Any, Any],
        source: Source,
        stream: SourceBatches,
        cut: Mapping[str, Any],
        split: Mapping[str, Any],
    ) -> None:
        """Columns are there, where that can be known before rows are read."""
        wanted = [("[model]", column.name) for column in model.columns]
        wanted += [(f"[test] {key}:", split[key]) for key in ("group", "held_out") if split[key]]
        made = stream.derived.names
        if "columns" in cut:
            held = [*cut["columns"], *(cut[key] for key in ("time", "by") if key in cut), *made]
            _check_held(wanted, held, "[batches] columns")
        if isinstance(source, sources.Files):
            with _section("source"):
                names = source.names()
            if names:  # a first file without any says nothing
                wanted += [("[source] types:", name) for name in source.format.types]
                _check_held(wanted, [*names, *made], source.paths[0].name)

    def _output(self) -> tuple[Path, str, Checkpoints]:
        table = self._tables["output"]
        folder = self._base / table["folder"]
        place = table.get("checkpoints")
        _check_writable(folder)
        _need("safetensors", "checkpoints", "save")
        if table.get("report"):
            _need("plotly", "[output] report = true", "report")
        where = str(folder / "checkpoints") if place is None else place
        if "://" not in where:
            where = str(self._base / where)
            _check_writable(Path(where))
        with _section("output"):
            kept = {name: table[name] for name in ("keep", "every") if name in table}
            return folder, where, Checkpoints(where, **kept)

    def _port(self) -> int | None:
        port: int | None = self._tables["metrics"].get("port")
        if port is not None:
            _need("prometheus_client", "[metrics]", "metrics")
        return port


@contextlib.contextmanager
def _section(name: str) -> Iterator[None]:
    """What a part of the library says is wrong is said of a section."""
    try:
        yield
    except (ValueError, TypeError, ArithmeticError, ImportError) as error:
        said = _NAMES.sub("", str(error))
    except MemoryError:
        said = "it is too large for this machine's memory"
    except OSError as error:
        said = _NAMES.sub("", str(error))
        if error.strerror is not None:
            said = f"{error.filename} cannot be read ({error.strerror.lower()})"
    else:
        return
    message = f"[{name}] {' '.join(said.split())}"
    raise _Wrong(message)


def _chosen(
    where: str, table: Mapping[str, Any], key: str, choices: Mapping[str, Keys]
) -> tuple[str, dict[str, Any]]:
    """What is chosen by a key, and the other keys, which belong to it."""
    name = table.get(key)
    if name is None:
        message = f"{where} {key} is missing; it is one of {', '.join(map(shown, choices))}"
        raise _Wrong(message)
    if not isinstance(name, str) or name not in choices:
        alike = meant(name, choices) if isinstance(name, str) else ""
        message = (
            f"{where} {key} must be one of {', '.join(map(shown, choices))}, got {shown(name)}"
        )
        raise _Wrong(message + alike)
    given = {other: value for other, value in table.items() if other != key}
    _check_keys(where, given, choices[name], besides=(key,), of=f" of {name}")
    return name, given


def _check_keys(
    where: str,
    table: Mapping[str, Any],
    keys: Keys,
    *,
    besides: tuple[str, ...] = (),
    of: str = "",
) -> None:
    known = [*besides, *keys.kinds]
    for name, value in table.items():
        if name not in keys.kinds:
            message = (
                f"{where} has no key {name!r}{meant(name, known)}; keys{of} are {', '.join(known)}"
            )
            raise _Wrong(message)
        kind = keys.kinds[name]
        if not kind.fits(value):
            message = f"{where} {name} must be {kind.words}, got {shown(value)}"
            raise _Wrong(message)
    for name in keys.needed:
        if name not in table:
            message = f"{where} {name} is missing; it is {keys.kinds[name].words}"
            raise _Wrong(message)


def _ready(name: str, given: Mapping[str, Any]) -> AbstractModel[Any, Any]:
    model: AbstractModel[Any, Any] = getattr(models, name)(**given)
    return model


def _with_transform(declared: Any, taken: Mapping[str, str]) -> Any:
    """A model or a variable with transforms of its columns."""
    return dataclasses.replace(declared, transform=tuple(taken.items())) if taken else declared


def _network(variables: Iterable[Mapping[str, Any]]) -> Network:
    net = Network()
    for number, table in enumerate(variables, start=1):
        where = f"[[model.variables]] number {number}:"
        renamed = dict(table)
        if table.get("kind") in VARIABLES and "names" in VARIABLES[table["kind"]].kinds:
            if "name" in table and "names" in table:
                message = f"{where} give one of name and names"
                raise _Wrong(message)
            if "name" in table:
                renamed["names"] = renamed.pop("name")
        kind, given = _chosen(where, renamed, "kind", VARIABLES)
        names = given.pop("names" if "names" in given else "name")
        try:
            getattr(net, kind)(names, **given)
        except (ValueError, TypeError) as error:
            message = f"{where} {error}"
            raise _Wrong(message) from None
    return net


def _check_held(wanted: Iterable[tuple[str, str]], held: list[str], place: str) -> None:
    for where, name in wanted:
        if name not in held:
            shown = ", ".join(map(repr, held))
            message = (
                f"{where} column {name!r} is not in {place}, which has {shown}{meant(name, held)}"
            )
            raise _Wrong(message)


def _check_writable(folder: Path) -> None:
    """A folder can be made, or written into, as far as can be told without doing so."""
    try:
        there = next(path for path in (folder, *folder.parents) if path.exists())
        is_folder = there.is_dir()
    except (OSError, ValueError) as error:  # too long a name, a letter that no system has
        message = f"[output] {str(folder)!r} cannot be the name of a folder ({error})"
        raise _Wrong(message) from None
    if not is_folder:
        message = f"[output] {folder} cannot be written into: {there} is a file"
        raise _Wrong(message)
    if "\0" in str(folder) or not os.access(there, os.W_OK | os.X_OK):
        message = f"[output] {str(folder)!r} cannot be written into"
        raise _Wrong(message)


def _is_there(package: str) -> bool:
    return importlib.util.find_spec(package) is not None


def _need(package: str, what: str, extra: str) -> None:
    if not _is_there(package):
        message = f"{what}: this needs the extra: pip install 'streambayes[{extra}]'"
        raise _Wrong(message)
