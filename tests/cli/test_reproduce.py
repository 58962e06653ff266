"""The command ``streambayes reproduce artificial``."""

import builtins
import csv
import sys

import pytest
from typer.testing import CliRunner

import streambayes as sb
from streambayes import cli
from streambayes.cli._app import app
from streambayes.experiments import artificial

FIGURES = ("expected_probability", "sample_size", "expected_rho", "rho_against_omega")
FILES = {
    "estimates.csv",
    "comparison.csv",
    "findings.csv",
    *(f"{name}.{kind}" for name in FIGURES for kind in ("png", "svg")),
}


def _run(*arguments):
    return CliRunner().invoke(app, ["reproduce", "artificial", *map(str, arguments)])


@pytest.fixture(scope="module")
def done(tmp_path_factory):
    """One run of the command: its result and its folder."""
    folder = tmp_path_factory.mktemp("reproduce") / "new" / "artificial"
    return _run("--output", folder), folder


def _rows(path):
    with path.open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_it_writes_and_names_its_files(done):
    result, folder = done
    assert result.exit_code == 0, result.output
    assert {path.name for path in folder.iterdir()} == FILES
    for name in FILES:
        assert (folder / name).stat().st_size > 500
        assert name in result.output


def test_it_prints_what_it_found(done):
    result, _ = done
    assert "the stored counts of the authors' run" in result.output
    assert "E[rho] at t = 31" in result.output
    assert "Largest relative difference from the authors' program" in result.output


def test_estimates_has_every_batch_of_every_method(done):
    rows = _rows(done[1] / "estimates.csv")
    assert list(rows[0]) == ["batch_size", "t", "method", "mean", "ess", "rho", "omega", "true_p"]
    assert len(rows) == 2 * 9 * 100
    assert {row["method"] for row in rows} == set(artificial.methods(100))
    first = rows[0]
    assert (first["t"], first["method"], float(first["ess"])) == ("1", "SVB", 102.0)
    population = next(row for row in rows if row["method"].startswith("PVB"))
    assert population["rho"] == population["omega"] == ""


def test_comparison_meets_the_authors_run(done):
    rows = _rows(done[1] / "comparison.csv")
    assert {row["method"] for row in rows} == set(artificial.methods(100))
    limits = {"HPP": 1e-3, "MHPP": 0.06}  # whose loop over omega stops early in the authors' run
    for row in rows:
        assert float(row["difference"]) < limits.get(row["method"], 1e-9)


def test_findings_have_a_number_and_say_whether_it_is_as_expected(done):
    rows = _rows(done[1] / "findings.csv")
    assert list(rows[0]) == ["batch_size", "statement", "measured", "lower", "upper", "holds"]
    # "M has no impact" and the limits of the sample size are not reached in 100 batches of slow decay
    missed = [row["statement"] for row in rows if row["holds"] == "False"]
    assert len(missed) == 4
    assert all("0.01" in statement or "0.99" in statement for statement in missed)


def test_the_same_command_writes_the_same_bytes_and_a_seed_another_stream(done, tmp_path):
    assert _run("-o", tmp_path / "again", "--quiet").output == ""
    for name in FILES:
        assert (tmp_path / "again" / name).read_bytes() == (done[1] / name).read_bytes()
    result = _run("-o", tmp_path / "seeded", "--seed", 5)
    assert "Batches of 100: generated with seed 5." in result.output
    for name, same in (("estimates.csv", False), ("comparison.csv", True)):
        other = (tmp_path / "seeded" / name).read_bytes()
        assert (other == (done[1] / name).read_bytes()) is same


def test_help_has_examples():
    for arguments in (["--help"], ["reproduce", "--help"], ["reproduce", "artificial", "--help"]):
        result = CliRunner().invoke(app, arguments)
        assert result.exit_code == 0
        assert "streambayes reproduce artificial --output artificial" in result.output


def test_version():
    result = CliRunner().invoke(app, ["--version"])
    assert result.output == f"streambayes {sb.__version__}\n"


@pytest.mark.parametrize("below", [(), ("deeper", "still")])
def test_output_that_is_a_file_is_one_sentence(tmp_path, below):
    file = tmp_path / "taken"
    file.write_text("here first")
    result = _run("--output", file.joinpath(*below))
    assert result.exit_code == 2
    assert result.stdout == ""
    assert result.stderr == f"Error: --output must be a folder, but {file} is a file.\n"
    assert file.read_text() == "here first"


def test_output_that_cannot_be_written_is_one_sentence(tmp_path, monkeypatch):
    def refuse(**_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    result = _run("--output", tmp_path)
    assert result.exit_code == 2
    assert result.stderr == f"Error: --output: cannot write into {tmp_path} (permission denied).\n"


def test_a_missing_extra_is_one_sentence(monkeypatch):
    real = builtins.__import__

    def without_typer(name, *rest, **named):
        if name.partition(".")[0] == "typer":
            raise ModuleNotFoundError(f"No module named {name!r}", name=name)
        return real(name, *rest, **named)

    for name in [name for name in sys.modules if name.startswith("streambayes.cli.")]:
        monkeypatch.delitem(sys.modules, name)
    monkeypatch.setattr(builtins, "__import__", without_typer)
    with pytest.raises(SystemExit) as stopped:
        cli.main()
    assert stopped.value.code == (
        "The command streambayes needs typer, which comes with an extra: "
        "pip install 'streambayes[cli]'"
    )


def test_missing_matplotlib_names_the_extra(monkeypatch):
    monkeypatch.setitem(sys.modules, "matplotlib.figure", None)
    with pytest.raises(ImportError, match=r"pip install 'streambayes\[cli\]'"):
        artificial.plot_estimates(artificial.reference().tracks)
