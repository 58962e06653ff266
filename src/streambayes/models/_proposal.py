"""propose and from_frame: a model for a table, with what each of its columns is taken as."""

import dataclasses
import math
from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np

from streambayes._core.names import meant
from streambayes._core.proposed import MODELS_OF_NUMBERS, ProposedModel
from streambayes.models._column_kinds import (
    BERNOULLI,
    CATEGORICAL,
    LEFT_OUT,
    NORMAL,
    POISSON,
    TIME,
    ProposedColumn,
    column_kinds,
)
from streambayes.models._gaussian import Gaussian, MultivariateGaussian
from streambayes.models._linear_regression import LinearRegression
from streambayes.models._mixture import GaussianMixture
from streambayes.models._naive_bayes import NaiveBayes
from streambayes.models.network import AbstractNetwork, Network, names_of

__all__ = ["Proposal", "from_frame", "propose"]

_NUM_COMPONENTS = 3
_COLUMNS = 50
"""The most columns of a model that nobody has named: more take long to compile."""
_CONFIGURATIONS = 500
"""The most regressions, one for each configuration of regressors that are categories."""


@final
@dataclasses.dataclass(frozen=True)
class Proposal:
    """A model for a table; prints what each column is taken as, and why.

    Attributes:
        model: The model.
        columns: What each column is taken as, in order of the table.
    """

    model: AbstractNetwork
    columns: tuple[ProposedColumn, ...]

    @property
    def time(self) -> str | None:
        """The column that is the time, for ``sb.batches``; ``None`` if there is none."""
        return next((column.name for column in self.columns if column.kind == TIME), None)

    def __str__(self) -> str:
        head = [("column", "taken as", "why")]
        cells = [(_shown(each.name), each.kind, each.why) for each in self.columns]
        names, kinds = (max(len(row[place]) for row in head + cells) for place in (0, 1))
        return "\n".join(
            f"{name.ljust(names)}  {kind.ljust(kinds)}  {why}".rstrip()
            for name, kind, why in head + cells
        )


def from_frame(
    frame: Any, *, response: str | None = None, regressors: str | Sequence[str] | None = None
) -> AbstractNetwork:
    """The model that ``propose`` has for a table; ``print(propose(frame))`` says why it is this one.

    Args:
        frame: A pandas, polars or Arrow frame, or a mapping of columns; all rows, or enough to know it by.
        response: A column to predict, for a regression or, if it is one of categories, a classifier.
        regressors: Columns to predict it from; by default all that fit.
    """
    return propose(frame, response=response, regressors=regressors).model


def propose(
    frame: Any,
    *,
    response: str | None = None,
    regressors: str | Sequence[str] | None = None,
    model: ProposedModel | None = None,
    is_whole: bool = True,
) -> Proposal:
    """A model for a table, by the names of its columns and their cells.

    Numbers are normal, counts that vary as Poisson's do are Poisson, 0 and 1 are Bernoulli, few values are categories;
    row numbers, codes, constants, parts of a date, clock times, directions and free text are left out. With a response the model is a
    ``LinearRegression``, a network where regressors are categories, or ``NaiveBayes`` where the response is; without,
    it has all columns, independent of each other.

    Of columns of text with many values the most frequent are categories, and the others are ``"other"``: learn such
    tables with ``SchemaPolicy(unseen_category="other")``.

    Args:
        frame: A pandas, polars or Arrow frame, or a mapping of columns.
        response: A column to predict.
        regressors: Columns to predict it from; by default all that fit. Columns that are named are taken whatever they
            look like.
        model: Which model, without a response; by default ``Gaussian`` if there are numbers alone, else ``Network``.
        is_whole: Whether these are all rows; if not, columns of text have a category ``"other"`` for values that are
            not seen here.
    """
    columns = _columns_of(frame)
    wanted = names_of(regressors) if regressors is not None else ()
    _check_named(columns, response, wanted, model)
    named = {*wanted, *([] if response is None else [response])}
    found = _at_most(column_kinds(columns, named=named, is_whole=is_whole), named)
    if response is None:
        return _of_all(found, model)
    return _of_response(found, response, wanted)


def _columns_of(frame: Any) -> dict[str, np.ndarray]:
    """The columns of a table; an index of dates is one called ``index``."""
    from streambayes.learning import table

    columns = {name: np.asarray(values) for name, values in table(frame).items()}
    for name in columns:
        if not isinstance(name, str):
            message = f"names of columns must be text, got {name!r}"
            raise TypeError(message)
    if columns and not any(values.size for values in columns.values()):
        message = "the frame has no rows: a model is proposed by what is in its columns"
        raise ValueError(message)
    index = getattr(frame, "index", None)
    if getattr(getattr(index, "dtype", None), "kind", None) == "M" and "index" not in columns:
        columns = {"index": np.asarray(index), **columns}
    return columns


def _check_named(
    columns: dict[str, np.ndarray], response: str | None, wanted: tuple[str, ...], model: str | None
) -> None:
    if response is None and wanted:
        message = "regressors need a response, the column that they predict"
        raise ValueError(message)
    if response is not None and model is not None:
        message = f"a response makes a regression or a classifier, not a {model}; give one of both"
        raise ValueError(message)
    if response in wanted:
        message = f"the response {response!r} is also among the regressors"
        raise ValueError(message)
    for name in (*([] if response is None else [response]), *wanted):
        if name not in columns:
            message = f"there is no column {name!r}{meant(name, columns)}; the table has {_listed(columns)}"
            raise ValueError(message)


