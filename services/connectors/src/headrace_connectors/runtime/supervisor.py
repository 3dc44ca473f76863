"""All connectors of the process, each in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headrace_connectors.runtime.connector import Connector


class Supervisor:
    """Starts and stops connectors. One that fails changes nothing for the others."""

    def __init__(self, connectors: Iterable[Connector]) -> None:
        self.connectors = tuple(connectors)
        """The connectors, in the order of the pipeline file."""

    def find(self, key: str) -> Connector | None:
        """Return the connector with this name; None if there is none."""
        return next((one for one in self.connectors if one.key == key), None)

    def start(self) -> None:
        """Start the connectors that are enabled."""
        for connector in self.connectors:
            if connector.is_enabled:
                connector.start()

    async def stop(self, seconds: float) -> list[str]:
        """Stop all connectors at the same time.

        Args:
            seconds: Time for it.

        Returns:
            Names of those that have not ended in that time.
        """
        stopping = {asyncio.create_task(one.stop()): one.key for one in self.connectors}
        if not stopping:
            return []
        _, late = await asyncio.wait(stopping, timeout=seconds)
        for task in late:
            task.cancel()
        return sorted(stopping[task] for task in late)
