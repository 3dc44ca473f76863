"""The total memory of calls is bounded, and one user cannot exhaust it (GW-6, GW-9)."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager

import grpc
import pytest
from google.rpc.error_details_pb2 import ErrorInfo, RetryInfo
from google.rpc.status_pb2 import Status as Details

from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from headrace_proto.gateway.v1.system_pb2_grpc import SystemStub
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.apis.grpc.test_subscriptions import Consuming
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import StartServer
from tests.server_process import ServerProcess

# Room for one request of a user at a time, and for two of streams.
TIGHT = {"GRPC_MAX_REQUEST_SIZE": "256 KiB", "GRPC_MAX_MEMORY": "2 MiB"}


@pytest.fixture
def tight_server(start_server: StartServer) -> ServerProcess:
    return start_server(TIGHT)


@contextmanager
def callers(server: ServerProcess) -> Iterator[tuple[GrpcCaller, GrpcCaller]]:
    """Root, and another user."""
    with RawConnection.as_root(server.address) as connection:
        root_token = access_token(connection)
        connection.create_topic("s", "t", 1)
    with GrpcCaller(server.grpc_address, root_token) as root:
        root.accounts.CreateUser(v1.CreateUserRequest(username="bob", password="secret"))
        with RawConnection.as_user(server.address, "bob", "secret") as connection:
            token = access_token(connection)
        with GrpcCaller(server.grpc_address, token) as bob:
            yield root, bob


@pytest.mark.long
def test_a_request_that_does_not_come_holds_up_its_user_only(tight_server: ServerProcess) -> None:
    never = threading.Event()

    def requests() -> Iterator[bytes]:
        never.wait()
        yield from ()

    request = v1.GetClusterMetadataRequest()
    with callers(tight_server) as (root, bob), grpc.insecure_channel(tight_server.grpc_address) as channel:
        metadata = (("authorization", f"Bearer {root.token}"),)
        silent = channel.stream_unary("/headrace.gateway.v1.Messages/Produce").future(requests(), metadata=metadata)
        try:
            # The other calls succeed until the silent call has its slot.
            while (refused := _refusal_of(root.system, request)) is None:
                pass
            assert status_of(refused) == (grpc.StatusCode.UNAVAILABLE, Status.TOO_MANY_WAITS)
            details = Details.FromString(dict(refused.trailing_metadata())["grpc-status-details-bin"])
            assert details.details[1].Is(RetryInfo.DESCRIPTOR)
            info = ErrorInfo()
            assert details.details[0].Unpack(info)
            assert info.metadata["in_doubt"] == "false"
            bob.system.GetClusterMetadata(request, timeout=20)
        finally:
            silent.cancel()
            never.set()
        root.system.GetClusterMetadata(request, timeout=20)


def _refusal_of(system: SystemStub, request: v1.GetClusterMetadataRequest) -> grpc.RpcError | None:
    try:
        system.GetClusterMetadata(request, timeout=20)
    except grpc.RpcError as error:
        return error
    return None


@pytest.mark.long
def test_streams_that_are_open_for_more_are_counted(tight_server: ServerProcess) -> None:
    """Streams that the client has half-closed are not counted."""
    subscribe = v1.Subscribe(
        stream=v1.Identifier(name="s"), topic=v1.Identifier(name="t"), partition_ids=[0], start=v1.Start(offset=0)
    )
    with callers(tight_server) as (root, bob):
        calls = [Consuming(root, subscribe) for _ in range(5)]
        for call in calls[:3]:
            call.close()
        for call in calls:
            call.subscribed()
        calls.append(Consuming(root, subscribe))
        assert calls[-1].refusal() == (grpc.StatusCode.UNAVAILABLE, Status.TOO_MANY_WAITS)
        root.system.GetClusterMetadata(v1.GetClusterMetadataRequest(), timeout=20)
        calls.append(Consuming(bob, subscribe))
        assert calls[-1].refusal()[1] == Status.UNAUTHORIZED, "and not for want of room"
        calls[4].finish()
        calls.append(Consuming(root, subscribe))
        calls[-1].subscribed()
        for call in calls:
            call.call.cancel()
            call.close()


def test_many_large_requests_at_a_time(tight_server: ServerProcess) -> None:
    """The requests take turns, and all of them succeed."""
    batch = v1.ProduceRequest(
        stream=v1.Identifier(name="s"), topic=v1.Identifier(name="t"), messages=[v1.NewMessage(payload=b"x" * 250_000)]
    )
    with callers(tight_server) as (root, _):
        sent = [root.messages.Produce.future(batch, timeout=60) for _ in range(20)]
        for one in sent:
            one.result()
        where = {"stream": batch.stream, "topic": batch.topic}
        request = v1.PollRequest(**where, start=v1.Start(last=v1.Start.Last()), count=1)
        polled = root.messages.Poll(request)
        assert polled.messages[0].offset == 19


def test_a_request_that_is_too_large(tight_server: ServerProcess) -> None:
    with callers(tight_server) as (root, _):
        batch = v1.ProduceRequest(
            stream=v1.Identifier(name="s"),
            topic=v1.Identifier(name="t"),
            messages=[v1.NewMessage(payload=b"x" * 300_000)],
        )
        with pytest.raises(grpc.RpcError) as raised:
            root.messages.Produce(batch)
        assert raised.value.code() == grpc.StatusCode.RESOURCE_EXHAUSTED
        root.system.GetClusterMetadata(v1.GetClusterMetadataRequest())
