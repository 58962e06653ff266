"""Laws that every model keeps."""

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

from streambayes._core.batch import Batch
from streambayes._core.column import CONTINUOUS
from streambayes._core.precision import in_float64
from streambayes.forgetting import HPP, SVB
from streambayes.learning import StreamLearner
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
    if not model.uses_local and not model.is_coupled:
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
    updated = sorted(name for group in model.update_order for name in group)
    agree("a sweep updates every entry of blocks once", updated, sorted(prior))
    if hash(model) != hash(model) or model != model:  # noqa: PLR0124  # equality may be broken
        broken("a model equals itself")


@in_float64
def _check_rows(model: Model, columns: Columns) -> None:
    """Row order and padding change nothing, and the sums of shards add up."""
    learner = StreamLearner(model, SVB())
    state = learner.init(columns)
    num_rows = len(next(iter(columns.values())))
    backwards = {name: values[::-1] for name, values in columns.items()}
    expected = learner.step(state, columns)[0].belief.summary()
    close("row order changes nothing", learner.step(state, backwards)[0].belief.summary(), expected)

    batch = internal_rows(learner, state.scale, columns)
    poisoned = Batch(
        values=jnp.where(batch.mask, batch.values, jnp.nan),
        num_rows=batch.num_rows,
        columns=batch.columns,
    )
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
    continuous = [column.name for column in model.columns if column.kind == CONTINUOUS]
    factor, shift = 250.0, -3.0
    changed = [
        {
            name: shift + factor * values if name in continuous else values
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
        cells = len(continuous) * info.num_rows
        bound = (other_info.bound or 0.0) + cells * np.log(factor)
        close("the bound is in the user's units", bound, info.bound, tolerance=1e-8)
        rows = learner.log_predictive(mine, batch)
        others = learner.log_predictive(theirs, other) + len(continuous) * np.log(factor)
        close("predictive densities are in the user's units", others, rows, tolerance=1e-7)
    again = {
        name: model.from_units(name, family, mine.scale) for name, family in mine.posterior.items()
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
    observations = float(state.rows_seen)
    for label, count in state.retained.items():
        close(f"nothing of {label!r} is forgotten", count, observations)


def _sums(model: Model, expectations: Mapping[str, Any], batch: Batch) -> Any:
    return model.row_pass(expectations, batch, model.init_local(batch))[1]


def _rows(columns: Columns, some: slice) -> dict[str, Any]:
    return {name: values[some] for name, values in columns.items()}
