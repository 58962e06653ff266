"""DriftMonitor: takes the records of a run one by one and says what has changed."""

import collections
import dataclasses
import heapq
import itertools
import math
import sys
from collections.abc import Callable, Collection, Iterable, Mapping
from statistics import NormalDist
from typing import Any, NamedTuple, final

from streambayes._core.names import meant
from streambayes.drift._event import CLEAR, Change, DriftEvent, Kind
from streambayes.drift._pattern import Pattern, Usual
from streambayes.learning import StepRecord
from streambayes.learning._notes import Comparison
from streambayes.learning._watch import BEHIND, FIRST_SHARE, SCALES, pattern_of, threshold
from streambayes.models import AbstractModel
from streambayes.models._base import parameter_names

__all__ = ["MOST_UNUSUAL", "DriftMonitor", "Unusual"]

_ALIKE = 3.0
"""Parameters nearer to each other than so many standard deviations are not told apart."""
_REMEMBERED = 50
"""Earlier states of a block that it may come back to."""
_AGES = 400
"""After more batches than that, it is not called a return."""
_NEAR = 3
"""Changes in one direction that are at most so many looks apart are one."""
MOST_UNUSUAL = 50
_JUMPS = 3
_BRIEF = 2
"""A change that is undone within so many batches was none: they were unusual."""

Parameters = Mapping[str, Comparison]
MinChange = float | Mapping[str, float]


class Unusual(NamedTuple):
    """A batch in which a block stands out, whether or not it is a change.

    Attributes:
        surprise: Minus the logarithm of the probability that a batch is as far from what is usual, by the batches since the
            last change.
        number: The batch's number.
        label: What it is called.
        block: The block's readable name.
        parameter: Its parameter that is farthest from what is usual.
        before: What is usual: its mean over the batches since the last change.
        after: Its mean by this batch alone.
        fluctuation: Its standard deviation between batches.
    """

    surprise: float
    number: int
    label: str
    block: str
    parameter: str
    before: float
    after: float
    fluctuation: float


