"""Client of gateways: topic metadata, read and write tickets, pinned start offsets."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple, TypeVar

import grpc

from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from headrace_proto.gateway.v1.catalog_pb2_grpc import CatalogStub
from headrace_proto.gateway.v1.pipelines_pb2_grpc import PipelinesStub
from headrace_proto.well_known import NEVER_EXPIRES
from pyspark_headrace.cluster import credentials
from pyspark_headrace.cluster.description import Description, Partition, Topic, offset_of_wire, openings_of_wire
from pyspark_headrace.cluster.retrying import Attempts, is_worthwhile, said, status_of
from pyspark_headrace.cluster.runtime import runtime
from pyspark_headrace.errors import ServerRefusedError, UnreachableError
from pyspark_headrace.options.connection import ConnectionOptions

_CALL_SECONDS: Final = 30.0
_T = TypeVar("_T")

READ: Final = "read"
WRITE: Final = "write"


class Issued(NamedTuple):
    """A ticket and its remaining lifetime."""

    text: str
    lifetime_seconds: float
    """Remaining lifetime."""


class Gateway:
    """Gateway client that fails over between the servers. Channels belong to the process, not to this object."""

    def __init__(self, options: ConnectionOptions) -> None:
        self._options = options
        self._preferred = 0

    def describe(self, stream: str, topics: Sequence[str] = (), *, with_sizes: bool = False) -> Description:
        """Return topics with the leaders and offsets of their partitions.

        Args:
            stream: Name of the stream.
            topics: Names of topics; empty for all that this user may read.
            with_sizes: Include sizes in bytes, which are more expensive.

        Raises:
            ServerRefusedError: The stream or a topic does not exist, or the user is not authorized.
            UnreachableError: No server answers.
        """
        request = v1.DescribeTopicsRequest(
            stream=v1.Identifier(name=stream),
            topics=[v1.Identifier(name=name) for name in topics],
            with_sizes=with_sizes,
        )
        response = self._call(lambda stub, **how: stub.DescribeTopics(request, **how), f"describing topics of {stream}")
        return Description({topic.topic_name: _topic(topic) for topic in response.topics})

    def ticket(self, topic: Topic, access: str) -> Issued:
        """Request a ticket that allows reading from or writing to a topic.

        Raises:
            ServerRefusedError: The user is not authorized.
            UnreachableError: No server answers.
        """
        request = v1.IssueTicketRequest(
            stream=v1.Identifier(id=topic.stream_id),
            topic=v1.Identifier(id=topic.topic_id),
            read=access == READ,
            write=access == WRITE,
            lifetime_seconds=self._options.ticket_lifetime_ms // 1000,
        )
        response = self._call(lambda stub, **how: stub.IssueTicket(request, **how), f"a ticket for {topic.title}")
        return Issued(response.ticket, max(response.not_after_seconds - time.time(), 0.0))

    def pin(self, stream: str, reader: str, value: bytes) -> bytes:
        """Pin the start value of a named reader. The first caller sets the value, and every caller gets that value.

        Raises:
            ServerRefusedError: The user is not authorized, or a limit of the server is exceeded.
            UnreachableError: No server answers.
        """
        request = v1.PinReaderRequest(stream=v1.Identifier(name=stream), reader=reader, value=value)
        response = self._call(lambda stub, **how: stub.PinReader(request, **how), f"where {reader} begins to read")
        return bytes(response.value)

    def unpin(self, stream: str, reader: str) -> None:
        """Remove the pinned value of a named reader.

        Raises:
            ServerRefusedError: The user is not authorized.
            UnreachableError: No server answers.
        """
        request = v1.UnpinReaderRequest(stream=v1.Identifier(name=stream), reader=reader)
        self._call(lambda stub, **how: stub.UnpinReader(request, **how), f"where {reader} has begun to read")

    def create_topic(self, stream: str, name: str, partitions_count: int, retention_ms: int | None = None) -> None:
        """Create a topic unless it exists.

        Args:
            stream: Name of its stream.
            name: Name of the topic.
            partitions_count: Number of partitions.
            retention_ms: Retention time; None for the default of the server.

        Raises:
            ServerRefusedError: The user is not authorized.
            UnreachableError: No server answers.
        """
        request = v1.CreateTopicRequest(
            stream=v1.Identifier(name=stream),
            settings=v1.TopicSettings(name=name, message_expiry_micros=(retention_ms or 0) * 1000),
            partitions_count=partitions_count,
        )
        try:
            self._call(
                lambda stub, **how: stub.CreateTopic(request, **how), f"making the topic {stream}/{name}", CatalogStub
            )
        except ServerRefusedError as error:
            # Another task has created the topic, or an earlier attempt of this call whose response was lost.
            if error.status != Status.TOPIC_NAME_ALREADY_EXISTS:
                raise

    def message_expiry_micros(self, topic: Topic) -> int | None:
        """Return the retention time of a topic; None if messages never expire.

        Raises:
            ServerRefusedError: The user is not authorized.
            UnreachableError: No server answers.
        """
        request = v1.GetTopicRequest(stream=v1.Identifier(id=topic.stream_id), topic=v1.Identifier(id=topic.topic_id))
        response = self._call(
            lambda stub, **how: stub.GetTopic(request, **how), f"settings of {topic.title}", CatalogStub
        )
        expiry = int(response.topic.message_expiry_micros)
        return expiry if 0 < expiry < NEVER_EXPIRES else None

    def _call(self, ask: Callable[..., _T], what: str, stub: Callable[[grpc.Channel], Any] = PipelinesStub) -> _T:
        attempts = Attempts(self._options)
        is_renewed = False
        while True:
            server = self._options.servers[self._preferred % len(self._options.servers)]
            channel = runtime().gateway(server, self._options)
            try:
                token = credentials.bearer(self._options, channel, renewed=is_renewed)
                return ask(stub(channel), metadata=(("authorization", f"Bearer {token}"),), timeout=_CALL_SECONDS)
            except grpc.RpcError as error:
                if error.code() is grpc.StatusCode.UNAUTHENTICATED and self._options.username and not is_renewed:
                    is_renewed = True
                    continue
                if not is_worthwhile(error):
                    raise ServerRefusedError(f"{what}: {said(error)}", status_of(error)) from error
                self._preferred += 1
                if not attempts.again():
                    raise UnreachableError(
                        f"{what}: no server answers, the last one ({server}): {said(error)}"
                    ) from error


def is_missing(error: ServerRefusedError) -> bool:
    """Return whether a server reports that a stream or topic does not exist."""
    return error.status in {Status.STREAM_ID_NOT_FOUND, Status.TOPIC_ID_NOT_FOUND}


def _topic(topic: v1.TopicDescription) -> Topic:
    return Topic(
        topic.stream_name,
        topic.topic_name,
        topic.stream_id,
        topic.topic_id,
        topic.incarnation,
        tuple(
            Partition(
                part.partition_id,
                part.incarnation,
                part.purge_epoch,
                offset_of_wire(part.first_offset),
                offset_of_wire(part.next_offset),
                part.messages_count,
                part.size_bytes,
                part.grpc_address,
                openings_of_wire(part.openings),
            )
            for part in topic.partitions
        ),
    )
