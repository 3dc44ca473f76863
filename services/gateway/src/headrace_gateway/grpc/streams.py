"""Long-lived calls: each has sessions of its own, and their total number is limited."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from headrace_chassis.grpc.status import Refused
from headrace_chassis.shares import Shares
from headrace_node.connections.sessions import LastingSessions, Sessions
from headrace_proto.errors import Status

_RETRY_SECONDS = 1.0


class Streams(LastingSessions):
    """Slots for long-lived calls, and their sessions."""

    def __init__(self, sessions: Sessions, *, count_max: int) -> None:
        super().__init__(sessions)
        self._places = Shares(count_max)

    @asynccontextmanager
    async def place(self, user_id: int) -> AsyncIterator[None]:
        """Take a slot of a user for the duration of an ``async with`` block.

        Raises:
            Refused: No slot is free, or the user has half of them.
        """
        if not self._places.take(user_id):
            raise Refused(
                Status.TOO_MANY_WAITS, "too many streaming calls are in progress", retry_after_seconds=_RETRY_SECONDS
            )
        try:
            yield
        finally:
            self._places.give_back(user_id)
