"""Fetching of raw batches from a partition."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Final

from grpc import aio

from headrace_chassis.grpc.memory import Pool
from headrace_chassis.grpc.status import Refused
from headrace_node.connections.sessions import Session
from headrace_partition_node.grpc.frames import Chunk, Sent
from headrace_partition_node.grpc.memory import Spares
from headrace_partition_node.grpc.shard_requests import Polled, Shards, poll, wait
from headrace_partition_node.grpc.tickets import Access, CoveredPartition, Tickets
from headrace_proto.errors import Status
from headrace_proto.partition.v1 import FetchRange, FetchRequest

_RESPONSE_BYTES: Final = 1024 * 1024
_COUNT_AT_FIRST: Final = 64
_COUNT_GROWTH: Final = 4
_COUNT_MAX: Final = 1_000_000
_WAIT_SECONDS: Final = 5.0

_Context = aio.ServicerContext[Any, Any]


class Fetching:
    """Answers `Fetch`."""

    def __init__(self, shards: Shards, tickets: Tickets, memory: Pool, *, poll_bytes_max: int) -> None:
        """Configure the service.

        Args:
            shards: Source of messages.
            tickets: Checks tickets.
            memory: Memory budget of all calls.
            poll_bytes_max: Maximum size of one poll, except for a single larger message.
        """
        self._shards = shards
        self._tickets = tickets
        self._memory = memory
        self._poll_bytes_max = poll_bytes_max
        self._spares = Spares()

    async def responses(self, requests: AsyncIterator[FetchRequest], context: _Context) -> AsyncGenerator[Chunk, None]:
        """Yield the responses of a call.

        Raises:
            Refused: The caller may not read the partition, or the partition was deleted.
            SessionLost: The node stops.
        """
        ticket = self._tickets.shown(context)
        wanted = await _range_of(requests)
        place = wanted.place
        covered = self._tickets.opened(
            ticket, Access.READ, place.stream_id, place.topic_id, place.partition_id, place.incarnation
        )
        ends = (await self._shards.ends(covered.stream_id, covered.topic_id, [covered.partition_id]))[
            covered.partition_id
        ]
        position = max(wanted.start_offset, ends.first_offset)
        end = wanted.end_offset if wanted.HasField("end_offset") else ends.next_offset
        is_done = False
        sent = Sent()
        pace = _Pace(min(wanted.response_bytes or _RESPONSE_BYTES, self._poll_bytes_max))
        async with self._shards.session() as session, _credit_of(wanted, requests) as credit:
            while position < end:
                if not await credit.is_there():
                    # The caller has closed its side: there will be no more credit.
                    return
                async with self._memory.held_by(covered.user) as held:
                    await held.grow(self._poll_bytes_max)
                    polled = await self._poll(session, covered, position, min(pace.count, end - position))
                    held.resize(len(polled.payload))
                    if polled.messages_count and polled.first_offset > position:
                        # Older messages were deleted meanwhile. The count may now reach beyond the end.
                        position = polled.first_offset
                        continue
                    if polled.messages_count:
                        position = polled.first_offset + polled.messages_count
                        pace.seen(polled.messages_count, len(polled.payload))
                        credit.use(len(polled.payload))
                        sent.add(polled.payload, polled.messages_count)
                        is_done = position >= end
                        yield sent.last(polled.payload, position) if is_done else Chunk(polled.payload, position)
                        # The payload was encoded, like those before it, so its buffer is free.
                        self._spares.give(polled.payload)
                        continue
                # If all the rest was removed meanwhile, there is no message whose offset says so.
                position = min(await self._wait(session, covered, position), end)
            if not is_done:
                yield sent.last(b"", position)

    async def _poll(self, session: Session, covered: CoveredPartition, position: int, count: int) -> Polled:
        polled = await poll(session, covered, position, count, self._spares.take())
        # The ids may have been reused by another partition between the catalog look-up and the answer.
        self._tickets.check_unchanged(covered)
        return polled

    async def _wait(self, session: Session, covered: CoveredPartition, position: int) -> int:
        """Wait for messages; return the position behind those that were removed."""
        first = await wait(session, covered, position, _WAIT_SECONDS)
        self._tickets.check_unchanged(covered)
        return first


async def _range_of(requests: AsyncIterator[FetchRequest]) -> FetchRange:
    first = await anext(requests, None)
    if first is None or not first.HasField("range"):
        raise Refused(Status.INVALID_COMMAND, "the first request must have a range")
    if not first.range.HasField("place"):
        raise Refused(Status.INVALID_COMMAND, "range.place is missing")
    return first.range


class _Pace:
    """Estimate of the message count that yields about one response of bytes."""

    def __init__(self, wanted_bytes: int) -> None:
        self._wanted_bytes = wanted_bytes
        self.count = _COUNT_AT_FIRST

    def seen(self, count: int, size_bytes: int) -> None:
        """Update the estimate with the size of received messages."""
        fitting = self._wanted_bytes * count // size_bytes
        # Growth is limited to a factor: the next messages may be larger.
        self.count = max(1, min(_COUNT_MAX, fitting, _COUNT_GROWTH * self.count))


class _Credit:
    """Credit of a call in bytes."""

    def __init__(self, left_bytes: int | None) -> None:
        self._left_bytes = left_bytes
        self._is_over = False
        self._changed = asyncio.Event()

    def use(self, size_bytes: int) -> None:
        """Spend credit."""
        if self._left_bytes is not None:
            self._left_bytes -= size_bytes

    def give(self, size_bytes: int) -> None:
        """Add credit."""
        if self._left_bytes is not None:
            self._left_bytes += size_bytes
        self._changed.set()

    def end(self) -> None:
        """Mark the end of the credit stream."""
        self._is_over = True
        self._changed.set()

    async def is_there(self) -> bool:
        """Wait for credit; return false if there will be no more."""
        while self._left_bytes is not None and self._left_bytes <= 0:
            if self._is_over:
                return False
            self._changed.clear()
            await self._changed.wait()
        return True


@asynccontextmanager
async def _credit_of(wanted: FetchRange, requests: AsyncIterator[FetchRequest]) -> AsyncIterator[_Credit]:
    if not wanted.HasField("credit_bytes"):
        yield _Credit(None)
        return
    credit = _Credit(wanted.credit_bytes)
    reading = asyncio.create_task(_read_credit(requests, credit), name="fetch-credit")
    try:
        yield credit
    finally:
        reading.cancel()
        await asyncio.wait({reading})


async def _read_credit(requests: AsyncIterator[FetchRequest], credit: _Credit) -> None:
    try:
        async for request in requests:
            credit.give(request.credit_bytes)
    finally:
        credit.end()
