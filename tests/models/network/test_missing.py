"""Missing cells: left out where that is exact, inferred where something below them is observed."""

import jax
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from scipy import stats
from scipy.special import betaln, digamma, logsumexp

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.testing._climb import internal_rows
from tests.models.network._closed_form import (
    HALF_LOG_TWO_PI,
    evidence_of_categories,
    evidence_of_counts,
    evidence_of_normal,
    evidence_of_times,
    evidence_of_vectors,
    posterior_of_normal,
)

ANIMALS = ("cat", "dog")


def settled(learner, state, columns):
    """Moments of what rows hide, after many sweeps with fixed parameters; real rows only."""
    num_rows, model = len(next(iter(columns.values()))), learner.model

    def sweeps(expected, batch):
        def sweep(_, held):
            return model.row_pass(expected, batch, held)[0]

        return jax.lax.fori_loop(0, 100, sweep, model.init_local(batch))

    with float64_scope():
        batch = internal_rows(learner, state.scale, columns)
        held = jax.jit(sweeps)(state.belief.expectations(), batch)
        return jax.tree.map(lambda leaf: np.asarray(leaf)[..., :num_rows], held)


def log_mean(concentration):
    return digamma(concentration) - digamma(concentration.sum(-1, keepdims=True))


def with_gaps(rng, values, share=0.3):
    """The column with some cells missing."""
    return np.where(rng.random(len(values)) < share, None, values)


