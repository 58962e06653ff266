"""The Electricity experiment: whether the price goes up, month by month, in three protocols."""

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np

from streambayes.datasets import electricity
from streambayes.experiments._contest import (
    Advance,
    Track,
    hold_contest,
    policies_of_table_1,
    run_every,
)
from streambayes.experiments._report import (
    Published,
    Report,
    numbers,
    read_table,
    write_report,
)
from streambayes.experiments.electricity import _paper
from streambayes.families import AbstractFamily, Gamma, MultivariateNormal, NormalGamma
from streambayes.forgetting import AbstractForgetting
from streambayes.learning import Scores, StepRecord, StreamBatch
from streambayes.models import LinearRegression
from streambayes.sources import batches

__all__ = ["MODEL", "PUBLISHED", "Protocol", "calendar_months", "reproduce", "text_months"]

Protocol = Literal["calendar", "text", "paper"]
REGRESSORS = _paper.REGRESSORS
MODEL = LinearRegression("up", REGRESSORS)
PUBLISHED: Published = {
    "paper": {
        "SVB": -44.91,
        "Fading 0.9": -43.92,
        "Fading 0.99": -44.80,
        "HPP": -40.06,
        "MHPP": -40.03,
    }
}
_TITLES = {
    "calendar": "Electricity: months in calendar order, joint coefficients, default priors, converged",
    "text": "Electricity: months in text order, joint coefficients, the paper's priors, converged",
    "paper": "Electricity: the authors' rows, order, start and stopping rule",
}
# Units in which sums keep their digits. Hidden cells start at mean 0 and variance 1 of these units, so
# the columns that are missing for a year keep the data's own.
_UNITS = {
    "period": (24.0, 14.0),
    "nswprice": (3000.0, 1500.0),
    "nswdemand": (6500.0, 1000.0),
    "vicprice": (0.0, 1.0),
    "vicdemand": (0.0, 1.0),
    "transfer": (0.0, 200.0),
    "up": (0.0, 1.0),
}
# cells that are hidden in a whole month settle slowly
_CONVERGED: dict[str, Any] = {"tolerance": 1e-9, "max_sweeps": 20_000}
_AUTHORS_FILES = {
    "SVB": "svb",
    "Fading 0.9": "fading_0.9",
    "Fading 0.99": "fading_0.99",
    "PP 0.9": "pp_0.9",
    "PP 0.99": "pp_0.99",
    "HPP": "hpp",
    "MHPP": "mhpp",
}


def calendar_months() -> list[StreamBatch]:
    """The 32 months in order of time."""
    return list(batches(electricity(), time="date", every="1mo"))


def text_months() -> list[StreamBatch]:
    """The months in the authors' order, with their rows; the column ``held_out`` is their split."""
    data = electricity()
    stream = []
    for month in _paper.months():
        rows = np.sort(np.concatenate([month.train, month.test]))
        columns = {name: values[rows] for name, values in data.items()}
        columns["held_out"] = np.isin(rows, month.test)
        stream.append(StreamBatch(columns, label=month.label))
    return stream


def reproduce(
    output: str | Path,
    *,
    protocol: Protocol = "calendar",
    methods: Sequence[str] | None = None,
    num_starts: int = 5,
    num_batches: int | None = None,
    reference: str | Path | None = None,
    advance: Advance | None = None,
) -> Report:
    """Run the experiment and write its numbers and figures.

    Args:
        output: Folder to write into; it is made if it is not there.
        protocol: ``calendar``: months in order of time, the library's defaults; a start is a split.
            ``text``: the authors' order and split with the paper's priors, converged; starts are
            coefficients of 0, of least squares, and random ones. ``paper``: the authors' start and
            stopping rule too; further starts are random coefficients.
        methods: Names of methods to learn with; all by default, SVB in any case.
        num_starts: How many starts all methods share.
        num_batches: Learn only so many months.
        reference: Folder with the authors' results for every month, ``svb.csv`` and so on.
        advance: Called with what is being done, how many runs are done and how many there are.
    """
    if protocol not in get_args(Protocol):
        message = f"protocol must be one of {', '.join(get_args(Protocol))}, got {protocol!r}"
        raise ValueError(message)
    stream = (calendar_months() if protocol == "calendar" else text_months())[:num_batches]
    authors = None if reference is None else _read_authors(Path(reference), stream)
    if protocol == "paper":
        contest = run_every(
            MODEL,
            policies_of_table_1(stream, methods),
            lambda policy, start: _track_as_the_authors(policy, start, num_batches),
            num_starts=num_starts,
            advance=advance,
        )
    else:
        policies = policies_of_table_1(stream, methods)
        if protocol == "calendar":
            contest = hold_contest(
                MODEL, stream, policies, starts=num_starts, advance=advance, **_CONVERGED
            )
        else:
            contest = hold_contest(
                MODEL,
                stream,
                policies,
                starts=[{"start": each} for each in _text_starts(stream[0], num_starts)],
                held_out="held_out",
                prior=_prior(),
                scale=_UNITS,
                advance=advance,
                **_CONVERGED,
            )
    return write_report(contest, Path(output), _TITLES[protocol], PUBLISHED, authors)


