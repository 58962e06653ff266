"""DriftEvent: one change of one block, in numbers and in a sentence."""

import dataclasses
import math
from typing import Literal, final

__all__ = ["Change", "DriftEvent", "Kind"]

_LEAST, _MOST = 0.005, 10.0

Kind = Literal["abrupt", "gradual", "recurring", "outlier", "new"]


@final
@dataclasses.dataclass(frozen=True)
class Change:
    """How far one parameter has moved, in its own units.

    Attributes:
        parameter: Its readable name.
        before: Its mean before.
        after: Its mean after.
        before_sd: The standard deviation of what was known of it before.
        after_sd: And after.
        lower: Lower end of an interval for the difference.
        upper: Upper end.
    """

    parameter: str
    before: float
    after: float
    before_sd: float
    after_sd: float
    lower: float
    upper: float

    @property
    def difference(self) -> float:
        """By how much it has moved."""
        return self.after - self.before

    @property
    def distance(self) -> float:
        """The difference in standard deviations of what is known of it."""
        spread = math.hypot(self.before_sd, self.after_sd)
        return self.difference / spread if spread > 0.0 else 0.0

    @property
    def numbers(self) -> str:
        """Before and after, to the digits that are known."""
        before, after = _number(self.before, self.before_sd), _number(self.after, self.after_sd)
        return f"{before} → {after} ({self._size()})"

    def __str__(self) -> str:
        return f"{_line(self.parameter)} {self.numbers}"

    def _size(self) -> str:
        """The difference, in per cent where that is clear, and its interval."""
        spread = math.hypot(self.before_sd, self.after_sd)
        ends = f"{_number(self.lower, spread, '+')} to {_number(self.upper, spread, '+')}"
        ratio = self.difference / abs(self.before) if self.before else math.inf
        is_clear = self.before * self.after > 0.0 and abs(self.before) > 3.0 * self.before_sd
        if is_clear and _LEAST <= abs(ratio) < _MOST:
            return f"{100.0 * ratio:+.0f} %, {ends}"
        return f"{_number(self.difference, spread, '+')}, {ends}"


@final
@dataclasses.dataclass(frozen=True)
class DriftEvent:
    """One block has changed.

    Attributes:
        block: The block's readable name.
        kind: ``abrupt``; ``gradual``; ``recurring``, back at what it was before an earlier change;
            ``outlier``, back with the next batch; or ``new``: a column, which ``block`` names, begins to vary.
        first: Number of the batch in which it began.
        last: Number of the last batch that it took.
        label: What the first batch is called.
        last_label: What the last one is called.
        changes: Parameters that have clearly moved, the clearest first.
        log_restart: The evidence: the largest log Bayes factor of starting over against going on; ``None``
            where the movement alone tells.
        rho: Expected share of the past that was kept in the first batch, where the policy learns it.
        rho_sd: Its standard deviation.
        moved: Divergence of what is believed from what was before, in nats, summed over the batches.
        share: Share of this block in the movement of all blocks in those batches.
        like: For a recurring event, the last batch that was like this.
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

    @property
    def sentence(self) -> str:
        """What happened, for people who do not know the model."""
        where = f"Batch {_line(self.label)}"
        if self.kind == "new":
            return f"{where}: column {self.block!r} varies for the first time."
        if self.kind == "outlier":
            what = _line(self.block) if not self.changes else "; ".join(map(str, self.changes[:2]))
            return f"{where} was unusual, and the next was not: {what}."
        if not self.changes:
            return f"{where}: {_line(self.block)} changed, which no parameter shows by itself."
        first, *others = self.changes
        what, numbers = _line(first.parameter), first.numbers
        if self.kind == "gradual":
            if self.first != self.last:
                where = f"Batches {_line(self.label)} to {_line(self.last_label)}"
            text = f"{where}: {what} drifted, {numbers}"
        elif self.kind == "recurring":
            until = _line(self.like or "")
            text = f"{where}: {what} went back to what it was until batch {until}, {numbers}"
        else:
            text = f"{where}: {what} changed at once, {numbers}"
        return "; ".join([text, *map(str, others[:1])]) + "."

    def __str__(self) -> str:
        return self.sentence


def _number(value: float, spread: float, sign: str = "") -> str:
    """As many digits as the spread leaves certain."""
    if not 0.0 < spread < math.inf:
        return f"{value:{sign}.4g}"
    place = -math.floor(math.log10(spread))
    digits = place + 1 + math.floor(math.log10(abs(value))) if value else 1
    if not -15 < place <= 6 or abs(value) >= 1e15:
        return f"{value:{sign}.{min(max(digits, 2), 15)}g}"
    return f"{value:{sign}z,.{max(place, 0)}f}"


def _line(text: str) -> str:
    """On one line."""
    return " ".join(text.split())
