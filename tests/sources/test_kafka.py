"""Messages of a Kafka topic, of the client's own mock cluster."""

import itertools
import json
import threading

import jax
import numpy as np
import pytest

import streambayes as sb
from streambayes.sources import KafkaTopic

TOPICS = (f"topic-{number}" for number in itertools.count())


@pytest.fixture
def topic(kafka):
    producer, servers = kafka
    name = next(TOPICS)

    def send(rows, partition=0):
        for row in rows:
            producer.produce(name, json.dumps(row), partition=partition)
        assert producer.flush(30) == 0

    def source(**options):
        return KafkaTopic(name, servers=servers, **{"follow": False, **options})

    send([])
    producer.list_topics(name, timeout=30)  # which makes it
    return send, source


def numbers(batches):
    return [batch.columns["x"].tolist() for batch in batches]


def test_messages_are_rows_and_it_goes_on_from_any_batch(topic):
    send, source = topic
    send({"x": n, "kind": "uv"[n % 2]} for n in range(700))
    batches = sb.batches(source(), rows=300)
    whole = numbers(batches)
    assert whole == [list(range(300)), list(range(300, 600)), list(range(600, 700))]
    for number, batch in enumerate(list(batches)):
        assert numbers(batches.after(batch.offset)) == whole[number + 1 :]


def test_another_topic_is_noticed(topic, kafka):
    send, source = topic
    send([{"x": 1}, {"x": 2}])
    offset = next(iter(sb.batches(source(), rows=1))).offset
    other = KafkaTopic("topic of others", servers=kafka[1], follow=False)
    with pytest.raises(
        ValueError, match=r"the run stopped in topic 'topic-.', this is 'topic of others'"
    ):
        next(sb.batches(other, rows=1).after(offset))


def test_a_topic_that_was_made_anew_is_noticed(topic):
    send, source = topic
    send([{"x": 1}, {"x": 2}])
    batches = sb.batches(source(), rows=1)
    offset = next(iter(batches)).offset
    offset["source"]["partitions"]["0"] = 7
    with pytest.raises(
        ValueError, match="partition 0: the run stopped at offset 7, and there are 2"
    ):
        next(batches.after(offset))


def test_partitions_are_read_exactly_once(topic, tmp_path):
    send, source = topic
    rng = np.random.default_rng(0)
    values = rng.normal(3.0, 2.0, 400)
    for partition, part in enumerate(np.split(values, 4)):
        send(({"x": value} for value in part), partition)
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB(), scale=False)
    for stop_after in (60, 90, 210, None):
        batches = sb.batches(source(), rows=30)

        def stop(record, batches=batches, stop_after=stop_after):
            if 30 * (record.index + 1) == stop_after:
                batches.stop()

        run = sb.run(
            learner, batches, checkpoint=tmp_path, resume=True, progress=False, on_record=stop
        )
        assert run.state.rows_seen == (stop_after or 400)
    # rows of partitions come in any order, which a sum does not see
    whole, _ = learner.step(learner.init({"x": values}), {"x": values})
    for mine, theirs in zip(
        jax.tree.leaves(run.state.memory), jax.tree.leaves(whole.memory), strict=True
    ):
        np.testing.assert_allclose(mine, theirs, rtol=1e-12)


def test_the_groups_offsets_are_committed_after_the_checkpoint(topic, kafka, tmp_path):
    from confluent_kafka import Consumer, TopicPartition

    send, source = topic
    send({"x": n} for n in range(20))
    topic_source = source(group="seen")
    batches = sb.batches(topic_source, rows=6)
    learner = sb.StreamLearner(sb.models.Gaussian("x"), sb.SVB())
    sb.run(learner, batches, checkpoint=tmp_path, progress=False)
    name = repr(topic_source).split("'")[1]
    consumer = Consumer({"bootstrap.servers": kafka[1], "group.id": "seen"})
    (place,) = consumer.committed([TopicPartition(name, 0)], timeout=30)
    consumer.close()
    assert place.offset == 20


def test_it_waits_for_messages_and_can_begin_with_those_to_come(topic):
    send, source = topic
    send([{"x": -1}])
    batches = sb.batches(source(follow=True, start="latest"), rows=2)
    found = []

    def read():
        for batch in batches:
            found.append(batch.columns["x"].tolist())
            if len(found) == 2:
                batches.stop()

    reader = threading.Thread(target=read)
    reader.start()
    for first in range(0, 40, 2):  # the first ones come before it has begun
        send([{"x": first}, {"x": first + 1}])
        reader.join(timeout=0.5)
        if not reader.is_alive():
            break
    assert not reader.is_alive()
    (a, b), (c, d) = found
    assert [b - a, c - b, d - c] == [1, 1, 1]
    assert a > -1


def test_messages_without_a_row(topic, kafka):
    send, source = topic
    send([{"x": 1}])
    name = repr(source()).split("'")[1]
    kafka[0].produce(name, None, key=b"k", partition=0)
    send([{"x": 2}])
    assert numbers(sb.batches(source(), rows=9)) == [[1, 2]]
    kafka[0].produce(name, b"no json", partition=0)
    kafka[0].flush(30)
    with pytest.raises(
        ValueError, match=r"partition 0, offset 3: expected a JSON object .* b'no json'"
    ):
        list(sb.batches(source(), rows=9))
    send([{"x": 3}])
    lenient = sb.batches(source(malformed="ignore"), rows=1)
    with pytest.warns(UserWarning, match=r"left out: topic .*, offset 3: expected a JSON object"):
        batches = list(lenient)
    assert numbers(batches) == [[1], [2], [3]]
    assert [b.offset["source"]["partitions"]["0"] for b in batches] == [1, 3, 5]


def test_what_is_refused(topic):
    _, source = topic
    with pytest.raises(ValueError, match="start must be 'earliest' or 'latest', got '0'"):
        source(start="0")
    with pytest.raises(ValueError, match=r"the client refuses its settings: .*nonsense"):
        source(settings={"nonsense": 1})
    with pytest.raises(ValueError, match=r"'group.id' is not a setting of yours"):
        source(settings={"group.id": "mine"})
    nowhere = KafkaTopic("t", servers="127.0.0.1:1", patience=0.5)
    with pytest.raises(
        ConnectionError, match=r"the Kafka brokers at 127.0.0.1:1 cannot be reached"
    ):
        list(sb.batches(nowhere, rows=1))
