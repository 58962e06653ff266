"""What a column is taken as in a proposal: by its name and its cells, with the reason in words."""

import collections
import dataclasses
import datetime as dt
import functools
import math
import re
from collections.abc import Collection, Mapping
from typing import Any, final

import numpy as np

from streambayes._core.column import _is_number, is_missing

__all__ = [
    "BERNOULLI",
    "CATEGORICAL",
    "LEFT_OUT",
    "NORMAL",
    "OTHER",
    "POISSON",
    "TIME",
    "ProposedColumn",
    "column_kinds",
]

TIME, NORMAL, BERNOULLI, CATEGORICAL = "time", "normal", "bernoulli", "categorical"
POISSON, LEFT_OUT = "poisson", "left out"
OTHER = "other"
"""The category of values that are not listed."""

_MOST_TEXTS = 50
"""The most values of a column of text that are all categories."""
_MOST_NUMBERS = 10
"""The most values of a column of whole numbers that are categories."""
_FREQUENT = 19
"""Categories besides ``OTHER`` where there are more values than that."""
_ROWS_A_VALUE = 4
"""Rows that each value has at least, on average, where values are categories."""
_ENOUGH = 20
"""Rows from which on counts and skewness can be told."""
_EXPECTED_REPEATS = 10
"""Repeats that chance would have made from which on their absence says something."""
_COPIED = 1e-6
"""How far a correlation is from 1 at most where a column is another one in other units."""
_KNOWN = 0.05
"""Share of the cells that must not be missing."""
_HOURS, _QUARTERS, _MINUTES = 4, 3, 12
"""The fewest hours of a column of clock times, and its fewest minutes, if its name says time and if not."""
_YEARS = (1500, 2200)
_SHORT_YEARS = (10, 99)
_LARGE_MEAN = 100
"""Numbers that are larger on average are not called counts unless their name says so."""
_EPOCHS = (1e8, 1e14)
"""Numbers that can be seconds or milliseconds since 1970."""
_PARTS = {
    "month": 12, "mday": 31, "day": 366, "yday": 366, "doy": 366, "wday": 7, "weekday": 7, "dow": 7, "week": 53,
    "quarter": 4, "qtr": 4, "hour": 24, "hr": 24, "minute": 59, "second": 59,
}  # fmt: skip
"""Words for parts of a date, and the largest number that each can be."""
_YEAR_WORDS = {"year", "yr", "yyyy"}
_TIME_WORDS = {"time", "timestamp", "date", "datetime", "when", "ts", "index", *_YEAR_WORDS}
_PAST_WORDS = {"birth", "born", "built", "founded", "made", "model"}
"""Words for when something came to be, long before its row."""
_CLOCK_WORDS = {"time", "t", "timestamp", "ts", "epoch", "unixtime", "date"}
"""Names that, alone, are those of a clock if their numbers never go back."""
_CODE_WORDS = {
    "id", "code", "zip", "zipcode", "postcode", "postal", "fips", "uuid", "sku", "ssn", "rownames", "row", "obs",
}  # fmt: skip
_NUMBERING_WORDS = {"no", "nr", "num", "number"}
"""Last words of names such as ``flight_number``."""
_THINGS = {
    "account", "company", "country", "county", "customer", "device", "district", "firm", "flight", "household",
    "individual", "invoice", "item", "order", "patient", "person", "plot", "product", "region", "route", "school",
    "sensor", "site", "state", "station", "store", "student", "subject", "ticket", "train", "user", "vehicle", "zone",
}  # fmt: skip
"""What a column of whole numbers that has such a name tells apart."""
_COUNTING_WORDS = {"count", "counts", "num", "number", "n"}
_DIRECTION = re.compile(r"(wind)?dir(ection)?(\d.*)?|angle|azimuth|bearing|heading")
"""Words for directions in degrees."""
_DATE = re.compile(r"\d{4}-?\d\d-?\d\d")
_OTHER_DATE = re.compile(
    r"\d{1,2}([./-])\d{1,2}\1\d{2,4}\b|\d{4}[ -]?(\d\d?|[QqMm]\d\d?)$|\d{4}/\d\d?/\d\d?\b"
)
"""Days, months and quarters as they are often written, but not as the library reads them."""
OTHER_DATES = "dates, but not as the library reads them"


