"""Client of partition nodes: fetch, append, stage."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final, NamedTuple, Protocol, cast

import grpc

from headrace_proto.partition import v1
from pyspark_headrace.errors import IncompleteError

TICKET_METADATA: Final = "headrace-ticket"
_FETCH: Final = "/headrace.partition.v1.Partition/Fetch"
_APPEND: Final = "/headrace.partition.v1.Partition/Append"
_STAGE: Final = "/headrace.partition.v1.Partition/Stage"

_VARINT: Final = 0
_FIXED64: Final = 1
_BYTES: Final = 2
_FIXED32: Final = 5


class Chunk(NamedTuple):
    """One response of a fetch, as a view of the receive buffer."""

    polled: memoryview
    """Messages in the format of a poll response; empty at the end of the range."""
    next_offset: int
    """Offset after the last message of the chunk."""
    is_last: bool
    """The range was sent completely."""
    digest: int = 0
    """XXH3-64 of the concatenated `polled` of all responses of the call, in the last response only. 0: not sent."""


class Range(NamedTuple):
    """Range of offsets to fetch."""

    stream_id: int
    topic_id: int
    partition_id: int
    incarnation: int
    start: int
    end: int


class Responses(Protocol):
    """A running call and its responses."""

    def __iter__(self) -> Iterator[bytes]: ...

    def cancel(self) -> object:
        """Cancel the call. The reading thread gets an error."""


class Staging(Protocol):
    """A running call with a single response."""

    def done(self) -> bool:
        """Return whether the call has ended."""

    def result(self, timeout: float) -> v1.StageResponse:
        """Wait for the response."""

    def cancel(self) -> object:
        """Cancel the call."""

    def add_done_callback(self, callback: Callable[[object], None]) -> object:
        """Register a callback for the end of the call."""


def fetch(channel: grpc.Channel, wanted: Range, ticket: str, response_bytes: int) -> Responses:
    """Start a fetch. Its responses are raw bytes, for `chunk`."""
    request = v1.FetchRequest(
        range=v1.FetchRange(
            place=v1.Place(
                stream_id=wanted.stream_id,
                topic_id=wanted.topic_id,
                partition_id=wanted.partition_id,
                incarnation=wanted.incarnation,
            ),
            start_offset=wanted.start,
            end_offset=wanted.end,
            response_bytes=response_bytes,
        )
    )
    # Responses stay raw bytes: the protobuf library would copy each of them once more.
    call: Callable[..., object] = channel.stream_stream(
        _FETCH, request_serializer=v1.FetchRequest.SerializeToString, response_deserializer=None
    )
    return cast("Responses", call(iter([request]), metadata=((TICKET_METADATA, ticket),)))


def append(channel: grpc.Channel, requests: Iterator[v1.AppendRequest], ticket: str) -> Responses:
    """Start an append call. Each request gets one response, in order."""
    call: Callable[..., object] = channel.stream_stream(
        _APPEND, request_serializer=v1.AppendRequest.SerializeToString, response_deserializer=None
    )
    return cast("Responses", call(requests, metadata=((TICKET_METADATA, ticket),)))


def stage(channel: grpc.Channel, requests: Iterator[v1.StageRequest], ticket: str) -> Staging:
    """Start a stage call. One response follows when all requests are stored."""
    call = channel.stream_unary(
        _STAGE, request_serializer=v1.StageRequest.SerializeToString, response_deserializer=v1.StageResponse.FromString
    )
    return cast("Staging", call.future(requests, metadata=((TICKET_METADATA, ticket),)))


def chunk(response: bytes) -> Chunk:
    """Decode a response of a fetch.

    Raises:
        IncompleteError: The bytes are not a fetch response.
    """
    polled = memoryview(b"")
    next_offset = 0
    is_last = False
    digest = 0
    whole = memoryview(response)
    try:
        for number, value in _fields(whole):
            match number, value:
                case 1, memoryview():
                    polled = value
                case 2, int():
                    next_offset = value
                case 3, int():
                    is_last = bool(value)
                case 5, int():
                    digest = value
                case _:
                    # Unknown field, added by a later server version.
                    continue
    except IndexError as error:
        raise IncompleteError("a response of a partition node is cut off") from error
    return Chunk(polled, next_offset, is_last, digest)


def _fields(whole: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    position = 0
    while position < len(whole):
        tag, position = _varint(whole, position)
        number, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            value, position = _varint(whole, position)
            yield number, value
            continue
        if kind == _BYTES:
            length, position = _varint(whole, position)
        elif kind in {_FIXED64, _FIXED32}:
            length = 8 if kind == _FIXED64 else 4
        else:
            raise IndexError
        if position + length > len(whole):
            raise IndexError
        value_bytes = whole[position : position + length]
        position += length
        yield number, value_bytes if kind == _BYTES else int.from_bytes(value_bytes, "little")


def _varint(whole: memoryview, position: int) -> tuple[int, int]:
    value = shift = 0
    while True:
        byte = whole[position]
        position += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, position
        shift += 7
