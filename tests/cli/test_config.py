"""The configuration of ``streambayes run``."""

import inspect
import re
from pathlib import Path

import hypothesis
import hypothesis.strategies as st
import pytest
from typer.testing import CliRunner

import streambayes as sb
from streambayes.cli import _config, _keys
from streambayes.cli._app import app
from streambayes.cli._config import ConfigError, read_config

VALID = """\
[model]
type = "Gaussian"
names = ["x", "y"]
[forgetting]
policy = "HPP"
gamma = 0.2
[source]
type = "files"
files = "rows*.csv"
missing = ["?"]
types = {x = "number"}
[batches]
rows = 3
columns = ["x", "y", "g"]
[test]
fraction = 0.25
group = "g"
[learner]
seed = 7
prequential = true
scale = {x = [0.0, 2.0]}
tolerance = 1e-9
max_sweeps = 50
[schema]
changed_type = "missing"
[output]
folder = "out"
keep = 2
report = true
[drift]
false_alarms = 0.05
[metrics]
port = 0
"""
NETWORK = """
[model]
type = "Network"
[[model.variables]]
kind = "categorical"
name = "g"
categories = ["a", "b"]
[[model.variables]]
kind = "bernoulli"
name = "hidden"
latent = true
[[model.variables]]
kind = "normal"
name = "x"
parents = ["g", "hidden"]
[[model.variables]]
kind = "poisson"
names = ["n"]
[source]
type = "files"
files = "rows.csv"
[batches]
every = "1d"
time = "time"
[output]
folder = "out"
"""


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    made = tmp_path_factory.mktemp("config")
    lines = [f"{n}.5,{n},{'ab'[n % 2]},{n},2024-01-{n + 1:02d}" for n in range(8)]
    (made / "rows.csv").write_text("\n".join(["x,y,g,n,time", *lines]) + "\n")
    (made / "file").write_text("")
    return made


def read(folder, text):
    return read_config(folder / "stream.toml", text)


def said(folder, text):
    with pytest.raises(ConfigError) as caught:
        read(folder, text)
    sentence = str(caught.value)
    assert sentence.startswith(f"{folder / 'stream.toml'}: ")
    assert "\n" not in sentence
    return sentence


def test_a_whole_configuration(folder):
    config = read(folder, VALID)
    assert config.learner.model == sb.models.Gaussian(["x", "y"])
    assert config.learner.forgetting == sb.HPP(sb.TruncatedExponential.from_gamma(0.2))
    assert (config.learner.tolerance, config.learner.max_sweeps) == (1e-9, 50)
    assert config.source.paths == [folder / "rows.csv"]
    assert config.split == {
        "test_fraction": 0.25,
        "group": "g",
        "held_out": None,
        "seed": 7,
        "prequential": True,
    }
    assert config.schema == sb.SchemaPolicy(changed_type="missing")
    assert (config.folder, config.report, config.port) == (folder / "out", True, 0)
    assert config.place == str(folder / "out" / "checkpoints")
    assert config.drift == {"false_alarms": 0.05}
    assert [len(batch.columns["x"]) for batch in config.stream] == [3, 3, 2]
    assert not (folder / "out").exists()


def test_a_network(folder):
    config = read(folder, NETWORK)
    net = sb.Network()
    net.categorical("g", ["a", "b"])
    net.bernoulli("hidden", latent=True)
    net.normal("x", parents=["g", "hidden"])
    net.poisson(["n"])
    assert config.learner.model == net
    assert isinstance(config.learner.forgetting, sb.Auto)
    assert config.has_times


def test_columns_that_are_transformed_or_made(folder):
    text = VALID.replace("[drift]", '[columns.x]\ntransform = "log"\n[columns.y]\n[drift]')
    assert read(folder, text).learner.model == sb.models.Gaussian(["x", "y"], {"x": "log"})
    text = NETWORK.replace('name = "x"', 'names = ["x change"]').replace('"g"', '"weekday"')
    text = text.replace('categories = ["a", "b"]', 'categories = "weekday"')
    made = 'time = "time"\ndifference = ["x"]\ncalendar = ["weekday"]'
    text = text.replace('time = "time"', made)
    config = read(folder, text + '[columns."x change"]\ntransform = "log"\n')
    assert config.learner.model.columns[1].transform == "log"
    assert config.learner.model.columns[0].categories[:2] == ("Mon", "Tue")
    batches = list(config.stream)
    assert [batch.columns["weekday"][0] for batch in batches[:3]] == ["Mon", "Tue", "Wed"]
    assert [batch.columns["x change"][0] for batch in batches[1:3]] == [1.0, 1.0]


