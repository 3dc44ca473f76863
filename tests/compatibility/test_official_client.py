"""Every method of the official Python client, in its published build (GW-1)."""

from __future__ import annotations

import asyncio
import datetime
import itertools
import time
from collections.abc import Awaitable

import pytest
from apache_iggy import AutoCommit, IggyClient, PollingStrategy, ReceiveMessage, SendMessage

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import topic_details
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import PASSWORD, USERNAME, ServerProcess

SEGMENT_BYTES = 1 << 30
CONSUMER = frames.consumer(0)
"""Consumer id that the client uses."""


@pytest.fixture
async def client(shared_server: ServerProcess) -> IggyClient:
    """An official client that is connected and logged in."""
    client = IggyClient(shared_server.address)
    await client.connect()
    await client.login_user(USERNAME, PASSWORD)
    return client


@pytest.fixture
async def topic(client: IggyClient, stream: str) -> str:
    """A stream of the test's own, with a topic `t` of three partitions."""
    await client.create_stream(stream)
    await client.create_topic(stream, "t", 3)
    return stream


async def refused(name: str, request: Awaitable[object]) -> None:
    """Check that a request fails with the named status."""
    with pytest.raises(RuntimeError, match=name):
        await request


def payloads(messages: list[ReceiveMessage]) -> list[bytes]:
    return [message.payload() for message in messages]


def batch(*texts: str | bytes) -> list[SendMessage]:
    return [SendMessage(text) for text in texts]


async def test_connect_and_ping(shared_server: ServerProcess) -> None:
    """Ping needs no login, everything else does."""
    client = IggyClient(shared_server.address)
    await client.connect()
    await client.ping()
    await refused("Unauthenticated", client.create_stream("without a login"))


async def test_logins(shared_server: ServerProcess) -> None:
    """Wrong credentials are refused on a connection that stays usable."""
    client = IggyClient(shared_server.address)
    await client.connect()
    await refused("InvalidCredentials", client.login_user(USERNAME, "wrong"))
    await refused("InvalidCredentials", client.login_user("nobody", PASSWORD))
    await client.login_user(USERNAME, PASSWORD)
    await client.ping()


async def test_a_connection_string_logs_in_by_itself(shared_server: ServerProcess, stream: str) -> None:
    """Connecting with a connection string includes login and cluster metadata."""
    client = IggyClient.from_connection_string(f"iggy+tcp://{USERNAME}:{PASSWORD}@{shared_server.address}")
    await client.connect()
    await client.create_stream(stream)
    assert await client.get_stream(stream) is not None


async def test_streams(client: IggyClient, stream: str) -> None:
    """Streams are created, found by id and by name, and counted; a taken name is refused, a missing one is `None`."""
    assert await client.get_stream(stream) is None
    await client.create_stream(stream)
    found = await client.get_stream(stream)
    assert found is not None
    assert (found.name, found.topics_count, found.messages_count) == (stream, 0, 0)
    by_id = await client.get_stream(found.id)
    assert by_id is not None
    assert (by_id.id, by_id.name) == (found.id, stream)
    await refused("StreamNameAlreadyExists", client.create_stream(stream))
    assert await client.get_stream(4000) is None


