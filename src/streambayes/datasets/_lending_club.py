"""Loans of Lending Club, from the user's own download: a public stand-in for a bank's loans."""

import csv
import gzip
import itertools
import re
import zlib
from collections.abc import Iterator
from os import PathLike
from pathlib import Path
from typing import IO

import numpy as np

__all__ = ["lending_club"]

_CSV = ("issue_d", "annual_inc", "dti", "revol_util", "loan_status")
_PARQUET = ("issue_month", "annual_inc", "dti", "revol_util", "default")
_DEFAULTED = ("Charged Off", "Default")
_POLICY = "Does not meet the credit policy. Status:"
_MONTHS = ("Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec")
_NAMED = re.compile(rf"({'|'.join(_MONTHS)})-(?:20)?(\d\d)")  # Dec-2011, Dec-11
_ISO = re.compile(r"(\d{4}-(?:0[1-9]|1[0-2]))(?:-.*)?")


def lending_club(path: str | PathLike[str]) -> dict[str, np.ndarray]:
    """Loans of Lending Club: when, the borrower's means, and whether the loan defaulted.

    Columns, in order of the month:

    - ``month``: when the loan was issued; ``batch``: the same as text, with 2007 in one: ``2007``,
      ``2008-01``, ``2008-02``, ...
    - ``log_income``: natural logarithm of the yearly income; NaN if that is missing or not positive.
    - ``dti``: monthly debt payments in percent of the income; ``revol_util``: used share of the revolving
      credit, 0.5 for 50%. NaN where missing.
    - ``default``: 1 for loans whose status is ``Charged Off`` or ``Default``, also where they do not meet the
      credit policy; 0 for every other status, loans that still run included.

    Args:
        path: The company's file of loans, CSV, plain or gzipped; or a parquet file with the columns
            ``issue_month``, ``annual_inc``, ``dti``, ``revol_util`` (a share) and ``default``, which needs
            ``streambayes[data]``.
    """
    path = Path(path)
    if not path.is_file():
        found = f"{path} is a folder" if path.is_dir() else f"there is no file {path}"
        message = f"lending_club: {found}; give the path of a loan file, CSV or parquet"
        raise FileNotFoundError(message)
    with path.open("rb") as file:
        magic = file.read(4)
    if magic == b"PK\x03\x04":
        message = f"lending_club: {path} is a zip archive; unpack it and give the CSV file in it"
        raise ValueError(message)
    if magic == b"PAR1" or path.suffix == ".parquet":
        columns = _from_parquet(path)
    elif magic.startswith(b"\x1f\x8b"):
        with gzip.open(path, "rt", encoding="utf-8-sig", errors="replace", newline="") as text:
            columns = _from_csv(path, text)
    else:
        with path.open(encoding="utf-8-sig", errors="replace", newline="") as text:
            columns = _from_csv(path, text)
    month, income = columns["month"], columns.pop("income")
    columns["batch"] = np.where(
        month.astype("datetime64[Y]") == np.datetime64("2007"), "2007", month.astype("U7")
    )
    columns["log_income"] = np.log(income, out=np.full(len(income), np.nan), where=income > 0)
    order = np.argsort(month, kind="stable")
    names = ("month", "batch", "log_income", "dti", "revol_util", "default")
    return {name: columns[name][order] for name in names}


def _from_csv(path: Path, text: IO[str]) -> dict[str, np.ndarray]:
    """Month, income, dti, revol_util and default of every loan of the company's file."""
    rows = []
    try:
        for line, cells in _loans(path, text):
            try:
                rows.append(_loan(*cells))
            except ValueError as error:
                message = f"lending_club: {path}, line {line}: {error}"
                raise ValueError(message) from None
    except (EOFError, gzip.BadGzipFile, zlib.error):
        message = f"lending_club: {path} is cut or damaged; download it again"
        raise ValueError(message) from None
    if not rows:
        message = f"lending_club: {path} has no loans below its header"
        raise ValueError(message)
    months, incomes, debts, used, defaulted = zip(*rows, strict=True)
    return {
        "month": np.array(months, "datetime64[M]"),
        "income": np.array(incomes),
        "dti": np.array(debts),
        "revol_util": np.array(used) / 100.0,
        "default": np.array(defaulted, np.int64),
    }


