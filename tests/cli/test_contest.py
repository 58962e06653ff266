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
    for text in (
        "A title",
        "-3.500",
        "-4.50",
        "+1.5000 better",
        "+1.0000 .. +2.0000",
        "table.csv",
    ):
        assert text in result.output
    assert "±" not in result.output
    assert "Prequential" not in result.output
    assert run(*arguments, "--quiet").output == ""


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        (("finance", "--data", "{}/none.csv"), "none.csv; give the path of a loan file"),
        (("finance", "--data", "{}/wrong.csv"), "expected the columns issue_d, annual_inc, dti, "),
        (("gps", "--data", "{}/none"), "none; download Geolife, unpack it, and give the folder"),
        (("gps", "--data", "{}"), "a.plt is cut in the middle of line 8, '39.9,116.3,0,49'"),
        (("gps", "--group", "planet"), "the batch lacks column 'planet', by which rows are held"),
        (("gps", "--reference", "{}"), "gps_tmll.csv is missing"),
        (("gps", "--data", "{}/wrong.csv"), "wrong.csv is a file; download Geolife"),
        (("gps", "--group", "hour", "-m", "SVB", "--starts", 1), "no batch has rows to hold out"),
        (("finance", "--data", "{}"), "is a folder; give the path of a loan file"),
        (("electricity", "--reference", "{}"), "svb.csv is missing"),
        (("electricity", "-m", "hppp"), "there is no method 'hppp'; choose from 'SVB', "),
        (("electricity", "--protocol", "authors"), "--protocol"),
        (("electricity", "--starts", "0"), "--starts"),
        (("finance",), "--data"),
    ],
)
def test_what_is_refused(tmp_path, arguments, sentence):
    (tmp_path / "wrong.csv").write_text("a,b\n1,2\n", encoding="utf-8")
    trajectory = tmp_path / "Data" / "000" / "Trajectory"
    trajectory.mkdir(parents=True)
    fix = "39.9,116.3,0,492,39744.1,2008-10-23,02:53:04"
    (trajectory / "a.plt").write_text("\n".join(["-"] * 6 + [fix, fix[:15]]), encoding="utf-8")
    filled = [str(argument).replace("{}", str(tmp_path)) for argument in arguments]
    result = run("reproduce", *filled, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert sentence in result.output
    assert "Traceback" not in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("command", [("demo",), ("reproduce", "gps"), ("reproduce", "electricity")])
def test_help_has_an_example(command):
    result = run(*command, "--help")
    assert result.exit_code == 0
    assert f"streambayes {' '.join(command)}" in result.output
