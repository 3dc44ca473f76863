"""Reading and writing of raw batches."""

import asyncio
import itertools
import secrets
import time

import grpc
import pytest
import xxhash
from grpc import aio
from partition_world import (
    HERE,
    MEBIBYTE,
    STREAM,
    THERE,
    TOPIC,
    batch,
    messages_of,
    place,
    placement,
    refused,
    running,
    topic,
)

import headrace_core as core
from headrace_node.connections.sessions import Session
from headrace_partition_node.grpc import fetching
from headrace_proto.catalog.v1 import (
    Delta,
    Update,
)
from headrace_proto.errors import Status
from headrace_proto.partition.v1 import (
    AppendRequest,
    DrainRequest,
    FetchRange,
    FetchRequest,
    GetOffsetsRequest,
    GetStatisticsRequest,
    PlanRangeRequest,
    TopicKey,
)


async def test_what_was_appended_is_fetched(world):
    """Messages are complete and in order, with offsets from 0, in the format of poll answers of the binary protocol."""
    batches = [[b"%d of %d" % (number, count) for number in range(count)] for count in (1, 10, 100, 1000)]
    assert len(await world.append(1, batches)) == 4
    responses = await world.fetch(1)
    messages = messages_of(responses)
    assert [message.payload for message in messages] == [payload for each in batches for payload in each]
    assert [message.offset for message in messages] == list(range(1111))
    assert [response.done for response in responses] == [False] * (len(responses) - 1) + [True]
    assert responses[-1].next_offset == 1111
    assert not messages_of(await world.fetch(0))


@pytest.mark.parametrize(
    "wanted", [{}, {"start_offset": 500}, {"response_bytes": 1}, {"start_offset": 2000}, {"end_offset": 0}]
)
async def test_the_last_response_says_what_all_had(world, wanted):
    """The number of messages and the digest let a reader detect missing data (SPK-1)."""
    await world.append(2, [[b"%d" % number for number in range(1000)]])
    responses = await world.fetch(2, **wanted)
    assert responses[-1].messages_count == len(messages_of(responses))
    assert responses[-1].digest == xxhash.xxh3_64_intdigest(b"".join(response.polled for response in responses))
    assert {(response.messages_count, response.digest) for response in responses[:-1]} <= {(0, 0)}


@pytest.mark.parametrize(
    ("wanted", "offsets", "next_offset"),
    [
        ({"start_offset": 40}, range(40, 100), 100),
        ({"start_offset": 40, "end_offset": 41}, range(40, 41), 41),
        ({"end_offset": 10}, range(10), 10),
        ({"start_offset": 100}, range(0), 100),
        ({"start_offset": 70, "end_offset": 60}, range(0), 70),
        ({"start_offset": 500}, range(0), 500),
        ({"response_bytes": 1}, range(100), 100),
    ],
)
async def test_ranges(world, wanted, offsets, next_offset):
    await world.append(0, [[b"x" * 100] * 100])
    responses = await world.fetch(0, **wanted)
    assert [message.offset for message in messages_of(responses)] == list(offsets)
    assert (responses[-1].done, responses[-1].next_offset) == (True, next_offset)
    if "response_bytes" in wanted:
        # The minimum size of responses, once the message size is known.
        assert [len(messages_of([response])) for response in responses[1:]] == [1] * (len(responses) - 1)


async def test_messages_that_are_still_to_come_are_waited_for(world):
    await world.append(0, [[b"early"]])
    fetching = asyncio.create_task(world.fetch(0, end_offset=3))
    await asyncio.sleep(0.1)
    assert not fetching.done()
    await world.append(0, [[b"later"]])
    await asyncio.sleep(0.05)
    await world.append(0, [[b"last", b"too late"]])
    assert [message.payload for message in messages_of(await fetching)] == [b"early", b"later", b"last"]


