"""Producers of both flavours: results, batches, partitions, refusals, and ends."""

from __future__ import annotations

from typing import Any

import pytest

import headrace
from tests.sdk.flavours import Flavour


async def payloads(client: Any, stream: str, partition: int = 0, count: int = 1000) -> list[bytes]:
    batch = await client.read(stream, "t", partition=partition, count=count)
    return [message.payload for message in batch]


async def test_each_message_has_its_place(client: Any, stream: str) -> None:
    async with client.producer(stream, "t") as producer:
        deliveries = [await producer.send(b"%d" % number, partition=number % 2) for number in range(10)]
        places = [await delivery for delivery in deliveries]
        assert all(delivery.done() for delivery in deliveries)
    assert [(place.partition_id, place.offset) for place in places] == [(n % 2, n // 2) for n in range(10)]
    assert await payloads(client, stream, 1) == [b"1", b"3", b"5", b"7", b"9"]


async def test_many_messages_are_reported_as_runs(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", batch_messages=100) as producer:
        deliveries = await producer.send_many([b"%d" % number for number in range(250)], partition=1)
        runs = await deliveries
        assert len(deliveries) == 250
        assert deliveries.done()
        assert producer.counters.batches_sent == producer.counters.batches_delivered == 3
    assert [(place.partition_id, place.offset, count) for place, count in runs] == [
        (1, 0, 100),
        (1, 100, 100),
        (1, 200, 50),
    ]
    assert await payloads(client, stream, 1) == [b"%d" % number for number in range(250)]


async def test_nothing_may_be_sent_at_once(client: Any, stream: str) -> None:
    async with client.producer(stream, "t") as producer:
        deliveries = await producer.send_many([])
        assert (len(deliveries), deliveries.done(), await deliveries) == (0, True, [])
        await (await producer.send(b"", partition=0))
    assert await payloads(client, stream) == [b""]


async def test_a_key_selects_the_partition_and_keeps_order(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", batch_messages=7) as producer:
        deliveries = [
            (key, await producer.send(b"%d:%d" % (key, number), key=b"%d" % key))
            for number in range(20)
            for key in range(10, 30)
        ]
        chosen: dict[int, set[int]] = {}
        for key, delivery in deliveries:
            chosen.setdefault(key, set()).add((await delivery).partition_id)
    assert all(len(partitions) == 1 for partitions in chosen.values())
    assert len(set.union(*chosen.values())) == 2
    for partition in range(2):
        for key in range(10, 30):
            of_key = [payload for payload in await payloads(client, stream, partition) if payload[:2] == b"%d" % key]
            assert of_key in ([], [b"%d:%d" % (key, number) for number in range(20)])


async def test_without_key_and_partition_batches_take_turns(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", batch_messages=10) as producer:
        await (await producer.send_many([b"%d" % number for number in range(100)]))
    assert [len(await payloads(client, stream, partition)) for partition in range(2)] == [50, 50]


async def test_a_batch_waits_for_more_until_it_is_flushed(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", linger=600) as producer:
        deliveries = [await producer.send(b"%d" % number, partition=0) for number in range(100)]
        assert not any(delivery.done() for delivery in deliveries)
        assert producer.counters.batches_sent == 0
        assert producer.counters.buffered_bytes > 100
        await producer.flush()
        assert all(delivery.done() for delivery in deliveries)
        assert producer.counters == headrace.ProducerCounters(0, 1, 0, 1)


async def test_a_batch_that_is_full_does_not_wait(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", linger=600, batch_messages=10) as producer:
        await (await producer.send_many([b"x"] * 10, partition=0))
        assert producer.counters.batches_delivered == 1
    async with client.producer(stream, "t", linger=600, batch_bytes=1000) as producer:
        first = await producer.send(b"x" * 800, partition=0)
        await producer.send(b"x" * 800, partition=0)
        await first
        # A message may be larger than a batch.
        large = await producer.send(b"x" * 100_000, partition=0)
        await producer.flush()
        assert (await large).offset == 12


async def test_a_full_buffer_is_sent_without_waiting_for_more(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", linger=600, buffer_bytes=10_000) as producer:
        for number in range(50):
            await producer.send(b"%d" % number * 1000, partition=0)
        counters = producer.counters
        assert counters.batches_delivered > 0
        assert 0 < counters.buffered_bytes <= 10_000
        await producer.send_many([b"x" * 1000] * 50, partition=0)
    assert len(await payloads(client, stream)) == 100


async def test_a_message_may_be_as_large_as_the_buffer(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", buffer_bytes=1000) as producer:
        for _ in range(3):
            await producer.send(b"x" * 5000, partition=0)
    assert [len(payload) for payload in await payloads(client, stream)] == [5000] * 3


async def test_a_topic_that_is_missing_is_refused_at_once(client: Any, stream: str) -> None:
    for names in ((stream, "missing"), ("missing", "t"), (99_999, 1)):
        with pytest.raises(headrace.NotFound):
            async with client.producer(*names):
                pass


async def test_numbers_are_names_as_well(client: Any, stream: str) -> None:
    found = await client.topic(stream, "t")
    stream_id = (await client.stream(stream)).id
    async with client.producer(stream_id, found.id) as producer:
        await (await producer.send(b"x", partition=0))
        assert producer.partitions_count == 2
    assert await payloads(client, stream) == [b"x"]


async def test_a_message_for_no_partition_is_refused(client: Any, stream: str) -> None:
    async with client.producer(stream, "t") as producer:
        with pytest.raises(headrace.InvalidArgument, match="partition 2"):
            await producer.send(b"x", partition=2)
        await (await producer.send(b"x", partition=1))


async def test_a_message_that_is_too_large_is_refused_and_others_are_not(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", buffer_bytes=1 << 28) as producer:
        before = await producer.send(b"before", partition=0)
        with pytest.raises((headrace.InvalidArgument, headrace.RequestRefused)) as refused:
            await (await producer.send(b"x" * (65 << 20), partition=0))
        assert not refused.value.retryable
        after = await producer.send(b"after", partition=0)
        assert ((await before).offset, (await after).offset) == (0, 1)


async def test_a_topic_that_is_deleted_meanwhile_fails_its_messages(client: Any, stream: str) -> None:
    await client.create_topic(stream, "gone")
    async with client.producer(stream, "gone") as producer:
        await (await producer.send(b"x"))
        await client.delete_topic(stream, "gone")
        with pytest.raises(headrace.NotFound):
            await (await producer.send(b"x"))


async def test_a_user_without_the_permission_is_refused(client: Any, stream: str, url: str, flavour: Flavour) -> None:
    name = f"u{abs(hash(stream)) % 10**9}"
    reading = headrace.GlobalPermissions(read_streams=True, read_topics=True, poll_messages=True)
    await client.create_user(name, "a secret", permissions=headrace.Permissions(everywhere=reading))
    host = url.rpartition("@")[2]
    async with flavour.connect(f"headrace://{name}:a%20secret@{host}") as other:
        async with other.producer(stream, "t") as producer:
            with pytest.raises(headrace.PermissionDenied) as refused:
                await (await producer.send(b"x"))
            assert (refused.value.code, refused.value.retryable) == (41, False)
        with pytest.raises(headrace.PermissionDenied):
            await other.create_stream("another")
    assert await payloads(client, stream) == []


async def test_the_end_raises_a_failure_whose_result_was_not_asked_for(client: Any, stream: str) -> None:
    await client.create_topic(stream, "gone")

    async def send_and_end() -> None:
        async with client.producer(stream, "gone") as producer:
            await client.delete_topic(stream, "gone")
            await producer.send(b"x")

    with pytest.raises(headrace.NotFound):
        await send_and_end()
    await client.create_topic(stream, "gone")
    async with client.producer(stream, "gone") as producer:
        await client.delete_topic(stream, "gone")
        delivery = await producer.send(b"x")
        with pytest.raises(headrace.NotFound):
            await delivery
        # It was asked for, so the end is quiet; flush raises it once.
        await producer.send(b"y")
        with pytest.raises(headrace.NotFound):
            await producer.flush()
        await producer.flush()


async def test_a_failure_stays_until_each_of_its_messages_was_asked_for(client: Any, stream: str) -> None:
    await client.create_topic(stream, "gone")

    async def send_and_ask_for_one() -> None:
        async with client.producer(stream, "gone", linger=600, batch_messages=2) as producer:
            await client.delete_topic(stream, "gone")
            x = await producer.send(b"x", partition=0)
            y = await producer.send(b"y", partition=0)
            for _ in range(3):
                with pytest.raises(headrace.NotFound):
                    await x
            assert y.done()

    with pytest.raises(headrace.NotFound):
        await send_and_ask_for_one()
    await client.create_topic(stream, "gone")
    async with client.producer(stream, "gone", linger=600, batch_messages=4) as producer:
        await client.delete_topic(stream, "gone")
        for asks_for_all in (False, True):
            x = await producer.send(b"x", partition=0)
            several = await producer.send_many([b"1", b"2"], partition=0)
            y = await producer.send(b"y", partition=0)
            for delivery in (several, x, several, *([y] if asks_for_all else [])):
                with pytest.raises(headrace.NotFound):
                    await delivery
            if not asks_for_all:
                with pytest.raises(headrace.NotFound):
                    await producer.flush()
            await producer.flush()
        # Messages of three batches are asked for together, and those of the last one in part.
        several = await producer.send_many([b"%d" % number for number in range(10)], partition=0)
        await producer.send(b"x", partition=0)
        y = await producer.send(b"y", partition=0)
        for delivery in (several, y):
            with pytest.raises(headrace.NotFound):
                await delivery
        with pytest.raises(headrace.NotFound):
            await producer.flush()
        several = await producer.send_many([b"%d" % number for number in range(12)], partition=0)
        with pytest.raises(headrace.NotFound):
            await several


async def test_failures_that_were_handled_do_not_displace_later_ones(client: Any, stream: str) -> None:
    await client.create_topic(stream, "gone")
    async with client.producer(stream, "gone", linger=600, batch_messages=1) as producer:
        await client.delete_topic(stream, "gone")
        deliveries = [await producer.send(b"x", partition=0) for _ in range(1500)]
        for delivery in deliveries:
            with pytest.raises(headrace.NotFound):
                await delivery
        await producer.send(b"y", partition=0)
        with pytest.raises(headrace.NotFound):
            await producer.flush()


async def test_a_closed_producer_takes_nothing(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", linger=600) as producer:
        delivery = await producer.send(b"x", partition=0)
        await producer.close()
        assert (await delivery).offset == 0
        for send in (producer.send(b"y"), producer.send_many([b"y"])):
            with pytest.raises(headrace.ClientClosed):
                await send
        await producer.close()
        await producer.flush()


async def test_an_aborted_producer_gives_up_what_it_has(client: Any, stream: str) -> None:
    async with client.producer(stream, "t", linger=600) as producer:
        delivery = await producer.send(b"x", partition=0)
        producer.abort()
        with pytest.raises(headrace.ClientClosed):
            await delivery
        with pytest.raises(headrace.ClientClosed):
            await producer.send(b"y")
        producer.abort()
    assert await payloads(client, stream) == []


async def test_an_exception_gives_up_what_is_buffered(client: Any, stream: str) -> None:
    async def send_and_fail() -> None:
        async with client.producer(stream, "t", linger=600) as producer:
            await producer.send(b"x", partition=0)
            raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        await send_and_fail()
    assert await payloads(client, stream) == []