@final
class DriftMonitor:
    r"""Finds changes in the records of a run, as they come.

    The watch of a run compares, for every batch and block, going on as usual (steady, wandering or fluctuating as
    the block does) with starting over. Where nothing changes, that Bayes factor exceeds $c$ in at most one batch
    in $c$, so with $M$ blocks the threshold $M / a$ gives at most $a$ false alarms per batch. The next batch
    confirms a change, or says that one batch was unusual. The same at 4, 16 and 64 batches finds slow changes.

    More may be known of an event later. It is then reported again, with the same block and first batch.

    Args:
        false_alarms: How many false alarms per batch to allow, all blocks together: 0.01 is one in 100 batches. From
            1e-12 to 0.5.
        level: Probability of the intervals for differences.
        min_change: The smallest change to tell, in the units of the data: one number, or numbers by parameter or column. By default
            a fifth of what the column varies by within a batch, or the usual fluctuation between batches if that
            is larger.
        seasonal: After how many batches a season comes back, or several such numbers: what is as it was a season ago is
            not told as a change.
        on_event: Called with every event, when it is found and when more is known of it.
    """

    def __init__(
        self,
        *,
        false_alarms: float = 0.01,
        level: float = 0.9,
        min_change: MinChange | None = None,
        seasonal: int | Collection[int] | None = None,
        on_event: Callable[[DriftEvent], Any] | None = None,
    ) -> None:
        self._false_alarms = _number_between("false_alarms", false_alarms, 1e-12, 0.5)
        self.level = _number_between("level", level, 1e-6, 1.0 - 1e-6)
        self._reach = NormalDist().inv_cdf(0.5 + 0.5 * self.level)
        self._min_change = _checked_changes(min_change)
        self._seasons = _checked_seasons(seasonal)
        self._on_event = on_event
        self._blocks: dict[str, _Block] = {}
        self._known: set[str] = set()
        self._events: dict[tuple[str, int], DriftEvent] = {}
        self._batches: collections.deque[tuple[int, str]] = collections.deque(
            maxlen=SCALES[-1] + BEHIND[-1] + 1
        )
        self._unusual: list[Unusual] = []
        self.num_batches = 0

    @property
    def events(self) -> tuple[DriftEvent, ...]:
        """All events so far, in the order of their first batches."""
        return tuple(sorted(self._events.values(), key=lambda event: (event.first, event.block)))

    @property
    def patterns(self) -> tuple[Pattern, ...]:
        """How each block goes on, as far as that is known now."""
        return tuple(block.as_pattern(name) for name, block in self._blocks.items() if block.usual)

    def unusual(self, number: int = 10) -> tuple[Unusual, ...]:
        """Batches and blocks that stand out most, whether or not they are changes, the clearest first; 50 are kept."""
        return tuple(heapq.nlargest(number, self._unusual))

    def check_names(self, model: AbstractModel[Any, Any] | None = None) -> None:
        """Raise ``ValueError`` for a name in ``min_change`` that no parameter, and no column of one, has: of a model, or so far."""
        known = self._known
        if model is not None:
            parts = itertools.chain.from_iterable(parameter_names(model))
            every = (str(name) for part in parts for name in part.names.flat)
            known = set(itertools.chain.from_iterable(map(_names_of, every)))
        given = self._min_change
        for name in given if isinstance(given, Mapping) and known else ():
            if name not in known:
                message = (
                    f"min_change: there is no parameter or column {name!r}{meant(name, known)}"
                )
                raise ValueError(message)

    def __call__(self, record: StepRecord) -> None:
        """The same as ``take``: a monitor can be given as ``on_record``."""
        self.take(record)

    def take(self, record: StepRecord) -> list[DriftEvent]:
        """The next record of a run.

        Returns events that are new, and earlier ones of which more is known.
        """
        self.num_batches += 1
        found = [*self._new_columns(record)]
        if record.num_rows and record.alone:
            self._batches.append((record.index, record.label))
            for name, alone in record.alone.items():
                if name not in self._blocks:
                    self._blocks[name] = _Block(self._seasons)
                    self._known.update(*map(_names_of, alone))
                block = self._blocks[name]
                found += self._looked(name, block, record, alone)
        for event in found:
            self._events[event.block, event.first] = event
            if self._on_event is not None:
                self._on_event(event)
        return found

    def _new_columns(self, record: StepRecord) -> Iterable[DriftEvent]:
        for name in record.new_columns:
            yield DriftEvent(
                block=name,
                kind="new",
                first=record.index,
                last=record.index,
                label=record.label,
                last_label=record.label,
                told=record.index,
                told_label=record.label,
            )

    def _looked(
        self, name: str, block: "_Block", record: StepRecord, alone: Mapping[str, float]
    ) -> list[DriftEvent]:
        looks = (record.looks or {}).get(name, ())
        found: list[DriftEvent] = []
        for scale, (first, second) in enumerate(looks):
            least = threshold(len(record.looks or ()), self._false_alarms, scale)
            if scale in block.waiting and second is not None:
                waiting = block.waiting.pop(scale)
                found += self._decided(name, block, waiting, second, least, record)
            elif not scale and second is not None and block.newest is not None:
                found += self._spoilt(name, block, -second, least, record)
            if first is None:
                continue
            compared = (record.compared or {}).get(name, {}).get(scale)
            if not scale:
                is_extreme = self._rank(name, block, record, alone)
                block.newest = (record, compared, is_extreme) if compared else None
            if first >= FIRST_SHARE * least and compared:
                block.waiting[scale] = self._opened(name, block, scale, first, record, compared)
        newest = block.waiting.get(0)
        stands_out = (
            newest is not None
            and newest.last[0] == record.index
            and newest.evidence >= threshold(len(record.looks or ()), self._false_alarms, 0)
        )
        if newest is not None and stands_out:
            found.append(self._event(name, "provisional", newest, newest.evidence, record))
        if not looks or looks[0][0] is not None:
            block.add(alone, is_usual=not stands_out)
        block.pattern = (record.pattern or {}).get(name, block.pattern)
        return found

    def _decided(
        self,
        name: str,
        block: "_Block",
        waiting: "_Waiting",
        second: float,
        least: float,
        record: StepRecord,
    ) -> Iterable[DriftEvent]:
        """What the second look makes of the first."""
        evidence = waiting.evidence + second
        if second > 0.0 and evidence >= least:
            event = self._event(name, "abrupt", waiting, evidence, record)
            yield self._changed(block, waiting, event)
        elif not waiting.scale and waiting.evidence >= least:
            yield self._event(name, "outlier", waiting, waiting.evidence, record)

    def _spoilt(
        self, name: str, block: "_Block", evidence: float, least: float, record: StepRecord
    ) -> Iterable[DriftEvent]:
        """The last batch was unusual, which did not stand out before this one came: told if it is extreme."""
        if block.newest is None:
            return
        before, compared, is_extreme = block.newest
        if is_extreme and evidence >= least:
            waiting = self._opened(name, block, 0, evidence, before, compared)
            for usual in block.usual.values():
                usual.take_back()
            yield self._event(name, "outlier", waiting, evidence, record)

    def _changed(self, block: "_Block", waiting: "_Waiting", event: DriftEvent) -> DriftEvent:
        """A change: sudden, slow, one more step of a slow one, or back to what was before."""
        last = block.last
        for other in (waiting, *block.waiting.values()):  # this change explains them
            self._forget(event.block, other)
        block.waiting = {}
        if last is not None and block.is_excursion(last, waiting):
            return block.end_excursion(last, waiting, event)
        if self._is_seasonal(block, waiting):
            event = dataclasses.replace(event, kind="seasonal")
        elif last is not None and _goes_on(last, event, SCALES[waiting.scale]):
            event = _joined(last, event)
        elif waiting.scale:
            event = dataclasses.replace(event, kind="gradual")
        else:
            event = block.as_return(event, waiting)
        block.remember(waiting)
        block.last = event
        block.num_changes += 1
        for usual in block.usual.values():
            usual.restart()
        return event

    def _forget(self, name: str, waiting: "_Waiting") -> None:
        """Take back what was told of a look that nothing will decide about."""
        key = name, waiting.first[0]
        if key in self._events and self._events[key].kind == "provisional":
            del self._events[key]

    def _is_seasonal(self, block: "_Block", waiting: "_Waiting") -> bool:
        """Whether a block is nearer to what it was a season ago than to what was usual."""
        name = waiting.changes[0].parameter
        now, usual = waiting.compared[name].now, waiting.compared[name].usual
        for season in self._seasons:
            # the batch after the one that is compared has been added, too
            before = block.usual[name].ago(season) if name in block.usual else None
            if before is not None and abs(now - before) < 0.5 * abs(now - usual):
                return True
        return False

    def _opened(
        self,
        name: str,
        block: "_Block",
        scale: int,
        evidence: float,
        record: StepRecord,
        compared: Parameters,
    ) -> "_Waiting":
        ends_before = self._batches[-1][0] != record.index
        begin = ends_before + BEHIND[scale]
        until = begin + SCALES[scale] + 1
        held = [*itertools.islice(reversed(self._batches), begin, until)] or [
            (record.index, record.label)  # this run has not seen its batches
        ]
        first = held[min(SCALES[scale], len(held)) - 1]
        changes = [
            Change.between(
                each,
                compared,
                reach=self._reach,
                fluctuation=block.usual[each].fluctuation if each in block.usual else None,
                least=self._least(each),
            )
            for each in compared
        ]
        changes = [change for change in changes if math.isfinite(change.distance)]
        changes.sort(key=lambda change: -abs(change.distance))
        clear = [
            change for change in changes[1:] if abs(change.distance) >= CLEAR and change.size >= 1
        ]
        rho = record.rho.get(name) if isinstance(record.rho, dict) else record.rho
        return _Waiting(
            scale,
            evidence,
            held[-1][1],
            first,
            held[0],
            compared,
            (*changes[:1], *clear),
            rho,
            record.index,
        )

    def _least(self, parameter: str) -> float | None:
        """The user's own smallest change of a parameter, by its name or that of its column."""
        given = self._min_change
        if not isinstance(given, Mapping):
            return given
        return next((given[name] for name in _names_of(parameter) if name in given), None)

    def _event(
        self, name: str, kind: Kind, waiting: "_Waiting", evidence: float, record: StepRecord
    ) -> DriftEvent:
        (first, label), (last, last_label) = waiting.first, waiting.last
        return DriftEvent(
            block=name,
            kind=kind,
            first=first,
            last=last,
            label=label,
            last_label=last_label,
            told=record.index,
            told_label=record.label,
            changes=waiting.changes,
            evidence=evidence,
            rho=waiting.rho,
            sources=(waiting.source, waiting.source),
        )

    def _rank(
        self, name: str, block: "_Block", record: StepRecord, alone: Mapping[str, float]
    ) -> bool:
        """Keep what stands out most, by the parameter that is farthest from what is usual; whether it is farther than ever."""
        parameter, distance = block.farthest(alone)
        if parameter is None:
            return False
        usual, value = block.usual[parameter], alone[parameter]
        surprise = usual.surprise(distance)
        if len(self._unusual) < MOST_UNUSUAL or surprise > self._unusual[0].surprise:
            entry = Unusual(
                surprise,
                record.index,
                record.label,
                name,
                parameter,
                usual.mean,
                value,
                usual.fluctuation or 0.0,
            )
            push = heapq.heappush if len(self._unusual) < MOST_UNUSUAL else heapq.heapreplace
            push(self._unusual, entry)
        return usual.is_extreme(value)


