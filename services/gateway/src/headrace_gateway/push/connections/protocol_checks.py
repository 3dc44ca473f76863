"""Checks of RFC 6455 that aiohttp omits, and limits, both applied before aiohttp sees the data.

Text that is not UTF-8 is refused at the first invalid byte, not at its end; unmasked frames and reserved close codes
are refused. The size of the first message, the login, is limited; so is the frame rate, because each frame costs time
regardless of its content.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from aiohttp import WebSocketError, WSCloseCode

from headrace_gateway.push.connections.limits import Pace

_CONTINUATION: Final = 0
_TEXT: Final = 1
_CLOSE: Final = 8
_FIN: Final = 0x80
_COMPRESSED: Final = 0x40
_MASKED: Final = 0x80
FIRST_MESSAGE_BYTES_MAX: Final = 4096
"""Maximum size of the first message; a login is much smaller."""
# Twice as many after a pause. Clients do not split messages into that many frames, and pings come seconds apart.
_FRAMES_PER_SECOND: Final = 5000
_CONTROLS_PER_SECOND: Final = 50
_CODE: Final = Struct("!H")
# Reserved close codes, which an endpoint must not send.
_NEVER_SENT: Final = frozenset({1004, 1005, 1006, 1015})


class Parser(Protocol):
    """Consumer of a transport's bytes."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Parse bytes; return whether parsing has ended, and the remaining bytes."""

    def feed_eof(self) -> None:
        """Handle the end of the stream."""


class Strict:
    """Checks frames and forwards them to another parser."""

    def __init__(self, parser: Parser, fail: Callable[[WebSocketError], None]) -> None:
        """Start at the first frame.

        Args:
            parser: Receives everything up to the first violation.
            fail: Called with the violation.
        """
        self._parser = parser
        self._fail = fail
        self._has_failed = False
        self._head = bytearray()
        self._opcode = 0
        self._is_last = False
        self._mask = b""
        self._left = 0
        self._is_text = False
        self._is_compressed = False
        self._decoder = codecs.getincrementaldecoder("utf-8")()
        self._close = bytearray()
        self._frames = Pace(_FRAMES_PER_SECOND, time.monotonic)
        self._controls = Pace(_CONTROLS_PER_SECOND, time.monotonic)
        self._first_bytes: int | None = 0

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Check and forward bytes from the transport."""
        if self._has_failed:
            return True, b""
        position = 0
        try:
            while position < len(data):
                position = self._payload(data, position) if self._mask else self._header(data, position)
        except WebSocketError as error:
            # The data before the violation is valid.
            self._has_failed = True
            self._parser.feed_data(data[:position])
            self._fail(error)
            return True, b""
        return self._parser.feed_data(data)

    def feed_eof(self) -> None:
        """Handle the end of the stream."""
        self._parser.feed_eof()

    def _header(self, data: bytes, position: int) -> int:
        head = self._head
        needed = _header_bytes(head) - len(head)
        head += data[position : position + needed]
        if len(head) < _header_bytes(head):
            return position + needed
        opcode, is_last = head[0] & 0x0F, bool(head[0] & _FIN)
        if not head[1] & _MASKED:
            raise WebSocketError(WSCloseCode.PROTOCOL_ERROR, "Frames of a client are masked")
        length = head[1] & 0x7F
        self._left = length if length < 126 else int.from_bytes(head[2:-4], "big")
        self._mask = bytes(head[-4:])
        self._opcode, self._is_last = opcode, is_last
        self._count(opcode)
        if opcode not in {_CONTINUATION, _CLOSE} and opcode < _CLOSE:
            self._is_text, self._is_compressed = opcode == _TEXT, bool(head[0] & _COMPRESSED)
        self._close.clear()
        head.clear()
        return position + needed if self._left else self._end(position + needed)

    def _count(self, opcode: int) -> None:
        pace = self._frames if opcode < _CLOSE else self._controls
        if not pace.take():
            raise WebSocketError(WSCloseCode.POLICY_VIOLATION, "Too many frames")
        if self._first_bytes is not None and opcode < _CLOSE:
            self._first_bytes += self._left
            if self._first_bytes > FIRST_MESSAGE_BYTES_MAX:
                raise WebSocketError(WSCloseCode.MESSAGE_TOO_BIG, "The first message is too long for a login")

    def _payload(self, data: bytes, position: int) -> int:
        piece = data[position : position + self._left]
        is_whole = len(piece) == self._left
        is_alone = self._opcode == _TEXT and self._is_last
        if self._opcode == _CLOSE:
            self._close += self._unmasked(piece)
        elif self._opcode < _CLOSE and self._is_text and not self._is_compressed and not (is_alone and is_whole):
            # The wrapped parser checks the end of a text because it has to decode all of it anyway.
            self._check_text(self._unmasked(piece))
        self._left -= len(piece)
        # The rest of the frame is masked starting from this position.
        turn = len(piece) % 4
        self._mask = self._mask[turn:] + self._mask[:turn]
        return position + len(piece) if self._left else self._end(position + len(piece))

    def _end(self, position: int) -> int:
        self._mask = b""
        if self._opcode == _CLOSE and len(self._close) >= _CODE.size:
            (code,) = _CODE.unpack_from(self._close)
            if code in _NEVER_SENT:
                raise WebSocketError(WSCloseCode.PROTOCOL_ERROR, f"Invalid close code: {code}")
        elif self._opcode < _CLOSE and self._is_last:
            self._decoder.reset()
            self._first_bytes = None
        return position

    def _check_text(self, piece: bytes) -> None:
        try:
            self._decoder.decode(piece)
        except UnicodeDecodeError as error:
            raise WebSocketError(WSCloseCode.INVALID_TEXT, "Invalid UTF-8 text message") from error

    def _unmasked(self, piece: bytes) -> bytes:
        size = len(piece)
        mask = (self._mask * (size // 4 + 1))[:size]
        return (int.from_bytes(piece, "little") ^ int.from_bytes(mask, "little")).to_bytes(size, "little")


def _header_bytes(head: bytearray) -> int:
    """Return the length of a frame header, as far as the bytes received determine it."""
    if len(head) < 2:
        return 2
    length = head[1] & 0x7F
    return 2 + {126: 2, 127: 8}.get(length, 0) + (4 if head[1] & _MASKED else 0)
