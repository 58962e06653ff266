"""What a user declares: the variables of one row, each with its parents."""

import abc
from collections.abc import Mapping, Sequence
from typing import ClassVar, Literal, final

from streambayes._core.column import BINARY, CATEGORY, CONTINUOUS, COUNT, LOG, POSITIVE, Column
from streambayes._core.pytree import definition

__all__ = [
    "AbstractVariable",
    "BernoulliVariable",
    "CategoricalVariable",
    "Coefficients",
    "ExponentialVariable",
    "NormalVariable",
    "PoissonVariable",
    "Transform",
    "Transforms",
    "VectorVariable",
    "transforms_of",
]

Coefficients = Literal["joint", "independent", "conjugate"]
Transforms = tuple[tuple[str, str], ...]
"""Columns with what is taken of their values."""
Transform = str | Mapping[str, str] | Transforms
"""The same as users give it: one for all columns, or by column."""


def transforms_of(given: Transform, names: Sequence[str], model: str) -> Transforms:
    """What is taken of which columns, in their order; ``ValueError`` for other columns or transforms.

    Args:
        given: By the user.
        names: The columns that may have one.
        model: What to call the model in errors.
    """
    if not isinstance(given, str | Mapping | tuple):
        message = f"{model}: transform must be {LOG!r} or a mapping of columns to it, got {given!r}"
        raise TypeError(message)
    by_name = dict.fromkeys(names, given) if isinstance(given, str) else dict(given)
    for name, transform in by_name.items():
        if name not in names:
            known = ", ".join(map(repr, names)) or "none"
            message = f"{model}: transform of {name!r}: normal columns are {known}"
            raise ValueError(message)
        if transform != LOG:
            message = f"{model}: transform of {name!r} must be {LOG!r}, got {transform!r}"
            raise ValueError(message)
    return tuple((name, by_name[name]) for name in names if name in by_name)


class AbstractVariable(abc.ABC):
    """One variable of a row, or several of one kind with the same parents.

    Attributes:
        names: What the variables and their columns are called.
        is_grouped: Whether they were declared as a list: their blocks then have a last axis over it.
        parents: Names of variables.
        latent: Whether no column holds them.
        transform: What is taken of the values of their columns.
    """

    distribution: ClassVar[str]
    """What its conditional distribution is called in a picture."""
    names: tuple[str, ...]
    is_grouped: bool
    parents: tuple[str, ...]
    latent: bool
    transform: Transforms = ()

    @property
    @abc.abstractmethod
    def kind(self) -> str:
        """The kind of its columns."""

    @property
    @final
    def entry(self) -> str:
        """What its blocks are called."""
        return ", ".join(self.names)

    @property
    def categories(self) -> tuple[str | int, ...]:
        """Its values, where they are few."""
        return ()

    @property
    @final
    def columns(self) -> tuple[Column, ...]:
        """The columns that hold it."""
        if self.latent:
            return ()
        shown = self.categories if self.kind == CATEGORY else ()
        taken = dict(self.transform)
        return tuple(Column(name, self.kind, shown, taken.get(name, "")) for name in self.names)


class AbstractDiscrete(AbstractVariable):
    """A variable with few values: it can be the parent of any other."""

    is_grouped: bool = False


@final
@definition
class CategoricalVariable(AbstractDiscrete):
    """One of several categories, with a probability table for each configuration of its parents."""

    distribution: ClassVar[str] = "categorical"
    names: tuple[str, ...]
    values: tuple[str | int, ...]
    parents: tuple[str, ...] = ()
    latent: bool = False

    @property
    def kind(self) -> str:
        return CATEGORY

    @property
    def categories(self) -> tuple[str | int, ...]:
        return self.values


@final
@definition
class BernoulliVariable(AbstractDiscrete):
    """0 or 1, with a probability for each configuration of its parents."""

    distribution: ClassVar[str] = "Bernoulli"
    names: tuple[str, ...]
    parents: tuple[str, ...] = ()
    latent: bool = False

    @property
    def kind(self) -> str:
        return BINARY

    @property
    def categories(self) -> tuple[str | int, ...]:
        return (0, 1)


@final
@definition
class NormalVariable(AbstractVariable):
    """Normal; linear in its continuous parents, one set of parameters per configuration of the others."""

    distribution: ClassVar[str] = "normal"
    names: tuple[str, ...]
    is_grouped: bool = False
    parents: tuple[str, ...] = ()
    latent: bool = False
    coefficients: Coefficients = "joint"
    transform: Transforms = ()

    @property
    def kind(self) -> str:
        return CONTINUOUS


@final
@definition
class VectorVariable(AbstractVariable):
    """Several columns that are jointly normal with a full covariance, given discrete parents; a leaf."""

    distribution: ClassVar[str] = "multivariate normal"
    names: tuple[str, ...]
    parents: tuple[str, ...] = ()
    is_grouped: bool = True
    latent: bool = False
    transform: Transforms = ()

    @property
    def kind(self) -> str:
        return CONTINUOUS


@final
@definition
class PoissonVariable(AbstractVariable):
    """Counts with a rate for each configuration of discrete parents; leaves."""

    distribution: ClassVar[str] = "Poisson"
    names: tuple[str, ...]
    is_grouped: bool = False
    parents: tuple[str, ...] = ()
    latent: bool = False

    @property
    def kind(self) -> str:
        return COUNT


@final
@definition
class ExponentialVariable(AbstractVariable):
    """Waiting times with a rate for each configuration of discrete parents; leaves."""

    distribution: ClassVar[str] = "exponential"
    names: tuple[str, ...]
    is_grouped: bool = False
    parents: tuple[str, ...] = ()
    latent: bool = False

    @property
    def kind(self) -> str:
        return POSITIVE
