"""Predictions: densities that integrate to one, and everything that follows from them."""

import numpy as np
import pytest
from scipy import stats
from scipy.interpolate import CubicSpline

import streambayes as sb

LABELS = ("no", "yes")
RESPONSES = {"u": "joint", "v": "independent", "w": "conjugate"}
REGRESSORS = ((11.0, 0.5), (16.0, -2.5))


def integral(points, values):
    """Simpson's rule over an even grid."""
    step = points[1] - points[0]
    weights = np.full(len(points), 2.0)
    weights[1::2] = 4.0
    weights[[0, -1]] = 1.0
    return float(step / 3.0 * (weights * values).sum())


def moments(points, density):
    """Mean and standard deviation of a density on a grid."""
    total = integral(points, density)
    mean = integral(points, points * density) / total
    return mean, np.sqrt(integral(points, (points - mean) ** 2 * density) / total)


def below(points, density, end):
    """Probability of values up to a point within the grid, by a spline through the log density."""
    fine = np.linspace(points[0], end, 4001)
    logs = CubicSpline(points, np.log(density))(fine)
    return integral(fine, np.exp(logs)) / integral(points, density)


def rows_of(learner, num_rows, **columns):
    """Rows with all cells missing, but for those given."""
    missing = {column.name: [None] * num_rows for column in learner.model.columns}
    return missing | columns


