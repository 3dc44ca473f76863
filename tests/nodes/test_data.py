"""Data acknowledged by a node survives kills, restarts and interrupted shutdowns."""

import asyncio
import time
from contextlib import asynccontextmanager

import grpc
import pytest
from grpc import aio

import headrace_core as core
from headrace_proto.metadata.v1 import DeleteTopic, DrainNode, PlacePartition
from headrace_proto.partition.v1 import AppendRequest, FetchRange, FetchRequest, GetStatisticsRequest, Place
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from tests.metadata_replicas import NAME, SECRET
from tests.nodes.conftest import Catalog, MakeNode
from tests.partition_nodes import NodeProcess

KEY = core.TicketKey(SECRET, NAME)
SECONDS = 120.0


def ticket():
    return (("headrace-ticket", KEY.sign("a test", not_after=int(time.time()) + 60)),)


@asynccontextmanager
async def called(node: NodeProcess):
    options = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
    async with aio.insecure_channel(f"127.0.0.1:{node.grpc_port}", options=options) as channel:
        yield PartitionStub(channel)


def batch(number: int) -> AppendRequest:
    """A batch that contains its number."""
    messages = [(0, b"%d/%d" % (number, part), b"") for part in range(1 + number % 5)]
    _, payload = core.encode_send_messages(messages, stream=0, topic=0, partition=0)
    return AppendRequest(messages_count=len(messages), batch=payload[4 + int.from_bytes(payload[:4], "little") :])


async def payloads(node: NodeProcess, place: Place) -> list[bytes]:
    async with called(node) as stub:
        call = stub.Fetch(metadata=ticket())
        await call.write(FetchRequest(range=FetchRange(place=place)))
        await call.done_writing()
        polled = [response.polled async for response in call if response.polled]
    return [message.payload for each in polled for message in core.decode_polled(each)]


class Producer:
    """Appends until the node is down; acknowledged batches must survive."""

    def __init__(self, place: Place) -> None:
        self.place = place
        self.answered = 0
        self.sent = 0

    async def run(self, node: NodeProcess) -> None:
        async with called(node) as stub:
            call = stub.Append(metadata=ticket())
            writing = asyncio.create_task(self._write(call))
            with pytest.raises(aio.AioRpcError) as raised:
                await self._read(call)
            writing.cancel()
            await asyncio.wait({writing})
        # The client returns the last code for a connection that broke during a write.
        codes = {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.NOT_FOUND, grpc.StatusCode.INTERNAL}
        assert raised.value.code() in codes, raised.value

    async def _read(self, call) -> None:
        while await call.read() is not aio.EOF:
            self.answered += 1

    async def _write(self, call) -> None:
        first = batch(self.sent)
        first.place.CopyFrom(self.place)
        request = first
        while True:
            self.sent += 1
            await call.write(request)
            request = batch(self.sent)

    def check(self, found: list[bytes]) -> None:
        """Verify that the stored batches are a prefix of those sent, and include all acknowledged ones."""
        expected = [b"%d/%d" % (number, part) for number in range(self.sent) for part in range(1 + number % 5)]
        assert found == expected[: len(found)]
        answered = sum(1 + number % 5 for number in range(self.answered))
        assert len(found) >= answered


async def ready(node: NodeProcess) -> None:
    if not node.is_running:
        node.start()
    await asyncio.to_thread(node.wait_ready)


async def leave(catalog: Catalog, node: NodeProcess) -> None:
    """Deactivate a node, so that partitions of other tests are placed elsewhere."""
    found = next(record for record in await catalog.reads.nodes() if record.node.name == node.name)
    await catalog.propose(drain_node=DrainNode(node_id=found.node.id, is_draining=True))


@pytest.mark.parametrize("end", ["kill", "stop"])
async def test_nothing_that_was_acknowledged_is_lost(catalog: Catalog, make_node: MakeNode, end: str) -> None:
    """A restarted node's partitions come back with nothing acknowledged lost."""
    node = make_node(f"durable-{end}", LOGGING_LEVEL="debug")
    await ready(node)
    await catalog.root()
    topic = await catalog.topic(f"durable-{end}", 2)
    await asyncio.to_thread(node.wait_for, "open_partitions", 2)
    for round_number in range(3):
        places = [Place(stream_id=topic.stream_id, topic_id=topic.id, partition_id=number) for number in range(2)]
        found = [await payloads(node, place) for place in places]
        producers = [Producer(place) for place in places]
        running = [asyncio.create_task(producer.run(node)) for producer in producers]
        async with asyncio.timeout(SECONDS):
            while min(producer.answered for producer in producers) < 20:
                await asyncio.sleep(0.005)
        if end == "kill":
            node.kill()
        else:
            assert await asyncio.to_thread(node.stop) == 0
        await asyncio.gather(*running)
        await ready(node)
        for before, producer in zip(found, producers, strict=True):
            after = await payloads(node, producer.place)
            assert after[: len(before)] == before, f"round {round_number}"
            producer.check(after[len(before) :])
    await leave(catalog, node)


async def test_a_partition_that_is_placed_elsewhere_keeps_its_directory_until_it_is_deleted(
    catalog: Catalog, make_node: MakeNode
) -> None:
    node, other = make_node("first"), make_node("second")
    await ready(node)
    await catalog.root()
    topic = await catalog.topic("moves", 1)
    await asyncio.to_thread(node.wait_for, "open_partitions", 1)
    place = Place(stream_id=topic.stream_id, topic_id=topic.id, partition_id=0)
    producer = Producer(place)
    running = asyncio.create_task(producer.run(node))
    async with asyncio.timeout(SECONDS):
        while producer.answered < 5:
            await asyncio.sleep(0.005)
    await ready(other)
    other_id = next(record.node.id for record in await catalog.reads.nodes() if record.node.name == "second")
    # The node with the messages stays the leader until another node has copied them.
    await catalog.propose(
        place_partition=PlacePartition(
            stream_id=topic.stream_id, topic_id=topic.id, partition_id=0, node_ids=[other_id]
        )
    )
    answered = producer.answered
    async with asyncio.timeout(SECONDS):
        while producer.answered < answered + 5:
            await asyncio.sleep(0.005)
    assert other.metric("open_partitions") == 0
    assert node.metric("open_partitions") == 1
    (directory,) = node.data.glob("streams/*/topics/*/partitions/*")

    await catalog.propose(delete_topic=DeleteTopic(stream_id=topic.stream_id, topic_id=topic.id))
    async with asyncio.timeout(SECONDS):
        await running
        while directory.exists():
            await asyncio.sleep(0.02)
    await asyncio.to_thread(node.wait_for, "placed_partitions", 0)
    await asyncio.to_thread(node.wait_for, "open_partitions", 0)
    await leave(catalog, node)
    await leave(catalog, other)


async def test_a_node_reports_itself(catalog: Catalog, make_node: MakeNode) -> None:
    node = make_node("told")
    await ready(node)
    async with called(node) as stub:
        statistics = await stub.GetStatistics(GetStatisticsRequest(), metadata=ticket())
        assert (statistics.node_name, statistics.shards_count, statistics.is_draining) == ("told", 2, False)
        record = next(record for record in await catalog.reads.nodes() if record.node.name == "told")
        assert (statistics.node_id, statistics.incarnation) == (record.node.id, record.node.incarnation)
        with pytest.raises(aio.AioRpcError) as raised:
            await stub.GetStatistics(GetStatisticsRequest())
        assert raised.value.code() is grpc.StatusCode.UNAUTHENTICATED
    await leave(catalog, node)
