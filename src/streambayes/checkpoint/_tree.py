"""Trees of registered classes as JSON with arrays beside it, and back."""

import dataclasses
from typing import Any

import numpy as np

from streambayes._core.pytree import is_definition, lookup, registered_name

__all__ = ["describe", "restore"]


def describe(value: Any, arrays: dict[str, np.ndarray]) -> Any:
    """JSON for a tree; its arrays go into ``arrays`` under the names it refers to."""
    if isinstance(value, np.ndarray | np.generic):  # first: np.float64 is a float
        name = f"a{len(arrays)}"
        arrays[name] = np.ascontiguousarray(value)
        return {"array": name, "shape": list(np.shape(value))}
    if value is None or isinstance(value, bool | int | float | str):
        return value
    if isinstance(value, dict):
        return {"dict": {key: describe(entry, arrays) for key, entry in value.items()}}
    if isinstance(value, tuple):
        return {"tuple": [describe(entry, arrays) for entry in value]}
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: describe(getattr(value, field.name), arrays)
            for field in dataclasses.fields(value)
        }
        return {"class": registered_name(type(value)), "fields": fields}
    message = f"a {type(value).__name__} cannot be saved"
    raise TypeError(message)


def restore(description: Any, arrays: dict[str, np.ndarray]) -> Any:
    """The tree that ``describe`` took apart."""
    if not isinstance(description, dict):
        return description
    if "array" in description:
        return arrays[description["array"]].reshape(description["shape"])
    if "dict" in description:
        return {key: restore(entry, arrays) for key, entry in description["dict"].items()}
    if "tuple" in description:
        return tuple(restore(entry, arrays) for entry in description["tuple"])
    return _instance(
        description["class"],
        {name: restore(entry, arrays) for name, entry in description["fields"].items()},
    )


def _instance(name: str, fields: dict[str, Any]) -> Any:
    try:
        cls = lookup(name)
    except KeyError:
        message = f"class {name!r} is not known; import the module that defines it first"
        raise ValueError(message) from None
    expected = {field.name for field in dataclasses.fields(cls)}
    if set(fields) != expected:
        message = f"class {name!r} has fields {sorted(expected)}, the file {sorted(fields)}"
        raise ValueError(message)
    if is_definition(cls):
        return cls(**fields)
    value = object.__new__(cls)
    value.__dict__.update(fields)
    return value
