"""Rows of a Redis Stream, of a real server."""

import itertools
import json
import threading
import time

import numpy as np
import pytest

import streambayes as sb
from streambayes.sources import RedisStream


@pytest.fixture
def client(redis_server):
    with redis_server.client() as client:
        client.flushall()
        yield client


def fill(client, numbers, **more):
    for number in numbers:
        client.xadd("rows", {"x": number, "kind": "uv"[number % 2], **more})


def numbers(batches):
    return [batch.columns["x"].tolist() for batch in batches]


def source(server, **options):
    return RedisStream("rows", url=server.url, **{"follow": False, **options})


def test_entries_are_rows(redis_server, client):
    fill(client, range(1200))
    batches = list(sb.batches(source(redis_server), rows=500))
    assert [len(batch.columns["x"]) for batch in batches] == [500, 500, 200]
    assert np.concatenate([batch.columns["x"] for batch in batches]).tolist() == list(range(1200))
    assert batches[0].columns["kind"].tolist()[:3] == ["u", "v", "u"]
    text = source(redis_server, types={"x": "text"}, group="other")
    assert numbers(sb.batches(text, rows=1200, columns=["x"]))[0][:2] == ["0", "1"]


def group_of(client):
    """Where the group stands, and how many entries are still to be read."""
    (group,) = client.xinfo_groups("rows")
    return group["last-delivered-id"].decode(), group["lag"]


def test_it_goes_on_from_any_batch_and_the_group_shows_what_is_saved(redis_server, client):
    fill(client, range(20))
    batches = sb.batches(source(redis_server), rows=3)
    offsets = [batch.offset for batch in batches]
    whole = numbers(batches)
    for number, offset in enumerate(offsets):
        assert numbers(batches.after(offset)) == whole[number + 1 :]
    for number, left in ((2, 11), (-1, 0)):
        batches.commit(offsets[number])
        assert group_of(client) == (offsets[number]["source"]["entry"], left)


def test_other_consumers_take_nothing_away(redis_server, client):
    fill(client, range(20))
    client.xgroup_create("rows", "streambayes", id="0")
    client.xreadgroup("streambayes", "another", {"rows": ">"}, count=7)
    mine, theirs = (sb.batches(source(redis_server), rows=4) for _ in range(2))
    for one, other in zip(mine, theirs, strict=True):
        assert one.columns["x"].tolist() == other.columns["x"].tolist()


def test_a_run_tells_the_group(redis_server, client, tmp_path):
    fill(client, range(20))
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    batches = sb.batches(source(redis_server), rows=6)
    sb.run(learner, batches, checkpoint=tmp_path, progress=False)
    assert group_of(client)[1] == 0
    fill(client, range(20, 30))
    again = sb.run(learner, batches, checkpoint=tmp_path, resume=True, progress=False)
    assert [record.num_rows for record in again.records] == [6, 4]
    assert float(again.state.rows_seen) == 30


def test_it_waits_for_entries(redis_server, client):
    batches = sb.batches(source(redis_server, follow=True), rows=2)
    found = []

    def read():
        found.extend(batch.columns["x"].tolist() for batch in batches)

    reader = threading.Thread(target=read)
    reader.start()
    time.sleep(0.3)
    fill(client, range(5))
    deadline = time.monotonic() + 30
    while len(found) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    batches.stop()
    reader.join(timeout=30)
    assert found == [[0, 1], [2, 3]]


def test_only_entries_to_come(redis_server, client):
    fill(client, range(5))
    batches = sb.batches(source(redis_server, start="$"), rows=2)
    assert numbers(batches) == []
    assert numbers(sb.batches(source(redis_server, start="0"), rows=5)) == [[0, 1, 2, 3, 4]]


def test_rows_as_json(redis_server, client):
    rows = [
        {"x": 1, "y": None, "ok": True},
        {"x": 2.5, "y": "u", "ok": False},
        {"x": None, "y": "3"},
    ]
    for row in rows:
        client.xadd("rows", {"data": json.dumps(row)})
    (batch,) = sb.batches(source(redis_server, field="data", types={"y": "text"}), rows=9)
    np.testing.assert_array_equal(batch.columns["x"], [1.0, 2.5, np.nan])
    assert batch.columns["y"].tolist() == [None, "u", "3"]
    assert batch.absent["ok"].tolist() == [False, False, True]
    client.xadd("rows", {"data": "[1, 2]"})
    with pytest.raises(ValueError, match=r"stream 'rows', entry .*: expected a JSON object"):
        list(sb.batches(source(redis_server, field="data"), rows=9))
    with pytest.raises(ValueError, match=r"stream 'rows', entry .*: there is no field 'row'"):
        list(sb.batches(source(redis_server, field="row"), rows=9))
    for row in ({"x": 3}, {"x": 4}):
        client.xadd("rows", {"data": json.dumps(row)})
    lenient = sb.batches(source(redis_server, field="data", malformed="ignore"), rows=2)
    with pytest.warns(
        UserWarning, match="left out: stream 'rows', entry .*: expected a JSON object"
    ):
        batches = list(lenient)
    assert repr(numbers(batches)[1:]) == "[[nan, 3.0], [4.0]]"
    assert [batch.offset["source"]["number"] for batch in batches] == [2, 5, 6]
    assert numbers(lenient.after(batches[1].offset)) == [[4.0]]
    with pytest.raises(ValueError, match="malformed must be 'error' or 'ignore', got 'skip'"):
        source(redis_server, malformed="skip")