class TestClosed:
    """A class, a hidden component given the class, and leaves of every kind that has a density."""

    @pytest.fixture(scope="class")
    @staticmethod
    def fitted():
        rng = np.random.default_rng(30)
        net = sb.Network()
        label = net.categorical("label", LABELS)
        z = net.categorical("z", 2, parents=[label], latent=True)
        net.normal("x", parents=[z, label])
        net.poisson("k", parents=[label])
        net.exponential("t", parents=[z])
        net.multivariate_normal(["p", "q"], parents=[z])
        n = 120
        first, second = rng.integers(0, 2, n), rng.integers(0, 2, n)
        p = rng.normal(4.0 * second, 1.0)
        rows = {
            "label": np.array(LABELS)[first],
            "x": rng.normal(50.0 + 6.0 * second - 2.0 * first, 1.5),
            "k": rng.poisson(2.0 + 3.0 * first),
            "t": rng.exponential(20.0 - 15.0 * second),
            "p": p,
            "q": rng.normal(100.0 + 7.0 * p, 4.0),
        }
        learner = sb.StreamLearner(net, sb.SVB())
        state, info = learner.step(learner.init(rows), rows)
        assert info.outcome == sb.Outcome.CONVERGED
        return learner, state

    @pytest.fixture(scope="class")
    @staticmethod
    def grids(fitted):
        """For each column, a grid with all other cells missing, then with some others known."""
        learner, state = fitted
        grids = {
            "x": np.linspace(20.0, 90.0, 301),
            "t": np.concatenate([np.linspace(0.0, 400.0, 301)]),
            "p": np.linspace(-30.0, 34.0, 301),
            "k": np.arange(0.0, 81.0),
        }
        others = {"label": "yes", "x": 54.0, "t": 8.0, "q": 120.0, "k": 4}
        parts = []
        for name, grid in grids.items():
            parts.append(rows_of(learner, len(grid), **{name: grid}))
            known = {n: [v] * len(grid) for n, v in others.items() if n != name}
            parts.append(rows_of(learner, len(grid), **known, **{name: grid}))
        parts.append(rows_of(learner, 1))
        rows = {n: np.concatenate([np.array(part[n], object) for part in parts]) for n in parts[0]}
        densities = np.exp(learner.log_predictive(state, rows))
        found, at = {}, 0
        for name, grid in grids.items():
            size = len(grid)
            found[name] = grid, densities[at : at + size], densities[at + size : at + 2 * size]
            at += 2 * size
        return found, others

    @pytest.mark.parametrize("name", ["x", "t", "p", "k"])
    def test_densities_integrate_to_one(self, grids, name):
        """Of one cell, all others missing: the label and the component are summed over."""
        grid, alone, _ = grids[0][name]
        if name == "k":
            assert alone.sum() == pytest.approx(1.0, abs=1e-9)
        elif name == "t":  # Lomax: what lies beyond the grid falls as a power of about 60
            assert integral(grid, alone) == pytest.approx(1.0, abs=1e-4)
        else:
            assert integral(grid, alone) == pytest.approx(1.0, abs=1e-8)

    def test_one_cell_of_a_vector_is_a_mixture_of_students(self, fitted, grids):
        _, state = fitted
        grid, alone, _ = grids[0]["p"]
        block, post = state.posterior["p, q"], state.posterior
        weights = post["label"].mean() @ post["z"].mean()
        degrees = block.degrees - 1.0
        spread = np.sqrt(block.scatter[:, 0, 0] * (1.0 + 1.0 / block.scale) / degrees)
        student = stats.t(degrees, block.location[:, 0], spread)
        np.testing.assert_allclose(alone, student.pdf(grid[:, None]) @ weights, rtol=1e-9)

    @pytest.mark.parametrize("name", ["x", "t", "p", "k"])
    def test_moments_and_quantiles_are_those_of_the_density(self, fitted, grids, name):
        """Given nothing, and given what is known of other columns."""
        learner, state = fitted
        grid, *densities = grids[0][name]
        known = {n: [None, v] for n, v in grids[1].items() if n != name}
        found = learner.predict(state, rows_of(learner, 2, **known), name)
        assert found.method == "exact"
        for row, density in enumerate(densities):
            if name == "k":
                share = density / density.sum()
                mean = (grid * share).sum()
                spread = np.sqrt((grid**2 * share).sum() - mean**2)
                up_to = share.cumsum()
                for end, tail in ((found.lower[row], 0.05), (found.upper[row], 0.95)):
                    assert up_to[int(end)] >= tail - 1e-9
                    assert end == 0 or up_to[int(end) - 1] < tail
            else:
                mean, spread = moments(grid, density)
                assert below(grid, density, found.lower[row]) == pytest.approx(0.05, abs=2e-4)
                assert below(grid, density, found.upper[row]) == pytest.approx(0.95, abs=2e-4)
            precise = 1e-3 if name == "t" else 1e-6  # the grid's end and its step, for the Lomax
            assert (found.mean[row], found.sd[row]) == pytest.approx((mean, spread), rel=precise)

    def test_class_by_bayes_rule(self, fitted):
        """p(label | rest) from the joint densities with either label."""
        learner, state = fitted
        rng = np.random.default_rng(31)
        cells = {
            "x": rng.normal(52.0, 4.0, 20).astype(object),
            "k": rng.poisson(3.0, 20).astype(object),
            "t": rng.exponential(12.0, 20).astype(object),
            "p": rng.normal(2.0, 2.0, 20).astype(object),
            "q": rng.normal(115.0, 15.0, 20).astype(object),
        }
        for values in cells.values():
            values[rng.random(20) < 0.4] = None
        cells["x"][0] = cells["k"][0] = cells["t"][0] = cells["p"][0] = cells["q"][0] = None
        # as many rows as the grids have, to share their compilation
        joint = [
            learner.log_predictive(
                state, {n: np.tile(v, 100) for n, v in (cells | {"label": [label] * 20}).items()}
            )[:20]
            for label in LABELS
        ]
        odds = np.exp(np.array(joint) - np.logaddexp(*joint))
        found = learner.predict(state, cells, "label")
        np.testing.assert_allclose(found.probabilities, odds.T, rtol=1e-9)
        assert (found.most_likely == np.array(LABELS)[odds.argmax(0)]).all()
        np.testing.assert_allclose(learner.predict_proba(state, cells, "label"), odds.T, rtol=1e-9)

    def test_component_by_bayes_rule(self, fitted):
        """p(z | label, x) from probabilities and Student-t densities of the posterior."""
        learner, state = fitted
        x = np.linspace(44.0, 62.0, 20)
        label = np.array(LABELS)[np.arange(20) % 2]
        found = learner.predict(state, rows_of(learner, 20, x=x, label=label), "z")
        post = state.posterior
        table = post["z"].mean()[np.arange(20) % 2]
        block = post["x"]
        gamma = block.precision
        spread = np.sqrt(gamma.rate / gamma.shape * (1.0 + 1.0 / block.scale))
        student = stats.t(2.0 * gamma.shape, block.location, spread)
        joint = table * student.pdf(x[:, None, None])[np.arange(20), :, np.arange(20) % 2]
        np.testing.assert_allclose(
            found.probabilities, joint / joint.sum(1, keepdims=True), rtol=1e-9
        )

    def test_sampled_rows_have_the_predicted_moments(self, fitted):
        """Means within four standard errors, likewise frequencies; deviations within 3 %."""
        learner, state = fitted
        n = 20000
        rows = learner.sample(state, n, seed=1)
        nothing = {c.name: [None, None] for c in learner.model.columns}
        for name in ("x", "t", "p", "k"):
            found = learner.predict(state, nothing, name)
            assert abs(rows[name].mean() - found.mean[0]) < 4.0 * found.sd[0] / np.sqrt(n)
            assert rows[name].std() == pytest.approx(found.sd[0], rel=0.03)
            inside = (rows[name] >= found.lower[0]) & (rows[name] <= found.upper[0])
            if name == "k":
                assert inside.mean() > 0.9 - 0.01
            else:
                assert inside.mean() == pytest.approx(0.9, abs=0.01)
        share = learner.predict(state, nothing, "label").probabilities[0, 1]
        assert (rows["label"] == "yes").mean() == pytest.approx(share, abs=0.015)
        assert rows["k"].dtype.kind == "i"
        again = learner.sample(state, n, seed=1)
        assert all((again[name] == rows[name]).all() for name in rows)

    def test_intervals_cover(self, fitted):
        """Rows drawn from the predictive distribution itself fall into 90 % intervals as often."""
        learner, state = fitted
        rows = learner.sample(state, 1000, seed=2)
        found = learner.predict(state, rows, "p")
        inside = (rows["p"] >= found.lower) & (rows["p"] <= found.upper)
        assert inside.mean() == pytest.approx(0.9, abs=0.03)  # three standard errors


