"""What a client has asked for: a subscription, and where it stands in each of its partitions."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, Protocol

from headrace_gateway.push.batches import Batch
from headrace_gateway.push.credit import Credit
from headrace_gateway.push.feeds import Feed
from headrace_gateway.push.filters import Filter
from headrace_gateway.push.frames import Epoch, Place, Selection
from headrace_gateway.push.watch import Watch

# How often a client is told how far it is when there is nothing for it.
_PROGRESS_SECONDS: Final = 1.0


class State(Enum):
    """What a cursor waits for."""

    DORMANT = auto()
    """Somebody to begin with it."""
    QUEUED = auto()
    """Its turn."""
    BUSY = auto()
    """What is being read for it."""
    WAITING = auto()
    """Something new in its partition, or credit."""
    OVER = auto()
    """Nothing: it is not part of its subscription any more."""


class Queue(Protocol):
    """Takes turns."""

    def enqueue(self, cursor: Cursor) -> None:
        """Look after this one when it is its turn."""


class Cursor:
    """Where a subscription stands in a partition."""

    __slots__ = ("epoch", "feed", "last", "offset", "state", "subscription", "told_at")

    def __init__(self, subscription: Subscription, feed: Feed, offset: int, epoch: Epoch) -> None:
        self.subscription = subscription
        self.feed = feed
        self.offset = offset
        """The next one to look at."""
        self.epoch = epoch
        """What the offset means something in."""
        self.last: bytes | None = None
        """The checksum of the message before it, once there was one."""
        self.state = State.DORMANT
        self.told_at = 0.0
        """When the client was last told where it stands (monotonic seconds)."""

    @property
    def has_news(self) -> bool:
        """Whether the client can be told something that needs no credit."""
        feed = self.feed
        return bool(feed.ended) or self.epoch != feed.epoch or self.offset < feed.first_offset

    @property
    def has_messages(self) -> bool:
        """Whether there is something to read."""
        return self.offset < self.feed.next_offset

    @property
    def is_ready(self) -> bool:
        """Whether the client can be sent messages, and has to be told nothing else before."""
        return self.state is State.QUEUED and bool(self.subscription.credit) and self.has_messages and not self.has_news

    def activate(self) -> None:
        """Begin with it."""
        if self.state is State.DORMANT:
            self.state = State.WAITING
            self.woken()

    def woken(self) -> None:
        """Look again."""
        if self.state is State.WAITING:
            self.feed.leave(self)
            self.subscription.stalled.discard(self)
            self.state = State.QUEUED
            self.subscription.queue.enqueue(self)

    def rest(self) -> bool:
        """Wait for whatever it needs next; returns whether that is credit."""
        if self.state is State.OVER:
            return False
        needs_credit = not self.subscription.credit and self.has_messages
        if self.has_news or (self.has_messages and not needs_credit):
            self.state = State.QUEUED
            self.subscription.queue.enqueue(self)
            return False
        self.state = State.WAITING
        self.feed.wait(self, for_messages=not needs_credit)
        if needs_credit:
            self.subscription.stalled.add(self)
        return needs_credit

    def leave(self) -> None:
        """It is not part of its subscription any more."""
        self.state = State.OVER
        self.feed.leave(self)
        self.subscription.stalled.discard(self)

    def described(self) -> dict[str, int | str]:
        """What a client is told of it."""
        feed = self.feed
        return {
            **feed.place._asdict(),
            "epoch": str(self.epoch),
            "offset": self.offset,
            "first_offset": feed.first_offset,
            "next_offset": feed.next_offset,
        }

    def move(self, batch: Batch, end: int) -> None:
        """Go on behind some messages of a batch."""
        self.offset = batch.first + end
        self.last = batch.checksum(end - 1)

    def reset(self, offset: int, epoch: Epoch) -> None:
        """Go on elsewhere."""
        self.offset, self.epoch, self.last = offset, epoch, None


class Subscription:
    """One of a connection."""

    def __init__(
        self,
        number: int,
        *,
        watch: Watch,
        queue: Queue,
        credit: Credit,
        filter_: Filter | None,
        consumer: int | str | None,
    ) -> None:
        self.number = number
        self.watch = watch
        self.queue = queue
        self.credit = credit
        self.filter = filter_
        self.consumer = consumer
        self.cursors: dict[Place, Cursor] = {}
        self.stalled: set[Cursor] = set()
        """Those that need credit."""
        self.is_closed = False

    def remove(self, cursor: Cursor) -> None:
        """Read a partition no more. Its feed is not needed for it any longer."""
        cursor.leave()
        self.cursors.pop(cursor.feed.place, None)
        self.watch.release([cursor.feed])

    def close(self) -> None:
        """Read nothing any more."""
        self.is_closed = True
        for cursor in list(self.cursors.values()):
            self.remove(cursor)

    def add_credit(self, messages: int, size_bytes: int) -> None:
        """Let more be sent."""
        self.credit.add(messages, size_bytes)
        if self.credit:
            for cursor in list(self.stalled):
                cursor.woken()

    def select(self, cursor: Cursor, batch: Batch, now: float) -> Selection | None:
        """What of a batch the client is sent next; nothing if it is not worth telling. The cursor moves on."""
        start, credit = max(0, cursor.offset - batch.first), self.credit
        if self.filter is None or not self.filter.looks_at_headers:
            end = batch.fitting(start, credit.messages, credit.bytes)
            selection = Selection(batch, range(start, end), batch.first + end, batch.span_bytes(start, end))
        else:
            selection = self._wanted(self.filter, batch, start)
            end = selection.next_offset - batch.first
        cursor.move(batch, end)
        if not selection.indexes and now - cursor.told_at < _PROGRESS_SECONDS:
            return None
        credit.take(len(selection.indexes), selection.size_bytes)
        cursor.told_at = now
        return selection

    def _wanted(self, wanted: Filter, batch: Batch, start: int) -> Selection:
        indexes: list[int] = []
        messages, size_bytes = self.credit.messages, 0
        index = start
        while index < len(batch) and len(indexes) < messages and size_bytes < self.credit.bytes:
            if wanted.wants(batch, index):
                indexes.append(index)
                size_bytes += batch.message_bytes(index)
            index += 1
        return Selection(batch, indexes, batch.first + index, size_bytes)
