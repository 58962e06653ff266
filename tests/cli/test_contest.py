"""The commands that compare methods: what they print, and how they refuse."""

import pytest
from typer.testing import CliRunner

from streambayes import experiments
from streambayes.cli._app import app
from streambayes.experiments._report import write_report
from tests.experiments.test_contest import made


def run(*arguments):
    return CliRunner().invoke(app, [*map(str, arguments)])


def test_what_is_printed(tmp_path, monkeypatch):
    asked = {}

    def reproduce(output, **options):
        options.pop("advance")("SVB, start 1 of 5", 0, 5)
        asked.update(options)
        published = {"paper": {"HPP": -4.5}}
        return write_report(made([1.0, 2.0, 1.5], [5, 5, 5]), output, "A title", published)

    monkeypatch.setattr(experiments.electricity, "reproduce", reproduce)
    arguments = ("reproduce", "electricity", "-o", tmp_path / "out", "-m", "HPP", "-m", "PP 0.9")
    result = run(*arguments, "--protocol", "text", "--starts", 3)
    assert result.exit_code == 0, result.output
    assert asked == {
        "protocol": "text",
        "methods": ["HPP", "PP 0.9"],
        "num_starts": 3,
        "reference": None,
    }
    for text in ("A title", "-3.500", "-4.50", "+1.500 better", "(+1.000 .. +2.000)", "table.csv"):
        assert text in result.output
    assert run(*arguments, "--quiet").output == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("finance", "--data", "{}/loans.csv"), "loans.csv"),
        (("gps", "--data", "{}/Geolife"), "Geolife"),
        (("electricity", "--reference", "{}"), "svb.csv is missing"),
        (("electricity", "-m", "hpp"), "there is no method 'hpp'; choose from 'SVB', "),
        (("electricity", "--protocol", "authors"), "--protocol"),
        (("electricity", "--starts", "0"), "--starts"),
        (("finance",), "--data"),
    ],
)
def test_what_is_refused(tmp_path, arguments, sentence):
    filled = [argument.replace("{}", str(tmp_path)) for argument in arguments]
    result = run("reproduce", *filled, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output


@pytest.mark.parametrize("command", [("demo",), ("reproduce", "gps"), ("reproduce", "electricity")])
def test_help_has_an_example(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert f"streambayes {' '.join(command)}" in result.output
