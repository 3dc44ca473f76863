"""Lag of consumer groups as gauges, with a limited number of partitions and a limited refresh rate."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TypeVar

from prometheus_client.core import GaugeMetricFamily, Metric

import headrace_core as core
from headrace_gateway.observability.lag import Lag, NotToBeSeen, lag_of_group
from headrace_gateway.ports import Clock
from headrace_node.connections.sessions import Session, Sessions
from headrace_proto.errors import Status
from headrace_proto.well_known import ROOT_USER_ID

_Item = TypeVar("_Item")

_LABELS = ["stream", "topic", "group"]


@dataclass(frozen=True, slots=True)
class TopicGroup:
    """A consumer group with its topic."""

    stream: core.Stream
    topic: core.Topic
    group: core.ConsumerGroup

    @property
    def labels(self) -> list[str]:
        """Names of stream, topic and group."""
        return [self.stream.name, self.topic.name, self.group.name]


@dataclass(slots=True)
class _Report:
    lags: list[tuple[TopicGroup, Lag]] = field(default_factory=list)
    omitted: int = 0
    """Number of omitted groups."""


class GroupLags:
    """Queries the lag of every group on demand, and caches it."""

    def __init__(
        self,
        sessions: Sessions,
        *,
        partitions_max: int,
        interval_seconds: float,
        clock: Clock,
        now: Callable[[], float],
    ) -> None:
        """Configure the queries.

        Args:
            sessions: Sessions with the node.
            partitions_max: Maximum number of partitions whose lag is computed; groups beyond that are only counted.
            interval_seconds: Lifetime of a cached result.
            clock: Microseconds since the Unix epoch.
            now: Seconds of a monotonic clock.
        """
        self._sessions = sessions
        self._partitions_max = partitions_max
        self._interval_seconds = interval_seconds
        self._clock = clock
        self._now = now
        self._report = _Report()
        self._stale_at = float("-inf")
        self._asking = asyncio.Lock()

    async def refresh(self) -> None:
        """Compute the lags unless a recent result is cached. Concurrent callers share one computation.

        Raises:
            SessionLost: The node stops.
        """
        async with self._asking:
            if self._partitions_max and self._now() >= self._stale_at:
                self._report = await self._asked()
                self._stale_at = self._now() + self._interval_seconds

    def families(self, *, with_partitions: bool) -> Iterator[Metric]:
        """Yield the metrics of the last result."""
        messages = GaugeMetricFamily(
            "headrace_consumer_group_lag_messages", "Messages that the group has not processed yet.", labels=_LABELS
        )
        seconds = GaugeMetricFamily(
            "headrace_consumer_group_lag_seconds",
            "Age of the oldest message that the group has not processed; 0 if there is none.",
            labels=_LABELS,
        )
        members = GaugeMetricFamily("headrace_consumer_group_members", "Members of the group.", labels=_LABELS)
        omitted = GaugeMetricFamily(
            "headrace_consumer_group_lag_omitted_groups",
            "Consumer groups without lag metrics, because there are too many or the lag cannot be read.",
            value=self._report.omitted,
        )
        for group, lag in self._report.lags:
            messages.add_metric(group.labels, lag.lag_messages)
            members.add_metric(group.labels, group.group.members_count)
            if lag.lag_seconds is not None:
                seconds.add_metric(group.labels, lag.lag_seconds)
        yield from (messages, seconds, members, omitted)
        if with_partitions:
            yield from self._partitions()

    def _partitions(self) -> Iterator[Metric]:
        labels = [*_LABELS, "partition"]
        messages = GaugeMetricFamily(
            "headrace_consumer_group_partition_lag_messages", "Lag of the group in each partition.", labels=labels
        )
        seconds = GaugeMetricFamily(
            "headrace_consumer_group_partition_lag_seconds", "Lag of the group in each partition.", labels=labels
        )
        for group, lag in self._report.lags:
            for partition in lag.partitions:
                values = [*group.labels, str(partition.partition_id)]
                messages.add_metric(values, partition.lag_messages or 0)
                if partition.lag_seconds is not None:
                    seconds.add_metric(values, partition.lag_seconds)
        yield from (messages, seconds)

    async def _asked(self) -> _Report:
        report = _Report()
        async with self._sessions.of(ROOT_USER_ID) as session:
            streams = await _listed(session, core.encode_get_streams(), core.decode_streams)
            async for found, lag in lags_of_groups(
                session, streams, partitions_max=self._partitions_max, clock=self._clock
            ):
                if lag is None:
                    report.omitted += 1
                else:
                    report.lags.append((found, lag))
        return report


async def lags_of_groups(
    session: Session, streams: Sequence[core.Stream], *, partitions_max: int, clock: Clock
) -> AsyncIterator[tuple[TopicGroup, Lag | None]]:
    """Yield the groups of streams that the user of the session may read, each with its lag.

    The lag is None if the group exceeds the limit, was deleted meanwhile, or has a partition that cannot be read.

    Args:
        session: A session of the user.
        streams: The streams.
        partitions_max: Maximum number of partitions whose lag is computed.
        clock: Microseconds since the Unix epoch.

    Raises:
        SessionLost: The node stops.
    """
    room = partitions_max
    # Each request to a node that is not reached waits for it, so a topic is tried once.
    unreached: set[tuple[int, int]] = set()
    async for found in _groups(session, streams):
        # A group of a topic without partitions is a series as well.
        room -= max(1, found.topic.partitions_count)
        lag: Lag | None = None
        topic = found.stream.id, found.topic.id
        if room >= 0 and topic not in unreached:
            with suppress(NotToBeSeen):
                lag = await lag_of_group(session, *topic, found.group.id, now_micros=clock())
        if lag is not None and not lag.is_complete:
            unreached.add(topic)
            lag = None
        yield found, lag


async def _groups(session: Session, streams: Sequence[core.Stream]) -> AsyncIterator[TopicGroup]:
    for stream in streams:
        for topic in await _listed(session, core.encode_get_topics(stream=stream.id), core.decode_topics):
            encoded = core.encode_get_consumer_groups(stream=stream.id, topic=topic.id)
            for group in await _listed(session, encoded, core.decode_consumer_groups):
                yield TopicGroup(stream, topic, group)


async def _listed(session: Session, encoded: tuple[int, bytes], decode: Callable[[bytes], list[_Item]]) -> list[_Item]:
    answer = await session.call(*encoded)
    return decode(answer.payload) if answer.status == Status.OK else []
