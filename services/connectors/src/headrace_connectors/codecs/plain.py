"""JSON, text, and bytes as they are."""

from __future__ import annotations

from typing import Any

import msgspec

from headrace_connectors.contract import Codec, InvalidRecord, Settings
from headrace_connectors.json_errors import NO_FORM_IN_JSON, NOT_JSON
from headrace_connectors.json_values import json_decoder


class JsonCodec(Codec):
    """JSON in UTF-8. Times are in RFC 3339, decimals are text, and bytes are in base64."""

    def __init__(self, settings: Settings) -> None:
        """Take no settings."""
        del settings
        self._encoder = msgspec.json.Encoder(decimal_format="string")
        self._decoder = json_decoder()

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
        try:
            return self._decoder.decode(encoded)
        except NOT_JSON as error:
            raise InvalidRecord(f"the payload is not JSON: {error}") from error


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
