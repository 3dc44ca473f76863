"""One sink with everything around it: plugins, topics, status."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.aio.client import Client
from headrace_connectors.contract import Sink
from headrace_connectors.pipeline_file.pipeline import SinkSpec
from headrace_connectors.runtime.attempts import Attempts
from headrace_connectors.runtime.connector import Connector
from headrace_connectors.runtime.counters import SinkCounters
from headrace_connectors.runtime.sink_batch import Decoding
from headrace_connectors.runtime.sink_loop import SinkLoop, SinkParts
from headrace_connectors.runtime.status import State


class SinkConnector(Connector):
    """A sink that can be started and stopped any number of times.

    Args:
        spec: Its description.
        client: Client whose consumers it reads with.
    """

    kind = "sink"

    def __init__(self, spec: SinkSpec, client: Client) -> None:
        super().__init__(spec.key, spec.sink.name, spec.settings)
        self.spec = spec
        self.counters: SinkCounters = SinkCounters()
        self._client = client
        self._stop: asyncio.Event | None = None

    @property
    def invalid_count(self) -> int:
        """Number of messages that could not be decoded, transformed or written."""
        return self.counters.invalid

    def document(self) -> dict[str, Any]:
        """Describe it, for the status API."""
        return {
            **super().document(),
            "topics": [{"stream": one.stream, "topic": one.topic} for one in self.spec.settings.sources],
            "group": self.group,
            "invalid_count": self.counters.invalid,
            "dead_letters_count": self.counters.dead_letters,
        }

    @property
    def group(self) -> str:
        """Consumer group that it reads as a member of."""
        return self.spec.settings.group or self.key

    def _halt(self) -> bool:
        if self._stop is not None:
            self._stop.set()
        return self._stop is not None

    async def _serve(self) -> None:
        spec = self.spec
        sink: Sink = spec.sink.create()
        transforms = [transform.create() for transform in spec.transforms]
        for transform in transforms:
            await transform.open()
        stop = self._stop = asyncio.Event()
        attempts = Attempts(self.key, spec.settings.delivery, self.status, stop)
        try:
            if await attempts.opened(sink.open):
                self.status.become(State.RUNNING)
                decoding = Decoding(spec.codec.create(), transforms)
                await self._read(
                    SinkParts(
                        self.group,
                        sink,
                        decoding,
                        spec.settings,
                        self.status,
                        self.counters,
                        attempts,
                        stop,
                        self._may_go_on,
                    )
                )
        finally:
            self._stop = None
            await sink.close()

    async def _read(self, parts: SinkParts) -> None:
        """Read all topics; the first failure ends the sink."""
        try:
            async with asyncio.TaskGroup() as group:
                for topic in self.spec.settings.sources:
                    group.create_task(SinkLoop(topic, parts).run(self._client), name=f"{self.key}-{topic.topic}")
        except BaseExceptionGroup as failures:
            raise failures.exceptions[0] from None