async def test_no_more_is_sent_than_there_is_credit_for(world):
    """GRPC: byte credit; one response may exceed it, the next one waits."""
    await world.append(0, [[b"x" * 1000] * 500] * 4)
    call = world.stub.Fetch(metadata=world.shown())
    wanted = FetchRange(place=place(0), response_bytes=50_000, credit_bytes=1)
    await call.write(FetchRequest(range=wanted))
    first = await call.read()
    received = messages_of([first])
    waiting = asyncio.create_task(call.read())
    await asyncio.sleep(0.2)
    assert not waiting.done()
    await call.write(FetchRequest(credit_bytes=len(first.polled) + 100_000))
    second = await waiting
    received += messages_of([second])
    await call.write(FetchRequest(credit_bytes=100_000_000))
    while (response := await call.read()) is not aio.EOF:
        received += messages_of([response])
        last = response
    assert [message.offset for message in received] == list(range(2000))
    assert last.done


async def test_a_caller_who_gives_no_more_credit_gets_no_more(world):
    await world.append(0, [[b"x" * 1000] * 500])
    responses = await world.fetch(0, credit_bytes=1, response_bytes=10_000)
    assert len(responses) == 1
    assert not responses[0].done
    assert responses[0].next_offset == len(messages_of(responses))


async def test_offsets(world):
    await world.append(0, [[b"one"]])
    await asyncio.sleep(0.01)
    between = time.time_ns() // 1000
    await asyncio.sleep(0.01)
    await world.append(0, [[b"two", b"three"]])
    request = GetOffsetsRequest(stream_id=STREAM, topic_id=TOPIC, partition_ids=[2, 0], timestamp_micros=between)
    two, zero = (await world.stub.GetOffsets(request, metadata=world.shown())).partitions
    assert (two.partition_id, two.first_offset, two.next_offset, two.offset_of_timestamp) == (2, 0, 0, 0)
    assert (zero.partition_id, zero.first_offset, zero.next_offset, zero.offset_of_timestamp) == (0, 0, 3, 1)
    assert (two.incarnation, zero.incarnation) == (102, 100)

    request.timestamp_micros = time.time_ns() // 1000 + 1_000_000
    _, zero = (await world.stub.GetOffsets(request, metadata=world.shown())).partitions
    assert zero.offset_of_timestamp == 3
    request.ClearField("timestamp_micros")
    _, zero = (await world.stub.GetOffsets(request, metadata=world.shown())).partitions
    assert not zero.HasField("offset_of_timestamp")


async def test_a_range_is_planned_in_parts_that_are_all_of_it(tmp_path):
    """Parts are consecutive, and their contents together equal the whole range (SPK-1)."""
    async with running(tmp_path, segment_bytes=256 * 1024) as world:
        for number in range(8):
            await world.append(0, [[b"%d" % number * 1000] * 100])

        async def plan(metadata=None, **wanted):
            request = PlanRangeRequest(place=place(0), **wanted)
            return await world.stub.PlanRange(request, metadata=metadata or world.shown())

        planned = await plan(start_offset=10, end_offset=750, target_bytes=100_000)
        assert (planned.incarnation, planned.purge_epoch) == (100, 0)
        assert (planned.first_offset, planned.next_offset) == (0, 800)
        starts = [part.start_offset for part in planned.parts]
        assert starts[0] == 10
        assert len(starts) > 3
        fetched = []
        for start, end in itertools.pairwise([*starts, 750]):
            fetched += messages_of(await world.fetch(0, start_offset=start, end_offset=end))
        assert [message.offset for message in fetched] == list(range(10, 750))
        assert sum(part.size_bytes for part in planned.parts) == pytest.approx(740 * 1064, rel=0.3)
        assert len((await plan()).parts) == 1
        assert [part.start_offset for part in (await plan(start_offset=300)).parts] == [300]
        assert not (await plan(start_offset=800)).parts
        topic_only = {"incarnation": 20}
        assert (await plan(world.shown(**topic_only, write=False))).parts
        async with refused(Status.INVALID_TICKET, grpc.StatusCode.UNAUTHENTICATED):
            await plan(world.shown(**topic_only, read=False))
        async with refused(Status.PARTITION_ELSEWHERE, grpc.StatusCode.UNAVAILABLE):
            await world.stub.PlanRange(PlanRangeRequest(place=place(3)), metadata=world.shown())


