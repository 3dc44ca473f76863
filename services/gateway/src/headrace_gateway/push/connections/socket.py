"""The WebSocket of one client: sending, liveness, and closing."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from enum import IntEnum
from struct import Struct
from typing import Any, Final, Self

from aiohttp import web
from aiohttp.http import WebSocketWriter

from headrace_gateway.json_api.memory import Exhausted, Held
from headrace_gateway.push.connections.received import Control, End, Limits, Opcode, Received
from headrace_gateway.push.connections.upgrade import Upgraded

TAKING_SECONDS: Final = 20.0
"""Time after the last byte that a client has taken until it is disconnected, if there is more for it."""
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


def _frame_header(message: bytes, *, is_binary: bool) -> bytes:
    opcode, size = 0x82 if is_binary else 0x81, len(message)
    if size < 126:
        return bytes((opcode, size))
    if size < 2**16:
        return _SHORT.pack(opcode, 126, size)
    return _LONG.pack(opcode, 127, size)


class Socket:
    """One end of an upgraded connection."""

    def __init__(self, transport: asyncio.Transport, writer: WebSocketWriter, received: Received) -> None:
        self._transport = transport
        self._writer = writer
        self._received = received
        self._ending: asyncio.Task[None] | None = None
        self._code: int | None = None
        self.sent_at = self.heard_at = self._taken_at = time.monotonic()
        """Time of the last send, and of the last receipt (monotonic seconds)."""
        self.held: Held | None = None
        """Memory of frames that the client has not taken yet; None before the login, when all are small."""
        self._sending_bytes = 0
        self._untaken_bytes = 0

    @classmethod
    async def open(cls, request: web.Request, upgraded: Upgraded, limits: Limits) -> Self:
        """Send the answer to an upgrade request, and return the socket.

        Raises:
            ConnectionError: The client has disconnected.
        """
        await upgraded.prepare(request)
        protocol, transport = request.protocol, request.transport
        if transport is None:
            raise ConnectionResetError("the client has disconnected")
        writer = WebSocketWriter(
            protocol,
            transport,
            compress=upgraded.window_bits,
            notakeover=upgraded.keeps_no_context,
            # Senders wait as soon as the transport's buffer is full.
            limit=0,
        )
        received: Any = Received(protocol, limits, is_compressed=upgraded.window_bits != 0)
        # It also receives what has arrived together with the request.
        protocol.set_parser(received)
        return cls(transport, writer, received)

    @property
    def is_ending(self) -> bool:
        """True if the connection is being closed: further messages are dropped."""
        return self._ending is not None

    @property
    def is_full(self) -> bool:
        """True if the client does not read fast enough."""
        return self._transport.get_write_buffer_size() > 0

    @property
    def close_code(self) -> int | None:
        """Close code, sent or received."""
        return self._code

    async def receive(self) -> str | bytes | None:
        """Return the next text or binary message; None at the end."""
        while True:
            item = await self._received.next()
            self.heard_at = time.monotonic()
            match item:
                case Control(opcode=Opcode.PING):
                    with suppress(ConnectionError):
                        await self._writer.send_frame(item.payload, Opcode.PONG)
                case Control():
                    pass
                case End():
                    self._start_closing(item.answer, b"", recorded=item.code)
                    return None
                case _:
                    return item

    @property
    def takes_at_once(self) -> bool:
        """True if a write is expected to be sent without buffering."""
        transport = self._transport
        return (
            not self.is_ending
            and not self._writer.compress
            and not transport.is_closing()
            and transport.get_write_buffer_size() == 0
        )

    def write(self, message: bytes, *, is_binary: bool) -> None:
        """Send a message without waiting."""
        self.sent_at = time.monotonic()
        self._transport.write(_frame_header(message, is_binary=is_binary) + message)
        if self.is_full:
            self._count()

    def look_after(self, now: float) -> None:
        """Count what the client has not taken, and disconnect a client that takes nothing for too long.

        Args:
            now: Monotonic seconds.
        """
        untaken_bytes = self._transport.get_write_buffer_size()
        if untaken_bytes == 0 or untaken_bytes < self._untaken_bytes:
            self._taken_at = now
        self._untaken_bytes = untaken_bytes
        self._count()
        if now - self._taken_at >= TAKING_SECONDS:
            self.end(Close.SILENT, "reads nothing")

    def _count(self) -> None:
        if self.held is None:
            return
        try:
            self.held.resize(max(self._sending_bytes, self._transport.get_write_buffer_size()))
        except Exhausted:
            self.end(Close.TOO_MANY, "unread answers use the memory")

    async def send_text(self, text: bytes) -> None:
        """Send a text message, and wait until there is room for the next one."""
        await self._send(text, Opcode.TEXT)

    async def send_binary(self, frame: bytes) -> None:
        """Send a binary message, and wait until there is room for the next one."""
        await self._send(frame, Opcode.BINARY)

    async def ping(self) -> None:
        """Send a ping, so that the client answers."""
        with suppress(ConnectionError):
            await self._writer.send_frame(b"", Opcode.PING)

    def end(self, code: Close, reason: str) -> None:
        """Start closing the connection; only the first reason counts."""
        self._start_closing(code, reason.encode()[:123], recorded=code)

    async def ended(self) -> None:
        """Wait until it is closed."""
        if self._ending is not None:
            await self._ending

    async def _send(self, message: bytes, opcode: Opcode) -> None:
        if self.is_ending:
            return
        self.sent_at = time.monotonic()
        self._sending_bytes += len(message)
        try:
            self._count()
            if self.is_ending:
                return
            # A disconnected client is detected by the receive loop.
            with suppress(ConnectionError):
                await self._writer.send_frame(message, opcode)
        finally:
            self._sending_bytes -= len(message)
            self._count()

    def _start_closing(self, code: int, reason: bytes, *, recorded: int | None) -> None:
        if self._ending is None:
            self._code = recorded
            self._received.discard()
            self._ending = asyncio.create_task(self._close(code, reason))

    async def _close(self, code: int, reason: bytes) -> None:
        with suppress(TimeoutError, ConnectionError):
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._writer.close(code, reason)
            async with asyncio.timeout(_CLOSE_SECONDS):
                await self._received.ended.wait()
        self._transport.close()
        # A client that does not read would keep the send buffer in memory forever.
        if self._transport.get_write_buffer_size() > 0:
            self._transport.abort()