@pytest.mark.parametrize("name", _keys.MODELS)
def test_keys_of_models_are_their_arguments(name):
    if name != "Network":
        parameters = dict(inspect.signature(getattr(sb.models, name)).parameters)
        parameters.pop("transform", None)  # of a column: in [columns.NAME]
        assert list(_keys.MODELS[name].kinds) == list(parameters)
        needed = [key for key, value in parameters.items() if value.default is value.empty]
        assert list(_keys.MODELS[name].needed) == needed


def concrete(package, base):
    found = ((name, getattr(package, name)) for name in package.__all__)
    return {
        name
        for name, value in found
        if isinstance(value, type) and issubclass(value, base) and not inspect.isabstract(value)
    }


def test_all_models_and_policies_are_there():
    assert set(_keys.MODELS) == concrete(sb.models, sb.models.AbstractModel)
    assert set(_keys.POLICIES) == concrete(sb.forgetting, sb.forgetting.AbstractForgetting)


@pytest.mark.parametrize(
    ("name", "source"),
    [
        ("files", sb.sources.Files),
        ("folder", sb.sources.Folder),
        ("redis", sb.sources.RedisStream),
        ("kafka", sb.sources.KafkaTopic),
    ],
)
def test_keys_of_sources_are_their_arguments(name, source):
    assert list(_keys.SOURCES[name].kinds) == list(inspect.signature(source).parameters)


