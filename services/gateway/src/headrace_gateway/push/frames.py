"""Messages on their way to a client, in the form of its subprotocol, and batches on their way back."""

from __future__ import annotations

from collections.abc import Sequence
from struct import Struct
from typing import Final, NamedTuple

from headrace_gateway.push.batches import Batch

JSON: Final = "headrace.v1.json"
BINARY: Final = "headrace.v1.binary"

_MESSAGES: Final = Struct("<B3xIIIIIQQQ")
_PRODUCE: Final = Struct("<B3sI")
_MESSAGES_KIND: Final = 1
_PRODUCE_KIND: Final = 1


class Place(NamedTuple):
    """A partition, by numbers."""

    stream_id: int
    topic_id: int
    partition_id: int


class Epoch(NamedTuple):
    """The life of a partition in which an offset means what it meant."""

    incarnation: int
    purge_epoch: int

    def __str__(self) -> str:
        """How clients see it."""
        return f"{self.incarnation}.{self.purge_epoch}"


class Selection(NamedTuple):
    """Messages of a batch for one subscription."""

    batch: Batch
    indexes: Sequence[int]
    next_offset: int
    """Where the subscription goes on."""
    size_bytes: int


def binary_messages(subscription: int, place: Place, epoch: Epoch, selection: Selection) -> bytes:
    """A frame with messages as they are stored."""
    header = _MESSAGES.pack(_MESSAGES_KIND, subscription, *place, len(selection.indexes), *epoch, selection.next_offset)
    return b"".join((header, *(selection.batch.raw(start, end) for start, end in _runs(selection.indexes))))


def json_messages(subscription: int, place: Place, epoch: Epoch, selection: Selection) -> bytes:
    """The same as text."""
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
    """Neighbours together, as they are copied at once."""
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
    """The id of a request to append messages, and the payload of the command.

    Raises:
        ValueError: It is no such request.
    """
    if len(frame) < _PRODUCE.size:
        raise ValueError("a binary frame has at least 8 bytes")
    kind, zero, request_id = _PRODUCE.unpack_from(frame)
    if kind != _PRODUCE_KIND or zero != b"\0\0\0":
        raise ValueError("a binary frame begins with 1, 0, 0, 0")
    return request_id, frame[_PRODUCE.size :]
