"""Structure: the checked graph of a network, and what follows from it alone."""

import functools
import math
from collections.abc import Mapping
from typing import NoReturn, final

import numpy as np

from streambayes._core.column import Column
from streambayes.models.network._variables import (
    AbstractDiscrete,
    AbstractVariable,
    NormalVariable,
)

__all__ = ["MAX_BLOCKS", "Structure"]

MAX_BLOCKS = 100_000


@final
class Structure:
    """A graph without cycles in which every parent fits its child; ``ValueError`` if it is not.

    Attributes:
        variables: In an order in which parents come before their children.
        owner: The variable that a name belongs to.
    """

    def __init__(self, declared: tuple[AbstractVariable, ...]) -> None:
        self.owner: dict[str, AbstractVariable] = {}
        for variable in declared:
            for name in variable.names:
                if name in self.owner:
                    _refuse(f"{name!r} is declared twice; names must be distinct")
                self.owner[name] = variable
        if not declared:
            _refuse("it has no variables; declare some, for example net.normal('x')")
        for variable in declared:
            _check_parents(variable, self.owner)
            self._check_size(variable)
        self.variables = _in_order(declared, self.owner)
        self.columns: tuple[Column, ...] = tuple(
            column for variable in declared for column in variable.columns
        )
        for variable in self.variables:
            if variable.latent and not self._is_seen(variable):
                _refuse(
                    f"latent {variable.entry!r} has no observed descendant, so that nothing can be "
                    "learned about it; give it a child with a column"
                )

    @functools.cached_property
    def children(self) -> Mapping[str, tuple[AbstractVariable, ...]]:
        """The variables that have a name among their parents."""
        return {name: tuple(v for v in self.variables if name in v.parents) for name in self.owner}

    @functools.cached_property
    def latents(self) -> tuple[str, ...]:
        """Names of latent variables, parents first."""
        return tuple(n for v in self.variables if v.latent for n in v.names)

    @functools.cached_property
    def interiors(self) -> tuple[str, ...]:
        """Names of observed variables with children: where they are missing, a row hides them."""
        return tuple(n for v in self.variables if not v.latent for n in v.names if self.children[n])

    def is_discrete(self, name: str) -> bool:
        """Whether a variable has few values."""
        return isinstance(self.owner[name], AbstractDiscrete)

    def discrete_parents(self, variable: AbstractVariable) -> tuple[str, ...]:
        """Parents whose values select a set of parameters."""
        return tuple(name for name in variable.parents if self.is_discrete(name))

    def continuous_parents(self, variable: AbstractVariable) -> tuple[str, ...]:
        """Parents in which the mean is linear."""
        return tuple(name for name in variable.parents if not self.is_discrete(name))

    def num_values(self, name: str) -> int:
        """How many values a discrete variable has."""
        return len(self.owner[name].categories)

    def conditions(self, variable: AbstractVariable) -> np.ndarray:
        """Configurations of the discrete parents as text, such as `` | z=2, day=Mon``."""
        parents = self.discrete_parents(variable)
        shape = tuple(self.num_values(name) for name in parents)
        texts = np.empty(shape, dtype=object)
        for place in np.ndindex(shape):
            parts = [
                f"{name}={self.owner[name].categories[value]}"
                for name, value in zip(parents, place, strict=True)
            ]
            texts[place] = " | " + ", ".join(parts) if parts else ""
        return texts

    def _check_size(self, variable: AbstractVariable) -> None:
        sizes = [self.num_values(name) for name in self.discrete_parents(variable)]
        num_blocks = len(variable.names) * math.prod(sizes)
        if num_blocks > MAX_BLOCKS:
            _refuse(
                f"{variable.entry!r} would have {num_blocks:,} blocks, one for each combination of "
                f"its discrete parents; at most {MAX_BLOCKS:,} are possible, so give it fewer"
            )

    def _is_seen(self, variable: AbstractVariable) -> bool:
        below = [child for name in variable.names for child in self.children[name]]
        return any(not child.latent or self._is_seen(child) for child in below)


def _check_parents(variable: AbstractVariable, owner: Mapping[str, AbstractVariable]) -> None:
    if len(set(variable.parents)) < len(variable.parents):
        _refuse(f"{variable.entry!r} names a parent twice: {', '.join(variable.parents)}")
    linear = any(
        name in owner and not isinstance(owner[name], AbstractDiscrete) for name in variable.parents
    )
    if isinstance(variable, NormalVariable) and variable.coefficients != "joint" and not linear:
        _refuse(
            f"{variable.entry!r} has no normal parent, so that coefficients={variable.coefficients!r} "
            "means nothing; leave it out"
        )
    for name in variable.parents:
        if name not in owner:
            known = ", ".join(repr(other) for other in owner)
            _refuse(f"{variable.entry!r} has an unknown parent {name!r}; declared are {known}")
        parent = owner[name]
        if isinstance(parent, AbstractDiscrete):
            continue
        if not isinstance(parent, NormalVariable):
            _refuse(
                f"{variable.entry!r} cannot have the {parent.distribution} variable {name!r} as a "
                "parent; only categorical, Bernoulli and normal variables have children"
            )
        if not isinstance(variable, NormalVariable):
            _refuse(
                f"{variable.entry!r} is {variable.distribution} and cannot have the continuous parent "
                f"{name!r}; only normal variables can"
            )


def _in_order(
    declared: tuple[AbstractVariable, ...], owner: Mapping[str, AbstractVariable]
) -> tuple[AbstractVariable, ...]:
    """Parents before children, otherwise as declared."""
    done: list[AbstractVariable] = []
    path: list[AbstractVariable] = []

    def visit(variable: AbstractVariable) -> None:
        if variable in done:
            return
        if variable in path:
            circle = [*path[path.index(variable) :], variable]
            _refuse("its arrows form a cycle: " + " <- ".join(v.entry for v in circle))
        path.append(variable)
        for name in variable.parents:
            visit(owner[name])
        path.pop()
        done.append(variable)

    for variable in declared:
        visit(variable)
    return tuple(done)


def _refuse(problem: str) -> NoReturn:
    message = f"Network: {problem}"
    raise ValueError(message)
