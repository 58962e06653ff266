"""Streams that drift in a known way: what is drawn is what the truth says."""

import re
import subprocess
import sys
import textwrap

import numpy as np
import pytest

import streambayes as sb
from streambayes.datasets import make_drift

MAIL = sb.models.NaiveBayes(
    "label", ["ham", "spam"], normal=["x", "y"], categorical={"c": 3}, poisson="k"
)
PAIR = sb.models.Gaussian(["x", "y"])
NUM_ROWS = 400


def mail(kind, **options):
    return make_drift(MAIL, kind, **{"num_batches": 12, "num_rows": NUM_ROWS, **options})


def pair(*means):
    """Regimes of two columns with standard deviation 1."""
    return [{"x, y": (np.array(mean, float), np.ones(2))} for mean in means]


def truths(stream):
    return [stream.truth(number) for number in range(len(stream))]


def changed(before, after):
    return {name for name in before if before[name] != after[name]}


def same_columns(one, other):
    return one.columns.keys() == other.columns.keys() and all(
        np.array_equal(one.columns[name], other.columns[name]) for name in one.columns
    )


class TestDeterminism:
    def test_a_seed_settles_everything(self):
        first, again, other = (mail("partial", missing=0.2, seed=seed) for seed in (5, 5, 6))
        assert first.changes == again.changes
        assert truths(first) == truths(again)
        for mine, theirs in zip(first, again, strict=True):
            assert mine.columns.keys() == theirs.columns.keys()
            for name in mine.columns:
                np.testing.assert_array_equal(mine.columns[name], theirs.columns[name])
        assert changed(first.truth(0), other.truth(0)) == set(first.truth(0))
        assert not same_columns(next(iter(first)), next(iter(other)))

    def test_batches_differ_and_can_be_read_again(self):
        stream = mail("none")
        batches = list(stream)
        assert len(stream) == len(batches) == 12
        assert [batch.label for batch in batches] == [str(number) for number in range(12)]
        assert all(same_columns(*both) for both in zip(stream, batches, strict=True))
        assert not same_columns(batches[0], batches[1])
        assert {len(values) for batch in batches for values in batch.columns.values()} == {400}


