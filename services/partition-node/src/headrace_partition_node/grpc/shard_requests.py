"""Requests to the shards, over sessions within this process."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from struct import Struct
from typing import Final, NamedTuple

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_node.connections.answers import Answer
from headrace_node.connections.partition_bounds import Ends, ends_of
from headrace_node.connections.sessions import LastingSessions, Response, Session, Sessions
from headrace_partition_node.grpc.tickets import CoveredPartition
from headrace_proto.errors import Status
from headrace_proto.well_known import ROOT_USER_ID

# Header of polled messages: partition, offset of its last message, number of messages.
_POLLED: Final = Struct("<IQI")
# Offset in the header of the first message, after checksum and id.
_OFFSET: Final = Struct("<Q")
_OFFSET_AT: Final = _POLLED.size + 24

_BEYOND_ALL: Final = 2**64 - 1

# Code of `SendMessages`, and the metadata before a batch for a partition given by ids.
SEND_MESSAGES: Final = 101
_METADATA: Final = Struct("<IBBIBBIBBII")
_METADATA_BYTES: Final = _METADATA.size - 4
_NUMERIC: Final = (1, 4)
_PARTITION: Final = (2, 4)


class Polled(NamedTuple):
    """Answer of a poll."""

    payload: bytes | memoryview
    first_offset: int
    """Offset of its first message; 0 if there is none."""
    messages_count: int


class Shards:
    """The shards of this process."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._lasting = LastingSessions(sessions)

    def session(self) -> AbstractAsyncContextManager[Session]:
        """Lend an exclusive session for the duration of an ``async with`` block.

        Raises:
            SessionLost: The shards accept no session, or the node stops.
        """
        # Permissions are checked by tickets before any request.
        return self._lasting.session(ROOT_USER_ID)

    def close(self) -> None:
        """End all long-lived sessions; pending requests fail."""
        self._lasting.close()

    async def ends(self, stream_id: int, topic_id: int, partition_ids: Iterable[int]) -> dict[int, Ends]:
        """Return the begin and end of partitions of a topic.

        Raises:
            Refused: A partition is not on this node.
            SessionLost: No answer came.
        """
        wanted = sorted(set(partition_ids))
        async with self.session() as session:
            ends = await ends_of(session, [(stream_id, topic_id, wanted)])
        return {partition_id: found for (_, _, partition_id), found in ends.items()}

    async def offset_of(self, stream_id: int, topic_id: int, partition_id: int, timestamp_micros: int) -> int | None:
        """Return the offset of the first message with at least this timestamp; None if there is none.

        Raises:
            Refused: The partition is not on this node.
            SessionLost: No answer came.
        """
        command = core.encode_poll_messages(
            stream=stream_id,
            topic=topic_id,
            partition=partition_id,
            strategy="timestamp",
            value=timestamp_micros,
            count=1,
        )
        polled = _polled(await self._sessions.call(ROOT_USER_ID, *command))
        return polled.first_offset if polled.messages_count else None

    async def planned(
        self, covered: CoveredPartition, start: int, end: int | None, target_bytes: int
    ) -> core.PlannedRange:
        """Return a plan to split a range of messages.

        Raises:
            Refused: The partition is not on this node.
            SessionLost: No answer came.
        """
        command = core.encode_plan_range(
            stream=covered.stream_id,
            topic=covered.topic_id,
            partition=covered.partition_id,
            start=start,
            end=end if end is not None else _BEYOND_ALL,
            target_bytes=target_bytes,
        )
        response = await self._sessions.call(ROOT_USER_ID, *command)
        _check(response)
        return core.decode_planned_range(response.payload)

    async def partitions(self, stream_id: int, topic_id: int) -> list[core.Partition]:
        """Return the partitions of a topic on this node, with their contents.

        Raises:
            SessionLost: No answer came.
        """
        response = await self._sessions.call(ROOT_USER_ID, *core.encode_get_topic(stream=stream_id, topic=topic_id))
        topic = core.decode_topic(response.payload) if response.status == Status.OK else None
        return topic.partitions if topic is not None else []


async def poll(session: Session, covered: CoveredPartition, offset: int, count: int, memory: bytearray) -> Polled:
    """Return messages from an offset on; use the given memory if they are many and fit.

    Raises:
        Refused: The partition is not on this node.
        SessionLost: No answer came.
    """
    command = core.encode_poll_messages(
        stream=covered.stream_id,
        topic=covered.topic_id,
        partition=covered.partition_id,
        strategy="offset",
        value=offset,
        count=count,
    )
    return _polled(await session.call_into(memory, *command))


async def wait(session: Session, covered: CoveredPartition, offset: int, seconds: float) -> int:
    """Wait until there is a message at this offset, or until the timeout.

    Returns:
        The offset, or the first one behind it whose message was not removed.

    Raises:
        Refused: The partition is not on this node.
        SessionLost: No answer came.
    """
    command = core.encode_wait_messages(
        stream=covered.stream_id,
        topic=covered.topic_id,
        partition=covered.partition_id,
        strategy="offset",
        value=offset,
        count=1,
        maximum_wait_micros=int(seconds * 1_000_000),
        names_gap=True,
    )
    response = await session.call(*command)
    _check(response)
    gap = core.decode_polled(response.payload, names_gap=True).gap
    return gap[1] if gap is not None else offset


def send_metadata(covered: CoveredPartition, messages_count: int) -> bytes:
    """Return the metadata before the indexes and messages of a batch for a partition."""
    return _METADATA.pack(
        _METADATA_BYTES,
        *_NUMERIC,
        covered.stream_id,
        *_NUMERIC,
        covered.topic_id,
        *_PARTITION,
        covered.partition_id,
        messages_count,
    )


def _polled(response: Response | Answer) -> Polled:
    _check(response)
    _, _, count = _POLLED.unpack_from(response.payload)
    (first_offset,) = _OFFSET.unpack_from(response.payload, _OFFSET_AT) if count else (0,)
    return Polled(response.payload, first_offset, count)


def _check(response: Response | Answer) -> None:
    if response.status != Status.OK:
        raise Refused(response.status)
