"""Columns whose logarithms are modelled: what is said of them is in the user's units."""

import json
import zipfile

import numpy as np
import pytest
from scipy import stats

import streambayes as sb
from streambayes.checkpoint import _file
from streambayes.drift._event import Change
from streambayes.learning._notes import Comparison
from streambayes.models._base import parameter_names


@pytest.fixture(scope="module")
def rows():
    rng = np.random.default_rng(5)
    area = np.exp(rng.normal(4.0, 0.4, 60))
    return {"price": 30.0 * area**0.9 * np.exp(rng.normal(0.0, 0.2, 60)), "area": area}


def logs(rows, *names):
    return {name: np.log(values) if name in names else values for name, values in rows.items()}


def learned(model, *batches, policy=None, **settings):
    learner = sb.StreamLearner(model, policy or sb.SVB(), **settings)
    state = learner.init(batches[0])
    for batch in batches:
        state, info = learner.step(state, batch)
    return learner, state, info


@pytest.fixture(scope="module")
def gaussian(rows):
    return learned(sb.models.Gaussian(["price", "area"], {"price": "log"}), rows)


def student(values):
    """Predictive of the next value, after ``learned`` by default priors: location, scale, degrees."""
    centre, width = values.mean(), values.std()
    z, n = (values - centre) / width, len(values)
    shape, rate = 1.0 + n / 2, 1.0 + 0.5 * (z**2).sum()
    location, spread = centre, width * np.sqrt(rate / shape / (n + 1.0))
    return (
        stats.t(2 * shape, location, spread),
        stats.t(2 * shape, location, width * np.sqrt(rate / shape * (1.0 + 1.0 / (n + 1.0)))),
        (shape, rate * width**2),
    )


def test_densities_are_those_of_the_values(gaussian, rows):
    learner, state, info = gaussian
    price, area = np.log(rows["price"]), rows["area"]
    expected = student(price)[1].logpdf(price) - price + student(area)[1].logpdf(area)
    np.testing.assert_allclose(learner.log_predictive(state, rows), expected, rtol=1e-10)
    assert learner.score(state, rows).predictive == pytest.approx(expected.mean(), rel=1e-10)
    other = learned(sb.models.Gaussian(["price", "area"]), logs(rows, "price"))[2]
    assert info.bound == pytest.approx(other.bound - price.sum(), rel=1e-12)


def test_densities_are_lognormal_where_all_is_known():
    known = sb.NormalGamma.from_shape_rate_mean_scale(1e9, 0.25e9, 3.0, 1e9)
    model = sb.models.Gaussian("price", "log")
    learner = sb.StreamLearner(model, sb.SVB(), prior=known, scale=False)
    values = np.array([0.01, 1.0, 20.0, 3000.0])
    found = learner.log_predictive(learner.init({"price": values}), {"price": values})
    expected = stats.lognorm(0.5, scale=np.exp(3.0)).logpdf(values)
    np.testing.assert_allclose(found, expected, rtol=1e-6)


def test_a_missing_cell_adds_nothing(gaussian, rows):
    learner, state, _ = gaussian
    gappy = {"price": [np.nan, rows["price"][1]], "area": rows["area"][:2]}
    price, area = student(np.log(rows["price"]))[1], student(rows["area"])[1]
    taken = np.log(rows["price"][1])
    expected = area.logpdf(rows["area"][:2])
    expected[1] += price.logpdf(taken) - taken
    np.testing.assert_allclose(learner.log_predictive(state, gappy), expected, rtol=1e-10)


def test_a_summary_tells_median_and_geometric_standard_deviation(gaussian, rows):
    summary = gaussian[1].summary(level=0.8)
    location, _, (shape, rate) = student(np.log(rows["price"]))
    found = summary["median of price"]
    np.testing.assert_allclose(
        (found.mean, found.sd, found.lower, found.upper),
        np.exp([location.mean()] * 2 + location.ppf([0.1, 0.9]).tolist())
        * [1.0, location.std(), 1.0, 1.0],
        rtol=1e-9,
    )
    spread = stats.invgamma(shape, scale=rate)
    found = summary["geometric standard deviation of price"]
    np.testing.assert_allclose(
        (found.lower, found.upper), np.exp(np.sqrt(spread.ppf([0.1, 0.9]))), rtol=1e-9
    )
    assert found.mean == pytest.approx(np.exp(spread.expect(np.sqrt)), rel=1e-6)
    assert summary["mean of area"].mean == pytest.approx(rows["area"].mean(), rel=1e-9)


