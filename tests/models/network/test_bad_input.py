"""Input that is wrong, poor or extreme: refused in one sentence with the state left alone, or learned."""

import re

import jax
import numpy as np
import pytest

import streambayes as sb

CLASSES = ["a", "b", "c"]


def clusters(rng, n, left=0.5):
    """Two clusters, far apart."""
    mine = rng.random(n) < left
    x = np.where(mine, rng.normal(-5.0, 1.0, n), rng.normal(5.0, 1.0, n))
    return {"x": x, "y": np.where(mine, rng.normal(100.0, 10.0, n), rng.normal(300.0, 10.0, n))}


def linear(rng, n):
    a, b = rng.normal(3.0, 2.0, n), rng.normal(-1.0, 0.5, n)
    return {"a": a, "b": b, "y": 2.0 - a + 3.0 * b + rng.normal(0.0, 0.7, n)}


def waits(rng, n):
    rush = rng.integers(0, 2, n)
    return {"rush": rush, "t": rng.exponential(np.where(rush, 3.0, 20.0))}


def labelled(rng, n):
    label = rng.choice(CLASSES, n)
    return {
        "label": label,
        "x": rng.normal(3.0 * (label == "b"), 1.0),
        "flag": rng.integers(0, 2, n),
    }


def waiting():
    net = sb.Network()
    rush = net.bernoulli("rush")
    net.exponential("t", parents=[rush])
    return net


MIXTURE = sb.models.GaussianMixture(["x", "y"], 3)
REGRESSION = sb.models.LinearRegression("y", ["a", "b"])
CLASSIFIER = sb.models.NaiveBayes("label", CLASSES, normal="x", categorical={"flag": 2})
MODELS = {
    "mixture": (MIXTURE, clusters),
    "regression": (REGRESSION, linear),
    "exponential": (waiting(), waits),
    "classifier": (CLASSIFIER, labelled),
}


def sound(state):
    """Nothing is NaN, and what is finite in a prior is so in a posterior."""
    assert all(np.isfinite(leaf).all() for leaf in jax.tree.leaves(state.belief))
    for row in state.summary().rows:
        assert np.isfinite([row.mean, row.lower, row.upper]).all()
        assert not np.isnan(row.sd)


def learn(learner, batches):
    """Every batch is learned, and every state is sound; the states and what the steps said."""
    state = learner.init(batches[0])
    states, infos = [], []
    for batch in batches:
        state, info = learner.step(state, batch)
        sound(state)
        assert info.bound is None or np.isfinite(info.bound)
        assert np.isfinite(learner.log_predictive(state, batch)).all()
        states.append(state)
        infos.append(info)
    return states, infos


def first(columns, n):
    return {name: values[:n] for name, values in columns.items()}


def empty(columns):
    return {name: np.full(len(values), None) for name, values in columns.items()}


def copies(state):
    return [np.array(leaf) for leaf in jax.tree.leaves(state)]


def refuses(learner, state, batch, error, sentence):
    """The step raises, says why in one sentence, and the state is what it was and still works."""
    before = copies(state)
    with pytest.raises(error, match=sentence) as caught:
        learner.step(state, batch)
    assert "\n" not in str(caught.value)
    for mine, theirs in zip(copies(state), before, strict=True):
        np.testing.assert_array_equal(mine, theirs)


