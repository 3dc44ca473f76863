"""All connectors of the process, each in a task of its own."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable

from headrace_connectors.runtime.source_connector import SourceConnector


class Supervisor:
    """Starts and stops connectors. One that fails changes nothing for the others."""

    def __init__(self, sources: Iterable[SourceConnector]) -> None:
        self.sources = tuple(sources)
        """The sources, in the order of the pipeline file."""

    def find(self, key: str) -> SourceConnector | None:
        """Return the connector with this name; None if there is none."""
        return next((one for one in self.sources if one.key == key), None)

    def start(self) -> None:
        """Start the connectors that are enabled."""
        for source in self.sources:
            if source.spec.settings.enabled:
                source.start()

    async def stop(self, seconds: float) -> list[str]:
        """Stop all connectors at the same time.

        Args:
            seconds: Time for it.

        Returns:
            Names of those that have not ended in that time.
        """
        stopping = {asyncio.create_task(source.stop()): source.key for source in self.sources}
        if not stopping:
            return []
        _, late = await asyncio.wait(stopping, timeout=seconds)
        for task in late:
            task.cancel()
        return sorted(stopping[task] for task in late)
