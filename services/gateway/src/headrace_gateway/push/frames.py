"""Encoding of messages for a client in its subprotocol, and decoding of batches from a client."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from headrace_gateway.push.feeds.batches import Batch

JSON: Final = "headrace.v1.json"
BINARY: Final = "headrace.v1.binary"

_MESSAGES: Final = Struct("<B3xIIIIIQQQ")
_PRODUCE: Final = Struct("<B3sI")
_MESSAGES_KIND: Final = 1
_PRODUCE_KIND: Final = 1


class Place(NamedTuple):
    """A partition, by numeric ids."""

    stream_id: int
    topic_id: int
    partition_id: int


class Epoch(NamedTuple):
    """Log generation of a partition, within which offsets are stable."""

    incarnation: int
    purge_epoch: int

    def __str__(self) -> str:
        """Return the form that clients see."""
        return f"{self.incarnation}.{self.purge_epoch}"


class Selection(NamedTuple):
    """Selected messages of a batch for one subscription."""

    batch: Batch
    indexes: Sequence[int]
    next_offset: int
    """Offset at which the subscription continues."""
    size_bytes: int


def binary_messages(subscription: int, place: Place, epoch: Epoch, selection: Selection) -> bytes:
    """Return a binary frame with messages as stored."""
    header = _MESSAGES.pack(_MESSAGES_KIND, subscription, *place, len(selection.indexes), *epoch, selection.next_offset)
    return b"".join((header, *(selection.batch.raw(start, end) for start, end in _runs(selection.indexes))))


def json_messages(subscription: int, place: Place, epoch: Epoch, selection: Selection) -> bytes:
    """Return the messages as JSON text."""
    return (
        b'{"type":"messages","subscription":%d,"stream_id":%d,"topic_id":%d,"partition_id":%d,"epoch":"%b",'
        b'"next_offset":%d,"messages":[%b]}'
    ) % (
        subscription,
        *place,
        str(epoch).encode(),
        selection.next_offset,
        b",".join(map(selection.batch.json, selection.indexes)),
    )


def _runs(indexes: Sequence[int]) -> list[tuple[int, int]]:
    """Merge adjacent indexes to ranges, which are copied at once."""
    if isinstance(indexes, range):
        return [(indexes.start, indexes.stop)] if indexes else []
    runs: list[tuple[int, int]] = []
    for index in indexes:
        if runs and runs[-1][1] == index:
            runs[-1] = (runs[-1][0], index + 1)
        else:
            runs.append((index, index + 1))
    return runs


def decode_produce(frame: bytes) -> tuple[int, bytes]:
    """Return the request id and the command payload of a binary produce request.

    Raises:
        ValueError: The frame is not a produce request.
    """
    if len(frame) < _PRODUCE.size:
        raise ValueError("a binary frame has at least 8 bytes")
    kind, zero, request_id = _PRODUCE.unpack_from(frame)
    if kind != _PRODUCE_KIND or zero != b"\0\0\0":
        raise ValueError("a binary frame begins with 1, 0, 0, 0")
    return request_id, frame[_PRODUCE.size :]
