"""Message filters of subscriptions."""

from __future__ import annotations

import base64
import binascii
import struct
from collections.abc import Callable
from typing import Final

import xxhash
from msgspec import UnsetType

from headrace_gateway.json_api.errors import Refused
from headrace_gateway.push.feeds.batches import Batch, Typed
from headrace_gateway.push.forms import FilterForm, HeaderCondition, HeaderValue
from headrace_proto.errors import Status

_INTEGERS: Final = {f"{sign}{bits}": sign == "int" for bits in (8, 16, 32, 64, 128) for sign in ("int", "uint")}
_FLOATS: Final = {"float32": "<f", "float64": "<d"}

Condition = Callable[[Typed | None], bool]
"""Predicate on the value of a header; None: the header is absent."""


class Filter:
    """Filter of a subscription with all its conditions."""

    def __init__(self, form: FilterForm) -> None:
        self.key = form.key.encode() if form.key is not None else None
        if self.key is not None and len(self.key) > 255:
            raise Refused(Status.INVALID_FORMAT, "A key has 1 to 255 bytes.", field="filter.key")
        self._conditions = [(("string", it.name.encode()), _condition(it)) for it in form.headers]

    @property
    def looks_at_headers(self) -> bool:
        """True if the filter may drop messages."""
        return bool(self._conditions)

    def wants(self, batch: Batch, index: int) -> bool:
        """Return whether the headers of a message match."""
        headers = dict(batch.user_headers(index))
        return all(condition(headers.get(key)) for key, condition in self._conditions)

    def partition(self, partitions_count: int) -> int | None:
        """Return the only partition that can hold messages with the key; None without a key."""
        if self.key is None or partitions_count == 0:
            return None
        return xxhash.xxh32_intdigest(self.key) % partitions_count


def _condition(form: HeaderCondition) -> Condition:
    if isinstance(form.exists, bool):
        exists = form.exists
        return lambda found: (found is not None) == exists
    if isinstance(form.prefix, str):
        prefix = form.prefix.encode()
        return lambda found: found is not None and found[0] == "string" and found[1].startswith(prefix)
    if isinstance(form.equals, UnsetType):
        raise TypeError("the model ensures that one of them is set")
    wanted = form.equals
    return lambda found: found is not None and _equals(found, wanted)


def _equals(found: Typed, wanted: HeaderValue) -> bool:
    """Return whether a header has this value, interpreted by the header's kind."""
    kind, value = found
    match wanted:
        case bool():
            return kind == "bool" and bool(value[0]) == wanted
        case str() if kind == "string":
            return value == wanted.encode(errors="surrogatepass")
        case str() if kind == "raw":
            try:
                return value == base64.b64decode(wanted, validate=True)
            except (binascii.Error, ValueError):
                return False
        case str() if kind in _INTEGERS:
            # Decimal text: more digits than a browser's number can hold.
            digits = wanted.removeprefix("-")
            return len(digits) <= 40 and digits.isascii() and digits.isdigit() and _integer(kind, value) == int(wanted)
        case int() | float() if kind in _INTEGERS:
            return _integer(kind, value) == wanted
        case int() | float() if kind in _FLOATS:
            try:
                # Round the wanted value to the precision of the header's kind.
                return struct.unpack(_FLOATS[kind], struct.pack(_FLOATS[kind], wanted)) == struct.unpack(
                    _FLOATS[kind], value
                )
            except (OverflowError, struct.error):
                # Senders may store a number of any length; such a message matches no value.
                return False
        case _:
            return False


def _integer(kind: str, value: bytes) -> int:
    return int.from_bytes(value, "little", signed=_INTEGERS[kind])
