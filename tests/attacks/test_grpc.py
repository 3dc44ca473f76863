"""Unauthenticated callers of the gRPC servers: unfinished calls, large requests, and messages that never arrive."""

from __future__ import annotations

import socket
import threading
import time
from collections import deque
from collections.abc import Iterator

import grpc
import pytest
from grpc_health.v1 import health_pb2, health_pb2_grpc

from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from headrace_proto.gateway.v1 import login_pb2, login_pb2_grpc
from headrace_proto.partition.v1 import GetOffsetsRequest
from tests.apis.grpc.caller import GrpcCaller, status_of
from tests.apis.grpc.test_connections import is_over
from tests.attacks.background_latency import bystanders
from tests.conftest import StartServer
from tests.server_process import PASSWORD, USERNAME, ServerProcess

LOCAL = [("grpc.use_local_subchannel_pool", 1)]


def logs_in(server: ServerProcess) -> bool:
    """Return whether another user can log in while the calls are held open."""
    with grpc.insecure_channel(server.grpc_address, LOCAL) as channel:
        request = login_pb2.LoginRequest(username=USERNAME, password=PASSWORD)
        try:
            return bool(login_pb2_grpc.LoginStub(channel).Login(request, timeout=20).token)
        except grpc.RpcError:
            return False


def refusals(server: ServerProcess, addresses: list[str]) -> list[int]:
    """Log in with a wrong password, each time with another forwarded address; return the statuses."""
    found = []
    with GrpcCaller(server.grpc_address, None) as caller:
        for address in addresses:
            request = v1.LoginRequest(username=USERNAME, password="wrong-password")
            with pytest.raises(grpc.RpcError) as refusal:
                caller.login.Login(request, metadata=(("x-forwarded-for", address),))
            found.append(status_of(refusal.value)[1])
    return found


@pytest.mark.parametrize("is_set", [False, True])
def test_callers_do_not_choose_their_address(start_server: StartServer, is_set: bool) -> None:
    """Regression: behind a balancer that forwards connections, as in `compose`, each call could name another address,
    and no login was refused.
    """
    settings = {"PROXY_TRUSTED": "[127.0.0.1]", "LOGIN_FAILURES_MAX": "3", "LOGIN_FAILURES_INTERVAL": "1 h"}
    # The balancer appends the address of its client to what that client has sent.
    server = start_server(settings | ({"PROXY_GRPC": "true"} if is_set else {}))
    wrong, too_many = Status.INVALID_CREDENTIALS, Status.TOO_MANY_LOGIN_ATTEMPTS
    different = [f"203.0.113.{number}" for number in range(6)]
    assert refusals(server, different) == ([wrong] * 6 if is_set else [wrong] * 3 + [too_many] * 3)
    if is_set:
        assert refusals(server, [f"{address}, 198.51.100.1" for address in different]) == [wrong] * 3 + [too_many] * 3


@pytest.mark.parametrize("port", ["grpc", "pipelines"])
def test_connections(start_server: StartServer, port: str) -> None:
    """Regression: who opened connections without end took every place of gRPC, and no other client was served."""
    server = start_server({f"{port.upper()}_MAX_CONNECTIONS": "400", "GRPC_HANDSHAKE_TIMEOUT": "1 m"})
    address = server.grpc_address if port == "grpc" else server.pipelines_address
    host, _, number = address.rpartition(":")
    over, taken = threading.Event(), threading.Event()

    def open_many() -> None:
        held: deque[socket.socket] = deque()
        while not over.is_set():
            if len(held) < 600:
                held.append(socket.create_connection((host, int(number)), 20, ("127.0.1.1", 0)))
                held[-1].settimeout(0)
                continue
            taken.set()
            # All stay as long as the server lets them.
            if is_over(held[0]):
                held.popleft().close()
            held.rotate(-1)
        for connection in held:
            connection.close()

    opening = threading.Thread(target=open_many)
    opening.start()
    try:
        assert taken.wait(60)
        for _ in range(5):
            # The library tries again by itself: seven times in 30 s without this option.
            with grpc.insecure_channel(address, [*LOCAL, ("grpc.max_reconnect_backoff_ms", 300)]) as channel:
                check = health_pb2_grpc.HealthStub(channel).Check
                answer = check(health_pb2.HealthCheckRequest(), timeout=30, wait_for_ready=True)
                assert answer.status == health_pb2.HealthCheckResponse.SERVING
    finally:
        over.set()
        opening.join()


def never(over: threading.Event) -> Iterator[bytes]:
    over.wait()
    yield from ()


@pytest.mark.parametrize("method", ["/grpc.health.v1.Health/Watch", "/headrace.gateway.v1.Login/Login"])
def test_calls_without_an_end(shared_server: ServerProcess, show: list[str], method: str) -> None:
    """Regression: a thousand calls of either method over one connection blocked gRPC for all users while they were
    held.
    """
    over = threading.Event()
    with bystanders(shared_server, show), grpc.insecure_channel(shared_server.grpc_address, LOCAL) as channel:
        if method.endswith("Watch"):
            request = health_pb2.HealthCheckRequest().SerializeToString()
            calls = [channel.unary_stream(method)(request) for _ in range(1200)]
        else:
            # More calls than threads: each occupies a thread until its request arrives.
            calls = [channel.stream_stream(method)(never(over)) for _ in range(300)]
        try:
            time.sleep(0.1)
            for _ in range(3):
                assert logs_in(shared_server)
            with grpc.insecure_channel(shared_server.grpc_address, LOCAL) as other:
                check = health_pb2_grpc.HealthStub(other).Check(health_pb2.HealthCheckRequest(), timeout=20)
                assert check.status == health_pb2.HealthCheckResponse.SERVING
        finally:
            over.set()
            for call in calls:
                call.cancel()
    with grpc.insecure_channel(shared_server.grpc_address, LOCAL) as channel:
        with pytest.raises(grpc.RpcError) as refusal:
            list(health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), timeout=20))
        assert refusal.value.code() is grpc.StatusCode.UNIMPLEMENTED


def test_what_is_sent_without_a_ticket_is_not_received(shared_server: ServerProcess, show: list[str]) -> None:
    """Regression: 60 MiB without a ticket were decoded before authentication, which took 600 MB and stalled all users
    for 0.4 s.
    """
    request = GetOffsetsRequest(partition_ids=range(2**21, 2**21 + 3_000_000)).SerializeToString()
    before = shared_server.memory_bytes()
    with bystanders(shared_server, show):
        for _ in range(3):
            options = [*LOCAL, ("grpc.max_send_message_length", -1)]
            with grpc.insecure_channel(shared_server.pipelines_address, options) as channel:
                with pytest.raises(grpc.RpcError) as refusal:
                    channel.unary_unary("/headrace.partition.v1.Partition/GetOffsets")(request, timeout=20)
                assert refusal.value.code() is grpc.StatusCode.UNAUTHENTICATED
    assert shared_server.memory_bytes() - before < 64_000_000