def test_keys_of_batches_are_their_arguments():
    parameters = list(inspect.signature(sb.batches).parameters)
    assert set(_keys.SECTIONS["batches"].kinds) == set(parameters[1:])


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('type = "folder"\nfolder = "later"\nsettle = 0\npoll = 0.5\nend = "_END"', "Folder"),
        (
            'type = "redis"\nstream = "s"\nurl = "redis://127.0.0.1:1"\nfollow = false',
            "RedisStream",
        ),
        ('type = "kafka"\ntopic = "t"\nsettings = {"client.id" = "me"}', "KafkaTopic"),
    ],
)
def test_live_sources_are_not_touched(folder, text, kind):
    start, end = VALID.index('type = "files"'), VALID.index("[batches]")
    config = read(folder, VALID[:start] + text + "\n" + VALID[end:])
    assert type(config.source).__name__ == kind


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ("[model]", "[modle]", "there is no section [modle] (did you mean 'model'?); sections are"),
        ("[drift]\n", "[drift]\nlevel = 1\n", "[drift] has no key 'level'; keys are false_alarms"),
        ("seed = 7", "sede = 7", "[learner] has no key 'sede' (did you mean 'seed'?)"),
        ("seed = 7", "seed = 7.5", "[learner] seed must be a whole number between 0 and"),
        ("seed = 7", "seed = true", "[learner] seed must be a whole number between 0 and"),
        ("seed = 7", "seed = -1", "got -1"),
        ("seed = 7", f"seed = {2**70}", "[learner] seed must be"),
        ("seed = 7", f"seed = {'9' * 5000}", "not valid TOML"),
        ("seed = 7", "seed = 2024-01-01", "got 2024-01-01"),
        ("prequential = true", "prequential = 1", "[learner] prequential must be true or false"),
        ("scale = {x = [0.0, 2.0]}", "scale = {z = [0.0, 2.0]}", "[learner] scale: 'z' is not"),
        ("scale = {x = [0.0, 2.0]}", "scale = {x = [0.0]}", "[learner] scale must be true"),
        ("tolerance = 1e-9", "tolerance = nan", "[learner] StreamLearner: tolerance must be"),
        ("max_sweeps = 50", "max_sweeps = 0", "[learner] max_sweeps must be a whole number of"),
        ('type = "Gaussian"\n', "", "[model] type is missing; it is one of"),
        ('"Gaussian"', '"gaussian"', "got \"gaussian\" (did you mean 'Gaussian'?)"),
        ('"Gaussian"', "3", "[model] type must be one of"),
        ('names = ["x", "y"]\n[for', "[for", "[model] names is missing; it is a column such as"),
        ('names = ["x", "y"]', 'name = "x"', "[model] has no key 'name' (did you mean 'names'?)"),
        ('names = ["x", "y"]', 'names = ["x", 1]', '[model] names must be a column such as "x"'),
        ('names = ["x", "y"]', 'names = ["x", "x"]', "[model] names must be distinct"),
        ('names = ["x", "y"]', 'names = ["x", "t"]', "[model] column 't' is not in [batches]"),
        ('policy = "HPP"', 'policy = "HHP"', "[forgetting] policy must be one of"),
        ('policy = "HPP"', 'policy = "SVB"', "[forgetting] has no key 'gamma'; keys of SVB are"),
        ("gamma = 0.2", "gamma = inf", "[forgetting] TruncatedExponential: gamma"),
        ('"HPP"\ngamma = 0.2', '"Fading"\nrho = 1.5', "[forgetting] Fading: rho must lie in"),
        ('"HPP"\ngamma = 0.2', '"PowerPrior"', "[forgetting] PowerPrior: give one of rho and"),
        ('"HPP"\ngamma = 0.2', '"Auto"\nclock = "time"', '[forgetting] clock = "time" needs'),
        ('"HPP"\ngamma = 0.2', '"Auto"\nclock = "tme"', "[forgetting] clock must be one of"),
        ('type = "files"', 'type = "file"', '[source] type must be one of "files", "folder"'),
        ('type = "files"', 'type = "folder"', "[source] has no key 'files'"),
        ('files = "rows*.csv"\n', "", "[source] files is missing"),
        ('"rows*.csv"', '"none*.csv"', "[source] no file"),
        ('"rows*.csv"', '"."', "is a folder; name its files"),
        ('"rows*.csv"', '"file"', "[source] file is no CSV, Parquet or Arrow file by its name"),
        ('"rows*.csv"', '"\\u0000.csv"', "[source] "),
        ('x = "number"', 'x = "float"', "[source] types: column 'x' must be 'number' or 'text'"),
        ('missing = ["?"]', 'missing = "?"', "[source] missing must be a list of texts"),
        ('missing = ["?"]', 'separator = ";;"', "[source] separator must be one letter"),
        ("rows = 3", "rows = 0", "[batches] rows must be a whole number of at least 1, got 0"),
        ("rows = 3", "rows = true", "[batches] rows must be a whole number of at least 1"),
        ("rows = 3\n", "", "[batches] give one of rows, every and by"),
        (
            "rows = 3",
            'rows = 3\ncalendar = ["day"]',
            "[batches] calendar must be a list with some of",
        ),
        (
            "rows = 3",
            'rows = 3\ncalendar = ["hour"]',
            "[batches] calendar needs the name of the time",
        ),
        (
            "rows = 3",
            'rows = 3\ndifference = ["z"]',
            "[batches] there is no column 'z' in rows.csv",
        ),
        ("[drift]", "[columns]\nx = 1\n[drift]", "[columns.x] must be a section, got 1"),
        (
            "[drift]",
            "[columns.x]\nlog = true\n[drift]",
            "[columns.x] has no key 'log'; keys are transform",
        ),
        (
            "[drift]",
            '[columns.x]\ntransform = "sqrt"\n[drift]',
            '[columns.x] transform must be one of "log"',
        ),
        (
            "[drift]",
            '[columns.g]\ntransform = "log"\n[drift]',
            "[columns.g] normal columns of the model are 'x', 'y'",
        ),
        ("rows = 3", 'rows = 3\nby = "g"', "[batches] give one of rows, every and by"),
        ("rows = 3", 'every = "1d"', "[batches] every needs the name of the time column"),
        ("rows = 3", 'every = "1x"\ntime = "time"', "[batches] every must be a period such as"),
        ("rows = 3", 'every = nan\ntime = "n"', "[batches] every must be a period such as"),
        ("rows = 3", 'rows = 3\ntime = "t"', "[batches] there is no column 't' in rows.csv"),
        ("rows = 3", 'rows = 3\nlateness = "1h"', "[batches] lateness goes with every"),
        ('columns = ["x", "y", "g"]', 'columns = ["x", "y"]', "[test] group: column 'g' is not in"),
        ("fraction = 0.25", "fraction = 1.0", "[test] fraction must lie in [0, 1), got 1.0"),
        ("fraction = 0.25", "fraction = nan", "[test] fraction must lie in [0, 1), got nan"),
        ("fraction = 0.25\n", "", "[test] group needs a fraction"),
        ('group = "g"', 'held_out = "g"', "[test] held_out and fraction exclude each other"),
        ('"missing"', '"skip"', "[schema] changed_type must be one of 'error'"),
        ('changed_type = "missing"', "changed_type = 1", "[schema] changed_type must be text"),
        ('folder = "out"\n', "", "[output] folder is missing"),
        ('folder = "out"', 'folder = "file/out"', "is a file"),
        ('folder = "out"', 'folder = "\\u0000"', "[output] "),
        ('folder = "out"', 'folder = "out"\ncheckpoints = "no://where"', "[output] "),
        ("keep = 2", "keep = 0", "[output] keep must be a whole number of at least 1"),
        ("report = true", 'report = "yes"', '[output] report must be true or false, got "yes"'),
        ("0.05", "2", "[drift] false_alarms must be a number from 1e-12 to 0.5, got 2"),
        ("port = 0", "port = 70000", "[metrics] port must be a whole number between 0 and 65535"),
        ("port = 0\n", "", "[metrics] port is missing"),
        ("[metrics]\nport = 0\n", "metrics = 1\n", "[drift] has no key 'metrics'"),
        ("rows = 3", "rows = ", "not valid TOML: invalid value (at line 13, column"),
        ("rows = 3", "rows = 3\nrows = 4", "not valid TOML: cannot overwrite a value (at line 14"),
    ],
)
def test_what_is_wrong_is_said_in_one_sentence(folder, old, new, sentence):
    assert VALID.count(old) == 1
    assert sentence in said(folder, VALID.replace(old, new))


