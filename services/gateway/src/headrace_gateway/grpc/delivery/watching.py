"""Sessions that are notified of the ends of partitions."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_node.connections.sessions import Session
from headrace_proto.errors import Status

Topic = tuple[int | str, int | str, Sequence[int]]
"""Stream, topic and partitions."""

_LOOK_SECONDS: Final = 5.0


async def partitions_of(caller: Caller, stream: int | str, topic: int | str, named: Sequence[int]) -> list[int]:
    """Return the named partitions without duplicates; all partitions of the topic if none were named.

    Raises:
        Refused: None were named, and the topic is not visible to the caller or has no partitions.
    """
    if named:
        return list(dict.fromkeys(named))
    found = core.decode_topic(await caller.find(core.encode_get_topic(stream=stream, topic=topic)))
    partitions = [partition.id for partition in found.partitions] if found is not None else []
    if not partitions:
        raise Refused(Status.PARTITION_NOT_FOUND)
    return partitions


async def begin(session: Session, topics: Sequence[Topic]) -> None:
    """Watch these partitions.

    Raises:
        Refused: A partition does not exist, or may not be read.
    """
    status, _ = await session.call(*core.encode_watch_partitions(topics=topics, names_openings=True))
    if status != Status.OK:
        raise Refused(status)


async def states(session: Session, caller: Caller) -> AsyncGenerator[list[core.WatchedPartition], None]:
    """Yield the notifications of the session; in quiet times, an empty list after each check of the token."""
    answer: asyncio.Task[bytes] | None = None
    try:
        while True:
            answer = answer or asyncio.create_task(_next_states(session))
            await asyncio.wait({answer}, timeout=_LOOK_SECONDS)
            caller.verify()
            if not answer.done():
                yield []
                continue
            notified = core.decode_watched_partitions(answer.result(), names_openings=True)
            answer = None
            yield notified
    finally:
        if answer is not None:
            answer.cancel()
            await asyncio.wait({answer})


async def _next_states(session: Session) -> bytes:
    status, payload = await session.receive()
    if status != Status.OK:
        # The session was closed by the server.
        raise Refused(status)
    return payload
