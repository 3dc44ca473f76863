"""Unauthenticated clients of the binary protocol: announced bytes, and connections without a login."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack, closing

import pytest

from tests.attacks.background_latency import bystanders
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import RawConnection
from tests.compatibility.protocol.websocket import BINARY, HandMade, masked
from tests.conftest import StartServer
from tests.server_process import ServerProcess

ANNOUNCED = struct.pack("<II", 10 * 1024 * 1024 + 4, Code.CREATE_STREAM)
"""Header of a request of 10 MiB whose body is never sent."""
SMALL_POOL = {"SYSTEM_MEMORY_POOL_SIZE": "512 MiB"}


def over_tcp(server: ServerProcess) -> RawConnection:
    connection = RawConnection(server.address)
    connection.write(ANNOUNCED)
    return connection


def over_websocket(server: ServerProcess) -> RawConnection:
    connection = HandMade(server.websocket_address)
    connection.upgrade()
    connection.write(masked(BINARY, ANNOUNCED))
    return connection


@pytest.mark.parametrize("announce", [over_tcp, over_websocket])
def test_announced_bytes_keep_no_user_out(
    start_server: StartServer, show: list[str], announce: Callable[[ServerProcess], RawConnection]
) -> None:
    """Regression: 300 connections with eight bytes each took 3.6 GiB of a pool of 512 MiB and blocked all logins."""
    server = start_server(SMALL_POOL)
    with bystanders(server, show), ExitStack() as stack:
        unauthenticated = [stack.enter_context(announce(server)) for _ in range(300)]
        assert {unauthenticated.receive().status for unauthenticated in unauthenticated} == {Status.UNAUTHENTICATED}
        with RawConnection.as_root(server.address) as root, HandMade(server.websocket_address) as late:
            root.create_topic("large")
            root.send("large", "t", 0, bytes(1_200_000))
            late.upgrade()
            late.ok(Code.LOGIN_USER, frames.login("iggy", "iggy"))


def test_users_without_rights_leave_room_for_logins(start_server: StartServer, show: list[str]) -> None:
    """Announced requests take memory only up to the part of the pool that is reserved for small requests."""
    server = start_server({"SYSTEM_MEMORY_POOL_SIZE": "512 MiB"})
    with bystanders(server, show), ExitStack() as stack:
        for _ in range(60):
            connection = stack.enter_context(RawConnection.as_root(server.address))
            connection.write(ANNOUNCED)
        with RawConnection.as_root(server.address) as late:
            assert late.is_alive()


def test_one_user_leaves_memory_to_others(start_server: StartServer) -> None:
    """Requests that one user sends slowly take at most half of the pool; large batches of other users proceed."""
    server = start_server(SMALL_POOL)
    with ExitStack() as stack:
        root = stack.enter_context(RawConnection.as_root(server.address))
        root.create_topic("large")
        rights = frames.permissions(["send_messages"])
        for name in ("slow", "other"):
            root.ok(Code.CREATE_USER, frames.create_user(name, "password", rights))
        batch = frames.send("large", "t", frames.to_partition(0), [frames.message(bytes(30_000_000))])
        begun = frames.request(Code.SEND_MESSAGES, batch)[:1000]
        slow = [stack.enter_context(RawConnection.as_user(server.address, "slow", "password")) for _ in range(40)]
        for connection in slow:
            connection.write(begun)
        other = stack.enter_context(RawConnection.as_user(server.address, "other", "password"))
        for connection in slow:
            # A byte now and then keeps an incomplete request alive.
            connection.write(b"x")
            began = time.perf_counter()
            other.send("large", "t", 0, bytes(1_000_000))
            seconds = time.perf_counter() - began
            # Without room, the request would wait until the slow requests release their memory.
            assert seconds < 15, f"1 MB of another user took {seconds:.1f} s"


@pytest.mark.long
def test_who_does_not_log_in_is_let_go(start_server: StartServer) -> None:
    server = start_server({"TCP_LOGIN_TIMEOUT": "8 s"})
    with (
        RawConnection.as_root(server.address) as user,
        HandMade(server.websocket_address) as upgraded,
        RawConnection(server.address) as silent,
        RawConnection(server.address) as begun,
    ):
        upgraded.upgrade()
        begun.write(frames.request(Code.LOGIN_USER, frames.login("iggy", "iggy"))[:-1])
        assert silent.wait_closed()
        assert begun.wait_closed()
        assert upgraded.wait_closed()
        assert user.is_alive()


def from_address(server: ServerProcess, address: str, first: bytes = b"") -> RawConnection:
    """Open a connection from another address of this machine, which begins with these bytes."""
    connection = RawConnection.__new__(RawConnection)
    connection.socket = socket.create_connection((server.host, server.port), 20, (address, 0))
    connection.timeout_seconds = 20
    connection.write(first)
    return connection


def proxy_header(source: str, port: int) -> bytes:
    addresses = socket.inet_aton(source) + socket.inet_aton("10.0.0.1") + struct.pack(">HH", port, 8090)
    return b"\r\n\r\n\0\r\nQUIT\n\x21\x11" + struct.pack(">H", len(addresses)) + addresses


def test_a_balancer_says_where_a_connection_comes_from(start_server: StartServer) -> None:
    """The address in a PROXY protocol header counts only if a trusted balancer sends the header."""
    server = start_server({"PROXY_TRUSTED": "[127.0.0.2]"})
    login = frames.request(Code.LOGIN_USER, frames.login("iggy", "iggy"))
    with closing(from_address(server, "127.0.0.2", proxy_header("203.0.113.7", 51234) + login)) as proxied:
        assert proxied.receive().status == Status.OK
        assert b"203.0.113.7:51234" in proxied.ok(Code.GET_ME)
    with closing(from_address(server, "127.0.0.2", login)) as silent:
        assert silent.wait_closed()
    with closing(from_address(server, "127.0.0.3", proxy_header("203.0.113.7", 51234))) as unauthenticated:
        # A frame of 168 MiB to the server exceeds the limit for every client.
        assert unauthenticated.receive().status != Status.OK


def test_names_cannot_command_terminals(start_server: StartServer) -> None:
    server = start_server()
    with RawConnection.as_root(server.address) as root:
        for name in ("\x1b]0;owned\x07", "a\nb", "\x9b31m"):
            assert root.status(Code.CREATE_STREAM, frames.name(name)) == Status.INVALID_FORMAT
        root.ok(Code.CREATE_STREAM, frames.name("größer"))
