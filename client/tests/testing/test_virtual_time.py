"""Virtual time: what clients do in time happens when a test advances it, and not before."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest

import headrace
import headrace.aio
from headrace.testing import FaultyNetwork, LocalServer, VirtualTime


@pytest.fixture
def time() -> Iterator[VirtualTime]:
    with VirtualTime() as time:
        yield time


def test_linger_passes_when_time_does(headrace_server: LocalServer, time: VirtualTime) -> None:
    with (
        headrace.connect(headrace_server.url) as client,
        client.producer(*headrace_server.fresh_topic(), linger=60) as producer,
    ):
        delivery = producer.send(b"tea")
        time.advance(59)
        assert not delivery.done()
        time.advance(1)
        assert delivery.result(timeout=0).offset == 0
    assert time.now == 60


def test_a_message_is_given_up_after_its_time(headrace_server: LocalServer, time: VirtualTime) -> None:
    with FaultyNetwork(headrace_server.address) as network:
        url = headrace_server.url_of(network.address)
        topic = headrace_server.fresh_topic()
        with headrace.connect(url) as client, client.producer(*topic, delivery_timeout=600) as producer:
            network.part()
            delivery = producer.send(b"tea")
            time.advance(590)
            assert not delivery.done()
            time.advance(20)
            with pytest.raises(headrace.NotDelivered, match="not delivered within 600 s"):
                delivery.result(timeout=0)
            network.heal()
            # Pauses between attempts to connect are 5 s at most.
            time.advance(6)
            delivery = producer.send(b"milk")
            time.advance(1)
            assert delivery.result(timeout=60).offset == 0


def test_a_call_that_was_never_sent_says_so(headrace_server: LocalServer, time: VirtualTime) -> None:
    with (
        FaultyNetwork(headrace_server.address) as network,
        ThreadPoolExecutor(1) as threads,
        headrace.connect(headrace_server.url_of(network.address)) as client,
    ):
        network.part()
        time.advance(1)
        call = threads.submit(client.topics, "tests")
        while not call.done():
            time.advance(10)
        with pytest.raises(headrace.DeadlineExceeded, match=r"^not sent within 30 s"):
            call.result()


def test_lost_answers_break_the_connection_after_their_time(headrace_server: LocalServer, time: VirtualTime) -> None:
    with FaultyNetwork(headrace_server.address) as network:
        url = headrace_server.url_of(network.address)
        topic = headrace_server.fresh_topic()
        with headrace.connect(url) as client, client.producer(*topic) as producer:
            network.lose_answers()
            delivery = producer.send(b"tea")
            time.advance(29)
            assert not delivery.done()
            time.advance(2)
            with pytest.raises(headrace.OutcomeUnknown):
                delivery.result(timeout=60)


def test_offsets_are_stored_after_the_interval(headrace_server: LocalServer, time: VirtualTime) -> None:
    stream, topic = headrace_server.fresh_topic()
    with headrace.connect(headrace_server.url) as client:
        with client.producer(stream, topic, linger=0) as producer:
            producer.send_many([b"1", b"2"])
        with client.consumer(stream, topic, name="audit", commit_interval=60) as consumer:
            assert consumer.poll() is not None
            assert consumer.poll(0) is None
            assert client.offset(stream, topic, 0, consumer="audit") is None
            time.advance(61)
            assert consumer.poll(0) is None
            while client.offset(stream, topic, 0, consumer="audit") is None:
                time.advance(0.1)


def test_a_rebalance_happens_when_heartbeats_do(headrace_server: LocalServer, time: VirtualTime) -> None:
    stream, topic = headrace_server.fresh_topic(partitions=2)
    with (
        headrace.connect(headrace_server.url) as client,
        client.consumer(stream, topic, group="billing", start="end") as consumer,
    ):
        consumer.poll(0)
        assert consumer.assignment == {0, 1}
        with headrace_server.another_member(stream, topic, "billing"):
            while len(consumer.assignment) != 1:
                time.advance(1)
                consumer.poll(0)
        while len(consumer.assignment) != 2:
            time.advance(1)
            consumer.poll(0)


def test_asyncio_has_virtual_time_too(headrace_server: LocalServer, time: VirtualTime) -> None:
    async def lingering() -> int | None:
        async with (
            headrace.aio.connect(headrace_server.url) as client,
            client.producer(*headrace_server.fresh_topic(), linger=60) as producer,
        ):
            delivery = await producer.send(b"tea")
            assert not delivery.done()
            await asyncio.to_thread(time.advance, 60)
            return (await delivery).offset

    assert asyncio.run(lingering()) == 0


def test_there_is_one_virtual_time_and_it_has_an_end(headrace_server: LocalServer) -> None:
    with VirtualTime() as time:
        with pytest.raises(headrace.InvalidArgument, match="virtual already"):
            VirtualTime().__enter__()
        with pytest.raises(headrace.InvalidArgument, match="-1 is no time"):
            time.advance(-1)
    with pytest.raises(headrace.InvalidArgument, match="within its `with` block"):
        time.advance(1)
    # Then time passes by itself again.
    with (
        headrace.connect(headrace_server.url) as client,
        client.producer(*headrace_server.fresh_topic(), linger=0.01) as producer,
    ):
        assert producer.send(b"tea").result(30).offset == 0
