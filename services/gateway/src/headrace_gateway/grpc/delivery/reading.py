"""Delivery of partitions to a consumer that is not a member of a group."""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncGenerator, AsyncIterator, Iterable
from dataclasses import dataclass

import headrace_core as core
from headrace_chassis.grpc.memory import Held
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_gateway.grpc.delivery.batches import Pace, Part, parts
from headrace_gateway.grpc.delivery.consumer import Conversation
from headrace_gateway.grpc.delivery.watching import states
from headrace_gateway.grpc.start_positions import Consumer, Start
from headrace_node.connections.sessions import Session
from headrace_proto.errors import Status


@dataclass(frozen=True, slots=True)
class Subscription:
    """Parameters of a subscription."""

    stream: int | str
    topic: int | str
    consumer: Consumer
    auto_commit: bool

    async def store(self, session: Session, partition_id: int, offset: int) -> None:
        """Store an offset.

        Raises:
            Refused: The offset could not be stored.
        """
        command = core.encode_store_consumer_offset(
            stream=self.stream,
            topic=self.topic,
            consumer=self.consumer.name,
            is_group=self.consumer.is_group,
            partition=partition_id,
            offset=offset,
        )
        response = await session.call(*command)
        if response.status != Status.OK:
            raise Refused(response.status, response.explanation)


@dataclass(slots=True)
class _Partition:
    """Read position in one partition, and the known end of the partition."""

    id: int
    start: Start
    position: int | None
    """Offset of the first unsent message; None until the start was resolved."""
    next_offset: int = 0
    epoch: int = 0
    """Number of the opening of the log in which the position is known; 0: unknown."""
    purge_epoch: int | None = None
    has_read: bool = False
    """True if the position is one behind a message that was read."""
    replacements: int = 0
    """Number of times since which offsets may mean other messages."""
    has_changed: bool = False

    @property
    def is_readable(self) -> bool:
        """True if a poll may return messages."""
        return self.has_changed if self.position is None else self.position < self.next_offset

    def notified(self, state: core.WatchedPartition) -> None:
        """Update the begin and end of the partition."""
        if self.purge_epoch != state.purge_epoch:
            self.replacements += 1
            if self.purge_epoch is not None and self.position is not None:
                # The partition was purged, and its offsets restart.
                self.position, self.has_read = state.first_offset, False
        elif (end := self._end_of_cut(state)) is not None:
            self._cut(end)
        if self.purge_epoch is None and self.position is None:
            self.position = _position_of(self.start, state)
        self.purge_epoch, self.next_offset, self.has_changed = state.purge_epoch, state.next_offset, True
        self.epoch = state.openings[-1][0] if state.openings else 0

    def read_up_to(self, offset: int) -> None:
        """Continue behind the messages that were read."""
        self.position, self.has_read = offset, True

    def _end_of_cut(self, state: core.WatchedPartition) -> int | None:
        """Return where the log was cut since the last notification; None if it was not.

        It may have grown beyond its former end since.
        """
        read = self.position if self.has_read and self.position is not None else 0
        end = core.cut_since(state.openings, epoch=self.epoch, position=max(self.next_offset, read))
        return state.next_offset if end is None and state.next_offset < self.next_offset else end

    def _cut(self, end: int) -> None:
        """Handle the loss of the last messages, with the power of their node: new ones get their offsets.

        Notifications come in the order of the changes, so none that is merely late looks like this.
        """
        self.replacements += 1
        # Beyond the former end is a place that the caller has chosen, unless it was read up to there.
        if self.position is not None and self.position > end and (self.has_read or self.position <= self.next_offset):
            self.position, self.has_read = end, False


def _position_of(start: Start, state: core.WatchedPartition) -> int | None:
    """Return the read position for a start; None if only a poll can resolve it."""
    match start.strategy:
        case "first":
            return state.first_offset
        case "last":
            return max(state.first_offset, state.next_offset - start.value)
        case "end":
            return state.next_offset
        case _:
            return None


