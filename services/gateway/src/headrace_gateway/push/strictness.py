"""What RFC 6455 asks of a server and aiohttp does not look at, and what is too much, looked at before aiohttp sees it.

A text that is no UTF-8 is refused as soon as it cannot become UTF-8 any more, not at its end; refused are also frames
that are not masked, and codes in a close frame that are never sent. The first message, by which somebody logs in, is
short; and there are so many frames a second, each of which costs time, whatever is in them.
"""

from __future__ import annotations

import codecs
import time
from collections.abc import Callable
from struct import Struct
from typing import Final, Protocol

from aiohttp import WebSocketError, WSCloseCode

from headrace_gateway.push.limits import Pace

_CONTINUATION: Final = 0
_TEXT: Final = 1
_CLOSE: Final = 8
_FIN: Final = 0x80
_COMPRESSED: Final = 0x40
_MASKED: Final = 0x80
FIRST_MESSAGE_BYTES_MAX: Final = 4096
"""What a login takes, many times over."""
# Twice as many after a pause. Clients cut no message into so many, and a ping is for every some seconds.
_FRAMES_PER_SECOND: Final = 5000
_CONTROLS_PER_SECOND: Final = 50
_CODE: Final = Struct("!H")
# Those that say something is missing, or that an endpoint has to make up for itself.
_NEVER_SENT: Final = frozenset({1004, 1005, 1006, 1015})


class Parser(Protocol):
    """What a transport's bytes are given to."""

    def feed_data(self, data: bytes) -> tuple[bool, bytes]:
        """Take bytes; returns whether that was the last time, and what is left of them."""

    def feed_eof(self) -> None:
        """Nothing more comes."""


class Strict:
    """Looks at frames on their way to another parser."""

    def __init__(self, parser: Parser, fail: Callable[[WebSocketError], None]) -> None:
        """Begin with the first frame.

        Args:
            parser: Sees everything up to the first violation.
            fail: Told what that is.
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
        """Take bytes from the transport."""
        if self._has_failed:
            return True, b""
        position = 0
        try:
            while position < len(data):
                position = self._payload(data, position) if self._mask else self._header(data, position)
        except WebSocketError as error:
            # What came before it is as good as ever.
            self._has_failed = True
            self._parser.feed_data(data[:position])
            self._fail(error)
            return True, b""
        return self._parser.feed_data(data)

    def feed_eof(self) -> None:
        """Nothing more comes."""
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
                raise WebSocketError(WSCloseCode.MESSAGE_TOO_BIG, "The first message is a login, which is shorter")

    def _payload(self, data: bytes, position: int) -> int:
        piece = data[position : position + self._left]
        is_whole = len(piece) == self._left
        is_alone = self._opcode == _TEXT and self._is_last
        if self._opcode == _CLOSE:
            self._close += self._unmasked(piece)
        elif self._opcode < _CLOSE and self._is_text and not self._is_compressed and not (is_alone and is_whole):
            # The end of a text is left to the other one, which has to decode all of it anyway.
            self._check_text(self._unmasked(piece))
        self._left -= len(piece)
        # What follows of the frame is masked from where this ends.
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
    """How long a header is, as far as its beginning tells."""
    if len(head) < 2:
        return 2
    length = head[1] & 0x7F
    return 2 + {126: 2, 127: 8}.get(length, 0) + (4 if head[1] & _MASKED else 0)