class TestRefused:
    @pytest.fixture(scope="class")
    @staticmethod
    def learned():
        rng = np.random.default_rng(0)
        learner = sb.StreamLearner(CLASSIFIER, sb.HPP())
        batch = labelled(rng, 16)
        state, _ = learner.step(learner.init(batch), batch)
        return learner, state, batch

    @pytest.mark.parametrize(
        ("column", "value", "sentence"),
        [
            ("label", "d", "column 'label', row 2: expected one of 'a', 'b', 'c', got 'd'"),
            ("label", "A", "column 'label', row 2: expected one of 'a', 'b', 'c', got 'A'"),
            ("flag", 2, "column 'flag', row 2: expected one of 0, 1, got 2"),
            ("flag", 0.5, "column 'flag', row 2: expected one of 0, 1, got 0.5"),
            ("x", np.inf, "column 'x', row 2: expected a finite number, got inf"),
            ("x", "tall", "column 'x', row 2: expected a finite number, got 'tall'"),
        ],
    )
    def test_a_value_that_does_not_fit(self, learned, column, value, sentence):
        learner, state, batch = learned
        values = batch[column].astype(object)
        values[2] = value
        wrong = {**batch, column: values}
        refuses(learner, state, wrong, ValueError, re.escape(sentence))
        with pytest.raises(ValueError, match=re.escape(sentence)):
            learner.init(wrong)
        with pytest.raises(ValueError, match=re.escape(sentence)):
            learner.log_predictive(state, wrong)

    def test_a_batch_that_does_not_fit(self, learned):
        learner, state, batch = learned
        less = {name: values for name, values in batch.items() if name != "x"}
        refuses(learner, state, less, ValueError, "^the batch lacks column 'x'; it has")
        uneven = {**batch, "x": batch["x"][:3]}
        refuses(learner, state, uneven, ValueError, "^columns differ in length: ")

    @pytest.mark.parametrize("value", [-1.0, -np.inf, np.inf])
    def test_waiting_times_are_positive(self, value):
        learner = sb.StreamLearner(waiting(), sb.HPP())
        batch = waits(np.random.default_rng(0), 16)
        state = learner.init(batch)
        wrong = {**batch, "t": np.append(batch["t"][:-1], value)}
        sentence = "column 't', row 15: expected a finite number of at least 0, got"
        refuses(learner, state, wrong, ValueError, sentence)

    @pytest.mark.parametrize("name", ["mixture", "regression"])
    def test_squares_that_overflow(self, name):
        """A value 1e160 standard deviations away cannot be squared."""
        model, draw = MODELS[name]
        other = next(column.name for column in model.columns if column.name != "y")
        learner = sb.StreamLearner(model, sb.HPP())
        batch = draw(np.random.default_rng(0), 16)
        batch["y"] *= 1e-80
        state, _ = learner.step(learner.init(batch), batch)
        far = {**batch, "y": np.append(batch["y"][:-1], 1e85)}
        refuses(learner, state, far, sb.StepError, "the posterior or its bound is not finite")
        sentence = r"^column 'y', row 15: 1e\+85 lies .* too far away to be compared with them$"
        for ask in (learner.score, learner.log_predictive, lambda *a: learner.predict(*a, other)):
            with pytest.raises(ValueError, match=sentence):
                ask(state, far)
        after, _ = learner.step(state, batch)
        sound(after)


class TestAbsentClasses:
    def test_from_one_batch(self):
        """What was learned of the class fades like the rest; its share of the rows falls."""
        rng = np.random.default_rng(1)
        batches = [labelled(rng, 16), without_c(labelled(rng, 16))]
        learner = sb.StreamLearner(CLASSIFIER, sb.HPP())
        (before, after), (_, info) = learn(learner, batches)
        for block in ("x | label=c", "flag | label=c"):
            assert after.retained[block] == pytest.approx(info.rho * before.retained[block])
            assert before.retained[block] > 0.0
        share = "probability of label=c"
        assert after.summary()[share].mean < before.summary()[share].mean

    def test_from_all_batches(self):
        """It stays at its prior and is possible all the same."""
        rng = np.random.default_rng(2)
        batches = [without_c(labelled(rng, 16)) for _ in range(3)]
        learner = sb.StreamLearner(CLASSIFIER, sb.HPP())
        states, _ = learn(learner, batches)
        state = states[-1]
        assert state.retained["x | label=c"] == 0.0
        flag = state.summary()["probability of flag=1 | label=c"]
        assert flag.mean == pytest.approx(0.5, rel=1e-12)
        shares = learner.predict_proba(state, batches[0])
        assert (shares > 0.0).all()
        np.testing.assert_allclose(shares.sum(1), 1.0, rtol=1e-12)
        assert shares[:, 2].max() < 0.5


def without_c(batch):
    return {**batch, "label": np.where(batch["label"] == "c", "a", batch["label"])}


