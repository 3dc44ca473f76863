"""Appending of raw batches to a partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import suppress
from typing import Any, Final

from grpc import aio

from headrace_chassis.grpc.memory import Held, Pool
from headrace_chassis.grpc.status import Refused
from headrace_node.connections.sessions import Session
from headrace_partition_node.grpc.frames import Batch
from headrace_partition_node.grpc.shard_requests import SEND_MESSAGES, Shards, send_metadata
from headrace_partition_node.grpc.tickets import Access, CoveredPartition, Tickets
from headrace_proto.errors import Status
from headrace_proto.partition.v1 import AppendResponse

# Maximum number of batches of one call in flight.
_IN_FLIGHT_MAX: Final = 16

_Context = aio.ServicerContext[Any, Any]


class Appending:
    """Answers `Append`."""

    def __init__(self, shards: Shards, tickets: Tickets, memory: Pool) -> None:
        self._shards = shards
        self._tickets = tickets
        self._memory = memory

    async def responses(
        self, requests: AsyncIterator[Batch], context: _Context
    ) -> AsyncGenerator[AppendResponse, None]:
        """Yield one response for each batch, when the batch is as durable as promised.

        Raises:
            Refused: The caller may not append to the partition, or a batch is refused.
            SessionLost: The node stops.
        """
        ticket = self._tickets.shown(context)
        first = await anext(requests, None)
        if first is None:
            return
        if first.place is None:
            raise Refused(Status.INVALID_COMMAND, "the first request must have a place")
        place = first.place
        covered = self._tickets.opened(
            ticket, Access.WRITE, place.stream_id, place.topic_id, place.partition_id, place.incarnation
        )
        async with self._shards.session() as session:
            in_flight: asyncio.Queue[Held | Exception | None] = asyncio.Queue(_IN_FLIGHT_MAX)
            sending = asyncio.create_task(
                self._send_all(first, requests, session, covered, in_flight), name="append-batches"
            )
            try:
                while (sent := await in_flight.get()) is not None:
                    if isinstance(sent, Exception):
                        raise sent
                    try:
                        response = await session.receive()
                    finally:
                        sent.resize(0)
                    if response.status != Status.OK:
                        raise Refused(response.status)
                    # The shards address partitions by id: while the batch was in flight, the id may have been reused.
                    # In that case the append must not be reported as successful.
                    self._tickets.check_same(covered)
                    yield AppendResponse()
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending
                while not in_flight.empty():
                    if isinstance(left := in_flight.get_nowait(), Held):
                        left.resize(0)

    async def _send_all(
        self,
        first: Batch,
        requests: AsyncIterator[Batch],
        session: Session,
        covered: CoveredPartition,
        in_flight: asyncio.Queue[Held | Exception | None],
    ) -> None:
        """Send all batches; put the memory held for each into the queue, and finally the reason of the end."""
        end: Exception | None = None
        try:
            await self._send(first, session, covered, in_flight)
            async for request in requests:
                if request.place is not None:
                    raise Refused(Status.INVALID_COMMAND, "only the first request may have a place")
                await self._send(request, session, covered, in_flight)
        except Exception as error:  # noqa: BLE001 - it is raised where the answers before it have been received
            end = error
        await in_flight.put(end)

    async def _send(
        self,
        request: Batch,
        session: Session,
        covered: CoveredPartition,
        in_flight: asyncio.Queue[Held | Exception | None],
    ) -> None:
        held = self._memory.held_by(covered.user)
        await held.grow(len(request.batch))
        try:
            self._tickets.check_again(covered)
            await session.send(SEND_MESSAGES, request.batch, head=send_metadata(covered, request.messages_count))
            await in_flight.put(held)
        except BaseException:
            held.resize(0)
            raise
