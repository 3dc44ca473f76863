"""Responses of `Fetch`, and requests of `Append` and `Stage`, as bytes.

A protobuf message copies a batch into itself, and once more when it is encoded: of all that a call costs that is the
larger part. Here only the few bytes around it are encoded and decoded.
"""

from __future__ import annotations

from typing import Final, NamedTuple, TypeVar

import xxhash

from headrace_proto.partition.v1 import AppendRequest, FetchResponse, Place, StageRequest

# The field `polled`, number 1, as bytes with their length in front.
_POLLED_TAG: Final = b"\x0a"
# The field `batch`, number 3 of `AppendRequest` and 4 of `StageRequest`.
_APPENDED_TAG: Final = 0x1A
_STAGED_TAG: Final = 0x22
_LENGTH_BITS_MAX: Final = 64
_LOW_BITS: Final = 0x7F
_MORE: Final = 0x80

_Request = TypeVar("_Request", AppendRequest, StageRequest)


class Chunk(NamedTuple):
    """A response of `Fetch`; what its fields mean is said there."""

    polled: bytes | memoryview
    next_offset: int
    done: bool = False
    messages_count: int = 0
    digest: int = 0


class Sent:
    """All that the responses of one call have."""

    def __init__(self) -> None:
        self._messages_count = 0
        # It takes a hundredth of what everything else takes.
        self._digest = xxhash.xxh3_64()

    def add(self, polled: bytes | memoryview, messages_count: int) -> None:
        """So much more is sent."""
        self._messages_count += messages_count
        self._digest.update(polled)

    def last(self, polled: bytes | memoryview, next_offset: int) -> Chunk:
        """Return the last response, whose messages have been added."""
        return Chunk(polled, next_offset, True, self._messages_count, self._digest.intdigest())  # noqa: FBT003


def encoded(chunk: Chunk) -> bytes:
    """Return the response as protobuf has it."""
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
    """A request of `Append` or `Stage`; what its fields mean is said there."""

    place: Place | None
    messages_count: int
    batch: bytes | memoryview
    lifetime_seconds: int = 0


def decoded(request: bytes) -> Batch:
    """Return what a request of `Append` says.

    Raises:
        DecodeError: It is not one.
    """
    rest, batch = _parted(request, AppendRequest, _APPENDED_TAG)
    return Batch(_place_of(rest), rest.messages_count, batch)


def decoded_staged(request: bytes) -> Batch:
    """Return what a request of `Stage` says.

    Raises:
        DecodeError: It is not one.
    """
    rest, batch = _parted(request, StageRequest, _STAGED_TAG)
    return Batch(_place_of(rest), rest.messages_count, batch, rest.lifetime_seconds)


def _place_of(request: AppendRequest | StageRequest) -> Place | None:
    return request.place if request.HasField("place") else None


def _parted(request: bytes, kind: type[_Request], batch_tag: int) -> tuple[_Request, bytes | memoryview]:
    """The batch, and everything else."""
    # Whoever encodes it puts the batch behind the rest, as its number is the highest; who does not is understood too.
    start = _start_of_batch(request, batch_tag)
    if start is None:
        whole = kind.FromString(request)
        return whole, whole.batch
    tag_at, batch_at = start
    return kind.FromString(request[:tag_at]), memoryview(request)[batch_at:]


def _start_of_batch(request: bytes, batch_tag: int) -> tuple[int, int] | None:
    """Where the tag of a batch stands that the request ends with, and where its bytes begin."""
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
    """A number, and what stands behind it; where it is cut off, behind the end."""
    number = shift = 0
    while at < len(encoded) and shift < _LENGTH_BITS_MAX:
        byte = encoded[at]
        number |= (byte & _LOW_BITS) << shift
        at, shift = at + 1, shift + 7
        if not byte & _MORE:
            return number, at
    return 0, len(encoded) + 1