class TestKinds:
    def test_none(self):
        stream = mail("none")
        assert stream.changes == ()
        assert all(truth == stream.truth(0) for truth in truths(stream))

    def test_abrupt(self):
        """New parameters, all of them, at the changes and nowhere else."""
        stream = mail("abrupt", changes=[7, 3])
        found = truths(stream)
        assert [(change.batch, change.until) for change in stream.changes] == [(3, 3), (7, 7)]
        for number in range(1, 12):
            moved = changed(found[number - 1], found[number])
            assert moved == (set(found[0]) if number in (3, 7) else set())
        blocks = [str(name) for names in MAIL.labels().values() for name in names.flat]
        assert all(change.blocks == tuple(blocks) for change in stream.changes)

    def test_default_changes(self):
        assert [change.batch for change in mail("abrupt").changes] == [4, 8]

    def test_partial(self):
        """The named blocks change, no others."""
        stream = mail("partial", blocks=["k | label=ham", "y | label=spam"])
        found = truths(stream)
        expected = {
            "rate of k | label=ham",
            "mean of y | label=spam",
            "standard deviation of y | label=spam",
        }
        for number in range(1, 12):
            moved = changed(found[number - 1], found[number])
            assert moved == (expected if number in (4, 8) else set())
        assert {change.blocks for change in stream.changes} == {("y | label=spam", "k | label=ham")}

    def test_partial_chooses_one_block(self):
        chosen = {mail("partial", seed=seed).changes[0].blocks for seed in range(6)}
        assert all(len(blocks) == 1 for blocks in chosen)
        assert len(chosen) > 1

    def test_gradual(self):
        """Every parameter moves one way, from its old value to its new one."""
        stream = mail("gradual", changes=[2, 7], width=4)
        assert [(change.batch, change.until) for change in stream.changes] == [(2, 5), (7, 10)]
        found = truths(stream)
        for name in found[0]:
            values = np.array([truth[name] for truth in found])
            steps = np.diff(values)
            assert (steps[[0, 5, 9 + 1]] == 0.0).all()
            for begin, end in ((2, 5), (7, 10)):
                moving = steps[begin - 1 : end]
                assert (moving > 0).all() or (moving < 0).all()
        mean = [truth["mean of x | label=ham"] for truth in found[1:6]]
        np.testing.assert_allclose(np.diff(mean, 2), 0.0, atol=1e-12)  # in even steps

    def test_gradual_over_one_batch_is_abrupt(self):
        slow, sudden = mail("gradual", width=1), mail("abrupt")
        assert truths(slow) == truths(sudden)
        assert [change.until for change in slow.changes] == [4, 8]

    def test_recurring(self):
        """What comes back is the same to the last digit."""
        stream = mail("recurring", changes=[3, 6, 9])
        found = truths(stream)
        assert found[:3] == found[6:9]
        assert found[3:6] == found[9:]
        assert changed(found[0], found[3]) == set(found[0])

    def test_outliers(self):
        """A fifth of the rows of a burst come from elsewhere; the truth stays."""
        stream = make_drift(
            PAIR,
            "outliers",
            num_batches=12,
            num_rows=NUM_ROWS,
            changes=[3, 8],
            width=3,
            regimes=pair([0.0, 5.0], [100.0, 5.0]),
        )
        assert [(change.batch, change.until) for change in stream.changes] == [(3, 6), (8, 11)]
        assert stream.changes[0].blocks == ("x",)
        assert all(truth == stream.truth(0) for truth in truths(stream))
        assert stream.truth(4)["mean of x"] == 0.0
        strange = [float((batch.columns["x"] > 50.0).mean()) for batch in stream]
        inside = [3, 4, 5, 8, 9, 10]
        assert not np.delete(strange, inside).any()
        assert np.mean(np.take(strange, inside)) == pytest.approx(0.2, abs=5.0 * 0.4 / 49.0)

    def test_given_regimes(self):
        """Which blocks change follows from them."""
        stream = make_drift(
            PAIR, "partial", num_batches=6, num_rows=10, regimes=pair([0, 0], [0, 1], [2, 3])
        )
        assert [change.blocks for change in stream.changes] == [("y",), ("x", "y")]
        assert [stream.truth(number)["mean of y"] for number in range(6)] == [0, 0, 1, 1, 3, 3]
        again = make_drift(
            PAIR,
            "partial",
            num_batches=6,
            num_rows=10,
            regimes=[stream.parameters(number) for number in (0, 2, 4)],
        )
        assert truths(again) == truths(stream)


