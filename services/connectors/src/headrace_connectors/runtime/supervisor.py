"""All connectors of the process, each in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headrace_connectors.contract import ConnectorError
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.status import State


class StillEnding(ConnectorError):
    """A connector has not ended in time, so that its successor cannot start."""

    code = "still_ending"


class Supervisor:
    """Starts and stops connectors. One that fails changes nothing for the others."""

    def __init__(self, connectors: Iterable[Connector]) -> None:
        self.connectors = tuple(connectors)
        """The connectors, in the order of the pipeline file."""
        self._successors: dict[str, Connector | None] = {}
        self._swapping: dict[str, asyncio.Task[None]] = {}

    def find(self, key: str) -> Connector | None:
        """Return the connector with this name; None if there is none."""
        return next((one for one in self.connectors if one.key == key), None)

    def start(self) -> None:
        """Start the connectors that are enabled."""
        for connector in self.connectors:
            if connector.is_enabled:
                connector.start()

    async def replace(self, key: str, successor: Connector | None, seconds: float) -> None:
        """Stop one connector, and start another one in its place; the others go on.

        A connector that was stopped by a call stays stopped.

        Args:
            key: Name of the connector, which may be new.
            successor: The connector in its place; None: none.
            seconds: Time for the stop.

        Raises:
            StillEnding: It has not ended in that time. Its successor follows when it has.
        """
        # Of several successors that wait for the same end, the last one follows.
        self._successors[key] = successor
        swapping = self._swapping.get(key)
        if swapping is None:
            swapping = self._swapping[key] = asyncio.create_task(self._swap(key), name=f"swap-{key}")
        await asyncio.wait({swapping}, timeout=seconds)
        if not swapping.done():
            raise StillEnding(
                f"{key} has not ended within {seconds:g} s: its new configuration is stored, and takes effect as soon "
                "as it has"
            )
        if not swapping.cancelled():
            swapping.result()

    async def _swap(self, key: str) -> None:
        found = self.find(key)
        was_stopped = found is not None and found.is_enabled and found.status.state is State.STOPPED
        try:
            if found is not None:
                await found.stop()
        finally:
            successor = self._successors.pop(key)
            del self._swapping[key]
        self.put(key, successor)
        if successor is not None and successor.is_enabled and not was_stopped:
            successor.start()

    def put(self, key: str, successor: Connector | None) -> None:
        """Put a connector in the place of one that does not run, or of none; None: nothing takes its place."""
        found = self.find(key)
        if successor is None:
            self.connectors = tuple(one for one in self.connectors if one.key != key)
        elif found is None:
            self.connectors = (*self.connectors, successor)
        else:
            successor.status.follow(found.status)
            self.connectors = tuple(successor if one.key == key else one for one in self.connectors)

    async def stop(self, seconds: float) -> list[str]:
        """Stop all connectors at the same time.

        Args:
            seconds: Time for it.

        Returns:
            Names of those that have not ended in that time.
        """
        for swapping in self._swapping.values():
            # Nothing is started any more.
            swapping.cancel()
        stopping = {asyncio.create_task(one.stop()): one.key for one in self.connectors}
        if not stopping:
            return []
        _, late = await asyncio.wait(stopping, timeout=seconds)
        for task in late:
            task.cancel()
        return sorted(stopping[task] for task in late)
