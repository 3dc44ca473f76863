"""What shard threads have to tell: taken from their queue and logged here, where waiting for a log costs no client."""

from __future__ import annotations

import asyncio
import logging
from typing import NoReturn, Protocol

from headrace.embedded.errors import ShardEnded

_INTERVAL_SECONDS = 1.0
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# How the native side begins the event (core/crates/runtime/src/shard_threads.rs).
_SHARD_ENDED = "a shard thread ended"

_log = logging.getLogger(__name__)


class EventSource(Protocol):
    """The part of `headrace_core.Node` that tells."""

    def take_events(self) -> list[tuple[str, str]]:
        """Level and message of what happened since the last call, oldest first."""


class ShardEvents:
    """The events of one node."""

    def __init__(self, source: EventSource) -> None:
        self._source = source

    def log(self) -> str | None:
        """Log everything that waits.

        Returns:
            The event that says that a shard thread has ended, if there is one.
        """
        ended = None
        for level, message in self._source.take_events():
            if message.startswith(_SHARD_ENDED):
                ended = ended or message
            _log.log(_LEVELS.get(level, logging.ERROR), "%s", message)
        return ended

    async def watch(self) -> NoReturn:
        """Log what happens from now on.

        Raises:
            ShardEnded: Its partitions and connections are served by nobody any more.
        """
        while True:
            ended = self.log()
            if ended is not None:
                raise ShardEnded(f"{ended}; the server cannot go on without it")
            await asyncio.sleep(_INTERVAL_SECONDS)
