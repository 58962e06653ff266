"""Batches of files: the rows of the files in order, whatever their own pieces are."""

import datetime as dt

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

import streambayes as sb


@pytest.fixture
def folder(tmp_path):
    rng = np.random.default_rng(0)
    for number, num_rows in enumerate([25, 3, 40]):
        table = pa.table(
            {
                "x": rng.normal(size=num_rows),
                "y": rng.normal(size=num_rows).astype(np.float32),
                "when": [
                    dt.datetime(2026, 1, 1 + number, 0, m, tzinfo=dt.UTC) for m in range(num_rows)
                ],
                "kind": pa.array([["a", "b", None][n % 3] for n in range(num_rows)]),
            }
        )
        parquet.write_table(table, tmp_path / f"{number}.parquet", row_group_size=7)
    return tmp_path


def columns_of(batches, name):
    return np.concatenate([batch.columns[name] for batch in batches])


@pytest.mark.parametrize("rows", [1, 10, 24, 68, 1000])
def test_rows_come_in_order(folder, rows):
    batches = sb.batches(str(folder / "*.parquet"), rows=rows)
    tables = [parquet.read_table(folder / f"{number}.parquet") for number in range(3)]
    sizes = [len(batch.columns["x"]) for batch in batches]
    assert len(batches) == len(sizes)
    assert sizes[:-1] == [rows] * (len(sizes) - 1)
    for _ in range(2):  # as often as asked for
        for name in ("x", "y", "kind"):
            wanted = np.concatenate([table[name].to_numpy() for table in tables])
            assert columns_of(batches, name).tolist() == wanted.tolist()
    assert columns_of(batches, "y").dtype == np.float32


def test_only_the_columns_that_are_asked_for(folder):
    batches = sb.batches(folder / "0.parquet", rows=10, columns=["y"], time="when")
    assert {name for batch in batches for name in batch.columns} == {"y", "when"}
    assert [batch.time for batch in batches] == [
        dt.datetime(2026, 1, 1, 0, minute, tzinfo=dt.UTC).timestamp() for minute in (9, 19, 24)
    ]


def test_arrow_files_and_dictionaries(tmp_path):
    kinds = pa.array(["a", "b", "a", None]).dictionary_encode()
    table = pa.table({"x": [1.0, None, 3.0, 4.0], "kind": kinds})
    feather.write_feather(table, tmp_path / "rows.arrow", chunksize=3)
    batches = sb.batches([tmp_path / "rows.arrow"], rows=2, columns=["kind", "x"])
    assert len(batches) == 2
    assert columns_of(batches, "kind").tolist() == ["a", "b", "a", None]
    np.testing.assert_array_equal(columns_of(batches, "x"), [1.0, np.nan, 3.0, 4.0])


def test_a_stream_of_files_is_learned_as_the_table(folder):
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.HPP())
    files = sb.batches(folder / "*.parquet", rows=17)
    table = {name: columns_of(files, name) for name in ("x", "y")}
    mine = sb.run(learner, files)
    theirs = sb.run(learner, sb.batches(table, rows=17))
    assert mine.scores == theirs.scores
    assert [record.rho for record in mine.records] == [record.rho for record in theirs.records]


def test_what_is_refused(folder, tmp_path):
    pattern = folder / "*.parquet"
    with pytest.raises(FileNotFoundError, match=r"no file '.*nothing\*.parquet'"):
        sb.batches(folder / "nothing*.parquet", rows=10)
    with pytest.raises(ValueError, match="rows must be a whole number of at least 1, got 0"):
        sb.batches(pattern, rows=0)
    with pytest.raises(ValueError, match=r"no column 'z' in 0.parquet; it has \['x', 'y'"):
        sb.batches(pattern, rows=10, columns=["z"])
    with pytest.raises(ValueError, match=r"no column 'then' in 0.parquet"):
        sb.batches(pattern, rows=10, time="then")
    (tmp_path / "rows.txt").write_text("x")
    with pytest.raises(ValueError, match=r"rows.txt is no CSV, Parquet or Arrow file by its name"):
        sb.batches(tmp_path / "rows.txt", rows=10)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"broken.parquet cannot be read"):
        sb.batches(tmp_path / "broken.parquet", rows=10)


