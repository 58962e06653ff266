"""Networks against closed forms and against enumeration, in NumPy and SciPy."""

import itertools

import jax
import numpy as np
import pytest
from scipy import stats
from scipy.special import betaln, digamma, gammaln, logsumexp

import streambayes as sb
from streambayes._core.precision import float64_scope
from streambayes.testing._climb import internal_rows
from tests.models.network._closed_form import (
    HALF_LOG_TWO_PI,
    evidence_of_categories,
    evidence_of_counts,
    evidence_of_normal,
    evidence_of_times,
    gamma_kl,
)


class TestRegression:
    """A response that is linear in two columns far from 0."""

    @pytest.fixture
    def columns(self):
        rng = np.random.default_rng(8)
        a, b = rng.normal(40.0, 3.0, 30), rng.normal(-2.0, 0.5, 30)
        return {"a": a, "b": b, "y": 5.0 + 0.7 * a - 3.0 * b + rng.normal(0.0, 1.5, 30)}

    @pytest.mark.parametrize("scale", [True, False])
    def test_conjugate_is_the_textbook(self, columns, scale):
        """Posterior and evidence, in the user's units, whatever units are computed in."""
        mean, half = (
            np.array([1.0, 0.5, -1.0]),
            np.array([[1.0, 0, 0], [0.2, 2.0, 0], [0.1, -0.3, 0.5]]),
        )
        strength = half @ half.T
        own = (1.3, 2.0, 30.0, 0.2), (1.1, 0.7, 0.0, 0.5)
        learner = sb.StreamLearner(
            sb.models.LinearRegression("y", ["a", "b"], "conjugate"),
            sb.SVB(),
            scale=scale,
            prior={
                "y": sb.MultivariateNormalGamma.from_shape_rate_mean_scale(
                    1.5, 2.5, mean, strength
                ),
                "a, b": sb.NormalGamma.from_shape_rate_mean_scale(*np.transpose(own)),
            },
        )
        state, info = learner.step(learner.init(columns), columns)

        design = np.stack([np.ones(30), columns["a"], columns["b"]], -1)
        y = columns["y"]
        after = strength + design.T @ design
        location = np.linalg.solve(after, strength @ mean + design.T @ y)
        left, moved = y - design @ location, location - mean
        rate = 2.5 + 0.5 * (left @ left + moved @ strength @ moved)
        found = state.posterior["y"]
        np.testing.assert_allclose(found.location, location, rtol=1e-9)
        np.testing.assert_allclose(found.scale, after, rtol=1e-10)
        assert found.precision.shape == pytest.approx(1.5 + 15.0, rel=1e-13)
        assert found.precision.rate == pytest.approx(rate, rel=1e-9)

        evidence = (
            gammaln(16.5) - gammaln(1.5) + 1.5 * np.log(2.5) - 16.5 * np.log(rate)
            + 0.5 * (np.linalg.slogdet(strength)[1] - np.linalg.slogdet(after)[1])
            - 30 * HALF_LOG_TWO_PI
        )  # fmt: skip
        evidence += sum(evidence_of_normal(columns[n], *p) for n, p in zip("ab", own, strict=True))
        assert info.bound == pytest.approx(evidence, rel=1e-11)

        row = state.summary()["slope of y on b"]
        spread = np.sqrt(rate / 16.5 * np.linalg.inv(after)[2, 2])
        student = stats.t(33.0, location[2], spread)
        assert (row.mean, row.sd) == pytest.approx((student.mean(), student.std()), rel=1e-9)
        assert (row.lower, row.upper) == pytest.approx(student.ppf([0.05, 0.95]), rel=1e-9)

    def test_joint_is_close_to_conjugate_at_many_rows(self):
        r"""Their means are two ridge regressions of y.

        Both are given penalty 1, joint in units of the noise: $I / E[\tau]$ instead of $I$. With Gram matrix
        $G \approx nI$ they differ by $(1 - 1 / E[\tau]) b / n$ and terms of $n^{-3/2}$. The noise
        differs because the conjugate prior holds large coefficients against it, by
        $b^\top b / n$ in its variance, and by terms of the order of one row.
        """
        n = 2000
        rng = np.random.default_rng(9)
        a, b = rng.normal(size=(2, n))
        columns = {"a": a, "b": b, "y": 0.3 + a - 2.0 * b + rng.normal(0.0, 0.5, n)}
        priors = {
            "joint": {"y: noise": sb.Gamma.from_shape_rate(1.0, 1.0)},
            "conjugate": {
                "y": sb.families.MultivariateNormalGamma.from_shape_rate_mean_scale(
                    1.0, 1.0, np.zeros(3), np.eye(3)
                )
            },
        }
        found = {}
        for kind, prior in priors.items():
            model = sb.models.LinearRegression("y", ["a", "b"], kind)
            learner = sb.StreamLearner(model, sb.SVB(), prior=prior, scale=False)
            found[kind] = learner.step(learner.init(columns), columns)[0].posterior
        joint, conjugate = found["joint"], found["conjugate"]["y"]
        noise = 1.0 / joint["y: noise"].mean()
        design, y = np.stack([np.ones(n), a, b], -1), columns["y"]
        gram, mean = design.T @ design, joint["y: coefficients"].mean()
        covariance = np.linalg.inv(np.eye(3) + gram / noise)
        np.testing.assert_allclose(joint["y: coefficients"].covariance(), covariance, rtol=1e-9)
        np.testing.assert_allclose(mean, covariance @ design.T @ y / noise, rtol=1e-9)
        squares = ((y - design @ mean) ** 2).sum() + (gram * covariance).sum()
        assert joint["y: noise"].rate == pytest.approx(1.0 + 0.5 * squares, rel=1e-7)

        gap = joint["y: coefficients"].mean() - conjugate.location
        np.testing.assert_allclose(gap, (1.0 - noise) * conjugate.location / n, rtol=0.1, atol=1e-5)
        variance = conjugate.precision.rate / conjugate.precision.shape
        extra = conjugate.location @ conjugate.location / n
        assert variance - noise == pytest.approx(extra, abs=2.0 / n)
        covariance = np.linalg.inv(conjugate.scale) * variance
        np.testing.assert_allclose(
            np.linalg.inv(joint["y: coefficients"].precision) * variance / noise,
            covariance,
            rtol=2.0 / n,
            atol=1e-3 / n,
        )

    def test_independent_is_coordinate_ascent(self, columns):
        """Seven sweeps (noise, intercept, slopes) written down by hand, and the bound they reach."""
        entries = ["y: intercept", "y: b[a]", "y: b[b]"]
        means, precisions = np.array([0.5, 0.1, -0.2]), np.array([0.2, 0.4, 0.3])
        starts = np.array([3.0, 0.6, -2.0])
        own = (1.3, 2.0, 30.0, 0.2), (1.1, 0.7, 0.0, 0.5)
        prior = {
            name: sb.Normal.from_mean_precision(m, p)
            for name, m, p in zip(entries, means, precisions, strict=True)
        }
        start = {
            name: sb.Normal.from_mean_precision(m, 1.0)
            for name, m in zip(entries, starts, strict=True)
        }
        learner = sb.StreamLearner(
            sb.models.LinearRegression("y", ["a", "b"], "independent"),
            sb.SVB(),
            scale=False,
            prior={
                **prior,
                "y: noise": sb.Gamma.from_shape_rate(1.2, 0.9),
                "a, b": sb.NormalGamma.from_shape_rate_mean_scale(*np.transpose(own)),
            },
            start={**start, "y: noise": sb.Gamma.from_shape_rate(2.0, 2.0)},
            tolerance=0.0,
            max_sweeps=7,
        )
        state, info = learner.step(learner.init(columns), columns)
        assert info.num_sweeps == 7

        design, y = np.stack([np.ones(30), columns["a"], columns["b"]], -1), columns["y"]
        squares = (design**2).sum(0)
        m, p = starts.copy(), np.ones(3)
        for _ in range(7):
            left = y - design @ m
            rate = 0.9 + 0.5 * (left @ left + (squares / p).sum())
            precision = (1.2 + 15.0) / rate
            for j in range(3):
                others = y - design @ m + design[:, j] * m[j]
                p[j] = precisions[j] + precision * squares[j]
                m[j] = (precisions[j] * means[j] + precision * design[:, j] @ others) / p[j]
        for j, name in enumerate(entries):
            block = state.posterior[name]
            assert (block.mean(), block.precision) == pytest.approx((m[j], p[j]), rel=1e-10)
        noise = state.posterior["y: noise"]
        assert (noise.shape, noise.rate) == pytest.approx((16.2, rate), rel=1e-11)

        log_precision = digamma(16.2) - np.log(rate)
        left = y - design @ m
        fit = left @ left + (squares / p).sum()
        bound = 30 * (0.5 * log_precision - HALF_LOG_TWO_PI) - 0.5 * precision * fit
        bound -= gamma_kl(16.2, rate, 1.2, 0.9)
        bound -= (
            0.5
            * (precisions / p - 1 - np.log(precisions / p) + precisions * (m - means) ** 2).sum()
        )
        bound += sum(evidence_of_normal(columns[n], *q) for n, q in zip("ab", own, strict=True))
        assert info.bound == pytest.approx(bound, rel=1e-11)