async def test_statistics_and_draining(world):
    await world.append(0, [[b"x" * 10] * 7])
    request = GetStatisticsRequest(topics=[TopicKey(stream_id=STREAM, topic_id=TOPIC)])
    statistics = await world.stub.GetStatistics(request, metadata=world.shown())
    assert statistics.node_name == "here"
    assert [one.place.partition_id for one in statistics.partitions] == [0, 1, 2]
    assert [one.messages_count for one in statistics.partitions] == [7, 0, 0]
    assert statistics.partitions[0].current_offset == 6
    await world.stub.Drain(DrainRequest(is_draining=True), metadata=world.shown())
    assert world.this_node.drained == [True]


async def test_batches_that_are_refused_end_the_call_behind_the_answers_before(world):
    call = world.stub.Append(metadata=world.shown())
    await call.write(AppendRequest(place=place(0), messages_count=1, batch=batch([b"good"])))
    await call.write(AppendRequest(messages_count=2, batch=batch([b"one only"])))
    assert await call.read() is not None
    async with refused(Status.MISSING_INDEX, grpc.StatusCode.INVALID_ARGUMENT):
        await call.read()
    assert [message.payload for message in messages_of(await world.fetch(0))] == [b"good"]


async def test_calls_end_when_their_partition_leaves(world, monkeypatch):
    """A waiting call ends, too: it must not delay the move of the partition."""
    # Otherwise the call would check again by itself after a while.
    monkeypatch.setattr(fetching, "_WAIT_SECONDS", 600.0)
    await world.append(0, [[b"x"]])
    reading = world.stub.Fetch(
        iter([FetchRequest(range=FetchRange(place=place(0), end_offset=10))]), metadata=world.shown()
    )
    assert [message.payload for message in messages_of([await reading.read()])] == [b"x"]
    appending = world.stub.Append(metadata=world.shown())
    await appending.write(AppendRequest(place=place(0), messages_count=1, batch=batch([b"y"])))
    assert await appending.read() is not None
    assert [message.payload for message in messages_of([await reading.read()])] == [b"y"]
    # The call is waiting by now, or about to.
    await asyncio.sleep(0.1)
    moved = placement(TOPIC, THERE, HERE, HERE, THERE)
    world.publish(Update(version=2, deltas=[Delta(topic_placement_put=moved)]))
    async with asyncio.timeout(30):
        async with refused(Status.PARTITION_ELSEWHERE, grpc.StatusCode.UNAVAILABLE):
            await reading.read()
        await appending.write(AppendRequest(messages_count=1, batch=batch([b"z"])))
        async with refused(Status.PARTITION_ELSEWHERE, grpc.StatusCode.UNAVAILABLE):
            await appending.read()


async def test_what_another_partition_got_is_not_acknowledged(world):
    """Ids are reused: between the catalog look-up and the shard, another topic may have got them."""
    call = world.stub.Append(metadata=world.shown())
    await call.write(AppendRequest(place=place(0), messages_count=1, batch=batch([b"x"])))
    assert await call.read() is not None
    begin = Session.begin
    another = [Delta(topic_put=topic(TOPIC, 30, 300)), Delta(topic_placement_put=placement(TOPIC, *[HERE] * 4))]

    def begin_late(self, *args, **more):
        world.publish(Update(version=2, deltas=another))
        begin(self, *args, **more)

    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(Session, "begin", begin_late)
        await call.write(AppendRequest(messages_count=1, batch=batch([b"y"])))
        async with refused(Status.PARTITION_NOT_FOUND, grpc.StatusCode.NOT_FOUND):
            await call.read()
    assert [message.payload for message in messages_of(await world.fetch(0))] == [b"y"], "of the other one"


async def test_a_large_batch_goes_in_and_out(world):
    payloads = [secrets.token_bytes(5 * MEBIBYTE)]
    await world.append(2, [payloads, payloads])
    assert [message.payload for message in messages_of(await world.fetch(2))] == payloads * 2


