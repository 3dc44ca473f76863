"""Metadata for data pipelines: location of topics, and first and last offsets of partitions."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import grpc
import pytest

from headrace_core import TicketKey, decode_polled, encode_send_messages
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from headrace_proto.partition.v1 import AppendRequest, FetchRange, FetchRequest, Place, partition_pb2
from headrace_proto.partition.v1.partition_pb2_grpc import PartitionStub
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.rights import ALL_RIGHTS, POLL, SEND
from tests.server_process import ServerProcess

PARTITIONS = 3


def named(name: str) -> v1.Identifier:
    return v1.Identifier(name=name)


@pytest.fixture
def topics(root: GrpcCaller, stream: str) -> tuple[str, str]:
    """Two topics of a stream."""
    root.catalog.CreateStream(v1.CreateStreamRequest(name=stream))
    for name in ("one", "two"):
        settings = v1.TopicSettings(name=name)
        create = v1.CreateTopicRequest(stream=named(stream), settings=settings, partitions_count=PARTITIONS)
        root.catalog.CreateTopic(create)
    return "one", "two"


def send(root: GrpcCaller, stream: str, topic: str, partition: int, count: int) -> None:
    to = v1.Partitioning(partition_id=partition)
    messages = [v1.NewMessage(payload=b"%d" % number) for number in range(count)]
    root.messages.Produce(
        v1.ProduceRequest(stream=named(stream), topic=named(topic), partitioning=to, messages=messages)
    )


def described(caller: GrpcCaller, stream: str, *topics: str, **more: bool) -> list[v1.TopicDescription]:
    request = v1.DescribeTopicsRequest(stream=named(stream), topics=map(named, topics), **more)
    return list(caller.pipelines.DescribeTopics(request, timeout=30).topics)


def refusal(caller: GrpcCaller, request: v1.DescribeTopicsRequest) -> tuple[grpc.StatusCode, int]:
    with pytest.raises(grpc.RpcError) as raised:
        caller.pipelines.DescribeTopics(request, timeout=30)
    return status_of(raised.value)


@contextmanager
def someone(server: ServerProcess, name: str, permissions: bytes | None = None) -> Iterator[GrpcCaller]:
    """A caller with no other rights."""
    with RawConnection.as_root(server.address) as root:
        root.ok(Code.CREATE_USER, frames.create_user(name, name))
        root.ok(Code.UPDATE_PERMISSIONS, frames.ident(name) + frames.opt_permissions(permissions))
    with RawConnection.as_user(server.address, name, name) as connection:
        token = access_token(connection)
    with GrpcCaller(server.grpc_address, token) as caller:
        yield caller


def test_ends_and_what_they_belong_to(
    shared_server: ServerProcess, root: GrpcCaller, stream: str, topics: tuple[str, str]
) -> None:
    send(root, stream, "two", 1, 5)
    (two,) = described(root, stream, "two")
    assert (two.stream_name, two.topic_name) == (stream, "two")
    assert [partition.partition_id for partition in two.partitions] == list(range(PARTITIONS))
    assert [partition.next_offset for partition in two.partitions] == [0, 5, 0]
    assert [partition.messages_count for partition in two.partitions] == [0, 5, 0]
    assert {partition.grpc_address for partition in two.partitions} == {shared_server.pipelines_address}
    assert not any(partition.HasField("size_bytes") for partition in two.partitions)
    by_id = v1.DescribeTopicsRequest(
        stream=v1.Identifier(id=two.stream_id), topics=[v1.Identifier(id=two.topic_id), named("one"), named("two")]
    )
    names = [topic.topic_name for topic in root.pipelines.DescribeTopics(by_id).topics]
    assert names == ["two", "one"], "in the order of the request, each once"
    (sized,) = described(root, stream, "two", with_sizes=True)
    assert [partition.size_bytes > 0 for partition in sized.partitions] == [False, True, False]
    assert all(partition.HasField("size_bytes") for partition in sized.partitions)


def test_a_purge_and_a_later_topic_are_distinguished(root: GrpcCaller, stream: str, topics: tuple[str, str]) -> None:
    send(root, stream, "one", 0, 2)
    path = {"stream": named(stream), "topic": named("one")}
    (before,) = described(root, stream, "one")
    root.catalog.PurgeTopic(v1.PurgeTopicRequest(**path))
    (purged,) = described(root, stream, "one")
    assert purged.incarnation == before.incarnation
    assert purged.partitions[0].purge_epoch > before.partitions[0].purge_epoch
    assert purged.partitions[0].next_offset == 0
    root.catalog.DeleteTopic(v1.DeleteTopicRequest(**path))
    settings = v1.TopicSettings(name="one")
    root.catalog.CreateTopic(v1.CreateTopicRequest(stream=named(stream), settings=settings, partitions_count=1))
    (later,) = described(root, stream, "one")
    assert later.topic_id == before.topic_id
    assert later.incarnation > before.incarnation
    assert later.partitions[0].incarnation > before.partitions[0].incarnation


def test_what_is_not_there(root: GrpcCaller, stream: str, topics: tuple[str, str]) -> None:
    assert described(root, stream)[0].topic_name == "one"
    assert refusal(root, v1.DescribeTopicsRequest(stream=named("nowhere"))) == (
        grpc.StatusCode.NOT_FOUND,
        Status.STREAM_ID_NOT_FOUND,
    )
    assert refusal(root, v1.DescribeTopicsRequest(stream=named(stream), topics=[named("none")])) == (
        grpc.StatusCode.NOT_FOUND,
        Status.TOPIC_ID_NOT_FOUND,
    )
    assert refusal(root, v1.DescribeTopicsRequest()) == (grpc.StatusCode.INVALID_ARGUMENT, Status.INVALID_IDENTIFIER)
    assert refusal(root, v1.DescribeTopicsRequest(stream=named(stream), topics=[v1.Identifier()])) == (
        grpc.StatusCode.INVALID_ARGUMENT,
        Status.INVALID_IDENTIFIER,
    )


@pytest.mark.parametrize("right", [None, *ALL_RIGHTS])
def test_rights(shared_server: ServerProcess, root: GrpcCaller, stream: str, right: str | None) -> None:
    """CTL-9: only users who may poll or send get a description. A description of a stream contains only
    topics they may poll or send to.
    """
    root.catalog.CreateStream(v1.CreateStreamRequest(name=stream))
    for name in ("one", "two"):
        settings = v1.TopicSettings(name=name)
        root.catalog.CreateTopic(
            v1.CreateTopicRequest(stream=named(stream), settings=settings, partitions_count=PARTITIONS)
        )
    place = root.catalog.GetStream(v1.GetStreamRequest(stream=named(stream)))
    stream_id, topic_id = place.stream.id, next(topic.id for topic in place.topics if topic.name == "two")
    scope, _, name = (right or "").rpartition(":")
    match scope:
        case "S":
            permissions = frames.permissions(streams={stream_id: [name]})
        case "T":
            permissions = frames.permissions(topics={(stream_id, topic_id): [name]})
        case _:
            permissions = None if right is None else frames.permissions([name])
    user = f"{stream_id}-{right}"
    with someone(shared_server, user, permissions) as caller:
        names = [topic.topic_name for topic in described(caller, stream)]
        if right in POLL | SEND:
            assert names == (["two"] if scope == "T" else ["one", "two"])
            assert [topic.topic_name for topic in described(caller, stream, "two")] == ["two"]
        else:
            assert names == [] == described(caller, "nowhere"), "alike, whether there is such a stream or not"
            assert refusal(caller, v1.DescribeTopicsRequest(stream=named(stream), topics=[named("two")])) == (
                grpc.StatusCode.PERMISSION_DENIED,
                Status.UNAUTHORIZED,
            )
        if scope == "T":
            both = v1.DescribeTopicsRequest(stream=named(stream), topics=[named("two"), named("one")])
            assert refusal(caller, both)[1] == Status.UNAUTHORIZED


def test_partitions_are_not_served_where_that_is_switched_off(start_server: StartServer) -> None:
    server = start_server({"PIPELINES_ENABLED": "false"})
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", partitions=1)
        token = access_token(connection)
    with GrpcCaller(server.grpc_address, token) as root:
        assert described(root, "s", "t")[0].partitions[0].grpc_address == ""
    with grpc.insecure_channel(server.pipelines_address) as channel, pytest.raises(grpc.RpcError) as raised:
        PartitionStub(channel).Fetch(iter([]), timeout=10).next()
    assert raised.value.code() is grpc.StatusCode.UNAVAILABLE


def test_partitions_are_for_holders_of_a_ticket(shared_server: ServerProcess) -> None:
    """No call succeeds without a ticket or with one signed by another key; calls only for clusters are unavailable."""
    made_up = TicketKey("a secret", "single-node").sign("a test", not_after=int(time.time()) + 60)
    request = FetchRequest(range=FetchRange(place=Place()))
    with grpc.insecure_channel(shared_server.pipelines_address) as channel:
        for method in partition_pb2.DESCRIPTOR.services_by_name["Partition"].methods:
            path = f"/headrace.partition.v1.Partition/{method.name}"
            for shown in ((), (("headrace-ticket", "made up"),), (("headrace-ticket", made_up),)):
                call = channel.stream_stream(path)(iter([request.SerializeToString()]), metadata=shown, timeout=20)
                with pytest.raises(grpc.RpcError) as raised:
                    list(call)
                refused = grpc.StatusCode.UNAUTHENTICATED
                if method.name in {"GetStatistics", "Drain"}:
                    refused = grpc.StatusCode.UNIMPLEMENTED
                assert raised.value.code() is refused, method.name


def test_a_ticket_from_one_port_opens_partitions_at_the_other(shared_server: ServerProcess, stream: str) -> None:
    """A user with the rights to poll and send at one topic describes, appends and fetches there, and nowhere else."""
    with RawConnection.as_root(shared_server.address) as connection:
        connection.create_topic(stream, partitions=PARTITIONS)
    with someone(shared_server, "piper", frames.permissions(["poll_messages", "send_messages"])) as caller:
        topic = v1.IssueTicketRequest(stream=named(stream), topic=named("t"), lifetime_seconds=60)
        tickets = {
            access: caller.pipelines.IssueTicket(with_access(topic, read="r" in access, write="w" in access))
            for access in ("r", "w", "rw")
        }
        (description,) = described(caller, stream, "t")
        with pytest.raises(grpc.RpcError) as raised:
            caller.pipelines.IssueTicket(topic)
        assert raised.value.code() is grpc.StatusCode.INVALID_ARGUMENT, "for nothing there is none"
    assert all(0 < ticket.not_after_seconds - time.time() <= 61 for ticket in tickets.values())
    partition = description.partitions[1]
    place = Place(stream_id=description.stream_id, topic_id=description.topic_id, partition_id=1)
    _, payload = encode_send_messages([(0, b"one", b""), (0, b"two", b"")], stream=stream, topic="t", partition=1)
    # Skip the metadata, which is preceded by its length.
    batch = payload[4 + int.from_bytes(payload[:4], "little") :]
    append = AppendRequest(place=place, messages_count=2, batch=batch)
    fetch = FetchRequest(range=FetchRange(place=place, end_offset=2))
    with grpc.insecure_channel(partition.grpc_address) as channel:
        stub = PartitionStub(channel)

        def status(call: Any, request: Any, ticket: v1.IssueTicketResponse) -> Status:
            try:
                list(call(iter([request]), metadata=(("headrace-ticket", ticket.ticket),), timeout=30))
            except grpc.RpcError as error:
                return Status(status_of(error)[1])
            return Status.OK

        assert status(stub.Append, append, tickets["r"]) == Status.INVALID_TICKET
        assert status(stub.Append, append, tickets["w"]) == Status.OK
        assert status(stub.Fetch, fetch, tickets["w"]) == Status.INVALID_TICKET
        assert status(stub.Fetch, fetch, tickets["rw"]) == Status.OK
        elsewhere = FetchRequest(range=FetchRange(place=Place(stream_id=place.stream_id, topic_id=place.topic_id + 1)))
        assert status(stub.Fetch, elsewhere, tickets["r"]) == Status.INVALID_TICKET
        metadata = (("headrace-ticket", tickets["r"].ticket),)
        responses = stub.Fetch(iter([fetch]), metadata=metadata, timeout=30)
        messages = [message for response in responses if response.polled for message in decode_polled(response.polled)]
    assert [(message.offset, message.payload) for message in messages] == [(0, b"one"), (1, b"two")]


def with_access(request: v1.IssueTicketRequest, *, read: bool, write: bool) -> v1.IssueTicketRequest:
    wanted = v1.IssueTicketRequest()
    wanted.CopyFrom(request)
    wanted.read, wanted.write = read, write
    return wanted
