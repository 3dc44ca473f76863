"""Partitions as one user may read them, shared by all subscriptions of that user.

A feed knows where its partition ends, and reads it: those who stand at one place are given the same batch, however many
they are. Reading is a poll in the name of the user, so that it is the node that decides what may be read.
"""

from __future__ import annotations

import asyncio
from collections import deque
from contextlib import suppress
from typing import TYPE_CHECKING, Final, Protocol

import headrace_core as core
from headrace_gateway.http.errors import Refused
from headrace_gateway.push.batches import Batch
from headrace_gateway.push.cache import Cache
from headrace_gateway.push.frames import Epoch, Place
from headrace_proto.errors import Status
from headrace_shards.sessions import SessionLost, Sessions

if TYPE_CHECKING:
    from headrace_core import WatchedPartition

_MESSAGES_MAX: Final = 1000
# Before anything is known about the messages of a partition.
_MESSAGE_BYTES: Final = 16 * 1024
# Batches of one partition that are kept for those who come later.
_BATCHES_MAX: Final = 4
# Others get a turn when so many were woken.
_WOKEN_MAX: Final = 256


class Waiter(Protocol):
    """Somebody who has read everything."""

    def woken(self) -> None:
        """There is something new: messages, another epoch, or the end."""


class Reads:
    """What all feeds share: the sessions, and how many of them read at a time."""

    def __init__(self, sessions: Sessions, cache: Cache, *, batch_bytes: int, count_max: int = 64) -> None:
        self.sessions = sessions
        self.cache = cache
        self.batch_bytes = batch_bytes
        self.turns = asyncio.Semaphore(count_max)


class Feed:
    """One partition."""

    def __init__(self, user_id: int, place: Place, reads: Reads) -> None:
        self.place = place
        self.users = 0
        """How many cursors read it."""
        self.is_added = False
        """Whether notifications are about this feed, and not about an earlier one of the same place."""
        self.known: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done when the fields below say something; an exception if the partition cannot be read."""
        self.epoch = Epoch(0, 0)
        self.first_offset = 0
        self.next_offset = 0
        self.ended = 0
        """The status with which it has ended; 0: it has not."""
        self._user_id = user_id
        self._reads = reads
        self._waiting: set[Waiter] = set()
        self._stalled: set[Waiter] = set()
        self._recent: deque[Batch] = deque()
        self._under_way: dict[int, asyncio.Task[Batch | None]] = {}
        self._message_bytes = _MESSAGE_BYTES
        # Where the newest batch ends, and the checksum of its last message.
        self._last: tuple[int, bytes] | None = None
        self._serving: asyncio.Task[None] | None = None

    def wait(self, waiter: Waiter, *, for_messages: bool) -> None:
        """Wake somebody at the next notification; without use for messages, only at another epoch or the end.

        Otherwise those who are out of credit would be woken for each message.
        """
        (self._waiting if for_messages else self._stalled).add(waiter)

    def leave(self, waiter: Waiter) -> None:
        """Forget somebody who waits."""
        self._waiting.discard(waiter)
        self._stalled.discard(waiter)

    def told(self, entry: WatchedPartition) -> None:
        """Take a notification."""
        epoch = Epoch(entry.incarnation, entry.purge_epoch)
        is_another, end = epoch != self.epoch, self.next_offset
        if is_another:
            self._forget_all()
        self.epoch, self.first_offset, self.next_offset = epoch, entry.first_offset, entry.next_offset
        if not self.known.done():
            self.known.set_result(None)
        if is_another:
            _wake(self._waiting)
            _wake(self._stalled)
        elif len(self._waiting) < 2:
            _wake(self._waiting)
        elif self._serving is None:
            self._serving = asyncio.create_task(self._serve(end))

    def end(self, status: int) -> None:
        """It cannot be read any more."""
        self.ended = status
        if not self.known.done():
            self.known.set_exception(Refused(status))
            # Nobody may be waiting for it.
            self.known.exception()
        self._forget_all()
        _wake(self._waiting)
        _wake(self._stalled)

    def found(self, offset: int) -> Batch | None:
        """A batch with this offset that was read lately."""
        best: Batch | None = None
        for batch in self._recent:
            if batch.first <= offset < batch.end and (best is None or batch.end > best.end):
                best = batch
        return best

    async def read(self, offset: int, last: bytes | None) -> Batch | None:
        """Messages from an offset on, or from the first one behind it that there is.

        Args:
            offset: The first one that is wanted; a batch may begin before it.
            last: The checksum of the message before it, where that is known. If there is another one in its place the
                partition was purged, which may not have been told yet.

        Returns:
            Nothing if what is known of the partition is not so any more; a notification follows.

        Raises:
            Refused: It cannot be read.
            SessionLost: The node stops, or is too busy.
        """
        found = self.found(offset)
        if found is not None:
            return found
        task = self._under_way.get(offset)
        if task is None:
            task = asyncio.ensure_future(self._poll(offset, last))
            self._under_way[offset] = task
            task.add_done_callback(lambda _: self._under_way.pop(offset, None))
        # Whoever gives up must not take it from the others.
        return await asyncio.shield(task)

    def forget(self, batch: Batch) -> None:
        """The cache has no room for this any more."""
        self._recent.remove(batch)

    def close(self) -> None:
        """Nobody uses it any more."""
        self._forget_all()

    async def _serve(self, offset: int) -> None:
        """Read what has come for all who stand there, then wake them: it lies ready then."""
        try:
            last = self._last[1] if self._last is not None and self._last[0] == offset else None
            # Whoever is woken finds out for himself that it cannot be read.
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
        reads, place, epoch = self._reads, self.place, self.epoch
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
        if epoch != self.epoch or self.ended or Batch.is_empty(answer.payload):
            return None
        batch = Batch(answer.payload)
        self._message_bytes = max(1, (self._message_bytes + batch.size_bytes // len(batch)) // 2)
        if last is not None and (batch.first != offset - 1 or batch.checksum(0) != last):
            # Removed, or another message in its place. What has happened to the partition is about to be told.
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
    # Each leaves the set as it is woken.
    for waiter in list(waiting):
        waiter.woken()
