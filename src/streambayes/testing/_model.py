"""Laws that every model keeps."""

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streambayes._core.batch import Batch
from streambayes._core.column import BINARY, CATEGORY, CONTINUOUS, Column
from streambayes._core.precision import float64_scope, in_float64
from streambayes._core.scale import Scale
from streambayes.families import Blocks, Point
from streambayes.forgetting import HPP, SVB
from streambayes.learning import LearnerState, StreamLearner
from streambayes.learning._intake import pad, read_rows
from streambayes.models import AbstractModel
from streambayes.testing._climb import check_climb, internal_rows
from streambayes.testing._law import agree, broken, close

__all__ = ["check_model"]

Model = AbstractModel[Any, Any]
Columns = Mapping[str, Any]


def check_model(model: Model, batches: Sequence[Columns]) -> None:
    """Raise ``AssertionError`` naming the law that a model breaks on these batches.

    Args:
        model: The model.
        batches: At least two batches of at least two rows each, as mappings of columns.
    """
    held = [{name: np.asarray(values) for name, values in batch.items()} for batch in batches]
    _check_description(model)
    check_climb(StreamLearner(model, HPP()), held)
    _check_rows(model, held[0])
    _check_units(model, held)
    _check_multilinear(model, held[0])
    _check_missing(model, held[0])
    if not model.is_coupled and not any(_hides(model, batch) for batch in held):
        _check_exact(model, held)


def _check_description(model: Model) -> None:
    prior, labels = model.prior(), model.labels()
    agree("every entry of blocks has labels", set(prior), set(labels))
    for name, family in prior.items():
        agree(
            f"labels of {name!r} have the shape of its blocks",
            labels[name].shape,
            family.batch_shape,
        )
        if not np.all(family.is_proper()):
            broken(f"the prior of {name!r} is proper")
    names = [label for entry in labels.values() for label in entry.ravel()]
    agree("labels are distinct", len(set(names)), len(names))
    with float64_scope():
        belief = Point(Blocks.of_prior(prior))
        sections = model.marginals(belief, Scale.identity(model.columns, free=False))
    shown = [part for section in sections for part in section]
    for part in shown:
        agree("parameters have names and blocks alike", part.names.shape, part.blocks.shape)
    homes = {label for part in shown for label in part.blocks.flat}
    agree("every block has parameters, and parameters have a block", homes, set(names))
    updated = sorted(name for group in model.update_order for name in group)
    agree("a sweep updates every entry of blocks once", updated, sorted(prior))
    if hash(model) != hash(model) or model != model:  # noqa: PLR0124  # equality may be broken
        broken("a model equals itself")


@in_float64
def _check_rows(model: Model, columns: Columns) -> None:
    """Row order and padding change nothing, and the sums of shards add up."""
    # the same number of sweeps: which one is the last may hang on rounding
    learner = StreamLearner(model, SVB(), tolerance=0.0, max_sweeps=5)
    state = learner.init(columns)
    num_rows = len(next(iter(columns.values())))
    backwards = {name: values[::-1] for name, values in columns.items()}
    expected = learner.step(state, columns)[0].belief.summary()
    close("row order changes nothing", learner.step(state, backwards)[0].belief.summary(), expected)

    batch = internal_rows(learner, state.scale, columns)
    poisoned = batch.with_values(jnp.where(batch.mask, batch.values, jnp.nan))
    expectations = state.belief.expectations()
    whole = _sums(model, expectations, batch)
    close("padded rows may hold anything", _sums(model, expectations, poisoned), whole)
    half = num_rows // 2
    parts = [
        _sums(model, expectations, internal_rows(learner, state.scale, _rows(columns, some)))
        for some in (slice(0, half), slice(half, None))
    ]
    close("sums of shards add up", jax.tree.map(jnp.add, *parts), whole)


def _check_units(model: Model, batches: Sequence[Columns]) -> None:
    """A change of units changes numbers, not what is learned."""
    factor = 250.0
    shifts = {
        c.name: -3.0 if c.kind == CONTINUOUS and not c.transform else 0.0
        for c in model.columns
        if c.is_measured
    }
    changed = [
        {
            name: shifts[name] + factor * values if name in shifts else values
            for name, values in batch.items()
        }
        for batch in batches
    ]
    learner = StreamLearner(model, HPP())
    mine, theirs = learner.init(batches[0]), learner.init(changed[0])
    for batch, other in zip(batches, changed, strict=True):
        mine, info = learner.step(mine, batch)
        theirs, other_info = learner.step(theirs, other)
        close("units do not change rho", other_info.rho, info.rho, tolerance=1e-7)
        known = sum((~np.isnan(batch[name])).astype(float) for name in shifts)
        bound = (other_info.bound or 0.0) + np.sum(known) * np.log(factor)
        close("the bound is in the user's units", bound, info.bound, tolerance=1e-8)
        rows = learner.log_predictive(mine, batch)
        others = learner.log_predictive(theirs, other) + known * np.log(factor)
        close("predictive densities are in the user's units", others, rows, tolerance=1e-7)
    with float64_scope():
        again = {
            name: model.from_units(name, family, mine.scale)
            for name, family in mine.posterior.items()
        }
    close("from_units inverts in_units", again, mine.belief.summary().params, tolerance=1e-7)
    for parameter in mine.summary().rows:
        if not parameter.lower <= parameter.upper:
            broken(f"the interval of {parameter.name!r} has its ends in order")


