"""The catalog at this gateway: followed, published to the shards, and waited for."""

from __future__ import annotations

import asyncio
import heapq
import logging
from contextlib import aclosing
from typing import Final, Protocol

from headrace_gateway.catalog.view import CatalogView
from headrace_gateway.ports import NoAnswer
from headrace_metadata_client import CatalogWatch
from headrace_proto.catalog.v1 import Snapshot, Update

REACH_SECONDS: Final = 10.0
"""Timeout of waiting for a catalog version."""

_log = logging.getLogger(__name__)


class Shards(Protocol):
    """Interface of `headrace_node.Node` for the catalog."""

    def publish_snapshot(self, snapshot: Snapshot) -> None:
        """Replace the whole catalog."""

    def publish_update(self, update: Update) -> None:
        """Apply one change."""


class Catalog:
    """Follows the catalog, and keeps the shards of the process up to date."""

    def __init__(self, watch: CatalogWatch, *, reach_seconds: float = REACH_SECONDS) -> None:
        self.view = CatalogView()
        self._watch = watch
        self._reach_seconds = reach_seconds
        self._begun = asyncio.Event()
        # Heap ordered by version, then arrival.
        self._waiting: list[tuple[int, int, asyncio.Future[None]]] = []
        self._came = 0

    @property
    def age_seconds(self) -> float:
        """Seconds since the catalog was last confirmed to be current; infinite before the first time."""
        return self._watch.age_seconds

    async def follow(self, shards: Shards) -> None:
        """Follow the catalog until cancelled.

        Raises:
            UnauthenticatedError: The metadata service does not accept this gateway.
        """
        async with aclosing(self._watch.events()) as events:
            async for event in events:
                # Update the shards first: a notified waiter must find the change there.
                if isinstance(event, Snapshot):
                    shards.publish_snapshot(event)
                    self.view.replace(event)
                    _log.info("catalog watch started at version %d", event.version)
                else:
                    shards.publish_update(event)
                    self.view.update(event)
                self._begun.set()
                self._wake(event.version)

    async def begun(self) -> None:
        """Wait for the first catalog."""
        await self._begun.wait()

    async def reach(self, version: int) -> None:
        """Wait until this gateway has a catalog version that a reply has named.

        Raises:
            NoAnswer: The version did not arrive in time.
        """
        if self.view.version >= version:
            return
        self._watch.expect(version)
        reached: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._came += 1
        heapq.heappush(self._waiting, (version, self._came, reached))
        try:
            async with asyncio.timeout(self._reach_seconds):
                await reached
        except TimeoutError:
            raise NoAnswer(f"version {version} of the catalog did not arrive in time") from None

    def _wake(self, version: int) -> None:
        while self._waiting and self._waiting[0][0] <= version:
            _, _, reached = heapq.heappop(self._waiting)
            if not reached.done():
                reached.set_result(None)
