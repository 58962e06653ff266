"""Networks at random: whatever is declared, and whatever its rows look like, the laws hold."""

import jax
import numpy as np
from hypothesis import given, note, settings
from hypothesis import strategies as st

import streambayes as sb
from streambayes._core.precision import in_float64
from streambayes.learning._intake import pad, read_rows
from streambayes.testing._climb import check_climb

NUM_ROWS = 12  # all of one bucket
DISCRETE = ("categorical", "bernoulli")
LINEAR = ("normal", "normals")
LEAVES = ("multivariate_normal", "poisson", "exponential")


@st.composite
def networks(draw):
    """Two to five declarations with any parents they may have, some of them latent."""
    declared, discrete, linear = [], [], []
    for number in range(draw(st.integers(2, 5))):
        kind = draw(st.sampled_from((*DISCRETE, *LINEAR, *LEAVES)))
        names = [f"v{number}"]
        if kind in ("normals", "multivariate_normal"):
            names = [f"v{number}{letter}" for letter in "ab"]
        parents = draw(some_of(discrete))
        options = {"parents": parents}
        if kind in LINEAR:
            regressors = draw(some_of(linear))
            parents += regressors
            if regressors:
                kinds = ["joint", "independent", "conjugate"]
                options["coefficients"] = draw(st.sampled_from(kinds))
        (linear if kind in LINEAR else discrete if kind in DISCRETE else []).extend(names)
        declared.append((kind, names, options))
    children = set()
    for kind, names, options in reversed(declared):  # a latent variable needs something below it
        if kind not in LEAVES and children.issuperset(names):
            options["latent"] = draw(st.booleans())
        children.update(options["parents"])
    net = sb.Network()
    for kind, names, options in declared:
        if kind == "categorical":
            net.categorical(names[0], draw(st.integers(2, 3)), **options)
        elif kind == "normals":
            net.normal(names, **options)
        else:
            getattr(net, kind)(names if len(names) > 1 else names[0], **options)
    return net


def some_of(names):
    """None, one or two of the names."""
    if not names:
        return st.just([])
    return st.lists(st.sampled_from(names), max_size=2, unique=True)


def a_column(rng, column, odd):
    """Values of a column: as they should be, or not."""
    n, kind = NUM_ROWS, column.kind
    if kind == "category":
        return rng.integers(0, len(column.categories) - odd, n)
    if kind == "binary":
        return rng.integers(0, 2, n) if not odd else np.ones(n)
    plain, strange = {
        "count": (
            rng.poisson(3.0, n),
            [np.zeros(n), rng.integers(0, 10**6, n), np.full(n, 7)],
        ),
        "positive": (
            rng.exponential(5.0, n),
            [np.zeros(n), rng.pareto(0.5, n), np.full(n, 1e-9)],
        ),
        "continuous": (
            rng.normal(2.0, 3.0, n),
            [
                np.full(n, 3.0),
                rng.standard_cauchy(n),
                rng.integers(0, 2, n),
                100.0 + rng.normal(size=n),
            ],
        ),
    }[kind]
    return strange[rng.integers(len(strange))] if odd else plain


def a_batch(rng, net, odd, share, far, gap):
    """Rows with cells missing: at random, and all of one column or of some rows."""
    columns = {c.name: a_column(rng, c, odd).astype(float) for c in net.columns}
    linear = [c.name for c in net.columns if c.kind == "continuous"]
    for name in linear:
        columns[name] += far
    if odd and len(linear) > 1:
        columns[linear[-1]] = columns[linear[0]].copy()  # perfectly collinear
    for name, values in columns.items():
        values[rng.random(NUM_ROWS) < share] = np.nan
        if gap == "rows":
            values[: NUM_ROWS // 3] = np.nan
        if gap == name:
            values[:] = np.nan
    return columns


def gaps_of(net):
    """Shares of missing cells, and which column or rows miss all of theirs."""
    whole = st.sampled_from(["none", "rows", *(column.name for column in net.columns)])
    with_gaps = st.tuples(st.sampled_from([0.1, 0.3, 0.6]), whole)
    return st.one_of(st.just((0.0, "none")), with_gaps)


@in_float64
def learned(learner, state, columns, beyond=0.0):
    """Blocks after a step over rows that are padded with a number."""
    wanted = learner.model.columns
    batch = pad(read_rows(learner.model, wanted, columns), wanted)
    values = np.where(np.arange(batch.values.shape[1]) < NUM_ROWS, batch.values, beyond)
    memory, *_ = learner._stepper.learn(
        learner._settings,
        state.memory,
        state.belief,
        state.prior,
        state.scale.shift,
        state.scale.factor,
        batch.with_values(values),
        state.rows_seen,
        np.float64(0.0),
    )
    return learner.forgetting.belief(memory).summary()


def same(found, expected, tolerance):
    for mine, theirs in zip(jax.tree.leaves(found), jax.tree.leaves(expected), strict=True):
        np.testing.assert_allclose(mine, theirs, rtol=tolerance, atol=tolerance)


@settings(max_examples=12)
@given(data=st.data(), net=networks(), seed=st.integers(0, 2**32 - 1))
def test_laws(data, net, seed):
    """The bound climbs, nothing is NaN, padding and order do not matter, shares sum to one."""
    note(net.show())
    rng = np.random.default_rng(seed)
    share, gap = data.draw(gaps_of(net))
    odd = data.draw(st.lists(st.booleans(), min_size=4, max_size=4))
    far = data.draw(st.sampled_from([0.0, 1e6]))  # in all batches, the first of which says so
    shares = [min(share, 0.1) if far else share, share, share, share]
    odd[0] = odd[0] and not far
    batches = [a_batch(rng, net, *each, far, gap) for each in zip(odd, shares, strict=True)]
    note((share, gap, odd, far))
    # few sweeps: where two values of a latent variable are alike, each sweep multiplies what rounding
    # has made of the order of rows
    learner = sb.StreamLearner(net, sb.HPP(), max_sweeps=5)
    check_climb(learner, batches)

    state = learner.init(batches[0])
    for batch in batches:
        before = state
        state, info = learner.step(before, batch)
        assert np.isfinite(info.bound)
        assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.belief))
        assert np.isfinite(learner.log_predictive(state, batch)).all()

    expected = learned(learner, before, batch)
    same(learned(learner, before, batch, beyond=np.nan), expected, 1e-12)
    backwards = {name: values[::-1] for name, values in batch.items()}
    same(learned(learner, before, backwards), expected, 1e-8)
    part = {name: values[:5] for name, values in batches[0].items()}
    density = learner.log_predictive(state, batches[0])
    if not (share or gap != "none") or any(np.isnan(values).any() for values in part.values()):
        same(learner.log_predictive(state, part), density[:5], 1e-9)
    for name in predicted(net):
        shares = learner.predict_proba(state, batch, name)
        assert (shares >= 0.0).all()
        np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-12)


def predicted(net):
    """The first variable with few values, if there is one: a latent one rather than not."""
    names = [name for name in net.structure.owner if net.structure.is_discrete(name)]
    return sorted(names, key=lambda name: name not in net.structure.latents)[:1]