@in_float64
def _check_multilinear(model: Model, columns: Columns) -> None:
    """The expected log joint is linear in the expected statistics of each entry of blocks."""
    learner = StreamLearner(model, SVB())
    state = learner.init(columns)
    batch = internal_rows(learner, state.scale, columns)
    expectations = state.belief.expectations()
    after = learner.step(state, columns)[0].belief.expectations()
    summary = _sums(model, expectations, batch)
    for name in expectations:
        between = jax.tree.map(lambda a, b: 0.3 * a + 0.7 * b, expectations[name], after[name])
        ends = [
            model.expected_log_joint({**expectations, name: stats}, summary)
            for stats in (expectations[name], after[name], between)
        ]
        close(f"linear in {name!r}", ends[2], 0.3 * ends[0] + 0.7 * ends[1])


def _check_exact(model: Model, batches: Sequence[Columns]) -> None:
    """Without hidden variables the bound is the log marginal likelihood, so probability theory holds."""
    learner = StreamLearner(model, SVB())
    start = state = learner.init(batches[0])
    total = 0.0
    for batch in batches:
        row = _rows(batch, slice(0, 1))
        density = learner.log_predictive(state, row)[0]
        close("a row's density is its evidence", learner.step(state, row)[1].bound, density)
        state, info = learner.step(state, batch)
        total += info.bound or 0.0
    names = batches[0].keys()
    whole = {name: np.concatenate([batch[name] for batch in batches]) for name in names}
    after, info = learner.step(start, whole)
    close("batches chain", total, info.bound)
    close("batches add up", state.belief.summary(), after.belief.summary())
    _check_counts(state, any(np.isnan(_read(model, batch)).any() for batch in batches))


@in_float64
def _check_counts(state: LearnerState, has_gaps: bool) -> None:
    """Without forgetting, every observation is one row of every variable."""
    observations = float(state.rows_seen)
    for name, counts in state.belief.summary().counts.items():
        if not np.all(counts <= observations * (1.0 + 1e-12)):
            broken(f"no block of {name!r} retains more rows than there were: found {counts}")
        rows = float(np.sum(counts))
        if not has_gaps:  # of a list of columns, each has all of the rows
            whole = max(1.0, round(rows / observations)) * observations
            close(f"nothing of {name!r} is forgotten", rows, whole)


def _check_missing(model: Model, columns: Columns) -> None:
    """What is missing is integrated out."""
    learner = StreamLearner(model, SVB())
    start = learner.init(columns)
    _check_empty_row(learner, start, columns)
    state, _ = learner.step(start, columns)
    known = learner.score(state, _with_empty_row(columns))
    num_rows = known.num_rows - 1
    if known.method == "exact":
        density = learner.log_predictive(state, columns)
        found = known.predictive * known.num_rows
        close("an empty row has density 1", found, np.sum(density))
    for column in model.columns:
        gaps = {**columns, column.name: np.full(num_rows, None)}
        score = learner.score(state, _with_empty_row(gaps))
        if known.method == "exact" and not score.bound <= score.predictive + 1e-9:
            broken(
                f"with {column.name!r} missing, the bound lies below the log density: "
                f"{score.bound} and {score.predictive}"
            )
        if not _values(column):
            continue
        if not score.bound >= known.bound - 1e-9:
            broken(
                f"to miss {column.name!r} is no less likely than to see one of its values: "
                f"{score.bound} and {known.bound}"
            )
        each = [
            learner.log_predictive(state, {**columns, column.name: np.full(num_rows, value)})
            for value in _values(column)
        ]
        if known.method == "exact":
            summed = np.sum(np.logaddexp.reduce(each, axis=0))
            found = score.predictive * known.num_rows
            close(f"where {column.name!r} is missing, its values are summed over", found, summed)


@in_float64
def _check_empty_row(learner: StreamLearner, state: LearnerState, columns: Columns) -> None:
    expectations = state.belief.expectations()
    more, whole = (
        _sums(learner.model, expectations, internal_rows(learner, state.scale, rows))
        for rows in (_with_empty_row(columns), columns)
    )
    close("a row that misses every cell adds nothing", more, whole)


def _with_empty_row(columns: Columns) -> dict[str, Any]:
    nothing = np.full(1, None)
    return {
        name: np.concatenate([values.astype(object), nothing]) for name, values in columns.items()
    }


def _values(column: Column) -> tuple[str | int, ...]:
    """The values of a column that has few."""
    if column.kind == BINARY:
        return (0, 1)
    return column.categories if column.kind == CATEGORY else ()


def _hides(model: Model, columns: Columns) -> bool:
    with float64_scope():
        return model.has_hidden(
            pad(_read(model, columns), model.columns, hidden=model.hidden_if_missing)
        )


def _read(model: Model, columns: Columns) -> np.ndarray:
    return read_rows(model, model.columns, columns)


def _sums(model: Model, expectations: Mapping[str, Any], batch: Batch) -> Any:
    return _row_pass(model)(expectations, batch, model.init_local(batch))[1]


@functools.cache
def _row_pass(model: Model) -> Any:
    return jax.jit(model.row_pass)


def _rows(columns: Columns, some: slice) -> dict[str, Any]:
    return {name: values[some] for name, values in columns.items()}
