"""Messages that are removed while they are read: by deleted segments, and by retention."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import headrace
from tests.conftest import TWO_SHARDS, ended_well
from tests.sdk.conftest import url_of
from tests.sdk.flavours import Flavour
from tests.server_process import ServerProcess

SMALL_SEGMENTS = {"SYSTEM_SEGMENT_SIZE": "64 KiB"}
PAYLOAD = b"x" * 1000


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    with ServerProcess(tmp_path_factory.mktemp("small") / "data", TWO_SHARDS | SMALL_SEGMENTS) as server:
        yield server
    ended_well(server)


async def send(client: Any, stream: str, count: int) -> None:
    async with client.producer(stream, "t", batch_messages=10) as producer:
        await producer.send_many([PAYLOAD] * count, partition=0)


async def test_removed_messages_are_reported_as_a_gap(
    small: ServerProcess, flavour: Flavour, stream: str, caplog: pytest.LogCaptureFixture
) -> None:
    async with flavour.connect(url_of(small.address)) as client:
        await client.create_stream(stream)
        await client.create_topic(stream, "t")
        await send(client, stream, 10)
        async with client.consumer(stream, "t", partitions=[0], batch_messages=10) as consumer:
            first = await consumer.poll(timeout=60)
            consumer.pause(0)
            await send(client, stream, 500)
            await client.delete_segments(stream, "t", 0, 3)
            (partition,) = (await client.topic(stream, "t")).partitions
            assert partition.segments_count > 2
            consumer.resume(0)
            second = await consumer.poll(timeout=60)
            assert (first.next_offset, consumer.gaps) == (10, [headrace.Gap(0, 10, second.first_offset)])
            assert second.first_offset > 100
            last = second
            while last.next_offset < 510:
                batch = await consumer.poll(timeout=60)
                assert batch.first_offset == last.next_offset
                last = batch
            assert last.next_offset == 510
            assert len(consumer.gaps) == 1
    assert f"partition 0: messages from 10 to {second.first_offset} were removed before they were read" in caplog.text


async def test_a_topic_that_keeps_little_is_read_from_what_is_left(
    small: ServerProcess, flavour: Flavour, stream: str
) -> None:
    async with flavour.connect(url_of(small.address)) as client:
        await client.create_stream(stream)
        await client.create_topic(stream, "t")
        await send(client, stream, 300)
        await client.delete_segments(stream, "t", 0, 2)
        async with client.consumer(stream, "t", name="n", start="first") as consumer:
            first = await consumer.poll(timeout=60)
            assert first.first_offset > 0
            # No consumer had begun to read what is gone.
            assert consumer.gaps == []
        async with client.consumer(stream, "t", partitions=[0], start=5) as consumer:
            assert (await consumer.poll(timeout=60)).first_offset == first.first_offset
            assert consumer.gaps == [headrace.Gap(0, 5, first.first_offset)]