@final
@dataclasses.dataclass(frozen=True)
class ProposedColumn:
    """What a column is taken as, and why.

    Attributes:
        name: The column.
        kind: ``"time"``, ``"normal"``, ``"bernoulli"``, ``"categorical"``, ``"poisson"`` or ``"left out"``.
        why: The reason, in words.
        categories: Of a categorical column, its values.
        has_others: Whether its category ``"other"`` stands for values that are not listed.
        skewed: Whether its logarithm would be closer to normal.
    """

    name: str
    kind: str
    why: str
    categories: tuple[str | int, ...] = ()
    has_others: bool = False
    skewed: bool = False


def column_kinds(
    columns: Mapping[str, np.ndarray], *, named: Collection[str] = (), is_whole: bool = True
) -> tuple[ProposedColumn, ...]:
    """What each column is taken as.

    Args:
        columns: Their cells.
        named: Columns that the model shall have, whatever they look like.
        is_whole: Whether these are all rows; if not, there may be more categories than are seen.
    """
    cells = {name: _Cells(name, np.asarray(values)) for name, values in columns.items()}
    time = _time_of([each for name, each in cells.items() if name not in named])
    kinds = {
        name: _named(each, is_whole)
        if name in named
        else each.as_time
        if each is time
        else _judged(each, time, is_whole)
        for name, each in cells.items()
    }
    numbers = [name for name, kind in kinds.items() if kind.kind == NORMAL]
    for name, first in _copies({name: cells[name].numbers for name in numbers}).items():
        if name not in named:
            kinds[name] = ProposedColumn(name, LEFT_OUT, f"{first!r} in other units")
    return tuple(kinds.values())


@final
class _Cells:
    """The cells of a column that are not missing, by what they are.

    Attributes:
        name: The column.
        words: The words of its name, in small letters.
        num_missing: How many cells are missing.
        kind: ``"number"``, ``"flag"``, ``"text"``, ``"date"``, ``"mixed"`` (numbers and text), ``"none"`` or
            ``"strange"``.
        numbers: The cells of a column of numbers or flags.
        counts: How often there is each text.
        moments: In seconds since 1970, of a column of dates; ``None`` of others.
    """

    def __init__(self, name: str, values: np.ndarray) -> None:
        self.name = name
        spaced = re.sub(r"(?<=[a-z0-9])(?=[A-Z])", " ", name)
        self.words = re.sub(r"[\W_]+", " ", spaced).lower().split()
        self.numbers = np.empty(0)
        self.counts: collections.Counter[str] = collections.Counter()
        self.moments: np.ndarray | None = None
        if values.dtype.kind in "biuf":
            self._take_numbers(values)
        elif values.dtype.kind == "M":
            self._take_dates(values.astype("datetime64[us]"))
        else:
            self._take_objects(values)
        self.num_missing = len(values) - self.num_known

    def _take_numbers(self, values: np.ndarray) -> None:
        numbers = values.astype(np.float64)
        self.numbers = numbers[~np.isnan(numbers)]
        self.num_known = len(self.numbers)
        self.kind = "flag" if values.dtype.kind == "b" else "number"
        self.kind = self.kind if self.num_known else "none"

    def _take_dates(self, values: np.ndarray) -> None:
        known = values[~np.isnat(values)]
        self.num_known = len(known)
        self.kind = "date" if self.num_known else "none"
        self.moments = known.astype(np.int64) / 1e6

    def _take_objects(self, values: np.ndarray) -> None:
        known = [cell for cell in values.tolist() if not is_missing(cell)]
        self.num_known = len(known)
        kinds = {type(cell) for cell in known}
        if not kinds:
            self.kind = "none"
        elif kinds == {str}:
            self._take_texts(known)
        elif all(issubclass(kind, dt.date) for kind in kinds):
            self._take_dates(np.array([_moment(cell) for cell in known], "datetime64[us]"))
        elif not any(issubclass(kind, str) for kind in kinds) and all(map(_is_number, known)):
            self._take_numbers(np.array(known, np.bool_ if kinds == {bool} else np.float64))
        else:
            self.kind = "mixed" if str in kinds else "strange"
            self.counts = collections.Counter(cell for cell in known if isinstance(cell, str))

    def _take_texts(self, known: list[str]) -> None:
        self.kind = "text"
        self.counts = collections.Counter(known)
        if not _DATE.match(known[0]):
            return
        try:
            moments = {text: _moment(dt.datetime.fromisoformat(text)) for text in self.counts}
        except ValueError:
            return
        self._take_dates(np.array([moments[text] for text in known], "datetime64[us]"))

    @functools.cached_property
    def values(self) -> np.ndarray:
        """The distinct numbers, in order."""
        return np.unique(self.numbers)

    @functools.cached_property
    def is_whole(self) -> bool:
        """Whether all numbers are whole ones."""
        return bool((self.values == np.floor(self.values)).all())

    @property
    def num_values(self) -> int:
        """How many different values there are."""
        if self.moments is not None:
            return len(np.unique(self.moments))
        return len(self.counts) if self.counts else len(self.values)

    @property
    def least(self) -> float:
        return float(self.values[0])

    @property
    def largest(self) -> float:
        return float(self.values[-1])

    @property
    def is_upward(self) -> bool:
        """Whether its moments or numbers never go back."""
        return _share_of_steps_back(self.numbers if self.moments is None else self.moments) == 0.0

    @property
    def are_steps_of_one(self) -> bool:
        """Whether each number is one more than the one before."""
        return self.num_known > 1 and bool((np.diff(self.numbers) == 1).all())

    @functools.cached_property
    def is_year(self) -> bool:
        """Whether these are years: by the name, or since they follow each other without a gap."""
        if self.kind != "number" or not self.is_whole:
            return False
        if len(self.words) == 1 and self.words[0] in _YEAR_WORDS and self.is_short_year:
            return True
        if _YEAR_WORDS & set(self.words):
            return self.lies_in(_YEARS)
        return self.lies_in(_YEARS) and self.are_steps_of_one and self.num_known >= _ROWS_A_VALUE

    @property
    def is_short_year(self) -> bool:
        """Whether these can be years such as 87, or the first, second, third year."""
        return self.lies_in(_SHORT_YEARS) or (self.lies_in((0, 99)) and self.is_upward)

    @functools.cached_property
    def is_clock(self) -> bool:
        """Whether these are numbers of a clock: decimal years, seconds since 1970, and the like."""
        if self.kind != "number" or len(self.words) != 1 or self.num_values < 3:
            return False
        if self.words[0] in _CLOCK_WORDS and self.lies_in(_YEARS) and not self.is_whole:
            return True
        is_named = self.words[0] in _CLOCK_WORDS or self.words[0] in _PARTS
        return is_named and self.is_upward and not self.are_steps_of_one

    def lies_in(self, bounds: tuple[float, float]) -> bool:
        """Whether all numbers do."""
        return bounds[0] <= self.least <= self.largest <= bounds[1]

    @property
    def as_time(self) -> ProposedColumn:
        """The column as the time."""
        why = "years" if self.is_year else "numbers that go up, as a clock's do"
        return ProposedColumn(self.name, TIME, "dates" if self.kind == "date" else why)