class TestLeaves:
    """One observed class, a leaf of every kind, cells missing anywhere among the leaves."""

    @pytest.fixture(scope="class")
    @staticmethod
    def learner():
        net = sb.Network()
        animal = net.categorical("animal", ANIMALS)
        net.normal("x", parents=[animal])
        net.normal(["u", "v"], parents=[animal])
        net.multivariate_normal(["p", "q"], parents=[animal])
        net.categorical("c", 3, parents=[animal])
        net.bernoulli("d", parents=[animal])
        net.poisson("k", parents=[animal])
        net.exponential("t", parents=[animal])
        return sb.StreamLearner(
            net,
            sb.SVB(),
            scale=False,
            prior={
                "x": sb.NormalGamma.from_shape_rate_mean_scale(1.5, 0.8, 1.0, 0.5),
                "u, v": sb.NormalGamma.from_shape_rate_mean_scale(1.2, 2.0, [0.5, -1.0], 0.3),
                "p, q": sb.NormalWishart.from_degrees_scatter_mean_scale(
                    3.0, [[2.0, 0.3], [0.3, 1.0]], [0.2, -0.4], 0.7
                ),
                "c": sb.Dirichlet.from_concentration([[0.5, 1.0, 2.0], [1.0, 1.0, 3.0]]),
                "d": sb.Beta.from_concentrations(2.0, 0.7),
                "k": sb.Gamma.from_shape_rate(2.0, 0.5),
                "t": sb.Gamma.from_shape_rate(1.5, [2.0, 3.0]),
            },
        )

    @pytest.fixture(scope="class")
    @staticmethod
    def columns():
        rng = np.random.default_rng(20)
        n = 60
        vectors = rng.normal(size=(2, n))
        vectors[:, rng.random(n) < 0.3] = np.nan  # both cells or none
        return {
            "animal": rng.choice(ANIMALS, n),
            "x": with_gaps(rng, rng.normal(2.0, 1.0, n)),
            "u": with_gaps(rng, rng.normal(0.0, 2.0, n)),
            "v": with_gaps(rng, rng.normal(1.0, 0.5, n)),
            "p": vectors[0],
            "q": vectors[1],
            "c": with_gaps(rng, rng.integers(0, 3, n)),
            "d": with_gaps(rng, rng.integers(0, 2, n)),
            "k": with_gaps(rng, rng.poisson(3.0, n)),
            "t": with_gaps(rng, rng.exponential(2.0, n)),
        }

    def test_bound_is_the_evidence_of_the_observed_cells(self, learner, columns):
        _, info = learner.step(learner.init(columns), columns)
        held = {n: np.asarray(v, float) for n, v in columns.items() if n != "animal"}
        evidence = evidence_of_categories(
            np.array([(columns["animal"] == a).sum() for a in ANIMALS]), np.ones(2)
        )
        for place, animal in enumerate(ANIMALS):
            chosen = {n: v[(columns["animal"] == animal) & ~np.isnan(v)] for n, v in held.items()}
            evidence += evidence_of_normal(chosen["x"], 1.5, 0.8, 1.0, 0.5)
            evidence += evidence_of_normal(chosen["u"], 1.2, 2.0, 0.5, 0.3)
            evidence += evidence_of_normal(chosen["v"], 1.2, 2.0, -1.0, 0.3)
            evidence += evidence_of_vectors(
                np.stack([chosen["p"], chosen["q"]], -1),
                3.0,
                np.array([[2.0, 0.3], [0.3, 1.0]]),
                np.array([0.2, -0.4]),
                0.7,
            )
            counts = np.bincount(chosen["c"].astype(int), minlength=3)
            evidence += evidence_of_categories(
                counts, np.array([[0.5, 1.0, 2.0], [1.0, 1.0, 3.0]][place])
            )
            ones, rows = chosen["d"].sum(), len(chosen["d"])
            evidence += betaln(2.0 + ones, 0.7 + rows - ones) - betaln(2.0, 0.7)
            evidence += evidence_of_counts(chosen["k"], 2.0, 0.5)
            evidence += evidence_of_times(chosen["t"], 1.5, [2.0, 3.0][place])
        assert info.bound == pytest.approx(evidence, rel=1e-12)

    def test_posterior_counts_observed_cells_alone(self, learner, columns):
        state, info = learner.step(learner.init(columns), columns)
        dogs = columns["animal"] == "dog"
        x = np.asarray(columns["x"], float)
        there = dogs & ~np.isnan(x)
        block = state.posterior["x"]
        found = [block.precision.shape, block.precision.rate, block.location, block.scale]
        np.testing.assert_allclose(
            [part[1] for part in found],
            posterior_of_normal(x[there], 1.5, 0.8, 1.0, 0.5),
            rtol=1e-12,
        )
        assert info.retained["x | animal=dog"] == there.sum()
        d = np.asarray(columns["d"], float)[dogs]
        assert state.posterior["d"].alpha[1] == pytest.approx(2.0 + np.nansum(d))
        assert info.retained["d | animal=dog"] == (~np.isnan(d)).sum()

    def test_rows_without_any_cell_change_nothing(self, learner, columns):
        more = {name: np.append(np.asarray(v, object), [None] * 4) for name, v in columns.items()}
        state, info = learner.step(learner.init(columns), columns)
        other, other_info = learner.step(learner.init(more), more)
        assert other_info.bound == pytest.approx(info.bound, rel=1e-12)
        assert other_info.retained == info.retained
        for name, block in state.belief.summary().params.items():
            found = other.belief.summary().params[name]
            for mine, theirs in zip(found.naturals(), block.naturals(), strict=True):
                np.testing.assert_allclose(mine, theirs, rtol=1e-12, atol=1e-13)
        assert learner.log_predictive(state, more)[-4:] == pytest.approx(np.zeros(4), abs=1e-12)

    def test_density_of_a_row_is_that_of_its_cells(self, learner, columns):
        """Each missing cell takes its factor with it."""
        state, _ = learner.step(learner.init(columns), columns)
        row = {"animal": ["dog"], "x": [1.0], "u": [0.3], "v": [0.9], "p": [0.1], "q": [0.2]}
        row |= {"c": [2], "d": [1], "k": [4], "t": [1.1]}
        leaves = [("x",), ("u",), ("v",), ("p", "q"), ("c",), ("d",), ("k",), ("t",)]
        cases = [{}, *({name: [None] for name in names} for names in leaves)]
        alone = {name: [None] for names in leaves for name in names}
        cases += [{n: v for n, v in alone.items() if n not in names} for names in leaves]
        cases.append(alone)
        cases += cases  # into the bucket of the other test
        rows = {name: np.concatenate([(row | case)[name] for case in cases]) for name in row}
        densities = learner.log_predictive(state, rows)
        full, less, only, none = densities[0], densities[1:9], densities[9:17], densities[17]
        np.testing.assert_allclose(full - less, only - none, rtol=1e-10, atol=1e-12)
        assert full == pytest.approx(none + (only - none).sum(), rel=1e-12)