def test_a_server_that_dies_and_comes_back_loses_nothing(redis_server, client):
    fill(client, range(1500))
    batches = iter(sb.batches(source(redis_server, patience=30), rows=250))
    found = [next(batches).columns["x"].tolist()]
    redis_server.kill()
    threading.Timer(0.5, redis_server.start).start()
    with pytest.warns(UserWarning, match=r"the Redis server at 127.0.0.1:\d+/0 is gone"):
        found += numbers(batches)
    assert list(itertools.chain(*found)) == list(range(1500))


def test_what_is_refused(redis_server, client):
    nowhere = RedisStream("rows", url="redis://me:secret@127.0.0.1:1", patience=0.1)
    with (
        pytest.raises(ConnectionError, match=r"the Redis server at 127.0.0.1:1 cannot be reached"),
        pytest.warns(UserWarning, match=r"the Redis server at 127.0.0.1:1 is gone"),
    ):
        list(sb.batches(nowhere, rows=1))
    client.set("rows", "no stream")
    with pytest.raises(ValueError, match="'rows' is no stream on the server"):
        list(sb.batches(source(redis_server), rows=1))
    client.delete("rows")
    client.xadd("rows", {"x": b"\xff"})
    with pytest.raises(ValueError, match=r"entry .*: a field is not text in UTF-8"):
        list(sb.batches(source(redis_server), rows=1))
    with pytest.raises(
        ValueError, match=r"start must be '0', '.' or an entry such as .*, got 'now'"
    ):
        source(redis_server, start="now")
    wrong = RedisStream("rows", url=redis_server.url.replace("//", "//me:secret@"))
    with pytest.raises(ValueError, match="RedisStream: the server refuses who asks"):
        list(sb.batches(wrong, rows=1))
    with pytest.raises(ValueError, match="RedisStream: url: "):
        RedisStream("rows", url="nowhere")
    with pytest.raises(ValueError, match="patience must be a number of seconds of at least 0"):
        RedisStream("rows", patience=float("nan"))


def test_entries_that_were_removed_before_they_were_read(redis_server, client):
    fill(client, range(10))
    batches = sb.batches(source(redis_server), rows=3)
    first, second = (batch.offset for batch, _ in zip(batches, range(2), strict=False))
    client.xtrim("rows", maxlen=4, approximate=False)
    assert numbers(batches.after(second)) == [[6, 7, 8], [9]]
    with pytest.raises(ValueError, match="3 entries of 'rows' were removed before they were read"):
        next(batches.after(first))
    client.delete("rows")
    with pytest.raises(
        ValueError, match="of 'rows', the last that was read, is gone with the stream"
    ):
        next(batches.after(first))
    client.xadd("other", {"x": 1})
    with pytest.raises(ValueError, match="the run stopped in stream 'rows', this is 'other'"):
        next(sb.batches(RedisStream("other", url=redis_server.url), rows=3).after(first))


@pytest.mark.parametrize("num_new", [1, 3, 30])
def test_a_stream_that_was_made_anew(redis_server, client, num_new):
    fill(client, range(10))
    batches = sb.batches(source(redis_server), rows=3)
    first = next(iter(batches)).offset
    waiting = iter(sb.batches(source(redis_server, follow=True), rows=10))
    assert len(next(waiting).columns["x"]) == 10
    anew = threading.Timer(0.3, lambda: (client.delete("rows"), fill(client, range(num_new))))
    anew.start()
    sentence = "'rows' was deleted and made anew after entry .*, the last that was read: rows"
    with pytest.raises(ValueError, match=sentence):  # it waited meanwhile
        next(waiting)
    anew.join()
    with pytest.raises(ValueError, match=sentence):
        next(batches.after(first))
    client.xtrim("rows", maxlen=0, approximate=False)
    if num_new < 3:
        with pytest.raises(ValueError, match=sentence):
            next(batches.after(first))


def test_entries_that_are_trimmed_once_they_are_read(redis_server, client):
    fill(client, range(10))
    batches = sb.batches(source(redis_server), rows=3)
    last = [batch.offset for batch in batches][-1]
    client.xtrim("rows", maxlen=0, approximate=False)
    assert numbers(batches.after(last)) == []
    fill(client, range(10, 14))
    assert numbers(batches.after(last)) == [[10, 11, 12], [13]]


def test_entries_that_are_removed_while_it_reads(redis_server, client):
    fill(client, range(1200))
    batches = iter(sb.batches(source(redis_server), rows=100))
    next(batches)
    client.xtrim("rows", maxlen=100, approximate=False)
    with pytest.raises(
        ValueError, match="600 entries of 'rows' were removed before they were read"
    ):
        list(batches)
