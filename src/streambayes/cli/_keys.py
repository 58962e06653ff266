"""The keys of a configuration: what there is, what each must be, what depends on a choice."""

import dataclasses
import json
from collections.abc import Callable, Mapping
from typing import Any, final

from streambayes._core.calendar import CALENDAR
from streambayes._core.column import LOG
from streambayes.learning import SchemaPolicy

__all__ = [
    "COLUMN",
    "MODELS",
    "POLICIES",
    "SECTIONS",
    "SOURCES",
    "VARIABLES",
    "Keys",
    "Kind",
    "shown",
]

_MOST = 10_000
"""The most values of a variable that is declared by how many it has."""
_LARGEST_SEED = 2**63 - 1
_LONGEST = 60


@final
@dataclasses.dataclass(frozen=True)
class Kind:
    """What a value must be: in words, and as a test."""

    words: str
    fits: Callable[[Any], bool]


@final
@dataclasses.dataclass(frozen=True)
class Keys:
    """The keys of a table, and those of them that must be there."""

    kinds: Mapping[str, Kind]
    needed: tuple[str, ...] = ()


def shown(value: Any) -> str:
    """A value as TOML has it, cut where it is long."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):  # dates, and numbers of thousands of digits
        text = f"a {type(value).__name__}" if isinstance(value, int) else str(value)
    return text if len(text) <= _LONGEST else f"{text[:_LONGEST]}..."


def _is_whole(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def _is_text(value: Any) -> bool:
    return isinstance(value, str)


def _is_list_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, list) and bool(value) and all(map(fits, value))


def _is_table_of(fits: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: isinstance(value, dict) and all(map(fits, value.values()))


def _any_of(*tests: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(fits(value) for fits in tests)


def _one_of(*choices: str) -> Kind:
    return Kind(f"one of {', '.join(map(shown, choices))}", lambda value: value in choices)


def _whole(least: int, most: int) -> Kind:
    words = f"a whole number between {least} and {most}"
    return Kind(words, lambda value: _is_whole(value) and least <= value <= most)


_TEXT = Kind("text", lambda value: _is_text(value) and bool(value))
_TEXTS = Kind('a list of texts, such as ["x", "y"]', _is_list_of(_is_text))
_NAMES = Kind('a column such as "x", or a list such as ["x", "y"]', _any_of(_is_text, _TEXTS.fits))
_PARENTS = Kind('a list of variables, such as ["z"]', lambda v: v == [] or _TEXTS.fits(v))
_WHOLE = Kind("a whole number of at least 1", lambda value: _is_whole(value) and value >= 1)
_COUNT = _whole(1, _MOST)
_NUMBER = Kind("a number", _is_number)
_SIZES = Kind(
    "a number, or a table of numbers by column such as {price = 5.0}",
    _any_of(_is_number, _is_table_of(_is_number)),
)
_PERIODS = Kind(
    "a number of batches, or a list of them", _any_of(_is_whole, _is_list_of(_is_whole))
)
_FLAG = Kind("true or false", lambda value: isinstance(value, bool))
_LENGTH = Kind('a length of time such as "1h", or a number', _any_of(_is_text, _is_number))
_CALENDAR = ", ".join(map(shown, CALENDAR))
_VALUES = Kind(
    f'a list of values such as ["a", "b"], or how many, at most {_MOST}, or one of {_CALENDAR}',
    _any_of(
        _is_list_of(_any_of(_is_text, _is_whole, _FLAG.fits)),
        _COUNT.fits,
        lambda value: _is_text(value) and value in CALENDAR,
    ),
)
_TABLE_OF_VALUES = Kind(
    'a table of values by column, such as {colour = ["red", "blue"]}', _is_table_of(_VALUES.fits)
)
_TYPES = Kind('a table such as {zip = "text", size = "number"}', _is_table_of(_is_text))
_SETTINGS = Kind(
    'a table such as {"security.protocol" = "SSL"}',
    _is_table_of(_any_of(_is_text, _is_number, _FLAG.fits)),
)
_SCALE = Kind(
    "true, false, or a table such as {x = [0.0, 1.0]} of shift and factor",
    _any_of(_FLAG.fits, _is_table_of(lambda v: _is_list_of(_is_number)(v) and len(v) == 2)),
)
_COEFFICIENTS = _one_of("joint", "independent", "conjugate")
_CSV = {"separator": _TEXT, "decimal": _one_of(".", ","), "types": _TYPES, "missing": _TEXTS}
_HIERARCHICAL = Keys({"gamma": _NUMBER, "max_rounds": _WHOLE})

MODELS: Mapping[str, Keys] = {
    "BetaBinomial": Keys({"column": _TEXT, "trials": _TEXT}, ("column",)),
    "Categorical": Keys({"column": _TEXT, "categories": _VALUES}, ("column", "categories")),
    "ConditionalMixture": Keys(
        {"names": _NAMES, "given": _TEXT, "categories": _VALUES, "num_components": _COUNT},
        ("names", "given", "categories", "num_components"),
    ),
    "Gaussian": Keys({"names": _NAMES}, ("names",)),
    "GaussianMixture": Keys(
        {"names": _NAMES, "num_components": _COUNT, "covariance": _one_of("diagonal", "full")},
        ("names", "num_components"),
    ),
    "LinearRegression": Keys(
        {"response": _TEXT, "regressors": _NAMES, "coefficients": _COEFFICIENTS},
        ("response", "regressors"),
    ),
    "MixtureNaiveBayes": Keys(
        {"label": _TEXT, "classes": _VALUES, "names": _NAMES, "num_components": _COUNT},
        ("label", "classes", "names", "num_components"),
    ),
    "MultivariateGaussian": Keys({"names": _NAMES}, ("names",)),
    "NaiveBayes": Keys(
        {
            "label": _TEXT,
            "classes": _VALUES,
            "normal": _NAMES,
            "categorical": _TABLE_OF_VALUES,
            "poisson": _NAMES,
        },
        ("label", "classes"),
    ),
    "Network": Keys(
        {"variables": Kind("tables [[model.variables]]", _is_list_of(lambda v: type(v) is dict))},
        ("variables",),
    ),
    "Poisson": Keys({"column": _TEXT}, ("column",)),
}
"""Keys of ``[model]`` by its type."""

VARIABLES: Mapping[str, Keys] = {
    "categorical": Keys(
        {"name": _TEXT, "categories": _VALUES, "parents": _PARENTS, "latent": _FLAG},
        ("name", "categories"),
    ),
    "bernoulli": Keys({"name": _TEXT, "parents": _PARENTS, "latent": _FLAG}, ("name",)),
    "normal": Keys(
        {"names": _NAMES, "parents": _PARENTS, "latent": _FLAG, "coefficients": _COEFFICIENTS},
        ("names",),
    ),
    "multivariate_normal": Keys({"names": _TEXTS, "parents": _PARENTS}, ("names",)),
    "poisson": Keys({"names": _NAMES, "parents": _PARENTS}, ("names",)),
    "exponential": Keys({"names": _NAMES, "parents": _PARENTS}, ("names",)),
}
"""Keys of ``[[model.variables]]`` by their kind."""

POLICIES: Mapping[str, Keys] = {
    "Auto": Keys({"shared": _FLAG, "clock": _one_of("rows", "time")}),
    "SVB": Keys({}),
    "HPP": _HIERARCHICAL,
    "MHPP": _HIERARCHICAL,
    "PowerPrior": Keys({"rho": _NUMBER, "kl_budget": _NUMBER}),
    "Fading": Keys({"rho": _NUMBER}, ("rho",)),
    "PVB": Keys(
        {"population_size": _NUMBER, "step_size": _NUMBER, "minibatch_size": _WHOLE},
        ("population_size", "step_size"),
    ),
    "SVI": Keys(
        {
            "num_rows": _NUMBER,
            "delay": _NUMBER,
            "decay": _NUMBER,
            "step_size": _NUMBER,
            "minibatch_size": _WHOLE,
        },
        ("num_rows",),
    ),
}
"""Keys of ``[forgetting]`` by its policy."""

SOURCES: Mapping[str, Keys] = {
    "files": Keys({"files": _NAMES, **_CSV}, ("files",)),
    "folder": Keys(
        {
            "folder": _TEXT,
            "pattern": _TEXT,
            "settle": _NUMBER,
            "poll": _NUMBER,
            "end": _TEXT,
            **_CSV,
        },
        ("folder",),
    ),
    "redis": Keys(
        {
            "stream": _TEXT,
            "url": _TEXT,
            "group": _TEXT,
            "start": _TEXT,
            "field": _TEXT,
            "follow": _FLAG,
            "types": _TYPES,
            "malformed": _one_of("error", "ignore"),
            "patience": _NUMBER,
        },
        ("stream",),
    ),
    "kafka": Keys(
        {
            "topic": _TEXT,
            "servers": _TEXT,
            "group": _TEXT,
            "start": _one_of("earliest", "latest"),
            "follow": _FLAG,
            "types": _TYPES,
            "malformed": _one_of("error", "ignore"),
            "settings": _SETTINGS,
            "patience": _NUMBER,
        },
        ("topic",),
    ),
}
"""Keys of ``[source]`` by its type."""

COLUMN = Keys({"transform": _one_of(LOG)})
"""Keys of ``[columns.NAME]``."""

SECTIONS: Mapping[str, Keys | None] = {
    "model": None,
    "forgetting": None,
    "source": None,
    "batches": Keys(
        {
            "rows": _WHOLE,
            "every": _LENGTH,
            "by": _TEXT,
            "time": Kind("text", _is_text),  # the index of a frame may have no name in a file
            "lateness": _LENGTH,
            "columns": _TEXTS,
            "difference": _TEXTS,
            "ratio": _TEXTS,
            "calendar": Kind(
                f"a list with some of {_CALENDAR}", _is_list_of(lambda value: value in CALENDAR)
            ),
        }
    ),
    "columns": None,
    "test": Keys({"fraction": _NUMBER, "group": _TEXT, "held_out": _TEXT}),
    "learner": Keys(
        {
            "seed": _whole(0, _LARGEST_SEED),
            "prequential": _FLAG,
            "scale": _SCALE,
            "num_restarts": _WHOLE,
            "tolerance": _NUMBER,
            "max_sweeps": _WHOLE,
        }
    ),
    "schema": Keys({field.name: _TEXT for field in dataclasses.fields(SchemaPolicy)}),
    "output": Keys(
        {
            "folder": _TEXT,
            "checkpoints": _TEXT,
            "every": _WHOLE,
            "keep": _WHOLE,
            "report": _FLAG,
        },
        ("folder",),
    ),
    "drift": Keys({"false_alarms": _NUMBER, "min_change": _SIZES, "seasonal": _PERIODS}),
    "metrics": Keys({"port": _whole(0, 65535)}, ("port",)),
}
"""Keys of every section; of the first three they depend on what is chosen there, of columns on their names."""
