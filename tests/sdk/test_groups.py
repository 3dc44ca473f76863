"""Members of consumer groups: how they share partitions, and what the next one finds."""

from __future__ import annotations

import asyncio
from contextlib import suppress
from typing import Any

import pytest

import headrace
from tests.sdk.flavours import Callbacks

QUICK = 0.05
"""Interval of heartbeats, for tests that wait for a rebalance."""


async def send(client: Any, stream: str, first: int, end: int, partition: int = 0, topic: str = "t") -> None:
    async with client.producer(stream, topic) as producer:
        await producer.send_many([b"%d" % number for number in range(first, end)], partition=partition)


async def read(consumer: Any, count: int) -> list[int]:
    found: list[int] = []
    async for message in consumer:
        found.append(int(message.payload))
        if len(found) == count:
            break
    return found


async def read_until(consumer: Any, condition: Any, *, seconds: float = 30) -> list[int]:
    """Read until a condition holds."""
    found: list[int] = []
    async with asyncio.timeout(seconds):
        while not condition():
            batch = await consumer.poll(timeout=QUICK)
            found += [int(payload) for payload in batch.payloads()] if batch is not None else []
    return found


async def test_a_group_is_created_and_continued(client: Any, stream: str) -> None:
    await send(client, stream, 0, 10)
    async with client.consumer(stream, "t", group="g") as consumer:
        assert await read(consumer, 6) == [0, 1, 2, 3, 4, 5]
        assert consumer.assignment == {0, 1}
        assert (await client.group(stream, "t", "g")).members_count == 1
    assert (await client.group(stream, "t", "g")).members_count == 0
    assert (await client.offset(stream, "t", 0, group="g")).stored_offset == 4
    async with client.consumer(stream, "t", group="g", start=headrace.END) as consumer:
        assert await read(consumer, 5) == [5, 6, 7, 8, 9]


async def test_the_start_is_for_partitions_without_a_stored_offset(client: Any, stream: str) -> None:
    await send(client, stream, 0, 5)
    async with client.consumer(stream, "t", group="g", start=headrace.END) as consumer:
        assert await consumer.poll(timeout=0.3) is None
        await send(client, stream, 5, 6)
        assert await read(consumer, 1) == [5]
    # Another group begins at the given place.
    async with client.consumer(stream, "t", group="h", start=3) as consumer:
        assert await read(consumer, 3) == [3, 4, 5]


async def test_a_group_by_number_must_exist(client: Any, stream: str) -> None:
    made = await client.create_group(stream, "t", "g")
    await send(client, stream, 0, 1)
    async with client.consumer(stream, "t", group=made.id) as consumer:
        assert await read(consumer, 1) == [0]
    async with client.consumer(stream, "t", group=made.id + 77) as consumer:
        with pytest.raises(headrace.NotFound):
            await consumer.poll(timeout=60)


async def test_two_members_share_the_partitions_and_nothing_comes_twice(client: Any, stream: str) -> None:
    await client.create_topic(stream, "four", partitions=4)
    for partition in range(4):
        await send(client, stream, partition * 1000, partition * 1000 + 200, partition, "four")
    one, two = Callbacks(), Callbacks()
    options: dict[str, Any] = {"group": "g", "heartbeat": QUICK, "batch_messages": 20, "commit_interval": QUICK}
    async with client.consumer(stream, "four", **options, **one.arguments()) as first:
        found = await read_until(first, lambda: len(first.assignment) == 4)
        async with client.consumer(stream, "four", **options, **two.arguments()) as second:
            others, more = await asyncio.gather(
                read_until(second, lambda: len(second.assignment) == 2),
                read_until(first, lambda: len(first.assignment) == 2),
            )
            assert first.assignment.isdisjoint(second.assignment)
            for partition in range(4):
                await send(client, stream, partition * 1000 + 200, partition * 1000 + 300, partition, "four")
            total = lambda: len(found) + len(others) + len(more)  # noqa: E731 - the end of both loops

            async def rest(consumer: Any, into: list[int]) -> None:
                while total() < 1200:
                    if (batch := await consumer.poll(timeout=QUICK)) is not None:
                        into.extend(map(int, batch.payloads()))

            async with asyncio.timeout(30):
                await asyncio.gather(rest(first, more), rest(second, others))
            # A batch counts as processed when the next one is asked for.
            assert [await consumer.poll(timeout=0) for consumer in (first, second)] == [None, None]
            assert one.of("revoked") == two.of("assigned") == sorted(second.assignment)
        # Partitions that the second gave up come back, and none of its messages.
        assert await read_until(first, lambda: len(first.assignment) == 4) == []
        assert await first.poll(timeout=0.2) is None
    expected = [partition * 1000 + number for partition in range(4) for number in range(300)]
    assert sorted(found + others + more) == expected
    assert one.of("lost") == two.of("lost") == []


async def test_offsets_are_stored_before_a_partition_moves(client: Any, stream: str) -> None:
    """Store offsets by hand: the next member finds nothing of what was stored."""
    await send(client, stream, 0, 10)
    await send(client, stream, 10, 20, partition=1)
    consumers: list[Any] = []
    async with client.consumer(stream, "t", group="g", heartbeat=QUICK, commit="manual") as first:
        consumers.append(first)
        seen: list[int] = []
        async with asyncio.timeout(30):
            while len(seen) < 20:
                batch = await first.poll(timeout=QUICK)
                seen += map(int, batch.payloads()) if batch is not None else ()
        await first.commit()
        async with client.consumer(stream, "t", group="g", heartbeat=QUICK) as second:
            got, _ = await asyncio.gather(
                read_until(second, lambda: second.assignment), read_until(first, lambda: len(first.assignment) == 1)
            )
            assert got == []
            (moved,) = second.assignment
            await send(client, stream, 100, 101, moved)
            assert await read(second, 1) == [100]


async def test_a_member_that_ends_without_a_word_is_replaced(client: Any, stream: str) -> None:
    """Messages that it had processed without storing that come again; nothing is left out."""
    await send(client, stream, 0, 10)
    gone = client.consumer(stream, "t", group="g", commit="manual")
    lost = await gone.__aenter__() if hasattr(gone, "__aenter__") else gone
    assert await read(lost, 5) == [0, 1, 2, 3, 4]
    await lost.commit()
    assert await read(lost, 2) == [5, 6]
    native = getattr(lost, "blocking", lost)._native
    del native
    # Without `close`: dropping the native consumer ends its connection.
    getattr(lost, "blocking", lost)._native = None
    getattr(lost, "blocking", lost)._progress = None
    async with client.consumer(stream, "t", group="g", heartbeat=QUICK) as consumer:
        async with asyncio.timeout(30):
            assert await read(consumer, 5) == [5, 6, 7, 8, 9]
    with suppress(AttributeError):
        getattr(lost, "blocking", lost)._is_closed = True


async def test_a_group_that_is_deleted_ends_its_members(client: Any, stream: str) -> None:
    async with client.consumer(stream, "t", group="g", heartbeat=QUICK) as consumer:
        # The consumer creates the group on its way to its partitions.
        while not consumer.assignment:
            assert await consumer.poll(timeout=0.2) is None
        await client.delete_group(stream, "t", "g")
        try:
            await read_until(consumer, lambda: False)
        except headrace.NotFound:
            return
        except TimeoutError:
            # Or it makes the group again, and goes on.
            assert (await client.group(stream, "t", "g")).members_count == 1
