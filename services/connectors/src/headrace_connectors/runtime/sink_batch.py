"""Messages on their way into a sink: decoded, transformed, and written without those that are invalid."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from headrace_connectors.contract import Codec, InvalidRecord, Place, Received, Record, Sink, Transform
from headrace_connectors.contract.codec import DECODED_BYTES_MAX
from headrace_connectors.transforming import transformed
from headrace_core import Message


@dataclass(slots=True, eq=False)
class Item:
    """A message, and what the transforms have made of it."""

    message: Message
    place: Place
    received: list[Received] | None = None
    """None: not decoded yet, or written, and not kept."""
    count: int = 0
    """Number of these records."""


Reject = Callable[[Item, InvalidRecord], Awaitable[None]]
"""Puts a message aside that cannot be decoded, transformed or written. Raises to stop the sink instead."""


class Decoding:
    """Decodes messages, and applies transforms to them."""

    def __init__(self, codec: Codec, transforms: Sequence[Transform], bytes_max: int = DECODED_BYTES_MAX) -> None:
        """Note codec and transforms.

        Args:
            codec: The codec.
            transforms: The transforms, opened.
            bytes_max: Memory that the payloads of a message may take, and roughly those of all that are decoded at a
                time.
        """
        self._codec = codec
        self._transforms = transforms
        self._bytes_max = bytes_max

    def begin_batch(self) -> None:
        """Let the transforms know that a batch follows."""
        for transform in self._transforms:
            transform.begin_batch()

    def received(self, message: Message, place: Place) -> list[Received]:
        """Return what a message becomes: any number of records, all at its offset.

        Raises:
            InvalidRecord: It cannot be decoded or transformed.
        """
        return self.transformed(message, place, self._codec.decode_bounded(message.payload, self._bytes_max)[0])

    async def payloads(self, messages: Iterator[Message]) -> list[Any]:
        """Return the payloads of the next messages, as many as fit into memory: at least one, if there is one.

        In the place of one that cannot be decoded is an `InvalidRecord`.
        """
        if not self._codec.is_bounded:
            return self._payloads(messages)
        # Decoding may take long: the loop, in which other connectors run, goes on meanwhile.
        return await asyncio.to_thread(self._payloads, messages)

    def _payloads(self, messages: Iterator[Message]) -> list[Any]:
        payloads: list[Any] = []
        left = self._bytes_max
        for message in messages:
            try:
                payload, size = self._codec.decode_bounded(message.payload, self._bytes_max)
            except InvalidRecord as error:
                payload, size = error, 0
            payloads.append(payload)
            left -= size
            if left <= 0:
                break
        return payloads

    def transformed(self, message: Message, place: Place, payload: Any) -> list[Received]:
        """Return what a message with this payload becomes.

        Raises:
            InvalidRecord: It cannot be transformed.
        """
        headers = message.headers
        if headers is None:
            raise InvalidRecord("the headers cannot be read: they are damaged or encrypted")
        decoded = Record(payload, id=message.id, headers=headers or None)
        records = transformed(decoded, self._transforms)
        return [Received(record, place, message.offset, message.timestamp_micros, message.key) for record in records]


async def decode(decoding: Decoding, items: list[Item], reject: Reject) -> list[Item]:
    """Decode the first messages, as many as fit into memory, and return them.

    Those that cannot be decoded are rejected, and removed from the list.

    Raises:
        Exception: As `reject`.
    """
    decoding.begin_batch()
    payloads = await decoding.payloads(iter([item.message for item in items]))
    decoded: list[Item] = []
    for item, payload in zip(items[: len(payloads)], payloads, strict=True):
        try:
            if isinstance(payload, InvalidRecord):
                raise payload
            item.received = decoding.transformed(item.message, item.place, payload)
        except InvalidRecord as error:
            await reject(item, error)
            items.remove(item)
        else:
            item.count = len(item.received)
            decoded.append(item)
    return decoded


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
