"""What native threads have to tell: taken from their queues and logged here, where to wait for a log costs nobody."""

from __future__ import annotations

import asyncio
import logging
from itertools import chain
from typing import NoReturn, Protocol

from headrace_shards.errors import ShardEnded

_INTERVAL_SECONDS = 1.0
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# How the native side begins the event (core/crates/runtime/src/shard_threads.rs).
_SHARD_ENDED = "a shard thread ended"

_log = logging.getLogger(__name__)


class EventSource(Protocol):
    """The part of `headrace_core.Node` and `headrace_core.Edge` that tells."""

    def take_events(self) -> list[tuple[str, str]]:
        """Level and message of what happened since the last call, oldest first."""


class ShardEvents:
    """The events of one node and of what stands in front of it."""

    def __init__(self, *sources: EventSource) -> None:
        self._sources = sources

    def log(self) -> str | None:
        """Log everything that waits.

        Returns:
            The event that says that a shard thread has ended, if there is one.
        """
        ended = None
        for level, message in chain.from_iterable(source.take_events() for source in self._sources):
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
                raise ShardEnded(f"{ended}; the process cannot go on without it")
            await asyncio.sleep(_INTERVAL_SECONDS)
