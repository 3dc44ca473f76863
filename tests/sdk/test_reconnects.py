"""Connections that break, and servers that are killed, paused and restarted: nothing acknowledged is lost."""

from __future__ import annotations

import asyncio
import os
import signal
from collections.abc import AsyncIterator, Iterator
from dataclasses import replace
from typing import Any

import pytest

import headrace
from tests.conftest import TWO_SHARDS, ended_well
from tests.sdk.conftest import url_of
from tests.sdk.flavours import Flavour
from tests.sdk.proxy import Proxy
from tests.server_process import ServerProcess

PATIENT = headrace.ClientOptions(connect_timeout=30, response_timeout=30, keepalive=60)
"""A server that stands still for seconds, as on a busy machine, breaks no connection; an idle client asks nothing."""
HASTY = replace(PATIENT, response_timeout=2, keepalive=1)
LIMIT_SECONDS = 120


@pytest.fixture
def proxy(shared_server: ServerProcess) -> Iterator[Proxy]:
    with Proxy(shared_server.address) as proxy:
        yield proxy


@pytest.fixture
async def client(flavour: Flavour, proxy: Proxy, stream: str) -> AsyncIterator[Any]:
    """A client through the proxy."""
    async with flavour.connect(url_of(proxy.address), options=PATIENT) as client:
        await client.create_stream(stream)
        await client.create_topic(stream, "t")
        yield client
        proxy.cut_after()
        # A call that only reads is repeated if the connection was cut; the deletion would not be.
        await client.streams()
        await client.delete_stream(stream)


async def stored(client: Any, stream: str) -> list[int]:
    found: list[int] = []
    while batch := [message async for message in _read(client, stream, len(found))]:
        found += [int(message.payload.split(b" ")[0]) for message in batch]
    return found


async def _read(client: Any, stream: str, start: int) -> AsyncIterator[headrace.Message]:
    for message in await client.read(stream, "t", start=start, count=10_000):
        yield message


async def outcomes(deliveries: list[Any]) -> tuple[list[int], list[int]]:
    """Return the numbers of messages that were acknowledged, and of those whose outcome is unknown."""
    delivered, unknown = [], []
    for number, delivery in enumerate(deliveries):
        try:
            await delivery
            delivered.append(number)
        except headrace.OutcomeUnknown:
            unknown.append(number)
    return delivered, unknown


def is_in_order(numbers: list[int]) -> bool:
    """Return whether numbers ascend, apart from repetitions of whole runs."""
    return numbers == sorted(numbers)


async def test_calls_go_on_after_a_break(client: Any, stream: str, proxy: Proxy) -> None:
    for _ in range(3):
        proxy.cut()
        assert [topic.name for topic in await client.topics(stream)] == ["t"]
    # A call that changes something is not repeated if it may have had its effect.
    proxy.cut_after(answers=3)
    with pytest.raises(headrace.OutcomeUnknown):
        await client.create_topic(stream, "once")
    assert {topic.name for topic in await client.topics(stream)} == {"once", "t"}
    # One that only reads is.
    proxy.cut_after(answers=3)
    assert len(await client.topics(stream)) == 2
    assert proxy.cuts >= 5


@pytest.mark.parametrize("cut_after", [1, 200, 5_000, 20_000, 50_000])
async def test_a_batch_that_was_not_sent_completely_is_sent_again(
    client: Any, stream: str, proxy: Proxy, cut_after: int
) -> None:
    """Or its outcome is unknown: then it is stored once, or not at all."""
    async with asyncio.timeout(LIMIT_SECONDS):
        async with client.producer(stream, "t", batch_messages=20, linger=0) as producer:
            await (await producer.send(b"0 begin"))
            proxy.cut_after(requests=cut_after)
            deliveries = [await producer.send(b"%d " % number + b"x" * 200) for number in range(1, 400)]
            delivered, unknown = await outcomes(deliveries)
        found = await stored(client, stream)
    assert is_in_order(found)
    assert len(found) == len(set(found))
    assert {number + 1 for number in delivered} <= set(found)
    assert len(unknown) <= 20


