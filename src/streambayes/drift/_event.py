"""DriftEvent: one change of one block, in numbers and in a sentence."""

import dataclasses
import math
from collections.abc import Hashable, Mapping, Sequence
from typing import Literal, final

from streambayes.learning._notes import Comparison

__all__ = ["CLEAR", "Change", "DriftEvent", "Kind", "as_line", "as_number"]

_LEAST, _MOST = 0.005, 10.0
_NAMED = 5
"""Other blocks that are named where several change alike."""
CLEAR = 3.0
"""A parameter that moves by so many standard deviations of what is known of it has clearly moved."""
_SHARE = 0.2
"""The smallest change that is told, as a share of what a column varies by within a batch."""

Kind = Literal["abrupt", "gradual", "recurring", "seasonal", "outlier", "provisional", "new"]


@final
@dataclasses.dataclass(frozen=True)
class Change:
    """How far one parameter has moved, in its own units.

    Attributes:
        parameter: Its readable name.
        before: What was usual: its mean by the batches since the last change.
        after: Its mean by the batch that is named alone, or by the batches of a slow change.
        before_sd: The standard deviation of what was known of it before.
        after_sd: And after.
        lower: Lower end of an interval for the difference.
        upper: Upper end.
        fluctuation: How far it usually is from one batch to the next, as a standard deviation; ``None`` where too
            few batches were seen.
        least: The smallest difference that is told.
        is_ratio: Whether it makes sense to give the difference in per cent.
        is_asked: Whether the smallest difference was asked for.
    """

    parameter: str
    before: float
    after: float
    before_sd: float
    after_sd: float
    lower: float
    upper: float
    fluctuation: float | None = None
    least: float = 0.0
    is_ratio: bool = False
    is_asked: bool = False

    @classmethod
    def between(
        cls,
        parameter: str,
        every: Mapping[str, Comparison],
        *,
        reach: float,
        fluctuation: float | None,
        least: float | None,
    ) -> "Change":
        """From what a record compares.

        Args:
            parameter: Its name.
            every: What is compared of all parameters of its block.
            reach: Half of the width of the interval, in standard deviations.
            fluctuation: As the attribute.
            least: As the attribute; by default from what is known of the column.
        """
        usual, usual_sd, now, now_sd = every[parameter]
        spread = reach * math.hypot(usual_sd, now_sd)
        within = _within(parameter, every)
        is_asked = least is not None
        if least is None:
            least = max(_SHARE * within, fluctuation or 0.0)
        return cls(
            parameter=parameter,
            before=usual,
            after=now,
            before_sd=usual_sd,
            after_sd=now_sd,
            lower=now - usual - spread,
            upper=now - usual + spread,
            fluctuation=fluctuation,
            least=least,
            is_asked=is_asked,
            is_ratio=not parameter.startswith(_GEOMETRIC)  # which begins at 1
            and (_has_zero(parameter) or min(usual, now) > 2.0 * within > 0.0),
        )

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
    def size(self) -> float:
        """The difference, as a multiple of the smallest one that is told."""
        return abs(self.difference) / self.least if self.least > 0.0 else abs(self.distance)

    @property
    def numbers(self) -> str:
        """Before and after, to the digits that are known."""
        return f"{self.arrow} ({self._size()})"

    @property
    def arrow(self) -> str:
        """Before and after alone."""
        before, after = as_number(self.before, self.before_sd), as_number(self.after, self.after_sd)
        return f"{before} → {after}"

    def __str__(self) -> str:
        return f"{as_line(self.parameter)} {self.numbers}"

    def _size(self) -> str:
        """The difference, in per cent where that makes sense, and beside the usual fluctuation."""
        spread = math.hypot(self.before_sd, self.after_sd)
        ratio = self.difference / self.before if self.before > 0.0 else math.inf
        if self.is_ratio and _LEAST <= abs(ratio) < _MOST:
            text = f"{100.0 * ratio:+.0f} %"
        else:
            text = as_number(self.difference, spread, "+")
        if self.fluctuation:
            times = abs(self.difference) / self.fluctuation
            text += f"; {as_times(times)} its usual fluctuation"
        return text


