"""Delivery of a consumer group's partitions to a member of the group."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator
from typing import Final

import headrace_core as core
from headrace_chassis.grpc.memory import Held
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_gateway.grpc.delivery.batches import Pace, Part, parts
from headrace_gateway.grpc.delivery.consumer import Conversation
from headrace_gateway.grpc.delivery.reading import Subscription
from headrace_node.connections.sessions import Session
from headrace_proto.errors import Status

_WAIT_MICROS: Final = 5_000_000


class Member:
    """A group member that polls over a session of its own; the membership ends with the session."""

    def __init__(self, session: Session, subscription: Subscription, count_max: int) -> None:
        self._session = session
        self._subscription = subscription
        self._pace = Pace(count_max)
        # Partition and last offset of messages that were sent but whose offset is not stored.
        self._outstanding: tuple[int, int] | None = None

    async def join(self) -> None:
        """Join the group.

        Raises:
            Refused: The group does not exist, or the caller lacks the permission.
        """
        subscription = self._subscription
        command = core.encode_join_consumer_group(
            stream=subscription.stream, topic=subscription.topic, group=subscription.consumer.name
        )
        status, _ = await self._session.call(*command)
        if status != Status.OK:
            raise Refused(status)

    async def parts(self, caller: Caller, conversation: Conversation, held: Held) -> AsyncGenerator[Part, None]:
        """Yield the batches to send until the consumer ends the call."""
        while True:
            await self._store_acknowledged(conversation)
            if conversation.is_over:
                break
            if self._outstanding is not None or conversation.allowance.is_used_up:
                await conversation.news()
                caller.verify()
                continue
            payload = await self._wait(conversation)
            if payload is None:
                break
            caller.verify()
            async with held.holding(len(payload)):
                async for part in self._sent(core.decode_polled(payload, names_gap=True), conversation):
                    yield part
        if self._session.is_reusable:
            # Acknowledgements may have arrived with the end of the call, while earlier ones were stored.
            await self._store_acknowledged(conversation)
        await self._leave()

    async def _sent(self, polled: core.MessageBatch, conversation: Conversation) -> AsyncGenerator[Part, None]:
        count = size_bytes = 0
        for part in parts(polled):
            while conversation.allowance.is_used_up and not conversation.is_over:
                await conversation.news()
            if conversation.is_over:
                # Unsent messages have no stored offset, so another member will receive them.
                return
            conversation.sent(polled.partition_id)
            yield part
            count, size_bytes = count + part.count, size_bytes + part.size_bytes
            if self._subscription.auto_commit:
                await self._store(polled.partition_id, part.last_offset)
            else:
                self._outstanding = polled.partition_id, part.last_offset
        if count:
            self._pace.seen(count, size_bytes)

    async def _store_acknowledged(self, conversation: Conversation) -> None:
        for partition_id, offset in conversation.take_acknowledged().items():
            await self._store(partition_id, offset)
            if self._outstanding is not None:
                outstanding_id, last_offset = self._outstanding
                if partition_id == outstanding_id and offset >= last_offset:
                    self._outstanding = None

    async def _store(self, partition_id: int, offset: int) -> None:
        try:
            await self._subscription.store(self._session, partition_id, offset)
        except Refused as refused:
            # The partition has moved to another member, who receives the messages again.
            if refused.status != Status.NOT_RESOLVED_CONSUMER:
                raise

    async def _wait(self, conversation: Conversation) -> bytes | None:
        subscription = self._subscription
        command = core.encode_wait_messages(
            stream=subscription.stream,
            topic=subscription.topic,
            consumer=subscription.consumer.name,
            is_group=True,
            count=conversation.allowance.count_of(self._pace.count),
            maximum_wait_micros=_WAIT_MICROS,
            names_gap=True,
        )
        answer = asyncio.create_task(self._session.call(*command))
        try:
            while not answer.done():
                news = asyncio.create_task(conversation.news())
                await asyncio.wait({answer, news}, return_when=asyncio.FIRST_COMPLETED)
                news.cancel()
                await asyncio.wait({news})
                if not answer.done() and conversation.is_over:
                    return None
        finally:
            if not answer.done():
                answer.cancel()
                await asyncio.wait({answer})
        response = answer.result()
        if response.status != Status.OK:
            raise Refused(response.status, response.explanation)
        return response.payload

    async def _leave(self) -> None:
        """Leave the group explicitly, so that partitions move sooner; a session that waits can only be closed."""
        if not self._session.is_reusable:
            return
        subscription = self._subscription
        command = core.encode_leave_consumer_group(
            stream=subscription.stream, topic=subscription.topic, group=subscription.consumer.name
        )
        status, _ = await self._session.call(*command)
        if status != Status.OK:
            raise Refused(status)
