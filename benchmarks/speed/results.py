"""Everything that one run has measured: on disk, and to be looked up."""

import dataclasses
import datetime as dt
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Self

from benchmarks.speed.machine import machine
from benchmarks.speed.timing import Measurement

__all__ = ["Results"]


@dataclasses.dataclass(frozen=True)
class Results:
    """What was measured, when and on what machine.

    Attributes:
        about: Date, machine, versions, and the most that others used of the processors.
        measurements: In the order in which they were made.
    """

    about: dict[str, Any]
    measurements: list[Measurement]

    @classmethod
    def begin(cls, *, quick: bool) -> Self:
        """Nothing yet, on this machine.

        Args:
            quick: Whether small sizes are measured.
        """
        date = dt.datetime.now(dt.UTC).date().isoformat()
        return cls({"date": date, "quick": quick, "busy share": 0.0, **machine()}, [])

    @classmethod
    def read(cls, path: Path) -> Self:
        """What ``write`` has written.

        Args:
            path: The file.
        """
        held = json.loads(path.read_text(encoding="utf-8"))
        return cls(held["about"], [Measurement(**one) for one in held["measurements"]])

    def write(self, path: Path) -> None:
        """As JSON.

        Args:
            path: The file.
        """
        held = {
            "about": self.about,
            "measurements": [dataclasses.asdict(one) for one in self.measurements],
        }
        path.write_text(json.dumps(held, indent=1) + "\n", encoding="utf-8")

    def where(
        self, section: str, case: str | None = None, size: Mapping[str, int] | None = None
    ) -> list[Measurement]:
        """The measurements of a section; of one case and with these sizes, if they are given.

        Args:
            section: The section.
            case: The case.
            size: Numbers by what they count; others may be any.
        """
        return [
            one
            for one in self.measurements
            if one.section == section
            and case in (None, one.case)
            and (size or {}).items() <= one.size.items()
        ]
