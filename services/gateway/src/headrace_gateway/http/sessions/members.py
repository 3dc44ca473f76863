"""Consumer group members without a connection: each has a session in this process until it leaves or times out."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass, field
from typing import NoReturn

from headrace_chassis.shares import Shares
from headrace_gateway.http.call import ask
from headrace_gateway.json_api.errors import Limited, Refused
from headrace_node.connections.sessions import Session, Sessions
from headrace_proto.errors import Status

Seconds = Callable[[], float]
"""Returns the seconds of a monotonic clock."""

_NAME_BYTES = 24
# Checks for silent members per timeout.
_CHECKS_PER_TIMEOUT = 4
_RETRY_SECONDS = 1.0


@dataclass(slots=True)
class _Member:
    user_id: int
    group: str
    session: Session
    silent_since: float
    # Serializes commands; also held while the member is removed.
    in_use: asyncio.Lock = field(default_factory=asyncio.Lock)


class Members:
    """Memberships by name. A membership ends with its session, as for any other client."""

    def __init__(self, sessions: Sessions, *, timeout_seconds: float, count_max: int, now: Seconds) -> None:
        self._sessions = sessions
        self._timeout_seconds = timeout_seconds
        self._places = Shares(count_max)
        self._now = now
        self._members: dict[str, _Member] = {}

    @property
    def count(self) -> int:
        """Number of members."""
        return len(self._members)

    async def join(self, user_id: int, group: str, encoded: tuple[int, bytes]) -> str:
        """Join a group; return the name of the membership.

        Args:
            user_id: Joining user; the name is valid for this user only.
            group: Group as in the path; the name is valid for this group only.
            encoded: The command.

        Raises:
            Limited: The maximum number of members is reached, of which one user has at most half.
            Refused: The command was refused.
        """
        if not self._places.take(user_id):
            raise Limited(_RETRY_SECONDS)
        try:
            session = await self._sessions.open(user_id)
            try:
                await ask(session, encoded)
            except BaseException:
                session.close()
                raise
        except BaseException:
            self._places.give_back(user_id)
            raise
        name = secrets.token_urlsafe(_NAME_BYTES)
        self._members[name] = _Member(user_id, group, session, self._now())
        return name

    @asynccontextmanager
    async def of(self, user_id: int, group: str, name: str) -> AsyncIterator[Session]:
        """Lend the session of a member for the duration of an ``async with`` block.

        Raises:
            Refused: The member does not exist, or belongs to another user.
        """
        member = self._find(user_id, group, name)
        async with member.in_use:
            if self._members.get(name) is not member:
                raise Refused(Status.CONSUMER_GROUP_MEMBER_NOT_FOUND)
            try:
                yield member.session
            finally:
                member.silent_since = self._now()
                if not member.session.is_reusable:
                    self._end(name)

    async def leave(self, user_id: int, group: str, name: str, encoded: tuple[int, bytes]) -> None:
        """End a membership."""
        async with self.of(user_id, group, name) as session:
            try:
                await ask(session, encoded)
            finally:
                self._end(name)

    async def run(self) -> NoReturn:
        """Remove silent members periodically, until cancelled."""
        while True:
            await asyncio.sleep(self._timeout_seconds / _CHECKS_PER_TIMEOUT)
            self.end_silent()

    def end_silent(self) -> None:
        """Remove silent members once."""
        latest = self._now() - self._timeout_seconds
        for name, member in list(self._members.items()):
            if member.silent_since <= latest and not member.in_use.locked():
                self._end(name)

    def close(self) -> None:
        """Remove all members."""
        for name in list(self._members):
            self._end(name)

    def _find(self, user_id: int, group: str, name: str) -> _Member:
        member = self._members.get(name)
        # The answer must not disclose members of other users.
        if member is None or member.user_id != user_id or member.group != group:
            raise Refused(Status.CONSUMER_GROUP_MEMBER_NOT_FOUND)
        return member

    def _end(self, name: str) -> None:
        member = self._members.pop(name, None)
        if member is not None:
            self._places.give_back(member.user_id)
            member.session.close()
