"""Resolution of a subscribe request to cursors; the request succeeds or fails as a whole."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from headrace_gateway.json_api.errors import Refused
from headrace_gateway.push.feeds.topics import Topic, Topics
from headrace_gateway.push.feeds.watch import Watch
from headrace_gateway.push.forms import Position, Start, TopicForm
from headrace_gateway.push.frames import Place
from headrace_gateway.push.subscriptions import starts
from headrace_gateway.push.subscriptions.cursors import Cursor, Subscription
from headrace_node.connections.sessions import Session, Sessions
from headrace_proto.errors import Status


@dataclass(slots=True, kw_only=True)
class Beginning:
    """Resolved start of one topic."""

    topic: Topic
    partitions: frozenset[int] | None
    """Partitions to read; None means all, including future ones."""
    cursors: list[Cursor]
    resets: list[Cursor]
    """Cursors that do not start at the requested position."""


class Beginnings:
    """Resolves start positions for the connections of one user."""

    def __init__(self, user_id: int, *, sessions: Sessions, topics: Topics, watch: Watch) -> None:
        self._user_id = user_id
        self._sessions = sessions
        self._topics = topics
        self._watch = watch

    async def of(self, subscription: Subscription, forms: Sequence[TopicForm], partitions_max: int) -> list[Beginning]:
        """Resolve the start of a subscription; its cursors are still dormant.

        Args:
            subscription: Owner of the cursors; releases them when it is closed.
            forms: Requested topics.
            partitions_max: Maximum number of partitions.

        Raises:
            Refused: A topic is missing or not permitted.
            SessionLost: The node stops, or is overloaded.
        """
        found: list[Beginning] = []
        if len(forms) > partitions_max:
            raise Refused(Status.TOO_MANY_WAITS, "Too many topics on this connection.", field="topics")
        async with self._sessions.of(self._user_id) as session:
            for index, form in enumerate(forms):
                topic = await self._find(form, f"topics[{index}]")
                wanted = _wanted(topic, form, f"topics[{index}]")
                if any(place in subscription.cursors for place in wanted):
                    raise Refused(Status.INVALID_COMMAND, "A partition is listed twice.", field=f"topics[{index}]")
                if len(subscription.cursors) + len(wanted) > partitions_max:
                    raise Refused(Status.TOO_MANY_WAITS, "Too many partitions on this connection.")
                beginning = Beginning(
                    topic=topic,
                    partitions=frozenset(form.partitions) if form.partitions is not None else None,
                    cursors=[],
                    resets=[],
                )
                found.append(beginning)
                for feed in await self._watch.acquire(wanted):
                    # From here on the subscription releases the feed.
                    cursor = Cursor(subscription, feed, 0, feed.epoch)
                    subscription.cursors[feed.place] = cursor
                    beginning.cursors.append(cursor)
                positions = {position.partition_id: position for position in form.positions}
                for cursor in beginning.cursors:
                    if await _place(cursor, positions.get(cursor.feed.place.partition_id), form.start, session):
                        beginning.resets.append(cursor)
        return found

    async def _find(self, form: TopicForm, field: str) -> Topic:
        try:
            return await self._topics.find(self._user_id, form.stream, form.topic)
        except Refused as error:
            names = {Status.STREAM_ID_NOT_FOUND: f"{field}.stream", Status.TOPIC_ID_NOT_FOUND: f"{field}.topic"}
            raise Refused(error.status, error.reason, field=names.get(Status(error.status))) from error


def _wanted(topic: Topic, form: TopicForm, field: str) -> list[Place]:
    partitions = sorted(topic.partitions) if form.partitions is None else form.partitions
    for partition in partitions:
        if partition not in topic.partitions:
            raise Refused(Status.PARTITION_NOT_FOUND, field=f"{field}.partitions")
    if len(set(partitions)) != len(partitions):
        raise Refused(Status.INVALID_COMMAND, "A partition is listed twice.", field=f"{field}.partitions")
    return [Place(*topic.numbers, partition) for partition in partitions]


async def _place(cursor: Cursor, position: Position | None, start: Start, session: Session) -> bool:
    """Place a cursor at the requested position; return whether the position had to be reset."""
    # The position is looked up in the partition as it is known now; cuts during the look-up apply to it.
    cursor.cuts_count = len(cursor.feed.cuts)
    if position is not None:
        beginning = await starts.resumed(cursor.feed, position, session)
    else:
        beginning = await starts.begun(cursor.feed, start, cursor.subscription.consumer, session)
    cursor.reset(beginning.offset, beginning.epoch)
    return beginning.is_reset
