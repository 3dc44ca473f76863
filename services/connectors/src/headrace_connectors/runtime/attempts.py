"""Reactions to failures and successes of a connector: pauses, and its state."""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Awaitable, Callable

from headrace_connectors.contract import Unavailable
from headrace_connectors.failures import is_lasting
from headrace_connectors.pipeline_file.models import RetrySettings
from headrace_connectors.runtime.backoff import Backoff
from headrace_connectors.runtime.status import State, Status
from headrace_connectors.runtime.stopping import until_stop

_log = logging.getLogger(__name__)


class Attempts:
    """Counts failures, pauses after each, and changes the state when too many follow each other.

    Args:
        key: Name of the connector.
        settings: Pauses and limits.
        status: Receives failures.
        stop: Ends pauses.
        draw: Random numbers for pauses.
    """

    def __init__(
        self, key: str, settings: RetrySettings, status: Status, stop: asyncio.Event, draw: random.Random | None = None
    ) -> None:
        self._key = key
        self._threshold = settings.commit_failure_threshold
        self._status = status
        self._stop = stop
        self._misses = 0
        self._backoff = Backoff(settings, stop, draw or random.Random())  # noqa: S311 - pauses

    async def opened(self, open_it: Callable[[], Awaitable[None]]) -> bool:
        """Open the other side, however often it takes; return False if a stop was requested before.

        Raises:
            ConnectorError: It cannot be opened.
        """
        while not self._stop.is_set():
            try:
                await until_stop(open_it(), self._stop)
            except Unavailable as error:
                await self.failed(error)
            else:
                self.succeeded()
                return not self._stop.is_set()
        return False

    async def missed(self, error: Exception) -> None:
        """Wait for something that others bring, such as a topic, which is a failure only if it takes long."""
        self._misses += 1
        if self._misses >= self._threshold:
            await self.failed(error)
            return
        if self._misses == 1:
            _log.info("%s waits: %s", self._key, error)
        await self._backoff.pause()

    async def failed(self, error: Exception) -> None:
        """Note a failure, and wait until it may be tried again, or until the stop."""
        self._status.failed(error)
        failures = self._status.consecutive_failures + self._misses
        _log.warning("%s: attempt %d failed: %s", self._key, failures, error)
        # Attempts alone do not help there: someone has to see it.
        if (failures >= self._threshold or is_lasting(error)) and self._status.state in (State.STARTING, State.RUNNING):
            self._status.become(State.DEGRADED, str(error))
        asked = error.retry_after if isinstance(error, Unavailable) else None
        await self._backoff.pause(asked or 0.0)

    def succeeded(self, reason: str | None = None) -> None:
        """Note that it goes on."""
        self._misses = 0
        self._backoff.reset()
        if self._status.state is State.DEGRADED:
            self._status.become(State.RUNNING, reason)
