"""Refresh of the catalog before a request is refused for a missing object."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from headrace_gateway.ports import NoAnswer

TIMEOUT_SECONDS: Final = 2.0
"""Maximum time that a refusal waits for the metadata service."""

_log = logging.getLogger(__name__)


class CatchingUp:
    """Queries the newest version, one query at a time, each shared by all callers that came before it began.

    The query rate at the metadata service is limited by its own answers, regardless of the number of callers.
    """

    def __init__(self, question: Callable[[], Awaitable[object]], *, timeout_seconds: float = TIMEOUT_SECONDS) -> None:
        """Configure the queries.

        Args:
            question: Returns when the local catalog contains all changes acknowledged before; raises `NoAnswer`.
            timeout_seconds: Timeout of each caller, and of each query.
        """
        self._question = question
        self._timeout_seconds = timeout_seconds
        self._under_way: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def catch_up(self) -> None:
        """Wait until the local catalog contains all changes acknowledged before the call, or until the timeout."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask(after=self._under_way), name="catch-up")
        # Other callers wait for the same future.
        await asyncio.wait({self._next}, timeout=self._timeout_seconds)

    async def _ask(self, *, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait({after})
        # Later callers may know of changes that this query does not see.
        self._under_way, self._next = self._next, None
        try:
            async with asyncio.timeout(self._timeout_seconds):
                await self._question()
        except (NoAnswer, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            _log.warning("catalog may be stale, not-found refusals are unconfirmed: %s", reason)
