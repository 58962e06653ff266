"""The laws of sources, for every source; and sources that break them."""

import json

import numpy as np
import pyarrow as pa
import pytest
from pyarrow import csv, feather, parquet

from streambayes.sources import Chunk, Files, Folder, KafkaTopic, RedisStream, Source
from streambayes.testing import check_source

COLUMNS = {
    "x": [None if n % 9 == 0 else n / 7 for n in range(60)],
    "kind": ["u", None, "v"] * 20,
}


def files(folder, ending):
    for number in range(3):
        part = pa.table(COLUMNS).slice(20 * number, 20)
        path = folder / f"{number}.{ending}"
        if ending == "csv":
            csv.write_csv(part, path)
        elif ending == "parquet":
            parquet.write_table(part, path, row_group_size=7)
        else:
            feather.write_feather(part, path, chunksize=7)


@pytest.mark.parametrize("ending", ["csv", "parquet", "arrow"])
def test_files_and_folders(tmp_path, ending):
    files(tmp_path, ending)
    check_source(Files(str(tmp_path / f"*.{ending}")))
    one = tmp_path / f"1.{ending}"
    check_source(Files([one, tmp_path / f"0.{ending}", one]))
    (tmp_path / "_END").touch()
    check_source(Folder(tmp_path, settle=0, poll=0.01, end="_END"))


def rows():
    for number in range(60):
        row = {name: values[number] for name, values in COLUMNS.items()}
        yield row if number % 10 else row | {"extra": number}


def test_redis(redis_server):
    with redis_server.client() as client:
        client.delete("laws", "laws of json")
        for row in rows():
            client.xadd("laws", {name: "" if cell is None else cell for name, cell in row.items()})
            client.xadd("laws of json", {"row": json.dumps(row)})
    check_source(RedisStream("laws", url=redis_server.url, follow=False))
    check_source(RedisStream("laws of json", url=redis_server.url, follow=False, field="row"))


def test_kafka(kafka):
    producer, servers = kafka
    for number, row in enumerate(rows()):
        if number < 12:  # it takes a second to see that there are no more
            producer.produce("laws", json.dumps(row), partition=0)
    assert producer.flush(30) == 0
    check_source(KafkaTopic("laws", servers=servers, follow=False))


class Broken(Source):
    """Rows whose chunks go wrong in some way."""

    def __init__(self, **wrong):
        self._wrong = wrong
        self._reads = 0

    def read(self, start, columns):
        self._reads += 1
        first = 0 if start is None or self._wrong.get("restarts") else start
        if isinstance(first, list):
            first = int(first[0])
        x = np.arange(first, 6) + (self._reads if self._wrong.get("changes") else 0)
        y = np.arange(first, 5 if self._wrong.get("short") else 6)
        if columns is not None and not self._wrong.get("shuffles"):
            table = {name: {"x": x, "y": y}[name] for name in columns}
        else:
            table = {"x": x if columns is None else x[::-1], "y": y}
        kinds = {"set": lambda place: {place}, "tuple": lambda place: (str(place),)}
        offset = kinds.get(self._wrong.get("offset"), lambda place: place)
        yield Chunk(table, lambda taken: offset(first + taken), "broken")


@pytest.mark.parametrize(
    ("wrong", "law"),
    [
        ({"changes": True}, "a source can be read again"),
        ({"restarts": True}, "going on after 1 rows gives the others"),
        ({"short": True}, "the columns of a chunk have equal length"),
        ({"offset": "set"}, "offsets are JSON"),
        ({"offset": "tuple"}, "offsets are the same after a way through JSON"),
        ({"shuffles": True}, "column 'x' alone is what it is among others"),
    ],
)
def test_broken_sources_are_noticed(wrong, law):
    check_source(Broken())
    with pytest.raises(AssertionError, match=f"law broken: {law}"):
        check_source(Broken(**wrong))
