"""What was read from a partition: messages as they are stored, and what is made of them once for all who want it."""

from __future__ import annotations

import base64
from bisect import bisect_left
from struct import Struct
from typing import Final

import msgspec

import headrace_core as core

_POLLED: Final = Struct("<IQI")
# Of a message's header: its offset and the lengths of its user headers and its payload.
_MESSAGE: Final = Struct("<24xQ16xII8x")
# Id, offset, timestamp and origin timestamp.
_NUMBERS: Final = Struct("<8xQQQQQ16x")
HEADER_BYTES: Final = 64
_CHECKSUM_BYTES: Final = 8

Typed = tuple[str, bytes]
"""A kind and a value, little endian."""
UserHeaders = list[tuple[Typed, Typed]]


class Batch:
    """Messages with consecutive offsets."""

    __slots__ = ("_ends", "_headers", "_json", "_raw", "end", "first")

    def __init__(self, polled: bytes) -> None:
        """Take the answer to a poll, which is not empty."""
        self._raw = polled
        # Where each message ends; the first element is where the first one begins.
        self._ends = [_POLLED.size]
        position = _POLLED.size
        self.first = self.end = 0
        """The first offset, and the one behind the last."""
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
        """Whether nothing was polled."""
        return len(polled) <= _POLLED.size

    def __len__(self) -> int:
        return len(self._ends) - 1

    @property
    def size_bytes(self) -> int:
        """Of the messages."""
        return len(self._raw)

    def message_bytes(self, index: int) -> int:
        """The size of one message with its headers."""
        return self._ends[index + 1] - self._ends[index]

    def checksum(self, index: int) -> bytes:
        """What tells a message from any other that has stood or will stand at its offset."""
        start = self._ends[index]
        return self._raw[start : start + _CHECKSUM_BYTES]

    def span_bytes(self, start: int, end: int) -> int:
        """The size of several."""
        return self._ends[end] - self._ends[start]

    def fitting(self, start: int, messages: int, size_bytes: int) -> int:
        """The end of the messages from ``start`` on that a credit pays for; the last one may be larger than the rest.

        Args:
            start: Index of the first one.
            messages: How many there may be.
            size_bytes: The bytes; more than that only by a part of the last message.
        """
        # Message i is sent if what stands before it has less than size_bytes.
        end = bisect_left(self._ends, self._ends[start] + size_bytes, start)
        return min(end, start + messages, len(self))

    def raw(self, start: int, end: int) -> memoryview:
        """Messages as they are stored, back to back."""
        return memoryview(self._raw)[self._ends[start] : self._ends[end]]

    def json(self, index: int) -> bytes:
        """One message as JSON."""
        if self._json is None:
            self._json = [None] * len(self)
        text = self._json[index]
        if text is None:
            text = self._json[index] = self._write(index)
        return text

    def user_headers(self, index: int) -> UserHeaders:
        """The user headers of one message; none where they cannot be read."""
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
    # Bytes are written as base64.
    return {"kind": field[0], "value": field[1]}