async def test_topics(client: IggyClient, shared_server: ServerProcess, stream: str) -> None:
    """Topics are created with every setting and found by id and by name; refusals by name."""
    await client.create_stream(stream)
    await client.create_topic(stream, "plain", 2)
    await client.create_topic(
        stream,
        "with everything",
        partitions_count=5,
        compression_algorithm="gzip",
        replication_factor=3,
        message_expiry=datetime.timedelta(hours=7),
        max_topic_size=2 * SEGMENT_BYTES,
    )
    await client.create_topic(stream, "empty", 0)
    for name, partitions_count in (("plain", 2), ("with everything", 5), ("empty", 0)):
        found = await client.get_topic(stream, name)
        assert found is not None
        assert (found.name, found.partitions_count, found.messages_count) == (name, partitions_count, 0)
        by_id = await client.get_topic(stream, found.id)
        assert by_id is not None
        assert by_id.name == name
    with RawConnection.as_root(shared_server.address) as raw:
        answer = raw.ok(Code.GET_TOPIC, frames.ident(stream) + frames.ident("with everything"))
        settings, _ = topic_details(answer)
        assert (settings.compression, settings.replication, settings.max_size) == (2, 3, 2 * SEGMENT_BYTES)
        assert settings.expiry == 7 * 3600 * 1_000_000
    assert await client.get_topic(stream, "missing") is None
    assert await client.get_topic("missing", "plain") is None
    await refused("TopicNameAlreadyExists", client.create_topic(stream, "plain", 1))
    await refused("StreamIdNotFound", client.create_topic("missing", "t", 1))
    await refused("TooManyPartitions", client.create_topic(stream, "large", 1001))
    await refused("InvalidTopicSize", client.create_topic(stream, "small", 1, max_topic_size=SEGMENT_BYTES - 1))


async def test_messages(client: IggyClient, topic: str) -> None:
    """Text and bytes, small and large, to each partition; polled messages contain partition, offset and time."""
    before = time.time_ns() // 1000
    sent: list[str | bytes] = ["text", "ünïcödé", b"\x00\xff bytes", b"x" * 1_000_000]
    for partition in range(3):
        await client.send_messages(topic, "t", partition, batch(*sent))
    after = time.time_ns() // 1000
    raw = [text.encode() if isinstance(text, str) else text for text in sent]
    for partition in range(3):
        messages = await client.poll_messages(topic, "t", partition, PollingStrategy.First(), 10, auto_commit=False)
        assert payloads(messages) == raw
        assert [message.offset() for message in messages] == [0, 1, 2, 3]
        assert [message.length() for message in messages] == [len(text) for text in raw]
        assert all(message.partition_id() == partition for message in messages)
        assert all(before <= message.timestamp() <= after for message in messages)
        assert len({message.id() for message in messages} | {0}) == 5
        assert len({message.checksum() for message in messages} | {0}) == 5
    found = await client.get_topic(topic, "t")
    assert found is not None
    assert found.messages_count == 12
    stream = await client.get_stream(topic)
    assert stream is not None
    assert (stream.messages_count, stream.topics_count) == (12, 1)


async def test_refused_messages(client: IggyClient, topic: str) -> None:
    """Destinations that do not exist, by id and by name."""
    await refused("PartitionNotFound", client.send_messages(topic, "t", 3, batch("m")))
    await refused("TopicIdNotFound", client.send_messages(topic, "missing", 0, batch("m")))
    await refused("TopicIdNotFound", client.send_messages(topic, 9, 0, batch("m")))
    await refused("StreamIdNotFound", client.send_messages("missing", "t", 0, batch("m")))
    await refused(
        "PartitionNotFound", client.poll_messages(topic, "t", 3, PollingStrategy.First(), 1, auto_commit=False)
    )
    await refused(
        "TopicIdNotFound", client.poll_messages(topic, "missing", 0, PollingStrategy.First(), 1, auto_commit=False)
    )
    await refused(
        "StreamIdNotFound", client.poll_messages("missing", "t", 0, PollingStrategy.First(), 1, auto_commit=False)
    )
    await client.ping()


