"""Upgrades. Bytes that arrive together with the request are frames like all later ones (GW-5)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from urllib.parse import urlsplit

import aiohttp
import pytest

from tests.apis.http.api import Api
from tests.apis.http.conftest import Reach
from tests.apis.push.browser import WAIT_SECONDS
from tests.apis.push.client_frames import frame
from tests.conftest import StartServer

_UPGRADE = (
    "GET /ws HTTP/1.1\r\nHost: {host}\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    "Sec-WebSocket-Version: 13\r\nSec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\n\r\n"
)


@asynccontextmanager
async def upgraded(api: Api, together: bytes) -> AsyncIterator[tuple[asyncio.StreamReader, asyncio.StreamWriter]]:
    """A connection that sends bytes in one write with the upgrade request, and has read the answer to the upgrade."""
    host = urlsplit(api.url).netloc
    reader, writer = await asyncio.open_connection(*host.split(":"))
    try:
        writer.write(_UPGRADE.format(host=host).encode() + together)
        async with asyncio.timeout(WAIT_SECONDS):
            assert (await reader.readuntil(b"\r\n\r\n")).startswith(b"HTTP/1.1 101 ")
        yield reader, writer
    finally:
        writer.close()
        await writer.wait_closed()


async def read_frame(reader: asyncio.StreamReader) -> tuple[int, bytes]:
    """The opcode and the payload of the next frame of the server."""
    async with asyncio.timeout(WAIT_SECONDS):
        first, size = await reader.readexactly(2)
        if size == 126:
            size = int.from_bytes(await reader.readexactly(2), "big")
        return first & 0x0F, await reader.readexactly(size)


@pytest.mark.parametrize("cut", [0, 1, 3, 20, None])
async def test_a_login_may_come_with_the_upgrade(root: Api, cut: int | None) -> None:
    login = frame(1, json.dumps({"type": "login", "id": 1, "token": root.token}).encode())
    async with upgraded(root, login[:cut]) as (reader, writer):
        if cut is not None:
            writer.write(login[cut:])
        opcode, payload = await read_frame(reader)
        assert opcode == 1
        assert json.loads(payload)["type"] == "ok"
        writer.write(frame(1, b'{"type": "ping", "id": 2}'))
        assert json.loads((await read_frame(reader))[1]) == {"type": "ok", "id": 2}


@pytest.mark.parametrize(
    ("together", "code"),
    [
        (frame(1, b'{"type": "ping", "id": 1}', mask=None), 1002),
        (frame(8, (1005).to_bytes(2, "big")), 1002),
        (frame(1, b" " * 4097), 1009),
        (frame(9, b"") * 101, 1008),
        # Neither the text nor its frame ends.
        (frame(1, b"text \xff" + bytes(90), last=False)[:20], 1007),
    ],
    ids=["not masked", "reserved close code", "long first message", "control frames", "no UTF-8"],
)
async def test_the_checks_begin_with_the_first_byte(root: Api, together: bytes, code: int) -> None:
    async with upgraded(root, together) as (reader, _):
        while (received := await read_frame(reader))[0] != 8:
            pass
        assert int.from_bytes(received[1][:2], "big") == code


async def test_compression_if_it_is_offered(start_server: StartServer, reach: Reach) -> None:
    root = await reach(start_server({"PUSH_COMPRESSION": "true", "PUSH_MAX_MESSAGE_SIZE": "64 KiB"})).login()
    async with root.session.ws_connect(f"{root.url}/ws", compress=15) as socket:
        assert socket.compress
        await socket.send_json({"type": "login", "id": 1, "token": root.token})
        assert (await socket.receive_json())["type"] == "ok"
        for number in (2, 3):
            await socket.send_json({"type": "ping", "id": number})
            assert await socket.receive_json() == {"type": "ok", "id": number}
        await socket.send_str(" " * 65537)
        message = await socket.receive(WAIT_SECONDS)
        assert (message.type, message.data) == (aiohttp.WSMsgType.CLOSE, 1009)