class TestEvidence:
    """Without hidden variables the bound is the log evidence, configuration by configuration."""

    @pytest.mark.parametrize("scale", [True, False])
    def test_every_kind_of_variable(self, scale):
        rng = np.random.default_rng(10)
        days = ["Mon", "Tue", "Wed"]
        net = sb.Network()
        day = net.categorical("day", days)
        flag = net.bernoulli("flag", parents=[day])
        shop = net.categorical("shop", 4, parents=[flag])
        net.normal(["x", "y"], parents=[day, flag])
        net.poisson("k", parents=[shop])
        net.exponential("t", parents=[flag])
        normal = sb.NormalGamma.from_shape_rate_mean_scale(
            1.4, 0.6, np.array([1.0, -20.0]), np.array([0.5, 0.1])
        )
        beta = rng.gamma(2.0, 1.0, (2, 3))
        concentration = rng.gamma(2.0, 1.0, (2, 4))
        shapes = 1.0 + rng.random(4)
        learner = sb.StreamLearner(
            net,
            sb.SVB(),
            scale=scale,
            prior={
                "day": sb.Dirichlet.from_concentration([0.5, 1.0, 2.0]),
                "flag": sb.Beta.from_concentrations(*beta),
                "shop": sb.Dirichlet.from_concentration(concentration),
                "x, y": normal,
                "k": sb.Gamma.from_shape_rate(shapes, 0.4),
                "t": sb.Gamma.from_shape_rate(2.0, [5.0, 9.0]),
            },
        )

        def draw(n):
            return {
                "day": rng.choice(days, n),
                "flag": rng.integers(0, 2, n),
                "shop": rng.integers(0, 4, n),
                "x": rng.normal(2.0, 1.0, n),
                "y": rng.normal(-25.0, 4.0, n),
                "k": rng.poisson(3.0, n),
                "t": rng.exponential(7.0, n),
            }

        batches = [draw(29), draw(20), draw(32)]
        state, bound = learner.init(batches[0]), 0.0
        for batch in batches:
            state, info = learner.step(state, batch)
            bound += info.bound
        whole = {name: np.concatenate([b[name] for b in batches]) for name in batches[0]}
        where = {d: whole["day"] == d for d in days}
        flags, shops = whole["flag"], whole["shop"]
        evidence = evidence_of_categories(
            np.array([where[d].sum() for d in days]), np.array([0.5, 1.0, 2.0])
        )
        for place, d in enumerate(days):
            ones, all_rows = flags[where[d]].sum(), where[d].sum()
            alpha, other = beta[:, place]
            evidence += betaln(alpha + ones, other + all_rows - ones) - betaln(alpha, other)
            for f in (0, 1):
                rows = where[d] & (flags == f)
                evidence += evidence_of_normal(whole["x"][rows], 1.4, 0.6, 1.0, 0.5)
                evidence += evidence_of_normal(whole["y"][rows], 1.4, 0.6, -20.0, 0.1)
        for f, rate in ((0, 5.0), (1, 9.0)):
            counts = np.bincount(shops[flags == f], minlength=4)
            evidence += evidence_of_categories(counts, concentration[f])
            evidence += evidence_of_times(whole["t"][flags == f], 2.0, rate)
        for s in range(4):
            evidence += evidence_of_counts(whole["k"][shops == s], shapes[s], 0.4)
        assert bound == pytest.approx(evidence, rel=1e-12)


