"""What is asked of the shards, over sessions of this process with them."""

from __future__ import annotations

from collections.abc import Iterable
from contextlib import AbstractAsyncContextManager
from struct import Struct
from typing import Final, NamedTuple

import headrace_core as core
from headrace_partition_node.grpc.tickets import Here
from headrace_proto.errors import Status
from headrace_proto.well_known import ROOT_USER_ID
from headrace_shards.answers import Answer
from headrace_shards.grpc_refusals import Refused
from headrace_shards.partition_ends import Ends, ends_of
from headrace_shards.sessions import LastingSessions, Response, Session, Sessions

# What stands before polled messages: the partition, the offset of its last message, how many messages follow.
_POLLED: Final = Struct("<IQI")
# In the header of the first message, behind its checksum and its id.
_OFFSET: Final = Struct("<Q")
_OFFSET_AT: Final = _POLLED.size + 24

_BEYOND_ALL: Final = 2**64 - 1

# `SendMessages`: its code, and what stands before a batch whose partition is named by numbers.
SEND_MESSAGES: Final = 101
_METADATA: Final = Struct("<IBBIBBIBBII")
_METADATA_BYTES: Final = _METADATA.size - 4
_NUMERIC: Final = (1, 4)
_PARTITION: Final = (2, 4)


class Polled(NamedTuple):
    """What a poll was answered with."""

    payload: bytes | memoryview
    first_offset: int
    """Of its first message; 0 if there is none."""
    messages_count: int


class Shards:
    """The shards of this process."""

    def __init__(self, sessions: Sessions) -> None:
        self._sessions = sessions
        self._lasting = LastingSessions(sessions)

    def session(self) -> AbstractAsyncContextManager[Session]:
        """A session that nobody else uses, for the length of an ``async with`` block.

        Raises:
            SessionLost: The shards take none, or the node stops.
        """
        # Who may do what is decided by tickets, before anything is asked.
        return self._lasting.session(ROOT_USER_ID)

    def close(self) -> None:
        """End all sessions that last: whoever waits for an answer learns that there is none."""
        self._lasting.close()

    async def ends(self, stream_id: int, topic_id: int, partition_ids: Iterable[int]) -> dict[int, Ends]:
        """Where partitions of a topic begin and end.

        Raises:
            Refused: One of them is not there.
            SessionLost: No answer came.
        """
        wanted = sorted(set(partition_ids))
        async with self.session() as session:
            ends = await ends_of(session, [(stream_id, topic_id, wanted)])
        return {partition_id: found for (_, _, partition_id), found in ends.items()}

    async def offset_of(self, stream_id: int, topic_id: int, partition_id: int, timestamp_micros: int) -> int | None:
        """The offset of the first message that is not older; None if all are.

        Raises:
            Refused: The partition is not there.
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

    async def planned(self, here: Here, start: int, end: int | None, target_bytes: int) -> core.PlannedRange:
        """How a range of messages may be split.

        Raises:
            Refused: The partition is not there.
            SessionLost: No answer came.
        """
        command = core.encode_plan_range(
            stream=here.stream_id,
            topic=here.topic_id,
            partition=here.partition_id,
            start=start,
            end=end if end is not None else _BEYOND_ALL,
            target_bytes=target_bytes,
        )
        response = await self._sessions.call(ROOT_USER_ID, *command)
        _check(response)
        return core.decode_planned_range(response.payload)

    async def partitions(self, stream_id: int, topic_id: int) -> list[core.Partition]:
        """The partitions of a topic with what they hold, as far as they are here.

        Raises:
            SessionLost: No answer came.
        """
        response = await self._sessions.call(ROOT_USER_ID, *core.encode_get_topic(stream=stream_id, topic=topic_id))
        topic = core.decode_topic(response.payload) if response.status == Status.OK else None
        return topic.partitions if topic is not None else []


async def poll(session: Session, here: Here, offset: int, count: int, memory: bytearray) -> Polled:
    """Messages from an offset on, in this memory if they are many and it is large enough.

    Raises:
        Refused: The partition is not there.
        SessionLost: No answer came.
    """
    command = core.encode_poll_messages(
        stream=here.stream_id,
        topic=here.topic_id,
        partition=here.partition_id,
        strategy="offset",
        value=offset,
        count=count,
    )
    return _polled(await session.call_into(memory, *command))


async def wait(session: Session, here: Here, offset: int, seconds: float) -> None:
    """Return when there is a message at this offset, or after this time.

    Raises:
        Refused: The partition is not there.
        SessionLost: No answer came.
    """
    command = core.encode_wait_messages(
        stream=here.stream_id,
        topic=here.topic_id,
        partition=here.partition_id,
        strategy="offset",
        value=offset,
        count=1,
        maximum_wait_micros=int(seconds * 1_000_000),
    )
    _check(await session.call(*command))


def send_metadata(here: Here, messages_count: int) -> bytes:
    """What stands before the indexes and messages of a batch for a partition."""
    return _METADATA.pack(
        _METADATA_BYTES,
        *_NUMERIC,
        here.stream_id,
        *_NUMERIC,
        here.topic_id,
        *_PARTITION,
        here.partition_id,
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
