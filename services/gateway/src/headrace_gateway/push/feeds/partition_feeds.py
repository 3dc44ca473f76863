"""Partition feeds of one user, shared by all subscriptions of that user.

A feed knows the end of its partition, and reads it: subscriptions at the same position share one batch. A read is a
poll on behalf of the user, so the node checks the permissions.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, NamedTuple, Protocol

import headrace_core as core
from headrace_gateway.json_api.errors import Refused
from headrace_gateway.push.feeds.batches import Batch
from headrace_gateway.push.feeds.cache import Cache
from headrace_gateway.push.frames import Epoch, Place
from headrace_node.connections.sessions import SessionLost, Sessions
from headrace_proto.errors import Status

if TYPE_CHECKING:
    from headrace_core import WatchedPartition

_MESSAGES_MAX: Final = 1000
# Assumed message size before any message of the partition was read.
_MESSAGE_BYTES: Final = 16 * 1024
# Maximum number of cached batches of one partition for later readers.
_BATCHES_MAX: Final = 4
# Number of waiters woken before the event loop gets a turn.
_WOKEN_MAX: Final = 256


class Cut(NamedTuple):
    """Loss of the last messages of a partition, with the power of its node; new messages get their offsets."""

    epoch: Epoch
    before: int
    """End of the partition as it was known before the loss."""
    end: int


class Waiter(Protocol):
    """A reader at the end of the partition."""

    def woken(self) -> None:
        """Handle a change: new messages, a new epoch, a cut, or the end of the feed."""


class Reads:
    """Resources shared by all feeds: sessions, and the limit of concurrent reads."""

    def __init__(self, sessions: Sessions, cache: Cache, *, batch_bytes: int, count_max: int = 64) -> None:
        self.sessions = sessions
        self.cache = cache
        self.batch_bytes = batch_bytes
        self.turns = asyncio.Semaphore(count_max)


class Feed:
    """Feed of one partition."""

    def __init__(self, user_id: int, place: Place, reads: Reads) -> None:
        self.place = place
        self.users = 0
        """Number of cursors that read the feed."""
        self.is_added = False
        """True if notifications refer to this feed, and not to an earlier feed of the same partition."""
        self.known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the fields below are known; an exception if the partition cannot be read."""
        self.epoch = Epoch(0, 0)
        self.first_offset = 0
        self.next_offset = 0
        # Number of the opening of the log in which this end is known; 0: unknown.
        self._opening = 0
        self.cuts: list[Cut] = []
        """All cuts, oldest first; each cursor remembers how many it has taken into account."""
        self.ended = 0
        """Status of the end of the feed; 0: not ended."""
        self._user_id = user_id
        self._reads = reads
        self._waiting: set[Waiter] = set()
        self._stalled: set[Waiter] = set()
        self._recent: deque[Batch] = deque()
        self._under_way: dict[int, asyncio.Task[Batch | None]] = {}
        self._message_bytes = _MESSAGE_BYTES
        # End of the newest batch, and the checksum of its last message.
        self._last: tuple[int, bytes] | None = None
        self._serving: asyncio.Task[None] | None = None

    def wait(self, waiter: Waiter, *, for_messages: bool) -> None:
        """Register a waiter for the next notification; without ``for_messages``, not for one of new messages.

        Otherwise subscriptions without credit would be woken for each message.
        """
        (self._waiting if for_messages else self._stalled).add(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Remove a waiter."""
        self._waiting.discard(waiter)
        self._stalled.discard(waiter)

    def notified(self, entry: WatchedPartition) -> None:
        """Apply a notification."""
        epoch = Epoch(entry.incarnation, entry.purge_epoch)
        is_another, end = epoch != self.epoch, self.next_offset
        # The log may have grown beyond its former end since. A session gets notifications in the order of the changes,
        # so none that is merely late looks like a cut.
        cut = core.cut_since(entry.openings, epoch=self._opening, position=end)
        if cut is None and entry.next_offset < end:
            cut = entry.next_offset
        is_cut = not is_another and cut is not None
        if not is_another and cut is not None:
            self.cuts.append(Cut(epoch, end, cut))
        self._opening = entry.openings[-1][0] if entry.openings else 0
        if is_another or is_cut:
            self._forget_all()
        self.epoch, self.first_offset, self.next_offset = epoch, entry.first_offset, entry.next_offset
        if not self.known.done():
            self.known.set_result(None)
        if is_another or is_cut:
            _wake(self._waiting)
            _wake(self._stalled)
        elif len(self._waiting) < 2:
            _wake(self._waiting)
        elif self._serving is None:
            self._serving = asyncio.create_task(self._serve(end))

    def end(self, status: int) -> None:
        """End the feed: the partition can no longer be read."""
        self.ended = status
        if not self.known.done():
            self.known.set_exception(Refused(status))
            # Mark the exception as retrieved: there may be no waiter.
            self.known.exception()
        self._forget_all()
        _wake(self._waiting)
        _wake(self._stalled)

    def found(self, offset: int) -> Batch | None:
        """Return a cached batch with this offset."""
        best: Batch | None = None
        for batch in self._recent:
            if batch.first <= offset < batch.end and (best is None or batch.end > best.end):
                best = batch
        return best

    async def read(self, offset: int, last: bytes | None) -> Batch | None:
        """Return messages from an offset on, or from the first existing message after it.

        Args:
            offset: First requested offset; the batch may begin before it.
            last: Checksum of the previous message, if known. A different checksum means that the partition was purged,
                or has lost its last messages. The notification of that may still be on its way.

        Returns:
            None if the known state of the partition is outdated; a notification follows.

        Raises:
            Refused: The partition cannot be read.
            SessionLost: The node stops, or is overloaded.
        """
        found = self.found(offset)
        if found is not None:
            return found
        task = self._under_way.get(offset)
        if task is None:
            task = asyncio.ensure_future(self._poll(offset, last))
            self._under_way[offset] = task
            task.add_done_callback(lambda _: self._under_way.pop(offset, None))
        # A cancelled reader must not cancel the read that others share.
        return await asyncio.shield(task)

    def forget(self, batch: Batch) -> None:
        """Drop a batch that the cache has evicted."""
        self._recent.remove(batch)

    def close(self) -> None:
        """Close the feed when its last user is gone."""
        self._forget_all()

    async def _serve(self, offset: int) -> None:
        """Read new messages for all waiters at the end, then wake them: the batch is cached when they run."""
        try:
            last = self._last[1] if self._last is not None and self._last[0] == offset else None
            # A woken waiter gets the error from its own read.
            with suppress(Refused, SessionLost):
                await self.read(offset, last)
            for index, waiter in enumerate(list(self._waiting)):
                waiter.woken()
                if index % _WOKEN_MAX == _WOKEN_MAX - 1:
                    await asyncio.sleep(0)
        finally:
            self._serving = None
            _wake(self._waiting)

    async def _poll(self, offset: int, last: bytes | None) -> Batch | None:
        reads, place, epoch, cuts_count = self._reads, self.place, self.epoch, len(self.cuts)
        if offset <= self.first_offset:
            last = None
        count = min(max(reads.batch_bytes // self._message_bytes, 1), _MESSAGES_MAX)
        encoded = core.encode_poll_messages(
            stream=place.stream_id,
            topic=place.topic_id,
            partition=place.partition_id,
            strategy="offset",
            value=offset if last is None else offset - 1,
            count=count if last is None else count + 1,
        )
        async with reads.turns:
            answer = await reads.sessions.call(self._user_id, *encoded)
        if answer.status != Status.OK:
            raise Refused(answer.status, answer.explanation)
        if epoch != self.epoch or cuts_count != len(self.cuts) or self.ended or Batch.is_empty(answer.payload):
            return None
        batch = Batch(answer.payload)
        self._message_bytes = max(1, (self._message_bytes + batch.size_bytes // len(batch)) // 2)
        if last is not None and (batch.first != offset - 1 or batch.checksum(0) != last):
            # The messages were deleted or replaced. A notification about the partition is on its way.
            return None
        self._keep(batch)
        return batch if batch.end > offset else None

    def _keep(self, batch: Batch) -> None:
        self._last = (batch.end, batch.checksum(len(batch) - 1))
        if len(self._recent) == _BATCHES_MAX:
            self._reads.cache.drop(self._recent.popleft())
        self._recent.append(batch)
        self._reads.cache.keep(batch, self)

    def _forget_all(self) -> None:
        for batch in self._recent:
            self._reads.cache.drop(batch)
        self._recent.clear()
        self._last = None


def _wake(waiting: set[Waiter]) -> None:
    # Waiters remove themselves from the set when woken.
    for waiter in list(waiting):
        waiter.woken()
