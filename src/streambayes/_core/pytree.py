"""Immutable values that JAX can take apart and put together, and definitions that can be saved by name."""

import dataclasses
from typing import Any, TypeVar, dataclass_transform

import jax

__all__ = [
    "definition",
    "is_definition",
    "lookup",
    "number",
    "pytree",
    "registered_name",
    "static",
]

T = TypeVar("T")
_BY_NAME: dict[str, type[Any]] = {}
_DEFINITIONS: set[type[Any]] = set()


def static(**options: Any) -> Any:
    """A field that is part of a pytree's structure: hashable, never an array."""
    return dataclasses.field(metadata={"static": True}, **options)


def number(**options: Any) -> Any:
    """A field of a definition that compiled code takes as an argument.

    Definitions that differ in such numbers alone share a program. Code may calculate with them but not
    decide by them, except whether they are ``None``.
    """
    return dataclasses.field(metadata={"number": True}, **options)


@dataclass_transform(frozen_default=True, field_specifiers=(static, dataclasses.field))
def pytree(cls: type[T]) -> type[T]:
    """A frozen dataclass of arrays that JAX rebuilds without calling ``__init__``.

    JAX puts placeholders into pytrees, so checks in a constructor must not run then. The class is
    also known by name, so that ``checkpoint`` can write and read it.
    """
    cls = dataclasses.dataclass(frozen=True, eq=False)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # a dataclass since the line above
    leaves = tuple(field.name for field in fields if not field.metadata.get("static"))
    structure = tuple(field.name for field in fields if field.metadata.get("static"))
    return _register(_taken_apart(cls, leaves, structure))


@dataclass_transform(frozen_default=True, field_specifiers=(number, dataclasses.field))
def definition(cls: type[T]) -> type[T]:
    """A frozen, hashable dataclass of plain settings: a model or a policy.

    Equal settings are equal values, so they share one compilation, and a saved state names its
    model and policy by class and fields. Every field must be an argument of ``__init__``.
    """
    cls = dataclasses.dataclass(frozen=True)(cls)
    fields = dataclasses.fields(cls)  # type: ignore[arg-type]  # a dataclass since the line above
    leaves = tuple(field.name for field in fields if field.metadata.get("number"))
    structure = tuple(field.name for field in fields if not field.metadata.get("number"))
    made = _register(_taken_apart(cls, leaves, structure))
    _DEFINITIONS.add(made)
    return made


def _taken_apart(cls: type[T], leaves: tuple[str, ...], structure: tuple[str, ...]) -> type[T]:
    """The class, known to JAX: some fields are leaves, the others part of the structure."""
    keys = tuple(jax.tree_util.GetAttrKey(name) for name in leaves)

    def flatten(value: Any) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        held = value.__dict__
        return tuple(held[name] for name in leaves), tuple(held[name] for name in structure)

    def flatten_with_keys(value: Any) -> tuple[tuple[tuple[Any, Any], ...], tuple[Any, ...]]:
        children, aux = flatten(value)
        return tuple(zip(keys, children, strict=True)), aux

    def unflatten(aux: tuple[Any, ...], children: Any) -> Any:
        value = object.__new__(cls)
        value.__dict__.update(zip(leaves, children, strict=True))
        value.__dict__.update(zip(structure, aux, strict=True))
        return value

    jax.tree_util.register_pytree_with_keys(cls, flatten_with_keys, unflatten, flatten)
    return cls


def is_definition(cls: type[Any]) -> bool:
    """Whether a registered class is one of plain settings, to be built by its constructor."""
    return cls in _DEFINITIONS


def registered_name(cls: type[Any]) -> str:
    """The name under which a class is written to a file."""
    library = cls.__module__.partition(".")[0] == __name__.partition(".")[0]
    if library:  # free to move between files; models and families may share a class name
        package = cls.__module__.split(".")[1]
        return f"{package}.{cls.__qualname__}"
    return f"{cls.__module__}:{cls.__qualname__}"


def lookup(name: str) -> type[Any]:
    """The registered class of that name; ``KeyError`` when no imported module defines it."""
    return _BY_NAME[name]


def _register(cls: type[T]) -> type[T]:
    _BY_NAME[registered_name(cls)] = cls
    return cls