@pytest.mark.parametrize("resend", [False, True])
async def test_an_unknown_outcome_is_repeated_on_demand_only(
    client: Any, stream: str, proxy: Proxy, resend: bool
) -> None:
    async with asyncio.timeout(LIMIT_SECONDS):
        async with client.producer(stream, "t", linger=0, resend_uncertain=resend) as producer:
            await (await producer.send(b"0 begin"))
            # The request arrives, the answer does not.
            proxy.cut_answer_to(b"1 uncertain")
            delivery = await producer.send(b"1 uncertain")
            delivered, unknown = await outcomes([delivery])
            assert (len(delivered), len(unknown)) == ((1, 0) if resend else (0, 1))
            await (await producer.send(b"2 end"))
        assert await stored(client, stream) == ([0, 1, 1, 2] if resend else [0, 1, 2])


async def test_a_group_consumer_goes_on_after_breaks(
    client: Any, stream: str, proxy: Proxy, flavour: Flavour, url: str
) -> None:
    numbers: list[int] = []
    consumer_options = {"group": "g", "heartbeat": 0.1, "commit_interval": 0.05, "batch_messages": 10}
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        flavour.connect(url) as direct,
        direct.producer(stream, "t", batch_messages=10, linger=0) as producer,
        client.consumer(stream, "t", **consumer_options) as consumer,
    ):
        while not consumer.assignment:
            await consumer.poll(timeout=0.1)
        for round_ in range(5):
            await producer.send_many([b"%d" % (round_ * 100 + number) for number in range(100)])
            proxy.cut()
            while len(set(numbers)) < (round_ + 1) * 100:
                batch = await consumer.poll(timeout=1)
                numbers += map(int, batch.payloads() if batch is not None else ())
    assert sorted(set(numbers)) == list(range(500))
    # A member that has processed messages does not read them again, even if it could not store that: at most the batch
    # that it was working on comes twice after a break.
    assert len(numbers) <= 500 + 10 * proxy.cuts


async def test_a_pause_outlasts_a_break(client: Any, stream: str, proxy: Proxy, flavour: Flavour, url: str) -> None:
    assigned: list[Any] = []
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        flavour.connect(url) as direct,
        direct.producer(stream, "t") as producer,
        client.consumer(stream, "t", group="g", on_assigned=assigned.append) as consumer,
    ):
        while not assigned:
            assert await consumer.poll(timeout=0.1) is None
        consumer.pause(0)
        proxy.cut()
        await producer.send_many([b"0", b"1"])
        await producer.flush()
        while len(assigned) < 2:
            assert await consumer.poll(timeout=0.1) is None
        assert await consumer.poll(timeout=0.3) is None
        consumer.resume()
        assert (await consumer.poll(timeout=60)).payloads() == [b"0", b"1"]


async def test_a_member_that_comes_back_does_not_move_its_group_back(
    client: Any, stream: str, proxy: Proxy, flavour: Flavour, url: str
) -> None:
    """The member has the partition again, and its program has not noticed that another one was further meanwhile."""
    options = {"group": "g", "heartbeat": 0.1, "batch_messages": 5}
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        flavour.connect(url) as direct,
        client.consumer(stream, "t", **options, commit="manual") as consumer,
    ):
        async with direct.producer(stream, "t") as producer:
            await producer.send_many([b"%d" % number for number in range(10)])
        assert (await consumer.poll(timeout=60)).next_offset == 5
        proxy.accepts = False
        proxy.cut()
        numbers: list[int] = []
        async with direct.consumer(stream, "t", **options) as other:
            while len(numbers) < 10:
                batch = await other.poll(timeout=60)
                numbers += map(int, batch.payloads())
            await other.commit()
        proxy.accepts = True
        while (await direct.group(stream, "t", "g")).members_count == 0:
            await asyncio.sleep(0.01)
        for _ in range(20):
            with pytest.raises(headrace.HeadraceError):
                await consumer.commit()
            await asyncio.sleep(0.05)
        assert (await direct.offset(stream, "t", 0, group="g")).stored_offset == 9


