"""Listener for data pipelines, which read and write raw batches as on partition nodes."""

from __future__ import annotations

from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager

import headrace_core
from headrace_chassis.grpc.memory import Pool
from headrace_chassis.grpc.server import Served
from headrace_chassis.shares import Shares
from headrace_embedded.config import PipelinesConfig
from headrace_gateway.ports import TopicPlaces
from headrace_metadata.applied_state import AppliedState
from headrace_node import Front
from headrace_node.connections.sessions import OpenSession, Sessions
from headrace_partition_node.grpc import listener
from headrace_partition_node.grpc.tickets import IssuerMay, Tickets
from headrace_partition_node.placements import Found
from headrace_proto.catalog.v1 import Topic


@asynccontextmanager
async def opened(
    config: PipelinesConfig,
    front: Front,
    state: AppliedState,
    open_session: OpenSession,
    issuer_may: IssuerMay,
    *,
    certificate_check_seconds: float,
) -> AsyncIterator[Served | None]:
    """Serve for the duration of an ``async with`` block; yield None if it is disabled.

    Args:
        config: Settings.
        front: Configuration of the shards, which sign the tickets.
        state: Source of partitions.
        open_session: Opens a session with the shards.
        issuer_may: Permission check of the shards.
        certificate_check_seconds: Interval of checks for a changed certificate.

    Raises:
        ListenError: The address cannot be bound.
        CertificateError: A TLS file cannot be read or used.
    """
    if not config.enabled:
        yield None
        return
    key = headrace_core.TicketKey(front.cluster_secret.reveal(), front.cluster_name)
    async with (
        Sessions(open_session) as sessions,
        listener.opened(
            config,
            config.tls.certificate_files("pipelines.tls"),
            certificate_check_seconds=certificate_check_seconds,
            sessions=sessions,
            tickets=Tickets(key, _EveryPartition(state), issuer_may),
            memory=Pool(config.max_memory.bytes),
            calls=Shares(config.max_calls),
            poll_bytes_max=front.response_size_max.bytes,
            section="pipelines",
        ) as served,
    ):
        await served.report(is_ready=True)
        yield served


class OwnTopics:
    """The topics of this server, which has all partitions."""

    def __init__(self, state: AppliedState, address: str) -> None:
        """Describe the topics.

        Args:
            state: Source of topics.
            address: Address of all partitions for pipelines; empty if not served.
        """
        self._state = state
        self._address = address

    def find_topic(self, stream: int | str, topic: int | str) -> TopicPlaces | None:
        """Return a topic; None if it does not exist."""
        stream_id = self._stream_id(stream)
        found = self._state.find_topic(stream_id, topic) if stream_id is not None else None
        return self._places(found) if found is not None else None

    def topics_of(self, stream: int | str) -> Sequence[TopicPlaces] | None:
        """Return the topics of a stream, ascending by id; None if the stream does not exist."""
        stream_id = self._stream_id(stream)
        found = self._state.stream_with_topics(stream_id) if stream_id is not None else None
        return [self._places(topic) for topic in found[1]] if found is not None else None

    def _stream_id(self, stream: int | str) -> int | None:
        return self._state.stream_id_named(stream) if isinstance(stream, str) else stream

    def _places(self, topic: Topic) -> TopicPlaces:
        return TopicPlaces(
            stream_id=topic.stream_id,
            stream_name=self._state.stream_name(topic.stream_id) or "",
            id=topic.id,
            name=topic.name,
            incarnation=topic.incarnation,
            grpc_addresses=[self._address] * len(topic.partitions),
        )


class _EveryPartition:
    """The partitions of this server, all of which are local."""

    def __init__(self, state: AppliedState) -> None:
        self._state = state

    def find(self, stream_id: int, topic_id: int, partition_id: int) -> Found | None:
        topic = self._state.find_topic(stream_id, topic_id)
        if topic is None or partition_id >= len(topic.partitions):
            return None
        incarnation = topic.partitions[partition_id].incarnation
        return Found(topic.incarnation, incarnation, topic.purge_epoch, is_here=True)