def test_gaps_under_a_latent_variable():
    """As many sweeps by hand over what is there; a row without cells has no part in the mixture."""
    rng = np.random.default_rng(21)
    net = sb.Network()
    z = net.categorical("z", 2, latent=True)
    net.categorical("c", 3, parents=[z])
    net.poisson("k", parents=[z])
    n = 30
    c, k = with_gaps(rng, rng.integers(0, 3, n)), with_gaps(rng, rng.poisson(4.0, n))
    c[:3] = k[:3] = None
    start = {
        "z": sb.Dirichlet.from_concentration([3.0, 2.0]),
        "c": sb.Dirichlet.from_concentration([[3.0, 1.0, 2.0], [1.0, 2.0, 2.0]]),
        "k": sb.Gamma.from_shape_rate([2.0, 5.0], [1.0, 1.0]),
    }
    learner = sb.StreamLearner(net, sb.SVB(), start=start)
    columns = {"c": c, "k": k}
    state, info = learner.step(learner.init(columns), columns)

    seen = np.stack([[value == kind for kind in range(3)] for value in c]).astype(float)
    has_k = np.array([value is not None for value in k])
    counts = np.where(has_k, k, 0).astype(float)
    there = (seen.any(1) | has_k)[:, None]
    mixing, table = np.array([3.0, 2.0]), start["c"].concentration
    shape, rate = np.array([2.0, 5.0]), np.array([1.0, 1.0])
    for _ in range(info.num_sweeps):
        logits = log_mean(mixing) + seen @ log_mean(table).T
        logits += np.outer(counts, digamma(shape) - np.log(rate)) - np.outer(has_k, shape / rate)
        share = there * np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        mixing, table = 1.0 + share.sum(0), 1.0 + share.T @ seen
        shape, rate = 1.0 + share.T @ counts, 1.0 + share.T @ has_k
    np.testing.assert_allclose(state.posterior["z"].concentration, mixing, rtol=1e-9)
    np.testing.assert_allclose(state.posterior["c"].concentration, table, rtol=1e-9)
    np.testing.assert_allclose(state.posterior["k"].shape, shape, rtol=1e-9)
    np.testing.assert_allclose(state.posterior["k"].rate, rate, rtol=1e-9)
    assert info.retained["z"] == pytest.approx(there.sum(), rel=1e-12)


