"""Several commands in flight, each in a session of its own."""

from __future__ import annotations

import asyncio
from typing import Final

from headrace_metadata_client.connecting import Connections
from headrace_metadata_client.errors import CommandNotTakenError
from headrace_metadata_client.session import Session
from headrace_proto.metadata.v1 import Command, ProposeResponse

SESSIONS_MAX: Final = 16
"""Maximum number of sessions of one process. Commands that arrive together share a sync of the log, so more of them are
not slower.
"""


class SessionPool:
    """Applies commands exactly once, up to a number of them concurrently; the others wait in order."""

    def __init__(
        self,
        connections: Connections,
        *,
        sessions_max: int = SESSIONS_MAX,
        attempt_seconds: float = 1.0,
        timeout_seconds: float = 10.0,
    ) -> None:
        """Create a pool. Nothing is sent before the first command.

        Args:
            connections: Connections to all replicas.
            sessions_max: Maximum number of commands in flight.
            attempt_seconds: Time without an answer after which another replica is asked.
            timeout_seconds: Timeout of each command, over all replicas. It may wait as long for its turn before.
        """
        self._connections = connections
        self._attempt_seconds = attempt_seconds
        self._timeout_seconds = timeout_seconds
        self._turns = asyncio.Semaphore(sessions_max)
        # The one used last is used next: the replicas remove unused sessions.
        self._idle: list[Session] = []
        self._all: list[Session] = []

    @property
    def repeats(self) -> int:
        """Number of commands that were sent again although they may have been accepted."""
        return sum(session.repeats for session in self._all)

    async def propose(self, command: Command) -> ProposeResponse:
        """Apply a command once. Raises the errors of `Session.propose`."""
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._turns.acquire()
        except TimeoutError:
            raise CommandNotTakenError("the command was not sent in time: others before it have no answer") from None
        try:
            session = self._idle.pop() if self._idle else self._another()
            try:
                return await session.propose(command, timeout_seconds=self._timeout_seconds)
            finally:
                self._idle.append(session)
        finally:
            self._turns.release()

    async def close(self) -> None:
        """Close the sessions on the replicas."""
        await asyncio.gather(*(session.close() for session in self._all))

    def _another(self) -> Session:
        session = Session(self._connections.stubs, self._connections.metadata, attempt_seconds=self._attempt_seconds)
        self._all.append(session)
        return session
