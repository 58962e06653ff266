"""Checkpoints: the last few states of a run in a folder, with where the stream was."""

import dataclasses
import os
import re
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, final

from streambayes.checkpoint._file import packed, replace_file, unpacked
from streambayes.learning import LearnerState, ManyStates, Scores

__all__ = ["Checkpoint", "Checkpoints", "names_in"]

_BEGUN = "begun"
_NAME = re.compile(r"checkpoint-(\d{12})\.sbz")


@final
@dataclasses.dataclass(frozen=True)
class Checkpoint:
    """A run between two batches.

    Attributes:
        state: The learner's state, or the states of many streams.
        num_batches: Batches of the stream that were taken, empty ones included.
        facts: What else the run needs to go on, as JSON has it.
    """

    state: LearnerState | ManyStates
    num_batches: int
    facts: dict[str, Any] = dataclasses.field(default_factory=dict)


@final
class Checkpoints:
    """Checkpoints in a folder, each written whole or not at all; only the last few are kept.

    Args:
        folder: The folder; it is made with the first checkpoint. Or an address that fsspec knows, such as
            ``s3://bucket/run``.
        keep: How many to keep: if the last one is damaged, the one before it serves.
        every: After how many batches of a run one is written, and in the end. Fewer writes make small batches faster;
            a run that was killed learns anew what came after the last one.

    Attributes:
        every: As given.
    """

    def __init__(self, folder: str | os.PathLike[str], *, keep: int = 3, every: int = 1) -> None:
        for name, value in (("keep", keep), ("every", every)):
            if isinstance(value, bool) or not isinstance(value, int) or value < 1:
                message = f"Checkpoints: {name} must be a whole number of at least 1, got {value!r}"
                raise ValueError(message)
        self.every = every
        self._place = _place(folder)
        self._keep = keep

    def __repr__(self) -> str:
        return f"Checkpoints({str(self._place)!r}, keep={self._keep})"

    def __len__(self) -> int:
        return len(self._names())

    @property
    def has_begun(self) -> bool:
        """Whether a run has begun that keeps its checkpoints here, if only to be stopped before the first."""
        return _BEGUN in self._place.names()

    def begin(self) -> None:
        """Note that a run begins."""
        self._place.write(_BEGUN, b"")

    def save(self, checkpoint: Checkpoint) -> None:
        """Write a checkpoint, and remove those that are no longer kept."""
        facts = {"num_batches": checkpoint.num_batches, **checkpoint.facts}
        name = f"checkpoint-{checkpoint.num_batches:012d}.sbz"
        self._place.write(name, packed(checkpoint.state, facts))
        for old in self._names()[: -self._keep]:
            self._place.remove(old)

    def latest(self) -> Checkpoint | None:
        """The last checkpoint that is whole; ``None`` if there is none at all.

        One that is damaged is left out with a warning. ``ValueError`` if all are.
        """
        wrong = []
        for name in reversed(self._names()):
            try:
                place = f"{self._place}/{name}"
                state, facts = unpacked(self._place.read(name), place)
                return _as_checkpoint(state, facts, place)
            except (ValueError, FileNotFoundError) as error:
                wrong.append(str(error))
                warnings.warn(f"{error}; the checkpoint before it is used", stacklevel=2)
        if wrong:
            message = f"{self._place}: no checkpoint can be read; the last: {wrong[0]}"
            raise ValueError(message)
        return None

    def _names(self) -> list[str]:
        return sorted(name for name in self._place.names() if _NAME.fullmatch(name))


def _as_checkpoint(state: Any, facts: dict[str, Any], name: str) -> Checkpoint:
    """What was saved, if it is what a run needs to go on."""
    num_batches, sums = facts.pop("num_batches", None), facts.get("sums", {})
    columns = facts.get("columns")
    is_whole = (
        isinstance(num_batches, int)
        and num_batches >= 0
        and isinstance(facts.get("settings", {}), dict)
        and isinstance(facts.get("waiting", False), bool)
        and (columns is None or _is_list_of(columns, str))
        and isinstance(sums, dict)
        and sums.keys() <= {field.name for field in dataclasses.fields(Scores)}
        and all(_is_list_of(pair, int | float) and len(pair) == 2 for pair in sums.values())
        and ("settings" not in facts or facts.keys() >= {"offset", "waiting", "sums", "columns"})
    )
    if not is_whole:
        message = f"{name} is damaged: it does not say how far the run had come"
        raise ValueError(message)
    return Checkpoint(state, num_batches, facts)


def _is_list_of(value: Any, kind: Any) -> bool:
    return isinstance(value, list) and all(isinstance(entry, kind) for entry in value)


def names_in(folder: str | os.PathLike[str]) -> set[str]:
    """What is in a folder, or at an address that fsspec knows; nothing if there is none."""
    return set(_place(folder).names())


def _place(folder: str | os.PathLike[str]) -> "_Local | _Remote":
    return _Remote(folder) if "://" in str(folder) else _Local(Path(folder))


class _Local:
    """A folder."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder.absolute()

    def __str__(self) -> str:
        return str(self._folder)

    def names(self) -> Iterator[str]:
        return (path.name for path in self._folder.iterdir()) if self._folder.is_dir() else iter(())

    def read(self, name: str) -> bytes:
        return (self._folder / name).read_bytes()

    def write(self, name: str, content: bytes) -> None:
        self._folder.mkdir(parents=True, exist_ok=True)
        replace_file(self._folder / name, content)
        for path in self._folder.glob(".checkpoint-*"):  # of a program that was killed
            path.unlink(missing_ok=True)

    def remove(self, name: str) -> None:
        (self._folder / name).unlink(missing_ok=True)


class _Remote:
    """A place that fsspec knows; stores of objects write them whole."""

    def __init__(self, url: str | os.PathLike[str]) -> None:
        try:
            import fsspec
        except ImportError:
            message = "checkpoints at an address need the extra: pip install 'streambayes[remote]'"
            raise ImportError(message) from None
        filesystem: Callable[..., tuple[Any, str]] = fsspec.core.url_to_fs
        self._url = str(url).rstrip("/")
        self._system, self._root = filesystem(self._url)

    def __str__(self) -> str:
        return self._url

    def names(self) -> Iterator[str]:
        if not self._system.exists(self._root):
            return iter(())
        return (str(path).rsplit("/", 1)[-1] for path in self._system.ls(self._root, detail=False))

    def read(self, name: str) -> bytes:
        return bytes(self._system.cat_file(f"{self._root}/{name}"))

    def write(self, name: str, content: bytes) -> None:
        self._system.makedirs(self._root, exist_ok=True)
        self._system.pipe_file(f"{self._root}/{name}", content)

    def remove(self, name: str) -> None:
        self._system.rm_file(f"{self._root}/{name}")