class TestVectors:
    """Some cells of a vector with a full covariance."""

    @pytest.fixture(scope="class")
    @staticmethod
    def learned():
        rng = np.random.default_rng(22)
        turn = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-0.3, 0.4, 0.7]])
        rows = np.array([5.0, -1.0, 2.0]) + rng.normal(size=(20, 3)) @ turn.T
        rows[rng.random((20, 3)) < 0.3] = np.nan
        learner = sb.StreamLearner(
            sb.models.MultivariateGaussian(["x", "y", "z"]),
            sb.SVB(),
            scale=False,
            prior=sb.NormalWishart.from_degrees_scatter_mean_scale(
                6.0, 3.0 * np.eye(3), np.array([4.0, 0.0, 1.0]), 0.5
            ),
        )
        return learner, learner.init(rows), rows

    def test_density_is_the_marginal_student(self, learned):
        learner, state, rows = learned
        found = learner.log_predictive(state, rows)
        block = state.posterior["x, y, z"]
        matrix = block.scatter * (1.0 + 1.0 / block.scale) / (block.degrees - 2.0)
        for row, density in zip(rows, found, strict=True):
            at = np.flatnonzero(~np.isnan(row))
            if not len(at):
                assert density == pytest.approx(0.0, abs=1e-13)
                continue
            student = stats.multivariate_t(
                block.location[at], matrix[np.ix_(at, at)], df=block.degrees - 2.0
            )
            assert density == pytest.approx(student.logpdf(row[at]), rel=1e-11)

    def test_bound_of_fixed_parameters_integrates_missing_cells_out(self, learned):
        r"""$\ln \int \exp E[\ln p(x \mid \mu, \Lambda)]\, dx_{missing}$ for each row, a normal integral."""
        learner, state, rows = learned
        block = state.posterior["x, y, z"]
        precision = block.degrees * np.linalg.inv(block.scatter)
        log_det = digamma(0.5 * (block.degrees - np.arange(3))).sum() + 3.0 * np.log(2.0)
        log_det -= np.linalg.slogdet(block.scatter)[1]
        total = 0.0
        for row in rows:
            gone = np.isnan(row)
            if gone.all():
                continue
            away = np.where(gone, 0.0, row - block.location)
            pull = (precision @ away)[gone]
            inner = precision[np.ix_(gone, gone)]
            square = away @ precision @ away - pull @ np.linalg.solve(inner, pull)
            total += 0.5 * (log_det - 3.0 / block.scale - square - np.linalg.slogdet(inner)[1])
            total -= (~gone).sum() * HALF_LOG_TWO_PI
        assert learner.score(state, rows).bound == pytest.approx(total / len(rows), rel=1e-12)

    def test_near_certain_parameters_leave_the_normal_marginal(self, learned):
        learner, _, rows = learned
        mean = np.array([4.5, -0.5, 2.0])
        covariance = np.array([[1.0, 0.6, 0.1], [0.6, 1.5, -0.2], [0.1, -0.2, 0.8]])
        sure = sb.NormalWishart.from_degrees_scatter_mean_scale(1e9, 1e9 * covariance, mean, 1e9)
        learner = sb.StreamLearner(learner.model, sb.SVB(), scale=False, prior=sure)
        score = learner.score(learner.init(rows), rows)
        total = 0.0
        for row in rows:
            at = np.flatnonzero(~np.isnan(row))
            if len(at):
                normal = stats.multivariate_normal(mean[at], covariance[np.ix_(at, at)])
                total += normal.logpdf(row[at])
        assert score.bound == pytest.approx(total / len(rows), rel=1e-7)
        assert score.predictive == pytest.approx(total / len(rows), rel=1e-7)

    def test_learning_climbs_and_finds_the_covariance(self, learned):
        learner, _, _ = learned
        rng = np.random.default_rng(23)
        turn = np.array([[1.0, 0.0, 0.0], [0.8, 0.5, 0.0], [-0.3, 0.4, 0.7]])
        rows = rng.normal(size=(2000, 3)) @ turn.T
        rows[rng.random((2000, 3)) < 0.2] = np.nan
        state, info = learner.step(learner.init(rows), rows)
        assert info.outcome == sb.Outcome.CONVERGED
        block = state.posterior["x, y, z"]
        # twenty per cent of 2000 rows are gone: standard errors are about 0.03
        np.testing.assert_allclose(block.scatter / block.degrees, turn @ turn.T, atol=0.12)