@final
@dataclasses.dataclass(frozen=True)
class DriftEvent:
    """One block has changed.

    Attributes:
        block: The block's readable name.
        kind: ``abrupt``; ``gradual``, over several batches; ``recurring``, back at what it was before an earlier change;
            ``seasonal``, as it was a season ago; ``outlier``, back with the next batch; ``provisional``: the next
            batch decides whether it is a change or an outlier; or ``new``: a column, which ``block`` names, begins to vary.
        first: Number of the batch in which it began.
        last: Number of the last batch that it took.
        label: What the first batch is called.
        last_label: What the last one is called.
        told: Number of the batch with which it was certain.
        told_label: What that batch is called.
        changes: Its parameters: the one that has moved farthest in standard deviations of what is known of it, then
            others that have clearly moved.
        evidence: The log Bayes factor of a change against going on as usual.
        rho: Expected share of the past that was kept in the last batch, where the policy learns it.
        like: For a recurring event, the last batch that was like this.
        period: For a block that comes back again and again: after so many batches.
        sources: Numbers of the records that hold the numbers before and after.
    """

    block: str
    kind: Kind
    first: int
    last: int
    label: str
    last_label: str
    told: int
    told_label: str
    changes: tuple[Change, ...] = ()
    evidence: float = math.inf
    rho: float | None = None
    like: str | None = None
    period: int | None = None
    sources: tuple[int, int] | None = None

    @property
    def is_told(self) -> bool:
        """Whether it is large enough to be told; the seasonal is told once, as a pattern."""
        if self.kind == "new":
            return True
        large = any(change.size >= 1.0 for change in self.changes)
        if self.kind == "outlier":
            return large
        hidden = self._is_hidden and not any(change.is_asked for change in self.changes)
        return self.kind != "seasonal" and (large or hidden)

    @property
    def _is_hidden(self) -> bool:
        """Whether the change is one that no parameter shows clearly, such as that of a correlation."""
        return all(abs(change.distance) < CLEAR and change.size < CLEAR for change in self.changes)

    @property
    def importance(self) -> float:
        """Size times evidence: what ranks events."""
        size = max((change.size for change in self.changes), default=math.inf)
        return min(size, 100.0) * min(self.evidence, 1e6)

    @property
    def where(self) -> str:
        """The batch, or from which to which."""
        if self.first == self.last:
            return f"Batch {as_line(self.label)}"
        return f"Batches {as_line(self.label)} to {as_line(self.last_label)}"

    @property
    def sentence(self) -> str:
        """What happened, for people who do not know the model."""
        return f"{self.opening}{self.what}."

    @property
    def opening(self) -> str:
        """The batch, and that it was unusual if it was."""
        if self.kind == "outlier":
            was = "was" if self.first == self.last else "were"
            return f"{self.where} {was} unusual, and the next was not: "
        return f"{self.where}, as a season ago: " if self.kind == "seasonal" else f"{self.where}: "

    @property
    def what(self) -> str:
        """The same without the batch."""
        return self.what_with(())

    @property
    def manner(self) -> Hashable:
        """What events have in common that are told as one: the kind, and how long."""
        alone = self.block if self.changes and self._is_hidden else None
        return self.kind, self.last, self.like, self.period, alone

    def what_with(self, others: Sequence["DriftEvent"]) -> str:
        """What happened, and to which other blocks in the same manner."""
        if self.kind == "new":
            names = [repr(event.block) for event in (self, *others)]
            if others:
                return f"columns {', '.join(names[:-1])} and {names[-1]} vary for the first time"
            return f"column {names[0]} varies for the first time"
        first, *further = self.changes
        name, numbers = as_line(first.parameter), first.numbers
        numbers += _likewise(first, [event.changes[0] for event in others])
        numbers += "".join(f"; {other}" for other in further[:1])
        if self._is_hidden and self.kind != "outlier":
            block = as_line(self.block)
            return (
                f"{block} changed, which no parameter shows clearly; most of all {name}, {numbers}"
            )
        return (
            f"{name} "
            + {
                "abrupt": f"changed at once, {numbers}",
                "gradual": f"drifted, {numbers}{self._late}",
                "recurring": f"went back to what it was until batch {as_line(self.like or '')}, "
                f"{numbers}{self._often}",
                "seasonal": numbers,
                "outlier": numbers,
                "provisional": f"{numbers}; the next batch decides whether that is a change or an "
                "unusual batch",
            }[self.kind]
        )

    @property
    def _late(self) -> str:
        return f" (certain at {as_line(self.told_label)})" if self.told > self.last else ""

    @property
    def _often(self) -> str:
        return f"; it comes back every {self.period} batches" if self.period else ""

    def __str__(self) -> str:
        return self.sentence


