"""A partition node without a cluster, with real shards, a real connection, and callers."""

import json
import time
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from grpc import aio

import headrace_core as core
from headrace_chassis.certificates import watched
from headrace_chassis.grpc.memory import Pool
from headrace_chassis.grpc.places import Places
from headrace_chassis.shares import Shares
from headrace_chassis.tls import TlsSettings
from headrace_node import Node as ShardsNode
from headrace_node.connections.sessions import Sessions
from headrace_partition_node.grpc.appending import Appending
from headrace_partition_node.grpc.fetching import Fetching
from headrace_partition_node.grpc.server import Limits, serving
from headrace_partition_node.grpc.service import PartitionService
from headrace_partition_node.grpc.shard_requests import SEND_MESSAGES, Shards
from headrace_partition_node.grpc.staging import Staging
from headrace_partition_node.grpc.tickets import Tickets
from headrace_partition_node.placements import Placements
from headrace_proto.catalog.v1 import (
    NODE_STATUS_LIVE,
    CompressionAlgorithm,
    GlobalPermissions,
    Node,
    Partition,
    PartitionPlacement,
    Permissions,
    Snapshot,
    Stream,
    Topic,
    TopicPlacement,
    User,
    UserStatus,
)
from headrace_proto.partition.v1 import (
    AppendRequest,
    FetchRange,
    FetchRequest,
    GetStatisticsResponse,
    Place,
)
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from headrace_proto.well_known import NEVER_EXPIRES, UNLIMITED
from headrace_settings import Address

HERE, THERE = 1, 2
STREAM, TOPIC, OTHER_TOPIC = 3, 5, 6
PARTITIONS = 4
ELSEWHERE = 3
MEBIBYTE = 1024 * 1024
LIMITS = Limits(calls_max=100, request_bytes_max=8 * MEBIBYTE)


def topic(topic_id, incarnation, first_incarnation):
    return Topic(
        stream_id=STREAM,
        id=topic_id,
        name=f"topic-{topic_id}",
        incarnation=incarnation,
        compression=CompressionAlgorithm.COMPRESSION_ALGORITHM_NONE,
        message_expiry_micros=NEVER_EXPIRES,
        max_size_bytes=UNLIMITED,
        replication_factor=1,
        partitions=[Partition(id=number, incarnation=first_incarnation + number) for number in range(PARTITIONS)],
    )


def placement(topic_id, *holders):
    partitions = [
        PartitionPlacement(node_ids=[holder], holder_node_id=holder, epoch=number + 1)
        for number, holder in enumerate(holders)
    ]
    return TopicPlacement(stream_id=STREAM, topic_id=topic_id, partitions=partitions)


def node(number, name):
    return Node(
        id=number,
        name=name,
        incarnation=number,
        binary_address=f"{name}:1",
        grpc_address=f"{name}:2",
        shards=2,
        status=NODE_STATUS_LIVE,
    )


def catalog(version=1):
    everything = Permissions(
        **{"global": GlobalPermissions(manage_streams=True, manage_topics=True, poll_messages=True, send_messages=True)}
    )
    return Snapshot(
        version=version,
        streams=[Stream(id=STREAM, name="stream", incarnation=1)],
        topics=[topic(TOPIC, 20, 100), topic(OTHER_TOPIC, 21, 200)],
        users=[User(id=0, username="root", status=UserStatus.USER_STATUS_ACTIVE, permissions=everything)],
        nodes=[node(HERE, "here"), node(THERE, "there")],
        topic_placements=[
            placement(TOPIC, HERE, HERE, HERE, THERE),
            placement(OTHER_TOPIC, HERE, HERE, HERE, HERE),
        ],
    )


class ThisNode:
    """Stand-in for the node as a whole."""

    def __init__(self):
        self.drained = []

    def statistics(self):
        return GetStatisticsResponse(node_name="here", node_id=HERE)

    async def drain(self, *, is_draining):
        self.drained.append(is_draining)