class TestParents:
    """Missing cells above observed ones, for parameters that are held fixed."""

    @pytest.mark.parametrize("kind", ["joint", "independent", "conjugate"])
    def test_regressor_given_response(self, kind):
        """One missing regressor: q is the exact conditional given what is expected of parameters."""
        rng = np.random.default_rng(24)
        learner = sb.StreamLearner(
            sb.models.LinearRegression("y", ["a", "b"], kind), sb.SVB(), scale=False
        )
        full = {"a": rng.normal(size=16), "b": rng.normal(2.0, 1.0, 16)}
        full["y"] = 1.0 + full["a"] - 0.5 * full["b"] + 0.5 * rng.normal(size=16)
        state, _ = learner.step(learner.init(full), full)
        gaps = dict(full, a=np.where(np.arange(16) < 10, np.nan, full["a"]))
        held = settled(learner, state, gaps)

        block = {name: family.expected_stats() for name, family in state.posterior.items()}
        if kind == "conjugate":
            weighted, outer = block["y"].precision_mean, block["y"].precision_outer
        elif kind == "joint":
            precision = block["y: noise"].value
            weighted = precision * block["y: coefficients"].value
            outer = precision * block["y: coefficients"].outer
        else:
            precision = block["y: noise"].value
            each = [block[f"y: {name}"] for name in ("intercept", "b[a]", "b[b]")]
            value = np.array([moments.value for moments in each])
            outer = np.outer(value, value)
            np.fill_diagonal(outer, [moments.square for moments in each])
            weighted, outer = precision * value, precision * outer
        own = block["a, b"]
        precision = own.precision[0] + outer[1, 1]
        pull = own.precision_mean[0] + weighted[1] * full["y"]
        pull = pull - outer[1, 0] - outer[1, 2] * full["b"]
        mean = (pull / precision)[:10]
        np.testing.assert_allclose(held.means["a"][:10], mean, rtol=1e-11)
        np.testing.assert_allclose(held.squares["a"][:10], mean**2 + 1.0 / precision, rtol=1e-11)

    def test_certain_parameters_give_the_conditional_normal(self):
        """Chain a -> x -> y with a, and both a and x, missing: the conditional means of the joint normal.

        Alone, a missing cell has the exact variance too; two have that of either given the other.
        """
        net = sb.Network()
        net.normal("a")
        net.normal("x", parents=["a"], coefficients="conjugate")
        net.normal("y", parents=["x", "a"], coefficients="conjugate")
        sure = 1e10

        def certain(mean, precision):
            mean = np.array(mean)
            return sb.MultivariateNormalGamma.from_shape_rate_mean_scale(
                sure, sure / precision, mean, sure * np.eye(len(mean))
            )

        learner = sb.StreamLearner(
            net,
            sb.SVB(),
            scale=False,
            prior={
                "a": sb.NormalGamma.from_shape_rate_mean_scale(sure, sure / 0.8, 0.5, sure),
                "x": certain([1.0, 0.6], 2.0),
                "y": certain([-1.0, 0.9, -0.4], 3.0),
            },
        )
        rng = np.random.default_rng(25)
        a, x, y = rng.normal(size=(3, 12))
        a[:8], x[4:8] = np.nan, np.nan
        columns = {"a": a, "x": x, "y": y}
        state = learner.init(columns)
        held = settled(learner, state, columns)
        # precision of (a, x, y) about their means: the sum of tau r r' over the three residuals
        residuals = np.array([[1.0, 0.0, 0.0], [-0.6, 1.0, 0.0], [0.4, -0.9, 1.0]])
        precision = residuals.T @ np.diag([0.8, 2.0, 3.0]) @ residuals
        mean = np.linalg.solve(residuals, [0.5, 1.0, -1.0])
        for row in range(8):
            gone = [0] if row < 4 else [0, 1]
            kept = [1, 2] if row < 4 else [2]
            away = np.array([a[row], x[row], y[row]])[kept] - mean[kept]
            inner = precision[np.ix_(gone, gone)]
            wanted = mean[gone] - np.linalg.solve(inner, precision[np.ix_(gone, kept)] @ away)
            for place, value in zip(gone, wanted, strict=True):
                name = "axy"[place]
                found = held.means[name][row]
                assert found == pytest.approx(value, rel=1e-8)
                spread = held.squares[name][row] - found**2
                assert spread == pytest.approx(1.0 / precision[place, place], rel=1e-6)

    def test_discrete_parent(self):
        """q of a missing class is the exact conditional given expected logs of the parameters."""
        rng = np.random.default_rng(26)
        net = sb.Network()
        weather = net.categorical("weather", ["sun", "rain", "snow"])
        animal = net.categorical("animal", ANIMALS, parents=[weather])
        net.normal("x", parents=[animal, weather])
        net.poisson("k", parents=[weather])
        n = 16
        full = {
            "weather": rng.choice(["sun", "rain", "snow"], n),
            "animal": rng.choice(ANIMALS, n),
            "x": rng.normal(size=n),
            "k": rng.poisson(2.0, n),
        }
        learner = sb.StreamLearner(net, sb.SVB(), scale=False)
        state, _ = learner.step(learner.init(full), full)
        gaps = dict(full, weather=np.full(n, None))
        held = settled(learner, state, gaps)
        post = {name: family.expected_stats() for name, family in state.posterior.items()}
        place = np.array([ANIMALS.index(a) for a in full["animal"]])
        logits = post["weather"].log_probabilities + post["animal"].log_probabilities[:, place].T
        x, k = full["x"][:, None], full["k"][:, None]
        normal = post["x"]  # (animal, weather)
        logits = logits + normal.precision_mean[place] * x - 0.5 * normal.precision[place] * x**2
        logits += 0.5 * (normal.log_precision[place] - normal.precision_mean_square[place])
        logits += k * post["k"].log_value - post["k"].value
        wanted = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        np.testing.assert_allclose(held.shares["weather"].T, wanted, rtol=1e-11)