@pytest.mark.parametrize("name", MODELS)
class TestPoorBatches:
    """Batches with little in them, first in the stream and later."""

    def test_one_row_and_none(self, name):
        model, draw = MODELS[name]
        learner = sb.StreamLearner(model, sb.HPP())
        whole = draw(np.random.default_rng(3), 16)
        one, none = first(whole, 1), first(whole, 0)
        states, infos = learn(learner, [none, one, none, one, whole, none, one])
        assert [info.num_rows for info in infos] == [0, 1, 0, 1, 16, 0, 1]
        assert [info.outcome == sb.Outcome.EMPTY for info in infos] == [
            info.num_rows == 0 for info in infos
        ]
        assert states[-1].rows_seen == 19
        assert learner.score(states[-1], whole).num_rows == 16

    def test_constant_columns(self, name):
        """One distinct value in every column, twice; then the columns vary."""
        model, draw = MODELS[name]
        learner = sb.StreamLearner(model, sb.HPP())
        whole = draw(np.random.default_rng(4), 16)
        constant = {column: np.repeat(values[:1], 16) for column, values in whole.items()}
        states, infos = learn(learner, [constant, constant, whole, whole])
        measured = [column.name for column in model.columns if column.is_measured]
        assert infos[0].events == infos[1].events == infos[3].events == ()
        assert [event.split("'")[1] for event in of_units(infos[2])] == measured
        assert states[3].scale.frozen.all()

    def test_a_column_that_stays_constant(self, name):
        model, draw = MODELS[name]
        learner = sb.StreamLearner(model, sb.HPP())
        rng = np.random.default_rng(5)
        fixed = next(column.name for column in model.columns if column.is_measured)
        batches = [{**draw(rng, 16), fixed: np.full(16, 1e3)} for _ in range(3)]
        states, _ = learn(learner, batches)
        assert not states[-1].scale.frozen.all()

    def test_repeated_rows(self, name):
        """Each row counts as often as it is there."""
        model, draw = MODELS[name]
        learner = sb.StreamLearner(model, sb.HPP())
        few = draw(np.random.default_rng(6), 4)
        often = {column: np.tile(values, 4) for column, values in few.items()}
        (state,), _ = learn(learner, [often])
        for variable, total in by_variable(state.retained).items():
            assert total == pytest.approx(16.0, rel=1e-9), variable

    def test_no_cell_in_the_first_batch(self, name):
        """Rows without a cell say nothing: what follows is learned as if it came first."""
        model, draw = MODELS[name]
        learner = sb.StreamLearner(model, sb.HPP())
        whole = draw(np.random.default_rng(7), 16)
        state = learner.init(empty(whole))
        state, info = learner.step(state, empty(whole))
        sound(state)
        assert info.bound == pytest.approx(0.0, abs=1e-12)
        assert set(info.retained.values()) == {0.0}
        assert learner.log_predictive(state, empty(whole)) == pytest.approx(np.zeros(16), abs=1e-12)
        after, info = learner.step(state, whole)
        sound(after)
        assert np.isfinite(info.bound)
        expected, expected_info = learner.step(learner.init(whole), whole)
        assert info.bound == pytest.approx(expected_info.bound, rel=1e-9)
        for mine, theirs in zip(after.summary().rows, expected.summary().rows, strict=True):
            assert (mine.mean, mine.lower) == pytest.approx((theirs.mean, theirs.lower), 1e-6)

    def test_a_column_that_appears_later(self, name):
        """Missing for two batches; its units are set when it appears, and that is said."""
        model, draw = MODELS[name]
        learner = sb.StreamLearner(model, sb.HPP())
        rng = np.random.default_rng(8)
        batches = [draw(rng, 16) for _ in range(4)]
        late = [column.name for column in model.columns if column.is_measured][-1]
        for batch in batches[:2]:
            batch[late] = np.full(16, np.nan)
        batches[2][late][:4] = np.nan
        states, infos = learn(learner, batches)
        assert [len(of_units(info)) for info in infos] == [0, 0, 1, 0]
        sentence = f"column {late!r} varies for the first time: its units are set (centre "
        assert of_units(infos[2])[0].startswith(sentence)
        for variable, total in by_variable(infos[1].retained).items():
            assert (total == 0.0) == (variable.partition(":")[0] == late)
        for variable, total in by_variable(states[-1].retained).items():
            if variable.partition(":")[0] == late:
                assert 16.0 < total < 28.0


def of_units(info):
    return [event for event in info.events if event.startswith("column")]


def by_variable(retained):
    """Rows that blocks retain, summed over configurations."""
    totals = {}
    for label, count in retained.items():
        name = label.partition(" | ")[0]
        totals[name] = totals.get(name, 0.0) + count
    return totals


def near(mine, theirs, factor=1.0, tolerance=1e-7):
    found = [mine.mean, mine.sd, mine.lower, mine.upper]
    expected = [factor * part for part in (theirs.mean, theirs.sd, theirs.lower, theirs.upper)]
    np.testing.assert_allclose(found, expected, rtol=tolerance, atol=tolerance * abs(factor))


