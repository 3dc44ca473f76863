"""Sizes of what Avro encodes, before it is decoded.

A block of an array says how many items it has, and items such as `null` take no bytes. The library allocates whatever a
block says, and goes as deep as a value does, until the stack of the process ends.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Final

from headrace_connectors.contract.codec import too_large
from headrace_connectors.contract.errors import InvalidRecord

_DEPTH_MAX: Final = 200
_FREE_ITEMS_MAX: Final = 65_536
_VALUE_BYTES: Final = 64
_OBJECT_BYTES: Final = 256
_LARGEST_FACTOR: Final = 320
"""Bytes in memory per encoded byte, at most, if no item is without bytes."""
_FIXED: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_WHOLE: Final = ("int", "long", "enum")
_TEXT: Final = ("string", "bytes")
_DECIMAL_BYTES: Final = 4096


class AvroSizes:
    """Finds sizes of the values of a schema.

    Args:
        schema: The schema, as `fastavro.parse_schema` returns it.
    """

    def __init__(self, schema: Any) -> None:
        self._schema = schema
        self._named: dict[str, Any] = {}
        self._is_open = False
        self._look_at(schema, [])

    def check(self, encoded: bytes, bytes_max: int) -> int:
        """Return about how many bytes the value takes.

        Raises:
            InvalidRecord: It takes more than `bytes_max`, is nested too deeply, or is not of the schema.
        """
        size = _LARGEST_FACTOR * len(encoded)
        if size <= bytes_max and not self._is_open:
            return size
        scan = _Scan(self._named, encoded, bytes_max)
        try:
            scan.value(self._schema, 0)
        except (IndexError, struct.error):
            raise InvalidRecord("the payload is not of the Avro schema: it ends early") from None
        return scan.size

    def _look_at(self, schema: Any, within: list[str]) -> None:
        """Note named types, and whether a value may have more items than bytes, or any depth."""
        if isinstance(schema, list):
            for one in schema:
                self._look_at(one, within)
        elif isinstance(schema, str):
            self._is_open |= schema in within
        elif isinstance(schema, Mapping):
            kind, name = schema["type"], schema.get("name", "")
            if name:
                self._named[name] = schema
            if schema.get("logicalType") == "decimal":
                # Digits are converted in a time that is the square of their number.
                self._is_open = True
            if kind in ("record", "error"):
                for field in schema["fields"]:
                    self._look_at(field["type"], [*within, name])
            elif kind == "array":
                self._look_at(schema["items"], within)
                self._is_open |= self._is_free(schema["items"])
            elif kind == "map":
                self._look_at(schema["values"], within)
            elif not isinstance(kind, str):
                self._look_at(kind, within)

    def _is_free(self, schema: Any) -> bool:
        """Return whether a value may take no bytes."""
        if isinstance(schema, list):
            return False
        if isinstance(schema, str):
            return self._is_free(self._named[schema]) if schema in self._named else schema == "null"
        kind = schema["type"]
        if kind in ("record", "error"):
            return all(self._is_free(field["type"]) for field in schema["fields"])
        if kind == "fixed":
            return bool(schema["size"] == 0)
        return bool(kind == "null")


class _Scan:
    """Goes through an encoded value without making it."""

    def __init__(self, named: Mapping[str, Any], encoded: bytes, bytes_max: int) -> None:
        self._named = named
        self._encoded = encoded
        self._bytes_max = bytes_max
        self._at = 0
        self._free_items = 0
        self.size = 0

    def value(self, schema: Any, depth: int) -> None:
        """Go behind a value of this schema."""
        if depth > _DEPTH_MAX:
            raise InvalidRecord(f"the payload is nested more than {_DEPTH_MAX} deep")
        if isinstance(schema, str) and schema in self._named:
            schema = self._named[schema]
        if isinstance(schema, list):
            self.value(self._branch(schema), depth + 1)
            return
        kind = schema if isinstance(schema, str) else schema["type"]
        if not isinstance(kind, str):
            self.value(kind, depth + 1)
        elif kind in ("record", "error"):
            self._count(_OBJECT_BYTES)
            for field in schema["fields"]:
                self.value(field["type"], depth + 1)
        elif kind == "array":
            self._blocks(schema["items"], depth, is_map=False)
        elif kind == "map":
            self._blocks(schema["values"], depth, is_map=True)
        else:
            self._plain(kind, schema)

    def _plain(self, kind: str, schema: Any) -> None:
        self._count(_VALUE_BYTES)
        if kind in _FIXED:
            self._skip(_FIXED[kind])
        elif kind in _WHOLE:
            self._number()
        elif kind in _TEXT:
            length = self._number()
            if isinstance(schema, Mapping) and schema.get("logicalType") == "decimal" and length > _DECIMAL_BYTES:
                raise InvalidRecord(f"a decimal has {length} bytes: at most {_DECIMAL_BYTES} are decoded")
            self._count(length)
            self._skip(length)
        elif kind == "fixed":
            self._count(schema["size"])
            self._skip(schema["size"])
        else:
            raise InvalidRecord(f"the payload is not of the Avro schema: {kind!r} is no type")

    def _branch(self, schema: list[Any]) -> Any:
        number = self._number()
        if not 0 <= number < len(schema):
            raise InvalidRecord(f"the payload is not of the Avro schema: a union has no branch {number}")
        return schema[number]

    def _blocks(self, items: Any, depth: int, *, is_map: bool) -> None:
        self._count(_OBJECT_BYTES)
        while count := self._number():
            if count < 0:
                self._number()
                count = -count
            for _ in range(count):
                before = self._at
                if is_map:
                    self._plain("string", None)
                self.value(items, depth + 1)
                self._free_items += self._at == before
                if self._free_items > _FREE_ITEMS_MAX:
                    raise InvalidRecord(f"the payload has more than {_FREE_ITEMS_MAX} items without bytes")

    def _number(self) -> int:
        value = shift = 0
        while True:
            byte = self._encoded[self._at]
            self._at += 1
            value |= (byte & 127) << shift
            if byte < 128:
                return (value >> 1) ^ -(value & 1)
            shift += 7
            if shift > 63:
                raise InvalidRecord("the payload is not of the Avro schema: a number has more than 64 bits")

    def _skip(self, count: int) -> None:
        if not 0 <= count <= len(self._encoded) - self._at:
            raise InvalidRecord("the payload is not of the Avro schema: it ends early")
        self._at += count

    def _count(self, count: int) -> None:
        self.size += max(0, count)
        if self.size > self._bytes_max:
            raise too_large(self.size, self._bytes_max)
