"""Runs in a folder as they grow: each is read from where reading ended the last time."""

import collections
import threading
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, final

from streambayes.drift import DriftMonitor
from streambayes.learning._record import RecordReader
from streambayes.reports._digest import Digest
from streambayes.reports._folder import runs_in
from streambayes.reports._story import tell

__all__ = ["Folder", "Followed"]

_SLICE = 0.4
"""Seconds of reading after which those who wait for news get some."""
_REST = 0.1
"""Seconds in which a file is not looked at twice."""
_FOLLOWED = 8
"""Runs that are kept in memory; others are read anew when somebody looks at them."""
_LISTED = 200


@final
class Followed:
    """One run, as far as it has been read; may be used by several threads.

    Args:
        name: What it is called.
        folder: Where its records are.
        drift: Settings of ``DriftMonitor``.
    """

    def __init__(self, name: str, folder: Path, drift: Mapping[str, Any]) -> None:
        self._name, self._folder, self._drift = name, folder, drift
        self._lock = threading.Lock()
        self._looked = 0.0
        self._trouble: str | None = None
        self._version = 0
        self._open()

    def advance(self) -> int:
        """Read on for a while; a number that changes when there is something new."""
        with self._lock:
            if self.is_behind or time.monotonic() - self._looked >= _REST:
                try:
                    self._read_on()
                except (OSError, ValueError) as error:
                    self._version += str(error) != self._trouble
                    self._trouble = str(error)
                self._looked = time.monotonic()
            return self._version

    @property
    def is_behind(self) -> bool:
        """Whether there is more to read."""
        return self._share < 1.0 and self._trouble is None

    def news(self) -> dict[str, Any]:
        """What changes with every batch."""
        with self._lock:
            told = self._digest.news()
            if self._trouble is not None:
                told["ended"] = f"cannot be read on: {self._trouble}"
            told["reading"] = self._share if self._share < 1.0 else None
            told["written"] = self._reader.written
            return told

    def overview(self) -> dict[str, Any]:
        """The story, curves and maps."""
        with self._lock:
            return {**self._digest.overview(), "story": tell(self._digest)._asdict()}

    def block(self, number: int) -> dict[str, Any]:
        """Parameters of a block."""
        with self._lock:
            return self._digest.block(number)

    def _open(self) -> None:
        self._reader = RecordReader(self._folder)
        self._digest = Digest(self._name, **self._drift)
        self._share = 0.0
        self._trouble = None

    def _read_on(self) -> None:
        if self._reader.is_replaced():  # another run was recorded there
            self._open()
            self._version += 1
        if self._trouble is not None:
            return
        until = time.monotonic() + _SLICE
        for record in self._reader.new():
            self._digest.take(record)
            self._version += 1
            if time.monotonic() > until:
                break
        reader, digest = self._reader, self._digest
        # with time left, what has not been read is a line that is being written
        share = 1.0 if time.monotonic() < until else reader.share_read
        if (reader.facts, reader.ended, share) != (digest.facts, digest.ended, self._share):
            digest.facts, digest.ended, self._share = reader.facts, reader.ended, share
            self._version += 1


@final
class Folder:
    """The runs in a folder, by their place in it.

    Args:
        path: The folder; it need not be there yet.
        drift: Settings of ``DriftMonitor``.
    """

    def __init__(self, path: Path, drift: Mapping[str, Any]) -> None:
        DriftMonitor(**drift)  # says what is wrong with it, before anybody looks
        self._path = path
        self._drift = drift
        self._lock = threading.Lock()
        self._followed: collections.OrderedDict[str, Followed] = collections.OrderedDict()

    def search(self, wanted: str) -> dict[str, Any]:
        """Runs whose names have a text in them; of many the first."""
        runs = runs_in(self._path)
        matching = [name for name in runs if wanted.lower() in name.lower()]
        return {
            "total": len(runs),
            "matching": len(matching),
            "runs": [{"key": name, "name": name[:_LISTED]} for name in matching[:_LISTED]],
        }

    def run(self, key: str) -> Followed:
        """A run by its name; ``KeyError`` if there is none of that name."""
        with self._lock:
            if key not in self._followed:
                self._followed[key] = Followed(key, runs_in(self._path)[key], self._drift)
            self._followed.move_to_end(key)
            while len(self._followed) > _FOLLOWED:
                self._followed.popitem(last=False)
            return self._followed[key]
