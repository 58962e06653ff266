"""SchemaPolicy: what to do when a stream's columns change under way."""

import dataclasses
from collections.abc import Iterable, Sequence
from typing import Any, final

import numpy as np

from streambayes._core.column import Column
from streambayes.learning._intake import StreamBatch, check_absent

__all__ = ["SchemaGuard", "SchemaPolicy"]

ERROR, MISSING, IGNORE, OTHER = "error", "missing", "ignore", "other"
_ALLOWED = {
    "new_column": (ERROR, IGNORE),
    "lost_column": (ERROR, MISSING, IGNORE),
    "changed_type": (ERROR, MISSING, IGNORE),
    "unseen_category": (ERROR, MISSING, IGNORE, OTHER),
}


@final
@dataclasses.dataclass(frozen=True)
class SchemaPolicy:
    """What a run does when a stream's columns change under way, case by case.

    ``"error"`` stops before the batch is learned and says which batch, row and column; ``"missing"`` takes the cells as
    missing; ``"ignore"`` leaves out the rows, or the new column. The batch's record says what was done.

    Attributes:
        new_column: A column that the first batch did not have: ``"error"`` or ``"ignore"``.
        lost_column: A column of the model that is no longer there.
        changed_type: Cells of a column of numbers that are none, or none that the column can hold.
        unseen_category: Values of a category column that are none of the model's categories. ``"other"`` takes them as
            the category ``"other"``, as missing where the column has no such category.
    """

    new_column: str = ERROR
    lost_column: str = ERROR
    changed_type: str = ERROR
    unseen_category: str = ERROR

    def __post_init__(self) -> None:
        for name, allowed in _ALLOWED.items():
            if getattr(self, name) not in allowed:
                message = (
                    f"SchemaPolicy: {name} must be one of {', '.join(map(repr, allowed))}, got "
                    f"{getattr(self, name)!r}"
                )
                raise ValueError(message)


@final
class SchemaGuard:
    """Looks at every batch of a stream before it is learned.

    Args:
        policy: What to do.
        columns: The model's columns.
        known: The stream's columns as they were; ``None`` before the first batch.
    """

    def __init__(
        self, policy: SchemaPolicy, columns: Sequence[Column], known: Iterable[str] | None = None
    ) -> None:
        self._policy = policy
        # then nothing is done to a batch; the learner refuses what it cannot read
        self._is_strict = policy == SchemaPolicy(new_column=policy.new_column)
        self._columns = columns
        self.known = None if known is None else list(known)

    def passed(self, batch: StreamBatch, names: Iterable[str]) -> StreamBatch:
        """The batch as it is to be learned; ``ValueError`` if the policy says so.

        Args:
            batch: The batch.
            names: All columns that it came with.
        """
        remarks = self._new(batch, names)
        if self._policy.lost_column == ERROR:
            check_absent(batch, [column.name for column in self._columns])
        if self._is_strict and not remarks:
            return batch
        columns, absent = dict(batch.columns), dict(batch.absent)
        num_rows = max((len(values) for values in columns.values()), default=0)
        left_out = np.zeros(num_rows, bool)
        for column in self._columns:
            self._find(column, columns, absent, left_out, remarks)
        if not remarks and self._policy.unseen_category != OTHER:
            return batch
        if left_out.any():
            columns = {name: np.asarray(values)[~left_out] for name, values in columns.items()}
        absent = {name: rows[~left_out] for name, rows in absent.items()}
        return dataclasses.replace(batch, columns=columns, absent=absent, remarks=tuple(remarks))

    def _find(
        self,
        column: Column,
        columns: dict[str, Any],
        absent: dict[str, np.ndarray],
        left_out: np.ndarray,
        remarks: list[str],
    ) -> None:
        """Deal with the cells of a column that do not fit."""
        name = column.name
        if self._policy.lost_column != ERROR:
            lost = np.ones(len(left_out), bool) if name not in columns else absent.pop(name, None)
            if lost is not None:
                columns.setdefault(name, np.full(len(left_out), np.nan))
                said = f"column {name!r} is lost"
                remarks += self._dealt(self._policy.lost_column, lost, said, left_out)
        if name not in columns:
            return
        kinds = (
            (self._policy.changed_type, column.strange_cells, "number that fits"),
            (self._policy.unseen_category, column.unseen_cells, "category"),
        )
        for action, find, kind in kinds:
            wrong = find(columns[name]) if action != ERROR else None
            if wrong is None or not wrong.any():
                continue
            cells = np.array(columns[name], dtype=object)
            said = f"{cells[np.argmax(wrong)]!r} in column {name!r} is no {kind}"
            is_other = action == OTHER and OTHER in column.categories
            cells[wrong] = OTHER if is_other else None
            columns[name] = cells
            if not is_other:  # which is no remark: that category stands for them
                remarks += self._dealt(action, wrong, said, left_out)

    @staticmethod
    def _dealt(action: str, rows: np.ndarray, said: str, left_out: np.ndarray) -> list[str]:
        """What is said of rows that do not fit."""
        if not rows.any():
            return []
        if action == IGNORE:
            left_out |= rows
        what = "rows left out" if action == IGNORE else "cells taken as missing"
        return [f"{int(rows.sum())} {what}: {said}, first in row {int(np.argmax(rows))}"]

    def _new(self, batch: StreamBatch, names: Iterable[str]) -> list[str]:
        """Columns that are new, which are not read."""
        if self.known is None:
            self.known = list(names)
            return []
        remarks = []
        for name in names:
            if name in self.known or any(name == column.name for column in self._columns):
                continue
            lacking = batch.absent.get(name)
            row = 0 if lacking is None else int(np.argmin(lacking))
            if self._policy.new_column == ERROR:
                message = (
                    f"column {name!r}, row {row}: the column is new; leave it out with "
                    "schema=SchemaPolicy(new_column='ignore')"
                )
                raise ValueError(message)
            self.known.append(name)
            remarks.append(f"column {name!r} is new and left out, first in row {row}")
        return remarks
