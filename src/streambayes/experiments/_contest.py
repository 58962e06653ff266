"""Several methods on one stream, from several starts: scores, their spread, and what is a tie."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Literal, final

import numpy as np

from streambayes.forgetting import (
    HPP,
    MHPP,
    PVB,
    SVB,
    SVI,
    AbstractForgetting,
    Auto,
    Fading,
    PowerPrior,
)
from streambayes.learning import Scores, StepRecord, StreamBatch, StreamLearner, run
from streambayes.learning._record import RECORDS, folder_name
from streambayes.models import AbstractModel

__all__ = [
    "BASELINE",
    "SCORES",
    "Advance",
    "Contest",
    "Difference",
    "Score",
    "Track",
    "hold_contest",
    "policies_of_table_1",
    "run_every",
]

Advance = Callable[[str, int, int], None]
Score = Literal["test_bound", "test_predictive", "prequential"]
SCORES: tuple[Score, ...] = ("test_bound", "test_predictive", "prequential")
BASELINE = "SVB"
_RESAMPLES = 4000
_LEVEL = 0.95


def policies_of_table_1(
    stream: Sequence[StreamBatch], methods: Sequence[str] | None = None
) -> dict[str, AbstractForgetting[Any, Any]]:
    """The methods of the paper's Table 1 by name, and beside them the power prior as written, and SVI.

    ``Auto``, which is not the paper's, takes part if it is asked for.

    Args:
        stream: What is learned, two thirds of its rows. The smaller of PVB's populations is that of an
            average batch; SVI stands for the whole stream.
        methods: Only these, and always SVB.
    """
    learned = 2 / 3 * sum(len(next(iter(batch.columns.values()))) for batch in stream)
    of_the_paper = _policies(learned / max(len(stream), 1), learned)
    if methods is None:
        return of_the_paper
    every = {**of_the_paper, "Auto": Auto()}
    known = {name.casefold(): name for name in every}
    for name in methods:
        if name.casefold() not in known:
            message = f"there is no method {name!r}; choose from {', '.join(map(repr, every))}"
            raise ValueError(message)
    chosen = {BASELINE, *(known[name.casefold()] for name in methods)}
    return {name: policy for name, policy in every.items() if name in chosen}


def _policies(rows_per_batch: float, num_rows: float) -> dict[str, AbstractForgetting[Any, Any]]:
    populations = {"10000": 10_000.0, "batch": rows_per_batch}
    return {
        "SVB": SVB(),
        **{
            f"PVB M={name} nu={step:g}": PVB(size, step)
            for name, size in populations.items()
            for step in (0.1, 0.01)
        },
        "SVI": SVI(num_rows),
        "Fading 0.9": Fading(0.9),
        "Fading 0.99": Fading(0.99),
        "PP 0.9": PowerPrior(0.9),
        "PP 0.99": PowerPrior(0.99),
        "HPP": HPP(),
        "MHPP": MHPP(),
    }


@final
@dataclasses.dataclass(frozen=True)
class Difference:
    """How much better one method is than another, in nats per row.

    Attributes:
        method: The one.
        baseline: The other.
        score: By which score.
        mean: The difference of their weighted means.
        lower: End of the interval of 95 % over resampled batches and starts.
        upper: Its other end.
    """

    method: str
    baseline: str
    score: Score
    mean: float
    lower: float
    upper: float

    @property
    def verdict(self) -> str:
        """``better``, ``worse``, or ``tie`` where the interval holds 0."""
        if self.lower > 0.0:
            return "better"
        return "worse" if self.upper < 0.0 else "tie"


@final
@dataclasses.dataclass(frozen=True)
class Track:
    """One method from one start.

    Attributes:
        records: Every batch.
        scores: Means over the rows of the whole stream.
    """

    records: tuple[StepRecord, ...]
    scores: Scores


@final
@dataclasses.dataclass(frozen=True)
class Contest:
    """What the methods made of the stream.

    Attributes:
        runs: A track for each start, by method.
        refused: Why a method does not apply, by method.
    """

    runs: Mapping[str, tuple[Track, ...]]
    refused: Mapping[str, str]

    @property
    def labels(self) -> tuple[str, ...]:
        """What the batches are called."""
        return tuple(record.label for record in next(iter(self.runs.values()))[0].records)

    @property
    def scores(self) -> tuple[Score, ...]:
        """The scores that were taken."""
        method = next(iter(self.runs))
        return tuple(score for score in SCORES if np.isfinite(self.curve(method, score)).any())

    def curve(self, method: str, score: Score) -> np.ndarray:
        """A score of every batch, mean over starts; NaN where a batch has none."""
        mean: np.ndarray = self._table(method, score).mean(0)
        return mean

    def mean(self, method: str, score: Score) -> tuple[float, float]:
        """The mean over rows of the whole stream: its mean over starts, and their standard deviation."""
        found = [getattr(one.scores, score) for one in self.runs[method]]
        each = np.array([np.nan if value is None else value for value in found])
        return float(each.mean()), float(each.std(ddof=1)) if len(each) > 1 else 0.0

    def seconds(self, method: str) -> float:
        """Time of a run, mean over starts, compilation included."""
        return float(
            np.mean([sum(record.seconds for record in one.records) for one in self.runs[method]])
        )

    def largest_fall(self, method: str) -> float | None:
        """The most that a bound fell in one sweep, relative to its size; none without a bound."""
        falls = [
            record.fall / abs(record.bound)
            for one in self.runs[method]
            for record in one.records
            if record.fall is not None and record.bound
        ]
        return max(falls, default=None)

    def difference(self, method: str, baseline: str, score: Score) -> Difference:
        """One method against another.

        Whole batches are resampled, since rows of one batch are alike; so are starts.
        """
        apart = self._table(method, score) - self._table(baseline, score)
        weights = self._weights(score)
        there = np.isfinite(apart).all(0) & (weights > 0)
        apart, weights = apart[:, there], weights[there]
        num_starts, num_batches = apart.shape
        rng = np.random.default_rng(0)
        starts = rng.multinomial(num_starts, [1 / num_starts] * num_starts, _RESAMPLES)
        drawn = rng.multinomial(num_batches, [1 / num_batches] * num_batches, _RESAMPLES) * weights
        means = np.einsum("rs,sb,rb->r", starts / num_starts, apart, drawn) / drawn.sum(1)
        lower, upper = np.quantile(means, [0.5 - _LEVEL / 2, 0.5 + _LEVEL / 2])
        mean = float(weights @ apart.mean(0) / weights.sum())
        return Difference(method, baseline, score, mean, float(lower), float(upper))

    def leaders(self, score: Score) -> tuple[str, ...]:
        """The method with the best mean, and after it those that are tied with it."""
        order = sorted(self.runs, key=lambda method: self.mean(method, score)[0], reverse=True)
        best, *others = order
        return best, *(m for m in others if self.difference(m, best, score).verdict == "tie")

    def _weights(self, score: Score) -> np.ndarray:
        """Rows that the score of a batch is a mean over, mean over starts."""
        runs = next(iter(self.runs.values()))
        held_out = np.array([[record.num_test for record in one.records] for one in runs])
        learned = np.array([[record.num_rows for record in one.records] for one in runs])
        weights: np.ndarray = (held_out + learned if score == "prequential" else held_out).mean(0)
        return weights

    def _table(self, method: str, score: Score) -> np.ndarray:
        def number(record: StepRecord) -> float:
            value = getattr(record, score)
            return float("nan") if value is None else float(value)

        return np.array([[number(record) for record in one.records] for one in self.runs[method]])


def hold_contest(
    model: AbstractModel[Any, Any],
    batches: Sequence[StreamBatch],
    policies: Mapping[str, AbstractForgetting[Any, Any]],
    *,
    starts: int | Sequence[Mapping[str, Any]],
    group: str | None = None,
    held_out: str | None = None,
    prequential: bool = True,
    advance: Advance | None = None,
    record: Path | None = None,
    **settings: Any,
) -> Contest:
    """Learn the stream with every method, from every start.

    A start brings its own split into rows to learn and a third to hold out; methods share both.

    Args:
        model: The model.
        batches: The stream.
        policies: The methods by name.
        starts: How many starts; or for each, settings of its ``StreamLearner``.
        group: Column whose values are held out together.
        held_out: Column that says which rows to hold out.
        prequential: Whether to score each batch before learning from it, too.
        advance: Called with what is being done, how many runs are done and how many there are.
        record: Folder to write the records of each method's first start to, in a folder of its own; what is
            there is replaced.
        **settings: Passed on to every ``StreamLearner``.
    """
    settings_of = [{}] * starts if isinstance(starts, int) else list(starts)

    folders = {}
    if record is not None:
        folders = {policy.name: record / folder_name(name) for name, policy in policies.items()}
    for folder in folders.values():
        (folder / RECORDS).unlink(missing_ok=True)

    def learn(policy: AbstractForgetting[Any, Any], start: int) -> Track:
        learned = run(
            StreamLearner(model, policy, **settings, **settings_of[start]),
            batches,
            test_fraction=1 / 3 if held_out is None else 0.0,
            group=group,
            held_out=held_out,
            prequential=prequential,
            seed=start,
            progress=False,
            record=None if start else folders.get(policy.name),
        )
        return Track(learned.records, learned.scores)

    return run_every(model, policies, learn, num_starts=len(settings_of), advance=advance)


def run_every(
    model: AbstractModel[Any, Any],
    policies: Mapping[str, AbstractForgetting[Any, Any]],
    learn: Callable[[AbstractForgetting[Any, Any], int], Track],
    *,
    num_starts: int,
    advance: Advance | None = None,
) -> Contest:
    """Run every method that applies to the model, from every start.

    Args:
        model: The model.
        policies: The methods by name.
        learn: Runs a method from the start of a number.
        num_starts: How many starts.
        advance: Called with what is being done, how many runs are done and how many there are.
    """
    refused: dict[str, str] = {}
    for name, policy in policies.items():
        try:
            StreamLearner(model, policy)
        except ValueError as error:
            refused[name] = str(error)
    todo = [
        (name, start) for name in policies if name not in refused for start in range(num_starts)
    ]
    tracks: dict[str, tuple[Track, ...]] = {}
    for done, (name, start) in enumerate(todo):
        if advance is not None:
            advance(f"{name}, start {start + 1} of {num_starts}", done, len(todo))
        track = learn(policies[name], start)
        if not any(record.num_test for record in track.records):
            message = (
                "no batch has rows to hold out, so there is nothing to compare: give more rows, or "
                "another group"
            )
            raise ValueError(message)
        tracks[name] = (*tracks.get(name, ()), track)
    if advance is not None:
        advance("drawing figures", len(todo), len(todo))
    return Contest(tracks, refused)