def _prior() -> dict[str, AbstractFamily]:
    """The paper's, with the coefficients as one block."""
    size = len(REGRESSORS) + 1
    return {
        ", ".join(REGRESSORS): NormalGamma.from_shape_rate_mean_scale(
            np.ones(len(REGRESSORS)), 1.0, 0.0, 1e-10
        ),
        "up: noise": Gamma.from_shape_rate(1.0, 1.0),
        "up: coefficients": MultivariateNormal.from_mean_precision(
            np.zeros(size), 1e-10 * np.eye(size)
        ),
    }


def _text_starts(first: StreamBatch, num_starts: int) -> list[dict[str, AbstractFamily]]:
    """Starts from coefficients of 0, of least squares, and random ones, in the user's units."""
    rows = ~first.columns["held_out"]
    cells = np.stack([np.asarray(first.columns[name], float)[rows] for name in REGRESSORS], 1)
    response = np.asarray(first.columns["up"], float)[rows]
    hidden = np.isnan(cells)
    design = np.concatenate([np.ones((len(cells), 1)), np.where(hidden, 0.0, cells)], 1)
    gram = design.T @ design + np.diag([0.0, *hidden.sum(0)])  # hidden cells: mean 0, variance 1
    products = design.T @ response
    least_squares = np.linalg.lstsq(design, response, rcond=None)[0]
    size = design.shape[1]
    chosen = [np.zeros(size), least_squares]
    chosen += [np.random.default_rng(seed).normal(size=size) for seed in range(num_starts)]

    def after_first_update(coefficients: np.ndarray) -> dict[str, AbstractFamily]:
        """Noise, then coefficients, once, before hidden cells move.

        Random slopes would drive them where nothing brings them back from.
        """
        misfit = response @ response - 2 * coefficients @ products
        misfit += coefficients @ gram @ coefficients
        shape, rate = 1.0 + len(response) / 2, 1.0 + misfit / 2
        precision = 1e-10 * np.eye(size) + shape / rate * gram
        mean = np.linalg.solve(precision, shape / rate * products)
        return {
            "up: noise": Gamma.from_shape_rate(shape, rate),
            "up: coefficients": MultivariateNormal.from_mean_precision(mean, precision),
        }

    return [after_first_update(each) for each in chosen[:num_starts]]


def _track_as_the_authors(
    policy: AbstractForgetting[Any, Any], start: int, num_batches: int | None
) -> Track:
    """From the authors' start if it is the first, from another of its kind otherwise."""
    started = time.perf_counter()
    learned = _paper.learn(policy, seed=start or None, num_months=num_batches)
    seconds = (time.perf_counter() - started) / len(learned)
    rows = [len(month.train) for month in _paper.months()]
    records = tuple(
        StepRecord(
            index=index,
            label=month.label,
            time=None,
            num_rows=rows[index],
            num_test=month.num_test,
            bound=month.bound,
            fall=None,
            rho=month.rho if index and policy.max_rounds > 1 else None,
            omega=None,
            retained={},
            test_bound=month.tmll,
            test_predictive=None,
            prequential=None,
            predictive_method=None,
            num_sweeps=month.num_sweeps,
            num_rounds=1,
            outcome="stopped",
            events=(),
            seconds=seconds,
        )
        for index, month in enumerate(learned)
    )
    weights = np.array([month.num_test for month in learned])
    mean = float(weights @ np.array([month.tmll for month in learned]) / weights.sum())
    return Track(records, Scores(test_bound=mean, test_predictive=None, prequential=None))


def _read_authors(folder: Path, stream: Sequence[StreamBatch]) -> dict[str, list[float]]:
    """The authors' results for the months of a stream, whose labels are as theirs or as the calendar has them."""
    all_months = _paper.months()
    found = {}
    for method, name in _AUTHORS_FILES.items():
        path = folder / f"{name}.csv"
        rows = read_table(path, ("file", "tmll"), len(all_months))
        scores = dict(
            zip((month.label for month in all_months), numbers(path, rows, "tmll"), strict=True)
        )
        scores |= {_calendar_label(label): score for label, score in scores.items()}
        found[method] = [scores[str(batch.label)] for batch in stream]
    return found


def _calendar_label(label: str) -> str:
    """96_5 as 1996-05."""
    year, month = label.split("_")
    return f"19{year}-{int(month):02}"