@pytest.mark.parametrize(
    ("old", "new", "sentence"),
    [
        ('kind = "normal"', 'kind = "gauss"', "[[model.variables]] number 3: kind must be one of"),
        ('kind = "normal"\n', "", "[[model.variables]] number 3: kind is missing"),
        ('name = "x"', 'name = "x"\nnames = ["x"]', "number 3: give one of name and names"),
        ('name = "g"', 'names = ["g"]', "number 1: has no key 'names' (did you mean 'name'?)"),
        ('"hidden"]', '"none"]', "[model] "),
        ('categories = ["a", "b"]', 'categories = ["a"]', "number 1: 'g': at least two distinct"),
        ('categories = ["a", "b"]', "categories = 100000000000", "number 1: categories must be"),
        ('categories = ["a", "b"]', 'categories = ["a", 1]', "must be all text or all whole"),
        ("latent = true", 'latent = "yes"', "number 2: latent must be true or false"),
        ('names = ["n"]', 'names = ["x"]', "number 4: Network: 'x' is declared twice"),
        ('name = "x"', 'name = "timr"', "[model] column 'timr' is not in rows.csv, which has 'x',"),
        ('time = "time"', 'time = "time"\nlateness = -1', "[batches] lateness must be a length"),
    ],
)
def test_what_is_wrong_with_a_network(folder, old, new, sentence):
    assert NETWORK.count(old) == 1
    assert sentence in said(folder, NETWORK.replace(old, new))


def test_sections_that_are_missing_or_none(folder):
    assert "section [model] is missing" in said(folder, "")
    assert "[model] must be a section, got 1" in said(folder, "model = 1")
    assert "[model] must be a section" in said(folder, "[[model]]\n")
    assert "not valid TOML" in said(folder, "a = " + "[" * 100_000)