def test_a_prediction_is_a_median_with_quantiles(gaussian, rows):
    learner, state, _ = gaussian
    found = learner.predict(state, {"area": [40.0, 60.0]}, "price", level=0.5)
    expected = np.exp(student(np.log(rows["price"]))[1].ppf([0.25, 0.5, 0.75]))
    for quantile, value in zip((found.lower, found.median, found.upper), expected, strict=True):
        np.testing.assert_allclose(quantile, value, rtol=1e-8)
    assert np.isinf(found.mean).all()
    assert "price (median)" in repr(found)
    assert learner.predict(state, {"price": [100.0]}, "area").median is None


def test_samples_are_values(gaussian, rows):
    learner, state, _ = gaussian
    drawn = learner.sample(state, 4000)
    expected = student(np.log(rows["price"]))[1]
    assert stats.kstest(np.log(drawn["price"]), expected.cdf).pvalue > 0.01
    assert stats.kstest(drawn["area"], student(rows["area"])[1].cdf).pvalue > 0.01


def test_a_regression_is_that_of_the_logarithms(rows):
    """With a missing regressor, which is a hidden variable."""
    gappy = {"price": rows["price"].copy(), "area": rows["area"].copy()}
    gappy["price"][3], gappy["area"][5] = np.nan, np.nan
    learner, state, info = learned(
        sb.models.LinearRegression("price", "area", "conjugate", "log"), gappy
    )
    plain, other, expected = learned(
        sb.models.LinearRegression("price", "area", "conjugate"), logs(gappy, "price", "area")
    )
    added = np.nansum([np.log(values) for values in gappy.values()])
    assert info.bound == pytest.approx(expected.bound - added, rel=1e-12)
    mine = [(row.mean, row.lower) for row in state.summary().rows]
    theirs = [(row.mean, row.lower) for row in other.summary().rows]
    assert [row.name for row in state.summary().rows] == [
        "median of area",
        "geometric standard deviation of area",
        "intercept of log price",
        "slope of log price on log area",
        "residual standard deviation of log price",
    ]
    theirs[:2] = np.exp(theirs[:2])
    np.testing.assert_allclose(mine, theirs, rtol=1e-12)
    found = learner.predict(state, {"area": [50.0]}, "price")
    same = plain.predict(other, {"area": np.log([50.0])}, "price")
    np.testing.assert_allclose([found.lower, found.upper], np.exp([same.lower, same.upper]))
    np.testing.assert_allclose(found.median, np.exp(same.mean), rtol=1e-9)


def test_a_run_with_auto_says_the_same_with_and_without(rows):
    """Scores differ by the logarithms, what is kept does not, parameters are in the user's units."""
    parts = [{name: values[i : i + 20] for name, values in rows.items()} for i in (0, 20, 40)]
    model, plain = sb.models.Gaussian("price", "log"), sb.models.Gaussian("price")
    run = sb.run(sb.StreamLearner(model), parts, progress=False)
    others = [logs(part, "price") for part in parts]
    other = sb.run(sb.StreamLearner(plain), others, progress=False)
    for part, mine, theirs in zip(parts[1:], run.records[1:], other.records[1:], strict=True):
        added = np.log(part["price"]).mean()
        assert mine.prequential == pytest.approx(theirs.prequential - added, rel=1e-12)
        assert mine.retained == theirs.retained
        (median, sd), (mean, deviation) = (
            record.parameters["price"][name]
            for record, name in ((mine, "median of price"), (theirs, "mean of price"))
        )
        assert (median, sd) == pytest.approx((np.exp(mean), np.exp(mean) * deviation), rel=1e-5)
        assert mine.alone["price"]["median of price"] == pytest.approx(
            np.exp(theirs.alone["price"]["mean of price"]), rel=1e-5
        )


