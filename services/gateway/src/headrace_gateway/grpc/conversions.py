"""Conversions between gRPC messages and records of the binary protocol."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final, Literal

import headrace_core
from headrace_chassis.grpc.status import Refused
from headrace_proto.catalog.v1 import (
    COMPRESSION_ALGORITHM_GZIP,
    COMPRESSION_ALGORITHM_NONE,
    USER_STATUS_ACTIVE,
    USER_STATUS_INACTIVE,
    CompressionAlgorithm,
    GlobalPermissions,
    Permissions,
    Quota,
    StreamPermissions,
    TopicPermissions,
    UserStatus,
)
from headrace_proto.errors import Status
from headrace_proto.gateway.v1 import (
    ConsumerGroupSummary,
    Gap,
    Header,
    HeaderKind,
    Identifier,
    Message,
    PartitionHealth,
    PartitionSummary,
    StreamSummary,
    TopicSummary,
    UserSummary,
)
from headrace_proto.rights import GLOBAL_RIGHTS, STREAM_RIGHTS, TOPIC_RIGHTS, flags

Compression = Literal["none", "gzip"]
StatusOfUser = Literal["active", "inactive"]

_PREFIX: Final = "HEADER_KIND_"
_HEALTH: Final = "PARTITION_HEALTH_"


def identifier(name: Identifier, field: str) -> int | str:
    """Return the numeric id or the name in an identifier.

    Raises:
        Refused: The identifier is empty.
    """
    match name.WhichOneof("key"):
        case "id":
            return name.id
        case "name":
            return name.name
        case None:
            raise Refused(Status.INVALID_IDENTIFIER, f"{field}: an id or a name is needed")


def compression(algorithm: CompressionAlgorithm.ValueType) -> Compression:
    """Return the protocol's value for a compression algorithm; unspecified means none.

    Raises:
        Refused: The algorithm is unknown.
    """
    if algorithm not in CompressionAlgorithm.values():
        raise Refused(Status.INVALID_COMMAND, f"{algorithm} is not a compression algorithm")
    return "gzip" if algorithm == COMPRESSION_ALGORITHM_GZIP else "none"


def status_of_user(status: UserStatus.ValueType) -> StatusOfUser | None:
    """Return the protocol's value for a user status; None if unspecified.

    Raises:
        Refused: The status is unknown.
    """
    if status not in UserStatus.values():
        raise Refused(Status.INVALID_COMMAND, f"{status} is not a user status")
    if status == USER_STATUS_INACTIVE:
        return "inactive"
    return "active" if status == USER_STATUS_ACTIVE else None


def permissions(record: Permissions) -> headrace_core.Permissions:
    """Return permissions in the form of the binary protocol."""
    granted = getattr(record, "global")
    return headrace_core.Permissions(
        everywhere=headrace_core.GlobalPermissions(**flags(granted, GLOBAL_RIGHTS)),
        streams={
            stream.stream_id: headrace_core.StreamPermissions(
                **flags(stream, STREAM_RIGHTS),
                topics={
                    topic.topic_id: headrace_core.TopicPermissions(**flags(topic, TOPIC_RIGHTS))
                    for topic in stream.topics
                },
            )
            for stream in record.streams
        },
    )


def permissions_message(granted: headrace_core.Permissions) -> Permissions:
    """Return permissions as a gRPC message."""
    return Permissions(
        **{"global": GlobalPermissions(**flags(granted.everywhere, GLOBAL_RIGHTS))},
        streams=[
            StreamPermissions(
                stream_id=stream_id,
                **flags(stream, STREAM_RIGHTS),
                topics=[
                    TopicPermissions(topic_id=topic_id, **flags(topic, TOPIC_RIGHTS))
                    for topic_id, topic in sorted(stream.topics.items())
                ],
            )
            for stream_id, stream in sorted(granted.streams.items())
        ],
    )


def stream_summary(stream: headrace_core.Stream) -> StreamSummary:
    """Return a stream without its topics."""
    return StreamSummary(
        id=stream.id,
        name=stream.name,
        created_at_micros=stream.created_at_micros,
        topics_count=stream.topics_count,
        size_bytes=stream.size_bytes,
        messages_count=stream.messages_count,
    )


def topic_summary(topic: headrace_core.Topic) -> TopicSummary:
    """Return a topic without its partitions."""
    return TopicSummary(
        id=topic.id,
        name=topic.name,
        created_at_micros=topic.created_at_micros,
        partitions_count=topic.partitions_count,
        compression=COMPRESSION_ALGORITHM_GZIP if topic.compression == "gzip" else COMPRESSION_ALGORITHM_NONE,
        message_expiry_micros=topic.message_expiry_micros,
        max_size_bytes=topic.max_size_bytes,
        replication_factor=topic.replication_factor,
        size_bytes=topic.size_bytes,
        messages_count=topic.messages_count,
    )


def partition_summaries(
    partitions: Iterable[headrace_core.Partition], descriptions: Iterable[headrace_core.PartitionDescription] = ()
) -> list[PartitionSummary]:
    """Return the partitions of a topic.

    Args:
        partitions: Sizes and offsets of the partitions.
        descriptions: State and placement, if requested.
    """
    described = {description.id: description for description in descriptions}
    summaries = []
    for partition in partitions:
        summary = PartitionSummary(
            id=partition.id,
            created_at_micros=partition.created_at_micros,
            segments_count=partition.segments_count,
            current_offset=partition.current_offset,
            size_bytes=partition.size_bytes,
            messages_count=partition.messages_count,
        )
        if (found := described.get(partition.id)) is not None:
            summary.first_offset = found.first_offset
            if found.next_deletion_at_micros:
                summary.next_deletion_micros = found.next_deletion_at_micros
            summary.health = PartitionHealth.Value(f"{_HEALTH}{found.state.upper()}")
            summary.node = found.node
        summaries.append(summary)
    return summaries


def gap_of(polled: headrace_core.MessageBatch) -> Gap | None:
    """Return the gap of messages that were deleted before they could be read."""
    if polled.gap is None:
        return None
    start, end = polled.gap
    return Gap(**{"from": start}, to=end)


def group_summary(group: headrace_core.ConsumerGroup) -> ConsumerGroupSummary:
    """Return a consumer group without its members."""
    return ConsumerGroupSummary(
        id=group.id,
        name=group.name,
        partitions_count=group.partitions_count,
        members_count=group.members_count,
    )


def user_summary(user: headrace_core.User) -> UserSummary:
    """Return a user without permissions."""
    return UserSummary(
        id=user.id,
        username=user.username,
        created_at_micros=user.created_at_micros,
        status=USER_STATUS_ACTIVE if user.status == "active" else USER_STATUS_INACTIVE,
    )


def encoded_headers(headers: Sequence[Header]) -> bytes:
    """Return headers in the encoding of a message.

    Raises:
        CodecError: A header cannot be encoded.
    """
    return headrace_core.encode_user_headers(
        [((_kind(header.key_kind), header.key), (_kind(header.value_kind), header.value)) for header in headers]
    )


def message(stored: headrace_core.Message) -> Message:
    """Return a message as a gRPC message."""
    shown = Message(
        offset=stored.offset,
        timestamp_micros=stored.timestamp_micros,
        origin_timestamp_micros=stored.origin_timestamp_micros,
        id=stored.id.to_bytes(16, "little"),
        payload=stored.payload,
    )
    if not stored.user_headers:
        return shown
    headers = headrace_core.decode_user_headers(stored.user_headers)
    if headers is None:
        shown.opaque_headers = stored.user_headers
        return shown
    for (key_kind, key), (value_kind, value) in headers:
        shown.headers.add(
            key=key,
            value=value,
            key_kind=HeaderKind.Value(_PREFIX + key_kind.upper()),
            value_kind=HeaderKind.Value(_PREFIX + value_kind.upper()),
        )
    return shown


def quota_message(quota: headrace_core.Quota) -> Quota:
    """Return a quota as a message."""
    return Quota(
        sent_bytes_per_second=quota.sent_bytes_per_second,
        read_bytes_per_second=quota.read_bytes_per_second,
        held_bytes=quota.held_bytes,
        connections=quota.connections,
    )


def _kind(kind: HeaderKind.ValueType) -> str:
    if kind not in HeaderKind.values():
        raise Refused(Status.INVALID_HEADER_KIND, f"{kind} is not a header kind")
    # An unspecified kind means raw bytes.
    return HeaderKind.Name(kind or HeaderKind.HEADER_KIND_RAW).removeprefix(_PREFIX).lower()
