"""Statistics of the last hour, sampled at a fixed interval and kept in memory."""

from __future__ import annotations

import asyncio
from collections import deque
from dataclasses import dataclass
from typing import Final, NoReturn, Self

import headrace_core as core
from headrace_gateway.ports import Clock
from headrace_node.connections.sessions import SessionLost, Sessions
from headrace_proto.errors import Status
from headrace_proto.well_known import ROOT_USER_ID

INTERVAL_SECONDS: Final = 10
SAMPLES_MAX: Final = 360


@dataclass(frozen=True, slots=True)
class StatisticsSample:
    """The statistics that plots show, at one time."""

    timestamp: int
    """Microseconds since the Unix epoch."""
    messages_count: int
    messages_size_bytes: int
    cpu_usage: float
    """Percent of one core."""
    total_cpu_usage: float
    """Percent of all cores."""
    memory_usage: int
    """Bytes."""

    @classmethod
    def of(cls, stats: core.Stats, timestamp_micros: int) -> Self:
        """Select from all statistics."""
        return cls(
            timestamp=timestamp_micros,
            messages_count=stats.messages_count,
            messages_size_bytes=stats.messages_size_bytes,
            cpu_usage=stats.cpu_usage_percent,
            total_cpu_usage=stats.total_cpu_usage_percent,
            memory_usage=stats.memory_usage_bytes,
        )


class StatisticsHistory:
    """A ring of samples: the oldest is dropped when it is full."""

    def __init__(self, sessions: Sessions, clock: Clock) -> None:
        """Create an empty ring.

        Args:
            sessions: Sessions with the node.
            clock: Microseconds since the Unix epoch.
        """
        self._sessions = sessions
        self._clock = clock
        self._samples: deque[StatisticsSample] = deque(maxlen=SAMPLES_MAX)

    @property
    def samples(self) -> list[StatisticsSample]:
        """The samples, oldest first."""
        return list(self._samples)

    async def run(self) -> NoReturn:
        """Take samples until cancelled. Times without an answer are left out."""
        while True:
            await self.take()
            await asyncio.sleep(INTERVAL_SECONDS)

    async def take(self) -> None:
        """Take a sample now."""
        try:
            answer = await self._sessions.call(ROOT_USER_ID, *core.encode_get_stats())
        except SessionLost:
            return
        if answer.status == Status.OK:
            self._samples.append(StatisticsSample.of(core.decode_stats(answer.payload), self._clock()))