async def test_every_polling_strategy(client: IggyClient, topic: str) -> None:
    """LOG-9: offset, timestamp, first, last, next."""
    for number in range(50):
        await client.send_messages(topic, "t", 1, batch(*[f"{number} {nth}" for nth in range(4)]))
    everything = await client.poll_messages(topic, "t", 1, PollingStrategy.Offset(0), 1000, auto_commit=False)
    expected = [f"{number} {nth}".encode() for number in range(50) for nth in range(4)]
    assert payloads(everything) == expected
    times = [message.timestamp() for message in everything]

    async def poll(strategy: PollingStrategy, count: int) -> list[bytes]:
        return payloads(await client.poll_messages(topic, "t", 1, strategy, count, auto_commit=False))

    assert await poll(PollingStrategy.Offset(77), 5) == expected[77:82]
    assert await poll(PollingStrategy.Offset(200), 5) == []
    assert await poll(PollingStrategy.First(), 5) == expected[:5]
    assert await poll(PollingStrategy.Last(), 5) == expected[-5:]
    assert await poll(PollingStrategy.Next(), 5) == expected[:5]
    for start in (0, 40, 120):
        first = times.index(times[start])
        assert await poll(PollingStrategy.Timestamp(times[start]), 5) == expected[first : first + 5]
    assert await poll(PollingStrategy.Timestamp(times[-1] + 1), 5) == []


async def test_auto_commit(client: IggyClient, shared_server: ServerProcess, topic: str) -> None:
    """LOG-10: auto-commit works with every strategy; `next` continues after it, in each partition separately."""
    for partition in (0, 2):
        await client.send_messages(topic, "t", partition, batch(*[str(number) for number in range(30)]))
    with RawConnection.as_root(shared_server.address) as raw:
        for strategy, stored in (
            (PollingStrategy.Next(), 9),
            (PollingStrategy.Next(), 19),
            (PollingStrategy.Offset(3), 12),
            (PollingStrategy.Last(), 29),
            (PollingStrategy.First(), 9),
            (PollingStrategy.Timestamp(0), 9),
        ):
            await client.poll_messages(topic, "t", 2, strategy, 10, auto_commit=True)
            assert raw.stored_offset(topic, "t", 2, who=CONSUMER) == stored
        assert raw.stored_offset(topic, "t", 0, who=CONSUMER) is None
    seen = []
    while messages := await client.poll_messages(topic, "t", 2, PollingStrategy.Next(), 7, auto_commit=True):
        seen += payloads(messages)
    assert seen == [str(number).encode() for number in range(10, 30)]
    assert len(await client.poll_messages(topic, "t", 0, PollingStrategy.Next(), 100, auto_commit=False)) == 30


async def test_many_clients_at_once(client: IggyClient, shared_server: ServerProcess, topic: str) -> None:
    """Every batch stays contiguous and in its sender's order."""

    async def produce(number: int) -> None:
        producer = IggyClient(shared_server.address)
        await producer.connect()
        await producer.login_user(USERNAME, PASSWORD)
        for nth in range(50):
            await producer.send_messages(
                topic, "t", number % 3, batch(*[f"{number} {nth} {part}" for part in range(5)])
            )

    await asyncio.gather(*(produce(number) for number in range(9)))
    for partition in range(3):
        messages = await client.poll_messages(topic, "t", partition, PollingStrategy.First(), 10_000, auto_commit=False)
        found = [payload.decode().split() for payload in payloads(messages)]
        assert [message.offset() for message in messages] == list(range(750))
        for start in range(0, 750, 5):
            sender, nth, _ = found[start]
            assert found[start : start + 5] == [[sender, nth, str(part)] for part in range(5)]
        for expected_sender in range(partition, 9, 3):
            order = [int(nth) for number, nth, _ in found if number == str(expected_sender)]
            assert order == list(itertools.chain.from_iterable([nth] * 5 for nth in range(50)))


