"""Connections to the gRPC listener are limited, including idle unauthenticated ones (GW-9)."""

from __future__ import annotations

import socket
from contextlib import ExitStack, closing

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from tests.compatibility.protocol.raw import eventually
from tests.conftest import StartServer
from tests.server_process import ServerProcess


def connected(server: ServerProcess) -> socket.socket:
    host, _, port = server.grpc_address.rpartition(":")
    connection = socket.create_connection((host, int(port)), timeout=20)
    connection.settimeout(0)
    return connection


def is_over(connection: socket.socket) -> bool:
    """Return whether the server has closed the connection; received bytes are skipped."""
    try:
        while connection.recv(65_536):
            pass
    except BlockingIOError:
        return False
    except ConnectionError:
        pass
    return True


def is_served(server: ServerProcess) -> bool:
    options = [("grpc.use_local_subchannel_pool", 1)]
    with grpc.insecure_channel(server.grpc_address, options) as channel:
        try:
            health_pb2_grpc.HealthStub(channel).Check(health_pb2.HealthCheckRequest(), timeout=5)
        except grpc.RpcError:
            return False
    return True


def test_who_says_nothing_makes_room_when_all_places_are_taken(start_server: StartServer) -> None:
    server = start_server({"GRPC_MAX_CONNECTIONS": "3", "GRPC_HANDSHAKE_TIMEOUT": "1 m"})
    with ExitStack() as stack:
        silent = [stack.enter_context(closing(connected(server))) for _ in range(3)]
        eventually("a place", lambda: is_served(server))
        assert sum(is_over(one) for one in silent) >= 2


def test_who_says_nothing_and_who_asks_for_nothing_is_disconnected(start_server: StartServer) -> None:
    server = start_server({"GRPC_HANDSHAKE_TIMEOUT": "500 ms", "GRPC_IDLE_TIMEOUT": "1 s"})
    with closing(connected(server)) as silent, closing(connected(server)) as idle:
        # The preface of HTTP/2 and an empty SETTINGS frame.
        idle.sendall(b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes([0, 0, 0, 4, 0, 0, 0, 0, 0]))
        eventually("the end of the silent one", lambda: is_over(silent))
        eventually("the end of the idle one", lambda: is_over(idle))
    # A busy machine may exceed the timeout of one attempt.
    eventually("an answer", lambda: is_served(server))
