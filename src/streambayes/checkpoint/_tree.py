"""Trees of registered classes as JSON with arrays beside it, and back."""

import dataclasses
from typing import Any

import numpy as np

from streambayes._core.pytree import is_definition, lookup, registered_name
from streambayes.forgetting._auto import UNTRIED

__all__ = ["UnknownError", "describe", "restore"]


class UnknownError(ValueError):
    """A class of someone else's that has not been imported yet."""


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
        return _array(arrays, description["array"], description.get("shape"))
    if "dict" in description:
        return {key: restore(entry, arrays) for key, entry in description["dict"].items()}
    if "tuple" in description:
        return tuple(restore(entry, arrays) for entry in description["tuple"])
    if not description.keys() >= {"class", "fields"}:
        message = f"a part of it is neither a class nor an array, but {sorted(description)[:5]}"
        raise ValueError(message)
    fields = {name: restore(entry, arrays) for name, entry in description["fields"].items()}
    return _instance(description["class"], _renewed(description["class"], fields))


def _renewed(name: str, fields: dict[str, Any]) -> dict[str, Any]:
    """Fields of a class as it is now.

    Those of a state had ``log_shares`` before trust was the policy's alone, and units did not count rows before version 5.
    """
    if name == "_core.Scale" and "seen" not in fields:
        shape = np.shape(fields["frozen"])
        return {**fields, "seen": np.zeros((*shape[:-1], 3, *shape[-1:]))}
    if name != "learning.LearnerState" or "log_shares" not in fields:
        return fields
    memory = fields["memory"]
    if hasattr(memory, "log_trust"):  # it was that of one forecaster among others: as at the start
        trust = {block: each + np.log(UNTRIED) for block, each in memory.log_trust.items()}
        memory.__dict__["log_trust"] = trust
    return {key: entry for key, entry in fields.items() if key != "log_shares"}


def _array(arrays: dict[str, np.ndarray], name: Any, shape: Any) -> np.ndarray:
    if not isinstance(name, str) or name not in arrays:
        message = f"there is no array {name!r}"
        raise ValueError(message)
    try:
        return arrays[name].reshape(shape)
    except (TypeError, ValueError, OverflowError):
        message = f"array {name!r} has {arrays[name].size} numbers, which is not the shape {shape}"
        raise ValueError(message) from None


def _instance(name: Any, fields: dict[str, Any]) -> Any:
    try:
        cls = lookup(name)
    except (KeyError, TypeError):
        message = f"class {name!r} is not known; import the module that defines it first"
        raise UnknownError(message) from None
    expected = {field.name for field in dataclasses.fields(cls)}
    # settings that a definition did not have yet when the file was written
    later = {f.name for f in dataclasses.fields(cls) if f.default is not dataclasses.MISSING}
    needed = expected - later if is_definition(cls) else expected
    if not needed <= set(fields) <= expected:
        message = f"class {name!r} has fields {sorted(expected)}, the file {sorted(fields)}"
        raise ValueError(message)
    if is_definition(cls):
        return cls(**fields)
    value = object.__new__(cls)
    value.__dict__.update(fields)
    return value
