"""Iterating over messages of a blocking consumer: positions that change meanwhile, ends, and memory."""

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

import headrace
from headrace_embedded import Server

MESSAGES = [b"%d" % number for number in range(10)]


@pytest.fixture(scope="module")
def client(server: Server) -> Iterator[headrace.Client]:
    with headrace.connect(server.address, username=server.username, password=server.password) as client:
        client.create_stream("iteration")
        client.create_topic("iteration", "t")
        with client.producer("iteration", "t") as producer:
            producer.send_many(MESSAGES)
        yield client


@pytest.fixture
def consumer(client: headrace.Client) -> Iterator[headrace.Consumer]:
    with client.consumer("iteration", "t", batch_messages=4) as consumer:
        yield consumer


def test_iterators_of_one_consumer_share_its_position(consumer: headrace.Consumer) -> None:
    first, second = iter(consumer), iter(consumer)
    assert [next(first).payload for _ in range(3)] == MESSAGES[:3]
    # The batch of four ends in the second iterator, and the first one goes on with the next batch.
    assert [next(second).payload for _ in range(3)] == MESSAGES[3:6]
    assert [next(first).payload for _ in range(4)] == MESSAGES[6:]
    assert consumer.position(0) == len(MESSAGES)


def test_an_iterator_that_was_left_is_continued_by_another(consumer: headrace.Consumer) -> None:
    for message in consumer:
        if message.payload == MESSAGES[2]:
            break
    assert next(iter(consumer)).payload == MESSAGES[3]


def test_rest_of_a_batch_is_not_returned_after_the_position_was_changed(consumer: headrace.Consumer) -> None:
    messages = iter(consumer)
    assert next(messages).payload == MESSAGES[0]
    consumer.seek(0, headrace.at_offset(7))
    assert next(messages).payload == MESSAGES[7]
    consumer.seek(0, "first")
    batch = consumer.poll(timeout=60)
    assert batch is not None
    assert batch.payloads() == MESSAGES[:4]
    assert next(messages).payload == MESSAGES[4]


def test_an_exception_is_the_end_of_an_iterator(client: headrace.Client) -> None:
    def failing(_partitions: object) -> None:
        raise LookupError("an exception of a callback")

    with client.consumer("iteration", "t", on_assigned=failing) as consumer:
        messages = iter(consumer)
        with pytest.raises(LookupError, match="of a callback"):
            next(messages)
        assert list(messages) == []
        assert next(iter(consumer)).payload == MESSAGES[0]


def test_an_iterator_of_a_closed_consumer_ends_with_its_batch(client: headrace.Client) -> None:
    consumer = client.consumer("iteration", "t", batch_messages=4)
    messages = iter(consumer)
    assert next(messages).payload == MESSAGES[0]
    consumer.close()
    assert [next(messages).payload for _ in range(3)] == MESSAGES[1:4]
    with pytest.raises(headrace.ClientClosed):
        next(messages)


def test_an_iterator_that_waits_is_not_entered_twice(client: headrace.Client) -> None:
    client.create_topic("iteration", "late")
    assigned = threading.Event()
    with client.consumer("iteration", "late", on_assigned=lambda _ids: assigned.set()) as consumer:
        messages = iter(consumer)
        found: list[bytes] = []
        thread = threading.Thread(target=lambda: found.append(next(messages).payload))
        thread.start()
        assert assigned.wait(60)
        with pytest.raises(RuntimeError):
            next(messages)
        with client.producer("iteration", "late") as producer:
            producer.send(b"late")
        thread.join(60)
        assert found == [b"late"]


def test_an_iterator_that_its_consumer_refers_to_is_collected(client: headrace.Client) -> None:
    consumer = client.consumer("iteration", "t")
    consumer.kept = iter(consumer)  # type: ignore[attr-defined]
    assert next(consumer.kept).payload == MESSAGES[0]  # type: ignore[attr-defined]
    consumer.close()
    found = weakref.ref(consumer)
    del consumer
    gc.collect()
    assert found() is None
