"""Log events of native threads: taken from their queues and logged here, so that a slow log does not block a shard."""

from __future__ import annotations

import asyncio
import logging
from itertools import chain
from typing import NoReturn, Protocol

from headrace_node.errors import ShardEnded

_INTERVAL_SECONDS = 1.0
_LEVELS = {"info": logging.INFO, "warning": logging.WARNING, "error": logging.ERROR}
# Prefix of the native side's event (core/crates/runtime/src/shard_threads.rs).
_SHARD_ENDED = "a shard thread ended"

_log = logging.getLogger(__name__)


class EventSource(Protocol):
    """Source of log events: the common part of `headrace_core.Node` and `headrace_core.Edge`."""

    def take_events(self) -> list[tuple[str, str]]:
        """Level and message of the events since the last call, oldest first."""


class ShardEvents:
    """Log events of one node and of the listeners in front of it."""

    def __init__(self, *sources: EventSource) -> None:
        self._sources = sources

    def log(self) -> str | None:
        """Log all waiting events.

        Returns:
            The event about the end of a shard thread, if there is one.
        """
        ended = None
        for level, message in chain.from_iterable(source.take_events() for source in self._sources):
            if message.startswith(_SHARD_ENDED):
                ended = ended or message
            _log.log(_LEVELS.get(level, logging.ERROR), "%s", message)
        return ended

    async def watch(self) -> NoReturn:
        """Log events continuously.

        Raises:
            ShardEnded: A shard has ended, and its partitions and connections are not served any more.
        """
        while True:
            ended = self.log()
            if ended is not None:
                raise ShardEnded(f"{ended}; the process cannot continue without it")
            await asyncio.sleep(_INTERVAL_SECONDS)