class _Waiting(NamedTuple):
    """A look that the next one decides about: its batches, its evidence, and what is compared."""

    scale: int
    evidence: float
    before: str
    first: tuple[int, str]
    last: tuple[int, str]
    compared: Parameters
    changes: tuple[Change, ...]
    rho: float | None
    source: int


class _Regime(NamedTuple):
    """What a block was before a change, and the last batch in which it was so."""

    last: int
    label: str
    parameters: Parameters


class _Block:
    """What is known of a block so far."""

    def __init__(self, seasons: tuple[int, ...]) -> None:
        self.waiting: dict[int, _Waiting] = {}
        self.newest: tuple[StepRecord, Parameters, bool] | None = None
        self.usual: dict[str, Usual] = {}
        self.pattern: tuple[float, float, float] | None = None
        self.last: DriftEvent | None = None
        self.num_changes = 0
        self._seasons_said = bool(seasons)  # else one may be suspected
        self._kept = max(seasons, default=0) + 2
        self._past: collections.deque[_Regime] = collections.deque(maxlen=_REMEMBERED)
        self._returns: dict[tuple[str, bool], list[int]] = {}
        self._period: int | None = None

    def add(self, alone: Mapping[str, float], *, is_usual: bool) -> None:
        """What the batch says by itself."""
        for name, value in alone.items():
            if name not in self.usual:
                self.usual[name] = Usual(self._kept)
            self.usual[name].add(value, is_usual=is_usual)

    def farthest(self, alone: Mapping[str, float]) -> tuple[str | None, float]:
        """The parameter that is farthest from what is usual, and how far."""
        known = [
            (distance, name)
            for name, value in alone.items()
            if name in self.usual and (distance := self.usual[name].distance(value)) is not None
        ]
        distance, name = max(known, default=(-math.inf, None))
        return name, distance

    def is_excursion(self, last: DriftEvent, waiting: _Waiting) -> bool:
        """Whether the last change is undone within a few batches."""
        if waiting.scale or last.kind != "abrupt" or not self._past:
            return False
        return 0 < waiting.first[0] - last.first <= _BRIEF and _is_back(waiting, self._past[-1])

    def end_excursion(self, last: DriftEvent, waiting: _Waiting, event: DriftEvent) -> DriftEvent:
        """The last change was none: a few batches were unusual."""
        self._past.pop()
        self.last = None
        self.num_changes -= 1
        for usual in self.usual.values():
            usual.restart()
        return dataclasses.replace(
            last,
            kind="outlier",
            last=waiting.first[0] - 1,
            last_label=waiting.before,
            told=event.told,
            told_label=event.told_label,
        )

    def remember(self, waiting: _Waiting) -> None:
        """What was usual before a change."""
        self._past.append(_Regime(waiting.first[0] - 1, waiting.before, waiting.compared))

    def as_return(self, event: DriftEvent, waiting: _Waiting) -> DriftEvent:
        """The event as one that goes back to what was before an earlier change, if it does."""
        for past in reversed(self._past):
            if waiting.first[0] - past.last <= _AGES and _is_back(waiting, past):
                change = event.changes[0]
                way = change.parameter, change.difference > 0.0
                returns = self._returns.setdefault(way, [])
                returns.append(event.first)
                known, self._period = self._period, _distance(returns)
                kind: Kind = "recurring" if known is None else "seasonal"  # said once
                return dataclasses.replace(event, kind=kind, like=past.label, period=self._period)
        return event

    def as_pattern(self, name: str) -> Pattern:
        """How the block goes on."""
        parameter, usual = next(iter(self.usual.items()))
        kind = "new" if self.pattern is None else pattern_of(self.pattern)
        trends = {name: trend for name, each in self.usual.items() if (trend := each.trend())}
        if trends and not self._seasons_said:
            kind, parameter = "trend", next(iter(trends))
            usual = self.usual[parameter]
        if self.num_changes >= _JUMPS and kind not in ("wanders", "trend"):
            kind = "jumps"
        return Pattern(
            block=name,
            kind="new" if kind == "steady" and usual.spread is None else kind,
            parameter=parameter,
            around=usual.mean,
            fluctuation=usual.spread,
            span=usual.span,
            memory=math.nan if self.pattern is None else self.pattern[2],
            changes=self.num_changes,
            season=None if self._seasons_said or kind in ("steady", "trend") else usual.season(),
            trend=trends.get(parameter),
        )


