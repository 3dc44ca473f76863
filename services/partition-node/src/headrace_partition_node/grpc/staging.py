"""Staged batches for a partition, invisible until a transaction is committed."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterator
from typing import Any, Final

import xxhash
from grpc import aio

import headrace_core as core
from headrace_chassis.grpc.memory import Held, Pool
from headrace_chassis.grpc.status import Refused
from headrace_node.connections.sessions import Response, Session
from headrace_partition_node.grpc.frames import Batch
from headrace_partition_node.grpc.shard_requests import Shards
from headrace_partition_node.grpc.tickets import Access, CoveredPartition, Tickets
from headrace_proto.errors import Status
from headrace_proto.partition.v1 import StageResponse

_STAGE_ID_BYTES: Final = 16
_NEW_STAGE: Final = 0

# Maximum number of batches of one call in flight.
_IN_FLIGHT_MAX: Final = 16


class Staging:
    """Answers `Stage`."""

    def __init__(self, shards: Shards, tickets: Tickets, memory: Pool) -> None:
        self._shards = shards
        self._tickets = tickets
        self._memory = memory

    async def response(self, requests: AsyncIterator[Batch], context: aio.ServicerContext[Any, Any]) -> StageResponse:
        """Return the response of a call when all batches are stored.

        Raises:
            Refused: The caller may not append to the partition, or a batch is refused.
            SessionLost: The node stops.
        """
        ticket = self._tickets.shown(context)
        first = await anext(requests, None)
        if first is None or first.place is None:
            raise Refused(Status.INVALID_COMMAND, "the first request must have a place")
        place = first.place
        covered = self._tickets.opened(
            ticket, Access.WRITE, place.stream_id, place.topic_id, place.partition_id, place.incarnation
        )
        async with self._shards.session() as session:
            stage = _Stage(session, covered, self._memory, first.lifetime_seconds)
            try:
                await stage.add(first)
                async for request in requests:
                    if request.place is not None or request.lifetime_seconds:
                        raise Refused(Status.INVALID_COMMAND, "only the first request may have a place and a lifetime")
                    self._tickets.check_again(covered)
                    await stage.add(request)
                self._tickets.check_again(covered)
                return await stage.seal()
            finally:
                stage.let_go()


class _Stage:
    """A stage in progress."""

    def __init__(self, session: Session, covered: CoveredPartition, memory: Pool, lifetime_seconds: int) -> None:
        self._session = session
        self._covered = covered
        self._memory = memory
        self._lifetime_seconds = lifetime_seconds
        self._id = _NEW_STAGE
        self._chunks_count = 0
        self._digest = xxhash.xxh3_64()
        # Memory held for each unanswered chunk, in order.
        self._in_flight: deque[Held] = deque()

    async def add(self, request: Batch) -> None:
        """Send another batch, if the request contains one."""
        if not request.batch and not request.messages_count:
            return
        if len(self._in_flight) == _IN_FLIGHT_MAX:
            await self._answer()
        held = self._memory.held_by(self._covered.user)
        if not held.grow_now(len(request.batch)):
            # Wait for memory only without holding any: otherwise calls could deadlock.
            while self._in_flight:
                await self._answer()
            await held.grow(len(request.batch))
        self._in_flight.append(held)
        self._digest.update(request.batch)
        await self._send(request.batch, request.messages_count, is_last=False)
        if self._id == _NEW_STAGE:
            # The first answer contains the stage id.
            self._id = (await self._answer()).stage

    async def seal(self) -> StageResponse:
        """Seal the stage, and wait until it is on disk."""
        while self._in_flight:
            await self._answer()
        await self._send(b"", 0, is_last=True)
        staged = _staged(await self._session.receive())
        return StageResponse(
            # Encoded as in the catalog.
            stage_id=staged.stage.to_bytes(_STAGE_ID_BYTES, "big"),
            messages_count=staged.messages,
            size_bytes=staged.bytes,
            digest=self._digest.intdigest(),
        )

    def let_go(self) -> None:
        """Release all memory."""
        while self._in_flight:
            self._in_flight.popleft().resize(0)

    async def _send(self, batch: bytes | memoryview, messages_count: int, *, is_last: bool) -> None:
        code, head = core.encode_stage_messages(
            stream=self._covered.stream_id,
            topic=self._covered.topic_id,
            partition=self._covered.partition_id,
            messages_count=messages_count,
            stage=self._id,
            chunk=self._chunks_count,
            is_last=is_last,
            lifetime_seconds=self._lifetime_seconds,
        )
        self._chunks_count += 1
        await self._session.send(code, batch, head=head)

    async def _answer(self) -> core.StagedMessages:
        response = await self._session.receive()
        self._in_flight.popleft().resize(0)
        return _staged(response)


def _staged(response: Response) -> core.StagedMessages:
    if response.status != Status.OK:
        raise Refused(response.status)
    return core.decode_staged_messages(response.payload)
