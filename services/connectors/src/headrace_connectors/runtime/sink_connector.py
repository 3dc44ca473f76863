"""One sink with everything around it: plugins, topics, status."""

from __future__ import annotations

import asyncio
from typing import Any

from headrace.aio.client import Client
from headrace.sdk.errors import NotFound
from headrace_connectors.contract import Lag, Sink
from headrace_connectors.counters import SinkCounters
from headrace_connectors.pipeline_file.models import TopicName
from headrace_connectors.pipeline_file.pipeline import SinkSpec
from headrace_connectors.runtime.attempts import Attempts
from headrace_connectors.runtime.connector import Connector
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

    async def lag(self) -> Lag:
        """Return the number of messages after the stored offsets of the group.

        Raises:
            HeadraceError: The server does not answer, or a topic does not exist.
        """
        topics = self.spec.settings.sources
        return Lag(sum([await self._lag_of(one) for one in topics]), "messages")

    async def _lag_of(self, name: TopicName) -> int:
        topic = await self._client.topic(name.stream, name.topic)
        behind = 0
        for partition in topic.partitions:
            try:
                stored = await self._client.offset(name.stream, name.topic, partition.id, group=self.group)
            except NotFound:
                # The group is created when the sink reads for the first time.
                stored = None
            count = partition.messages_count
            if stored is not None:
                count = min(count, stored.current_offset - stored.stored_offset)
            elif self.spec.settings.start == "end":
                count = 0
            behind += max(0, count)
        return behind

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
        transforms = await self._open_transforms(spec.transforms)
        stop = self._stop = asyncio.Event()
        attempts = Attempts(self.key, spec.settings.delivery, self.status, stop)
        try:
            if await attempts.opened(sink.open):
                self.status.become(State.RUNNING)
                decoding = Decoding(spec.codec.create(), transforms, spec.settings.max_decoded.bytes)
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
