"""TLS in front of the binary protocol in WebSocket messages (GW-2, GW-3)."""

from __future__ import annotations

import asyncio
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
import websockets.exceptions
from websockets.asyncio.client import ClientConnection, connect

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.conftest import StartServer
from tests.encryption.certificates import ServerFiles
from tests.encryption.conftest import WEBSOCKET_TLS
from tests.encryption.connection import TlsConnection
from tests.encryption.test_tls import clients
from tests.server_process import PASSWORD, USERNAME, ServerProcess

WEBSOCKET_TRANSPORT = 4
SECONDS = 20.0


@pytest.fixture
def server(start_server: StartServer, files: ServerFiles) -> ServerProcess:
    """A server with both listeners encrypted."""
    settings = {"TCP_TLS_ENABLED": "true", **files.settings()}
    return start_server(settings | WEBSOCKET_TLS | files.settings("WEBSOCKET_TLS"))


@asynccontextmanager
async def upgraded(server: ServerProcess, files: ServerFiles) -> AsyncIterator[ClientConnection]:
    """A WebSocket through TLS.

    The test uses the library's asyncio client. Its threaded client reads and writes one TLS connection from two
    threads, which OpenSSL does not allow. If the server's session tickets arrive during the upgrade request, that
    client sometimes waits forever for the response, with any server.
    """
    port = server.websocket_address.rpartition(":")[2]
    async with connect(
        f"wss://localhost:{port}/", ssl=files.trusting(), compression=None, max_size=None, proxy=None
    ) as websocket:
        yield websocket


async def received(websocket: ClientConnection) -> bytes:
    """The next message."""
    async with asyncio.timeout(SECONDS):
        return await websocket.recv(decode=False)


async def exchange(websocket: ClientConnection, code: int, payload: bytes = b"") -> bytes:
    """Ask, and take the response, which is one message."""
    await websocket.send(frames.request(code, payload))
    answer = await received(websocket)
    status, length = struct.unpack_from("<II", answer)
    assert (status, length) == (Status.OK, len(answer) - 8)
    return answer[8:]


async def test_the_protocol_through_both(server: ServerProcess, files: ServerFiles) -> None:
    """The client is listed with its own address and transport, and reads the same messages through either listener."""
    async with upgraded(server, files) as websocket:
        with TlsConnection.logged_in(server.address, files.trusting()) as other:
            await exchange(websocket, Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))
            host, port = websocket.local_address[:2]
            assert (WEBSOCKET_TRANSPORT, f"{host}:{port}") in clients(other)
            other.create_topic("s")
            payload = bytes(range(256)) * (3 << 12)
            message = frames.message(payload)
            await exchange(websocket, Code.SEND_MESSAGES, frames.send("s", "t", frames.to_partition(0), [message]))
            await exchange(websocket, Code.PING)
            assert payload in other.ok(
                Code.POLL_MESSAGES, frames.poll("s", "t", 0, 3, 0, 1, auto_commit=False, who=frames.consumer(1))
            )


async def test_the_disconnection_goes_through_both(server: ServerProcess, files: ServerFiles) -> None:
    async with upgraded(server, files) as websocket:
        await exchange(websocket, Code.PING)
        assert await asyncio.to_thread(server.stop) == 0
        assert await received(websocket) == struct.pack("<II", Status.DISCONNECTED, 0)
        with pytest.raises(websockets.exceptions.ConnectionClosed):
            await received(websocket)
