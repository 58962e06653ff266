"""Formulas in special functions, so that those of many families are one call of each function.

The polynomials of a special function are most of a compiled program, and it has them wherever the function is called.
"""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple, Self

import numpy as np
from jax import Array

from streambayes._core.arrays import holds_jax, xp

__all__ = ["Formula", "evaluated"]


class Formula(NamedTuple):
    """What special functions are asked, and what follows from their values.

    Attributes:
        asked: Functions that work entry by entry, each with its arguments.
        answer: The result, given their values in that order.
    """

    asked: tuple[tuple[Callable[..., Array], tuple[Any, ...]], ...]
    answer: Callable[..., Any]

    @classmethod
    def known(cls, value: Any) -> Self:
        """One that asks for nothing."""
        return cls((), lambda: value)

    @classmethod
    def of(cls, function: Callable[..., Array], *arguments: Any) -> Self:
        """A special function by itself."""
        return cls(((function, arguments),), lambda value: value)

    def then(self, function: Callable[[Any], Any]) -> "Formula":
        """What follows from the result."""
        return Formula(self.asked, lambda *values: function(self.answer(*values)))

    def beside(self, other: "Formula", function: Callable[[Any, Any], Any]) -> "Formula":
        """What follows from the results of two."""
        size = len(self.asked)
        return Formula(
            self.asked + other.asked,
            lambda *values: function(self.answer(*values[:size]), other.answer(*values[size:])),
        )

    def value(self) -> Any:
        """The result."""
        return evaluated([self])[0]


def evaluated(formulas: Iterable[Formula]) -> list[Any]:
    """The results of formulas, with one call for all that is asked of a function."""
    formulas = list(formulas)
    asked = [question for formula in formulas for question in formula.asked]
    values = _answered(asked)
    results, at = [], 0
    for formula in formulas:
        size = len(formula.asked)
        results.append(formula.answer(*values[at : at + size]))
        at += size
    return results


def _answered(asked: list[tuple[Callable[..., Array], tuple[Any, ...]]]) -> list[Array]:
    """The values of special functions, in a program with one call of each function."""
    if not holds_jax([arguments for _, arguments in asked]):
        return [function(*arguments) for function, arguments in asked]
    every = [tuple(xp.broadcast_arrays(*arguments)) for _, arguments in asked]
    functions = list(dict.fromkeys(function for function, _ in asked))
    places = [
        [place for place, (other, _) in enumerate(asked) if other is function]
        for function in functions
    ]
    flat = [
        [
            xp.concatenate([each.ravel() for each in column])
            for column in zip(*(every[p] for p in some), strict=True)
        ]
        for some in places
    ]
    found = [
        _apart(function(*arguments), arguments[-1])
        for function, arguments in zip(functions, flat, strict=True)
    ]
    values: list[Any] = [None] * len(asked)
    for some, value in zip(places, found, strict=True):
        shapes = [every[place][0].shape for place in some]
        ends = np.cumsum([np.prod(shape, dtype=int) for shape in shapes])[:-1]
        for place, part, shape in zip(some, xp.split(value, ends), shapes, strict=True):
            values[place] = part.reshape(shape)
    return values


def _apart(value: Array, like: Array) -> Array:
    """A value that XLA computes once: it would repeat its polynomials in whatever uses it.

    Of a quotient of two arrays it makes a kernel of its own. The divisor is always 1, which it cannot tell.
    """
    return value / (1.0 + xp.floor(xp.fmax(xp.fmin(like, 0.75), 0.25)))