def _time_of(cells: list[_Cells]) -> _Cells | None:
    """The column that is the time: without missing cells, in order if there is one, dates before numbers."""

    def rank(each: _Cells) -> tuple[bool, ...]:
        steps = _share_of_steps_back(each.numbers if each.moments is None else each.moments)
        named = not each.words or bool(_TIME_WORDS & set(each.words))
        is_part = each.moments is None and _part_of_date(each)
        return is_part, steps > 0.2, each.moments is None, not named

    fitting = [
        each
        for each in cells
        if (each.kind == "date" or each.is_year or each.is_clock)
        and not each.num_missing
        and each.num_values > 1
        and not _PAST_WORDS & set(each.words)
    ]
    return min(fitting, key=rank, default=None)


def _judged(cells: _Cells, time: _Cells | None, is_whole: bool) -> ProposedColumn:
    """What a column is that is not the time."""
    why = _useless(cells)
    if why is not None:
        return ProposedColumn(cells.name, LEFT_OUT, why)
    if cells.kind == "date":
        why = f"dates; the time is {time.name!r}" if time else "dates"
        if cells.num_missing:
            why = f"dates, {cells.num_missing:,} of them missing"
        return ProposedColumn(cells.name, LEFT_OUT, why)
    if cells.kind == "flag":
        return ProposedColumn(cells.name, BERNOULLI, "true or false")
    return _judged_text(cells, is_whole) if cells.kind == "text" else _judged_number(cells, time)


def _useless(cells: _Cells) -> str | None:
    """Why no model can take a column, whatever it means."""
    num_rows = cells.num_known + cells.num_missing
    mixed = cells.counts.most_common(1) if cells.kind == "mixed" else []
    reasons = {
        "all of its cells are missing": cells.kind == "none",
        "its cells are neither numbers nor text": cells.kind == "strange",
        "no name": not cells.name,
        "the same in all rows": not mixed and cells.num_values == 1,
        f"missing in all but {_rows(cells.num_known)}": cells.num_known < _KNOWN * num_rows,
        **{
            f"numbers and text, such as {_short(text)} in {_rows(number)}": True
            for text, number in mixed
        },
    }
    return next((why for why, holds in reasons.items() if holds), None)


