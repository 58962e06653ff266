"""States of one stream or of many as one file: a zip of a JSON description and safetensors arrays, nothing pickled."""

import contextlib
import dataclasses
import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Hashable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from streambayes._core.precision import float64_scope, to_host
from streambayes.checkpoint._tree import UnknownError, describe, restore
from streambayes.families import Blocks
from streambayes.forgetting import AbstractForgetting
from streambayes.learning import LearnerState, ManyStates
from streambayes.learning._notes import noter
from streambayes.models import AbstractModel

__all__ = ["load", "packed", "replace_file", "save", "unpacked"]

_FORMAT = "streambayes-state"
_VERSION = 5
_HELD = {
    2: (),
    3: ("state", "facts"),
    4: ("state", "facts", "streams"),
    5: ("state", "facts", "streams"),
}
"""What the checksum covers besides the arrays, by format version; of version 2 it was the state itself."""
_FIRST_WATCH = 5
"""The first version whose states watch for changes."""
_MANIFEST, _ARRAYS = "manifest.json", "arrays.safetensors"
# what a zip with damaged headers may raise
_UNREADABLE = (KeyError, ValueError, EOFError, OSError, NotImplementedError, RecursionError)
_LONGEST = 400  # characters of what is told of a damaged file
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal states are equal files


def save(state: LearnerState | ManyStates, path: str | os.PathLike[str]) -> None:
    """Write a state, or the states of many streams, to a file, replacing what was there all at once or not at all."""
    replace_file(Path(path), packed(state))


def load(path: str | os.PathLike[str]) -> Any:
    """The ``LearnerState`` or ``ManyStates`` that ``save`` wrote; ``ValueError`` says what is wrong with a file that is none."""
    try:
        content = Path(path).read_bytes()
    except FileNotFoundError:
        raise
    except OSError as error:
        message = f"{path} is not a saved streambayes state ({error})"
        raise ValueError(message) from None
    return unpacked(content, str(path))[0]


def packed(state: LearnerState | ManyStates, facts: Mapping[str, Any] | None = None) -> bytes:
    """A state as the content of a file.

    Args:
        state: The state, or those of many streams.
        facts: What else is to be kept with it, as JSON has it.
    """
    from streambayes import __version__

    if not isinstance(state, LearnerState | ManyStates):
        message = f"save: expected a state from StreamLearner, got {type(state).__name__}"
        raise TypeError(message)
    pack, _ = _safetensors()
    arrays: dict[str, np.ndarray] = {}
    one = state.stacked if isinstance(state, ManyStates) else state
    held = {
        "state": describe(to_host(one), arrays),
        "facts": dict(facts or {}),
        "streams": _names(state) if isinstance(state, ManyStates) else None,
    }
    numbers = pack(arrays)
    manifest = {
        "format": _FORMAT,
        "version": _VERSION,
        "library": __version__,
        "sha256": _digest(held, numbers),
        **held,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_MANIFEST, _EPOCH), json.dumps(manifest, indent=1))
        archive.writestr(zipfile.ZipInfo(_ARRAYS, _EPOCH), numbers)
    return buffer.getvalue()


def unpacked(content: bytes, name: str) -> tuple[LearnerState | ManyStates, dict[str, Any]]:
    """The state, or those of many streams, and the facts in the content of a file; ``ValueError`` says what is wrong with it.

    Args:
        content: What ``packed`` returned.
        name: What the file is called in errors.
    """
    _, unpack = _safetensors()
    manifest, numbers = _read(content, name)
    if manifest.get("format") != _FORMAT:
        message = f"{name} is not a saved streambayes state"
        raise ValueError(message)
    version = manifest.get("version")
    if not isinstance(version, int) or version not in _HELD:
        message = (
            f"{name} has format version {version!r:.40}, this library reads versions "
            f"{min(_HELD)} to {max(_HELD)}; it was written by streambayes "
            f"{_line(manifest.get('library'))}"
        )
        raise ValueError(message)
    held = {key: manifest.get(key) for key in _HELD[version]} or manifest.get("state")
    if _digest(held, numbers) != manifest.get("sha256"):
        message = f"{name} is damaged: its content does not match its checksum"
        raise ValueError(message)
    try:
        description, streams = manifest["state"], manifest.get("streams")
        if version < _FIRST_WATCH:
            description["fields"].setdefault("watch", None)
        state = restore(description, unpack(numbers))
        found = _as_state(state) if streams is None else _as_many(state, streams)
        if version < _FIRST_WATCH and isinstance(found, LearnerState):
            found = _watched(found)
        return found, _as_facts(manifest.get("facts"))
    except UnknownError as error:
        message = f"{name}: {_line(error)}"
        raise ValueError(message) from None
    except Exception as error:  # noqa: BLE001 - constructors may raise anything of fields that are not theirs
        said = _line(error) or type(error).__name__
        message = f"{name} is damaged: {said}; take a copy of it, or one that was saved before"
        raise ValueError(message) from None


def _line(said: Any) -> str:
    return " ".join(str(said).split())[:_LONGEST]