class TestTruth:
    def test_names_are_those_of_the_summary(self):
        stream = mail("none")
        state = sb.StreamLearner(MAIL, sb.SVB()).init(next(iter(stream)))
        names = [row.name for row in state.summary().rows]
        assert sorted(stream.truth(0)) == sorted(names)

    def test_every_kind_of_block(self):
        """Each number stands under its name."""
        net = sb.Network()
        z = net.categorical("z", 3, latent=True)
        rain = net.bernoulli("rain", parents=[z])
        net.multivariate_normal(["p", "q"], parents=[rain])
        net.normal("x", parents=[z])
        for place, coefficients in enumerate(("joint", "independent", "conjugate")):
            net.normal(f"y{place}", parents=["x"], coefficients=coefficients)
        net.exponential("t")
        covariance = np.array([[4.0, 1.0], [1.0, 9.0]])
        regime = {
            "z": np.array([0.2, 0.3, 0.5]),
            "rain": np.array([0.1, 0.4, 0.8]),
            "p, q": (
                np.array([[1.0, 2.0], [3.0, 4.0]]),
                np.stack([np.linalg.inv(covariance), np.eye(2)]),
            ),
            "x": (np.array([5.0, 6.0, 7.0]), np.array([1.0, 4.0, 16.0])),
            "y0: coefficients": np.array([1.0, 2.0]),
            "y0: noise": np.array(0.25),
            "y1: intercept": np.array(3.0),
            "y1: b[x]": np.array(4.0),
            "y1: noise": np.array(1.0),
            "y2": (np.array([5.0, 6.0]), np.array(100.0)),
            "t": np.array(0.5),
        }
        truth = make_drift(net, "none", num_batches=1, num_rows=1, regimes=[regime]).truth(0)
        expected = {
            "probability of z=2": 0.5,
            "probability of rain=1 | z=1": 0.4,
            "mean of q | rain=0": 2.0,
            "standard deviation of p | rain=0": 2.0,
            "standard deviation of q | rain=0": 3.0,
            "standard deviation of q | rain=1": 1.0,
            "mean of x | z=1": 6.0,
            "standard deviation of x | z=2": 0.25,
            "intercept of y0": 1.0,
            "slope of y0 on x": 2.0,
            "residual standard deviation of y0": 2.0,
            "intercept of y1": 3.0,
            "slope of y1 on x": 4.0,
            "residual standard deviation of y1": 1.0,
            "intercept of y2": 5.0,
            "slope of y2 on x": 6.0,
            "residual standard deviation of y2": 0.1,
            "rate of t": 0.5,
        }
        assert {name: truth[name] for name in expected} == pytest.approx(expected, rel=1e-12)

    def test_rows_of_a_classifier(self):
        """Moments of what is drawn lie within five standard errors of the truth, regime by regime."""
        stream = mail("abrupt")
        batches = list(stream)
        for begin in (0, 4, 8):
            truth = stream.truth(begin)
            held = {
                name: np.concatenate([batch.columns[name] for batch in batches[begin : begin + 4]])
                for name in batches[0].columns
            }
            for label in ("ham", "spam"):
                mine = held["label"] == label
                near_share(mine, truth[f"probability of label={label}"])
                for name in ("x", "y"):
                    near_normal(held[name][mine], truth, f"{name} | label={label}")
                for value in range(3):
                    share = truth[f"probability of c={value} | label={label}"]
                    near_share(held["c"][mine] == value, share)
                near_rate(held["k"][mine], truth[f"rate of k | label={label}"])

    def test_rows_of_a_network(self):
        """Regressions, vectors, waiting times and a latent variable's children."""
        net = sb.Network()
        flag = net.bernoulli("flag")
        net.normal(["a", "b"])
        net.normal("r", parents=["a", "b", flag])
        net.multivariate_normal(["p", "q"], parents=[flag])
        net.exponential("t", parents=[flag])
        covariance = np.array([[4.0, 3.0], [3.0, 9.0]])
        regime = {
            "flag": np.array(0.3),
            "a, b": (np.array([1.0, -2.0]), np.array([1.0, 0.25])),
            "r: coefficients": np.array([[1.0, 2.0, 3.0], [-1.0, 0.0, 5.0]]),
            "r: noise": np.array([4.0, 1.0]),
            "p, q": (
                np.array([[1.0, 2.0], [3.0, 4.0]]),
                np.stack([np.linalg.inv(covariance), np.eye(2)]),
            ),
            "t": np.array([0.1, 5.0]),
        }
        stream = make_drift(net, "none", num_batches=1, num_rows=4000, regimes=[regime])
        held, truth = next(iter(stream)).columns, stream.truth(0)
        near_share(held["flag"] == 1, 0.3)
        for place, noise, rate in ((0, 0.5, 0.1), (1, 1.0, 5.0)):
            mine = held["flag"] == place
            n = mine.sum()
            design = np.stack([np.ones(n), held["a"][mine], held["b"][mine]], -1)
            fit, residual, *_ = np.linalg.lstsq(design, held["r"][mine])
            errors = noise * np.sqrt(np.diag(np.linalg.inv(design.T @ design)))
            assert (np.abs(fit - regime["r: coefficients"][place]) < 5.0 * errors).all()
            near(np.sqrt(residual[0] / (n - 3)), noise, noise / np.sqrt(2 * n))
            near(held["t"][mine].mean(), 1 / rate, 1 / rate / np.sqrt(n))
            for name in ("p", "q"):
                near_normal(held[name][mine], truth, f"{name} | flag={place}")
        dry = held["flag"] == 0
        found = np.cov(held["p"][dry], held["q"][dry])[0, 1]
        near(found, 3.0, np.sqrt((4.0 * 9.0 + 9.0) / dry.sum()))
        assert held["flag"].dtype.kind == "i"


