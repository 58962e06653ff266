"""Lending Club: small files in the form of the company's."""

import gzip
import sys

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import parquet

import streambayes as sb

REMARK = "Notes offered by Prospectus (https://www.lendingclub.com/info/prospectus.action)"
HEADER = '"id","annual_inc","issue_d","loan_status","desc","dti","revol_util"'
POLICY = "Does not meet the credit policy. Status:"
LINES = [
    REMARK,
    HEADER,
    '"","24000","Dec-2011","Fully Paid","","27.65","83.7%"',
    '"","30000","Dec-2011","Charged Off","over two\nlines, ""quoted""","1","9.4%"',
    '"","0","Jan-2008","Default","","8.72",""',
    '"","","Nov-2007","Current","","",""',
    "",
    "",
    "Loans that do not meet the credit policy",
    f'"","60000","Jun-2007","{POLICY}Charged Off","","3.5","0%"',
    f'"","60000","Jan-2008","{POLICY}Fully Paid","","4.5","101.2%"',
    "",
    "Total amount funded in policy code 1: 460296150",
    '"Total amount funded in policy code 2: 0","","","","","",""',
]
TABLE = {
    "issue_month": ["2007-06", "2008-01", "2011-12"],
    "annual_inc": [60000.0, None, 24000.0],
    "dti": [3.5, 4.5, 27.65],
    "revol_util": [0.0, None, 0.837],
    "default": [1, 0, 0],
}


def write(path, lines=LINES):
    path.write_text("\n".join(lines) + "\n", newline="")
    return path


def complaint(path):
    with pytest.raises((ValueError, OSError)) as caught:
        sb.datasets.lending_club(path)
    message = str(caught.value)
    assert message.startswith("lending_club: ")
    assert str(path) in message
    assert "\n" not in message
    return message


def check(data):
    names = ["month", "batch", "log_income", "dti", "revol_util", "default"]
    assert list(data) == names
    months = ["2007-06", "2007-11", "2008-01", "2008-01", "2011-12", "2011-12"]
    assert data["month"].dtype == "M8[M]"
    assert data["month"].astype(str).tolist() == months
    assert data["batch"].tolist() == ["2007", "2007", *months[2:]]
    income = np.log([60000, np.nan, np.nan, 60000, 24000, 30000])
    np.testing.assert_allclose(data["log_income"], income, rtol=1e-15)
    np.testing.assert_array_equal(data["dti"], [3.5, np.nan, 8.72, 4.5, 27.65, 1.0])
    used = [0.0, np.nan, np.nan, 1.012, 0.837, 0.094]
    np.testing.assert_allclose(data["revol_util"], used, rtol=1e-15)
    assert data["default"].tolist() == [1, 0, 1, 0, 0, 1]


def test_csv_as_the_company_wrote_it(tmp_path):
    check(sb.datasets.lending_club(write(tmp_path / "LoanStats3a.csv")))


def test_csv_without_the_remark(tmp_path):
    check(sb.datasets.lending_club(str(write(tmp_path / "loans.csv", LINES[1:]))))


def test_gzipped(tmp_path):
    path = tmp_path / "loans.csv.gz"
    path.write_bytes(gzip.compress(write(tmp_path / "loans.csv").read_bytes()))
    check(sb.datasets.lending_club(path))


@pytest.mark.parametrize("issued", ["Jan-2012", "Jan-12", "2012-01", "2012-01-01"])
def test_months(tmp_path, issued):
    line = LINES[2].replace("Dec-2011", issued)
    data = sb.datasets.lending_club(write(tmp_path / "loans.csv", [HEADER, line]))
    assert data["batch"].tolist() == ["2012-01"]


def test_shares_without_percent_sign(tmp_path):
    line = LINES[2].replace("%", "")
    data = sb.datasets.lending_club(write(tmp_path / "loans.csv", [HEADER, line]))
    assert data["revol_util"] == pytest.approx(0.837)


def test_batches_in_order(tmp_path):
    data = sb.datasets.lending_club(write(tmp_path / "loans.csv"))
    labels = [batch.label for batch in sb.batches(data, by="batch")]
    assert labels == ["2007", "2008-01", "2011-12"]


def test_parquet(tmp_path):
    path = tmp_path / "loans.parquet"
    parquet.write_table(pa.table(TABLE), path)
    data = sb.datasets.lending_club(path)
    assert data["batch"].tolist() == ["2007", "2008-01", "2011-12"]
    np.testing.assert_allclose(data["log_income"], np.log([60000, np.nan, 24000]), rtol=1e-15)
    np.testing.assert_array_equal(data["dti"], [3.5, 4.5, 27.65])
    np.testing.assert_array_equal(data["revol_util"], [0.0, np.nan, 0.837])
    assert data["default"].tolist() == [1, 0, 0]
    assert data["default"].dtype == np.int64


def test_a_missing_file(tmp_path):
    path = tmp_path / "nowhere.csv"
    assert f"there is no file {path}; give the path of a loan file" in complaint(path)


@pytest.mark.parametrize(
    ("lines", "lacking"),
    [
        ([REMARK, HEADER.replace("dti", "debts"), LINES[2]], "dti"),
        (["a,b,c", "1,2,3"], "issue_d, annual_inc, dti, revol_util, loan_status"),
        ([], "issue_d, annual_inc, dti, revol_util, loan_status"),
    ],
)
def test_csv_with_other_columns(tmp_path, lines, lacking):
    message = complaint(write(tmp_path / "loans.csv", lines))
    expected = "expected the columns issue_d, annual_inc, dti, revol_util, loan_status"
    assert message.endswith(f"lacks {lacking}; {expected}")


