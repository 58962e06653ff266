"""DriftEvent: one change of one block, in numbers and in a sentence."""

import dataclasses
import math
from typing import Literal, final

__all__ = ["Change", "DriftEvent", "Kind"]

_LARGE, _MOST = 1e9, 6

Kind = Literal["abrupt", "gradual", "recurring", "outlier", "new"]


@final
@dataclasses.dataclass(frozen=True)
class Change:
    """How far one parameter has moved, in its own units.

    Attributes:
        parameter: Its readable name.
        before: Its mean before.
        after: Its mean after.
        lower: Lower end of an interval for the difference.
        upper: Upper end.
        spread: Standard deviation of the difference, by what is known of the parameter.
        distance: The difference in such standard deviations.
    """

    parameter: str
    before: float
    after: float
    lower: float
    upper: float
    spread: float
    distance: float

    @property
    def difference(self) -> float:
        """By how much it has moved."""
        return self.after - self.before

    @property
    def numbers(self) -> str:
        """Before and after, to the digits that are known."""
        return f"{self._number(self.before)} → {self._number(self.after)} ({self.size})"

    @property
    def size(self) -> str:
        """The difference, in per cent where that is clear, with its interval."""
        ends = f"{self._number(self.lower, '+')} to {self._number(self.upper, '+')}"
        is_ratio = self.before * self.after > 0.0 and abs(self.before) > 3.0 * self.spread
        if is_ratio and abs(self.difference) < 10.0 * abs(self.before):
            return f"{100.0 * self.difference / self.before:+.0f} %, {ends}"
        return f"{self._number(self.difference, '+')}, {ends}"

    def __str__(self) -> str:
        return f"{self.parameter} {self.numbers}"

    def _number(self, value: float, sign: str = "") -> str:
        """As many decimals as the spread leaves certain."""
        if not 0.0 < self.spread < math.inf or abs(value) >= _LARGE:
            return f"{value:{sign}.4g}"
        decimals = max(0, -math.floor(math.log10(self.spread)))
        return f"{value:{sign}.3g}" if decimals > _MOST else f"{value:{sign}z,.{decimals}f}"


@final
@dataclasses.dataclass(frozen=True)
class DriftEvent:
    """One block has changed.

    Attributes:
        block: The block's readable name.
        kind: ``abrupt``; ``gradual``; ``recurring``, back at what it was before an earlier change;
            ``outlier``, back with the next batch; or ``new``: a column begins to vary, and its blocks start.
        first: Number of the batch in which it began.
        last: Number of the last batch that it took.
        label: What the first batch is called.
        last_label: What the last one is called.
        changes: Parameters that have moved, the clearest first.
        log_restart: The evidence: the largest log Bayes factor of starting over against going on; ``None``
            where the movement alone tells.
        rho: Expected share of the past that was kept in the first batch, where the policy learns it.
        rho_sd: Its standard deviation.
        moved: Divergence of what is believed from what was before, in nats, summed over the batches.
        share: Share of this block in the movement of all blocks in those batches.
        like: For a recurring event, the last batch that was like this.
        note: For a new column, what the learner has said of it.
    """

    block: str
    kind: Kind
    first: int
    last: int
    label: str
    last_label: str
    changes: tuple[Change, ...] = ()
    log_restart: float | None = None
    rho: float | None = None
    rho_sd: float | None = None
    moved: float | None = None
    share: float | None = None
    like: str | None = None
    note: str | None = None

    @property
    def sentence(self) -> str:
        """What happened, for people who do not know the model."""
        where = f"Batch {self.label}"
        if self.kind == "new":
            return f"{where}: {self.note}."
        if not self.changes:
            return f"{where}: {self.block} has changed."
        first, *others = self.changes
        if self.kind == "outlier":
            text = f"{where} was unusual, and the next was not: {first}"
        elif self.kind == "gradual":
            text = f"Batches {self.label} to {self.last_label}: {first.parameter} drifted, {first.numbers}"
        elif self.kind == "recurring":
            text = f"{where}: {first.parameter} went back to what it was until batch {self.like}, {first.numbers}"
        else:
            text = f"{where}: {first.parameter} changed at once, {first.numbers}"
        return "; ".join([text, *map(str, others[:1])]) + "."

    def __str__(self) -> str:
        return self.sentence