@pytest.fixture(scope="module")
def chain():
    """z1 and z2 | z1 hidden; c | z1 and z2, d | z2, e | z1 observed; some posterior."""
    rng = np.random.default_rng(12)
    net = sb.Network()
    net.categorical("z1", 2, latent=True)
    net.categorical("z2", 3, parents=["z1"], latent=True)
    net.categorical("c", 3, parents=["z2", "z1"])
    net.bernoulli("d", parents=["z2"])
    net.categorical("e", 2, parents=["z1"])
    tables = {
        "z1": rng.gamma(2.0, 1.0, 2),
        "z2": rng.gamma(2.0, 1.0, (2, 3)),
        "c": rng.gamma(1.0, 1.0, (3, 2, 3)),
        "d": rng.gamma(1.0, 1.0, (3, 2)),
        "e": rng.gamma(1.0, 1.0, (2, 2)),
    }
    prior = {n: sb.Dirichlet.from_concentration(a) for n, a in tables.items()}
    prior["d"] = sb.Beta.from_concentrations(tables["d"][:, 1], tables["d"][:, 0])
    learner = sb.StreamLearner(net, sb.SVB(), prior=prior, start=prior)
    rows = {name: part.ravel() for name, part in zip("cde", np.indices((3, 2, 2)), strict=True)}
    means = {n: a / a.sum(-1, keepdims=True) for n, a in tables.items()}
    # (z1, z2, c, d, e)
    joint = np.einsum(
        "a,ab,bac,bd,ae->abcde", means["z1"], means["z2"], means["c"], means["d"], means["e"]
    )
    return learner, learner.init(rows), rows, joint


