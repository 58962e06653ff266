"""Columns that are made of others, row by row: steps from the row before, and what the calendar says of a time."""

import dataclasses
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Self, final

import numpy as np

from streambayes._core.calendar import CALENDAR, on_calendar
from streambayes._core.column import Column
from streambayes.learning import StreamBatch
from streambayes.sources._times import seconds

__all__ = ["Derived"]

_LAST = "last"
"""Where an offset holds the last values of the batches so far."""


@final
@dataclasses.dataclass(frozen=True)
class Derived:
    """Which columns batches get besides those that are read.

    Attributes:
        time: The column of times.
        difference: Columns whose difference to the row before becomes the column ``"... change"``.
        ratio: Columns whose ratio to the row before becomes the column ``"... ratio"``.
        calendar: ``month``, ``weekday``, ``hour``: columns of these names.
    """

    time: str | None = None
    difference: tuple[str, ...] = ()
    ratio: tuple[str, ...] = ()
    calendar: tuple[str, ...] = ()

    @classmethod
    def checked(
        cls,
        time: str | None,
        difference: str | Sequence[str],
        ratio: str | Sequence[str],
        calendar: str | Sequence[str],
    ) -> Self:
        """From what a user asks for; ``ValueError`` if it cannot be made."""
        steps, ratios, features = (
            (each,) if isinstance(each, str) else tuple(each)
            for each in (difference, ratio, calendar)
        )
        for feature in features:
            if feature not in CALENDAR:
                known = ", ".join(map(repr, CALENDAR))
                message = f"batches: calendar must be some of {known}, got {feature!r}"
                raise ValueError(message)
        if features and time is None:
            message = "batches: calendar needs the name of the time column, time=..."
            raise ValueError(message)
        return cls(time, steps, ratios, features)

    @property
    def needs(self) -> list[str]:
        """The columns that others are made of, besides times."""
        return list(dict.fromkeys([*self.difference, *self.ratio]))

    @property
    def names(self) -> list[str]:
        """The columns that are made."""
        changes = [f"{name} change" for name in self.difference]
        return [*changes, *(f"{name} ratio" for name in self.ratio), *self.calendar]

    @property
    def definition(self) -> dict[str, Any]:
        """What is made, as JSON has it; empty for nothing."""
        held = {"difference": self.difference, "ratio": self.ratio, "calendar": self.calendar}
        return {key: list(names) for key, names in held.items() if names}

    def of(self, batches: Iterable[StreamBatch], offset: Any = None) -> Iterator[StreamBatch]:
        """The batches with the columns; steps go on from the batch with the offset.

        Steps are in order of time. The first row of all has none, nor have a row without a value and the one after
        it: their cells are missing.
        """
        last = dict((offset or {}).get(_LAST) or {})
        for batch in batches:
            columns, absent = dict(batch.columns), dict(batch.absent)
            for name in self.needs:
                last[name] = self._step(name, last.get(name), columns, absent)
            for feature in self.calendar:
                _add(columns, feature, on_calendar(feature, self._moments(columns)))
            place = batch.offset
            if self.needs and place is not None:
                place = {**place, _LAST: dict(last)}
            yield dataclasses.replace(batch, columns=columns, absent=absent, offset=place)

    def _step(
        self, name: str, last: float | None, columns: dict[str, Any], absent: dict[str, Any]
    ) -> float | None:
        """Add the steps of a column; its last value, ``None`` for one that is missing."""
        if name not in columns:  # a column that is lost, of which the model's are lost, too
            return None
        values = Column(name).encode(columns[name]).astype(np.float64)
        if self.time is None:
            order = np.arange(len(values))
        else:
            order = np.argsort(seconds(self.time, np.asarray(columns[self.time])), kind="stable")
        before = np.empty(len(values))
        before[order] = np.append(np.nan if last is None else last, values[order])[:-1]
        made = {}
        if name in self.difference:
            made[f"{name} change"] = values - before
        if name in self.ratio:
            if (values <= 0.0).any():
                row = int(np.argmax(values <= 0.0))
                message = (
                    f"batches: column {name!r}, row {row}: a ratio needs numbers above 0, got "
                    f"{values[row]:g}"
                )
                raise ValueError(message)
            made[f"{name} ratio"] = values / before
        for new, steps in made.items():
            _add(columns, new, steps)
            if name in absent:
                absent[new] = absent[name]
        end = values[order[-1]] if len(values) else last
        return None if end is None or np.isnan(end) else float(end)

    def _moments(self, columns: dict[str, Any]) -> np.ndarray:
        name = str(self.time)
        if name not in columns:
            message = f"batches: there is no column {name!r}, the times"
            raise ValueError(message)
        values = np.asarray(columns[name])
        if values.dtype.kind in "biuf" and len(values):
            message = f"batches: calendar needs dates or ISO text, and column {name!r} is numeric"
            raise ValueError(message)
        found: np.ndarray = np.floor(seconds(name, values)).astype(np.int64).astype("datetime64[s]")
        return found


def _add(columns: dict[str, Any], name: str, values: np.ndarray) -> None:
    if name in columns:
        message = f"batches: the rows have a column {name!r} already, which would be replaced; rename it, or use it"
        raise ValueError(message)
    columns[name] = values