def test_files_that_do_not_fit_together(folder):
    parquet.write_table(pa.table({"x": [1]}), folder / "9.parquet")
    learner = sb.StreamLearner(sb.models.Gaussian(["x", "y"]), sb.SVB())
    files = sb.batches(folder / "*.parquet", rows=10)
    with pytest.raises(ValueError, match="column 'y', row 8: the column is lost") as caught:
        sb.run(learner, files, progress=False)
    assert caught.value.__notes__ == ["in batch 6 of the stream"]
    with pytest.raises(ValueError, match="column 'y', row 8: the column is lost"):
        learner.step(learner.init(files), files)
    for options in ({"prequential": False}, {"prequential": False, "test_fraction": 0.2}):
        with pytest.raises(ValueError, match="column 'y', row 8: the column is lost"):
            sb.run(learner, files, progress=False, **options)
    schema = sb.SchemaPolicy(lost_column="missing")
    run = sb.run(learner, files, schema=schema, progress=False)
    assert run.records[-1].remarks == (
        "1 cells taken as missing: column 'y' is lost, first in row 8",
    )
    table = pa.table([np.zeros(2), np.ones(2)], names=["a", "a"])
    parquet.write_table(table, folder / "twice.parquet")
    with pytest.raises(ValueError, match=r"twice.parquet has two columns called 'a'"):
        sb.batches(folder / "twice.parquet", rows=10)
    with pytest.raises(ValueError, match="is a folder; name its files"):
        sb.batches(folder, rows=10)


def test_files_that_differ_in_types_and_order(tmp_path):
    kinds = pa.array(["u", "v"])
    narrow = kinds.cast(pa.dictionary(pa.int8(), pa.string()))
    tables = [
        {"n": pa.array([1, 2]), "kind": narrow},
        {"kind": kinds.dictionary_encode(), "n": pa.array([0.5, None])},
        {
            "kind": kinds.cast(pa.large_string()),
            "n": pa.array([3, 4], pa.float32()),
            "other": kinds,
        },
    ]
    for number, columns in enumerate(tables):
        parquet.write_table(pa.table(columns), tmp_path / f"{number}.parquet")
    batches = sb.batches(tmp_path / "*.parquet", rows=4)
    np.testing.assert_array_equal(columns_of(batches, "n"), [1.0, 2.0, 0.5, np.nan, 3.0, 4.0])
    assert columns_of(batches, "kind").tolist() == ["u", "v"] * 3


def test_columns_of_polars(tmp_path):
    frame = pl.DataFrame({"c": ["u", "v", None]}, schema={"c": pl.Categorical})
    frame.write_ipc(tmp_path / "polars.arrow")
    (batch,) = sb.batches(tmp_path / "polars.arrow", rows=5)
    assert batch.columns["c"].tolist() == ["u", "v", None]


def test_odd_names_of_files(tmp_path):
    path = tmp_path / "odd [x] *?.PARQUET"
    parquet.write_table(pa.table({"x": [1.0, 2.0]}), path)
    assert len(sb.batches(str(path), rows=np.int64(1))) == 2


def test_the_time_of_a_batch_in_pieces(folder):
    learner = sb.StreamLearner(sb.models.Gaussian(["x"]), sb.SVB())
    files = sb.batches(folder / "*.parquet", rows=20, time="when")
    state, _ = learner.step(learner.init(files), files)
    assert state.last_time == dt.datetime(2026, 1, 3, 0, 39, tzinfo=dt.UTC).timestamp()