def near(found, expected, error):
    assert abs(found - expected) < 5.0 * error


def near_share(hits, expected):
    near(hits.mean(), expected, np.sqrt(expected * (1.0 - expected) / len(hits)))


def near_rate(counts, expected):
    near(counts.mean(), expected, np.sqrt(expected / len(counts)))


def near_normal(values, truth, name):
    sd = truth[f"standard deviation of {name}"]
    near(values.mean(), truth[f"mean of {name}"], sd / np.sqrt(len(values)))
    near(values.std(), sd, sd / np.sqrt(2 * len(values)))


class TestMissing:
    def test_share(self):
        """Of every column alike, NaN among numbers and None among text."""
        batches = list(mail("abrupt", missing=0.3))
        for name, values in batches[0].columns.items():
            gone = np.concatenate(
                [
                    np.array([v is None or v != v for v in b.columns[name]])  # noqa: PLR0124
                    for b in batches
                ]
            )
            near_share(gone, 0.3)
            if name == "label":
                assert {type(v) for v in values} == {str, type(None)}

    def test_cells_that_stay_are_those_of_the_whole_stream(self):
        whole, gappy = mail("abrupt"), mail("abrupt", missing={"x": 0.5, "label": 1.0})
        one, other = next(iter(whole)).columns, next(iter(gappy)).columns
        there = ~np.isnan(other["x"])
        assert 0 < there.sum() < NUM_ROWS
        np.testing.assert_array_equal(one["x"][there], other["x"][there])
        np.testing.assert_array_equal(one["k"], other["k"])
        assert set(other["label"]) == {None}


@pytest.mark.parametrize(
    ("options", "sentence"),
    [
        ({"kind": "sudden"}, "kind must be one of none, abrupt, gradual, recurring, partial"),
        ({"num_batches": 0}, "num_batches must be a whole number of at least 1, got 0"),
        ({"num_batches": 2}, "abrupt needs at least 3 batches or changes, got 2"),
        ({"num_rows": 1.5}, "num_rows must be a whole number of at least 1, got 1.5"),
        ({"changes": [0]}, "changes must be distinct whole numbers in 1..59, got [0]"),
        ({"changes": [60]}, "changes must be distinct whole numbers in 1..59, got [60]"),
        ({"changes": [5, 5]}, "changes must be distinct whole numbers in 1..59, got [5, 5]"),
        ({"changes": [2.5]}, "changes must be distinct whole numbers in 1..59, got [2.5]"),
        ({"kind": "none", "changes": [3]}, "a stream of kind 'none' has no changes, got [3]"),
        ({"width": 3}, "only gradual changes and outliers have a width, abrupt has none"),
        (
            {"kind": "gradual", "width": 0},
            "width must be a whole number of at least 1, got 0",
        ),
        (
            {"kind": "gradual", "changes": [5, 8], "width": 4},
            "gradual changes at 5 and 8 overlap; they take 4 batches each",
        ),
        ({"blocks": ["z"]}, "there is no block 'z'; the model has ['x', 'y']"),
        ({"blocks": []}, "name at least one block that changes; the model has ['x', 'y']"),
        ({"missing": 1.5}, "missing must be a share in [0, 1], got 1.5 for column 'x'"),
        ({"missing": float("nan")}, "missing must be a share in [0, 1]"),
        ({"missing": {"z": 0.1}}, "missing: there is no column 'z'; the model has ['x', 'y']"),
        ({"regimes": pair([0, 0])}, "abrupt needs 3 regimes, got 1"),
        (
            {"kind": "outliers", "regimes": [{"x": 1.0}] * 2},
            "a regime needs the entries ['x, y'], got ['x']",
        ),
        (
            {"kind": "recurring", "regimes": pair([0, 0], [1, 1]), "blocks": ["x"]},
            "regimes say themselves which blocks change; leave out blocks",
        ),
        ({"seed": -1}, "seed must be a whole number of at least 0, got -1"),
    ],
)
def test_bad_arguments(options, sentence):
    with pytest.raises(ValueError, match=rf"^make_drift: .*{re.escape(sentence)}"):
        make_drift(PAIR, **options)