def _distance(returns: list[int]) -> int | None:
    """After how many batches a block comes back, if the last four returns are at a regular distance."""
    gaps = [later - sooner for sooner, later in itertools.pairwise(returns[-4:])]
    if len(gaps) < 3 or max(gaps) - min(gaps) > max(1, 0.1 * max(gaps)):
        return None
    return round(sum(gaps) / len(gaps))


def _is_back(waiting: _Waiting, past: _Regime) -> bool:
    """Whether a block is again what it was, and much nearer to that than to what it was before it came back."""
    least = {change.parameter: change.least for change in waiting.changes}
    for name, now in waiting.compared.items():
        if name not in past.parameters:
            continue
        before = past.parameters[name]
        gap = abs(now.now - before.usual)
        spread = math.hypot(now.now_sd, before.usual_sd)
        if gap > max(_ALIKE * spread, least.get(name, 0.0)):
            return False
        if name == waiting.changes[0].parameter and gap > 0.25 * abs(now.now - now.usual) + spread:
            return False
    return True


def _goes_on(last: DriftEvent, event: DriftEvent, size: int) -> bool:
    """Whether a change is one more step of the last one: near it, of the same parameter, from there on in its direction, not much smaller."""
    before, after = last.changes[0], event.changes[0]
    size = max(size, last.last - last.first + 1 if last.kind == "gradual" else 1)
    if event.first - last.last > _NEAR * min(size, SCALES[2]) or last.kind == "seasonal":
        return False
    ratio = after.difference / before.difference if before.difference else 0.0
    back = (before.after - after.before) / before.difference if before.difference else math.inf
    if back > 0.5:  # meanwhile it has gone back half of the way
        return False
    is_slow = last.kind == "gradual"  # whose difference is that of all its steps
    return before.parameter == after.parameter and (0.0 if is_slow else 0.25) < ratio <= 4.0