def test_missing_labels_are_inferred():
    """Semi-supervised: as many sweeps by hand as it took, from the prior."""
    rng = np.random.default_rng(27)
    n = 60
    member = rng.integers(0, 2, n)
    x = rng.normal(3.0 * member, 1.0)
    label = np.where(rng.random(n) < 0.8, None, np.array(ANIMALS, object)[member])
    learner = sb.StreamLearner(
        sb.models.NaiveBayes("label", ANIMALS, normal="x"), sb.SVB(), scale=False
    )
    columns = {"label": label, "x": x}
    state, info = learner.step(learner.init(columns), columns)
    assert info.outcome == sb.Outcome.CONVERGED

    known = np.array([[value == animal for animal in ANIMALS] for value in label], float)
    mixing = np.ones(2)
    shape, rate, mean, scale = np.ones(2), np.full(2, 0.1), np.zeros(2), np.full(2, 0.1)
    for _ in range(info.num_sweeps):
        away = (x[:, None] - mean) ** 2 * shape / rate + 1.0 / scale
        logits = log_mean(mixing) + 0.5 * (digamma(shape) - np.log(rate) - away)
        share = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
        share = np.where(known.any(1, keepdims=True), known, share)
        rows = share.sum(0)
        mixing, shape, scale = 1.0 + rows, 1.0 + 0.5 * rows, 0.1 + rows
        mean = share.T @ x / scale
        rate = 0.1 + 0.5 * (share.T @ x**2 - scale * mean**2)
    block = state.posterior["x"]
    np.testing.assert_allclose(state.posterior["label"].concentration, mixing, rtol=1e-8)
    np.testing.assert_allclose(block.location[:, 0], mean, rtol=1e-8, atol=1e-9)
    np.testing.assert_allclose(block.precision.rate[:, 0], rate, rtol=1e-8)
    hit = learner.predict(state, {"x": x}).most_likely == np.array(ANIMALS)[member]
    assert hit.mean() > 0.85  # Bayes' own error is 7 %


class TestLateColumns:
    """A column that is missing for whole batches and appears later."""

    def test_leaf_learns_from_the_batches_that_have_it(self):
        rng = np.random.default_rng(28)
        model = sb.models.NaiveBayes("label", ANIMALS, normal=["x", "w"])
        prior = {
            "label": sb.Dirichlet.from_concentration([1.0, 1.0]),
            "x, w": sb.NormalGamma.from_shape_rate_mean_scale(1.5, 2.0, [3.0, 100.0], 0.1),
        }
        learner = sb.StreamLearner(model, sb.SVB(), prior=prior)
        batches = [
            {
                "label": rng.choice(ANIMALS, 30),
                "x": rng.normal(3.0, 1.0, 30),
                "w": np.full(30, np.nan) if number < 3 else rng.normal(120.0, 20.0, 30),
            }
            for number in range(5)
        ]
        state, events = learner.init(batches[0]), []
        for batch in batches:
            state, info = learner.step(state, batch)
            events.append(info.events)
        assert [len(each) for each in events] == [0, 0, 0, 1, 0]
        assert "'w' varies for the first time" in events[3][0]
        for place, animal in enumerate(ANIMALS):
            for column, first in (("x", 0), ("w", 3)):
                values = np.concatenate([b[column][b["label"] == animal] for b in batches[first:]])
                at = ("x", "w").index(column)
                block = state.posterior["x, w"]
                found = [block.precision.shape, block.precision.rate, block.location, block.scale]
                wanted = posterior_of_normal(values, 1.5, 2.0, (3.0, 100.0)[at], 0.1)
                np.testing.assert_allclose([f[place, at] for f in found], wanted, rtol=1e-9)
        assert state.retained["w | label=dog"] + state.retained["w | label=cat"] == 60.0

    def test_regressor_restarts_and_is_learned(self):
        """While it is missing the response is still learned; then its own blocks start anew."""
        rng = np.random.default_rng(29)
        learner = sb.StreamLearner(sb.models.LinearRegression("y", ["a", "b"]), sb.PowerPrior(0.3))

        def draw(late):
            a, b = rng.normal(10.0, 2.0, 60), rng.normal(-3.0, 0.5, 60)
            y = 5.0 + 2.0 * a - 4.0 * b + rng.normal(0.0, 0.3, 60)
            return {"a": a, "b": np.full(60, np.nan) if late else b, "y": y}

        batches = [draw(number < 4) for number in range(8)]
        state = learner.init(batches[0])
        for number, batch in enumerate(batches):
            state, info = learner.step(state, batch)
            assert info.outcome == sb.Outcome.CONVERGED
            assert np.isfinite(info.bound)
            assert bool(info.events) == (number == 4)
            mean = state.posterior["y: coefficients"].mean()
            if number == 3:  # the mean of b stands in the intercept
                assert mean[0] + 10.0 * mean[1] == pytest.approx(5.0 + 20.0 + 12.0, abs=1.0)
            if number == 4:
                assert state.retained["b"] == 60.0
                assert state.retained["y: coefficients"] == 60.0
                assert state.retained["y: noise"] == 60.0
        np.testing.assert_allclose(mean[1:], [2.0, -4.0], atol=0.2)


