"""The command ``streambayes init``."""

import datetime as dt
import tomllib

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet
from typer.testing import CliRunner

from streambayes.cli._app import app
from streambayes.cli._keys import SECTIONS


def asked(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)


def made(*arguments, name="stream.toml"):
    """Write a configuration and see that it passes a dry run as it is."""
    result = asked("init", *arguments)
    assert result.exit_code == 0, result.output
    assert result.output.endswith(f"Read it, then try: streambayes run {name} --dry-run\n")
    with open(name, "rb") as file:  # noqa: PTH123
        found = tomllib.load(file)
    dry = asked("run", name, "--dry-run")
    assert dry.exit_code == 0, dry.output
    return found


def write_trips(path, num_rows=300, step=dt.timedelta(hours=3)):
    rng = np.random.default_rng(0)
    start = dt.datetime(2024, 1, 1)  # noqa: DTZ001
    lines = [
        f"{(start + row * step).isoformat()},{rng.normal():.3f},{rng.normal():.3f},{'ab'[row % 2]},trip {row},"
        for row in range(num_rows)
    ]
    path.write_text("\n".join(["started_time,x,y,kind,note,empty", *lines]) + "\n")


def test_a_table_with_times(tmp_path):
    write_trips(tmp_path / "trips.csv")
    found = made("trips.csv")
    assert found["model"]["variables"] == [
        {"kind": "categorical", "name": "kind", "categories": ["a", "b"]},
        {"kind": "normal", "names": ["x", "y"]},
    ]
    assert found["source"] == {"type": "files", "files": "trips.csv"}
    assert found["batches"] == {"every": "1d", "time": "started_time"}
    assert found["output"] == {"folder": "runs/trips", "report": True}
    assert found["schema"] == {}
    text = (tmp_path / "stream.toml").read_text()
    assert "by a look at all 300 rows." in text
    assert "#   note          left out     text that differs from row to row: 300 values" in text
    assert "#   empty         left out     all of its cells are missing" in text
    assert '#   parents = ["kind"]' in text


def test_every_optional_key_is_there(tmp_path):
    write_trips(tmp_path / "trips.csv")
    made("trips.csv")
    text = (tmp_path / "stream.toml").read_text()
    for section, keys in SECTIONS.items():
        assert f"[{section}]\n" in text
        for key in () if keys is None else keys.kinds:
            assert f"{key} = " in text, key


@pytest.mark.parametrize(
    "model", ["Gaussian", "MultivariateGaussian", "GaussianMixture", "Network"]
)
def test_models_that_are_asked_for(tmp_path, model):
    write_trips(tmp_path / "trips.csv", num_rows=40)
    assert made("trips.csv", "--model", model)["model"]["type"] == model


def test_columns_of_few_values_alone_make_a_network(tmp_path):
    (tmp_path / "rows.csv").write_text("a,b\n" + "u,x\nv,y\n" * 5)
    found = made("rows.csv")
    assert [each["name"] for each in found["model"]["variables"]] == ["a", "b"]
    assert found["batches"] == {"rows": 10}
    result = asked("init", "rows.csv", "-o", "other.toml", "--model", "Gaussian")
    assert result.exit_code == 2
    assert "Gaussian needs columns of numbers, and there are none" in result.output


def test_parquet_in_another_folder_with_odd_names(tmp_path):
    (tmp_path / "data").mkdir()
    (tmp_path / "configs").mkdir()
    days = np.datetime64("2020-01-01") + np.arange(3000)
    table = pa.table(
        {
            "when": days,
            'the "size"\\\n\x7f': np.arange(3000.0) ** 0.5,
            "is_new": [True, False] * 1500,
            "count": np.arange(3000),
            "timestamp": np.arange(3000),
        }
    )
    for number in range(2):
        parquet.write_table(
            table.slice(1500 * number, 1500), tmp_path / f"data/part-{number}.parquet"
        )
    found = made("data/part-*.parquet", "-o", "configs/it.toml", name="configs/it.toml")
    assert found["source"]["files"] == "../data/part-*.parquet"
    assert found["batches"] == {"every": "1mo", "time": "when"}
    assert [each["kind"] for each in found["model"]["variables"]] == ["bernoulli", "normal"]
    assert found["model"]["variables"][1]["names"] == ['the "size"\\\n\x7f']


def test_times_that_are_late_or_out_of_order(tmp_path):
    moments = [f"2024-01-01T{hour:02d}:{minute:02d}" for hour in range(24) for minute in (0, 30)]
    moments[10], moments[11] = moments[11], moments[10]
    for name, times in (("late", moments), ("wild", moments[::-1])):
        lines = [f"{moment},{number**0.5}" for number, moment in enumerate(times)]
        (tmp_path / f"{name}.csv").write_text("\n".join(["date,x", *lines]) + "\n")
    assert made("late.csv")["batches"] == {"every": "6h", "time": "date", "lateness": "1800s"}
    wild = made("wild.csv", "-o", "wild.toml", name="wild.toml")
    assert wild["batches"] == {"every": "6h", "time": "date"}
    assert "# Its rows are not in order of time" in (tmp_path / "wild.toml").read_text()


