"""Messages on their way into a sink: decoded, transformed, and written without those that are invalid."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass

from headrace_connectors.contract import Codec, InvalidRecord, Place, Received, Record, Sink, Transform
from headrace_connectors.runtime.transforming import transformed
from headrace_core import Message


@dataclass(slots=True, eq=False)
class Item:
    """A message, and what the transforms have made of it."""

    message: Message
    place: Place
    received: list[Received] | None = None
    """None: not decoded yet."""


Reject = Callable[[Item, InvalidRecord], Awaitable[None]]
"""Puts a message aside that cannot be decoded, transformed or written. Raises to stop the sink instead."""


class Decoding:
    """Decodes messages, and applies transforms to them."""

    def __init__(self, codec: Codec, transforms: Sequence[Transform]) -> None:
        self._decode = codec.decode
        self._transforms = transforms

    def begin_batch(self) -> None:
        """Let the transforms know that a batch follows."""
        for transform in self._transforms:
            transform.begin_batch()

    def received(self, message: Message, place: Place) -> list[Received]:
        """Return what a message becomes: any number of records, all at its offset.

        Raises:
            InvalidRecord: It cannot be decoded or transformed.
        """
        headers = message.headers
        if headers is None:
            raise InvalidRecord("the headers cannot be read: they are damaged or encrypted")
        decoded = Record(self._decode(message.payload), id=message.id, headers=headers or None)
        records = transformed(decoded, self._transforms)
        return [Received(record, place, message.offset, message.timestamp_micros, message.key) for record in records]


async def decode(decoding: Decoding, items: list[Item], reject: Reject) -> None:
    """Decode the messages that are not decoded yet. Those that cannot be are rejected, and removed from the list.

    Raises:
        Exception: As `reject`.
    """
    decoding.begin_batch()
    for item in items[:]:
        if item.received is None:
            try:
                item.received = decoding.received(item.message, item.place)
            except InvalidRecord as error:
                await reject(item, error)
                items.remove(item)


async def write(sink: Sink, items: list[Item], reject: Reject) -> None:
    """Write messages. Those that the sink finds invalid are rejected, and removed from the list.

    Raises:
        Exception: As `Sink.write`, other than `InvalidRecord`, and as `reject`.
    """
    kept: list[Item] = []
    parts = [items[:]]
    while parts:
        part = parts.pop()
        received = [one for item in part for one in item.received or ()]
        if not received:
            kept.extend(part)
            continue
        try:
            await sink.write(received)
        except InvalidRecord as error:
            found = _place_of(part, error.index)
            if found is None and len(part) > 1:
                # One of them is the reason: the halves show which. The first half is written first.
                middle = len(part) // 2
                parts += [part[middle:], part[:middle]]
                continue
            item = part.pop(found or 0)
            await reject(item, error)
            # It is not to be rejected again if the batch is written again.
            items.remove(item)
            parts.append(part)
        else:
            kept.extend(part)
    items[:] = kept


def _place_of(part: Sequence[Item], index: int | None) -> int | None:
    """Return the place of the message that the record with this index comes from; None: it is not known."""
    if index is None or index < 0:
        return None
    for place, item in enumerate(part):
        count = len(item.received or ())
        if index < count:
            return place
        index -= count
    return None