class TestWhatMeansMissing:
    """Nulls of every container."""

    @pytest.fixture(scope="class")
    @staticmethod
    def learner():
        model = sb.models.NaiveBayes("label", ANIMALS, normal="x", poisson="k")
        return sb.StreamLearner(model, sb.SVB(), scale=False)

    @pytest.mark.parametrize(
        "read",
        [
            dict,
            pl.DataFrame,
            pa.table,
            pd.DataFrame,
            lambda columns: pd.DataFrame(columns).convert_dtypes(),
            lambda columns: pd.DataFrame(columns).astype({"label": "category", "k": "Int64"}),
            lambda columns: pd.DataFrame(columns).astype(
                {"label": object, "x": object, "k": object}
            ),
            lambda _: {
                "label": np.array(["cat", "dog", None, "dog"], object),
                "x": np.array([1.0, np.nan, 2.0, np.nan]),
                "k": np.array([3, 1, 2, np.nan]),
            },
            lambda _: {
                "label": np.ma.array(["cat", "dog", "dog", "dog"], mask=[0, 0, 1, 0]),
                "x": np.ma.array([1.0, 5.0, 2.0, -1.0], mask=[0, 1, 0, 1]),
                "k": np.ma.array([3, 1, 2, 9], mask=[0, 0, 0, 1]),
            },
            lambda _: {
                "label": pd.Series(["cat", "dog", pd.NA, "dog"], dtype="string"),
                "x": [1.0, float("nan"), 2.0, None],
                "k": pd.array([3, 1, 2, pd.NA], dtype="Int64"),
            },
        ],
        ids=[
            "lists",
            "polars",
            "arrow",
            "pandas",
            "nullable",
            "categorical",
            "objects",
            "arrays",
            "masked",
            "mixed",
        ],
    )
    def test_the_same_rows(self, learner, read):
        columns = {
            "label": ["cat", "dog", None, "dog"],
            "x": [1.0, None, 2.0, None],
            "k": [3, 1, 2, None],
        }
        state = learner.init(columns)
        found = learner.log_predictive(state, read(columns))
        # the prior's predictive: Student-t with 2 degrees, negative binomial with half
        student = stats.t(2.0, 0.0, np.sqrt(0.1 * (1.0 + 1.0 / 0.1)))
        count = stats.nbinom(1, 0.5)
        wanted = [
            np.log(0.5) + student.logpdf(1.0) + count.logpmf(3),
            np.log(0.5) + count.logpmf(1),
            student.logpdf(2.0) + count.logpmf(2),
            np.log(0.5),
        ]
        np.testing.assert_allclose(found, wanted, rtol=1e-11)

    @pytest.mark.parametrize("value", [np.inf, -np.inf])
    @pytest.mark.parametrize("column", ["x", "k"])
    @pytest.mark.parametrize("read", [dict, pl.DataFrame, pd.DataFrame])
    def test_infinity_is_an_error(self, learner, column, value, read):
        columns = {"label": [None, "dog", "cat"], "x": [1.0, 2.0, np.nan], "k": [1.0, np.nan, 2.0]}
        state = learner.init(columns)
        broken = dict(columns, **{column: [1.0, 2.0, value]})
        with pytest.raises(ValueError, match=f"column '{column}', row 2"):
            learner.step(state, read(broken))