@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize("factor", [1e12, 1e-12])
def test_units(name, factor):
    """Everything is the same in units that are a million million times smaller or larger."""
    model, draw = MODELS[name]
    learner = sb.StreamLearner(model, sb.HPP())
    rng = np.random.default_rng(9)
    batches = [draw(rng, 16) for _ in range(3)]
    measured = [column.name for column in model.columns if column.is_measured]
    scaled = [{**batch, **{n: factor * batch[n] for n in measured}} for batch in batches]
    states, infos = learn(learner, batches)
    others, other_infos = learn(learner, scaled)
    for mine, theirs in zip(infos, other_infos, strict=True):
        assert theirs.rho == pytest.approx(mine.rho, rel=1e-7)
        added = 16 * len(measured) * np.log(factor)
        assert theirs.bound + added == pytest.approx(mine.bound, rel=1e-8)
    for row in states[-1].summary().rows:
        power = 0 if row.name.startswith(("probability", "slope")) else 1
        power = -1 if row.name.startswith("rate") else power
        near(others[-1].summary()[row.name], row, factor**power)


class TestComponents:
    @pytest.mark.parametrize("kind", ["diagonal", "full"])
    @pytest.mark.parametrize("poor", ["none", "one", "two", "constant", "missing"])
    def test_a_first_batch_that_cannot_tell_them_apart(self, kind, poor):
        """They are told apart by the first batch that can, and that is said."""
        rng = np.random.default_rng(11)
        learner = sb.StreamLearner(
            sb.models.GaussianMixture(["x", "y"], 2, kind), sb.HPP(), max_sweeps=200
        )
        whole = clusters(rng, 64)
        beginning = {
            "none": first(whole, 0),
            "one": first(whole, 1),
            "two": {"x": np.array([4.0, 5.0]), "y": np.array([290.0, 300.0])},
            "constant": {name: np.repeat(values[:1], 16) for name, values in whole.items()},
            "missing": empty(first(whole, 16)),
        }[poor]
        states, infos = learn(learner, [beginning, whole, clusters(rng, 64)])
        means = [states[-1].summary()[f"mean of x | component={z}"].mean for z in (0, 1)]
        assert sorted(means) == pytest.approx([-5.0, 5.0], abs=0.8)
        anew = "latent variables start anew from this batch: too little was seen before it"
        assert all(anew not in info.events for info in (infos[0], infos[2]))
        if poor in ("one", "constant", "missing"):
            assert anew in infos[1].events

    @pytest.mark.parametrize("policy", [sb.PowerPrior(0.8), sb.HPP()], ids=repr)
    def test_one_without_data_and_one_that_comes_back(self, policy):
        """Two clusters for three components; one is away for eight batches and returns."""
        rng = np.random.default_rng(10)
        learner = sb.StreamLearner(MIXTURE, policy)
        shares = [0.5] * 4 + [1.0] * 8 + [0.5] * 4
        batches = [clusters(rng, 60, share) for share in shares]
        states, infos = learn(learner, batches)
        places = np.array([state.posterior["x, y"].location[:, 0] for state in states])
        left, right = np.argmin(places[3]), np.argmax(places[3])
        (spare,) = {0, 1, 2} - {left, right}
        assert infos[3].retained[f"x | component={spare}"] < 2.0
        np.testing.assert_allclose(places[:, left], -5.0, atol=0.5)
        np.testing.assert_allclose(places[[3, -1], right], 5.0, atol=0.5)
        kept = [info.retained[f"x | component={right}"] for info in infos]
        assert kept[11] < kept[3]
        assert kept[15] > kept[11] + 50.0
        found = learner.predict(states[-1], batches[-1], "component").most_likely
        np.testing.assert_array_equal(found, np.where(batches[-1]["x"] < 0.0, left, right))

    @pytest.mark.parametrize("policy", [sb.PowerPrior(0.8), sb.HPP()], ids=repr)
    def test_one_that_was_never_used_takes_a_new_cluster(self, policy):
        rng = np.random.default_rng(11)
        learner = sb.StreamLearner(MIXTURE, policy)
        batches = [clusters(rng, 60) for _ in range(8)]
        for batch in batches[4:]:
            batch["x"][:20] = rng.normal(20.0, 1.0, 20)
            batch["y"][:20] = rng.normal(-300.0, 10.0, 20)
        states, _ = learn(learner, batches)
        before, after = (states[at].posterior["x, y"].location[:, 0] for at in (3, 7))
        old = np.abs(before) > 3.0
        assert old.sum() == 2
        np.testing.assert_allclose(after[old], before[old], atol=0.7)
        np.testing.assert_allclose(after[~old], 20.0, atol=1.0)

    def test_more_of_them_than_rows(self):
        rng = np.random.default_rng(12)
        learner = sb.StreamLearner(MIXTURE, sb.HPP())
        batches = [clusters(rng, 2), clusters(rng, 1), clusters(rng, 16)]
        states, infos = learn(learner, batches)
        assert infos[0].retained["component"] == pytest.approx(2.0, rel=1e-9)
        assert states[-1].rows_seen == 19

    def test_identities_last(self):
        """Whatever the order of rows and the sizes of clusters, a component stays where it was."""
        rng = np.random.default_rng(13)
        learner = sb.StreamLearner(MIXTURE, sb.HPP())
        batches = [clusters(rng, 60, share) for share in (0.5, 0.2, 0.8, 0.35, 0.65, 0.1, 0.9)]
        for batch in batches:
            order = np.argsort(batch["x"] * rng.choice([-1.0, 1.0]))
            batch.update({name: values[order] for name, values in batch.items()})
        states, _ = learn(learner, batches)
        found = [learner.predict(state, batches[0], "component").most_likely for state in states]
        assert len(set(found[0].tolist())) == 2
        for later in found[1:]:
            np.testing.assert_array_equal(later, found[0])


