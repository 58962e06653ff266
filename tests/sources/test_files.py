"""Batches of files: the rows of the files in order, whatever their own pieces are."""

import datetime as dt

import numpy as np
import polars as pl
import pyarrow as pa
import pytest
from pyarrow import feather, parquet

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
    with pytest.raises(ValueError, match="files are cut by rows"):
        sb.batches(pattern, by="kind")
    with pytest.raises(ValueError, match="rows must be a whole number of at least 1, got 0"):
        sb.batches(pattern, rows=0)
    with pytest.raises(ValueError, match=r"no column 'z' in 0.parquet; it has \['x', 'y'"):
        sb.batches(pattern, rows=10, columns=["z"])
    with pytest.raises(ValueError, match=r"no column 'then' in 0.parquet"):
        sb.batches(pattern, rows=10, time="then")
    (tmp_path / "rows.txt").write_text("x")
    with pytest.raises(ValueError, match=r"rows.txt is no Parquet or Arrow file by its name"):
        sb.batches(tmp_path / "rows.txt", rows=10)
    (tmp_path / "broken.parquet").write_bytes(b"PAR1 and no more")
    with pytest.raises(ValueError, match=r"broken.parquet cannot be read"):
        sb.batches(tmp_path / "broken.parquet", rows=10)


def test_files_that_do_not_fit_together(folder):
    parquet.write_table(pa.table({"x": [1]}), folder / "9.parquet")
    with pytest.raises(ValueError, match=r"no column 'y' in 9.parquet; it has \['x'\]"):
        sb.batches(folder / "*.parquet", rows=10)
    files = [folder / "1.parquet", folder / "0.parquet"]
    with pytest.raises(ValueError, match="column 'when', batch 0: the time goes back"):
        list(sb.batches(files, rows=10, time="when"))
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