def _likewise(first: Change, others: Sequence[Change]) -> str:
    """Changes of other blocks in the same manner; of the same parameter of a column only the condition is said."""
    column, _, _ = first.parameter.partition(" | ")
    columns = {column: [first.parameter]}
    by_name = {change.parameter: change for change in others}
    for name in by_name:
        columns.setdefault(name.partition(" | ")[0], []).append(name)
    names = [name for each in columns.values() for name in each][1 : 1 + _NAMED]
    told = []
    for name in names:
        kind, bar, condition = name.partition(" | ")
        shown = condition if bar and kind == column else name
        column = kind
        told.append(f"{as_line(shown)} {by_name[name].arrow}")
    if len(others) > _NAMED:
        told.append(f"and {len(others) - _NAMED} more")
    return f"; likewise {', '.join(told)}" if told else ""


def as_number(value: float, spread: float, sign: str = "") -> str:
    """As many digits as the spread leaves certain."""
    if not 0.0 < spread < math.inf or not math.isfinite(value):
        return f"{value:{sign}.4g}"
    place = -math.floor(math.log10(spread))
    digits = place + 1 + math.floor(math.log10(abs(value))) if value else 1
    if not -15 < place <= 6 or abs(value) >= 1e15:
        return f"{value:{sign}.{min(max(digits, 2), 15)}g}"
    return f"{value:{sign}z,.{max(place, 0)}f}"


def as_times(factor: float) -> str:
    """How many times, to two digits."""
    if factor >= 1e6:
        return f"{factor:.1e} times"
    return f"{factor:.1f} times" if factor < 10.0 else f"{factor:,.0f} times"


def as_line(text: str) -> str:
    """On one line."""
    return " ".join(text.split())


_SPREADS = {
    "mean of ": "standard deviation of ",
    "intercept of ": "residual standard deviation of ",
}


_MEDIAN, _GEOMETRIC = "median of ", "geometric standard deviation of "


def _within(parameter: str, every: Mapping[str, Comparison]) -> float:
    """What the values behind a parameter vary by within a batch; 0 where that is not known."""
    usual = every[parameter].usual
    for kind, spread in _SPREADS.items():
        known = every.get(spread + parameter.removeprefix(kind))
        if parameter.startswith(kind) and known is not None:
            return known.usual
    if parameter.startswith((_MEDIAN, _GEOMETRIC)):  # both vary with the logarithm
        name = parameter.removeprefix(_MEDIAN).removeprefix(_GEOMETRIC)
        known = every.get(_GEOMETRIC + name)
        return usual * math.log(max(known.usual, 1.0)) if known is not None else 0.0
    if "standard deviation of " in parameter:
        return abs(usual)
    if parameter.startswith("probability of ") and 0.0 <= usual <= 1.0:
        return math.sqrt(usual * (1.0 - usual))
    if parameter.startswith("rate of ") and usual >= 0.0:
        return min(usual, math.sqrt(usual))
    return 0.0


def _has_zero(parameter: str) -> bool:
    """Whether a parameter is positive, with a natural zero."""
    return "standard deviation of " in parameter or parameter.startswith(("rate of ", _MEDIAN))