CSV = "when,x,kind,code\n" + "".join(
    f"2026-01-{1 + n // 24:02d}T{n % 24:02d}:00,{n / 4},{'ab'[n % 2]},{n:03d}\n" for n in range(60)
)


@pytest.mark.parametrize(
    ("name", "edit"),
    [
        ("rows.csv", lambda text: text),
        ("rows.tsv", lambda text: text.replace(",", "\t")),
        ("rows.csv", lambda text: "\ufeff" + text.replace("\n", "\r\n")),
        ("rows.csv", lambda text: text.replace(",a,", ',"a",')),
    ],
)
def test_csv(tmp_path, name, edit):
    path = tmp_path / name
    path.write_text(edit(CSV), encoding="utf-8", newline="")
    files = sb.batches(path, every="1d", time="when")
    assert [batch.label for batch in files] == ["2026-01-01", "2026-01-02", "2026-01-03"]
    assert columns_of(files, "x").tolist() == [n / 4 for n in range(60)]
    assert columns_of(files, "kind").tolist() == ["a", "b"] * 30
    assert columns_of(files, "code").tolist() == list(range(60))
    text = sb.sources.Files(path, types={"code": "text"})
    assert columns_of(sb.batches(text, rows=7), "code").tolist() == [f"{n:03d}" for n in range(60)]
    with pytest.raises(TypeError, match="do not say how many rows"):
        len(sb.batches(path, rows=7))


def test_csv_that_is_compressed(tmp_path):
    with pa.output_stream(str(tmp_path / "rows.csv.gz"), compression="gzip") as file:
        file.write(CSV.encode())
    assert len(columns_of(sb.batches(tmp_path / "*.gz", by="kind"), "x")) == 60


def test_missing_cells_and_odd_ones_of_csv(tmp_path):
    path = tmp_path / "rows.csv"
    path.write_text("x;y;z\n;1;\nNA;?;u\n2.5;nan;v\n10;4;null\n")
    files = sb.sources.Files(path, separator=";", missing=["?"])
    (batch,) = sb.batches(files, rows=9)
    assert batch.columns["z"].tolist() == [None, "u", "v", None]
    np.testing.assert_array_equal(batch.columns["y"], [1.0, np.nan, np.nan, 4.0])
    np.testing.assert_array_equal(batch.columns["x"], [np.nan, np.nan, 2.5, 10.0])
    path.write_text("x\n1\n2\n1_000\n")
    (batch,) = sb.batches(path, rows=9)
    assert batch.columns["x"].tolist() == [1.0, 2.0, "1_000"]
    path.write_text("x\n1\n2\nabc\n")
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    with pytest.raises(ValueError, match="column 'x', row 2: expected a finite number, got 'abc'"):
        sb.run(learner, sb.batches(path, rows=5), progress=False)
    (batch,) = sb.batches(sb.sources.Files(path, types={"x": "text"}), rows=5)
    assert batch.columns["x"].tolist() == ["1", "2", "abc"]


@pytest.mark.parametrize(
    ("content", "options", "written", "x"),
    [
        ("x;y\n1;u\n-2;v\n", {}, "cells are separated by ';'", [1.0, -2.0]),
        (
            "x;y\n7;u\n-2,25;v\n",
            {},
            "cells are separated by ';', '-2,25' is the number -2.25",
            [7.0, -2.25],
        ),
        ("x\ty\n1,5\t2\n", {}, "cells are separated by '\\t', '1,5' is the number 1.5", [1.5]),
        ("x|y\n1.5|2,5\n", {}, "cells are separated by '|'", [1.5]),
        ("x;y\n1,5;2\n", {"decimal": "."}, "cells are separated by ';'", ["1,5"]),
        (
            "x;y\n1,5;2\n1.234,5;2\n",
            {"separator": ";"},
            "'1,5' is the number 1.5",
            [1.5, "1.234,5"],
        ),
        ('x,y\n"1,5",2\n', {"decimal": ","}, "", [1.5]),
        ('x,y\n"1,5;2",2\n"0;2",3\n', {}, "", ["1,5;2", "0;2"]),
        ("x,y\n1,5\n", {}, "", [1.0]),
        ("x\n1\n", {}, "", [1.0]),
    ],
)
def test_separators_and_decimal_commas_are_told_by_the_first_lines(
    tmp_path, content, options, written, x
):
    path = tmp_path / "rows.csv"
    path.write_text(content)
    files = sb.sources.Files(path, **options)
    assert files.written() == written
    (batch,) = sb.batches(files, rows=9)
    assert batch.columns["x"].tolist() == x


