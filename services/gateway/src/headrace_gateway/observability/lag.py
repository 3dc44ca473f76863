"""Lag of a consumer or a consumer group, in messages and in seconds.

Computed with commands available to any user with the permission: the topic, the stored offsets, and one message of each
lagging partition, whose time of arrival is the age of the lag.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import headrace_core as core
from headrace_node.connections.sessions import Response, Session
from headrace_proto.errors import Status

Identifier = int | str

_OFFSETS_AT_ONCE = 64
# Limited because each message may have the maximum size.
_MESSAGES_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class PartitionLag:
    """Lag of the consumer in one partition."""

    partition_id: int
    stored_offset: int | None
    """Offset of the last processed message; None if no offset is stored."""
    last_offset: int | None
    """Offset of the newest message; None if the partition is empty."""
    lag_messages: int | None
    """Number of readable messages not processed yet; None if the node of the partition is not reached."""
    lag_seconds: float | None
    """Age of the oldest of them; 0 if there is none; None if it could not be read."""
    member: int | None
    """Id, within its group, of the member that owns the partition."""


@dataclass(frozen=True, slots=True)
class Lag:
    """Lag of the consumer in the whole topic."""

    lag_messages: int
    """Lag in all partitions whose node is reached."""
    lag_seconds: float | None
    """Largest lag of a partition; None if no lagging partition could be read."""
    partitions: list[PartitionLag]

    @property
    def is_complete(self) -> bool:
        """True if the lag in every partition is known."""
        return all(partition.lag_messages is not None for partition in self.partitions)


class NotToBeSeen(Exception):
    """A command was refused."""

    def __init__(self, status: int) -> None:
        super().__init__(status)
        self.status = status
        """A code of ``proto/errors.toml``; RESOURCE_NOT_FOUND if the answer was empty."""


async def lag_of_group(
    session: Session, stream: Identifier, topic: Identifier, group: Identifier, *, now_micros: int
) -> Lag:
    """Return the lag of a consumer group.

    Raises:
        NotToBeSeen: The caller lacks the permission, or the group does not exist.
        SessionLost: The node stops.
    """
    found = core.decode_consumer_group(
        _payload(await session.call(*core.encode_get_consumer_group(stream=stream, topic=topic, group=group)))
    )
    if found is None:
        raise NotToBeSeen(Status.RESOURCE_NOT_FOUND)
    owners = {partition: member.id for member in found.members for partition in member.partitions}
    return await _lag(session, stream, topic, found.id, is_group=True, owners=owners, now_micros=now_micros)


async def lag_of_consumer(
    session: Session, stream: Identifier, topic: Identifier, consumer: Identifier, *, now_micros: int
) -> Lag:
    """Return the lag of a single consumer. Without stored offsets, all messages count.

    Raises:
        NotToBeSeen: The caller lacks the permission, or the topic does not exist.
        SessionLost: The node stops.
    """
    return await _lag(session, stream, topic, consumer, is_group=False, owners={}, now_micros=now_micros)


async def _lag(
    session: Session,
    stream: Identifier,
    topic: Identifier,
    consumer: Identifier,
    *,
    is_group: bool,
    owners: Mapping[int, int],
    now_micros: int,
) -> Lag:
    read = core.decode_topic(_payload(await session.call(*core.encode_get_topic(stream=stream, topic=topic))))
    if read is None:
        raise NotToBeSeen(Status.RESOURCE_NOT_FOUND)
    answers = await _answers(
        session,
        [
            core.encode_get_consumer_offset(
                stream=stream, topic=topic, consumer=consumer, is_group=is_group, partition=partition.id
            )
            for partition in read.partitions
        ],
        at_once=_OFFSETS_AT_ONCE,
    )
    is_reached = [answer.status != Status.PARTITION_UNAVAILABLE for answer in answers]
    offsets = [
        core.decode_consumer_offset(_payload(answer)) if reached else None
        for answer, reached in zip(answers, is_reached, strict=True)
    ]
    behind = [
        _behind(partition, offset) if reached else None
        for partition, offset, reached in zip(read.partitions, offsets, is_reached, strict=True)
    ]
    late = [place for place, count in enumerate(behind) if count]
    arrivals = await _answers(
        session,
        [_oldest_unread(stream, topic, read.partitions[place].id, offsets[place]) for place in late],
        at_once=_MESSAGES_AT_ONCE,
    )
    seconds: dict[int, float | None] = {
        place: _age_seconds(answer, now_micros) for place, answer in zip(late, arrivals, strict=True)
    }
    partitions = [
        PartitionLag(
            partition_id=partition.id,
            stored_offset=None if offset is None else offset.stored_offset,
            last_offset=partition.current_offset if partition.messages_count else None,
            lag_messages=behind[place],
            lag_seconds=seconds.get(place, 0.0) if is_reached[place] else None,
            member=owners.get(partition.id),
        )
        for place, (partition, offset) in enumerate(zip(read.partitions, offsets, strict=True))
    ]
    return Lag(sum(count or 0 for count in behind), _worst(partitions), partitions)


def _payload(answer: Response) -> bytes:
    if answer.status != Status.OK:
        raise NotToBeSeen(answer.status)
    return answer.payload


async def _answers(session: Session, requests: Sequence[tuple[int, bytes]], *, at_once: int) -> list[Response]:
    answers: list[Response] = []
    for begin in range(0, len(requests), at_once):
        some = requests[begin : begin + at_once]
        for request in some:
            await session.send(*request)
        answers += [await session.receive() for _ in some]
    return answers


def _behind(partition: core.Partition, offset: core.ConsumerOffset | None) -> int:
    if offset is None:
        return partition.messages_count
    # Expired messages do not count.
    return max(0, min(offset.current_offset - offset.stored_offset, partition.messages_count))


def _oldest_unread(
    stream: Identifier, topic: Identifier, partition: int, offset: core.ConsumerOffset | None
) -> tuple[int, bytes]:
    # Poll as a single consumer, which needs no membership and stores no offset. If the message at the offset has
    # expired, the poll begins with the first one that is still there.
    return core.encode_poll_messages(
        stream=stream,
        topic=topic,
        partition=partition,
        strategy="first" if offset is None else "offset",
        value=0 if offset is None else offset.stored_offset + 1,
        count=1,
    )


def _age_seconds(answer: Response, now_micros: int) -> float | None:
    if answer.status != Status.OK:
        return None
    messages = core.decode_polled(answer.payload)
    if not len(messages):
        # The message has expired, or was purged, meanwhile.
        return None
    return max(0, now_micros - messages[0].timestamp_micros) / 1_000_000


def _worst(partitions: Sequence[PartitionLag]) -> float | None:
    late = [partition.lag_seconds for partition in partitions if partition.lag_messages]
    known = [seconds for seconds in late if seconds is not None]
    return max(known) if known else (None if late else 0.0)