def _loans(path: Path, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """The line and the cells wanted of every loan; remarks and blank lines between them are left out."""
    rows = _rows(path, text)
    first = [row for _, row in itertools.islice(rows, 1)]
    if first and not set(_CSV) & set(first[0]):  # a remark
        first = [row for _, row in itertools.islice(rows, 1)]
    header = first[0] if first else []
    lacking = [name for name in _CSV if name not in header]
    if lacking:
        raise ValueError(_wrong_columns(path, _CSV, lacking))
    wanted = [header.index(name) for name in _CSV]
    for line, row in rows:
        if not any(row[1:]):
            continue
        if len(row) != len(header):
            message = (
                f"lending_club: {path}, line {line}: expected {len(header)} cells, got {len(row)}; "
                "mend the line, or download the file again if it is cut there"
            )
            raise ValueError(message)
        yield line, [row[at].strip() for at in wanted]


def _rows(path: Path, text: IO[str]) -> Iterator[tuple[int, list[str]]]:
    """The first line and the cells of every row; text in quotes may go over several lines."""
    reader = csv.reader(text)
    line, row = 0, [""]
    while True:
        before, line = line, reader.line_num + 1
        try:
            row = next(reader)
        except StopIteration:
            if "\n" in "".join(row[-1:]):
                message = (
                    f"lending_club: {path}, line {before}: a quote is not closed; mend the line"
                )
                raise ValueError(message) from None
            return
        except csv.Error as error:
            message = f"lending_club: {path}, line {line}: it cannot be read as CSV: {error}"
            raise ValueError(message) from None
        yield line, row


def _loan(
    issued: str, income: str, debts: str, used: str, status: str
) -> tuple[str, float, float, float, bool]:
    """One loan from its cells."""
    if not status:
        message = "loan_status is empty"
        raise ValueError(message)
    return (
        _month(issued),
        _number("annual_inc", income),
        _number("dti", debts),
        _number("revol_util", used.removesuffix("%")),
        status.removeprefix(_POLICY) in _DEFAULTED,
    )


def _month(text: str) -> str:
    """``Dec-2011`` or ``Dec-11`` as ``2011-12``; ISO dates too."""
    named = _NAMED.fullmatch(text)
    if named:
        return f"20{named[2]}-{_MONTHS.index(named[1]) + 1:02}"
    iso = _ISO.fullmatch(text)
    if iso:
        return iso[1]
    message = f"expected a month such as Dec-2011 or 2011-12, got {text!r}"
    raise ValueError(message)


def _number(name: str, text: str) -> float:
    try:
        value = float(text) if text else np.nan
    except ValueError:
        value = np.inf
    if np.isinf(value):
        message = f"{name}: expected a number, got {text!r}"
        raise ValueError(message)
    return value


def _from_parquet(path: Path) -> dict[str, np.ndarray]:
    """The same from a parquet file."""
    try:
        import pyarrow as pa
        from pyarrow import parquet
    except ImportError:
        message = "lending_club: parquet files need the extra: pip install 'streambayes[data]'"
        raise ImportError(message) from None
    try:
        names = parquet.read_schema(path).names
        lacking = [name for name in _PARQUET if name not in names]
        if lacking:
            raise ValueError(_wrong_columns(path, _PARQUET, lacking))
        table = parquet.read_table(path, columns=list(_PARQUET))
    except (pa.ArrowException, OSError) as error:
        message = (
            f"lending_club: {path} cannot be read as parquet ({' '.join(str(error).split())}); is it one, "
            "and whole?"
        )
        raise ValueError(message) from None
    if not table.num_rows:
        message = f"lending_club: {path} has no loans"
        raise ValueError(message)
    months, defaulted = table["issue_month"].to_pylist(), table["default"].to_pylist()
    for row, (month, value) in enumerate(zip(months, defaulted, strict=True)):
        if not _ISO.fullmatch(str(month)) or value not in (0, 1):
            message = (
                f"lending_club: {path}, row {row}: expected an issue_month such as 2011-12 and 0 or 1 for "
                f"default, got {month} and {value}"
            )
            raise ValueError(message)
    number = {}
    for name, most in (("annual_inc", np.inf), ("dti", np.inf), ("revol_util", 10.0)):
        try:
            number[name] = np.asarray(table[name].cast(pa.float64()).to_numpy(), np.float64)
        except pa.ArrowException:
            message = f"lending_club: {path}: expected numbers in column {name}"
            raise ValueError(message) from None
        bad = np.isinf(number[name]) | (number[name] > most)
        if bad.any():
            row = int(np.argmax(bad))
            wanted = "a share, 0.5 for 50 %" if name == "revol_util" else "a finite number"
            message = f"lending_club: {path}, row {row}: {name}: expected {wanted}, got {number[name][row]:g}"
            raise ValueError(message)
    return {
        "month": np.array([_month(str(month)) for month in months], "datetime64[M]"),
        "income": number["annual_inc"],
        "dti": number["dti"],
        "revol_util": number["revol_util"],
        "default": np.array(defaulted, np.int64),
    }


def _wrong_columns(path: Path, expected: tuple[str, ...], lacking: list[str]) -> str:
    return f"lending_club: {path} lacks {', '.join(lacking)}; expected the columns {', '.join(expected)}"