class World:
    """A node and its callers."""

    def __init__(self, shards, address, sessions, placements, stub, key, memory, calls, this_node, stop_calls):
        self.shards = shards
        self.address = address
        self.sessions = sessions
        self.placements = placements
        self.stub = stub
        self.key = key
        self.memory = memory
        self.calls = calls
        self.this_node = this_node
        self.stop_calls = stop_calls

    def publish(self, update):
        self.shards.publish_update(update)
        self.placements.update(update)

    def shown(self, **rights):
        """Return the metadata of a call with a ticket: for the whole cluster, or with the given permissions."""
        return self.signed(int(time.time()) + 30, **rights)

    def signed(self, not_after, **rights):
        if rights:
            rights = {"stream_id": STREAM, "topic_id": TOPIC, "read": True, "write": True} | rights
        return (("headrace-ticket", self.key.sign("a test", not_after=not_after, **rights)),)

    async def append(self, partition, batches, metadata=None, topic_id=TOPIC):
        call = self.stub.Append(metadata=metadata or self.shown())
        for number, messages in enumerate(batches):
            where = place(partition, topic_id) if number == 0 else None
            await call.write(AppendRequest(place=where, messages_count=len(messages), batch=batch(messages)))
        await call.done_writing()
        return [response async for response in call]

    async def fetch(self, partition, metadata=None, topic_id=TOPIC, **wanted):
        request = FetchRequest(range=FetchRange(place=place(partition, topic_id), **wanted))
        # Not by `write`, which raises an error of its own if the call was refused before.
        call = self.stub.Fetch(iter([request]), metadata=metadata or self.shown())
        return [response async for response in call]


def place(partition, topic_id=TOPIC, incarnation=0):
    return Place(stream_id=STREAM, topic_id=topic_id, partition_id=partition, incarnation=incarnation)


def batch(payloads):
    """Return a batch for `Append`: the bytes that follow the metadata in `SendMessages`."""
    code, payload = core.encode_send_messages(
        [(0, content, b"") for content in payloads], stream=STREAM, topic=TOPIC, partition=0
    )
    assert code == SEND_MESSAGES
    return payload[4 + int.from_bytes(payload[:4], "little") :]


def messages_of(responses):
    return [message for response in responses if response.polled for message in core.decode_polled(response.polled)]


@asynccontextmanager
async def running(
    tmp_path,
    *,
    segment_bytes=1024 * MEBIBYTE,
    memory_bytes=256 * MEBIBYTE,
    poll_bytes=16 * MEBIBYTE,
    calls_max=100,
    cleaner_interval_micros=0,
    certificate=None,
    trusted=None,
):
    native = core.Node(
        json.dumps(
            {
                "data_path": str(tmp_path),
                "tcp_address": None,
                "cpu_allocation": "2",
                "hosting": "placed",
                "node_name": "here",
                "memory_pool_bytes": 128 * MEBIBYTE,
                "poll_size_bytes_max": poll_bytes,
                "segment_size_bytes": segment_bytes,
                "cleaner_interval_micros": cleaner_interval_micros,
            }
        )
    )

    async def handle(_request):
        raise AssertionError("nothing is asked of the control plane")

    async with AsyncExitStack() as stack:
        node = ShardsNode(native, handle)
        placements = Placements("here")
        node.publish_snapshot(catalog())
        placements.replace(catalog())
        await stack.enter_async_context(node)
        await node.listen()
        sessions = await stack.enter_async_context(Sessions(node.open_session))
        shards = Shards(sessions)
        key = core.TicketKey("the secret of a test", "tests")
        tickets = Tickets(key, placements, native.issuer_may)
        memory, calls, this_node = Pool(memory_bytes), Shares(calls_max), ThisNode()
        service = PartitionService(
            this_node,
            shards,
            tickets,
            Fetching(shards, tickets, memory, poll_bytes_max=poll_bytes),
            Appending(shards, tickets, memory),
            Staging(shards, tickets, memory),
            calls,
            Places(1000, "grpc.max_connections"),
        )
        anywhere = Address.parse("127.0.0.1:0")
        cert_file, key_file = certificate or (None, None)
        tls = TlsSettings(cert_file=cert_file and str(cert_file), key_file=key_file and str(key_file))
        certificates = await stack.enter_async_context(watched(tls.certificate_files("tls"), 0.01))
        served = await stack.enter_async_context(serving(service, anywhere, certificates, LIMITS))
        stack.callback(shards.close)
        options = (("grpc.max_receive_message_length", -1), ("grpc.use_local_subchannel_pool", 1))
        channel = await stack.enter_async_context(
            aio.insecure_channel(str(served.address), options=options)
            if trusted is None
            else aio.secure_channel(str(served.address), grpc.ssl_channel_credentials(trusted), options=options)
        )
        stub = PartitionStub(channel)
        yield World(node, served.address, sessions, placements, stub, key, memory, calls, this_node, shards.close)


@asynccontextmanager
async def refused(status, code):
    with pytest.raises(aio.AioRpcError) as raised:
        yield
    assert dict(raised.value.trailing_metadata())["headrace-status"] == str(int(status)), raised.value.details()
    assert raised.value.code() is code
