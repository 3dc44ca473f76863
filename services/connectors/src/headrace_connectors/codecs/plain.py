"""JSON, text, and bytes as they are."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from headrace_connectors.contract import Codec, InvalidRecord, Settings
from headrace_connectors.contract.codec import DECODED_BYTES_MAX, too_large
from headrace_connectors.json_errors import NO_FORM_IN_JSON, NOT_JSON
from headrace_connectors.json_values import JsonEncoder, json_value

_SMALL_BYTES: Final = 1024
"""Payloads up to this size are not looked through: 128 times as much is the most that they can become."""
_OBJECT_BYTES: Final = 256
_VALUE_BYTES: Final = 64
_NUMBER_BYTES: Final = 64
"""More than that for a number with its text."""


class JsonCodec(Codec):
    """JSON in UTF-8. Numbers are as they were written, times in RFC 3339, decimals text, and bytes in base64."""

    is_bounded: ClassVar[bool] = True

    def __init__(self, settings: Settings) -> None:
        """Take no settings."""
        del settings
        self._encoder = JsonEncoder()

    def encode(self, payload: Any) -> bytes:
        """Return the value as JSON; bytes are JSON already."""
        if isinstance(payload, bytes):
            return payload
        try:
            return self._encoder.encode(payload)
        except NO_FORM_IN_JSON as error:
            raise InvalidRecord(f"the payload has no form in JSON: {error}") from error

    def decode(self, encoded: bytes) -> Any:
        """Return the value."""
        return self.decode_bounded(encoded, DECODED_BYTES_MAX)[0]

    def decode_bounded(self, encoded: bytes, bytes_max: int) -> tuple[Any, int]:
        """Return the value, and about how much memory it takes."""
        size = _size(encoded)
        if size > bytes_max:
            raise too_large(size, bytes_max)
        try:
            return json_value(encoded), size
        except NOT_JSON as error:
            raise InvalidRecord(f"the payload is not JSON: {error}") from error


def _size(encoded: bytes) -> int:
    if len(encoded) <= _SMALL_BYTES:
        return 16 * len(encoded)
    objects, lists, values = encoded.count(b"{"), encoded.count(b"["), encoded.count(b",") + encoded.count(b":")
    characters = len(encoded) if encoded.isascii() else 4 * len(encoded)
    # One without a point and an exponent is a whole number, of which there is no text.
    numbers = min(values + lists, sum(map(encoded.count, (b".", b"e", b"E"))))
    return characters + _OBJECT_BYTES * objects + _VALUE_BYTES * (lists + values) + _NUMBER_BYTES * numbers


class TextCodec(Codec):
    """Text in UTF-8."""

    def __init__(self, settings: Settings) -> None:
        """Take no settings."""
        del settings

    def encode(self, payload: Any) -> bytes:
        """Return the text; bytes must be UTF-8."""
        if isinstance(payload, str):
            return payload.encode()
        if isinstance(payload, bytes):
            self.decode(payload)
            return payload
        raise InvalidRecord(f"the payload is a {type(payload).__name__}, not text: use the codec json")

    def decode(self, encoded: bytes) -> str:
        """Return the text."""
        try:
            return encoded.decode()
        except UnicodeDecodeError as error:
            raise InvalidRecord(f"the payload is not UTF-8: {error}") from error


class RawCodec(Codec):
    """Bytes as they are."""

    def __init__(self, settings: Settings) -> None:
        """Take no settings."""
        del settings

    def encode(self, payload: Any) -> bytes:
        """Return the bytes."""
        if isinstance(payload, bytes):
            return payload
        raise InvalidRecord(f"the payload is a {type(payload).__name__}, not bytes: use the codec json")

    def decode(self, encoded: bytes) -> bytes:
        """Return the bytes."""
        return encoded
