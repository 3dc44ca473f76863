"""Batches read from a partition: stored messages, with decoded forms cached for all subscribers."""

from __future__ import annotations

import base64
from bisect import bisect_left
from struct import Struct
from typing import Final

import msgspec

import headrace_core as core

_POLLED: Final = Struct("<IQI")
# Offset, user headers length and payload length in a message header.
_MESSAGE: Final = Struct("<24xQ16xII8x")
# Id, offset, timestamp and origin timestamp.
_NUMBERS: Final = Struct("<8xQQQQQ16x")
HEADER_BYTES: Final = 64
_CHECKSUM_BYTES: Final = 8

Typed = tuple[str, bytes]
"""Kind and little-endian value of a user header."""
UserHeaders = list[tuple[Typed, Typed]]


class Batch:
    """Messages with consecutive offsets."""

    __slots__ = ("_ends", "_headers", "_json", "_raw", "end", "first")

    def __init__(self, polled: bytes) -> None:
        """Parse the answer to a poll, which must not be empty."""
        self._raw = polled
        # End position of each message; the first element is the start of the first message.
        self._ends = [_POLLED.size]
        position = _POLLED.size
        self.first = self.end = 0
        """First offset, and the offset after the last message."""
        while position < len(polled):
            offset, headers_bytes, payload_bytes = _MESSAGE.unpack_from(polled, position)
            if position == _POLLED.size:
                self.first = offset
            self.end = offset + 1
            position += HEADER_BYTES + headers_bytes + payload_bytes
            self._ends.append(position)
        self._json: list[bytes | None] | None = None
        self._headers: list[UserHeaders | None] | None = None

    @staticmethod
    def is_empty(polled: bytes) -> bool:
        """Return whether the poll returned no messages."""
        return len(polled) <= _POLLED.size

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def size_bytes(self) -> int:
        """Size of the messages."""
        return len(self._raw)

    def message_bytes(self, index: int) -> int:
        """The size of one message with its headers."""
        return self._ends[index + 1] - self._ends[index]

    def checksum(self, index: int) -> bytes:
        """Return the checksum of a message, which differs for another message at the same offset."""
        start = self._ends[index]
        return self._raw[start : start + _CHECKSUM_BYTES]

    def span_bytes(self, start: int, end: int) -> int:
        """Return the size of a range of messages."""
        return self._ends[end] - self._ends[start]

    def fitting(self, start: int, messages: int, size_bytes: int) -> int:
        """Return the end of the range of messages from ``start`` that a credit covers.

        Args:
            start: Index of the first message.
            messages: Maximum number of messages.
            size_bytes: Maximum size, which only the last message may exceed.
        """
        # Message i is included if the messages before it have less than size_bytes.
        end = bisect_left(self._ends, self._ends[start] + size_bytes, start)
        return min(end, start + messages, len(self))

    def raw(self, start: int, end: int) -> memoryview:
        """Return a range of messages as stored, back to back."""
        return memoryview(self._raw)[self._ends[start] : self._ends[end]]

    def json(self, index: int) -> bytes:
        """Return one message as JSON."""
        if self._json is None:
            self._json = [None] * len(self)
        text = self._json[index]
        if text is None:
            text = self._json[index] = self._write(index)
        return text

    def user_headers(self, index: int) -> UserHeaders:
        """Return the user headers of one message; empty if they cannot be decoded."""
        if self._headers is None:
            self._headers = [None] * len(self)
        headers = self._headers[index]
        if headers is None:
            _, encoded = self._parts(index)
            headers = self._headers[index] = (core.decode_user_headers(encoded) or []) if encoded else []
        return headers

    def _parts(self, index: int) -> tuple[bytes, bytes]:
        start = self._ends[index]
        _, _, payload_bytes = _MESSAGE.unpack_from(self._raw, start)
        payload_end = start + HEADER_BYTES + payload_bytes
        return self._raw[start + HEADER_BYTES : payload_end], self._raw[payload_end : self._ends[index + 1]]

    def _write(self, index: int) -> bytes:
        low, high, offset, timestamp, origin_timestamp = _NUMBERS.unpack_from(self._raw, self._ends[index])
        payload, encoded = self._parts(index)
        return b'{"offset":%d,"timestamp":%d,"origin_timestamp":%d,"id":"%d","headers":%b,"payload":"%b"}' % (
            offset,
            timestamp,
            origin_timestamp,
            high << 64 | low,
            _headers_json(encoded) if encoded else b"[]",
            base64.b64encode(payload),
        )


def _headers_json(encoded: bytes) -> bytes:
    headers = core.decode_user_headers(encoded)
    if headers is None:
        return msgspec.json.encode(encoded)
    return msgspec.json.encode([{"key": _field(key), "value": _field(value)} for key, value in headers])


def _field(field: Typed) -> dict[str, str | bytes]:
    # Bytes are encoded as base64.
    return {"kind": field[0], "value": field[1]}
