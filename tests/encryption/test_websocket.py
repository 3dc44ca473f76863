"""TLS in front of the binary protocol in WebSocket messages (GW-2, GW-3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import websockets.exceptions
from websockets.sync.client import ClientConnection, connect

from tests.compatibility import frames
from tests.compatibility.codes import Code, Status
from tests.conftest import StartServer
from tests.encryption.certificates import ServerFiles
from tests.encryption.conftest import WEBSOCKET_TLS
from tests.encryption.connection import TlsConnection
from tests.encryption.test_tls import clients
from tests.server_process import PASSWORD, USERNAME, ServerProcess

WEBSOCKET_TRANSPORT = 4


@pytest.fixture
def server(start_server: StartServer, files: ServerFiles) -> ServerProcess:
    """A server with both doors encrypted."""
    settings = {"TCP_TLS_ENABLED": "true", **files.settings()}
    return start_server(settings | WEBSOCKET_TLS | files.settings("WEBSOCKET_TLS"))


@contextmanager
def upgraded(server: ServerProcess, files: ServerFiles) -> Iterator[ClientConnection]:
    """A WebSocket through TLS."""
    port = server.websocket_address.rpartition(":")[2]
    with connect(
        f"wss://localhost:{port}/", ssl=files.trusting(), compression=None, max_size=None, proxy=None
    ) as websocket:
        yield websocket


def exchange(websocket: ClientConnection, code: int, payload: bytes = b"") -> bytes:
    """Ask, and take the response, which is one message."""
    websocket.send(frames.request(code, payload))
    answer = websocket.recv(20, decode=False)
    status, length = struct.unpack_from("<II", answer)
    assert (status, length) == (Status.OK, len(answer) - 8)
    return answer[8:]


def test_the_protocol_through_both(server: ServerProcess, files: ServerFiles) -> None:
    """Listed with its own address and transport; the same messages by either door."""
    with upgraded(server, files) as websocket, TlsConnection.logged_in(server.address, files.trusting()) as other:
        exchange(websocket, Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))
        host, port = websocket.socket.getsockname()[:2]
        assert (WEBSOCKET_TRANSPORT, f"{host}:{port}") in clients(other)
        other.create_topic("s")
        payload = bytes(range(256)) * (3 << 12)
        message = frames.message(payload)
        exchange(websocket, Code.SEND_MESSAGES, frames.send("s", "t", frames.to_partition(0), [message]))
        exchange(websocket, Code.PING)
        assert payload in other.ok(
            Code.POLL_MESSAGES, frames.poll("s", "t", 0, 3, 0, 1, auto_commit=False, who=frames.consumer(1))
        )


def test_the_goodbye_goes_through_both(server: ServerProcess, files: ServerFiles) -> None:
    with upgraded(server, files) as websocket:
        exchange(websocket, Code.PING)
        assert server.stop() == 0
        assert websocket.recv(20, decode=False) == struct.pack("<II", Status.DISCONNECTED, 0)
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            websocket.recv(20)