@pytest.mark.parametrize(
    ("name", "text", "sentence"),
    [
        ("none.csv", None, "no file 'none.csv'"),
        ("rows.txt", "x\n1\n", "is no CSV, Parquet or Arrow file"),
        ("rows.csv", "x,y\n", "has no rows to look at"),
        ("rows.csv", "", "has no rows to look at"),
        (
            "rows.csv",
            "x\nsame\nsame\n",
            "there is no column that a model could learn (x: the same in",
        ),
        ("rows.parquet", "no parquet", "rows.parquet cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said_in_one_sentence(tmp_path, name, text, sentence):
    if text is not None:
        (tmp_path / name).write_text(text)
    result = asked("init", name)
    assert result.exit_code == 2
    assert sentence in result.output
    assert result.output.count("\n") == 1
    assert not (tmp_path / "stream.toml").exists()


def test_a_file_is_not_replaced(tmp_path):
    write_trips(tmp_path / "trips.csv", num_rows=40)
    (tmp_path / "stream.toml").write_text("mine")
    result = asked("init", "trips.csv")
    assert result.exit_code == 2
    assert "stream.toml is already there; give another name with --output" in result.output
    assert (tmp_path / "stream.toml").read_text() == "mine"


def test_help_has_examples():
    result = asked("init", "--help")
    assert result.exit_code == 0
    assert "streambayes init trips.csv" in result.output


def test_cells_that_are_separated_by_other_letters(tmp_path):
    rows = "".join(f"{n / 4};{n**2 / 2}\n" for n in range(20))
    (tmp_path / "semi.csv").write_text(f"a;b\n{rows}")
    (tmp_path / "odd.csv").write_text(f"a;b\n{rows}".replace(";", "!"))
    for name, options, letter in (("semi", [], ";"), ("odd", ["--separator", "!"], "!")):
        output = tmp_path / f"{name}.toml"
        arguments = ["init", str(tmp_path / f"{name}.csv"), "-o", str(output), *options]
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0, result.stderr
        assert f'separator = "{letter}"' in output.read_text()
        assert 'names = ["a", "b"]' in output.read_text()


def test_of_very_many_columns_the_first_are_taken(tmp_path):
    names = [f"x{number}" for number in range(60)]
    path = tmp_path / "wide.csv"
    lines = "".join(",".join([f"{row / 2}"] * 60) + "\n" for row in range(5))
    path.write_text(",".join(names) + "\n" + lines)
    output = tmp_path / "wide.toml"
    assert CliRunner().invoke(app, ["init", str(path), "-o", str(output)]).exit_code == 0
    text = output.read_text()
    assert '"x49"]' in text
    assert "50 columns are enough to begin with" in text


@pytest.mark.parametrize(
    ("num_rows", "rows"), [(5, 10), (2_000, 100), (9_000, 200), (30_000, 1000)]
)
def test_about_twenty_batches(tmp_path, num_rows, rows):
    (tmp_path / "rows.csv").write_text("x\n" + "1\n2\n" * (num_rows // 2) + "3\n" * (num_rows % 2))
    assert made("rows.csv")["batches"] == {"rows": rows}


ROWS = 200
NORMALS = np.random.default_rng(1).normal(size=ROWS)
MONTHS = np.datetime64("2000-01") + np.arange(ROWS)
TABLES = {
    # as economics: a row number, dates, numbers
    "dates": (
        {"rownames": np.arange(ROWS), "date": MONTHS.astype("datetime64[D]"), "pce": NORMALS},
        {"type": "Gaussian", "names": ["pce"]},
        {"every": "1y", "time": "date"},
    ),
    # as an index of dates that pandas writes without a name
    "index": (
        {"": MONTHS.astype("datetime64[D]"), "co2": NORMALS},
        {"type": "Gaussian", "names": ["co2"]},
        {"every": "1y", "time": ""},
    ),
    # as AirPassengers: decimal years
    "decimal": (
        {"time": 1949 + np.arange(ROWS) / 12, "value": NORMALS},
        {"type": "Gaussian", "names": ["value"]},
        {"every": 1, "time": "time"},
    ),
    # as Grunfeld: each firm's years
    "panel": (
        {
            "firm": np.repeat(["a", "b", "c", "d"], 50),
            "year": np.tile(np.arange(1950, 2000), 4),
            "value": NORMALS,
        },
        {
            "type": "Network",
            "variables": [
                {"kind": "categorical", "name": "firm", "categories": ["a", "b", "c", "d"]},
                {"kind": "normal", "names": ["value"]},
            ],
        },
        {"every": 2, "time": "year"},
    ),
    # as storms without a year: parts of a date
    "parts": (
        {"month": np.arange(ROWS) % 12 + 1, "day": np.arange(ROWS) % 28 + 1, "wind": NORMALS},
        {"type": "Gaussian", "names": ["wind"]},
        {"rows": 10},
    ),
    # as NMES1988: counts, categories in numbers and text
    "counts": (
        {
            "visits": np.random.default_rng(2).poisson(2.0, ROWS),
            "am": np.arange(ROWS) % 2,
            "gear": np.arange(ROWS) % 3 + 3,
            "health": np.array(["poor", "good"])[np.arange(ROWS) // 150],
        },
        {
            "type": "Network",
            "variables": [
                {"kind": "bernoulli", "name": "am"},
                {"kind": "categorical", "name": "gear", "categories": [3, 4, 5]},
                {"kind": "categorical", "name": "health", "categories": ["good", "poor"]},
                {"kind": "poisson", "names": ["visits"]},
            ],
        },
        {"rows": 10},
    ),
}


@pytest.mark.parametrize(("columns", "model", "batches"), TABLES.values(), ids=TABLES)
def test_a_model_that_a_person_would_propose(tmp_path, columns, model, batches):
    names = ",".join(columns)
    lines = [",".join(map(str, cells)) for cells in zip(*columns.values(), strict=True)]
    (tmp_path / "rows.csv").write_text("\n".join([names, *lines]) + "\n")
    found = made("rows.csv")
    order = ["bernoulli", "categorical", "normal", "poisson"]
    if "variables" in found["model"]:
        found["model"]["variables"].sort(key=lambda each: order.index(each["kind"]))
    assert found["model"] == model
    assert found["batches"] == batches


def test_what_is_said_beside_the_model(tmp_path):
    lines = [f"{row % 12 + 1},{row % 28 + 1},{np.exp(NORMALS[row])}" for row in range(ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(["month,day,the price", *lines]) + "\n")
    made("rows.csv")
    text = (tmp_path / "stream.toml").read_text()
    assert '# [columns."the price"]\n# transform = "log"\n' in text
    assert '# ["month", "day"] are parts of a date: joined in one column of\n' in text


def test_a_response_and_regressors_are_named(tmp_path):
    lines = [f"{NORMALS[row]},{row**0.5},{'ab'[row % 2]},{row % 12 + 1}" for row in range(ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(["delay,distance,origin,month", *lines]) + "\n")
    found = made("rows.csv", "--response", "delay", "--regressors", "distance")
    assert found["model"] == {
        "type": "LinearRegression",
        "response": "delay",
        "regressors": ["distance"],
    }
    options = ["--response", "delay", "--regressors", "distance, origin", "-o", "by.toml"]
    by_origin = made("rows.csv", *options, name="by.toml")["model"]["variables"]
    assert by_origin[-1] == {"kind": "normal", "name": "delay", "parents": ["origin", "distance"]}
    classes = made("rows.csv", "--response", "origin", "-o", "c.toml", name="c.toml")["model"]
    assert classes == {
        "type": "NaiveBayes",
        "label": "origin",
        "classes": ["a", "b"],
        "normal": ["delay", "distance"],
    }
    made("rows.csv", "--response", "month", "--regressors", "origin", "-o", "m.toml", name="m.toml")
    result = asked("init", "rows.csv", "--response", "delai", "-o", "other.toml")
    assert result.exit_code == 2
    assert "there is no column 'delai' (did you mean 'delay'?)" in result.output


def test_categories_are_complete(tmp_path):
    """Also those that come late in the file; of many values the most frequent, and others."""
    shares = 1.0 / np.arange(1, 301)
    ports = np.random.default_rng(3).choice(300, 30_000, p=shares / shares.sum())
    lines = [f"{'z' if row > 29_900 else 'ab'[row % 2]},P{port}" for row, port in enumerate(ports)]
    (tmp_path / "rows.csv").write_text("\n".join(["kind,port", *lines]) + "\n")
    found = made("rows.csv")
    kind, port = found["model"]["variables"]
    assert kind["categories"] == ["a", "b", "z"]
    assert (len(port["categories"]), port["categories"][-1]) == (20, "other")
    assert found["schema"] == {"unseen_category": "other"}


def test_what_is_written_runs(tmp_path):
    lines = [f"{1900 + row},{NORMALS[row]}" for row in range(ROWS)]
    (tmp_path / "rows.csv").write_text("\n".join(["year,x", *lines]) + "\n")
    made("rows.csv")
    result = asked("run", "stream.toml")
    assert result.exit_code == 0, result.output
    assert "20, in" in result.output
    assert (tmp_path / "runs" / "rows" / "report.html").exists()


def test_dates_that_cannot_be_read_are_said_where_rows_are_cut(tmp_path):
    lines = [f"{1 + row % 12}/{1 + row % 28}/2015,{NORMALS[row]}" for row in range(ROWS)]
    (tmp_path / "prices.csv").write_text("\n".join(["date,x", *lines]) + "\n")
    assert "time" not in made("prices.csv")["batches"]
    text = (tmp_path / "stream.toml").read_text()
    assert (
        "# Rows are taken as they stand in the file, since the dates of date cannot be read" in text
    )
