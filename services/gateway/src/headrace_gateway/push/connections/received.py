"""Messages of one client: decoding, limits, and a queue."""

from __future__ import annotations

import asyncio
import time
import zlib
from dataclasses import dataclass
from enum import IntEnum
from typing import Final, Protocol

from aiohttp import WSCloseCode

import headrace_core as core
from headrace_gateway.push.connections.limits import Pace

FIRST_MESSAGE_BYTES_MAX: Final = 4096
"""Maximum size of the first message; a login is much smaller."""
# Reading of the connection pauses while more than this is queued.
_QUEUED_BYTES_MAX: Final = 2**17
# Approximate memory of a queued message in addition to its payload.
_MESSAGE_BYTES: Final = 64
# The sender of a compressed message omits the end of the block. Source: RFC 7692, section 7.2.2.
_DEFLATE_TAIL: Final = b"\x00\x00\xff\xff"


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of what one client sends. A violation closes the connection.

    Attributes:
        message_bytes: Maximum size of messages after the first one, both compressed and decompressed.
        first_message_bytes: The same for the first one, which is sent before the login.
        frames_per_second: Twice as many after a pause. Clients do not split messages into that many frames.
        controls_per_second: The same for control frames; pings come seconds apart.
    """

    message_bytes: int
    first_message_bytes: int = FIRST_MESSAGE_BYTES_MAX
    frames_per_second: int = 5000
    controls_per_second: int = 50


class Opcode(IntEnum):
    """Types of frames. Source: RFC 6455, section 5.2."""

    CONTINUATION = 0
    TEXT = 1
    BINARY = 2
    CLOSE = 8
    PING = 9
    PONG = 10


@dataclass(frozen=True, slots=True)
class Control:
    """A ping, or a pong."""

    opcode: Opcode
    payload: bytes


@dataclass(frozen=True, slots=True)
class End:
    """The last item.

    Attributes:
        code: Code of the client's close frame, if it had one, or of the violation.
        answer: Code with which to close the connection.
    """

    code: int | None
    answer: int = WSCloseCode.OK


Item = str | bytes | Control | End
"""A text message, a binary message, or something else that has arrived."""


class Flow(Protocol):
    """Flow control of a transport."""

    def pause_reading(self) -> None:
        """Stop receiving data."""

    def resume_reading(self) -> None:
        """Receive data again."""


class _Violation(Exception):
    """The client violates a limit, or the compression."""

    def __init__(self, code: int) -> None:
        super().__init__(code)
        self.code = code


class Received:
    """Decodes the bytes of a transport, as aiohttp's protocol passes them on, and queues the messages."""

    def __init__(self, flow: Flow, limits: Limits, *, is_compressed: bool) -> None:
        """Start at the first frame.

        Args:
            flow: Paused while many messages wait.
            limits: Limits of the client.
            is_compressed: Whether permessage-deflate was negotiated.
        """
        self.ended = asyncio.Event()
        """Set when nothing more will arrive."""
        self._flow = flow
        self._limits = limits
        self._message_bytes_max = min(limits.first_message_bytes, limits.message_bytes)
        self._decoder = core.WebSocketDecoder(message_bytes_max=self._message_bytes_max, is_compressed=is_compressed)
        self._inflater: zlib._Decompress | None = None
        self._is_first = True
        self._frames = Pace(limits.frames_per_second, time.monotonic)
        self._controls = Pace(limits.controls_per_second, time.monotonic)
        self._items: asyncio.Queue[tuple[Item, int]] = asyncio.Queue()
        self._queued_bytes = 0
        self._is_paused = False
        self._is_discarding = False

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes from the transport; return whether the client may send nothing more, and the bytes left over."""
        if self.ended.is_set():
            return True, b""
        try:
            self._decoder.feed(data)
            while not self.ended.is_set() and (frame := self._decoder.next()) is not None:
                self._take(*frame)
        except (core.WebSocketError, _Violation) as error:
            self._end(End(error.code, error.code))
        return self.ended.is_set(), b""

    def feed_eof(self) -> None:
        """Handle the end of the stream."""
        self._end(End(WSCloseCode.ABNORMAL_CLOSURE))

    async def next(self) -> Item:
        """Wait for the next item; after `End` there is none."""
        item, size_bytes = await self._items.get()
        self._queued_bytes -= size_bytes
        if self._is_paused and self._queued_bytes < _QUEUED_BYTES_MAX:
            self._is_paused = False
            self._flow.resume_reading()
        return item

    def discard(self) -> None:
        """Drop everything that is received from now on, and end the queue."""
        self._is_discarding = True
        self._items.put_nowait((End(None), 0))
        if self._is_paused:
            self._is_paused = False
            self._flow.resume_reading()

    def _take(self, opcode: int, payload: bytes, is_compressed: bool) -> None:
        pace = self._frames if opcode < Opcode.CLOSE else self._controls
        if not pace.take():
            raise _Violation(WSCloseCode.POLICY_VIOLATION)
        match opcode:
            case Opcode.CONTINUATION:
                return
            case Opcode.CLOSE:
                self._end(End(int.from_bytes(payload, "big") if payload else None))
            case Opcode.TEXT | Opcode.BINARY:
                if is_compressed:
                    payload = self._decompressed(payload)
                if self._is_first:
                    self._is_first = False
                    self._message_bytes_max = self._limits.message_bytes
                    self._decoder.limit_messages(self._message_bytes_max)
                self._put(_text(payload) if opcode == Opcode.TEXT else payload, len(payload))
            case _:
                self._put(Control(Opcode(opcode), payload), len(payload))

    def _decompressed(self, payload: bytes) -> bytes:
        if self._inflater is None:
            self._inflater = zlib.decompressobj(-zlib.MAX_WBITS)
        try:
            message = self._inflater.decompress(payload + _DEFLATE_TAIL, self._message_bytes_max + 1)
        except zlib.error as error:
            raise _Violation(WSCloseCode.PROTOCOL_ERROR) from error
        if len(message) > self._message_bytes_max:
            raise _Violation(WSCloseCode.MESSAGE_TOO_BIG)
        return message

    def _end(self, end: End) -> None:
        if not self.ended.is_set():
            self.ended.set()
            self._put(end, 0)

    def _put(self, item: Item, size_bytes: int) -> None:
        if self._is_discarding:
            return
        size_bytes += _MESSAGE_BYTES
        self._items.put_nowait((item, size_bytes))
        self._queued_bytes += size_bytes
        if self._queued_bytes > _QUEUED_BYTES_MAX and not self._is_paused:
            self._is_paused = True
            self._flow.pause_reading()


def _text(payload: bytes) -> str:
    try:
        return payload.decode()
    except UnicodeDecodeError as error:
        # Compressed texts have not been checked.
        raise _Violation(WSCloseCode.INVALID_TEXT) from error