def _as_state(value: Any) -> LearnerState:
    """A state that is one by shape and type of all of its arrays."""
    if not isinstance(value, LearnerState):
        message = f"it holds a {type(value).__name__}, not a state"
        raise TypeError(message)
    model, policy = value.model, value.forgetting
    if not (isinstance(model, AbstractModel) and isinstance(policy, AbstractForgetting)):
        kinds = f"a {type(model).__name__} and a {type(policy).__name__}"
        message = f"a state needs a model and a policy, it has {kinds}"
        raise TypeError(message)
    with float64_scope():
        expected = jax.eval_shape(lambda: _fresh(value))
    wanted, structure = jax.tree_util.tree_flatten_with_path(expected)
    if jax.tree.structure(value) != structure:  # type: ignore[operator]  # its stub lacks it
        message = "the parts of the state do not fit together"
        raise ValueError(message)
    for (path, leaf), held in zip(wanted, jax.tree.leaves(value), strict=True):
        if not hasattr(held, "dtype") or (held.shape, held.dtype) != (leaf.shape, leaf.dtype):
            kind = getattr(held, "dtype", type(held).__name__)
            message = (
                f"{jax.tree_util.keystr(path).removeprefix('.')} is {kind} of shape {np.shape(held)}, not "
                f"{leaf.dtype} of shape {leaf.shape}"
            )
            raise ValueError(message)
    sizes = (value.num_batches, value.rows_seen, value.pending)
    if not all(np.isfinite(size) and size >= 0 for size in sizes):
        message = "a state cannot have seen a negative number of batches, rows or time"
        raise ValueError(message)
    if not (np.isfinite(value.scale.shift).all() and (np.abs(value.scale.factor) > 0).all()):
        message = "the units of its columns are no numbers"
        raise ValueError(message)
    return value


def _fresh(state: LearnerState) -> LearnerState:
    """What a state of this model and policy is made of."""
    policy, prior = state.forgetting, Blocks.of_prior(state.model.prior())
    memory = policy.init(prior)
    return dataclasses.replace(
        state,
        prior=prior,
        memory=memory,
        belief=policy.belief(memory),
        watch=None if state.watch is None else noter(state.model).begin(prior),
        scale=state.model.scale_from_data(free=True),
        num_batches=np.int64(0),
        rows_seen=np.float64(0.0),
        pending=np.float64(0.0),
        last_time=np.float64(0.0),
    )


def _as_many(value: Any, streams: Any) -> ManyStates:
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(value)}
    if not isinstance(streams, list) or not streams or sizes != {(len(streams),)}:
        message = "streams and states do not fit together"
        raise ValueError(message)
    names: dict[Hashable, int] = {
        name: place for place, name in enumerate(streams) if isinstance(name, str | int | float)
    }
    if len(names) < len(streams):
        message = "streams must be called by texts or numbers, all different"
        raise ValueError(message)
    states = ManyStates(names, value)
    _as_state(states[streams[0]])
    for counts in (value.num_batches, value.rows_seen, value.pending):
        if not (np.isfinite(counts) & (counts >= 0)).all():
            message = "a state cannot have seen a negative number of batches, rows or time"
            raise ValueError(message)
    return states


def _watched(found: LearnerState) -> LearnerState:
    """A state from before there was a watch, which begins now."""
    with float64_scope():
        return dataclasses.replace(found, watch=to_host(noter(found.model).begin(found.prior)))


def _as_facts(facts: Any) -> dict[str, Any]:
    if not isinstance(facts, dict | None):
        message = f"facts must be an object, not a {type(facts).__name__}"
        raise TypeError(message)
    return facts or {}


def _names(states: ManyStates) -> list[Any]:
    names: list[Any] = [name.item() if isinstance(name, np.generic) else name for name in states]
    for name in names:
        if not isinstance(name, str | int | float):
            message = f"save: streams must be called by text or numbers, got {name!r}"
            raise TypeError(message)
    return names


def _digest(held: Any, numbers: bytes) -> str:
    text = json.dumps(held, sort_keys=True).encode()
    return hashlib.sha256(text + numbers).hexdigest()


def _safetensors() -> tuple[Callable[..., bytes], Callable[..., Any]]:
    try:
        from safetensors.numpy import load as unpack
        from safetensors.numpy import save as pack
    except ImportError:
        message = "saving and loading need the extra: pip install 'streambayes[save]'"
        raise ImportError(message) from None
    return pack, unpack


def _read(content: bytes, name: str) -> tuple[dict[str, Any], bytes]:
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            manifest, numbers = json.loads(archive.read(_MANIFEST)), archive.read(_ARRAYS)
    except (zipfile.BadZipFile, *_UNREADABLE) as error:
        message = f"{name} is not a saved streambayes state, or it is cut short ({error})"
        raise ValueError(message) from None
    return manifest if isinstance(manifest, dict) else {}, numbers


def replace_file(path: Path, content: bytes) -> None:
    """Write beside the file and rename over it, through to the disk."""
    if not path.parent.is_dir():
        message = f"cannot save {path}: there is no folder {path.parent}"
        raise FileNotFoundError(message)
    temporary = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with temporary.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise OSError(error.errno, error.strerror, str(path)) from None
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
