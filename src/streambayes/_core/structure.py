"""Settings, and what trees of arrays are made of, as JSON and back: values of the library's own classes."""

import dataclasses
import enum
import sys
from typing import Any, final

import jax
import numpy as np

__all__ = ["ForeignError", "describe", "restore"]

_LIBRARY = __name__.partition(".")[0]


class ForeignError(TypeError):
    """A value of a class that is not the library's, whose code may be another in the next process."""


@final
class _Leaf:
    """Where a tree has an array, by its place among them."""

    def __init__(self, number: int) -> None:
        self.number = number


def describe(value: Any) -> Any:  # noqa: PLR0911
    """JSON for settings, or for what a tree of JAX is made of; ``ForeignError`` for a class of someone else's."""
    if value is None or type(value) in (bool, int, str):
        return value
    if type(value) is float:
        return {"float": value.hex()}
    if isinstance(value, np.generic | np.ndarray) and value.dtype.kind in "biuf":
        shape = None if isinstance(value, np.generic) else list(value.shape)
        return {"numbers": value.tobytes().hex(), "dtype": value.dtype.str, "shape": shape}
    if isinstance(value, _Leaf):
        return {"leaf": value.number}
    if isinstance(value, jax.tree_util.PyTreeDef):
        leaves = map(_Leaf, range(value.num_leaves))
        return {"tree": describe(jax.tree.unflatten(value, leaves))}
    if type(value) is dict:
        return {"dict": [[describe(key), describe(entry)] for key, entry in value.items()]}
    for kind in (tuple, list):
        if type(value) is kind:
            return {kind.__name__: [describe(entry) for entry in value]}
    return _described(value)


def restore(description: Any) -> Any:  # noqa: PLR0911
    """The value that ``describe`` was given; ``ValueError`` if there is none."""
    if not isinstance(description, dict):
        return description
    match description:
        case {"float": text}:
            return float.fromhex(text)
        case {"numbers": text, "dtype": dtype, "shape": shape}:
            flat = np.frombuffer(bytes.fromhex(text), np.dtype(dtype))
            return flat[0] if shape is None else flat.reshape(shape)
        case {"leaf": number}:
            return _Leaf(number)
        case {"tree": tree}:
            return jax.tree.structure(restore(tree))
        case {"dict": entries}:
            return {restore(key): restore(entry) for key, entry in entries}
        case {"tuple": entries}:
            return tuple(map(restore, entries))
        case {"list": entries}:
            return list(map(restore, entries))
        case {"class": name, **rest}:
            return _instance(name, rest)
    message = f"nothing is described by {sorted(description)[:5]}"
    raise ValueError(message)


def _described(value: Any) -> dict[str, Any]:
    name = f"{type(value).__module__}:{type(value).__qualname__}"
    if _class(name) is not type(value):
        message = f"a {name} is not of the library"
        raise ForeignError(message)
    if isinstance(value, enum.Enum):
        return {"class": name, "member": value.name}
    if isinstance(value, tuple):
        return {"class": name, "fields": [[None, describe(entry)] for entry in value]}
    if not dataclasses.is_dataclass(value):
        message = f"a {name} has no fields"
        raise ForeignError(message)
    fields = [[field.name, describe(getattr(value, field.name))] for field in _fields(value)]
    return {"class": name, "fields": fields}


def _instance(name: str, rest: dict[str, Any]) -> Any:
    cls = _class(name)
    if cls is None:
        message = f"class {name!r} is not known"
        raise ValueError(message)
    if issubclass(cls, enum.Enum):
        return cls[rest["member"]]
    values = [restore(entry) for _, entry in rest["fields"]]
    if issubclass(cls, tuple):
        return cls(*values)
    value = object.__new__(cls)  # not by its constructor, which may check arrays
    value.__dict__.update(zip((key for key, _ in rest["fields"]), values, strict=True))
    return value


def _class(name: str) -> type[Any] | None:
    """The library's class of that name, if its module is loaded."""
    module, _, path = name.partition(":")
    found: Any = sys.modules.get(module) if module.partition(".")[0] == _LIBRARY else None
    for part in path.split("."):
        found = getattr(found, part, None)
    return found if isinstance(found, type) else None


def _fields(value: Any) -> tuple[dataclasses.Field[Any], ...]:
    return dataclasses.fields(value)