class Partitions:
    """Read positions in all partitions of a reader."""

    def __init__(self, ids: Iterable[int], start: Start, offsets: dict[int, int]) -> None:
        """Describe a reader that has not read yet.

        Args:
            ids: Partition ids.
            start: Start position.
            offsets: Start offsets by partition, which override ``start``.
        """
        self._all: dict[int, _Partition] = {}
        for partition_id in ids:
            here = Start("offset", offsets[partition_id]) if partition_id in offsets else start
            self._all[partition_id] = _Partition(partition_id, here, here.value if here.strategy == "offset" else None)
        self._turns = deque(self._all.values())

    @property
    def ids(self) -> list[int]:
        """Ids of the partitions."""
        return list(self._all)

    @property
    def are_known(self) -> bool:
        """True if the end of every partition is known."""
        return all(partition.purge_epoch is not None for partition in self._all.values())

    def next_readable(self) -> _Partition | None:
        """Return the next partition that may have messages, round-robin; None if there is none."""
        for _ in range(len(self._turns)):
            partition = self._turns[0]
            self._turns.rotate(-1)
            if partition.is_readable:
                return partition
        return None

    async def follow(self, session: Session, caller: Caller) -> AsyncIterator[None]:
        """Apply the notifications of a session that watches the partitions.

        Raises:
            Refused: A partition was deleted, or may no longer be read.
        """
        async for notified in states(session, caller):
            for state in notified:
                if state.status != Status.OK:
                    raise Refused(state.status)
                self._all[state.partition_id].notified(state)
            yield


class Reader:
    """Polls partitions over a session and yields the result."""

    def __init__(self, session: Session, subscription: Subscription, partitions: Partitions, count_max: int) -> None:
        self._session = session
        self._subscription = subscription
        self._partitions = partitions
        self._pace = Pace(count_max)

    async def parts(self, caller: Caller, conversation: Conversation, held: Held) -> AsyncGenerator[Part, None]:
        """Yield the batches to send until the consumer ends the call."""
        while not conversation.is_over:
            for partition_id, offset in conversation.take_acknowledged().items():
                await self._subscription.store(self._session, partition_id, offset)
            partition = None if conversation.allowance.is_used_up else self._partitions.next_readable()
            if partition is None:
                await conversation.news()
                continue
            caller.verify()
            # Messages that do not fit are polled again, so that nothing is buffered for a slow consumer.
            part = await self._poll(partition, conversation.allowance.count_of(self._pace.count))
            if part is None:
                continue
            partition.read_up_to(part.last_offset + 1)
            conversation.sent(partition.id)
            async with held.holding(part.size_bytes):
                yield part
            if self._subscription.auto_commit:
                await self._subscription.store(self._session, partition.id, part.last_offset)
        for partition_id, offset in conversation.take_acknowledged().items():
            await self._subscription.store(self._session, partition_id, offset)

    async def _poll(self, partition: _Partition, count: int) -> Part | None:
        end, replacements, partition.has_changed = partition.next_offset, partition.replacements, False
        start = Start("offset", partition.position) if partition.position is not None else partition.start
        if start.strategy == "end":
            raise AssertionError("its position was known when its end was")
        command = core.encode_wait_messages(
            stream=self._subscription.stream,
            topic=self._subscription.topic,
            consumer=self._subscription.consumer.name,
            partition=partition.id,
            strategy=start.strategy,
            value=start.value,
            count=count,
            maximum_wait_micros=0,
            names_gap=True,
        )
        response = await self._session.call(*command)
        if response.status != Status.OK:
            raise Refused(response.status, response.explanation)
        if replacements != partition.replacements:
            # The answer may be from before a purge or a loss that was noted meanwhile; the position is one of the new
            # offsets.
            return None
        part = next(parts(core.decode_polled(response.payload, names_gap=True)), None)
        if part is not None:
            self._pace.seen(part.count, part.size_bytes)
        elif partition.position is not None:
            # The range is empty; later messages are announced by a notification.
            partition.position = max(partition.position, end)
        return part
