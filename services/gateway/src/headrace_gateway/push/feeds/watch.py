"""One session per user that is notified of the ends of partitions (`WatchPartitions`)."""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Iterable, Sequence
from contextlib import suppress
from typing import Final

import headrace_core as core
from headrace_gateway.json_api.errors import Refused
from headrace_gateway.push.feeds.partition_feeds import Feed, Reads
from headrace_gateway.push.frames import Place
from headrace_node.connections.sessions import Session, SessionLost
from headrace_proto.errors import Status

_log = logging.getLogger(__name__)

# Time within which a partition has to be opened; otherwise a subscription to it is refused.
_OPENING_SECONDS: Final = 10.0
_RETRY_SECONDS: Final = 0.5


class Watch:
    """Feeds of all subscriptions of one user."""

    def __init__(self, user_id: int, reads: Reads) -> None:
        self._user_id = user_id
        self._reads = reads
        self._feeds: dict[Place, Feed] = {}
        self._session: Session | None = None
        self._unanswered: deque[tuple[asyncio.Future[None], Sequence[Feed]]] = deque()
        self._running = asyncio.create_task(self._run(), name=f"push-watch-{user_id}")
        self._connected = asyncio.Event()

    async def close(self) -> None:
        """Close the session after the last connection of the user."""
        self._running.cancel()
        await asyncio.wait({self._running})

    async def acquire(self, places: Iterable[Place]) -> list[Feed]:
        """Return feeds of partitions, with their state known; `release` releases them.

        Raises:
            Refused: A partition cannot be read; no feed is held then.
        """
        wanted = list(places)
        held: list[Feed] = []
        new: list[Feed] = []
        for place in wanted:
            feed = self._feeds.get(place)
            if feed is None:
                feed = self._feeds[place] = Feed(self._user_id, place, self._reads)
                new.append(feed)
            feed.users += 1
            held.append(feed)
        try:
            async with asyncio.timeout(_OPENING_SECONDS):
                if new:
                    await self._connected.wait()
                    await self._send(new)
                for feed in held:
                    # Other subscriptions may wait for the same future.
                    await asyncio.shield(feed.known)
        except BaseException as error:
            self.release(held)
            if isinstance(error, TimeoutError):
                raise Refused(Status.TASK_TIMEOUT, "The partition is not open yet.") from error
            raise
        return held

    def release(self, feeds: Sequence[Feed]) -> None:
        """Release feeds."""
        unused = []
        for feed in feeds:
            feed.users -= 1
            if feed.users == 0:
                feed.close()
                if self._feeds.get(feed.place) is feed:
                    del self._feeds[feed.place]
                    if not feed.ended:
                        unused.append(feed)
        if unused and self._session is not None:
            with suppress(SessionLost):
                self._send(unused, remove=True)

    def _send(self, feeds: Sequence[Feed], *, remove: bool = False) -> asyncio.Future[None]:
        """Start or stop watching partitions; the answer comes later."""
        if self._session is None:
            raise SessionLost("the node refused the session")
        by_topic: dict[tuple[int, int], list[int]] = {}
        for feed in feeds:
            by_topic.setdefault((feed.place.stream_id, feed.place.topic_id), []).append(feed.place.partition_id)
        topics = [(stream, topic, partitions) for (stream, topic), partitions in by_topic.items()]
        self._session.begin(*core.encode_watch_partitions(topics=topics, remove=remove, names_openings=True))
        answer: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._unanswered.append((answer, () if remove else feeds))
        return answer

    async def _run(self) -> None:
        while True:
            try:
                self._session = await self._reads.sessions.open(self._user_id)
            except SessionLost as error:
                _log.warning("partition watch of user %d has no session: %s", self._user_id, error)
                await asyncio.sleep(_RETRY_SECONDS)
                continue
            try:
                self._resume()
                self._connected.set()
                while True:
                    self._received(*await self._session.receive())
            except SessionLost:
                _log.info("partition watch of user %d lost its session", self._user_id)
            except Exception:  # noqa: BLE001 - whoever reads must not wait for ever
                _log.exception("partition watch of user %d failed", self._user_id)
            finally:
                self._connected.clear()
                self._session.close()
                self._session = None
                unanswered, self._unanswered = self._unanswered, deque()
                for answer, _ in unanswered:
                    _fail(answer, SessionLost("the node closed the session"))
            await asyncio.sleep(_RETRY_SECONDS)

    def _resume(self) -> None:
        """Watch the partitions again after the session was lost, by topic because some topics may be deleted."""
        topics: dict[tuple[int, int], list[Feed]] = {}
        for feed in self._feeds.values():
            feed.is_added = False
            topics.setdefault((feed.place.stream_id, feed.place.topic_id), []).append(feed)
        for feeds in topics.values():
            self._send(feeds)

    def _received(self, status: int, payload: bytes) -> None:
        if not payload:
            if not self._unanswered:
                raise SessionLost("a response without a request")
            answer, feeds = self._unanswered.popleft()
            for feed in feeds:
                # Earlier notifications refer to a previous feed of the same partition.
                feed.is_added = status == Status.OK
                if status != Status.OK:
                    self._end(feed, status)
            if status != Status.OK:
                _fail(answer, Refused(status))
            elif not answer.done():
                answer.set_result(None)
            return
        for entry in core.decode_watched_partitions(payload, names_openings=True):
            notified = self._feeds.get(Place(entry.stream_id, entry.topic_id, entry.partition_id))
            if notified is None or not notified.is_added:
                continue
            if entry.status == Status.OK:
                notified.notified(entry)
            else:
                self._end(notified, entry.status)

    def _end(self, feed: Feed, status: int) -> None:
        if self._feeds.get(feed.place) is feed:
            # The next subscriber creates a new feed.
            del self._feeds[feed.place]
        feed.end(status)


def _fail(answer: asyncio.Future[None], error: Exception) -> None:
    # The caller may have been cancelled.
    if not answer.done():
        answer.set_exception(error)
        # Mark the exception as retrieved: the caller may be gone.
        answer.exception()
