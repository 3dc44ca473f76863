"""Producers and consumers of either flavour that were just made: what is fixed, and what works."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import headrace
import headrace.aio
from headrace_core import Requester, SessionConfig
from tests.sdk.flavours import Flavour


@pytest.mark.parametrize("kind", [None, "name", "group"], ids=["alone", "named", "group"])
async def test_what_follows_the_end_is_read(client: Any, stream: str, kind: str | None) -> None:
    async with client.direct_producer() as producer:
        for number in range(20):
            await producer.send_to(stream, "t", [b"before"], partition=number % 2)
            options = {kind: f"reader-{number}"} if kind else {}
            # Without any wait between the two, in which the consumer could find its place.
            async with client.consumer(stream, "t", start="end", **options) as consumer:
                await producer.send_to(stream, "t", [b"%d" % number], partition=number % 2)
                batch = await consumer.poll()
                assert batch.payloads() == [b"%d" % number]


async def test_a_missing_topic_is_reported_at_once(client: Any, stream: str) -> None:
    with pytest.raises(headrace.NotFound):
        async with client.consumer(stream, "missing", start="end"):
            pass


async def test_new_partitions_are_seen_soon(client: Any, stream: str) -> None:
    async with client.producer(stream, "t") as producer, client.consumer(stream, "t") as consumer:
        await client.create_partitions(stream, "t", 1)
        async with asyncio.timeout(60):
            while producer.partitions_count != 3:
                await asyncio.sleep(0.05)
            await producer.send(b"x", partition=2)
            assert (await consumer.poll()).partition_id == 2


async def test_asyncio_works_without_a_block(url: str, stream: str) -> None:
    client = await headrace.aio.connect(url)
    await client.create_stream(stream)
    await client.create_topic(stream, "t")
    producer = client.producer(stream, "t")
    await (await producer.send(b"1"))
    await producer.close()
    producer = client.producer(stream, "t")
    assert len(await producer.send_many([b"2"])) == 1
    await producer.close()
    consumer = client.consumer(stream, "t")
    batch = await consumer.poll()
    assert batch is not None
    assert batch.payloads()[0] == b"1"
    await consumer.close()
    direct = await client.direct_producer()
    consumer = await client.consumer(stream, "t", start="end")
    await direct.send_to(stream, "t", b"3")
    batch = await consumer.poll()
    assert batch is not None
    assert batch.payloads() == [b"3"]
    await consumer.close()
    await direct.close()
    await client.delete_stream(stream)
    await client.close()


async def test_a_client_that_is_awaited_and_entered_opens_once(url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    opened: list[Requester] = []

    def noted(config: SessionConfig) -> Requester:
        opened.append(Requester(config))
        return opened[-1]

    monkeypatch.setattr("headrace.aio.client.Requester", noted)
    client = await headrace.aio.connect(url)
    async with client:
        await client.ping()
    assert len(opened) == 1
    with pytest.raises(headrace.ClientClosed):
        await client.ping()
    # One that was closed opens again.
    async with client:
        await client.ping()
    assert len(opened) == 2


async def test_an_embedded_server_of_a_client_that_is_awaited_and_entered_stops(tmp_path: Path) -> None:
    for _ in range(2):
        async with await headrace.aio.connect(f"headrace+embedded://{tmp_path}/data") as client:
            await client.ping()


async def test_asyncio_says_what_to_write_where_a_client_is_not_connected(url: str) -> None:
    client = headrace.aio.connect(url)
    for call in (client.ping(), asyncio.to_thread(client.producer, "shop", "orders")):
        with pytest.raises(headrace.ClientClosed, match="use `async with`, or await it"):
            await call


async def test_a_message_of_another_time_is_not_committed(flavour: Flavour, client: Any, stream: str) -> None:
    del flavour
    async with client.producer(stream, "t") as producer:
        await producer.send_many([b"0", b"1"], partition=0)
    async with client.consumer(stream, "t", group="billing", commit="manual") as first:
        batch = await first.poll()
        (zero, _) = list(batch)
        await first.commit()
    async with client.consumer(stream, "t", group="billing", commit="manual") as second:
        async with client.producer(stream, "t") as producer:
            await producer.send(b"2", partition=0)
        await second.poll()
        with pytest.raises(headrace.InvalidArgument, match="offset 0 of partition 0 was not handed out"):
            await second.commit(zero)
    assert (await client.offset(stream, "t", 0, group="billing")).stored_offset == 1