def _judged_text(cells: _Cells, is_whole: bool) -> ProposedColumn:
    num_values, num_rows = cells.num_values, cells.num_known
    listed = sum(number for _, number in cells.counts.most_common(_FREQUENT))
    if all(map(_OTHER_DATE.match, cells.counts)):
        why = f"{OTHER_DATES}: 2013-01-31"
    elif _part_of_date(cells) and num_values <= 12:
        why = f"the {cells.words[-1]}, part of a date"
    elif num_values > _MOST_TEXTS and 2 * listed >= num_rows:
        return _categories_of_text(cells, is_whole)
    elif num_rows < (2 if num_values <= 5 else _ROWS_A_VALUE) * num_values:
        why = f"text of {num_values:,} values in {_rows(num_rows)}: too many for categories"
        if num_values == num_rows:
            why = f"text that differs from row to row: {num_values:,} values in {_rows(num_rows)}"
    elif num_values <= _MOST_TEXTS:
        return _categories_of_text(cells, is_whole)
    else:
        why = f"text with {num_values:,} values, of which {_FREQUENT} make up {listed / num_rows:.0%} of the rows"
    return ProposedColumn(cells.name, LEFT_OUT, why)


def _categories_of_text(cells: _Cells, is_whole: bool) -> ProposedColumn:
    """All values, or the most frequent and ``OTHER``; also where there may be more in rows not seen."""
    num_values = cells.num_values
    listed, why = sorted(cells.counts), f"{num_values} values"
    has_others = not is_whole
    if num_values > _MOST_TEXTS:
        has_others = True
        listed = sorted(text for text, _ in cells.counts.most_common(_FREQUENT))
        why = f"{num_values:,} values: the {_FREQUENT} most frequent, and others"
    elif has_others:
        why += ", and others in rows that were not seen"
    if has_others and OTHER not in listed:
        listed.append(OTHER)
    return ProposedColumn(cells.name, CATEGORICAL, why, tuple(listed), has_others)


def _judged_number(cells: _Cells, time: _Cells | None) -> ProposedColumn:
    """Numbers: the first rule that says what they are."""
    if not math.isfinite(cells.least) or not math.isfinite(cells.largest):
        return ProposedColumn(cells.name, LEFT_OUT, "some of its numbers are infinite")
    rules = (
        _row_number, _year, _moment_in_digits, _part, _direction, _code, _clock_time, _count, _few_numbers,
    )  # fmt: skip
    for rule in rules:
        found = rule(cells, time)
        if found is not None:
            return found
    return _numbers(cells)


