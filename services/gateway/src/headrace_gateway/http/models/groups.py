"""Consumer groups and their members."""

from __future__ import annotations

from dataclasses import asdict
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

import headrace_core as core
from headrace_gateway.http.models.catalog import NameBody
from headrace_gateway.http.models.messages import Numbers, WaitMillis
from headrace_gateway.json_api.numbers import U32, U64, Body, Checked, Ignored
from headrace_gateway.observability.group_lags import TopicGroup
from headrace_gateway.observability.lag import Lag


class GroupAnswer(msgspec.Struct, kw_only=True):
    """A consumer group."""

    id: int
    name: str
    partitions_count: int
    members_count: int


class MemberAnswer(msgspec.Struct):
    """A member of a group, with the partitions that it owns."""

    id: int
    partitions_count: int
    partitions: list[int]


class GroupDetails(GroupAnswer, kw_only=True):
    """A consumer group with its members."""

    members: list[MemberAnswer]


class CreateGroupBody(NameBody):
    """A new consumer group."""

    group_id: Ignored = UNSET
    consumer_group_id: Ignored = UNSET


class Joined(msgspec.Struct):
    """A membership."""

    member: Annotated[str, Meta(description="Id of the membership in paths. A secret of the user who joined.")]
    expires_in_seconds: Annotated[float, Meta(description="Time without a request after which the membership ends.")]


class GroupPollQuery(Checked):
    """Number of messages, and partition."""

    count: U32 = 10
    auto_commit: bool = False
    partition_id: (
        Annotated[U32, Meta(description="Partition to read; without it, all owned partitions in turn.")] | UnsetType
    ) = UNSET
    numbers: Numbers = "number"
    wait_ms: WaitMillis = 0


class GroupOffsetBody(Body):
    """The last offset that was processed."""

    partition_id: U32
    offset: U64


LagSeconds = Annotated[
    float | None,
    Meta(description="Age of the oldest message that was not processed; 0 if there is none, null if unknown."),
]


class PartitionLagAnswer(msgspec.Struct, kw_only=True):
    """Lag of a consumer in one partition."""

    partition_id: int
    stored_offset: Annotated[int | None, Meta(description="Offset of the last message that the group has processed.")]
    last_offset: Annotated[int | None, Meta(description="Offset of the newest message.")]
    lag_messages: Annotated[int | None, Meta(description="Null if the node of the partition is not reached.")]
    lag_seconds: LagSeconds
    member: Annotated[int | None, Meta(description="The member of the group that owns the partition.")]


class LagAnswer(msgspec.Struct, kw_only=True):
    """Lag of a consumer: messages of all partitions together, seconds of the partition that lags most.

    Partitions whose node is not reached are left out.
    """

    lag_messages: int
    lag_seconds: LagSeconds
    partitions: list[PartitionLagAnswer]


class GroupLagAnswer(GroupAnswer, kw_only=True):
    """A consumer group of any topic, with its lag in all partitions together."""

    stream_id: int
    stream_name: str
    topic_id: int
    topic_name: str
    lag_messages: Annotated[int | None, Meta(description="Null if it was not computed or could not be read.")]
    lag_seconds: LagSeconds


def group(record: core.ConsumerGroup) -> GroupAnswer:
    """Return a group of a listing."""
    return GroupAnswer(
        id=record.id,
        name=record.name,
        partitions_count=record.partitions_count,
        members_count=record.members_count,
    )


def group_details(record: core.ConsumerGroup) -> GroupDetails:
    """Return a single group."""
    return GroupDetails(
        id=record.id,
        name=record.name,
        partitions_count=record.partitions_count,
        members_count=record.members_count,
        members=[MemberAnswer(member.id, len(member.partitions), member.partitions) for member in record.members],
    )


def lag_answer(found: Lag) -> LagAnswer:
    """Return a lag."""
    return LagAnswer(
        lag_messages=found.lag_messages,
        lag_seconds=found.lag_seconds,
        partitions=[PartitionLagAnswer(**asdict(partition)) for partition in found.partitions],
    )


def group_lag_answer(found: TopicGroup, lag: Lag | None) -> GroupLagAnswer:
    """Return a group of any topic."""
    return GroupLagAnswer(
        **msgspec.structs.asdict(group(found.group)),
        stream_id=found.stream.id,
        stream_name=found.stream.name,
        topic_id=found.topic.id,
        topic_name=found.topic.name,
        lag_messages=lag.lag_messages if lag is not None else None,
        lag_seconds=lag.lag_seconds if lag is not None else None,
    )