def test_names_of_parameters_of_vectors_and_of_lists_where_some_are_logarithms():
    for model in (
        sb.models.MultivariateGaussian(["x", "y"], {"y": "log"}),
        sb.models.GaussianMixture(["x", "y"], 2, transform={"y": "log"}),
    ):
        (means, spreads), *_ = (s for s in parameter_names(model) if len(s) == 2)
        assert [name.split(" |")[0] for name in means.names.flat][:2] == [
            "mean of x",
            "median of y",
        ]
        assert spreads.names.flat[1].startswith("geometric standard deviation of y")


def test_changes_are_told_in_per_cent_of_the_median():
    """The smallest one that is told rests on what values vary by: a fifth of their logarithm's deviation."""
    every = {
        "median of price | z=1": Comparison(20.0, 0.2, 26.0, 0.3),
        "geometric standard deviation of price | z=1": Comparison(1.05, 0.01, 1.1, 0.01),
    }
    median, spread = (
        Change.between(name, every, reach=1.6, fluctuation=None, least=None) for name in every
    )
    assert str(median) == "median of price | z=1 20.0 → 26.0 (+30 %)"
    assert median.least == pytest.approx(0.2 * 20.0 * np.log(1.05))
    assert spread.numbers == "1.05 → 1.10 (+0.05)"
    assert spread.least == pytest.approx(0.2 * 1.05 * np.log(1.05))


def test_columns_of_float32_stay_so(rows):
    small = {name: values.astype(np.float32) for name, values in rows.items()}
    model = sb.models.Gaussian(["price", "area"], "log")
    assert model.columns[0].encode(small["price"]).dtype == np.float32
    assert model.columns[0].decode(np.log(rows["price"])) == pytest.approx(rows["price"])


@pytest.mark.parametrize("bad", [0.0, -1.0, np.inf])
def test_a_value_without_a_logarithm_is_refused(gaussian, bad):
    learner, state, _ = gaussian
    sentence = r"column 'price', row 1: expected a finite number above 0, whose logarithm is taken"
    with pytest.raises(ValueError, match=sentence):
        learner.step(state, {"price": [1.0, bad], "area": [1.0, 2.0]})


def test_or_taken_as_missing_where_that_is_asked_for():
    batches = [{"price": [1.0, 0.0, 2.0, 3.0]}, {"price": [1.0, 2.0, 3.0, -1.0]}]
    learner = sb.StreamLearner(sb.models.Gaussian("price", "log"), sb.SVB())
    schema = sb.SchemaPolicy(changed_type="missing")
    run = sb.run(learner, batches, schema=schema, progress=False)
    assert run.state.retained == {"price": 6.0}


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (
            lambda: sb.models.Gaussian("x", "sqrt"),
            "Gaussian: transform of 'x' must be 'log', got 'sqrt'",
        ),
        (
            lambda: sb.models.NaiveBayes("c", 2, "x", poisson="k", transform={"k": "log"}),
            "NaiveBayes: transform of 'k': normal columns are 'x'",
        ),
        (
            lambda: sb.models.GaussianMixture("x", 2, transform=3),
            "GaussianMixture: transform must be 'log' or a mapping of columns to it, got 3",
        ),
        (
            lambda: sb.Network().normal("x", latent=True, transform="log"),
            "Network: 'x' is latent: no column holds values to transform",
        ),
    ],
)
def test_bad_transforms_are_refused(make, sentence):
    with pytest.raises((ValueError, TypeError), match=sentence):
        make()


def test_states_from_before_there_were_transforms_are_read(rows, tmp_path):
    path = tmp_path / "state.sbz"
    state = learned(sb.models.Gaussian("area"), rows)[1]
    sb.save(state, path)
    with zipfile.ZipFile(path) as archive:
        manifest = json.loads(archive.read("manifest.json"))
        arrays = archive.read("arrays.safetensors")
    del manifest["state"]["fields"]["model"]["fields"]["transform"]
    held = {key: manifest[key] for key in ("state", "facts", "streams")}
    manifest["sha256"] = _file._digest(held, arrays)
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("manifest.json", json.dumps(manifest))
        archive.writestr("arrays.safetensors", arrays)
    assert sb.load(path).model == state.model
