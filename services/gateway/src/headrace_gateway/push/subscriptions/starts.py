"""Start positions of subscriptions in partitions."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

import headrace_core as core
from headrace_gateway.json_api.errors import Refused
from headrace_gateway.push.feeds.batches import Batch
from headrace_gateway.push.feeds.partition_feeds import Feed
from headrace_gateway.push.forms import Position, Start
from headrace_gateway.push.frames import Epoch
from headrace_node.connections.sessions import Session
from headrace_proto.errors import Status


@dataclass(frozen=True, slots=True)
class Beginning:
    """Start offset, and the epoch in which it is valid."""

    offset: int
    epoch: Epoch
    is_reset: bool = False
    """True if the position differs from the requested one."""


async def resumed(feed: Feed, position: Position, session: Session) -> Beginning:
    """Return the position at which a reconnecting client continues.

    Args:
        feed: The partition.
        position: Next message that the client expects.
        session: Session of the user.

    Raises:
        Refused: The position cannot be determined.
        SessionLost: The node stops.
    """
    epoch, next_offset = feed.epoch, feed.next_offset
    if position.epoch != str(epoch):
        # The epoch has changed: offsets refer to other messages.
        return Beginning(feed.first_offset, epoch, is_reset=True)
    # Reads go beyond the end that the feed has been notified of, also those of another gateway: ask for the message
    # before the position.
    if position.offset > next_offset:
        before = position.offset - 1
        if await _found(feed, "offset", before, session) != before:
            # Messages already read were lost; new messages will get their offsets.
            return Beginning(next_offset, epoch, is_reset=True)
    return Beginning(position.offset, epoch)


async def begun(feed: Feed, start: Start, consumer: int | str | None, session: Session) -> Beginning:
    """Return the position at which a new client starts.

    Args:
        feed: The partition.
        start: Requested start.
        consumer: Consumer whose stored offset is used.
        session: Session of the user.

    Raises:
        Refused: The position cannot be determined.
        SessionLost: The node stops.
    """
    # The lookups below are valid in this epoch only.
    epoch, first_offset, next_offset = feed.epoch, feed.first_offset, feed.next_offset
    match start.kind:
        case "first":
            offset = first_offset
        case "last":
            offset = next_offset
        case "offset":
            offset = start.value
        case "next":
            offset = await _stored(feed, consumer, session) or first_offset
        case "timestamp":
            found = await _found(feed, "timestamp", start.value, session)
            # No message is that late: start with the next message.
            offset = found if found is not None else next_offset
    return Beginning(offset, epoch)


async def _stored(feed: Feed, consumer: int | str | None, session: Session) -> int:
    if consumer is None:
        raise Refused(Status.INVALID_COMMAND, "Stored offsets need a consumer.", field="consumer")
    place = feed.place
    answer = await session.call(
        *core.encode_get_consumer_offset(
            stream=place.stream_id, topic=place.topic_id, partition=place.partition_id, consumer=consumer
        )
    )
    if answer.status != Status.OK:
        raise Refused(answer.status, answer.explanation)
    stored = core.decode_consumer_offset(answer.payload)
    return stored.stored_offset + 1 if stored is not None else 0


async def _found(feed: Feed, strategy: Literal["offset", "timestamp"], value: int, session: Session) -> int | None:
    """Return the offset of the first message from an offset or time on, if there is one."""
    place = feed.place
    answer = await session.call(
        *core.encode_poll_messages(
            stream=place.stream_id,
            topic=place.topic_id,
            partition=place.partition_id,
            strategy=strategy,
            value=value,
            count=1,
        )
    )
    if answer.status != Status.OK:
        raise Refused(answer.status, answer.explanation)
    return None if Batch.is_empty(answer.payload) else Batch(answer.payload).first
