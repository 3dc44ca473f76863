"""Staged batches, invisible until a transaction is committed (SPK-1)."""

import asyncio
import secrets
import time

import grpc
import pytest
import xxhash
from grpc import aio
from partition_world import (
    ELSEWHERE,
    HERE,
    MEBIBYTE,
    THERE,
    TOPIC,
    batch,
    messages_of,
    place,
    placement,
    refused,
    running,
)

from headrace_proto.catalog.v1 import Delta, Update
from headrace_proto.errors import Status
from headrace_proto.partition.v1 import StageRequest


async def stage(world, partition, batches, metadata=None, lifetime_seconds=60):
    requests = [StageRequest(place=place(partition), lifetime_seconds=lifetime_seconds)]
    requests += [StageRequest(messages_count=len(messages), batch=batch(messages)) for messages in batches]
    return await world.stub.Stage(requests, metadata=metadata or world.shown())


async def test_what_is_staged_is_named_and_not_seen(world):
    await world.append(0, [[b"seen"]])
    batches = [[b"%d of %d" % (number, count) for number in range(count)] for count in (1, 10, 100, 1000)]
    staged = await stage(world, 0, batches)
    assert staged.messages_count == 1111
    assert staged.digest == xxhash.xxh3_64_intdigest(b"".join(map(batch, batches)))
    assert staged.size_bytes == sum(64 + len(payload) for each in batches for payload in each)
    expires_at_micros = int.from_bytes(staged.stage_id[:8], "big")
    assert len(staged.stage_id) == 16
    assert 50 < expires_at_micros / 1_000_000 - time.time() < 70
    other = await stage(world, 0, [[b"another"]])
    assert other.stage_id != staged.stage_id
    assert [message.payload for message in messages_of(await world.fetch(0))] == [b"seen"]
    await world.append(0, [[b"later"]])
    assert [message.offset for message in messages_of(await world.fetch(0))] == [0, 1]


async def test_the_first_request_may_have_a_batch_and_there_may_be_none(world):
    requests = [StageRequest(place=place(1), messages_count=2, batch=batch([b"one", b"two"]))]
    assert (await world.stub.Stage(requests, metadata=world.shown())).messages_count == 2
    assert (await stage(world, 1, [])).messages_count == 0


async def test_more_batches_than_are_on_their_way_at_a_time(world):
    batches = [[secrets.token_bytes(1000)] * 10 for _ in range(100)]
    assert (await stage(world, 2, batches)).messages_count == 1000


async def test_stages_share_little_memory(tmp_path):
    """A call waits for memory only while holding none, so that all calls complete."""
    async with running(tmp_path, memory_bytes=3 * MEBIBYTE) as world:
        batches = [[secrets.token_bytes(MEBIBYTE)] for _ in range(4)]
        async with asyncio.timeout(60):
            staged = await asyncio.gather(*(stage(world, number % 3, batches) for number in range(6)))
        assert [one.messages_count for one in staged] == [4] * 6


@pytest.mark.parametrize("rights", [{"incarnation": 20, "write": False}, {"incarnation": 19}])
async def test_it_takes_a_ticket_to_write(world, rights):
    async with refused(Status.INVALID_TICKET, grpc.StatusCode.UNAUTHENTICATED):
        await stage(world, 0, [[b"x"]], world.shown(**rights))
    async with refused(Status.PARTITION_ELSEWHERE, grpc.StatusCode.UNAVAILABLE):
        await stage(world, ELSEWHERE, [[b"x"]])


@pytest.mark.parametrize(
    "requests",
    [
        [],
        [StageRequest(messages_count=1, batch=batch([b"whereto"]))],
        [StageRequest(place=place(0)), StageRequest(place=place(1))],
        [StageRequest(place=place(0)), StageRequest(lifetime_seconds=1)],
    ],
)
async def test_requests_that_do_not_begin_as_they_should(world, requests):
    async with refused(Status.INVALID_COMMAND, grpc.StatusCode.INVALID_ARGUMENT):
        await world.stub.Stage(requests, metadata=world.shown())


async def test_a_bad_batch_ends_the_call(world):
    requests = [StageRequest(place=place(0), messages_count=2, batch=batch([b"one only"]))]
    async with refused(Status.MISSING_INDEX, grpc.StatusCode.INVALID_ARGUMENT):
        await world.stub.Stage(requests, metadata=world.shown())


async def test_a_stage_of_a_partition_that_leaves_is_not_sealed(world):
    call = world.stub.Stage(metadata=world.shown())
    await call.write(StageRequest(place=place(0), messages_count=1, batch=batch([b"x"])))
    await asyncio.sleep(0.1)
    moved = placement(TOPIC, THERE, HERE, HERE, THERE)
    world.publish(Update(version=2, deltas=[Delta(topic_placement_put=moved)]))
    await call.done_writing()
    async with refused(Status.PARTITION_ELSEWHERE, grpc.StatusCode.UNAVAILABLE):
        await call


async def test_a_caller_who_leaves_holds_nothing(world):
    call = world.stub.Stage(metadata=world.shown())
    await call.write(StageRequest(place=place(0), messages_count=1, batch=batch([b"x"])))
    await asyncio.sleep(0.1)
    call.cancel()
    with pytest.raises((asyncio.CancelledError, aio.AioRpcError)):
        await call
    # The fixture checks at the end of every test that no memory is held.