def _joined(last: DriftEvent, event: DriftEvent) -> DriftEvent:
    """Two steps as one slow change."""
    before, after = last.changes[0], event.changes[0]
    spread = 0.5 * (after.upper - after.lower)
    change = dataclasses.replace(
        after,
        before=before.before,
        before_sd=before.before_sd,
        fluctuation=before.fluctuation,
        least=before.least,
        lower=after.after - before.before - spread,
        upper=after.after - before.before + spread,
    )
    return dataclasses.replace(
        event,
        kind="gradual",
        first=last.first,
        label=last.label,
        changes=(change,),
        evidence=last.evidence + event.evidence,
        sources=(
            last.sources[0] if last.sources else last.last,
            event.sources[1] if event.sources else event.last,
        ),
    )


def _names_of(parameter: str) -> tuple[str, str, str]:
    """By what names ``min_change`` may call a parameter: its own and that of its column."""
    column = parameter.rpartition(" of ")[2].partition(" | ")[0]
    return parameter, column, column.partition(" on ")[0]


def _number_between(name: str, given: Any, least: float, most: float) -> float:
    try:
        number = float(given)
    except (TypeError, ValueError):
        number = math.nan
    if not least <= number <= most:
        message = f"{name} must be a number from {least:g} to {most:g}, got {given!r}"
        raise ValueError(message)
    return number


def _checked_changes(given: Any) -> MinChange | None:
    if given is None:
        return None
    every = given if isinstance(given, Mapping) else {"": given}
    numbers = {
        str(name): _number_between("min_change", number, 0.0, sys.float_info.max)
        for name, number in every.items()
    }
    return numbers if isinstance(given, Mapping) else numbers[""]


def _checked_seasons(given: Any) -> tuple[int, ...]:
    if given is None:
        return ()
    seasons = tuple(given) if isinstance(given, Collection) else (given,)
    if not all(isinstance(season, int) and season >= 2 for season in seasons):
        message = f"seasonal must be a number of batches of at least 2, or several, got {given!r}"
        raise ValueError(message)
    return seasons
