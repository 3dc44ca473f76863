"""Streams, topics, partitions."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Annotated, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

import headrace_core as core
from headrace_gateway.http.models.system import SizesQuery
from headrace_gateway.json_api.numbers import U32, U64, Body, ByteSize, Checked, Ignored, Micros, between, length

Compression = Literal["none", "gzip"]
PartitionState = Literal["serving", "failed", "unreachable", "unplaced"]
Name = Annotated[str, length(1, 255)]
PartitionsCount = Annotated[int, between(1, 1000)]
SizeWriter = Callable[[int], str | int]
Limit = Annotated[int, Meta(ge=1, le=1000, description="Maximum number of entries; `next` links to the rest.")]
Cursor = Annotated[
    str,
    Meta(pattern="^[0-9]{1,10}$", description="Start of the page, from the link `next`."),
]


class Page(Checked):
    """A part of a list."""

    limit: Limit | UnsetType = UNSET
    cursor: Cursor | UnsetType = UNSET


class PageWithSizes(Page):
    """A part of a list with sizes."""

    sizes: SizesQuery = "text"


class NameBody(Body):
    """A name."""

    name: Name


class CreateStreamBody(NameBody):
    """A new stream."""

    stream_id: Ignored = UNSET


class UpdateTopicBody(Body, kw_only=True):
    """All settings of a topic."""

    name: Name
    compression_algorithm: Compression = "none"
    message_expiry: Annotated[
        U64 | Literal["never"], Meta(description="Microseconds; 0 is the server's default, 2^64-1 or `never` is never.")
    ] = 0
    max_topic_size: Annotated[
        Annotated[int, Meta(ge=0, extra_json_schema={"maximum": 2**64 - 1})]
        | Annotated[str, Meta(pattern=r"^([0-9]{1,6}(\.[0-9]{1,3})?( ?([KMGT]i?)?B)?|unlimited)$")],
        Meta(
            description="Bytes, or a text such as `10 GiB`; 0 is the server's default, 2^64-1 or `unlimited` no limit."
        ),
    ] = 0
    replication_factor: Annotated[int, between(1, 255)] | None = None


class CreateTopicBody(UpdateTopicBody, kw_only=True):
    """A new topic."""

    partitions_count: Annotated[int, between(0, 1000)]
    topic_id: Ignored = UNSET


class PartitionsBody(Body):
    """Number of partitions."""

    partitions_count: PartitionsCount


class PartitionsQuery(Checked):
    """Number of partitions."""

    partitions_count: PartitionsCount


class SegmentsQuery(Checked):
    """Number of segments."""

    segments_count: U32


class PartitionAnswer(msgspec.Struct, kw_only=True):
    """A partition."""

    id: int
    created_at: Micros
    segments_count: int
    current_offset: int
    size: ByteSize
    messages_count: int
    first_offset: int | UnsetType = UNSET
    """First offset that is kept; the next offset if the partition is empty. Missing in the answer to the creation of a
    topic.
    """
    next_deletion: Micros | UnsetType | None = UNSET
    """Time before which retention deletes nothing; null if unknown or if messages never expire."""
    state: PartitionState | UnsetType = UNSET
    """`unreachable`: the partition node cannot be reached."""
    node: str | UnsetType | None = UNSET
    """Partition node of the partition; null if there are no partition nodes, or if the partition is not placed."""


class TopicAnswer(msgspec.Struct, kw_only=True):
    """A topic."""

    id: int
    created_at: Micros
    name: str
    size: ByteSize
    message_expiry: int
    compression_algorithm: Compression
    max_topic_size: int
    replication_factor: int
    messages_count: int
    partitions_count: int


class TopicDetails(TopicAnswer, kw_only=True):
    """A topic with its partitions."""

    partitions: list[PartitionAnswer]


class StreamAnswer(msgspec.Struct, kw_only=True):
    """A stream."""

    id: int
    created_at: Micros
    name: str
    size: ByteSize
    messages_count: int
    topics_count: int


class StreamDetails(StreamAnswer, kw_only=True):
    """A stream with its topics."""

    topics: list[TopicAnswer]


def stream(record: core.Stream, size: SizeWriter) -> StreamAnswer:
    """Return a stream of a listing."""
    return StreamAnswer(
        id=record.id,
        created_at=record.created_at_micros,
        name=record.name,
        size=size(record.size_bytes),
        messages_count=record.messages_count,
        topics_count=record.topics_count,
    )


def stream_details(record: core.Stream, size: SizeWriter) -> StreamDetails:
    """Return a single stream."""
    return StreamDetails(
        **msgspec.structs.asdict(stream(record, size)), topics=[topic(below, size) for below in record.topics]
    )


def topic(record: core.Topic, size: SizeWriter) -> TopicAnswer:
    """Return a topic of a listing."""
    return TopicAnswer(
        id=record.id,
        created_at=record.created_at_micros,
        name=record.name,
        size=size(record.size_bytes),
        message_expiry=record.message_expiry_micros,
        compression_algorithm=record.compression,
        max_topic_size=record.max_size_bytes,
        replication_factor=record.replication_factor,
        messages_count=record.messages_count,
        partitions_count=record.partitions_count,
    )


def topic_details(
    record: core.Topic, size: SizeWriter, descriptions: Iterable[core.PartitionDescription] = ()
) -> TopicDetails:
    """Return a single topic, with the state of its partitions if requested."""
    described = {found.id: found for found in descriptions}
    return TopicDetails(
        **msgspec.structs.asdict(topic(record, size)),
        partitions=[_partition(partition, size, described.get(partition.id)) for partition in record.partitions],
    )


def _partition(
    record: core.Partition, size: SizeWriter, described: core.PartitionDescription | None
) -> PartitionAnswer:
    answer = PartitionAnswer(
        id=record.id,
        created_at=record.created_at_micros,
        segments_count=record.segments_count,
        current_offset=record.current_offset,
        size=size(record.size_bytes),
        messages_count=record.messages_count,
    )
    if described is not None:
        answer.first_offset = described.first_offset
        answer.next_deletion = described.next_deletion_at_micros or None
        answer.state = described.state
        answer.node = described.node or None
    return answer
