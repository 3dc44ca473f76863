"""Pauses between attempts."""

from __future__ import annotations

import asyncio
import contextlib
import random
from typing import Final

from headrace_connectors.pipeline_file.models import RetrySettings

_ASKED_SECONDS_MAX: Final = 3600.0


class Backoff:
    """Pauses that double with each failure up to a limit, with jitter, and end early when a stop is requested."""

    def __init__(self, settings: RetrySettings, stop: asyncio.Event, draw: random.Random) -> None:
        self._first = settings.backoff_min.seconds
        self._longest = settings.backoff_max.seconds
        self._next = self._first
        self._stop = stop
        self._draw = draw

    def reset(self) -> None:
        """Start again with the shortest pause."""
        self._next = self._first

    async def pause(self, shortest: float = 0.0) -> None:
        """Wait, or until the stop; not less than some seconds, up to an hour, that the other side has asked for."""
        # Sources that fail at the same moment should not come back at the same moment.
        seconds = self._next * self._draw.uniform(0.75, 1.0)
        self._next = min(self._next * 2, self._longest)
        seconds = max(seconds, min(shortest, _ASKED_SECONDS_MAX))
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._stop.wait(), seconds)
