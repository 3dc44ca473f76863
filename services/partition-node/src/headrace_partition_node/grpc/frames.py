"""Wire encoding of `Fetch` responses and of `Append` and `Stage` requests.

A protobuf message copies a batch into itself, and again when it is encoded, which dominates the cost of a call. This
module encodes and decodes only the few bytes around the batch.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import xxhash

from headrace_proto.partition.v1 import AppendRequest, FetchResponse, Place, StageRequest

# Tag of the field `polled`, number 1, length-delimited.
_POLLED_TAG: Final = b"\x0a"
# Tag of the field `batch`, number 3 of `AppendRequest` and 4 of `StageRequest`.
_APPENDED_TAG: Final = 0x1A
_STAGED_TAG: Final = 0x22
_LENGTH_BITS_MAX: Final = 64
_LOW_BITS: Final = 0x7F
_MORE: Final = 0x80

_Request = TypeVar("_Request", AppendRequest, StageRequest)


class Chunk(NamedTuple):
    """A response of `Fetch`; the fields are documented in the protobuf definition."""

    polled: bytes | memoryview
    next_offset: int
    done: bool = False
    messages_count: int = 0
    digest: int = 0


class Sent:
    """Totals of the responses of one call."""

    def __init__(self) -> None:
        self._messages_count = 0
        # The digest costs about a hundredth of the rest.
        self._digest = xxhash.xxh3_64()

    def add(self, polled: bytes | memoryview, messages_count: int) -> None:
        """Add a response to the totals."""
        self._messages_count += messages_count
        self._digest.update(polled)

    def last(self, polled: bytes | memoryview, next_offset: int) -> Chunk:
        """Return the last response, whose messages have been added."""
        return Chunk(polled, next_offset, True, self._messages_count, self._digest.intdigest())  # noqa: FBT003


def encoded(chunk: Chunk) -> bytes:
    """Return the response in protobuf encoding."""
    rest = FetchResponse(
        next_offset=chunk.next_offset, done=chunk.done, messages_count=chunk.messages_count, digest=chunk.digest
    ).SerializeToString()
    if not chunk.polled:
        return rest
    return b"".join((_POLLED_TAG, _varint(len(chunk.polled)), chunk.polled, rest))


def _varint(number: int) -> bytes:
    groups = bytearray()
    while number > _LOW_BITS:
        groups.append(number & _LOW_BITS | _MORE)
        number >>= 7
    groups.append(number)
    return bytes(groups)


class Batch(NamedTuple):
    """A request of `Append` or `Stage`; the fields are documented in the protobuf definition."""

    place: Place | None
    messages_count: int
    batch: bytes | memoryview
    lifetime_seconds: int = 0


def decoded(request: bytes) -> Batch:
    """Decode a request of `Append`.

    Raises:
        DecodeError: The request is invalid.
    """
    rest, batch = _parted(request, AppendRequest, _APPENDED_TAG)
    return Batch(_place_of(rest), rest.messages_count, batch)


def decoded_staged(request: bytes) -> Batch:
    """Decode a request of `Stage`.

    Raises:
        DecodeError: The request is invalid.
    """
    rest, batch = _parted(request, StageRequest, _STAGED_TAG)
    return Batch(_place_of(rest), rest.messages_count, batch, rest.lifetime_seconds)


def _place_of(request: AppendRequest | StageRequest) -> Place | None:
    return request.place if request.HasField("place") else None


def _parted(request: bytes, kind: type[_Request], batch_tag: int) -> tuple[_Request, bytes | memoryview]:
    """Split a request into the batch and the rest."""
    # Common encoders write the batch last because its field number is the highest; any other order is decoded, too.
    start = _start_of_batch(request, batch_tag)
    if start is None:
        whole = kind.FromString(request)
        return whole, whole.batch
    tag_at, batch_at = start
    return kind.FromString(request[:tag_at]), memoryview(request)[batch_at:]


def _start_of_batch(request: bytes, batch_tag: int) -> tuple[int, int] | None:
    """Return the positions of the tag and of the bytes of a batch at the end of the request; None if there is none."""
    at = 0
    while at < len(request):
        tag_at, tag = at, request[at]
        value, at = _read_varint(request, at + 1)
        if tag == batch_tag:
            return (tag_at, at) if at + value == len(request) else None
        match tag & 0b111:
            case 0:
                pass
            case 2:
                at += value
            case _:
                return None
    return None


def _read_varint(encoded: bytes, at: int) -> tuple[int, int]:
    """Return a number and the position after it; a position beyond the end if it is truncated."""
    number = shift = 0
    while at < len(encoded) and shift < _LENGTH_BITS_MAX:
        byte = encoded[at]
        number |= (byte & _LOW_BITS) << shift
        at, shift = at + 1, shift + 7
        if not byte & _MORE:
            return number, at
    return 0, len(encoded) + 1
