"""Headers of messages, between their encoding and what users type and read."""

from __future__ import annotations

import base64
import struct
from collections.abc import Iterable, Mapping
from typing import Any, Final

from headrace.sdk.options import KEY_BYTES_MAX, KEY_HEADER
from headrace_core import decode_user_headers, encode_user_headers

Value = str | int | float | bool | dict[str, str]

_KEY: Final = ("string", KEY_HEADER.encode())
"""Name of the header that holds the key, as all clients of Headrace have it."""
_NUMBERS: Final = {
    "bool": "<?",
    "int8": "<b",
    "int16": "<h",
    "int32": "<i",
    "int64": "<q",
    "uint8": "<B",
    "uint16": "<H",
    "uint32": "<I",
    "uint64": "<Q",
    "float32": "<f",
    "float64": "<d",
}
_WIDE_BYTES: Final = 16
"""Size of the numbers that the module `struct` does not have."""


def encoded(headers: Iterable[tuple[str, str]]) -> bytes:
    """Return headers as the protocol has them, names and values as text; none if there are none."""
    pairs = [(("string", name.encode()), ("string", value.encode())) for name, value in headers]
    return encode_user_headers(pairs) if pairs else b""


def encoded_values(headers: Mapping[str, Any]) -> bytes:
    """Return headers given as JSON values: text, numbers, truth values, or kind and base64 as `decoded` has them.

    Raises:
        ValueError: A value is none of these. The message names the header.
    """
    pairs = [(("string", name.encode()), _typed(name, value)) for name, value in headers.items()]
    return encode_user_headers(pairs) if pairs else b""


def with_key(headers: bytes, key: bytes | None) -> bytes:
    """Return headers with the key of a message, which is stored in the header `headrace.key`.

    Raises:
        ValueError: The key does not have 1 to 255 bytes.
    """
    if key is None:
        return headers
    if not 1 <= len(key) <= KEY_BYTES_MAX:
        raise ValueError(f"key: it has {len(key)} bytes, 1 to {KEY_BYTES_MAX} are allowed")
    return encode_user_headers([(_KEY, ("raw", key))]) + headers


def without_key(headers: bytes, key: bytes | None) -> bytes:
    """Return headers without the one that holds this key, also if the others are not readable."""
    if key is None or not 1 <= len(key) <= KEY_BYTES_MAX:
        return headers
    return headers.replace(encode_user_headers([(_KEY, ("raw", key))]), b"", 1)


def decoded(headers: bytes) -> dict[str, Value] | None:
    """Return headers by name, without the key; None if they are not readable, perhaps because they are encrypted."""
    if not headers:
        return {}
    pairs = decode_user_headers(headers)
    if pairs is None:
        return None
    return {
        _as_text(_value(*name)): _value(*value) for name, value in pairs if not (name == _KEY and value[0] == "raw")
    }


def as_line(headers: Mapping[str, Value]) -> str:
    """Return headers on one line: ``name=value,name=value``."""
    return ",".join(f"{name}={_as_text(value)}" for name, value in headers.items())


def as_text(value: Value) -> str:
    """Return the value of a header as text."""
    return _as_text(value)


def _value(kind: str, data: bytes) -> Value:
    form = _NUMBERS.get(kind)
    if form is not None and struct.calcsize(form) == len(data):
        number: int | float | bool = struct.unpack(form, data)[0]
        return number
    if kind in {"int128", "uint128"} and len(data) == _WIDE_BYTES:
        return int.from_bytes(data, "little", signed=kind == "int128")
    if kind == "string":
        try:
            return data.decode()
        except UnicodeDecodeError:
            pass
    return {"kind": kind, "value_base64": base64.b64encode(data).decode()}


def _typed(name: str, value: Any) -> tuple[str, bytes]:
    match value:
        case bool():
            return "bool", struct.pack("<?", value)
        case str():
            return "string", value.encode()
        case int() if -(2**63) <= value < 2**63:
            return "int64", struct.pack("<q", value)
        case int() if 0 <= value < 2**64:
            return "uint64", struct.pack("<Q", value)
        case int() if -(2**127) <= value < 2**127:
            return "int128", value.to_bytes(_WIDE_BYTES, "little", signed=True)
        case int() if 0 <= value < 2**128:
            return "uint128", value.to_bytes(_WIDE_BYTES, "little")
        case float():
            return "float64", struct.pack("<d", value)
        case {"kind": str(kind), "value_base64": str(data)}:
            return kind, base64.b64decode(data, validate=True)
        case _:
            raise ValueError(f"header {name!r} is neither text nor a number nor true or false")


def _as_text(value: Value) -> str:
    if isinstance(value, dict):
        return value["value_base64"]
    return str(value).lower() if isinstance(value, bool) else str(value)
