"""The catalogue here, brought up to what others were told, before something is refused because it is not in it."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Final

from headrace_gateway.ports import NoAnswer

PATIENCE_SECONDS: Final = 2.0
"""A refusal waits no longer for a metadata service that does not answer."""

_log = logging.getLogger(__name__)


class CatchingUp:
    """Asks for what is newest, one question at a time, and each for all who came before it began.

    However many requests miss something, the metadata service hears of it as often as it can answer.
    """

    def __init__(
        self, question: Callable[[], Awaitable[object]], *, patience_seconds: float = PATIENCE_SECONDS
    ) -> None:
        """Ask nothing yet.

        Args:
            question: Returns when the catalogue here has all that anybody was answered before; raises `NoAnswer`.
            patience_seconds: Of whoever waits, and for each question.
        """
        self._question = question
        self._patience_seconds = patience_seconds
        self._under_way: asyncio.Task[None] | None = None
        self._next: asyncio.Task[None] | None = None

    async def catch_up(self) -> None:
        """Return when the catalogue here has all that anybody was answered before, or when that takes too long."""
        if self._next is None:
            self._next = asyncio.create_task(self._ask(after=self._under_way), name="catch-up")
        # Others wait for it as well.
        await asyncio.wait({self._next}, timeout=self._patience_seconds)

    async def _ask(self, *, after: asyncio.Task[None] | None) -> None:
        if after is not None:
            await asyncio.wait({after})
        # Who comes from now on may know of something that this question does not see.
        self._under_way, self._next = self._next, None
        try:
            async with asyncio.timeout(self._patience_seconds):
                await self._question()
        except (NoAnswer, TimeoutError) as error:
            reason = str(error) or "no answer in time"
            _log.warning("what is refused for its absence may have been made elsewhere: %s", reason)