def test_batches_by_number():
    stream = make_drift(PAIR, num_batches=6, num_rows=4)
    batches = list(stream)
    for number in range(-6, 6):
        np.testing.assert_array_equal(stream[number].columns["x"], batches[number].columns["x"])
    assert stream.truth(-1) == stream.truth(5)
    for look in (stream.__getitem__, stream.truth, stream.parameters):
        with pytest.raises(IndexError, match=r"^there is no batch 6: the stream has 6, counted"):
            look(6)
        with pytest.raises(TypeError, match=r"^a batch goes by its number, got 'a'"):
            look("a")


def test_changes_are_a_list():
    with pytest.raises(TypeError, match=r"^make_drift: changes must be a list of batches, got 5$"):
        make_drift(PAIR, changes=5)


def test_what_is_no_network():
    with pytest.raises(TypeError, match="make_drift: model must be a network, got BetaBinomial"):
        make_drift(sb.models.BetaBinomial("x"))
    with pytest.raises(TypeError, match="make_drift: blocks must be a list of names, got 'x'"):
        make_drift(PAIR, blocks="x")


def test_nothing_is_compiled_for_draws():
    """In a process of its own: a stream of every kind of variable, its truth, and rows of a forecast."""
    code = """
        import jax, numpy as np, streambayes as sb
        compiled = []
        jax.monitoring.register_event_duration_secs_listener(
            lambda event, *_, **__: compiled.append(event) if event.endswith("backend_compile_duration") else None
        )
        net = sb.Network()
        z = net.categorical("z", 3, latent=True)
        rain = net.bernoulli("rain", parents=[z])
        net.multivariate_normal(["p", "q"], parents=[rain])
        net.normal(["x", "u"], parents=[z])
        for place, coefficients in enumerate(("joint", "independent", "conjugate")):
            net.normal([f"y{place}", f"w{place}"], parents=["x", rain], coefficients=coefficients)
        net.exponential("t")
        net.poisson("k", parents=[z])
        for kind in ("abrupt", "outliers"):
            stream = sb.datasets.make_drift(net, kind, num_batches=6, num_rows=50)
            assert len(list(stream)) == 6
            assert np.isfinite(list(stream.truth(5).values())).all()
        assert not compiled, len(compiled)
        gaussian = sb.StreamLearner(sb.models.Gaussian(["x", "y"]))
        state = gaussian.init({"x": [1.0, 2.0], "y": [3.0, 5.0]})
        compiled.clear()
        assert np.isfinite(gaussian.sample(state, 100)["y"]).all()
        assert not compiled, len(compiled)
    """
    command = [sys.executable, "-c", textwrap.dedent(code)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


class TestLearning:
    @pytest.fixture(scope="class")
    @staticmethod
    def found():
        stream = make_drift(
            PAIR,
            "partial",
            num_batches=20,
            num_rows=100,
            changes=[10],
            regimes=pair([0.0, 0.0], [0.0, 3.0]),
        )
        return stream, sb.run(sb.StreamLearner(PAIR, sb.MHPP()), stream, progress=False)

    def test_a_run_learns_the_last_truth(self, found):
        stream, run = found
        assert [record.label for record in run.records] == [str(number) for number in range(20)]
        truth = stream.truth(19)
        for row in run.state.summary(0.9999).rows:
            assert row.lower < truth[row.name] < row.upper

    def test_the_block_that_drifts_is_forgotten(self, found):
        """At the change little of the past of y is kept, and all but nothing of x is lost."""
        stream, run = found
        (change,) = stream.changes
        assert change.blocks == ("y",)
        at = run.records[change.batch].rho
        assert at["y"] < 0.02
        assert at["x"] > 0.5
        others = [run.records[number].rho["y"] for number in range(2, 20) if number != change.batch]
        assert min(others) > 0.4