class TestEnumeration:
    """Small discrete networks, where all there is to sum can be summed."""

    def test_density(self, chain):
        learner, state, rows, joint = chain
        wanted = joint.sum((0, 1))[rows["c"], rows["d"], rows["e"]]
        np.testing.assert_allclose(np.exp(learner.log_predictive(state, rows)), wanted, rtol=1e-12)
        assert learner.score(state, rows).method == "exact"

    @pytest.mark.parametrize(("name", "axis"), [("z1", 0), ("z2", 1)])
    def test_latent_given_the_rest(self, chain, name, axis):
        learner, state, rows, joint = chain
        found = learner.predict(state, rows, name)
        share = joint.sum(1 - axis)[:, rows["c"], rows["d"], rows["e"]].T
        np.testing.assert_allclose(
            found.probabilities, share / share.sum(1, keepdims=True), rtol=1e-12
        )
        assert found.method == "exact"

    def test_column_given_others_and_gaps(self, chain):
        """c given d and e, where some d are missing and then some e too."""
        learner, state, rows, joint = chain
        table = joint.sum((0, 1))  # (c, d, e)
        d = rows["d"].astype(float)
        d[::2] = np.nan
        e = rows["e"].astype(object)
        e[::3] = None
        found = learner.predict(state, {"d": d, "e": e}, "c")
        for row, share in enumerate(found.probabilities):
            part = table if np.isnan(d[row]) else table[:, [int(d[row])]]
            part = part if e[row] is None else part[:, :, [e[row]]]
            wanted = part.sum((1, 2))
            np.testing.assert_allclose(share, wanted / wanted.sum(), rtol=1e-12)

    def test_rows_of_independent_latents_settle_at_once_where_they_should(self):
        """Mean field is exact for latents that are independent given the row and the parameters."""
        rng = np.random.default_rng(13)
        net = sb.Network()
        net.categorical("z1", 2, latent=True)
        net.categorical("z2", 3, latent=True)
        net.categorical("c", 3, parents=["z1"])
        net.categorical("d", 4, parents=["z2"])
        net.categorical("e", 2, parents=["z2"])
        shapes = {"z1": (2,), "z2": (3,), "c": (2, 3), "d": (3, 4), "e": (3, 2)}
        prior = {
            n: sb.Dirichlet.from_concentration(0.3 + rng.gamma(2.0, 1.0, s))
            for n, s in shapes.items()
        }
        learner = sb.StreamLearner(net, sb.SVB(), prior=prior, start=prior)
        rows = {
            "c": rng.integers(0, 3, 15),
            "d": rng.integers(0, 4, 15),
            "e": rng.integers(0, 2, 15),
        }
        state = learner.init(rows)
        logs = {}
        for name, block in prior.items():
            alpha = block.concentration
            logs[name] = digamma(alpha) - digamma(alpha.sum(-1, keepdims=True))
        first = logs["z1"] + logs["c"][:, rows["c"]].T
        second = logs["z2"] + logs["d"][:, rows["d"]].T + logs["e"][:, rows["e"]].T
        with float64_scope():
            batch = internal_rows(learner, state.scale, rows)
            step = jax.jit(net.row_pass)
            held, _ = step(state.belief.expectations(), batch, net.init_local(batch))
            shares = {name: np.asarray(share)[:, :15].T for name, share in held.shares.items()}
        for name, logits in (("z1", first), ("z2", second)):
            wanted = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
            np.testing.assert_allclose(shares[name], wanted, rtol=1e-12)
        # with exact rows the bound of a row is the log of the sum over both latents
        bound = (logsumexp(first, axis=1) + logsumexp(second, axis=1)).mean()
        assert learner.score(state, rows).bound == pytest.approx(bound, rel=1e-12)

    def test_bound_with_one_latent(self):
        """As many sweeps by hand; the bound lies below the evidence, summed over all assignments."""
        rng = np.random.default_rng(14)
        net = sb.Network()
        z = net.categorical("z", 2, latent=True)
        net.categorical("c", 3, parents=[z])
        net.bernoulli("d", parents=[z])
        net.poisson("k", parents=[z])
        rows = {"c": rng.integers(0, 3, 9), "d": rng.integers(0, 2, 9), "k": rng.poisson(2.0, 9)}
        start = {
            "z": sb.Dirichlet.from_concentration([3.0, 2.0]),
            "c": sb.Dirichlet.from_concentration([[3.0, 1.0, 2.0], [1.0, 2.0, 2.0]]),
            "d": sb.Beta.from_concentrations([2.0, 1.0], [1.0, 3.0]),
            "k": sb.Gamma.from_shape_rate([2.0, 5.0], [2.0, 2.0]),
        }
        learner = sb.StreamLearner(net, sb.SVB(), start=start)
        state, info = learner.step(learner.init(rows), rows)
        c, d, k = np.eye(3)[rows["c"]], np.eye(2)[rows["d"]], rows["k"]

        def log_mean(alpha):
            return digamma(alpha) - digamma(alpha.sum(-1, keepdims=True))

        def table(counts):
            return evidence_of_categories(counts, np.ones_like(counts))

        mixing, of_c = np.array([3.0, 2.0]), start["c"].concentration
        of_d = np.array([[1.0, 2.0], [3.0, 1.0]])  # of d = 0 and d = 1, for each z
        shape, rate = np.array([2.0, 5.0]), np.array([2.0, 2.0])
        for _ in range(info.num_sweeps):
            logits = log_mean(mixing) + c @ log_mean(of_c).T + d @ log_mean(of_d).T
            logits += np.outer(k, digamma(shape) - np.log(rate)) - shape / rate
            share = np.exp(logits - logsumexp(logits, axis=1, keepdims=True))
            mixing, of_c, of_d = 1.0 + share.sum(0), 1.0 + share.T @ c, 1.0 + share.T @ d
            shape, rate = 1.0 + share.T @ k, 1.0 + share.sum(0)
        np.testing.assert_allclose(state.posterior["c"].concentration, of_c, rtol=1e-9)
        np.testing.assert_allclose(state.posterior["k"].rate, rate, rtol=1e-9)
        # where blocks are at their optimum, the bound is the evidence of expected counts
        bound = table(share.sum(0)) - (share * np.log(share)).sum() - gammaln(k + 1.0).sum()
        for s in share.T:
            bound += table(s @ c) + table(s @ d)
            bound += gammaln(1.0 + s @ k) - (1.0 + s @ k) * np.log(1.0 + s.sum())
        assert info.bound == pytest.approx(bound, rel=1e-11)

        terms = []
        for choice in itertools.product([0, 1], repeat=9):
            s = np.array(choice)
            term = table(np.bincount(s, minlength=2))
            for value in (0, 1):
                term += table(c[s == value].sum(0)) + table(d[s == value].sum(0))
                term += evidence_of_counts(k[s == value], 1.0, 1.0)
            terms.append(term)
        evidence = logsumexp(terms)
        assert (
            evidence - 3.0 < info.bound < evidence
        )  # two labellings, and what nine rows leave open