def _row_number(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    del time
    if cells.is_whole and cells.are_steps_of_one and not cells.is_year and cells.num_known > 2:
        return ProposedColumn(cells.name, LEFT_OUT, "row numbers")
    return None


def _year(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    if not cells.is_year:
        return None
    why = "years" if time is None else f"years; the time is {time.name!r}"
    if cells.num_missing:
        why = f"years, {cells.num_missing:,} of them missing"
    return ProposedColumn(cells.name, LEFT_OUT, why)


def _moment_in_digits(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    """Numbers such as 20130131, decimal years, and seconds since 1970."""
    del time
    if cells.is_clock and cells.lies_in(_YEARS):
        return ProposedColumn(cells.name, LEFT_OUT, "decimal years")
    if not cells.is_whole or not set(cells.words) & (_TIME_WORDS | _CLOCK_WORDS):
        return None
    days = cells.values
    months, days_of_month = days // 100 % 100, days % 100
    if (
        cells.lies_in((_YEARS[0] * 1e4, _YEARS[1] * 1e4))
        and ((months >= 1) & (months <= 12) & (days_of_month >= 1) & (days_of_month <= 31)).all()
    ):
        why = "days as numbers; written as 2013-01-31 they could be the time"
        return ProposedColumn(cells.name, LEFT_OUT, why)
    if cells.lies_in(_EPOCHS):
        return ProposedColumn(cells.name, LEFT_OUT, "seconds since 1970")
    return None


def _clock_time(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    """Numbers such as 1430 for half past two: over several hours, and none ends in 60 to 99."""
    del time
    if not cells.is_whole or not cells.lies_in((0, 2400)) or cells.num_values < _ENOUGH:
        return None
    hours, minutes = np.unique(cells.values // 100), np.unique(cells.values % 100)
    is_named = bool(_TIME_WORDS & set(cells.words))
    if (
        len(hours) < _HOURS
        or len(minutes) < (_QUARTERS if is_named else _MINUTES)
        or minutes[-1] >= 60
    ):
        return None
    why = "clock times written as hhmm: 1430 is not 1,430"
    return ProposedColumn(cells.name, LEFT_OUT, why)


def _direction(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    """Degrees of most of a circle; few different ones may be categories."""
    del time
    is_named = any(map(_DIRECTION.fullmatch, cells.words))
    if not is_named or not cells.lies_in((0, 360)) or cells.largest <= 270:
        return None
    if cells.num_values <= _MOST_NUMBERS:
        return None
    why = "directions in degrees, on a circle: 350 is close to 10"
    return ProposedColumn(cells.name, LEFT_OUT, why)


def _part_of_date(cells: _Cells) -> bool:
    return bool(cells.words) and cells.words[-1] in _PARTS


def _part(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    del time
    if not _part_of_date(cells) or not cells.is_whole or cells.values.tolist() == [0, 1]:
        return None
    word = cells.words[-1]
    if cells.lies_in((0, _PARTS[word])):
        return ProposedColumn(cells.name, LEFT_OUT, f"the {word}, part of a date")
    if len(cells.words) == 1:
        return ProposedColumn(cells.name, LEFT_OUT, f"numbers of a {word}")
    return None


def _code(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    """Whole numbers that name things: by their own name, or by how often they repeat."""
    del time
    if not cells.is_whole:
        return None
    words, num_values = cells.words, cells.num_values
    is_coded = bool(_CODE_WORDS & {words[0], words[-1]}) or words[-1] in _THINGS if words else False
    is_coded |= len(words) > 1 and words[-1] in _NUMBERING_WORDS
    if is_coded and num_values <= _MOST_TEXTS and cells.num_known >= _ROWS_A_VALUE * num_values:
        return _categories_of_numbers(cells)
    if not (is_coded or _repeats_too_little(cells)):
        return _labels(cells)
    return ProposedColumn(cells.name, LEFT_OUT, f"numbers that name things: {num_values:,} of them")


def _repeats_too_little(cells: _Cells) -> bool:
    """Whether whole numbers are so seldom equal that they must have been given out."""
    span = cells.largest - cells.least + 1
    expected = cells.num_known + span * math.expm1(-cells.num_known / span)
    return expected >= _EXPECTED_REPEATS and cells.num_known - cells.num_values < expected / 20


def _labels(cells: _Cells) -> ProposedColumn | None:
    """Numbers from 0 or 1 on without a gap, most of them equally often."""
    least, largest, num_values = cells.least, cells.largest, cells.num_values
    if least not in (0, 1) or largest - least + 1 != num_values or num_values <= _MOST_NUMBERS:
        return None
    how_often = np.bincount(cells.numbers.astype(int))[int(least) :]
    same = np.bincount(how_often)
    if same.argmax() < _ROWS_A_VALUE or same.max() < num_values / 2:
        return None
    why = f"labels: {least:.0f} to {largest:.0f}, {_rows(int(same.argmax()))} each"
    return ProposedColumn(cells.name, LEFT_OUT, why)


def _count(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    """Counts, if they vary about as much as Poisson's do."""
    del time
    if not cells.is_whole or cells.least < 0 or cells.num_values < 3 or cells.num_known < _ENOUGH:
        return None
    is_named = bool(cells.words) and bool(_COUNTING_WORDS & {cells.words[0], cells.words[-1]})
    if not is_named and (cells.least > 0 or cells.num_values < 5):
        return None
    mean, variance = float(cells.numbers.mean()), float(cells.numbers.var())
    if 0.5 * mean <= variance <= 2.0 * mean:
        if is_named or _is_near_poisson(cells.numbers, mean):
            said = f"counts, mean {mean:.3g} and variance {variance:.3g}"
            said += ", somewhat overdispersed" if variance > 1.3 * mean else ""
            return ProposedColumn(cells.name, POISSON, said)
    elif variance > 2.0 * mean and cells.num_values > _MOST_NUMBERS:
        if not is_named and (mean > _LARGE_MEAN or _skewness(cells.numbers) < 1.0):
            return None
        told = _numbers(cells)
        times = f"{variance / mean:.2g}" if variance < 100 * mean else f"{variance / mean:,.0f}"
        why = f"counts whose variance is {times} times their mean: overdispersed, so not Poisson"
        return dataclasses.replace(told, why=f"{why}; {told.why}" if told.skewed else why)
    return None


def _few_numbers(cells: _Cells, time: _Cells | None) -> ProposedColumn | None:
    del time
    num_values = cells.num_values
    if num_values > _MOST_NUMBERS or cells.num_known < _ROWS_A_VALUE * num_values:
        return None
    if cells.is_whole:
        return _categories_of_numbers(cells)
    if num_values > _MOST_NUMBERS // 2:
        return None
    why = f"{num_values} different numbers, which are not whole; as text they could be categories"
    return ProposedColumn(cells.name, LEFT_OUT, why)


def _categories_of_numbers(cells: _Cells) -> ProposedColumn:
    if cells.values.tolist() == [0, 1]:
        return ProposedColumn(cells.name, BERNOULLI, "0 or 1")
    categories = tuple(map(int, cells.values))
    return ProposedColumn(cells.name, CATEGORICAL, f"{len(categories)} whole numbers", categories)


def _numbers(cells: _Cells) -> ProposedColumn:
    if cells.num_known >= _ENOUGH and cells.least > 0:
        skewness = _skewness(cells.numbers)
        if skewness > 1.0 and abs(_skewness(np.log(cells.numbers))) < skewness / 2:
            why = "positive numbers, skewed: a log transform is offered"
            return ProposedColumn(cells.name, NORMAL, why, skewed=True)
    return ProposedColumn(cells.name, NORMAL, "numbers")


def _named(cells: _Cells, is_whole: bool) -> ProposedColumn:
    """A column that the user wants in the model."""
    found = _judged(cells, None, is_whole)
    if found.kind not in (LEFT_OUT, TIME):
        return found
    few = cells.num_values <= _MOST_TEXTS and cells.num_values > 1
    if cells.kind == "number" and cells.values.size and np.isfinite(cells.values[[0, -1]]).all():
        if cells.num_values == 1:
            return found
        if _part_of_date(cells) and cells.is_whole and few:
            return _categories_of_numbers(cells)
        return dataclasses.replace(_numbers(cells), why="numbers")
    if (
        cells.kind == "text"
        and cells.num_values > 1
        and (few or cells.num_known > cells.num_values)
    ):
        return _categories_of_text(cells, is_whole)
    return found


def _is_near_poisson(numbers: np.ndarray, mean: float) -> bool:
    """Whether the shares of the numbers are about those of a Poisson distribution."""
    largest = int(numbers.max())
    if mean > _MOST_NUMBERS:
        return False
    shares = np.bincount(numbers.astype(int), minlength=largest + 1) / len(numbers)
    logs = [k * math.log(mean) - mean - math.lgamma(k + 1) for k in range(largest + 1)]
    return float(np.abs(shares - np.exp(logs)).sum()) / 2 < 0.2


def _copies(numbers: Mapping[str, np.ndarray]) -> dict[str, str]:
    """Columns that are linear functions of one before them, with that one."""
    found: dict[str, str] = {}
    standard: dict[str, np.ndarray] = {}
    for name, values in numbers.items():
        spread = float(values.std())
        if len(values) < _ENOUGH or not spread > 0:
            continue
        mine = (values - values.mean()) / spread
        for other, theirs in standard.items():
            if len(mine) == len(theirs) and abs(np.mean(mine * theirs)) > 1.0 - _COPIED:
                found[name] = other
                break
        else:
            standard[name] = mine
    return found


def _skewness(numbers: np.ndarray) -> float:
    deviations = numbers - numbers.mean()
    spread = float(np.sqrt(np.mean(deviations**2)))
    return float(np.mean((deviations / spread) ** 3)) if spread > 0 else 0.0


def _share_of_steps_back(values: np.ndarray) -> float:
    return float((np.diff(values) < 0).mean()) if len(values) > 1 else 0.0


def _moment(cell: Any) -> Any:
    """A date without time zone, in UTC if it had one."""
    if isinstance(cell, dt.datetime) and cell.tzinfo is not None:
        cell = cell.astimezone(dt.UTC).replace(tzinfo=None)
    return np.datetime64(cell, "us")


def _short(text: str) -> str:
    return repr(text if len(text) <= 20 else f"{text[:20]}...")


def _rows(number: int) -> str:
    return "1 row" if number == 1 else f"{number:,} rows"
