"""A learner's state as one file: a zip of a JSON description and safetensors arrays, nothing pickled."""

import hashlib
import io
import json
import os
import secrets
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import numpy as np

from streambayes._core.precision import float64_scope, to_host
from streambayes.checkpoint._tree import describe, restore
from streambayes.learning import LearnerState

__all__ = ["load", "save"]

_FORMAT = "streambayes-state"
_VERSION = 2
_MANIFEST, _ARRAYS = "manifest.json", "arrays.safetensors"
# what a zip with damaged headers may raise
_UNREADABLE = (KeyError, ValueError, EOFError, OSError, NotImplementedError, RecursionError)
_EPOCH = (1980, 1, 1, 0, 0, 0)  # equal states are equal files


def save(state: LearnerState, path: str | os.PathLike[str]) -> None:
    """Write a state to a file, replacing what was there all at once or not at all."""
    from streambayes import __version__

    if not isinstance(state, LearnerState):
        message = f"save: expected a state from StreamLearner, got {type(state).__name__}"
        raise TypeError(message)
    pack, _ = _safetensors()
    arrays: dict[str, np.ndarray] = {}
    description = describe(to_host(state), arrays)
    packed = pack(arrays)
    manifest = {
        "format": _FORMAT,
        "version": _VERSION,
        "library": __version__,
        "sha256": _digest(description, packed),
        "state": description,
    }
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_STORED) as archive:
        archive.writestr(zipfile.ZipInfo(_MANIFEST, _EPOCH), json.dumps(manifest, indent=1))
        archive.writestr(zipfile.ZipInfo(_ARRAYS, _EPOCH), packed)
    _replace(Path(path), buffer.getvalue())


def load(path: str | os.PathLike[str]) -> LearnerState:
    """The state that ``save`` wrote; ``ValueError`` says what is wrong with a file that is none."""
    _, unpack = _safetensors()
    manifest, packed = _read(Path(path))
    if manifest.get("format") != _FORMAT:
        message = f"{path} is not a saved streambayes state"
        raise ValueError(message)
    if manifest.get("version") != _VERSION:
        message = (
            f"{path} has format version {manifest.get('version')}, this library reads version "
            f"{_VERSION}; it was written by streambayes {manifest.get('library')}"
        )
        raise ValueError(message)
    if _digest(manifest.get("state"), packed) != manifest.get("sha256"):
        message = f"{path} is damaged: its content does not match its checksum"
        raise ValueError(message)
    try:
        return _as_state(restore(manifest["state"], unpack(packed)))
    except (AttributeError, KeyError, RecursionError, TypeError, ValueError) as error:
        message = f"{path} is damaged: {error}"
        raise ValueError(message) from None


def _as_state(value: Any) -> LearnerState:
    if not isinstance(value, LearnerState):
        message = f"it holds a {type(value).__name__}, not a state"
        raise TypeError(message)
    with float64_scope():
        expected = value.forgetting.init(value.prior)
    same = str(jax.tree.structure(expected)) == str(jax.tree.structure(value.memory))
    if not same or value.num_batches < 0 or value.scale.shift.shape != (len(value.model.columns),):
        message = "the parts of the state do not fit together"
        raise ValueError(message)
    return value


def _digest(description: Any, packed: bytes) -> str:
    text = json.dumps(description, sort_keys=True).encode()
    return hashlib.sha256(text + packed).hexdigest()


def _safetensors() -> tuple[Callable[..., bytes], Callable[..., Any]]:
    try:
        from safetensors.numpy import load as unpack
        from safetensors.numpy import save as pack
    except ImportError:
        message = "saving and loading need the extra: pip install 'streambayes[save]'"
        raise ImportError(message) from None
    return pack, unpack


def _read(path: Path) -> tuple[dict[str, Any], bytes]:
    try:
        with zipfile.ZipFile(path) as archive:
            manifest, packed = json.loads(archive.read(_MANIFEST)), archive.read(_ARRAYS)
    except FileNotFoundError:
        raise
    except (zipfile.BadZipFile, *_UNREADABLE) as error:
        message = f"{path} is not a saved streambayes state, or it is cut short ({error})"
        raise ValueError(message) from None
    return manifest if isinstance(manifest, dict) else {}, packed


def _replace(path: Path, content: bytes) -> None:
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
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise
    folder = os.open(path.parent, os.O_RDONLY)
    try:
        os.fsync(folder)
    finally:
        os.close(folder)
