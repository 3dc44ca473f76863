"""Commands through the gRPC API (GW-6): the same effects and the same refusals as over TCP (GW-9)."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc

from headrace_proto.catalog.v1 import (
    COMPRESSION_ALGORITHM_GZIP,
    USER_STATUS_ACTIVE,
    USER_STATUS_INACTIVE,
    GlobalPermissions,
    Permissions,
    StreamPermissions,
    TopicPermissions,
)
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess

SERVICES = [
    f"headrace.gateway.v1.{name}"
    for name in ("Accounts", "Catalog", "Login", "Messages", "Pipelines", "Subscriptions", "System")
]


def named(name: str) -> v1.Identifier:
    return v1.Identifier(name=name)


def refusal(call, request) -> tuple[grpc.StatusCode, int]:
    with pytest.raises(grpc.RpcError) as raised:
        call(request)
    return status_of(raised.value)


def test_streams(root: GrpcCaller, stream: str) -> None:
    catalog = root.catalog
    created = catalog.CreateStream(v1.CreateStreamRequest(name=stream)).stream
    assert created.name == stream
    assert refusal(catalog.CreateStream, v1.CreateStreamRequest(name=stream)) == (
        grpc.StatusCode.ALREADY_EXISTS,
        Status.STREAM_NAME_ALREADY_EXISTS,
    )
    assert created in catalog.ListStreams(v1.ListStreamsRequest()).streams
    catalog.RenameStream(v1.RenameStreamRequest(stream=v1.Identifier(id=created.id), name=f"{stream}-2"))
    assert catalog.GetStream(v1.GetStreamRequest(stream=named(f"{stream}-2"))).stream.id == created.id
    catalog.PurgeStream(v1.PurgeStreamRequest(stream=named(f"{stream}-2")))
    catalog.DeleteStream(v1.DeleteStreamRequest(stream=named(f"{stream}-2")))
    assert refusal(catalog.GetStream, v1.GetStreamRequest(stream=named(f"{stream}-2")))[0] == grpc.StatusCode.NOT_FOUND
    assert refusal(catalog.DeleteStream, v1.DeleteStreamRequest(stream=named("none"))) == (
        grpc.StatusCode.NOT_FOUND,
        Status.STREAM_ID_NOT_FOUND,
    )


def test_replication_factors_that_no_topic_can_have(root: GrpcCaller, stream: str) -> None:
    catalog = root.catalog
    catalog.CreateStream(v1.CreateStreamRequest(name=stream))
    within = {"stream": named(stream)}
    too_many = v1.TopicSettings(name="t", replication_factor=256)
    refused = (grpc.StatusCode.INVALID_ARGUMENT, Status.INVALID_REPLICATION_FACTOR)
    creation = v1.CreateTopicRequest(**within, settings=too_many, partitions_count=1)
    assert refusal(catalog.CreateTopic, creation) == refused
    creation.settings.replication_factor = 0
    assert catalog.CreateTopic(creation).topic.replication_factor == 1
    update = v1.UpdateTopicRequest(**within, topic=named("t"), settings=too_many)
    assert refusal(catalog.UpdateTopic, update) == refused


def test_topics_partitions_and_groups(root: GrpcCaller, stream: str) -> None:
    catalog = root.catalog
    catalog.CreateStream(v1.CreateStreamRequest(name=stream))
    within = {"stream": named(stream)}
    settings = v1.TopicSettings(name="t", compression=COMPRESSION_ALGORITHM_GZIP, message_expiry_micros=5_000_000)
    created = catalog.CreateTopic(v1.CreateTopicRequest(**within, settings=settings, partitions_count=3))
    assert (created.topic.name, created.topic.message_expiry_micros) == ("t", 5_000_000)
    assert created.topic.compression == COMPRESSION_ALGORITHM_GZIP
    assert [partition.id for partition in created.partitions] == [0, 1, 2]
    topic = within | {"topic": named("t")}
    catalog.CreatePartitions(v1.CreatePartitionsRequest(**topic, partitions_count=2))
    catalog.DeletePartitions(v1.DeletePartitionsRequest(**topic, partitions_count=1))
    assert len(catalog.GetTopic(v1.GetTopicRequest(**topic)).partitions) == 4
    catalog.UpdateTopic(v1.UpdateTopicRequest(**topic, settings=v1.TopicSettings(name="u")))
    topic["topic"] = named("u")
    assert [found.name for found in catalog.ListTopics(v1.ListTopicsRequest(**within)).topics] == ["u"]

    group = catalog.CreateConsumerGroup(v1.CreateConsumerGroupRequest(**topic, name="g")).group
    assert (group.name, group.partitions_count, group.members_count) == ("g", 4, 0)
    assert list(catalog.ListConsumerGroups(v1.ListConsumerGroupsRequest(**topic)).groups) == [group]
    assert catalog.GetConsumerGroup(v1.GetConsumerGroupRequest(**topic, group=named("g"))).group == group
    catalog.DeleteConsumerGroup(v1.DeleteConsumerGroupRequest(**topic, group=named("g")))
    assert refusal(catalog.DeleteConsumerGroup, v1.DeleteConsumerGroupRequest(**topic, group=named("g")))[0] == (
        grpc.StatusCode.NOT_FOUND
    )
    catalog.PurgeTopic(v1.PurgeTopicRequest(**topic))
    catalog.DeleteSegments(v1.DeleteSegmentsRequest(**topic, partition_id=0, segments_count=1))
    catalog.DeleteTopic(v1.DeleteTopicRequest(**topic))
    assert refusal(catalog.GetTopic, v1.GetTopicRequest(**topic))[0] == grpc.StatusCode.NOT_FOUND


def test_users_and_tokens(shared_server: ServerProcess, root: GrpcCaller) -> None:
    accounts = root.accounts
    granted = Permissions(
        **{"global": GlobalPermissions(read_streams=True)},
        streams=[
            StreamPermissions(stream_id=3, read_stream=True, topics=[TopicPermissions(topic_id=1, send_messages=True)])
        ],
    )
    ann = accounts.CreateUser(v1.CreateUserRequest(username="ann", password="secret", permissions=granted)).user
    assert (ann.username, ann.status) == ("ann", USER_STATUS_ACTIVE)
    assert accounts.GetUser(v1.GetUserRequest(user=named("ann"))).permissions == granted
    assert ann in accounts.ListUsers(v1.ListUsersRequest()).users
    with RawConnection.as_user(shared_server.address, "ann", "secret") as connection:
        token = access_token(connection, "mine")
    with GrpcCaller(shared_server.grpc_address, token) as caller:
        assert [t.name for t in caller.accounts.ListAccessTokens(v1.ListAccessTokensRequest()).tokens] == ["mine"]
        more = caller.accounts.CreateAccessToken(v1.CreateAccessTokenRequest(name="more")).token
        caller.accounts.DeleteAccessToken(v1.DeleteAccessTokenRequest(name="more"))
        with GrpcCaller(shared_server.grpc_address, more) as late:
            assert refusal(late.catalog.ListStreams, v1.ListStreamsRequest())[0] == grpc.StatusCode.UNAUTHENTICATED
        caller.catalog.ListStreams(v1.ListStreamsRequest())
        accounts.UpdatePermissions(v1.UpdatePermissionsRequest(user=named("ann")))
        assert refusal(caller.catalog.ListStreams, v1.ListStreamsRequest()) == (
            grpc.StatusCode.PERMISSION_DENIED,
            Status.UNAUTHORIZED,
        )
        accounts.UpdateUser(v1.UpdateUserRequest(user=named("ann"), status=USER_STATUS_INACTIVE))
        assert refusal(caller.catalog.ListStreams, v1.ListStreamsRequest())[1] == Status.USER_INACTIVE
        accounts.DeleteUser(v1.DeleteUserRequest(user=named("ann")))
        assert refusal(caller.catalog.ListStreams, v1.ListStreamsRequest())[0] == grpc.StatusCode.UNAUTHENTICATED


def test_what_is_no_known_value_is_refused(root: GrpcCaller, stream: str) -> None:
    """An unknown enum value of a newer client is not mistaken for a known one."""
    root.catalog.CreateStream(v1.CreateStreamRequest(name=stream))
    settings = v1.TopicSettings(name="t", compression=7)
    requests = (
        (root.catalog.CreateTopic, v1.CreateTopicRequest(stream=named(stream), settings=settings, partitions_count=1)),
        (root.accounts.CreateUser, v1.CreateUserRequest(username="eve", password="secret", status=9)),
    )
    for call, request in requests:
        assert refusal(call, request) == (grpc.StatusCode.INVALID_ARGUMENT, Status.INVALID_COMMAND)


def test_clients_and_statistics(shared_server: ServerProcess, root: GrpcCaller) -> None:
    with RawConnection.as_root(shared_server.address) as connection:
        clients = root.system.ListClients(v1.ListClientsRequest()).clients
        (mine,) = [client for client in clients if client.address == connection.local_address]
        assert (mine.transport, mine.user_id) == (v1.TRANSPORT_TCP, 0)
        assert root.system.GetClient(v1.GetClientRequest(client_id=mine.id)).client == mine
        assert all(client.transport == v1.TRANSPORT_TCP for client in clients), "a listener is no client"
    assert refusal(root.system.GetClient, v1.GetClientRequest(client_id=2**32 - 1))[0] == grpc.StatusCode.NOT_FOUND
    statistics = root.system.GetStatistics(v1.GetStatisticsRequest())
    assert statistics.process_id == shared_server.process.pid
    assert root.system.GetClusterMetadata(v1.GetClusterMetadataRequest()).nodes[0].is_leader


@pytest.mark.parametrize("header", [None, "", "Basic abc", "Bearer ", "Bearer wrong", "Bearer " + "x" * 5000])
def test_without_a_token_nothing_is_done(shared_server: ServerProcess, header: str | None) -> None:
    metadata = () if header is None else (("authorization", header),)
    with GrpcCaller(shared_server.grpc_address, None) as caller:
        with pytest.raises(grpc.RpcError) as raised:
            caller.catalog.CreateStream(v1.CreateStreamRequest(name="by no caller"), metadata=metadata)
        assert status_of(raised.value)[0] == grpc.StatusCode.UNAUTHENTICATED
        with pytest.raises(grpc.RpcError) as raised:
            list(caller.messages.ProduceStream(iter([]), metadata=metadata))
        assert status_of(raised.value)[0] == grpc.StatusCode.UNAUTHENTICATED


def test_an_unauthenticated_client_is_refused_before_anything_of_the_request_is_received(
    shared_server: ServerProcess,
) -> None:
    """Regression: an unauthenticated client could make the server buffer large requests (GW-9)."""
    never = threading.Event()

    def requests() -> Iterator[bytes]:
        never.wait()
        yield b""

    try:
        with grpc.insecure_channel(shared_server.grpc_address) as channel:
            # The server expects one request, which never arrives.
            call = channel.stream_unary("/headrace.gateway.v1.Messages/Produce")
            with pytest.raises(grpc.RpcError) as raised:
                call(requests(), timeout=20)
    finally:
        never.set()
    assert status_of(raised.value) == (grpc.StatusCode.UNAUTHENTICATED, Status.UNAUTHENTICATED)


def test_health_and_reflection_need_no_token(shared_server: ServerProcess) -> None:
    with grpc.insecure_channel(shared_server.grpc_address) as channel:
        health = health_pb2_grpc.HealthStub(channel)
        for name in ("", *SERVICES):
            answer = health.Check(health_pb2.HealthCheckRequest(service=name))
            assert answer.status == health_pb2.HealthCheckResponse.SERVING
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        (answer,) = stub.ServerReflectionInfo(
            iter([reflection_pb2.ServerReflectionRequest(list_services="*")]), timeout=20
        )
        listed = {service.name for service in answer.list_services_response.service}
        assert set(SERVICES) <= listed


def test_calls_in_flight_end_with_the_server(server: ServerProcess) -> None:
    """A shutdown answers pending requests and closes; an open stream does not delay it."""
    with RawConnection.as_root(server.address) as connection:
        token = access_token(connection)
    with GrpcCaller(server.grpc_address, token) as caller:
        import queue

        requests: queue.Queue = queue.Queue()
        call = caller.messages.ProduceStream(iter(requests.get, None))
        assert server.stop(timeout_seconds=20) == 0
        with pytest.raises(grpc.RpcError) as raised:
            list(call)
        requests.put(None)
        assert raised.value.code() in {grpc.StatusCode.UNAVAILABLE, grpc.StatusCode.CANCELLED}