def test_a_file_that_cannot_be_read(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read \(no such file or directory\)"):
        read_config(tmp_path / "none.toml")
    (tmp_path / "bad.toml").write_bytes(b"\xff")
    with pytest.raises(ConfigError, match="not text in UTF-8"):
        read_config(tmp_path / "bad.toml")


def test_patterns_in_the_path_of_the_configuration_are_names(tmp_path):
    place = tmp_path / "a[1]*"
    place.mkdir()
    (place / "rows.csv").write_text("x,y,g\n1,2,a\n")
    assert read(place, VALID).source.paths == [place / "rows.csv"]


def test_extras_are_named_when_missing(folder, monkeypatch):
    find = _config.importlib.util.find_spec
    for package, extra in (
        ("safetensors", "save"),
        ("plotly", "report"),
        ("prometheus_client", "metrics"),
    ):
        with monkeypatch.context() as patch:
            patch.setattr(
                _config.importlib.util,
                "find_spec",
                lambda name, package=package: None if name == package else find(name),
            )
            assert f"pip install 'streambayes[{extra}]'" in said(folder, VALID)


LETTERS = st.sampled_from('[]{}"=.,#\n \\\t01xeinf-:_') | st.characters()
VALUES = st.one_of(
    st.booleans().map(lambda flag: str(flag).lower()),
    st.integers(-5, 50).map(str),
    st.sampled_from(["nan", "-inf", "1e400", "[]", "{}", "[[]]", '""', '"x"', '["x"]', '"1d"']),
    st.sampled_from(["2024-01-01", "{x = 1}", '{x = ["a", "b"]}', "99999999999999999999"]),
    st.sampled_from(['"99999999999999999999d"', '"g"', '"time"', '"file"', '"Auto"', '"folder"']),
)


@st.composite
def mutated(draw):
    """A valid text with letters deleted, doubled or replaced, and other values of keys."""
    text = draw(st.sampled_from([VALID, NETWORK]))
    for _ in range(draw(st.integers(1, 3))):
        kind = draw(st.sampled_from(["delete", "double", "replace", "value", "value", "line"]))
        place = draw(st.integers(0, len(text) - 1))
        if kind in {"delete", "double"}:
            end = place + draw(st.integers(1, 5))
            text = text[:place] + text[place:end] * (2 * (kind == "double")) + text[end:]
        elif kind == "replace":
            text = text[:place] + draw(LETTERS) + text[place + 1 :]
        else:
            lines = text.split("\n")
            chosen = draw(st.integers(0, len(lines) - 1))
            key, equals, _ = lines[chosen].partition("=")
            value = f"{key}= {draw(VALUES)}" if equals else lines[chosen]
            lines[chosen : chosen + 1] = [value] if kind == "value" else []
            text = "\n".join(lines)
        hypothesis.assume(text)
    return text


@hypothesis.settings(max_examples=1000, deadline=None)
@hypothesis.given(text=mutated())
def test_mutations_are_run_or_refused(folder, text):
    path = folder / "stream.toml"
    path.write_text(text, encoding="utf-8", errors="replace")
    before = sorted(folder.rglob("*"))
    result = CliRunner().invoke(app, ["run", str(path), "--dry-run"])
    assert result.exit_code in {0, 2}, (text, result.exception)
    assert result.exception is None or isinstance(result.exception, SystemExit), text
    if result.exit_code == 2:
        assert result.stderr.startswith("Error: ")
        assert result.stderr.count("\n") == 1
        assert "Traceback" not in result.stderr
    assert sorted(folder.rglob("*")) == before


def test_the_page_names_all_keys_and_its_example_is_one(tmp_path):
    page = (Path(__file__).parents[2] / "docs" / "run-for-real.md").read_text()
    tables = _keys.MODELS, _keys.VARIABLES, _keys.POLICIES, _keys.SOURCES
    for choice, keys in (entry for table in tables for entry in table.items()):
        assert all(f"`{name}`" in page for name in (choice, *keys.kinds))
    example = re.search(r"```toml\n(.*?)```", page, re.DOTALL)[1]
    for section, keys in _keys.SECTIONS.items():
        assert f"\n[{section}]" in f"\n{example}"
        assert keys is None or all(
            f"\n{name} = " in example.replace("# ", "") for name in keys.kinds
        )
    (tmp_path / "trips").mkdir()
    names = "time,vehicle,kind,speed,delay,zip"
    (tmp_path / "trips" / "a.csv").write_text(f"{names}\n2024-01-01,a,bus,1,2,01\n")
    config = read(tmp_path, example.replace("s3://b/trips", "saved"))
    assert config.learner.max_sweeps == 1000
