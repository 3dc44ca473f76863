"""Messages and stored offsets. Native code parses the messages in bodies; the types here only describe them."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from headrace_gateway.json_api.numbers import U32, U64, Body, Checked, Ignored, length

ConsumerId = Annotated[str, Meta(min_length=1, max_length=255, description="A number or a name.")]
Strategy = Literal["offset", "timestamp", "first", "last", "next"]
WaitMillis = Annotated[
    int,
    Meta(ge=0, le=60_000, description="Time to wait for messages if there are none, up to the server's limit."),
]
Numbers = Annotated[
    Literal["number", "text"],
    Meta(description="Representation of 64-bit numbers: offsets, ids, timestamps, checksums."),
]


class PollQuery(Checked):
    """Messages to read."""

    consumer_id: ConsumerId = "1"
    partition_id: U32 = 0
    kind: Annotated[
        Strategy,
        Meta(description="Start position: `value`, the first or last messages, or after the stored offset."),
    ] = "offset"
    value: Annotated[U64, Meta(description="An offset, or microseconds since the Unix epoch.")] = 0
    count: U32 = 10
    auto_commit: bool = False
    numbers: Numbers = "number"
    wait_ms: WaitMillis = 0
    min_bytes: Annotated[U32, Meta(description="Number of bytes of messages to wait for, including headers.")] = 1


class SearchQuery(Checked):
    """Text, and the part of a partition to search."""

    text: Annotated[
        str,
        Meta(min_length=1, max_length=255, description="Text to find, in any case of the letters a to z."),
    ]
    partition_id: U32 = 0
    offset: Annotated[U64, Meta(description="Offset at which the search begins.")] = 0
    count: Annotated[int, Meta(ge=1, le=10_000, description="Maximum number of messages to search.")] = 1000


class FoundAnswer(msgspec.Struct):
    """Messages that contain a text."""

    partition_id: int
    offsets: list[int]
    scanned: Annotated[int, Meta(description="Number of messages that were searched.")]
    next_offset: Annotated[
        int | None, Meta(description="Offset at which the search goes on; null if there were no more messages.")
    ]


class EventsQuery(Checked):
    """Start position."""

    consumer_id: ConsumerId = "1"
    partition_id: U32 = 0
    kind: Annotated[
        Literal["offset", "timestamp", "first", "last", "next", "end"],
        Meta(
            description="Start position: `value`, the first or last messages, after the stored offset, "
            "or new messages only."
        ),
    ] = "end"
    value: Annotated[U64, Meta(description="An offset, or microseconds since the Unix epoch.")] = 0
    count: Annotated[int, Meta(ge=1, le=10_000, description="Number of messages per read.")] = 100
    auto_commit: bool = False
    numbers: Numbers = "number"


class OffsetQuery(Checked):
    """Consumer and partition of an offset."""

    consumer_id: ConsumerId = "1"
    partition_id: U32 = 0


class OffsetOfPathQuery(Checked):
    """Partition."""

    partition_id: U32 = 0


class ConsumerIdBody(Body):
    """Id of a consumer in binary form."""

    kind: Literal["numeric", "string"]
    value: Annotated[bytes, Meta(description="A number of four bytes, little-endian, or a text.")]
    length: Ignored = UNSET


class ConsumerBody(Body):
    """A consumer as some existing clients name it."""

    id: ConsumerIdBody
    type: Literal["consumer", "consumer_group"] = "consumer"


class StoreOffsetBody(Body):
    """An offset to store."""

    offset: U64
    consumer_id: U32 | Annotated[str, Meta(min_length=1, max_length=255)] | UnsetType = UNSET
    """Consumer 1 if neither this nor `consumer` is given."""
    consumer: ConsumerBody | UnsetType = UNSET
    partition_id: Annotated[U32 | None, Meta(description="Id of the partition; null means partition 0.")] = 0


class OffsetAnswer(msgspec.Struct):
    """A stored offset."""

    partition_id: int
    current_offset: int
    stored_offset: int


class BatchQuery(Checked):
    """Partition of a batch not sent as JSON objects; round-robin if neither is given."""

    partition_id: U32 | UnsetType = UNSET
    key: Annotated[str, length(1, 255), Meta(description="Key that selects the partition.")] | UnsetType = UNSET


_CHARACTER: Final = "[A-Za-z0-9+/]"


def _base64(*remainders: int) -> str:
    """Return a pattern for base64 of lengths with these remainders modulo 3, canonical at its end."""
    ends = {
        0: "",
        1: f"{_CHARACTER}[AQgw]==",
        2: f"{_CHARACTER}{{2}}[AEIMQUYcgkosw048]=",
    }
    return f"^({_CHARACTER}{{4}})*({'|'.join(ends[remainder] for remainder in remainders)})$"


_BASE64: Final = {"type": "string", "contentEncoding": "base64", "pattern": _base64(0, 1, 2), "minLength": 4}


def _field(kinds: list[str], size_bytes: int | None) -> dict[str, Any]:
    value = dict(_BASE64)
    if size_bytes is None:
        value["maxLength"] = 340
    else:
        value |= {"pattern": _base64(size_bytes % 3), "minLength": (size_bytes + 2) // 3 * 4}
        value["maxLength"] = value["minLength"]
    return {
        "type": "object",
        "additionalProperties": False,
        "required": ["kind", "value"],
        "properties": {"kind": {"type": "string", "enum": kinds}, "value": value},
    }


_HEADER_FIELD: Final = {
    "anyOf": [
        _field(["raw", "string"], None),
        _field(["bool", "int8", "uint8"], 1),
        _field(["int16", "uint16"], 2),
        _field(["int32", "uint32", "float32"], 4),
        _field(["int64", "uint64", "float64"], 8),
        _field(["int128", "uint128"], 16),
    ]
}
_HEADERS: Final = {
    "anyOf": [
        {
            "type": "array",
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["key", "value"],
                "properties": {"key": _HEADER_FIELD, "value": _HEADER_FIELD},
            },
        },
        {"type": "string", "contentEncoding": "base64", "pattern": _base64(0, 1, 2)},
        {"type": "null"},
    ]
}

SEND_BODY: Final[dict[str, Any]] = {
    "type": "object",
    "title": "SendMessages",
    "additionalProperties": False,
    "required": ["partitioning", "messages"],
    "properties": {
        "partitioning": {
            "anyOf": [
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["kind"],
                    "properties": {"kind": {"const": "balanced"}, "value": {"const": ""}},
                },
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["kind", "value"],
                    "properties": {
                        "kind": {"const": "partition_id"},
                        "value": {**_BASE64, "pattern": _base64(1), "minLength": 8, "maxLength": 8},
                    },
                },
                {
                    "type": "object",
                    "additionalProperties": False,
                    "required": ["kind", "value"],
                    "properties": {"kind": {"const": "messages_key"}, "value": {**_BASE64, "maxLength": 340}},
                },
            ]
        },
        "messages": {
            "type": "array",
            "minItems": 1,
            "items": {
                "type": "object",
                "additionalProperties": False,
                "required": ["payload"],
                "properties": {
                    "header": {"description": "Header of a polled message; ignored."},
                    "id": {
                        "anyOf": [
                            {"type": "integer", "minimum": 0, "maximum": 2**64 - 1},
                            {"type": "string", "pattern": "^[0-9]{1,38}$"},
                            {
                                "type": "string",
                                "pattern": "^[0-9a-fA-F]{8}-([0-9a-fA-F]{4}-){3}[0-9a-fA-F]{12}$",
                            },
                            {"type": "null"},
                        ]
                    },
                    "payload": _BASE64,
                    "user_headers": _HEADERS,
                },
            },
        },
    },
}

_BIG: Final = {"anyOf": [{"type": "integer"}, {"type": "string", "pattern": "^[0-9]+$"}]}
_POLLED_FIELD: Final = {
    "type": "object",
    "required": ["kind", "value"],
    "properties": {"kind": {"type": "string"}, "value": {"type": "string", "contentEncoding": "base64"}},
}

POLLED: Final[dict[str, Any]] = {
    "type": "object",
    "title": "PolledMessages",
    "required": ["partition_id", "current_offset", "count", "messages"],
    "properties": {
        "partition_id": {"type": "integer"},
        "current_offset": _BIG,
        "count": {"type": "integer"},
        "gap": {
            "type": "object",
            "description": "Only if messages were removed before they could be read: `from` is the offset that was to "
            "be read, `to` the first one behind it that is left.",
            "required": ["from", "to"],
            "properties": {"from": _BIG, "to": _BIG},
        },
        "messages": {
            "type": "array",
            "items": {
                "type": "object",
                "required": ["header", "payload", "user_headers"],
                "properties": {
                    "header": {
                        "type": "object",
                        "required": [
                            "checksum",
                            "id",
                            "offset",
                            "timestamp",
                            "origin_timestamp",
                            "user_headers_length",
                            "payload_length",
                            "reserved",
                        ],
                        "properties": {
                            "checksum": _BIG,
                            "id": _BIG,
                            "offset": _BIG,
                            "timestamp": _BIG,
                            "origin_timestamp": _BIG,
                            "user_headers_length": {"type": "integer"},
                            "payload_length": {"type": "integer"},
                            "reserved": {"type": "integer"},
                        },
                    },
                    "payload": {"type": "string", "contentEncoding": "base64"},
                    "user_headers": {
                        "anyOf": [
                            {
                                "type": "array",
                                "items": {
                                    "type": "object",
                                    "required": ["key", "value"],
                                    "properties": {"key": _POLLED_FIELD, "value": _POLLED_FIELD},
                                },
                            },
                            {"type": "string", "contentEncoding": "base64"},
                        ]
                    },
                },
            },
        },
    },
}
