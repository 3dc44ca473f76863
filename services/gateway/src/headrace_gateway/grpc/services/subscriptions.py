"""Subscriptions to messages and to partition changes."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, aclosing
from typing import Final

import headrace_core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_gateway.grpc.conversions import identifier
from headrace_gateway.grpc.delivery import watching
from headrace_gateway.grpc.delivery.consumer import Conversation
from headrace_gateway.grpc.delivery.membership import Member
from headrace_gateway.grpc.delivery.reading import Partitions, Reader, Subscription
from headrace_gateway.grpc.memory import Memory
from headrace_gateway.grpc.start_positions import Start, consumer_of, start_of
from headrace_gateway.grpc.streams import Streams
from headrace_proto.errors import Status, find
from headrace_proto.gateway import v1

_COUNT_BY_DEFAULT: Final = 1000
_COUNT_MAX: Final = 10_000


class Subscriptions:
    """``headrace.gateway.v1.Subscriptions``."""

    def __init__(self, streams: Streams, memory: Memory) -> None:
        self._streams = streams
        self._memory = memory

    async def consume(
        self, requests: AsyncIterator[v1.ConsumeRequest], caller: Caller
    ) -> AsyncIterator[v1.ConsumeResponse]:
        async with AsyncExitStack() as stack:
            await stack.enter_async_context(self._streams.place(caller.user_id))
            subscribe = await _first(requests)
            conversation = Conversation(subscribe.credit)
            subscription = Subscription(
                stream=identifier(subscribe.stream, "stream"),
                topic=identifier(subscribe.topic, "topic"),
                consumer=consumer_of(subscribe.consumer),
                auto_commit=subscribe.auto_commit,
            )
            count_max = min(subscribe.batch_count or _COUNT_BY_DEFAULT, _COUNT_MAX)
            session = await stack.enter_async_context(self._streams.session(caller.user_id))
            reader: Member | Reader
            subscribed = v1.Subscribed()
            if subscription.consumer.is_group:
                _check_member(subscribe)
                reader = Member(session, subscription, count_max)
                await reader.join()
            else:
                start = start_of(subscribe.start, count_max)
                partitions = await self._partitions(subscribe, start, subscription, caller, conversation, stack)
                reader = Reader(session, subscription, partitions, count_max)
                subscribed.partition_ids.extend(partitions.ids)
            await stack.enter_async_context(conversation.listening(requests))
            yield v1.ConsumeResponse(subscribed=subscribed)
            held = await stack.enter_async_context(self._memory.responses_of_streams.held_by(caller.user_id))
            async with aclosing(reader.parts(caller, conversation, held)) as parts:
                async for part in parts:
                    conversation.allowance.spend(part.count, part.size_bytes)
                    yield v1.ConsumeResponse(batch=part.batch)

    async def watch(self, request: v1.WatchRequest, caller: Caller) -> AsyncIterator[v1.WatchResponse]:
        topics = []
        for topic in request.topics:
            stream, name = identifier(topic.stream, "stream"), identifier(topic.topic, "topic")
            partitions = await watching.partitions_of(caller, stream, name, topic.partition_ids)
            topics.append((stream, name, partitions))
        watched_count = sum(len(partitions) for _, _, partitions in topics)
        if watched_count == 0:
            raise Refused(Status.INVALID_COMMAND, "topics: give at least one topic to watch")
        async with self._streams.place(caller.user_id), self._streams.session(caller.user_id) as session:
            await watching.begin(session, topics)
            async with aclosing(watching.states(session, caller)) as states:
                async for notified in states:
                    if notified:
                        yield v1.WatchResponse(partitions=map(_state, notified))
                    over = [state for state in notified if state.status != Status.OK]
                    watched_count -= len(over)
                    if over and watched_count <= 0:
                        raise Refused(over[-1].status)

    async def _partitions(
        self,
        subscribe: v1.Subscribe,
        start: Start,
        subscription: Subscription,
        caller: Caller,
        conversation: Conversation,
        stack: AsyncExitStack,
    ) -> Partitions:
        stream, topic = subscription.stream, subscription.topic
        ids = await watching.partitions_of(caller, stream, topic, subscribe.partition_ids)
        partitions = Partitions(ids, start, dict(subscribe.offsets))
        session = await stack.enter_async_context(self._streams.session(caller.user_id))
        await watching.begin(session, [(stream, topic, ids)])
        await stack.enter_async_context(conversation.alongside(partitions.follow(session, caller)))
        while not partitions.are_known and not conversation.is_over:
            # A partition that the server is still opening is reported once it is open.
            await conversation.news()
        return partitions


async def _first(requests: AsyncIterator[v1.ConsumeRequest]) -> v1.Subscribe:
    async for request in requests:
        if request.WhichOneof("step") != "subscribe":
            raise Refused(Status.INVALID_COMMAND, "the first request must subscribe")
        return request.subscribe
    raise Refused(Status.INVALID_FORMAT, "the call carries no request")


def _check_member(subscribe: v1.Subscribe) -> None:
    if subscribe.partition_ids or subscribe.offsets or subscribe.HasField("start"):
        raise Refused(Status.INVALID_COMMAND, "the partitions of a member are assigned by its group")


def _state(state: headrace_core.WatchedPartition) -> v1.PartitionState:
    info = find(state.status)
    return v1.PartitionState(
        stream_id=state.stream_id,
        topic_id=state.topic_id,
        partition_id=state.partition_id,
        status=state.status,
        status_name=info.name if info is not None and state.status != Status.OK else "",
        incarnation=state.incarnation,
        purge_epoch=state.purge_epoch,
        first_offset=state.first_offset,
        next_offset=state.next_offset,
        openings=[v1.LogOpening(epoch=epoch, end_offset=end) for epoch, end in state.openings],
    )
