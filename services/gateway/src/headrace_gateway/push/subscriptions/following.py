"""Following of a topic by a subscription: partitions added later are read from their first message."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, Protocol

from headrace_chassis.refusals import Kind, kind_of
from headrace_gateway.json_api.errors import Refused, reason_of
from headrace_gateway.push.feeds.topics import Topic, Topics
from headrace_gateway.push.feeds.watch import Watch
from headrace_gateway.push.frames import Place
from headrace_gateway.push.subscriptions.cursors import Cursor, State, Subscription
from headrace_gateway.push.subscriptions.start_resolution import Beginning
from headrace_proto.errors import Status


class SendToClient(Protocol):
    """Sends a client a message."""

    def __call__(self, kind: str, /, **fields: Any) -> Awaitable[None]:
        """Send a message of this type with these fields."""


class Following:
    """One topic of one subscription."""

    def __init__(
        self,
        subscription: Subscription,
        beginning: Beginning,
        *,
        topics: Topics,
        watch: Watch,
        send: SendToClient,
        room: Callable[[], int],
    ) -> None:
        """Describe the topic; `begin` starts following it.

        Args:
            subscription: Owner of the new cursors.
            beginning: Resolved start of the topic.
            topics: Notifies about changes of the topic.
            watch: Watch of the user.
            send: Sends messages to the client.
            room: Returns the number of further partitions the connection may read.
        """
        self._subscription = subscription
        self._topic = beginning.topic
        self._partitions = beginning.partitions
        self._topics = topics
        self._watch = watch
        self._send = send
        self._room = room

    def active(self, topic: Topic) -> set[int]:
        """Return the partitions that are being read; others may be added."""
        key = self._subscription.filter.partition(len(topic.partitions)) if self._subscription.filter else None
        chosen = set(topic.partitions) if key is None else {key}
        return chosen if self._partitions is None else chosen & self._partitions

    def begin(self) -> list[Cursor]:
        """Return the initial cursors; start following the topic."""
        filter_ = self._subscription.filter
        if self._partitions is None or (filter_ is not None and filter_.key is not None):
            self._topics.follow(self._topic, self._grown)
        return self._cursors(self.active(self._topic))

    def close(self) -> None:
        """Stop following the topic."""
        self._topics.leave(self._topic.numbers, self._grown)

    def _cursors(self, partitions: set[int]) -> list[Cursor]:
        places = (Place(*self._topic.numbers, partition) for partition in sorted(partitions))
        found = (self._subscription.cursors.get(place) for place in places)
        return [cursor for cursor in found if cursor is not None]

    async def _grown(self, topic: Topic) -> bool:
        subscription = self._subscription
        if self._partitions is None:
            new = [
                Place(*topic.numbers, partition)
                for partition, created_at in sorted(topic.partitions.items())
                if self._topic.partitions.get(partition) != created_at
            ]
            # A cursor of an earlier partition with the same number has to end first.
            if any(place in subscription.cursors for place in new):
                return False
            room = self._room()
            if not await self._add(new[:room]):
                return False
            for place in new[room:]:
                await self._refused(place, Status.TOO_MANY_WAITS)
        if subscription.is_closed:
            return False
        self._topic = topic
        active = [cursor for cursor in self._cursors(self.active(topic)) if cursor.state is State.DORMANT]
        if active:
            await self._send(
                "added", subscription=subscription.number, partitions=[cursor.described() for cursor in active]
            )
            for cursor in active:
                cursor.activate()
        return True

    async def _add(self, places: list[Place]) -> bool:
        try:
            feeds = await self._watch.acquire(places)
        except Refused as error:
            # The permission was lost. Other errors are retried, or detected there.
            if kind_of(error.status) is Kind.FORBIDDEN:
                self.close()
            return False
        # Another topic of the connection may have taken the room meanwhile: the next announcement refuses the rest.
        if self._subscription.is_closed or len(feeds) > self._room():
            self._watch.release(feeds)
            return False
        for feed in feeds:
            self._subscription.cursors[feed.place] = Cursor(self._subscription, feed, feed.first_offset, feed.epoch)
        return True

    async def _refused(self, place: Place, status: int) -> None:
        reason = reason_of(Refused(status))
        await self._send("end", subscription=self._subscription.number, **place._asdict(), code=status, reason=reason)
