"""Start positions of subscriptions in partitions."""

from __future__ import annotations

from dataclasses import dataclass

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


def resumed(feed: Feed, position: Position) -> Beginning:
    """Return the position at which a reconnecting client continues."""
    if position.epoch != str(feed.epoch):
        # The epoch has changed: offsets refer to other messages.
        return Beginning(feed.first_offset, feed.epoch, is_reset=True)
    if position.offset > feed.next_offset:
        # Messages already read were lost; new messages will get their offsets.
        return Beginning(feed.next_offset, feed.epoch, is_reset=True)
    return Beginning(position.offset, feed.epoch)


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
            found = await _at(feed, start.value, session)
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


async def _at(feed: Feed, micros: int, session: Session) -> int | None:
    place = feed.place
    answer = await session.call(
        *core.encode_poll_messages(
            stream=place.stream_id,
            topic=place.topic_id,
            partition=place.partition_id,
            strategy="timestamp",
            value=micros,
            count=1,
        )
    )
    if answer.status != Status.OK:
        raise Refused(answer.status, answer.explanation)
    return None if Batch.is_empty(answer.payload) else Batch(answer.payload).first