class TestExtremes:
    @pytest.mark.parametrize("covariance", ["diagonal", "full"])
    def test_an_outlier_gets_a_component_of_its_own(self, covariance):
        """One value of 1e30 among ordinary ones: the clusters stay as they are."""
        rng = np.random.default_rng(14)
        learner = sb.StreamLearner(sb.models.GaussianMixture(["x", "y"], 3, covariance), sb.HPP())
        batches = [clusters(rng, 60), clusters(rng, 60), clusters(rng, 60)]
        batches[1]["x"][7] = 1e30
        states, infos = learn(learner, batches)
        variable = "x" if covariance == "diagonal" else "x, y"
        places = [f"{variable} | component={k}" for k in range(3)]
        used = [k for k, place in enumerate(places) if infos[0].retained[place] > 5.0]
        assert len(used) == 2
        for k in used:
            before, after = (
                states[at].summary()[f"mean of x | component={k}"].mean for at in (0, 2)
            )
            assert after == pytest.approx(before, abs=1.0)

    @pytest.mark.parametrize("coefficients", ["joint", "independent", "conjugate"])
    @pytest.mark.parametrize("column", ["a", "y"])
    def test_an_outlier_of_a_regression(self, coefficients, column):
        """It is forgotten as everything is: rho falls to nothing, and the next batches are learned."""
        rng = np.random.default_rng(15)
        learner = sb.StreamLearner(
            sb.models.LinearRegression("y", ["a", "b"], coefficients), sb.HPP()
        )
        batches = [linear(rng, 16) for _ in range(4)]
        batches[2][column][5] = 1e30
        _, infos = learn(learner, batches)
        assert infos[1].rho > 0.5
        assert infos[2].rho < 0.01

    @pytest.mark.parametrize("coefficients", ["joint", "independent", "conjugate"])
    def test_collinear_regressors(self, coefficients):
        """The sum of their effects is known, and predictions are sound."""
        rng = np.random.default_rng(16)
        learner = sb.StreamLearner(
            sb.models.LinearRegression("y", ["a", "b"], coefficients), sb.HPP()
        )
        batches = []
        for _ in range(8):
            a = rng.normal(3.0, 2.0, 16)
            batches.append({"a": a, "b": 2.0 * a, "y": 1.0 + 5.0 * a + rng.normal(0, 0.1, 16)})
        states, _ = learn(learner, batches)
        summary = states[-1].summary()
        slopes = [summary[f"slope of y on {name}"].mean for name in "ab"]
        assert slopes[0] + 2.0 * slopes[1] == pytest.approx(5.0, abs=0.25)
        found = learner.predict(states[-1], batches[-1])
        assert np.isfinite([found.mean, found.sd, found.lower, found.upper]).all()
        np.testing.assert_allclose(found.mean, batches[-1]["y"], atol=2.0)

    @pytest.mark.parametrize("coefficients", ["joint", "independent", "conjugate"])
    def test_a_response_without_noise(self, coefficients):
        """The noise shrinks with every batch, and never to nothing."""
        rng = np.random.default_rng(17)
        learner = sb.StreamLearner(
            sb.models.LinearRegression("y", ["a", "b"], coefficients), sb.HPP()
        )
        batches = [linear(rng, 16) for _ in range(8)]
        for batch in batches:
            batch["y"] = 2.0 - batch["a"] + 3.0 * batch["b"]
        states, _ = learn(learner, batches)
        noise = [state.summary()["residual standard deviation of y"].mean for state in states]
        assert (np.diff(noise) < 0.0).all()
        assert noise[-1] > 0.0
        summary = states[-1].summary()
        assert summary["slope of y on a"].mean == pytest.approx(-1.0, abs=0.05)
        assert summary["slope of y on b"].mean == pytest.approx(3.0, abs=0.2)
