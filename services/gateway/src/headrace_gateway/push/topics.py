"""Names of topics as numbers, and the partitions that they have, now and later.

Whether somebody may read a topic is asked in the user's name; what it consists of is looked up for all at once.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import NoReturn

import headrace_core as core
from headrace_gateway.http.errors import Refused
from headrace_proto.errors import Status
from headrace_proto.well_known import ROOT_USER_ID
from headrace_shards.sessions import SessionLost, Sessions

_log = logging.getLogger(__name__)

Grown = Callable[["Topic"], Awaitable[bool]]
"""Told when a topic has other partitions than before; returns whether that is settled, or to be told again."""


@dataclass(frozen=True, slots=True)
class Topic:
    """A topic as it is at some time."""

    stream_id: int
    topic_id: int
    created_at_micros: int
    partitions: Mapping[int, int] = field(repr=False)
    """The partitions by id, and when each was created."""

    @property
    def numbers(self) -> tuple[int, int]:
        """Of stream and topic."""
        return self.stream_id, self.topic_id


class Topics:
    """Looks topics up, and looks after those that are followed."""

    def __init__(self, sessions: Sessions, *, interval_seconds: float) -> None:
        self._sessions = sessions
        self._interval_seconds = interval_seconds
        self._followers: dict[tuple[int, int], dict[Grown, Topic]] = {}

    async def find(self, user_id: int, stream: int | str, topic: int | str) -> Topic:
        """A topic that a user may read.

        Raises:
            Refused: There is none, or the user may not.
            SessionLost: The node stops, or is too busy.
        """
        # No partition: this asks for nothing but the right.
        encoded = core.encode_watch_partitions(topics=[(stream, topic, [])])
        answer = await self._sessions.call(user_id, *encoded)
        if answer.status != Status.OK:
            raise Refused(answer.status)
        found = await self._look_up(stream, topic)
        if found is None:
            raise Refused(Status.TOPIC_ID_NOT_FOUND)
        return found

    def follow(self, topic: Topic, grown: Grown) -> None:
        """Tell somebody about partitions that the topic has not got now."""
        self._followers.setdefault(topic.numbers, {})[grown] = topic

    def leave(self, numbers: tuple[int, int], grown: Grown) -> None:
        """Tell nobody any more."""
        followers = self._followers.get(numbers)
        if followers is not None:
            followers.pop(grown, None)
            if not followers:
                del self._followers[numbers]

    async def run(self) -> NoReturn:
        """Look again and again."""
        while True:
            await asyncio.sleep(self._interval_seconds)
            for numbers in list(self._followers):
                try:
                    await self._review(numbers)
                except SessionLost:
                    break
                except Exception:  # noqa: BLE001 - the others are looked after all the same
                    _log.exception("the partitions of topic %d/%d are not known", *numbers)

    async def _review(self, numbers: tuple[int, int]) -> None:
        found = await self._look_up(*numbers)
        for grown, known in list(self._followers.get(numbers, {}).items()):
            if found is None or found.created_at_micros != known.created_at_micros:
                # Whoever watches its partitions is told.
                self.leave(numbers, grown)
            elif found.partitions != known.partitions and await grown(found) and self._follows(numbers, grown):
                self._followers[numbers][grown] = found

    def _follows(self, numbers: tuple[int, int], grown: Grown) -> bool:
        return grown in self._followers.get(numbers, {})

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