@pytest.mark.alone
async def test_latency_of_frames_of_every_size(client: IggyClient, topic: str) -> None:
    """8 to 64 KB with the client's own socket options: no stall of a delayed acknowledgement (40 ms)."""
    for frame_bytes in (8_000, 16_000, 32_000, 64_000):
        messages = batch(*[bytes(936)] * (frame_bytes // 1000))
        seconds = []
        for _ in range(60):
            started = time.perf_counter()
            await client.send_messages(topic, "t", 0, messages)
            seconds.append(time.perf_counter() - started)
        assert sorted(seconds)[30] < 0.02, f"frames of {frame_bytes} bytes: {sorted(seconds)[30] * 1000:.1f} ms"


async def test_purge_and_delete_are_seen(client: IggyClient, shared_server: ServerProcess, topic: str) -> None:
    """A purge or deletion by another client is visible to this one."""
    await client.send_messages(topic, "t", 0, batch("before"))
    with RawConnection.as_root(shared_server.address) as raw:
        raw.ok(Code.PURGE_TOPIC, frames.ident(topic) + frames.ident("t"))
        assert await client.poll_messages(topic, "t", 0, PollingStrategy.First(), 1, auto_commit=False) == []
        await client.send_messages(topic, "t", 0, batch("after"))
        (message,) = await client.poll_messages(topic, "t", 0, PollingStrategy.First(), 10, auto_commit=False)
        assert (message.offset(), message.payload()) == (0, b"after")
        raw.ok(Code.DELETE_TOPIC, frames.ident(topic) + frames.ident("t"))
        await refused("TopicIdNotFound", client.send_messages(topic, "t", 0, batch("m")))
        raw.ok(Code.DELETE_STREAM, frames.ident(topic))
        assert await client.get_stream(topic) is None


async def test_a_consumer_group(client: IggyClient, topic: str) -> None:
    """The first consumer creates and joins the group, reads all partitions and stores its offsets."""
    for partition in range(3):
        await client.send_messages(topic, "t", partition, batch(f"{partition} a", f"{partition} b"))
    consumer = await client.consumer_group(
        "group", topic, "t", polling_strategy=PollingStrategy.Next(), auto_commit=AutoCommit.Disabled()
    )
    assert (consumer.name(), consumer.stream(), consumer.topic()) == ("group", topic, "t")
    received: dict[int, list[bytes]] = {}
    async with asyncio.timeout(60):
        async for message in consumer.iter_messages():
            received.setdefault(message.partition_id(), []).append(message.payload())
            await consumer.store_offset(message.offset(), message.partition_id())
            if sum(len(texts) for texts in received.values()) == 6:
                break
    assert received == {partition: [b"%d a" % partition, b"%d b" % partition] for partition in range(3)}
    assert [consumer.get_last_stored_offset(partition) for partition in range(3)] == [1, 1, 1]
    await consumer.delete_offset(2)
    await refused("ConsumerOffsetNotFound", consumer.delete_offset(2))


async def test_it_comes_back_after_a_restart(server: ServerProcess) -> None:
    """GW-10: a client that logs in by itself continues after the server has stopped, or died, and started again."""
    # Reduce both delays from their default of five seconds.
    reconnection = "reconnection_interval=200ms&reestablish_after=500ms"
    client = IggyClient.from_connection_string(f"iggy+tcp://{USERNAME}:{PASSWORD}@{server.address}?{reconnection}")
    await client.connect()
    await client.create_stream("s")
    await client.create_topic("s", "t", 1)

    async def send(text: str) -> None:
        # After the connection is lost, the client waits until `reestablish_after` has passed since its last connect,
        # reconnects, logs in and repeats the request. If the heartbeat notices the loss first, calls fail until the
        # client has reconnected.
        async with asyncio.timeout(40):
            while True:
                try:
                    return await client.send_messages("s", "t", 0, batch(text))
                except RuntimeError as error:
                    if str(error) != "Disconnected":
                        raise
                    await asyncio.sleep(0.1)

    for number, kill in enumerate((False, True)):
        await send(f"before {number}")
        await asyncio.to_thread(server.restart, kill=kill)
        await send(f"after {number}")
    messages = await client.poll_messages("s", "t", 0, PollingStrategy.First(), 10, auto_commit=False)
    # A repeated request may be stored twice; no message is missing or out of order.
    assert list(dict.fromkeys(payloads(messages))) == [b"before 0", b"after 0", b"before 1", b"after 1"]
