"""Several commands in flight: a session for each."""

from __future__ import annotations

import asyncio
from typing import Final

from headrace_metadata_client.connecting import Connections
from headrace_metadata_client.session import Session
from headrace_proto.metadata.v1 import Command, ProposeResponse

SESSIONS_MAX: Final = 16
"""Of one process. Commands that arrive together share a sync of the log, so that more of them are not slower."""


class SessionPool:
    """Has commands applied, once each, up to so many at a time; the others wait for their turn, in order."""

    def __init__(
        self,
        connections: Connections,
        *,
        sessions_max: int = SESSIONS_MAX,
        attempt_seconds: float = 1.0,
        timeout_seconds: float = 10.0,
    ) -> None:
        """Nothing is sent before the first command.

        Args:
            connections: To all replicas.
            sessions_max: How many commands may be in flight.
            attempt_seconds: After so long without an answer another replica is asked.
            timeout_seconds: For each command, over all replicas, from when its turn has come.
        """
        self._connections = connections
        self._attempt_seconds = attempt_seconds
        self._timeout_seconds = timeout_seconds
        self._turns = asyncio.Semaphore(sessions_max)
        # The one used last is used next: sessions that nobody needs are forgotten by the replicas.
        self._idle: list[Session] = []
        self._all: list[Session] = []

    @property
    def repeats(self) -> int:
        """How many commands were sent again although they may have been taken."""
        return sum(session.repeats for session in self._all)

    async def propose(self, command: Command) -> ProposeResponse:
        """Have a command applied, once. What it raises is what `Session.propose` raises."""
        async with self._turns:
            session = self._idle.pop() if self._idle else self._another()
            try:
                return await session.propose(command, timeout_seconds=self._timeout_seconds)
            finally:
                self._idle.append(session)

    async def close(self) -> None:
        """Let the replicas forget the sessions."""
        await asyncio.gather(*(session.close() for session in self._all))

    def _another(self) -> Session:
        session = Session(self._connections.stubs, self._connections.metadata, attempt_seconds=self._attempt_seconds)
        self._all.append(session)
        return session