def test_decimal_commas_that_come_late_are_no_text(tmp_path):
    lines = "".join(f"{n};{n}\n" for n in range(20000))
    path = tmp_path / "rows.csv"
    path.write_text(f"x;y\n{lines}1,5;2\n")
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    with pytest.raises(ValueError, match="column 'x', row 0: expected a finite number, got '1,5'"):
        list(map(learner.init, sb.batches(path, rows=20000)))
    files = sb.sources.Files(path, decimal=",")
    assert [batch.columns["x"][-1] for batch in sb.batches(files, rows=20000)] == [19999.0, 1.5]
    with pytest.raises(ValueError, match=r"decimal must be '\.' or ',', got ';'"):
        sb.sources.Files(path, decimal=";")


@pytest.mark.parametrize(
    ("content", "sentence"),
    [
        (b"x,y\n1,2\n3\n", "rows.csv cannot be read: CSV parse error: .*Expected 2 columns, got 1"),
        (b"x,y\n1,\xff\xfe\n", "rows.csv cannot be read: .*UTF"),
        (b"x,\xf6\n1,2\n", "rows.csv cannot be read: it is not text in UTF-8"),
        (b"x,x\n1,2\n", "rows.csv has two columns called 'x'"),
        (b"", "there is no column 'x' in rows.csv; it has \\[\\]"),
    ],
)
def test_csv_that_is_refused(tmp_path, content, sentence):
    (tmp_path / "rows.csv").write_bytes(content)
    with pytest.raises(ValueError, match=sentence):
        list(sb.batches(tmp_path / "rows.csv", rows=5, columns=["x"] if not content else None))


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_files_go_on_from_any_batch(tmp_path, ending):
    rng = np.random.default_rng(0)
    for number, num_rows in enumerate([30, 1, 45]):
        kinds = rng.choice(["u", "v"], num_rows)
        if number == 2:
            kinds[-5:] = "w"
        table = pa.table({"x": rng.normal(size=num_rows), "kind": kinds})
        path = tmp_path / f"{number}.{ending}"
        if ending == "csv":
            csv.write_csv(table, path)
        elif ending == "parquet":
            parquet.write_table(table, path, row_group_size=7)
        else:
            feather.write_feather(table, path, chunksize=7)
    for cut in ({"by": "kind"}, {"rows": 8}):
        batches = sb.batches(tmp_path / f"*.{ending}", **cut)
        whole = [batch.columns["x"].tolist() for batch in batches]
        for number, batch in enumerate(batches):
            rest = [one.columns["x"].tolist() for one in batches.after(batch.offset)]
            assert rest == whole[number + 1 :]
    *_, last = batches.after(None)
    path = tmp_path / f"2.{ending}"
    path.write_bytes((tmp_path / f"1.{ending}").read_bytes())  # of one row
    with pytest.raises(ValueError, match=rf"2.{ending} cannot be read: it has 44 rows less"):
        next(batches.after(last.offset))
    offset = next(iter(batches)).offset
    (tmp_path / f"0.{ending}").unlink()
    with pytest.raises(FileNotFoundError, match=r"the run stopped in .*0.*, which is not among"):
        next(sb.batches(tmp_path / f"*.{ending}", **cut).after(offset))
