"""Curves of a run: what is drawn is what the records say."""

import io

import numpy as np
import pytest

import streambayes as sb
from streambayes import reports


def stream(columns, num_batches=12):
    rng = np.random.default_rng(0)
    for number in range(num_batches):
        rows = rng.normal(size=(60, columns)) + 3.0 * (number >= 8) * (np.arange(columns) == 0)
        yield {f"x{place}": rows[:, place] for place in range(columns)}


def learned(policy, columns=2, **options):
    model = sb.models.Gaussian([f"x{place}" for place in range(columns)])
    return sb.run(sb.StreamLearner(model, policy), stream(columns), progress=False, **options)


def drawn(figure):
    """The figure can be written, in both forms."""
    for form in ("png", "svg"):
        figure.savefig(io.BytesIO(), format=form)
    return figure.axes[0]


@pytest.mark.parametrize("dark", [False, True])
def test_one_rho_is_a_curve_and_many_are_a_map(dark):
    run = learned(sb.HPP())
    ax = drawn(reports.plot_rho(run.records, dark=dark))
    (line,) = ax.lines
    assert line.get_ydata().tolist() == [record.rho for record in run.records[1:]]
    run = learned(sb.MHPP(), columns=7)
    ax = drawn(reports.plot_rho(run.records, dark=dark))
    cells = np.asarray(ax.images[0].get_array())
    assert cells.shape == (7, 11)
    assert cells[:, 3].tolist() == pytest.approx(list(run.records[4].rho.values()))
    paper = sum(ax.get_facecolor()[:3])
    assert paper < 1.0 if dark else paper == 3.0


def test_a_long_run_is_drawn_by_means_over_neighbours():
    run = learned(sb.MHPP(), columns=7)
    many = list(run.records[1:]) * 400
    cells = np.asarray(drawn(reports.plot_rho(many)).images[0].get_array())
    assert cells.shape == (7, 1467)  # 4,400 batches, three by three
    first = np.mean([list(record.rho.values()) for record in many[:3]], axis=0)
    assert cells[:, 0] == pytest.approx(first)


@pytest.mark.parametrize("policy", [sb.SVB(), sb.MHPP(), sb.Auto()], ids=lambda policy: policy.name)
def test_a_run_at_a_glance(policy):
    run = learned(policy, columns=7)
    figure = run.plot(dark=True)
    drawn(figure)
    scores, shares, retained = figure.axes[:3]
    assert scores.get_title() == "whole batch, before learning it"
    assert scores.lines[0].get_ydata()[3] == run.records[3].prequential
    if policy.name != "SVB":
        cells = np.asarray(shares.images[0].get_array())
        assert cells[0, 5] == pytest.approx(run.records[5].rho["x0"])
    cells = np.asarray(retained.images[0].get_array())
    assert cells[0, -1] == pytest.approx(run.records[-1].retained["x0"])
    plain = learned(sb.SVB(), prequential=False).plot()
    assert [ax.get_ylabel() for ax in plain.axes] == ["E[rho]", "rows retained"]


def test_the_bound_climbs():
    model = sb.models.GaussianMixture(["x0", "x1"], 3)
    learner = sb.StreamLearner(model, sb.HPP())
    first, second = list(stream(2, 2))
    state, _ = learner.step(learner.init(first), first)
    ax = drawn(reports.plot_bound(learner, state, second))
    bounds = ax.lines[0].get_ydata()
    info = learner.step(state, second)[1]
    assert len(bounds) == min(info.num_sweeps, 50) > 3
    assert (np.diff(bounds) >= -1e-12).all()
    assert bounds[0] < bounds[-1]
    if info.num_sweeps <= 50:
        assert bounds[-1] == pytest.approx(info.bound / info.num_rows, rel=1e-12)
    few = reports.plot_bound(learner, state, second, most=2).axes[0].lines[0].get_ydata()
    assert few.tolist() == bounds[:2].tolist()
    free = sb.StreamLearner(model, sb.SVI(1000))
    with pytest.raises(ValueError, match=r"SVI 1000, .* climbs no bound"):
        reports.plot_bound(free, free.init(first), first)
    with pytest.raises(ValueError, match="most must be a whole number of at least 1"):
        reports.plot_bound(learner, state, second, most=0)


