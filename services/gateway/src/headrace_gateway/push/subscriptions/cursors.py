"""Subscriptions, and their cursors in partitions."""

from __future__ import annotations

from enum import Enum, auto
from typing import Final, Protocol

from headrace_gateway.push.feeds.batches import Batch
from headrace_gateway.push.feeds.partition_feeds import Feed
from headrace_gateway.push.feeds.watch import Watch
from headrace_gateway.push.frames import Epoch, Place, Selection
from headrace_gateway.push.subscriptions.credit import Credit
from headrace_gateway.push.subscriptions.filters import Filter

# Interval of progress messages to a client while its filter drops all messages.
_PROGRESS_SECONDS: Final = 1.0


class State(Enum):
    """State of a cursor."""

    DORMANT = auto()
    """The cursor is not activated yet."""
    QUEUED = auto()
    """The cursor waits for its turn."""
    BUSY = auto()
    """A read for the cursor is in progress."""
    WAITING = auto()
    """The cursor waits for a change of its partition, or for credit."""
    OVER = auto()
    """The cursor is removed from its subscription."""


class Queue(Protocol):
    """Queue of cursors."""

    def enqueue(self, cursor: Cursor) -> None:
        """Queue a cursor for its turn."""


class Cursor:
    """Position of a subscription in a partition."""

    __slots__ = ("cuts_count", "epoch", "feed", "last", "offset", "sent_at", "state", "subscription")

    def __init__(self, subscription: Subscription, feed: Feed, offset: int, epoch: Epoch) -> None:
        self.subscription = subscription
        self.feed = feed
        self.offset = offset
        """Next offset to read."""
        self.epoch = epoch
        """Epoch in which the offset is valid."""
        self.cuts_count = len(feed.cuts)
        """Number of cuts of the partition that the offset takes into account."""
        self.last: bytes | None = None
        """Checksum of the previous message, once there was one."""
        self.state = State.DORMANT
        self.sent_at = 0.0
        """Time of the last report of the position to the client (monotonic seconds)."""

    @property
    def has_news(self) -> bool:
        """True if there is news for the client that needs no credit."""
        feed = self.feed
        return bool(feed.ended) or not self.is_current or self.offset < feed.first_offset

    @property
    def is_current(self) -> bool:
        """True if the offset is one of the partition as it is known now."""
        return self.epoch == self.feed.epoch and self.cuts_count == len(self.feed.cuts)

    @property
    def has_messages(self) -> bool:
        """True if there are messages to read."""
        return self.offset < self.feed.next_offset

    @property
    def is_ready(self) -> bool:
        """True if messages can be sent and no other news has to be sent before."""
        return self.state is State.QUEUED and bool(self.subscription.credit) and self.has_messages and not self.has_news

    def activate(self) -> None:
        """Activate the cursor."""
        if self.state is State.DORMANT:
            self.state = State.WAITING
            self.woken()

    def woken(self) -> None:
        """Queue the cursor after a notification."""
        if self.state is State.WAITING:
            self.feed.leave(self)
            self.subscription.stalled.discard(self)
            self.state = State.QUEUED
            self.subscription.queue.enqueue(self)

    def rest(self) -> bool:
        """Wait for the next event; return whether the cursor waits for credit."""
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
        """Remove the cursor from its subscription."""
        self.state = State.OVER
        self.feed.leave(self)
        self.subscription.stalled.discard(self)

    def described(self) -> dict[str, int | str]:
        """Return the fields that describe the cursor to the client."""
        feed = self.feed
        return {
            **feed.place._asdict(),
            "epoch": str(self.epoch),
            "offset": self.offset,
            "first_offset": feed.first_offset,
            "next_offset": feed.next_offset,
        }

    def move(self, batch: Batch, end: int) -> None:
        """Advance after some messages of a batch."""
        self.offset = batch.first + end
        self.last = batch.checksum(end - 1)

    def reset(self, offset: int, epoch: Epoch) -> None:
        """Continue at another position."""
        self.offset, self.epoch, self.last = offset, epoch, None

    def follow_cuts(self) -> bool:
        """Take new cuts into account; return whether that has moved the cursor, because messages before it were lost.

        A cursor that has read nothing beyond the former end waits for the offset that its client has chosen.
        """
        new, start = self.feed.cuts[self.cuts_count :], self.offset
        self.cuts_count = len(self.feed.cuts)
        for cut in new:
            is_in_log = self.last is not None or self.offset <= cut.before
            if cut.epoch == self.epoch and is_in_log and cut.end < self.offset:
                self.reset(cut.end, self.epoch)
        return self.offset != start


class Subscription:
    """A subscription of a connection."""

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
        """Cursors that wait for credit."""
        self.is_closed = False

    def remove(self, cursor: Cursor) -> None:
        """Remove a cursor, and release its feed."""
        cursor.leave()
        self.cursors.pop(cursor.feed.place, None)
        self.watch.release([cursor.feed])

    def close(self) -> None:
        """Remove all cursors."""
        self.is_closed = True
        for cursor in list(self.cursors.values()):
            self.remove(cursor)

    def add_credit(self, messages: int, size_bytes: int) -> None:
        """Add credit."""
        self.credit.add(messages, size_bytes)
        if self.credit:
            for cursor in list(self.stalled):
                cursor.woken()

    def select(self, cursor: Cursor, batch: Batch, now: float) -> Selection | None:
        """Return the messages of a batch to send next, and advance the cursor; None if there is nothing to send yet."""
        start, credit = max(0, cursor.offset - batch.first), self.credit
        if self.filter is None or not self.filter.looks_at_headers:
            end = batch.fitting(start, credit.messages, credit.bytes)
            selection = Selection(batch, range(start, end), batch.first + end, batch.span_bytes(start, end))
        else:
            selection = self._wanted(self.filter, batch, start)
            end = selection.next_offset - batch.first
        cursor.move(batch, end)
        if not selection.indexes and now - cursor.sent_at < _PROGRESS_SECONDS:
            return None
        credit.take(len(selection.indexes), selection.size_bytes)
        cursor.sent_at = now
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
