"""The WebSocket of one client: sending, liveness, and closing."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from enum import IntEnum
from struct import Struct
from typing import Any, Final

from aiohttp import WSMessage, WSMsgType, web
from aiohttp.http import WebSocketWriter
from aiohttp.web import BaseRequest

from headrace_gateway.push.connections.protocol_checks import Strict

# Timeout of the close handshake.
_CLOSE_SECONDS: Final = 2.0
_SHORT: Final = Struct("!BBH")
_LONG: Final = Struct("!BBQ")


class Close(IntEnum):
    """Reasons for a close by the server. Other codes are those of RFC 6455."""

    GOING_AWAY = 1001
    UNSUPPORTED = 1003
    FAILED = 1011
    NOT_UNDERSTOOD = 4400
    NOT_LOGGED_IN = 4401
    LOGIN_TIMEOUT = 4408
    TOO_MANY = 4429
    SILENT = 4440


class Upgraded(web.WebSocketResponse):
    """A WebSocket with strict protocol checks."""

    def _post_start(self, request: BaseRequest, protocol: str | None, writer: WebSocketWriter) -> None:
        super()._post_start(request, protocol, writer)
        if self._parser is not None and self._reader is not None:
            # aiohttp has no other hook in front of the parser.
            strict: Any = Strict(self._parser, self._reader.set_exception)
            request.protocol._payload_parser = strict  # noqa: SLF001


def response(*, message_bytes_max: int, protocols: tuple[str, ...], compression: bool) -> Upgraded:
    """Return the answer to an upgrade, with the options of every WebSocket here."""
    return Upgraded(
        timeout=_CLOSE_SECONDS,
        # Pings and pongs are handled here because they count as signs of life.
        autoping=False,
        max_msg_size=message_bytes_max,
        protocols=protocols,
        compress=compression,
        # Senders wait as soon as the transport's buffer is full.
        writer_limit=0,
    )


def _frame_header(message: bytes, *, is_binary: bool) -> bytes:
    opcode, size = 0x82 if is_binary else 0x81, len(message)
    if size < 126:
        return bytes((opcode, size))
    if size < 2**16:
        return _SHORT.pack(opcode, 126, size)
    return _LONG.pack(opcode, 127, size)


class Socket:
    """One end of an upgraded connection."""

    def __init__(self, request: web.Request, upgraded: web.WebSocketResponse) -> None:
        self._request = request
        self._upgraded = upgraded
        self._ending: asyncio.Task[None] | None = None
        self._code: Close | None = None
        self.sent_at = self.heard_at = time.monotonic()
        """Time of the last send, and of the last receipt (monotonic seconds)."""

    @property
    def is_ending(self) -> bool:
        """True if the connection is being closed: further messages are dropped."""
        return self._ending is not None or self._upgraded.closed

    @property
    def is_full(self) -> bool:
        """True if the client does not read fast enough."""
        transport = self._request.transport
        return transport is not None and transport.get_write_buffer_size() > 0

    @property
    def close_code(self) -> int | None:
        """Close code, sent or received."""
        return self._code or self._upgraded.close_code

    async def receive(self) -> WSMessage | None:
        """Return the next text or binary message; None at the end."""
        while True:
            message = await self._upgraded.receive()
            self.heard_at = time.monotonic()
            match message.type:
                case WSMsgType.TEXT | WSMsgType.BINARY:
                    return message
                case WSMsgType.PING:
                    with suppress(ConnectionError):
                        await self._upgraded.pong(message.data)
                case WSMsgType.PONG:
                    pass
                case _:
                    return None

    @property
    def takes_at_once(self) -> bool:
        """True if a write is expected to be sent without buffering."""
        transport = self._request.transport
        return (
            transport is not None
            and not self.is_ending
            and not self._upgraded.compress
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )

    def write(self, message: bytes, *, is_binary: bool) -> None:
        """Send a message without waiting."""
        transport = self._request.transport
        if transport is not None:
            self.sent_at = time.monotonic()
            transport.write(_frame_header(message, is_binary=is_binary) + message)

    async def send_text(self, text: bytes) -> None:
        """Send a text message, and wait until there is room for the next one."""
        await self._send(text, WSMsgType.TEXT)

    async def send_binary(self, frame: bytes) -> None:
        """Send a binary message, and wait until there is room for the next one."""
        await self._send(frame, WSMsgType.BINARY)

    async def ping(self) -> None:
        """Send a ping, so that the client answers."""
        with suppress(ConnectionError):
            await self._upgraded.ping()

    def end(self, code: Close, reason: str) -> None:
        """Start closing the connection; only the first reason counts."""
        if self._ending is None:
            self._code = code
            self._ending = asyncio.create_task(self._close(code, reason))

    async def ended(self) -> None:
        """Wait until it is closed."""
        if self._ending is not None:
            await self._ending

    async def _send(self, message: bytes, kind: WSMsgType) -> None:
        if self.is_ending:
            return
        self.sent_at = time.monotonic()
        # A disconnected client is detected by the receive loop.
        with suppress(ConnectionError):
            await self._upgraded.send_frame(message, kind)

    async def _close(self, code: Close, reason: str) -> None:
        transport = self._request.transport
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(2 * _CLOSE_SECONDS):
                await self._upgraded.close(code=code, message=reason.encode()[:123])
        # A client that does not read would keep the send buffer in memory forever.
        if transport is not None and transport.get_write_buffer_size() > 0:
            transport.abort()
