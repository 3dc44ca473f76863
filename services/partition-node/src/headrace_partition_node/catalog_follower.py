"""Distribution of the catalog from the metadata service to the shards."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import AsyncGenerator
from contextlib import aclosing, suppress
from typing import Final, NoReturn, Protocol

from headrace_metadata_client import CatalogEvent, CatalogWatch
from headrace_node import Horizon
from headrace_partition_node.data_directory import HighestVersion
from headrace_partition_node.placements import Placements
from headrace_proto.catalog.v1 import Snapshot, Update

# Maximum number of updates that wait for the shards; further reading from the metadata service is paused.
_WAITING_MAX: Final = 1024

_log = logging.getLogger(__name__)


class Shards(Protocol):
    """Interface of `headrace_node.Node` for the catalog."""

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the whole catalog; returns when every shard uses it."""

    def publish_update(self, update: Update) -> None:
        """Apply the next version; returns when every shard uses it."""


class Catalog:
    """Passes the catalog and its updates to the shards: in order, without duplicates, and never an older version.

    A version is written to disk before the shards use it, so that the next run accepts no older one. Updates that
    arrive during a write share the next write.
    """

    def __init__(
        self,
        watch: CatalogWatch,
        shards: Shards,
        placements: Placements,
        highest_version: HighestVersion,
        horizon: Horizon,
    ) -> None:
        self._watch = watch
        self._horizon = horizon
        self._shards = shards
        self._placements = placements
        self._highest_version = highest_version
        self._version = 0

    @property
    def version(self) -> int:
        """Version that the shards use; 0 before the first."""
        return self._version

    @property
    def age_seconds(self) -> float:
        """Seconds since the catalog was last confirmed to be current."""
        return self._watch.age_seconds

    def known(self, version: int, timestamp_micros: int) -> None:
        """Record that a version exists because a reply named it.

        Args:
            version: Version in the reply.
            timestamp_micros: Timestamp of its newest operation.
        """
        self._watch.expect(version)
        self._horizon.known(version, timestamp_micros)

    async def follow(self, begun: asyncio.Event) -> NoReturn:
        """Follow the catalog forever.

        Args:
            begun: Set as soon as the shards have a catalog.

        Raises:
            UnauthenticatedError: The metadata service does not accept this node.
            OSError: The version cannot be written.
        """
        waiting: asyncio.Queue[CatalogEvent] = asyncio.Queue(_WAITING_MAX)
        async with aclosing(self._watch.events()) as events:
            reading = asyncio.create_task(_read(events, waiting), name="catalog-watch")
            try:
                while True:
                    reported = await _taken(waiting, reading)
                    await asyncio.to_thread(self._highest_version.raise_to, reported[-1].version)
                    for event in reported:
                        self._act_on(event)
                    begun.set()
            finally:
                reading.cancel()
                with suppress(asyncio.CancelledError):
                    await reading

    def _act_on(self, event: CatalogEvent) -> None:
        # Update both together, so that readers of placements and shards see one version.
        if isinstance(event, Update):
            self._shards.publish_update(event)
            self._placements.update(event)
        else:
            _log.info("catalog starts at version %d", event.version)
            self._shards.publish_snapshot(event)
            self._placements.replace(event)
        self._version = event.version
        self._horizon.reached(event.version)


async def _read(events: AsyncGenerator[CatalogEvent, None], waiting: asyncio.Queue[CatalogEvent]) -> None:
    async for event in events:
        await waiting.put(event)


async def _taken(waiting: asyncio.Queue[CatalogEvent], reading: asyncio.Task[None]) -> list[CatalogEvent]:
    """Return all waiting events, at least one."""
    if waiting.empty():
        taking = asyncio.create_task(waiting.get())
        try:
            await asyncio.wait({taking, reading}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            if not taking.done():
                taking.cancel()
        if not taking.done() or taking.cancelled():
            reading.result()
            raise AssertionError("the catalog watch does not end")
        taken = [taking.result()]
    else:
        taken = []
    while not waiting.empty():
        taken.append(waiting.get_nowait())
    return taken