def _at_most(found: Iterable[ProposedColumn], named: set[str]) -> tuple[ProposedColumn, ...]:
    """The columns, without those that are too many."""
    kept, columns = 0, []
    for column in found:
        if column.kind not in (TIME, LEFT_OUT) and column.name not in named:
            kept += 1
            if kept > _COLUMNS:
                why = f"{column.why}; {_COLUMNS} columns are enough to begin with"
                columns.append(ProposedColumn(column.name, LEFT_OUT, why))
                continue
        columns.append(column)
    return tuple(columns)


def _of_all(columns: tuple[ProposedColumn, ...], model: ProposedModel | None) -> Proposal:
    """A model of all columns, or of those of numbers."""
    numbers = [each.name for each in columns if each.kind == NORMAL]
    others = [each for each in columns if each.kind in (BERNOULLI, CATEGORICAL, POISSON)]
    if not numbers and not others:
        reasons = "; ".join(f"{_shown(each.name)}: {each.why}" for each in columns)
        message = f"there is no column that a model could learn ({reasons or 'there are none'})"
        raise ValueError(message)
    if model in MODELS_OF_NUMBERS and not numbers:
        message = f"{model} needs columns of numbers, and there are none"
        raise ValueError(message)
    chosen = model or ("Network" if others else "Gaussian")
    if chosen == "Network":
        return Proposal(_network(columns), columns)
    made: dict[str, AbstractNetwork] = {"Gaussian": Gaussian(numbers)}
    if chosen == "MultivariateGaussian":
        made[chosen] = MultivariateGaussian(numbers)
    elif chosen == "GaussianMixture":
        made[chosen] = GaussianMixture(numbers, _NUM_COMPONENTS)
    return Proposal(made[chosen], _without(columns, numbers, f"no column of a {chosen}"))


def _of_response(
    columns: tuple[ProposedColumn, ...], response: str, wanted: tuple[str, ...]
) -> Proposal:
    """A regression or a classifier."""
    by_name = {each.name: each for each in columns}
    for name in (response, *wanted):
        if by_name[name].kind in (TIME, LEFT_OUT):
            message = f"column {name!r} cannot be in a model: {by_name[name].why}"
            raise ValueError(message)
    of_numbers, is_class = (NORMAL, POISSON), by_name[response].kind in (BERNOULLI, CATEGORICAL)
    chosen = [by_name[name] for name in wanted]
    if not wanted:
        others = [each for each in columns if each.name != response]
        chosen = [each for each in others if each.kind not in (TIME, LEFT_OUT)]
        if not is_class:
            chosen = [each for each in chosen if each.kind in of_numbers] or chosen
    if not chosen:
        message = f"there is no column to predict {response!r} from; name some as regressors"
        raise ValueError(message)
    model = _classifier(by_name[response], chosen) if is_class else _regression(response, chosen)
    used = [response, *(each.name for each in chosen)]
    said = _without(columns, used, "not among the regressors")
    return Proposal(model, said)


def _classifier(label: ProposedColumn, others: list[ProposedColumn]) -> NaiveBayes:
    return NaiveBayes(
        label.name,
        label.categories or 2,
        normal=[each.name for each in others if each.kind == NORMAL],
        categorical={
            each.name: each.categories or 2
            for each in others
            if each.kind in (BERNOULLI, CATEGORICAL)
        },
        poisson=[each.name for each in others if each.kind == POISSON],
    )


def _regression(response: str, regressors: list[ProposedColumn]) -> AbstractNetwork:
    """One linear regression, or one for each configuration of the regressors that are categories."""
    numbers = [each.name for each in regressors if each.kind in (NORMAL, POISSON)]
    discrete = [each for each in regressors if each.kind in (BERNOULLI, CATEGORICAL)]
    if not discrete:
        return LinearRegression(response, numbers)
    num_configurations = math.prod(len(each.categories) or 2 for each in discrete)
    if num_configurations > _CONFIGURATIONS:
        message = (
            f"{_listed([each.name for each in discrete])} make {num_configurations:,} regressions, one for each "
            "combination of categories; name fewer regressors"
        )
        raise ValueError(message)
    net = Network()
    _declare_discrete(net, discrete)
    if numbers:
        net.normal(numbers)
    net.normal(response, parents=[*(each.name for each in discrete), *numbers])
    return net


def _network(columns: Iterable[ProposedColumn]) -> Network:
    """All columns, independent of each other."""
    net = Network()
    kinds: dict[str, list[str]] = {NORMAL: [], POISSON: []}
    for each in columns:
        if each.kind in kinds:
            kinds[each.kind].append(each.name)
    _declare_discrete(net, columns)
    if kinds[NORMAL]:
        net.normal(kinds[NORMAL])
    if kinds[POISSON]:
        net.poisson(kinds[POISSON])
    return net


def _declare_discrete(net: Network, columns: Iterable[ProposedColumn]) -> None:
    for each in columns:
        if each.kind == CATEGORICAL:
            net.categorical(each.name, each.categories)
        elif each.kind == BERNOULLI:
            net.bernoulli(each.name)


def _without(
    columns: Iterable[ProposedColumn], used: Sequence[str], why: str
) -> tuple[ProposedColumn, ...]:
    """The columns, where those that are not used are left out."""
    return tuple(
        each
        if each.kind in (TIME, LEFT_OUT) or each.name in used
        else ProposedColumn(each.name, LEFT_OUT, f"{each.why}; {why}")
        for each in columns
    )


def _listed(names: Iterable[str]) -> str:
    return ", ".join(map(repr, names))


def _shown(name: str) -> str:
    """A name as it may stand in a line."""
    return "".join(letter if letter.isprintable() else "?" for letter in name) or "(no name)"