async def test_a_purge_ends_a_call_that_waits(world, monkeypatch):
    monkeypatch.setattr(fetching, "_WAIT_SECONDS", 0.1)
    await world.append(0, [[b"one", b"two"]])
    request = FetchRequest(range=FetchRange(place=place(0), end_offset=5))
    call = world.stub.Fetch(iter([request]), metadata=world.shown())
    # A call made after the purge would be valid, and wait.
    assert len(messages_of([await call.read()])) == 2
    purged = topic(TOPIC, 20, 100)
    purged.purge_epoch = 1
    world.publish(Update(version=2, deltas=[Delta(topic_put=purged)]))
    async with refused(Status.RESOURCE_NOT_FOUND, grpc.StatusCode.NOT_FOUND):
        await call.read()
    assert not messages_of(await world.fetch(0))


async def test_messages_that_were_deleted_are_passed_over_and_no_more_is_sent_for_it(tmp_path):
    async with running(tmp_path, segment_bytes=16 * 1024) as world:
        for _ in range(10):
            await world.append(0, [[b"x" * 1000] * 10])
        command = core.encode_delete_segments(stream=STREAM, topic=TOPIC, partition=0, segments_count=2)
        status, _ = await world.sessions.call(0, *command)
        assert status == Status.OK
        request = GetOffsetsRequest(stream_id=STREAM, topic_id=TOPIC, partition_ids=[0])
        (ends,) = (await world.stub.GetOffsets(request, metadata=world.shown())).partitions
        first = ends.first_offset
        assert 0 < first < 100
        for wanted, expected in (
            ({}, range(first, 100)),
            ({"end_offset": first + 3}, range(first, first + 3)),
            ({"end_offset": first}, range(0)),
            ({"end_offset": first - 1}, range(0)),
        ):
            responses = await world.fetch(0, **wanted)
            assert [message.offset for message in messages_of(responses)] == list(expected)
            assert responses[-1].done


async def test_messages_that_are_deleted_under_way_are_passed_over(tmp_path):
    """A slow reader detects the gap by the offsets."""
    async with running(tmp_path, segment_bytes=16 * 1024) as world:
        # Messages that arrive together would be written together, into one segment.
        for _ in range(20):
            await world.append(0, [[b"x" * 1000] * 10])
        call = world.stub.Fetch(metadata=world.shown())
        wanted = FetchRange(place=place(0), response_bytes=1, credit_bytes=1, end_offset=150)
        await call.write(FetchRequest(range=wanted))
        received = messages_of([await call.read()])
        command = core.encode_delete_segments(stream=STREAM, topic=TOPIC, partition=0, segments_count=6)
        status, _ = await world.sessions.call(0, *command)
        assert status == Status.OK
        await call.write(FetchRequest(credit_bytes=100 * MEBIBYTE))
        while (response := await call.read()) is not aio.EOF:
            received += messages_of([response])
        offsets = [message.offset for message in received]
        gaps = [later - earlier for earlier, later in itertools.pairwise(offsets) if later != earlier + 1]
        assert len(gaps) == 1
        assert offsets[0] == 0
        assert offsets[-1] == 149


async def test_a_call_ends_if_the_rest_of_its_range_is_removed(tmp_path, monkeypatch):
    """Regression: no message showed the removal, and the call waited for ever."""
    monkeypatch.setattr(fetching, "_WAIT_SECONDS", 0.1)
    async with running(tmp_path, cleaner_interval_micros=10_000) as world:
        await world.append(0, [[b"x" * 1000] * 100])
        call = world.stub.Fetch(metadata=world.shown())
        await call.write(FetchRequest(range=FetchRange(place=place(0), response_bytes=1, credit_bytes=1)))
        first = await call.read()
        assert 0 < first.next_offset < 100
        expired = topic(TOPIC, 20, 100)
        expired.message_expiry_micros = 1
        world.publish(Update(version=2, deltas=[Delta(topic_put=expired)]))
        request = GetOffsetsRequest(stream_id=STREAM, topic_id=TOPIC, partition_ids=[0])
        async with asyncio.timeout(30):
            while True:
                (ends,) = (await world.stub.GetOffsets(request, metadata=world.shown())).partitions
                if ends.first_offset == ends.next_offset == 100:
                    break
                await asyncio.sleep(0.01)
            await call.write(FetchRequest(credit_bytes=100 * MEBIBYTE))
            last = await call.read()
            assert (last.done, last.next_offset, last.polled) == (True, 100, b"")
            assert last.messages_count == len(messages_of([first]))
            assert await call.read() is aio.EOF