def test_parquet_with_other_columns(tmp_path):
    path = tmp_path / "loans.parquet"
    parquet.write_table(pa.table({name: TABLE[name] for name in TABLE if name != "default"}), path)
    expected = "expected the columns issue_month, annual_inc, dti, revol_util, default"
    assert complaint(path).endswith(f"lacks default; {expected}")


@pytest.mark.parametrize(
    ("name", "value", "got"),
    [("issue_month", "December", "December and 0"), ("default", None, "2008-01 and None")],
)
def test_parquet_with_a_row_that_cannot_be_read(tmp_path, name, value, got):
    column = [TABLE[name][0], value, TABLE[name][2]]
    path = tmp_path / "loans.parquet"
    parquet.write_table(pa.table({**TABLE, name: column}), path)
    message = complaint(path)
    assert "row 1: expected an issue_month such as 2011-12 and 0 or 1 for default" in message
    assert message.endswith(f"got {got}")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ("24000", "much", "annual_inc: expected a number, got 'much'"),
        ("27.65", "inf", "dti: expected a number, got 'inf'"),
        ("83.7%", "83.7%%", "revol_util: expected a number, got '83.7%'"),
        ("Dec-2011", "Dez-2011", "expected a month such as Dec-2011 or 2011-12, got 'Dez-2011'"),
        ("Dec-2011", "2011-13", "expected a month such as Dec-2011 or 2011-12, got '2011-13'"),
        ("Fully Paid", "", "loan_status is empty"),
        (',"27.65"', "", "expected 7 cells, got 6; mend the line, or download the file again"),
        ('"24000"', '"24000","1"', "expected 7 cells, got 8; mend the line"),
    ],
)
def test_a_line_that_cannot_be_read(tmp_path, old, new, said):
    """Lines count as an editor has them, text over two lines included."""
    lines = [*LINES[:2], LINES[3], LINES[2].replace(old, new), LINES[4]]
    message = complaint(write(tmp_path / "loans.csv", lines))
    assert f"line 5: {said}" in message


def test_a_line_that_is_no_csv(tmp_path):
    lines = [*LINES[:3], f'"{"x" * 200_000}"']
    assert "line 4: it cannot be read as CSV: " in complaint(write(tmp_path / "loans.csv", lines))


def test_no_loans(tmp_path):
    message = complaint(write(tmp_path / "loans.csv", LINES[:2]))
    assert message.endswith("has no loans below its header")


def test_a_gzipped_file_cut_in_the_middle(tmp_path):
    path = tmp_path / "loans.csv.gz"
    packed = gzip.compress(write(tmp_path / "loans.csv").read_bytes())
    path.write_bytes(packed[: len(packed) // 2])
    assert complaint(path).endswith("is cut or damaged; download it again")


def test_a_parquet_file_cut_in_the_middle(tmp_path):
    path = tmp_path / "loans.parquet"
    parquet.write_table(pa.table(TABLE), path)
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    assert "cannot be read as parquet (" in complaint(path)


def test_a_parquet_file_that_is_none(tmp_path):
    message = complaint(write(tmp_path / "loans.parquet"))
    assert message.endswith("is it one, and whole?")


def test_a_parquet_file_without_loans(tmp_path):
    path = tmp_path / "loans.parquet"
    parquet.write_table(pa.table(TABLE).slice(0, 0), path)
    assert complaint(path).endswith("has no loans")


@pytest.mark.parametrize(
    ("name", "values", "said"),
    [
        ("dti", ["a", "b", "c"], ": expected numbers in column dti"),
        ("dti", [1.0, np.inf, 2.0], ", row 1: dti: expected a finite number, got inf"),
        (
            "revol_util",
            [0.5, 0.2, 50.0],
            ", row 2: revol_util: expected a share, 0.5 for 50 %, got 50",
        ),
    ],
)
def test_parquet_with_numbers_that_are_none(tmp_path, name, values, said):
    path = tmp_path / "loans.parquet"
    parquet.write_table(pa.table({**TABLE, name: values}), path)
    assert complaint(path).endswith(said)


@pytest.mark.parametrize("stray", ['"Dec-2011,1,2,3,Current', 'Dec-2011,1,2,3,"Current'])
def test_a_quote_that_is_not_closed(tmp_path, stray):
    """It would take all lines below it for one cell."""
    header, good = "issue_d,annual_inc,dti,revol_util,loan_status", "Dec-2011,1,2,3,Current"
    message = complaint(write(tmp_path / "loans.csv", [header, good, stray, *[good] * 20]))
    assert message.endswith("line 3: a quote is not closed; mend the line")


def test_a_folder(tmp_path):
    assert "is a folder; give the path of a loan file" in complaint(tmp_path)


def test_a_zip_archive(tmp_path):
    path = tmp_path / "loans.zip"
    path.write_bytes(b"PK\x03\x04rest")
    assert complaint(path).endswith("is a zip archive; unpack it and give the CSV file in it")


def test_the_extra_is_named_when_missing(tmp_path, monkeypatch):
    path = tmp_path / "loans.parquet"
    parquet.write_table(pa.table(TABLE), path)
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(ImportError, match=r"pip install 'streambayes\[data\]'"):
        sb.datasets.lending_club(path)
