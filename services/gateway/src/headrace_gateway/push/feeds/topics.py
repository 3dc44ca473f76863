"""Resolution of topic names to ids and partitions, with updates.

Permissions are checked on behalf of each user; the structure of topics is looked up once for all users.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import headrace_core as core
from headrace_gateway.json_api.errors import Refused
from headrace_node.connections.sessions import SessionLost, Sessions
from headrace_proto.errors import Status
from headrace_proto.well_known import ROOT_USER_ID

_log = logging.getLogger(__name__)

Grown = Callable[["Topic"], Awaitable[bool]]
"""Called when the partitions of a topic changed; returns whether the change was handled, otherwise it is called again.
"""


@dataclass(frozen=True, slots=True)
class Topic:
    """Snapshot of a topic."""

    stream_id: int
    topic_id: int
    created_at_micros: int
    partitions: Mapping[int, int] = field(repr=False)
    """Creation time of each partition by id."""

    @property
    def numbers(self) -> tuple[int, int]:
        """Ids of stream and topic."""
        return self.stream_id, self.topic_id


class Topics:
    """Looks topics up, and polls followed topics for changes."""

    def __init__(self, sessions: Sessions, *, interval_seconds: float) -> None:
        self._sessions = sessions
        self._interval_seconds = interval_seconds
        self._followers: dict[tuple[int, int], dict[Grown, Topic]] = {}
        # A follower waits for its client, which may not read: the others are called meanwhile.
        self._announcements: dict[Grown, asyncio.Task[None]] = {}

    async def find(self, user_id: int, stream: int | str, topic: int | str) -> Topic:
        """Return a topic that a user may read.

        Raises:
            Refused: The topic does not exist, or the user lacks the permission.
            SessionLost: The node stops, or is overloaded.
        """
        # Without partitions, this command only checks the permission.
        encoded = core.encode_watch_partitions(topics=[(stream, topic, [])])
        answer = await self._sessions.call(user_id, *encoded)
        if answer.status != Status.OK:
            raise Refused(answer.status)
        found = await self._look_up(stream, topic)
        if found is None:
            raise Refused(Status.TOPIC_ID_NOT_FOUND)
        return found

    def follow(self, topic: Topic, grown: Grown) -> None:
        """Register a callback for partitions that differ from this snapshot."""
        self._followers.setdefault(topic.numbers, {})[grown] = topic

    def leave(self, numbers: tuple[int, int], grown: Grown) -> None:
        """Remove the callback, and end a call that is in progress."""
        self._forget(numbers, grown)
        announcement = self._announcements.get(grown)
        # A callback may remove itself.
        if announcement is not None and announcement is not asyncio.current_task():
            announcement.cancel()

    def _forget(self, numbers: tuple[int, int], grown: Grown) -> None:
        followers = self._followers.get(numbers)
        if followers is not None:
            followers.pop(grown, None)
            if not followers:
                del self._followers[numbers]

    async def run(self) -> NoReturn:
        """Check the followed topics periodically."""
        try:
            while True:
                await asyncio.sleep(self._interval_seconds)
                for numbers in list(self._followers):
                    try:
                        await self._review(numbers)
                    except SessionLost:
                        break
                    except Exception:  # noqa: BLE001 - the others are looked after all the same
                        _log.exception("partitions of topic %d/%d are unknown", *numbers)
        finally:
            announcements = list(self._announcements.values())
            for announcement in announcements:
                announcement.cancel()
            await asyncio.gather(*announcements, return_exceptions=True)

    async def _review(self, numbers: tuple[int, int]) -> None:
        found = await self._look_up(*numbers)
        for grown, known in list(self._followers.get(numbers, {}).items()):
            if found is None or found.created_at_micros != known.created_at_micros:
                # The watch of the topic's partitions reports the deletion.
                self._forget(numbers, grown)
            elif found.partitions != known.partitions and grown not in self._announcements:
                self._begin_announcement(found, grown)

    def _begin_announcement(self, topic: Topic, grown: Grown) -> None:
        announcement = self._announcements[grown] = asyncio.create_task(self._announce(topic, grown))
        announcement.add_done_callback(lambda _: self._announcements.pop(grown))

    async def _announce(self, topic: Topic, grown: Grown) -> None:
        try:
            if await grown(topic) and grown in self._followers.get(topic.numbers, {}):
                self._followers[topic.numbers][grown] = topic
        except SessionLost:
            # The next review calls again.
            pass
        except Exception:  # noqa: BLE001 - the next review calls again
            _log.exception("new partitions of topic %d/%d were not announced to a client", *topic.numbers)

    async def _look_up(self, stream: int | str, topic: int | str) -> Topic | None:
        stream_id = stream
        if isinstance(stream_id, str):
            answer = await self._sessions.call(ROOT_USER_ID, *core.encode_get_stream(stream=stream_id))
            found = core.decode_stream(answer.payload) if answer.status == Status.OK else None
            if found is None:
                return None
            stream_id = found.id
        answer = await self._sessions.call(ROOT_USER_ID, *core.encode_get_topic(stream=stream_id, topic=topic))
        details = core.decode_topic(answer.payload) if answer.status == Status.OK else None
        if details is None:
            return None
        partitions = {partition.id: partition.created_at_micros for partition in details.partitions}
        return Topic(stream_id, details.id, details.created_at_micros, partitions)