def test_retained_rows():
    run = learned(sb.Auto())
    ax = drawn(reports.plot_retained(run.records))
    assert [line.get_label() for line in ax.lines] == ["x0", "x1"]
    assert ax.lines[0].get_ydata()[-1] == pytest.approx(run.state.retained["x0"])


def test_scores_of_methods():
    model = sb.models.Gaussian(["x0", "x1"])
    found = sb.compare(model, list(stream(2)), [sb.SVB(), sb.HPP()], progress=False)
    ax = drawn(reports.plot_scores(found))
    assert [line.get_label() for line in ax.lines] == ["SVB", "HPP"]
    assert ax.get_title() == "held-out rows, predictive density"
    ax = drawn(reports.plot_scores(found, "prequential"))
    expected = [record.prequential for record in found.runs["HPP"].records[1:]]
    assert ax.lines[1].get_ydata()[1:].tolist() == expected
    with pytest.raises(ValueError, match="have no accuracy; there are"):
        reports.plot_scores(found, "accuracy")


def test_a_parameter_with_its_band_and_its_changes():
    run = learned(sb.Auto())
    ax = drawn(reports.plot_parameter(run.records, "mean of x0"))
    mean = next(line for line in ax.lines if line.get_label() == "mean").get_ydata()
    assert mean.tolist() == [record.parameters["x0"]["mean of x0"][0] for record in run.records]
    change = next(line for line in ax.lines if line.get_label() == "change")
    assert change.get_xdata()[0] == 8
    with pytest.raises(ValueError, match="no parameter 'mean of z'; there are 'mean of x0'"):
        reports.plot_parameter(run.records, "mean of z")


def test_components_move():
    rng = np.random.default_rng(1)
    batches = []
    for number in range(8):
        which = rng.integers(0, 2, 200)
        centres = np.array([[-3.0, 0.0], [3.0, 0.3 * number]])[which]
        rows = centres + rng.normal(size=(200, 2))
        batches.append({"x": rows[:, 0], "y": rows[:, 1]})
    learner = sb.StreamLearner(sb.models.GaussianMixture(["x", "y"], num_components=2), sb.HPP())
    run = sb.run(learner, batches, progress=False)
    ax = drawn(reports.plot_components(run.records, "x", "y"))
    ways = [line for line in ax.lines if len(line.get_xdata()) == 8]
    assert len(ways) == 2
    ends = {round(float(way.get_xdata()[-1])) for way in ways}
    assert ends == {-3, 3}
    with pytest.raises(ValueError, match="no means of column 'z'"):
        reports.plot_components(run.records, "z", "y")


def test_names_are_text():
    """What a figure would take for mathematics, and what is too long for it."""
    name = r"$\frac{1}{0}$ <b>" + "x" * 200
    rng = np.random.default_rng(0)
    batches = [sb.StreamBatch({name: rng.normal(size=30)}, label="$" * 60) for _ in range(4)]
    run = sb.run(sb.StreamLearner(sb.models.Gaussian(name)), batches, progress=False)
    drawn(reports.plot_parameter(run.records, f"mean of {name}"))
    drawn(reports.plot_retained(run.records))
    drawn(reports.plot_memory(run.records, name, dark=True))
    drawn(reports.plot_scores({name: run}))


def test_runs_folders_and_generators_are_drawn_alike(tmp_path):
    run = learned(sb.Auto(), record=tmp_path)
    for source in (run, tmp_path, str(tmp_path), sb.read_records(tmp_path)):
        ax = drawn(reports.plot_parameter(source, "mean of x0"))
        assert len(ax.lines[0].get_xdata()) == 12
    assert len(drawn(reports.plot_retained(run)).lines[0].get_xdata()) == 12


def test_records_without_what_is_drawn_are_refused():
    run = learned(sb.SVI(1000), drift=False)
    with pytest.raises(ValueError, match="no record has a share"):
        reports.plot_rho(run.records)
    with pytest.raises(ValueError, match=r"learn the stream with run\(\.\.\., drift=True\)"):
        reports.plot_parameter(run.records, "mean of x0")