class TestPapersModels:
    """The three models of the paper, each in at most ten lines."""

    def test_electricity(self):
        net = sb.Network()
        x = net.normal([f"x{k}" for k in range(6)])
        net.normal("y", parents=x, coefficients="independent")
        labels = names_of_blocks(net)
        assert len(labels) == 14
        assert {"x0", "x5", "y: intercept", "y: b[x0]", "y: b[x5]", "y: noise"} <= labels
        assert net.show().endswith("14 blocks")

    def test_gps(self):
        net = sb.Network()
        day = net.categorical("day", ["Mon", "Tue", "Wed", "Thu", "Fri", "Sat", "Sun"])
        z = net.categorical("z", 5, parents=[day], latent=True)
        net.normal(["x", "y"], parents=[z, day])
        labels = names_of_blocks(net)
        assert len(labels) == 78
        assert {"day", "z | day=Sun", "x | z=2, day=Mon", "y | z=4, day=Sun"} <= labels
        ready = sb.models.ConditionalMixture(["x", "y"], "day", 7, 5)
        assert len(names_of_blocks(ready)) == 78

    def test_finance(self):
        net = sb.Network()
        default = net.categorical("default", ["no", "yes"])
        z = net.categorical("z", 5, parents=[default], latent=True)
        net.normal(["x1", "x2", "x3"], parents=[z, default])
        labels = names_of_blocks(net)
        assert len(labels) == 33
        assert {"default", "z | default=yes", "x3 | z=0, default=no"} <= labels
        ready = sb.models.MixtureNaiveBayes("default", 2, ["x1", "x2", "x3"], 5)
        assert len(names_of_blocks(ready)) == 33


def names_of_blocks(model):
    names = [text for part in model.labels().values() for text in part.ravel()]
    assert len(names) == sum(np.prod(f.batch_shape, dtype=int) for f in model.prior().values())
    assert len(names) == len(set(names))
    return set(names)
