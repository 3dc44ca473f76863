"""Requests of a consumer during a subscription, and the consumer's credit."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Final

from headrace_chassis.grpc.status import Refused
from headrace_proto.errors import Status
from headrace_proto.gateway import v1

_LOOK_SECONDS: Final = 5.0


class Allowance:
    """Remaining credit in messages and bytes; unlimited unless a limit was given."""

    def __init__(self, credit: v1.Credit) -> None:
        self._messages = credit.messages or None
        self._bytes = credit.bytes or None

    @property
    def is_limited(self) -> bool:
        """True if the credit is limited."""
        return self._messages is not None or self._bytes is not None

    @property
    def is_used_up(self) -> bool:
        """True if the credit is exhausted."""
        return 0 in (self._messages, self._bytes)

    def count_of(self, wanted: int) -> int:
        """Return the number of messages that may be sent out of ``wanted``."""
        return wanted if self._messages is None else min(wanted, self._messages)

    def grow(self, credit: v1.Credit) -> None:
        """Add credit."""
        if self._messages is not None:
            self._messages += credit.messages
        if self._bytes is not None:
            self._bytes += credit.bytes

    def spend(self, count: int, size_bytes: int) -> None:
        """Spend credit; the bytes may exceed the remaining credit."""
        if self._messages is not None:
            self._messages = max(0, self._messages - count)
        if self._bytes is not None:
            self._bytes = max(0, self._bytes - size_bytes)


class Conversation:
    """Pending requests of the caller, and other events that wake up the sender."""

    def __init__(self, credit: v1.Credit) -> None:
        self.allowance = Allowance(credit)
        self.is_finished = False
        self._is_closed = False
        self._sent: set[int] = set()
        self._acknowledged: dict[int, int] = {}
        self._failure: Exception | None = None
        self._news = asyncio.Event()

    @asynccontextmanager
    async def listening(self, requests: AsyncIterator[v1.ConsumeRequest]) -> AsyncIterator[None]:
        """Read requests of the caller for the duration of an ``async with`` block."""
        async with self.alongside(self._listen(requests)):
            yield

    @asynccontextmanager
    async def alongside(self, work: AsyncIterator[None]) -> AsyncIterator[None]:
        """Run background work whose every step wakes up the sender; a failure of the work fails the call."""
        task = asyncio.create_task(self._follow(work), name="grpc-consumer")
        try:
            yield
        finally:
            task.cancel()
            await asyncio.wait({task})

    @property
    def is_over(self) -> bool:
        """True if nothing more will be sent and no pending request can change that.

        Raises:
            Exception: The failure of the call.
        """
        if self._failure is not None:
            raise self._failure
        allowance = self.allowance
        return self.is_finished or (self._is_closed and allowance.is_limited and allowance.is_used_up)

    def sent(self, partition_id: int) -> None:
        """Allow acknowledgements of offsets of this partition."""
        self._sent.add(partition_id)

    def take_acknowledged(self) -> dict[int, int]:
        """Return and clear the acknowledged offsets to store, by partition."""
        taken, self._acknowledged = self._acknowledged, {}
        return taken

    async def news(self) -> None:
        """Wait for an event, or until the next liveness check of the caller is due."""
        with suppress(TimeoutError):
            async with asyncio.timeout(_LOOK_SECONDS):
                await self._news.wait()
        self._news.clear()

    async def _follow(self, work: AsyncIterator[None]) -> None:
        try:
            async for _ in work:
                self._news.set()
        except Exception as error:  # noqa: BLE001 - it is raised where it ends the call
            self._failure = self._failure or error
        self._news.set()

    async def _listen(self, requests: AsyncIterator[v1.ConsumeRequest]) -> AsyncIterator[None]:
        async for request in requests:
            self._take(request)
            yield
            if self.is_finished:
                return
        self._is_closed = True

    def _take(self, request: v1.ConsumeRequest) -> None:
        match request.WhichOneof("step"):
            case "credit":
                self.allowance.grow(request.credit)
            case "acknowledge":
                acknowledged = request.acknowledge
                if acknowledged.partition_id not in self._sent:
                    reason = f"no message was sent from partition {acknowledged.partition_id}"
                    raise Refused(Status.INVALID_COMMAND, reason)
                self._acknowledged[acknowledged.partition_id] = acknowledged.offset
            case "finish":
                self.is_finished = True
            case "subscribe":
                raise Refused(Status.INVALID_COMMAND, "a call can subscribe only once")
            case None:
                raise Refused(Status.INVALID_COMMAND, "the request is empty")
