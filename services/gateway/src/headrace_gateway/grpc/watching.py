"""A session that is told where partitions end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Sequence
from typing import Final

import headrace_core as core
from headrace_gateway.grpc.calls import Caller
from headrace_proto.errors import Status
from headrace_shards.grpc_refusals import Refused
from headrace_shards.sessions import Session

Topic = tuple[int | str, int | str, Sequence[int]]
"""Stream, topic and partitions."""

_LOOK_SECONDS: Final = 5.0


async def partitions_of(caller: Caller, stream: int | str, topic: int | str, named: Sequence[int]) -> list[int]:
    """Return the partitions that were named, each once; if there are none, all that the topic has.

    Raises:
        Refused: Nothing was named, and the caller may not see the topic or there are none.
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
        Refused: One of them is not there, or may not be read.
    """
    status, _ = await session.call(*core.encode_watch_partitions(topics=topics))
    if status != Status.OK:
        raise Refused(status)


async def states(session: Session, caller: Caller) -> AsyncGenerator[list[core.WatchedPartition], None]:
    """What the session is told; nothing, now and then, in quiet times, after a look whether the token is still good."""
    answer: asyncio.Task[bytes] | None = None
    try:
        while True:
            answer = answer or asyncio.create_task(_told(session))
            await asyncio.wait({answer}, timeout=_LOOK_SECONDS)
            caller.verify()
            if not answer.done():
                yield []
                continue
            told, answer = core.decode_watched_partitions(answer.result()), None
            yield told
    finally:
        if answer is not None:
            answer.cancel()
            await asyncio.wait({answer})


async def _told(session: Session) -> bytes:
    status, payload = await session.receive()
    if status != Status.OK:
        # A goodbye.
        raise Refused(status)
    return payload
