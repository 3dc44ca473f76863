"""Consumers of both flavours, alone: where they begin, what they store, and what happens to their partitions."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime
from typing import Any

import pytest

import headrace
from tests.sdk.flavours import Callbacks


async def send(client: Any, stream: str, first: int, end: int, partition: int = 0, topic: str = "t") -> None:
    async with client.producer(stream, topic) as producer:
        await (await producer.send_many([b"%d" % number for number in range(first, end)], partition=partition))


async def read(consumer: Any, count: int) -> list[int]:
    """Read a number of messages, one at a time."""
    found: list[int] = []
    async for message in consumer:
        found.append(int(message.payload))
        if len(found) == count:
            break
    return found


async def offset_of(client: Any, stream: str, consumer: str = "n", partition: int = 0) -> int | None:
    stored = await client.offset(stream, "t", partition, consumer=consumer)
    return None if stored is None else int(stored.stored_offset)


async def test_all_partitions_are_read_in_order(client: Any, stream: str) -> None:
    await send(client, stream, 0, 500)
    await send(client, stream, 1000, 1500, partition=1)
    with Callbacks() as callbacks:
        async with client.consumer(stream, "t", batch_messages=33, **callbacks.arguments()) as consumer:
            found = await read(consumer, 1000)
            assert consumer.assignment == {0, 1}
            assert callbacks.of("assigned") == [0, 1]
    assert [number for number in found if number < 1000] == list(range(500))
    assert [number for number in found if number >= 1000] == list(range(1000, 1500))


async def test_chosen_partitions_are_read(client: Any, stream: str) -> None:
    await send(client, stream, 0, 10)
    await send(client, stream, 10, 20, partition=1)
    async with client.consumer(stream, "t", partitions=[1]) as consumer:
        assert await read(consumer, 10) == list(range(10, 20))
        assert await consumer.poll(timeout=0.2) is None
        assert consumer.assignment == {1}


async def test_a_partition_that_is_missing_is_refused(client: Any, stream: str) -> None:
    async with client.consumer(stream, "t", partitions=[7]) as consumer:
        with pytest.raises(headrace.NotFound):
            await consumer.poll(timeout=60)


async def test_a_topic_that_is_missing_is_refused(client: Any, stream: str) -> None:
    for arguments in ({}, {"group": "g"}, {"name": "n"}, {"partitions": [0]}):
        async with client.consumer(stream, "missing", **arguments) as consumer:
            with pytest.raises(headrace.NotFound):
                await consumer.poll(timeout=60)


async def test_a_batch_knows_where_it_is(client: Any, stream: str) -> None:
    await send(client, stream, 0, 10)
    async with client.consumer(stream, "t", batch_messages=4) as consumer:
        batch = await consumer.poll(timeout=60)
        assert (batch.partition_id, batch.first_offset, batch.last_offset, batch.next_offset) == (0, 0, 3, 4)
        assert batch.partition_end == 10
        assert (len(batch), batch.payloads()) == (4, [b"0", b"1", b"2", b"3"])
        assert [message.offset for message in batch] == [message.offset for message in batch] == [0, 1, 2, 3]
        assert batch.size_bytes == 4 * 65
        following = [found async for found in _two(consumer)]
    assert [len(found) for found in following] == [4, 2]


async def _two(consumer: Any) -> Any:
    count = 0
    async for batch in consumer.batches():
        yield batch
        count += 1
        if count == 2:
            return


async def test_reading_begins_at_the_given_place(client: Any, stream: str) -> None:
    await send(client, stream, 0, 5)
    between = datetime.now(UTC)
    await send(client, stream, 5, 10)
    for start, first in ((headrace.FIRST, 0), ("first", 0), (7, 7), (headrace.at_offset(9), 9), (between, 5)):
        async with client.consumer(stream, "t", start=start, partitions=[0]) as consumer:
            assert await read(consumer, 1) == [first], start
            assert await consumer.position(0) == first + 1


async def test_reading_from_the_end_begins_with_what_comes(client: Any, stream: str) -> None:
    await send(client, stream, 0, 5)
    async with client.consumer(stream, "t", start=headrace.END, partitions=[0]) as consumer:
        assert await consumer.poll(timeout=0.2) is None
        assert await consumer.position(0) == 5
        await send(client, stream, 5, 7)
        assert await read(consumer, 2) == [5, 6]
    for start in (headrace.END, "end", 100, datetime.now(UTC)):
        async with client.consumer(stream, "t", start=start, partitions=[0]) as consumer:
            assert await consumer.poll(timeout=0.2) is None, start


async def test_a_place_can_be_chosen_while_reading(client: Any, stream: str) -> None:
    await send(client, stream, 0, 100)
    async with client.consumer(stream, "t", batch_messages=10, partitions=[0]) as consumer:
        assert await read(consumer, 5) == [0, 1, 2, 3, 4]
        await consumer.seek(0, 50)
        assert await read(consumer, 3) == [50, 51, 52]
        await consumer.seek(0, "first")
        assert await read(consumer, 12) == list(range(12))
        await consumer.seek(0, headrace.END)
        assert await consumer.poll(timeout=0.2) is None
        assert await consumer.lag() == {0: 0}
        await consumer.seek(0, 90)
        assert await consumer.position(0) == 90
        assert await consumer.lag() == {0: 10}
        with pytest.raises(headrace.InvalidArgument, match="partition: 1 is none of those that are read"):
            await consumer.seek(1, 0)
        assert await read(consumer, 10) == list(range(90, 100))


async def test_messages_and_batches_can_be_read_in_turn(client: Any, stream: str) -> None:
    await send(client, stream, 0, 30)
    async with client.consumer(stream, "t", batch_messages=10, partitions=[0]) as consumer:
        assert await read(consumer, 3) == [0, 1, 2]
        batch = await consumer.poll(timeout=60)
        assert batch.payloads() == [b"%d" % number for number in range(3, 13)]
        assert await read(consumer, 4) == [13, 14, 15, 16]
        assert await read(consumer, 4) == [17, 18, 19, 20]
        batch = await consumer.poll(timeout=60)
        assert batch.first_offset == 21


async def test_a_paused_partition_is_left_out(client: Any, stream: str) -> None:
    async with client.consumer(stream, "t") as consumer:
        # A pause without arguments is one of the assigned partitions.
        while not consumer.assignment:
            assert await consumer.poll(timeout=0.1) is None
        consumer.pause(0)
        await send(client, stream, 0, 5)
        await send(client, stream, 10, 15, partition=1)
        assert await read(consumer, 5) == [10, 11, 12, 13, 14]
        assert await consumer.poll(timeout=0.2) is None
        consumer.resume(0)
        assert await read(consumer, 5) == [0, 1, 2, 3, 4]
        consumer.pause()
        await send(client, stream, 5, 6)
        await send(client, stream, 15, 16, partition=1)
        assert await consumer.poll(timeout=0.2) is None
        consumer.resume()
        assert sorted(await read(consumer, 2)) == [5, 15]


async def test_processed_offsets_are_stored_at_the_end(client: Any, stream: str) -> None:
    await send(client, stream, 0, 10)
    async with client.consumer(stream, "t", name="n", commit_interval=600) as consumer:
        assert await read(consumer, 5) == [0, 1, 2, 3, 4]
        assert await offset_of(client, stream) is None
    # A message counts as processed when the next one is asked for.
    assert await offset_of(client, stream) == 3
    async with client.consumer(stream, "t", name="n") as consumer:
        assert await read(consumer, 6) == [4, 5, 6, 7, 8, 9]
        assert await consumer.poll(timeout=0.1) is None
    assert await offset_of(client, stream) == 9
    async with client.consumer(stream, "t", name="n", start="first") as consumer:
        assert await consumer.poll(timeout=0.2) is None


async def test_processed_offsets_are_stored_while_reading(client: Any, stream: str) -> None:
    await send(client, stream, 0, 10)
    async with client.consumer(stream, "t", name="n", commit_interval=0.05) as consumer:
        assert await consumer.poll(timeout=30) is not None
        # The wait for more begins to store what is due.
        async with asyncio.timeout(30):
            while await offset_of(client, stream) is None:
                assert await consumer.poll(timeout=0.5) is None
        assert await offset_of(client, stream) == 9


async def test_offsets_are_stored_by_hand(client: Any, stream: str) -> None:
    await send(client, stream, 0, 10)
    async with client.consumer(stream, "t", name="n", commit="manual", batch_messages=4) as consumer:
        found = [message async for message in _some(consumer, 3)]
        assert await offset_of(client, stream) is None
        await consumer.commit(found[1])
        assert await offset_of(client, stream) == 1
        await consumer.commit()
        assert await offset_of(client, stream) == 2
        # Offsets that are stored already are not stored again, and nothing goes backwards by accident.
        await consumer.commit(found[0])
        await consumer.commit()
        assert await offset_of(client, stream) == 2
    assert await offset_of(client, stream) == 2
    async with client.consumer(stream, "t", name="n", commit="manual") as consumer:
        assert await read(consumer, 1) == [3]
        # After a seek, an earlier place is meant.
        await consumer.seek(0, 0)
        assert await read(consumer, 1) == [0]
        await consumer.commit()
        assert await offset_of(client, stream) == 0


async def test_offsets_of_batches_that_were_read_to_their_end_are_stored(client: Any, stream: str) -> None:
    await send(client, stream, 0, 2)
    await send(client, stream, 2, 4, partition=1)
    async with client.consumer(stream, "t", name="n", commit="manual") as consumer:
        assert sorted(await read(consumer, 4)) == [0, 1, 2, 3]
        assert [await consumer.position(partition) for partition in (0, 1)] == [2, 2]
        await consumer.commit()
    assert [await offset_of(client, stream, partition=partition) for partition in (0, 1)] == [1, 1]


async def _some(consumer: Any, count: int) -> Any:
    seen = 0
    async for message in consumer:
        yield message
        seen += 1
        if seen == count:
            return


async def test_a_consumer_without_a_name_stores_nothing(client: Any, stream: str) -> None:
    await send(client, stream, 0, 5)
    async with client.consumer(stream, "t", partitions=[0]) as consumer:
        assert await read(consumer, 5) == [0, 1, 2, 3, 4]
        with pytest.raises(headrace.InvalidArgument, match="without a name or group"):
            await consumer.commit()
    async with client.consumer(stream, "t", partitions=[0]) as consumer:
        assert await read(consumer, 1) == [0]


async def test_reading_continues_at_the_beginning_of_a_purged_topic(client: Any, stream: str) -> None:
    await send(client, stream, 0, 5)
    async with client.consumer(stream, "t", name="n", commit_interval=600) as consumer:
        assert await read(consumer, 5) == [0, 1, 2, 3, 4]
        await client.purge_topic(stream, "t")
        await send(client, stream, 100, 103)
        assert await read(consumer, 3) == [100, 101, 102]
        assert consumer.gaps == []
        await consumer.commit()
        assert await offset_of(client, stream) == 2


async def test_partitions_that_are_added_are_read(client: Any, stream: str) -> None:
    async with client.consumer(stream, "t", heartbeat=0.05) as consumer:
        assert await consumer.poll(timeout=0.1) is None
        await client.create_partitions(stream, "t", 1)
        await send(client, stream, 0, 3, partition=2)
        assert await read(consumer, 3) == [0, 1, 2]
        assert consumer.assignment == {0, 1, 2}


async def test_a_topic_that_is_deleted_ends_its_consumers(client: Any, stream: str) -> None:
    await client.create_topic(stream, "gone")
    async with client.consumer(stream, "gone", heartbeat=0.05) as consumer:
        assert await consumer.poll(timeout=0.1) is None
        await client.delete_topic(stream, "gone")
        with pytest.raises(headrace.NotFound):
            await consumer.poll(timeout=60)
        # It has ended, and says so.
        with pytest.raises(headrace.ClientClosed):
            await consumer.poll(timeout=60)


async def test_a_closed_consumer_reads_nothing(client: Any, stream: str) -> None:
    await send(client, stream, 0, 5)
    async with client.consumer(stream, "t", name="n") as consumer:
        assert await read(consumer, 1) == [0]
        await consumer.close()
        with pytest.raises(headrace.ClientClosed):
            await consumer.poll(timeout=60)
        with pytest.raises(headrace.ClientClosed):
            await read(consumer, 5)
        with pytest.raises(headrace.ClientClosed):
            await consumer.seek(0, 0)
        with pytest.raises(headrace.ClientClosed):
            await consumer.commit()
        await consumer.close()


async def test_an_exception_of_a_callback_is_the_reader_s(client: Any, stream: str) -> None:
    await send(client, stream, 0, 1)

    def refuse(_partitions: object) -> None:
        raise ZeroDivisionError

    async with client.consumer(stream, "t", on_assigned=refuse) as consumer:
        with pytest.raises(ZeroDivisionError):
            await consumer.poll(timeout=60)
        # It was called once; reading goes on.
        assert await read(consumer, 1) == [0]
