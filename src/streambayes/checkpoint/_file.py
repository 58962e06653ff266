"""States of one stream or of many as one file: a zip of a JSON description and safetensors arrays, nothing pickled."""

import contextlib
import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import jax
import numpy as np

from streambayes._core.precision import float64_scope, to_host
from streambayes.checkpoint._tree import describe, restore
from streambayes.learning import LearnerState, ManyStates

__all__ = ["load", "packed", "replace_file", "save", "unpacked"]

_FORMAT = "streambayes-state"
_VERSION = 4
_HELD = {2: (), 3: ("state", "facts"), 4: ("state", "facts", "streams")}
"""What the checksum covers besides the arrays, by format version; of version 2 it was the state itself."""
_MANIFEST, _ARRAYS = "manifest.json", "arrays.safetensors"
# what a zip with damaged headers may raise
_UNREADABLE = (KeyError, ValueError, EOFError, OSError, NotImplementedError, RecursionError)
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
    if version not in _HELD:
        message = (
            f"{name} has format version {version}, this library reads versions "
            f"{min(_HELD)} to {max(_HELD)}; it was written by streambayes {manifest.get('library')}"
        )
        raise ValueError(message)
    held = {key: manifest.get(key) for key in _HELD[version]} or manifest.get("state")
    if _digest(held, numbers) != manifest.get("sha256"):
        message = f"{name} is damaged: its content does not match its checksum"
        raise ValueError(message)
    try:
        state, streams = restore(manifest["state"], unpack(numbers)), manifest.get("streams")
        found = _as_state(state) if streams is None else _as_many(state, streams)
        return found, manifest.get("facts") or {}
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        message = f"{name} is damaged: {error}"
        raise ValueError(message) from None


def _as_state(value: Any) -> LearnerState:
    if not isinstance(value, LearnerState):
        message = f"it holds a {type(value).__name__}, not a state"
        raise TypeError(message)
    with float64_scope():
        expected = jax.eval_shape(value.forgetting.init, value.prior)
    same = str(jax.tree.structure(expected)) == str(jax.tree.structure(value.memory))
    if not same or value.num_batches < 0 or value.scale.shift.shape != (len(value.model.columns),):
        message = "the parts of the state do not fit together"
        raise ValueError(message)
    return value


def _as_many(value: Any, streams: list[Any]) -> ManyStates:
    names = dict(zip(streams, range(len(streams)), strict=True))
    sizes = {np.shape(leaf)[:1] for leaf in jax.tree.leaves(value)}
    if not names or sizes != {(len(streams),)} or len(names) < len(streams):
        message = "streams and states do not fit together"
        raise ValueError(message)
    states = ManyStates(names, value)
    _as_state(states[streams[0]])
    return states


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
