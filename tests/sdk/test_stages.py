"""Stages and transactions, of both flavours: messages of several topics count together, once, or not at all."""

from __future__ import annotations

import asyncio
import json
from datetime import timedelta
from typing import Any

import pytest

import headrace
from headrace import Outgoing, Stage

FENCED, ABORTED = 20300, 20302


async def payloads(client: Any, stream: str, topic: str, count: int, partition: int = 0) -> list[bytes]:
    """Payloads of a partition, when there are so many: they are appended soon after a commit."""
    async with asyncio.timeout(30):
        while True:
            found = [message.payload for message in await client.read(stream, topic, partition=partition, count=1000)]
            if len(found) >= count:
                return found
            await asyncio.sleep(0.01)


async def test_staged_messages_are_committed_together_and_once(client: Any, stream: str) -> None:
    """CON-61: invisible before the commit; a repeated commit changes nothing."""
    await client.create_topic(stream, "other")
    async with client.direct_producer() as producer:
        staged = await producer.stage_groups(
            {
                (stream, "t"): [Outgoing(b"a", partition=1, headers={"n": 1}, message_id=7), Outgoing(b"b", key="k")],
                (stream, "other"): [b"c", b"d"],
                (stream, "missing"): [b"e"],
            }
        )
        assert isinstance(staged.pop((stream, "missing")), headrace.NotFound)
        stages = [stage for of_topic in staged.values() for stage in of_topic]
        assert sum(stage.messages_count for stage in stages) == 4
        await producer.send_to(stream, "other", b"between")
    assert await payloads(client, stream, "other", 0) == [b"between"]
    # Another process may commit them.
    stages = [Stage(*fields) for fields in json.loads(json.dumps(stages))]
    for already in (False, True):
        result = await client.commit_transaction(stream, "import", "run-1", 1, stages)
        assert result.already_committed == already
    assert await payloads(client, stream, "other", 3) == [b"between", b"c", b"d"]
    await payloads(client, stream, "t", 1, partition=1)
    (first,) = [one for one in await client.read(stream, "t", partition=1) if one.payload == b"a"]
    assert (first.id, first.headers) == (7, {"n": 1})
    last = await client.transaction(stream, "import")
    assert (last.query_id, last.batch_id) == ("run-1", 1)


async def test_large_calls_are_staged_in_parts_and_in_order(client: Any, stream: str) -> None:
    """CON-61."""
    sent = [b"%06d" % number for number in range(800)]
    async with client.direct_producer(batch_bytes=10_000) as producer:
        stages = await producer.stage(stream, "t", [Outgoing(one, partition=0) for one in sent])
    assert len(stages) > 5
    await client.commit_transaction(stream, "import", "run-1", 1, stages)
    assert await payloads(client, stream, "t", len(sent)) == sent


async def test_one_writer_has_the_name_of_a_transaction(client: Any, stream: str) -> None:
    """CON-61: another one is refused, unless it fences; discarded stages cannot be committed."""
    async with client.direct_producer() as producer:
        await client.commit_transaction(stream, "import", "run-1", 1, await producer.stage(stream, "t", b"a"))
        stages = await producer.stage(stream, "t", b"b", lifetime=timedelta(minutes=1))
        with pytest.raises(headrace.RequestRefused) as refused:
            await client.commit_transaction(stream, "import", "run-2", 1, stages)
        assert refused.value.code == FENCED
        await client.commit_transaction(stream, "import", "run-2", 0, [], fence=True)
        with pytest.raises(headrace.RequestRefused) as refused:
            await client.commit_transaction(stream, "import", "run-1", 2, stages)
        assert refused.value.code == FENCED
        await client.abort_transaction(stream, "import", "run-2", 1, stages)
        with pytest.raises(headrace.RequestRefused) as refused:
            await client.commit_transaction(stream, "import", "run-2", 1, stages)
        assert refused.value.code == ABORTED


async def test_a_stage_of_a_topic_that_was_made_anew_is_refused(client: Any, stream: str) -> None:
    """CON-61: the producer looks the new topic up by itself, before long."""
    async with client.direct_producer() as producer:
        stages = await producer.stage(stream, "t", b"old")
        await client.delete_topic(stream, "t")
        await client.create_topic(stream, "t")
        with pytest.raises(headrace.NotFound):
            await client.commit_transaction(stream, "import", "run-1", 1, stages)
        async with asyncio.timeout(30):
            while True:
                try:
                    await client.commit_transaction(
                        stream, "import", "run-1", 1, await producer.stage(stream, "t", b"new")
                    )
                except headrace.NotFound:
                    await asyncio.sleep(0.05)
                else:
                    break
    assert await payloads(client, stream, "t", 1) == [b"new"]


async def test_a_stage_of_a_partition_that_was_made_anew_is_refused(client: Any, stream: str) -> None:
    """CON-61: the topic is the same, and has as many partitions as before."""
    messages = [Outgoing(b"new", partition=1)]
    async with client.direct_producer() as producer:
        stages = await producer.stage(stream, "t", messages)
        await client.delete_partitions(stream, "t", 1)
        await client.create_partitions(stream, "t", 1)
        with pytest.raises(headrace.NotFound):
            await client.commit_transaction(stream, "import", "run-1", 1, stages)
        async with asyncio.timeout(30):
            while True:
                try:
                    await client.commit_transaction(
                        stream, "import", "run-1", 1, await producer.stage(stream, "t", messages)
                    )
                except headrace.NotFound:
                    await asyncio.sleep(0.05)
                else:
                    break
    assert await payloads(client, stream, "t", 1, partition=1) == [b"new"]


@pytest.mark.parametrize("lifetime", [timedelta(0), timedelta(milliseconds=10), timedelta(days=8)])
async def test_a_lifetime_that_no_stage_can_have(client: Any, stream: str, lifetime: timedelta) -> None:
    """CON-61."""
    async with client.direct_producer() as producer:
        with pytest.raises(headrace.InvalidArgument, match="between a second and a week"):
            await producer.stage(stream, "t", b"a", lifetime=lifetime)