def test_class_of_very_many_values():
    """More than the joint states that are summed over elsewhere: a target's own always are."""
    net = sb.Network()
    net.categorical("c", 1100)
    net.poisson("k", parents=["c"])
    shapes = 1.0 + np.arange(1100.0)
    prior = {"k": sb.Gamma.from_shape_rate(shapes, 100.0)}
    learner = sb.StreamLearner(net, sb.SVB(), prior=prior)
    state = learner.init({"c": [0], "k": [3]})
    found = learner.predict(state, {"k": [3, None]}, "c")
    count = stats.nbinom(shapes, 100.0 / 101.0).pmf(3)
    np.testing.assert_allclose(found.probabilities[0], count / count.sum(), rtol=1e-9)
    np.testing.assert_allclose(found.probabilities[1], 1.0 / 1100.0, rtol=1e-12)
    assert found.method == "exact"


class TestRegressions:
    """One network with all three kinds of coefficients, on the same regressors."""

    @pytest.fixture(scope="class")
    @staticmethod
    def fitted():
        rng = np.random.default_rng(33)
        net = sb.Network()
        net.normal(["a", "b"])
        for name, kind in RESPONSES.items():
            net.normal(name, parents=["a", "b"], coefficients=kind)
        n = 25
        a, b = rng.normal(10.0, 2.0, n), rng.normal(size=n)
        rows = {"a": a, "b": b}
        for name in RESPONSES:
            rows[name] = 3.0 + 2.0 * a - b + rng.normal(0.0, 1.5, n)
        learner = sb.StreamLearner(net, sb.SVB())
        return learner, learner.step(learner.init(rows), rows)[0]

    @pytest.fixture(scope="class")
    @staticmethod
    def grids(fitted):
        """Densities of complete rows, one response on a grid; far from and near to the data."""
        learner, state = fitted
        grid = np.linspace(-20.0, 80.0, 401)
        found = {}
        for place, (a, b) in enumerate(REGRESSORS):
            row = {"a": a, "b": b, "u": 24.0, "v": 25.0, "w": 22.0}
            parts = [row | {name: grid} for name in RESPONSES]
            rows = {
                n: np.concatenate([np.broadcast_to(part[n], 401) for part in parts]) for n in row
            }
            densities = np.exp(learner.log_predictive(state, rows)).reshape(3, 401)
            for name, density in zip(RESPONSES, densities, strict=True):
                found[name, place] = density
        return grid, found

    @pytest.mark.parametrize("place", [0, 1])
    def test_densities_integrate_to_one(self, fitted, grids, place):
        """Integrated over each response in turn, a row's density leaves that of its regressors."""
        _, state = fitted
        grid, found = grids
        block = state.posterior["a, b"]
        gamma = block.precision
        spread = np.sqrt(gamma.rate / gamma.shape * (1.0 + 1.0 / block.scale))
        student = stats.t(2.0 * gamma.shape, block.location, spread)
        # the joint density at u, v, w is the same point of each grid
        at = {"u": 24.0, "v": 25.0, "w": 22.0}
        logs = [float(CubicSpline(grid, np.log(found[n, place]))(at[n])) for n in RESPONSES]
        assert logs == pytest.approx([logs[0]] * 3, abs=1e-6)
        whole = [np.log(integral(grid, found[n, place])) for n in RESPONSES]
        # p(a, b) = product over n of (integral over n) / p(a, b, u, v, w), times the latter
        left = sum(whole) - 2.0 * logs[0]
        assert left == pytest.approx(student.logpdf(REGRESSORS[place]).sum(), abs=1e-6)

    @pytest.mark.parametrize("name", RESPONSES)
    def test_moments_and_quantiles_are_those_of_the_density(self, fitted, grids, name):
        learner, state = fitted
        grid, densities = grids
        known = {"a": [11.0, 16.0], "b": [0.5, -2.5]}
        others = {n: [None, None] for n in "uvw" if n != name}
        found = learner.predict(state, known | others, name)
        assert found.method == "exact"
        for place in (0, 1):
            density = densities[name, place]
            mean, spread = moments(grid, density)
            assert (found.mean[place], found.sd[place]) == pytest.approx((mean, spread), rel=1e-5)
            assert below(grid, density, found.lower[place]) == pytest.approx(0.05, abs=5e-4)
            assert below(grid, density, found.upper[place]) == pytest.approx(0.95, abs=5e-4)


