"""The official Python client, as its authors built it, at any gateway (GW-1, GW-8)."""

from __future__ import annotations

import asyncio

import pytest
from apache_iggy import AutoCommit, IggyClient, PollingStrategy, ReceiveMessage, SendMessage

from tests.journeys.deployment.place import Gateway, Place

PARTITIONS_COUNT = 4


def batch(*texts: bytes) -> list[SendMessage]:
    return [SendMessage(text) for text in texts]


def payloads(messages: list[ReceiveMessage]) -> list[bytes]:
    return [message.payload() for message in messages]


async def logged_in(place: Place, gateway: Gateway) -> IggyClient:
    """A client that logs in by itself, and would again."""
    client = IggyClient.from_connection_string(f"iggy+tcp://{place.root.username}:{place.root.password}@{gateway.tcp}")
    await client.connect()
    return client


async def test_from_the_beginning_to_the_end(place: Place, name: str) -> None:
    """Stream, topic, messages to every partition, each way to read them."""
    client = await logged_in(place, place.here)
    await client.create_stream(name)
    await client.create_topic(name, "t", PARTITIONS_COUNT)
    rows = [b"%d " % number + bytes(number * 7 % 1000) for number in range(1000)]
    for partition in range(PARTITIONS_COUNT):
        for start in range(0, 1000, 100):
            await client.send_messages(name, "t", partition, batch(*rows[start : start + 100]))

    async def poll(
        partition: int, strategy: PollingStrategy, count: int = 1000, *, commit: bool = False
    ) -> list[ReceiveMessage]:
        return await client.poll_messages(name, "t", partition, strategy, count, auto_commit=commit)

    for partition in range(PARTITIONS_COUNT):
        everything = await poll(partition, PollingStrategy.Offset(0))
        assert payloads(everything) == rows
        assert [message.offset() for message in everything] == list(range(1000))
        assert all(message.partition_id() == partition for message in everything)
        times = [message.timestamp() for message in everything]
        assert times == sorted(times)
        assert payloads(await poll(partition, PollingStrategy.First(), 3)) == rows[:3]
        assert payloads(await poll(partition, PollingStrategy.Last(), 3)) == rows[-3:]
        since = times.index(times[500])
        assert payloads(await poll(partition, PollingStrategy.Timestamp(times[500]), 3)) == rows[since : since + 3]
        for start in range(0, 1000, 250):
            found = payloads(await poll(partition, PollingStrategy.Next(), 250, commit=True))
            assert found == rows[start : start + 250]
        assert await poll(partition, PollingStrategy.Next(), commit=True) == []
    topic = await client.get_topic(name, "t")
    assert topic is not None
    assert topic.messages_count == 1000 * PARTITIONS_COUNT


async def test_what_does_not_exist_is_refused_by_name(place: Place, stream: str) -> None:
    """Errors are those of the server that the client was written for."""
    client = await logged_in(place, place.there)
    for request, status in (
        (client.send_messages(stream, "t", 4, batch(b"m")), "PartitionNotFound"),
        (client.send_messages(stream, "missing", 0, batch(b"m")), "TopicIdNotFound"),
        (client.send_messages("missing", "t", 0, batch(b"m")), "StreamIdNotFound"),
        (client.create_stream(stream), "StreamNameAlreadyExists"),
    ):
        with pytest.raises(RuntimeError, match=status):
            await request
    assert await client.get_stream("missing") is None
    await client.ping()


async def test_many_at_both_gateways(place: Place, stream: str) -> None:
    """Every batch stays contiguous and in its sender's order at any gateway."""
    gateways = (place.here, place.there)

    async def produce(number: int) -> None:
        client = await logged_in(place, gateways[number % 2])
        for nth in range(40):
            texts = [b"%d %d %d" % (number, nth, part) for part in range(5)]
            await client.send_messages(stream, "t", number % PARTITIONS_COUNT, batch(*texts))

    await asyncio.gather(*(produce(number) for number in range(8)))
    reader = await logged_in(place, place.there)
    for partition in range(PARTITIONS_COUNT):
        messages = await reader.poll_messages(stream, "t", partition, PollingStrategy.First(), 1000, auto_commit=False)
        found = [payload.split() for payload in payloads(messages)]
        assert len(found) == 400
        for start in range(0, 400, 5):
            sender, nth, _ = found[start]
            assert found[start : start + 5] == [[sender, nth, b"%d" % part] for part in range(5)]
        for sender in (partition, partition + PARTITIONS_COUNT):
            order = [int(nth) for number, nth, part in found if number == b"%d" % sender and part == b"0"]
            assert order == list(range(40))


async def test_a_consumer_of_a_group(place: Place, stream: str) -> None:
    """A consumer creates the group, reads all partitions, and stores its offsets."""
    client = await logged_in(place, place.there)
    for partition in range(PARTITIONS_COUNT):
        await client.send_messages(stream, "t", partition, batch(b"%d a" % partition, b"%d b" % partition))
    consumer = await client.consumer_group(
        "group", stream, "t", polling_strategy=PollingStrategy.Next(), auto_commit=AutoCommit.Disabled()
    )
    received: dict[int, list[bytes]] = {}
    async with asyncio.timeout(60):
        async for message in consumer.iter_messages():
            received.setdefault(message.partition_id(), []).append(message.payload())
            await consumer.store_offset(message.offset(), message.partition_id())
            if sum(map(len, received.values())) == 2 * PARTITIONS_COUNT:
                break
    assert received == {number: [b"%d a" % number, b"%d b" % number] for number in range(PARTITIONS_COUNT)}
