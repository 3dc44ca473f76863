"""The binary protocol over WebSocket, with a third-party library as the client."""

from __future__ import annotations

import struct
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from typing import Self

import websockets.exceptions
from websockets.sync.client import ClientConnection, connect

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection, Reply


@contextmanager
def open_websocket(address: str, *, timeout_seconds: float = 20.0) -> Iterator[ClientConnection]:
    """Open a WebSocket without extensions and without automatic pings."""
    with connect(
        f"ws://{address}/",
        compression=None,
        max_size=None,
        ping_interval=None,
        proxy=None,
        open_timeout=timeout_seconds,
        close_timeout=timeout_seconds,
    ) as websocket:
        yield websocket


class WebSocketConnection(RawConnection):
    """A connection that sends each `write` as one message and expects each response in one message."""

    def __init__(self, address: str, *, timeout_seconds: float = 20.0) -> None:
        self._opened = ExitStack()
        self.websocket = self._opened.enter_context(open_websocket(address, timeout_seconds=timeout_seconds))
        self.socket = self.websocket.socket
        self.timeout_seconds = timeout_seconds

    def write(self, data: bytes) -> None:
        try:
            self.websocket.send(data)
        except websockets.exceptions.ConnectionClosed as error:
            raise ConnectionClosed from error

    def receive(self, *, may_explain: bool = False) -> Reply:
        try:
            message = self.websocket.recv(self.timeout_seconds, decode=False)
        except websockets.exceptions.ConnectionClosed as error:
            raise ConnectionClosed from error
        status, length = struct.unpack_from("<II", message)
        assert len(message) == 8 + length, "one message is one response"
        assert status == Status.OK or length == 0 or may_explain
        return Reply(status, message[8:])

    def wait_closed(self) -> bool:
        try:
            self.receive()
        except ConnectionClosed:
            return True
        return False

    def close(self) -> None:
        self._opened.close()


# ---- hand-made frames, for cases that no library supports

CONTINUATION, TEXT, BINARY, CLOSE, PING, PONG = 0, 1, 2, 8, 9, 10
FINAL, RESERVED, MASKED = 0x80, 0x70, 0x80
UPGRADE = (
    b"GET / HTTP/1.1\r\nHost: localhost\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n"
    b"Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n"
)
"""Upgrade request of the standard's example."""
UPGRADE_PROOF = b"s3pPLMBiTxaQ9kYGzzhZRbK+xOo="


def masked(opcode: int, payload: bytes = b"", *, first: int = FINAL, key: bytes = b"\x01\x80\x00\xff") -> bytes:
    """Encode a client's frame."""
    length = len(payload)
    if length < 126:
        header = struct.pack(">BB", first | opcode, MASKED | length)
    elif length < 1 << 16:
        header = struct.pack(">BBH", first | opcode, MASKED | 126, length)
    else:
        header = struct.pack(">BBQ", first | opcode, MASKED | 127, length)
    pad = int.from_bytes((key * (length // 4 + 1))[:length], "little")
    return header + key + (int.from_bytes(payload, "little") ^ pad).to_bytes(length, "little")


class HandMade(RawConnection):
    """A WebSocket whose bytes are all chosen by the test."""

    @classmethod
    def as_user(cls, address: str, username: str, password: str) -> Self:
        connection = cls(address)
        connection.upgrade()
        connection.ok(Code.LOGIN_USER, frames.login(username, password))
        return connection

    def upgrade(self) -> None:
        """Send a regular upgrade request and read the response."""
        self.write(UPGRADE)
        head = self.until(b"\r\n\r\n")
        assert head.startswith(b"HTTP/1.1 101 "), head
        assert UPGRADE_PROOF in head

    def until(self, end: bytes) -> bytes:
        """Receive bytes up to and including `end`."""
        data = b""
        while not data.endswith(end):
            data += self._read(1)
        return data

    def frame(self) -> tuple[int, bytes]:
        """Receive the server's next frame: its first byte and its payload.

        Raises:
            ConnectionClosed: The server closed the connection.
        """
        first, length = self._read(2)
        if length == 126:
            (length,) = struct.unpack(">H", self._read(2))
        elif length == 127:
            (length,) = struct.unpack(">Q", self._read(8))
        return first, self._read(length)

    def receive(self, *, may_explain: bool = False) -> Reply:
        del may_explain
        first, payload = self.frame()
        assert first == FINAL | BINARY
        status, length = struct.unpack_from("<II", payload)
        assert len(payload) == 8 + length
        return Reply(status, payload[8:])

    def send_frame(self, code: int, payload: bytes = b"") -> None:
        self.write(masked(BINARY, frames.request(code, payload)))

    def close_code(self) -> int | None:
        """Receive a close frame and the end of the connection; return the frame's code."""
        first, payload = self.frame()
        assert first == FINAL | CLOSE, (first, payload)
        assert self.wait_closed()
        return int.from_bytes(payload[:2], "big") if payload else None


def hand_made(address: str) -> HandMade:
    """Open a WebSocket and complete its upgrade."""
    connection = HandMade(address)
    connection.upgrade()
    return connection