class TestDraws:
    """Where normal variables are hidden, predictions rest on 256 weighted draws."""

    @pytest.fixture(scope="class")
    @staticmethod
    def sure():
        """y = 1 + 2 a - b + noise of deviation 1, with parameters that are nearly certain."""
        sure = 1e8
        prior = {
            "a, b": sb.NormalGamma.from_shape_rate_mean_scale(
                sure, sure * np.array([4.0, 0.25]), [3.0, -1.0], sure
            ),
            "y": sb.MultivariateNormalGamma.from_shape_rate_mean_scale(
                sure, sure, np.array([1.0, 2.0, -1.0]), sure * np.eye(3)
            ),
        }
        learner = sb.StreamLearner(
            sb.models.LinearRegression("y", ["a", "b"], "conjugate"),
            sb.SVB(),
            prior=prior,
            scale=False,
        )
        rng = np.random.default_rng(34)
        b, y = rng.normal(-1.0, 0.5, 16), rng.normal(8.0, 4.0, 16)
        b[8:] = np.nan
        rows = {"a": np.full(16, np.nan), "b": b, "y": y}
        return learner, learner.init(rows), rows

    def test_missing_regressor_is_the_conditional_normal(self, sure):
        """Two kinds of rows: a missing, and a and b missing; the joint normal's conditionals."""
        learner, state, rows = sure
        found = learner.predict(state, rows, "a")
        assert found.method == "importance"
        known = ~np.isnan(rows["b"])
        base = np.where(known, 1.0 - rows["b"], 2.0)  # mean of y less what a brings
        noise = np.where(known, 1.0, 1.25)
        precision = 1.0 / 4.0 + 4.0 / noise
        mean = (3.0 / 4.0 + 2.0 * (rows["y"] - base) / noise) / precision
        spread = 1.0 / np.sqrt(precision)
        # one hidden variable is met to about 0.5 % of its deviation, two to about 1 %
        assert (np.abs(found.mean - mean) < np.where(known, 0.015, 0.04) * spread).all()
        np.testing.assert_allclose(found.sd, spread, rtol=0.03)
        for end, tail in ((found.lower, 0.05), (found.upper, 0.95)):
            share = stats.norm(mean, spread).cdf(end)
            assert (np.abs(share - tail) < np.where(known, 0.01, 0.025)).all()

    def test_density_of_the_rest_is_normal(self, sure):
        learner, state, rows = sure
        known = ~np.isnan(rows["b"])
        base = np.where(known, 7.0 - rows["b"], 8.0)
        spread = np.sqrt(np.where(known, 16.0 + 1.0, 16.0 + 1.25))
        own = stats.norm(-1.0, 0.5).logpdf(rows["b"][known]).sum()
        wanted = stats.norm(base, spread).logpdf(rows["y"]).sum() + own
        score = learner.score(state, rows)
        assert score.method == "importance"
        assert score.predictive == pytest.approx(wanted / 16, abs=0.01)

    @pytest.fixture(scope="class")
    @staticmethod
    def factor():
        """A latent normal with three columns below it."""
        rng = np.random.default_rng(35)
        net = sb.Network()
        net.normal("f", latent=True)
        net.normal(["u", "v", "w"], parents=["f"], coefficients="conjugate")
        score = rng.normal(size=100)
        rows = {
            "u": 5.0 + 2.0 * score + 0.5 * rng.normal(size=100),
            "v": -score + 0.7 * rng.normal(size=100),
            "w": 0.5 * score + rng.normal(size=100),
        }
        learner = sb.StreamLearner(net, sb.SVB())
        state, info = learner.step(learner.init(rows), rows)
        assert info.outcome == sb.Outcome.CONVERGED
        return learner, state

    @pytest.fixture(scope="class")
    @staticmethod
    def grids(factor):
        """Densities of u alone and of u with v, on a grid; of v alone."""
        learner, state = factor
        grid = np.linspace(-25.0, 35.0, 201)
        gap = np.full(201, np.nan)
        parts = [(grid, gap), (grid, np.full(201, 1.5)), (gap[:1], np.array([1.5]))]
        rows = {
            "u": np.concatenate([u for u, _ in parts]),
            "v": np.concatenate([v for _, v in parts]),
            "w": np.full(403, np.nan),
        }
        found = np.exp(learner.log_predictive(state, rows))
        return grid, found[:201], found[201:402], found[402]

    def test_densities_integrate_to_one(self, grids):
        """Within 1 %: of u, and of u and v to that of v."""
        grid, alone, with_v, v = grids
        assert integral(grid, alone) == pytest.approx(1.0, abs=0.01)
        assert integral(grid, with_v) == pytest.approx(v, rel=0.01)

    def test_moments_are_those_of_the_density(self, factor, grids):
        """Of u given nothing and given v: within 3 % of the deviation."""
        learner, state = factor
        grid, alone, with_v, _ = grids
        found = learner.predict(state, {"v": [None, 1.5], "w": [None, None]}, "u")
        assert found.method == "importance"
        for row, density in enumerate((alone, with_v)):
            mean, spread = moments(grid, density)
            assert found.mean[row] == pytest.approx(mean, abs=0.03 * spread)
            assert found.sd[row] == pytest.approx(spread, rel=0.05)
            assert below(grid, density, found.lower[row]) == pytest.approx(0.05, abs=0.015)
            assert below(grid, density, found.upper[row]) == pytest.approx(0.95, abs=0.015)

    def test_sampled_rows_have_the_predicted_moments(self, factor):
        learner, state = factor
        rows = learner.sample(state, 20000, seed=3)
        assert set(rows) == {"u", "v", "w"}
        found = learner.predict(state, {"v": [None, None], "w": [None, None]}, "u")
        assert rows["u"].mean() == pytest.approx(found.mean[0], abs=0.05 * found.sd[0])
        assert rows["u"].std() == pytest.approx(found.sd[0], rel=0.05)
        # conditional means: u given v near 1.5
        near = np.abs(rows["v"] - 1.5) < 0.1
        given = learner.predict(state, {"v": [1.5, 1.5], "w": [None, None]}, "u")
        error = rows["u"][near].std() / np.sqrt(near.sum())
        assert rows["u"][near].mean() == pytest.approx(given.mean[0], abs=4.0 * error)


def test_rows_without_gaps_are_told_alike_beside_rows_with_gaps(rng):
    """Those are told by draws and few members of a bank, which would miss the tails of the others."""
    x = rng.normal(size=(120, 2))
    columns = {"x": x[:, 0], "y": x @ [1.0, 2.0] + rng.normal(size=120), "z": x[:, 1]}
    learner = sb.StreamLearner(sb.models.LinearRegression("y", ["x", "z"]), watch=False)
    state = learner.init(columns)
    for start in range(0, 120, 40):
        state, _ = learner.step(state, {k: v[start : start + 40] for k, v in columns.items()})
    far = {"x": np.array([0.2, 9.0, -0.5]), "y": np.array([1.0, -8.0, 0.3]), "z": np.zeros(3)}
    alone = learner.log_predictive(state, far)
    beside = {name: np.append(values, 0.5) for name, values in far.items()}
    beside["z"][-1] = np.nan
    found = learner.log_predictive(state, beside)
    np.testing.assert_allclose(found[:-1], alone, rtol=1e-12)
    score = learner.score(state, beside)
    assert score.method == "importance"
    assert score.predictive == pytest.approx(found.mean(), rel=1e-12)