async def test_a_consumer_alone_reads_on_without_repeating(client: Any, stream: str, proxy: Proxy) -> None:
    numbers: list[int] = []
    async with asyncio.timeout(LIMIT_SECONDS):
        async with client.producer(stream, "t") as producer:
            await producer.send_many([b"%d" % number for number in range(5000)])
        async with client.consumer(stream, "t", name="n", batch_messages=100, prefetch_bytes=20_000) as consumer:
            while len(numbers) < 5000:
                batch = await consumer.poll(timeout=60)
                numbers += map(int, batch.payloads())
                if len(numbers) % 1000 == 0:
                    proxy.cut()
    assert numbers == list(range(5000))


async def test_a_connection_that_hangs_is_made_again(client: Any, stream: str, proxy: Proxy, flavour: Flavour) -> None:
    async with (
        asyncio.timeout(LIMIT_SECONDS),
        flavour.connect(url_of(proxy.address), options=HASTY) as hasty,
        hasty.consumer(stream, "t", partitions=[0]) as consumer,
    ):
        while not consumer.assignment:
            assert await consumer.poll(timeout=0.2) is None
        before = proxy.connections
        proxy.stall()
        try:
            # One is of the client, two are of the consumer. The proxy does not see the end of a connection now.
            while proxy.connections < before + 3:
                await consumer.poll(timeout=0.5)
        finally:
            proxy.stall(False)  # noqa: FBT003 - as the method reads
        async with client.producer(stream, "t") as producer:
            await (await producer.send(b"1"))
        assert (await consumer.poll(timeout=60)).payloads() == [b"1"]


class Breaks(headrace.Telemetry):
    """Counts broken connections."""

    def __init__(self) -> None:
        self.count = 0

    def connection_changed(self, change: str, reason: str) -> None:
        del reason
        self.count += change == "lost"


@pytest.fixture(scope="module")
def own_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that may be killed; each test has its own streams."""
    settings = TWO_SHARDS | {"DURABILITY": "os"}
    with ServerProcess(tmp_path_factory.mktemp("own") / "data", settings) as server:
        yield server
    ended_well(server)


@pytest.mark.long(but=2)
@pytest.mark.parametrize("end", [signal.SIGKILL, signal.SIGTERM, signal.SIGSTOP], ids=lambda end: end.name)
async def test_producers_and_consumers_survive_a_server(
    flavour: Flavour, own_server: ServerProcess, stream: str, end: signal.Signals
) -> None:
    server, url, breaks = own_server, url_of(own_server.address), Breaks()
    # A server that stands still is noticed by its silence alone.
    options = replace(HASTY, keepalive=60) if end is signal.SIGSTOP else PATIENT
    async with asyncio.timeout(LIMIT_SECONDS), flavour.connect(url, options=PATIENT) as client:
        await client.create_stream(stream)
        await client.create_topic(stream, "t")
        async with (
            flavour.connect(url, options=replace(options, telemetry=breaks)) as sender,
            flavour.connect(url, options=options) as reader,
            sender.producer(stream, "t", batch_messages=10, linger=0) as producer,
            reader.consumer(stream, "t", group="g", heartbeat=0.1, commit_interval=0.05) as consumer,
        ):
            deliveries = [await producer.send(b"%d" % number) for number in range(300)]
            await deliveries[100]
            if end is signal.SIGSTOP:
                os.kill(server.process.pid, end)
                deliveries += [await producer.send(b"%d" % number) for number in range(300, 600)]
                await asyncio.sleep(options.response_timeout + 0.5)
                os.kill(server.process.pid, signal.SIGCONT)
            else:
                server.stop() if end is signal.SIGTERM else server.kill()
                deliveries += [await producer.send(b"%d" % number) for number in range(300, 600)]
                await asyncio.to_thread(server.start)
            delivered, unknown = await outcomes(deliveries)
            assert len(delivered) + len(unknown) == 600
            numbers: list[int] = []
            while not set(delivered) <= set(numbers):
                batch = await consumer.poll(timeout=1)
                numbers += map(int, batch.payloads() if batch is not None else ())
        found = await stored(client, stream)
    # One batch of each connection. The server may have been slow beside the time that it stood still.
    assert len(unknown) <= 10 * (breaks.count if end is signal.SIGSTOP else 1)
    assert is_in_order(found)
    assert len(found) == len(set(found))
    assert set(delivered) <= set(found)
