"""Streams, topics, partitions and consumer groups."""

from __future__ import annotations

import asyncio
from typing import TypeVar

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import Caller
from headrace_gateway.grpc.conversions import (
    compression,
    group_summary,
    identifier,
    partition_summaries,
    quota_message,
    stream_summary,
    topic_summary,
)
from headrace_proto.errors import Status
from headrace_proto.gateway import v1
from headrace_proto.limits import REPLICATION_FACTOR_MAX

_Record = TypeVar("_Record")


class Catalog:
    """``headrace.gateway.v1.Catalog``."""

    # ---- streams

    async def list_streams(self, _: v1.ListStreamsRequest, caller: Caller) -> v1.ListStreamsResponse:
        streams = core.decode_streams(await caller.execute(core.encode_get_streams()))
        return v1.ListStreamsResponse(streams=map(stream_summary, streams))

    async def get_stream(self, request: v1.GetStreamRequest, caller: Caller) -> v1.GetStreamResponse:
        name = identifier(request.stream, "stream")
        stream = _found(core.decode_stream(await caller.find(core.encode_get_stream(stream=name))))
        return v1.GetStreamResponse(stream=stream_summary(stream), topics=map(topic_summary, stream.topics))

    async def create_stream(self, request: v1.CreateStreamRequest, caller: Caller) -> v1.CreateStreamResponse:
        stream = core.decode_stream(await caller.execute(core.encode_create_stream(name=request.name)))
        return v1.CreateStreamResponse(stream=stream_summary(_found(stream)))

    async def rename_stream(self, request: v1.RenameStreamRequest, caller: Caller) -> v1.RenameStreamResponse:
        stream = identifier(request.stream, "stream")
        await caller.execute(core.encode_update_stream(stream=stream, name=request.name))
        return v1.RenameStreamResponse()

    async def purge_stream(self, request: v1.PurgeStreamRequest, caller: Caller) -> v1.PurgeStreamResponse:
        await caller.execute(core.encode_purge_stream(stream=identifier(request.stream, "stream")))
        return v1.PurgeStreamResponse()

    async def delete_stream(self, request: v1.DeleteStreamRequest, caller: Caller) -> v1.DeleteStreamResponse:
        await caller.execute(core.encode_delete_stream(stream=identifier(request.stream, "stream")))
        return v1.DeleteStreamResponse()

    # ---- topics

    async def list_topics(self, request: v1.ListTopicsRequest, caller: Caller) -> v1.ListTopicsResponse:
        stream = identifier(request.stream, "stream")
        topics = core.decode_topics(await caller.execute(core.encode_get_topics(stream=stream)))
        return v1.ListTopicsResponse(topics=map(topic_summary, topics))

    async def get_topic(self, request: v1.GetTopicRequest, caller: Caller) -> v1.GetTopicResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        details, described = await asyncio.gather(
            caller.find(core.encode_get_topic(stream=stream, topic=topic)),
            caller.execute(core.encode_describe_partitions(stream=stream, topic=topic)),
            return_exceptions=True,
        )
        # If the topic does not exist, each of the two queries is refused with its own status.
        found = _found(core.decode_topic(_answer(details)))
        descriptions = core.decode_partition_descriptions(_answer(described))
        return v1.GetTopicResponse(
            topic=topic_summary(found), partitions=partition_summaries(found.partitions, descriptions)
        )

    async def create_topic(self, request: v1.CreateTopicRequest, caller: Caller) -> v1.CreateTopicResponse:
        settings = request.settings
        command = core.encode_create_topic(
            stream=identifier(request.stream, "stream"),
            name=settings.name,
            partitions_count=request.partitions_count,
            compression=compression(settings.compression),
            message_expiry_micros=settings.message_expiry_micros,
            max_size_bytes=settings.max_size_bytes,
            replication_factor=_replication_factor(settings),
        )
        topic = _found(core.decode_topic(await caller.execute(command)))
        return v1.CreateTopicResponse(topic=topic_summary(topic), partitions=partition_summaries(topic.partitions))

    async def update_topic(self, request: v1.UpdateTopicRequest, caller: Caller) -> v1.UpdateTopicResponse:
        settings = request.settings
        command = core.encode_update_topic(
            stream=identifier(request.stream, "stream"),
            topic=identifier(request.topic, "topic"),
            name=settings.name,
            compression=compression(settings.compression),
            message_expiry_micros=settings.message_expiry_micros,
            max_size_bytes=settings.max_size_bytes,
            replication_factor=_replication_factor(settings),
        )
        await caller.execute(command)
        return v1.UpdateTopicResponse()

    async def purge_topic(self, request: v1.PurgeTopicRequest, caller: Caller) -> v1.PurgeTopicResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        await caller.execute(core.encode_purge_topic(stream=stream, topic=topic))
        return v1.PurgeTopicResponse()

    async def delete_topic(self, request: v1.DeleteTopicRequest, caller: Caller) -> v1.DeleteTopicResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        await caller.execute(core.encode_delete_topic(stream=stream, topic=topic))
        return v1.DeleteTopicResponse()

    async def get_topic_quota(self, request: v1.GetTopicQuotaRequest, caller: Caller) -> v1.GetTopicQuotaResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        payload = await caller.find(core.encode_get_topic_quota(stream=stream, topic=topic))
        return v1.GetTopicQuotaResponse(quota=quota_message(_found(core.decode_quota(payload))))

    async def set_topic_quota(self, request: v1.SetTopicQuotaRequest, caller: Caller) -> v1.SetTopicQuotaResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        quota = request.quota
        if quota.connections > 0:
            raise Refused(Status.INVALID_COMMAND, "quota.connections: a topic has no connections, users do")
        command = core.encode_set_topic_quota(
            stream=stream,
            topic=topic,
            sent_bytes_per_second=quota.sent_bytes_per_second,
            read_bytes_per_second=quota.read_bytes_per_second,
            held_bytes=quota.held_bytes,
        )
        await caller.execute(command)
        return v1.SetTopicQuotaResponse()

    # ---- partitions and segments

    async def create_partitions(
        self, request: v1.CreatePartitionsRequest, caller: Caller
    ) -> v1.CreatePartitionsResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        count = request.partitions_count
        await caller.execute(core.encode_create_partitions(stream=stream, topic=topic, partitions_count=count))
        return v1.CreatePartitionsResponse()

    async def delete_partitions(
        self, request: v1.DeletePartitionsRequest, caller: Caller
    ) -> v1.DeletePartitionsResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        count = request.partitions_count
        await caller.execute(core.encode_delete_partitions(stream=stream, topic=topic, partitions_count=count))
        return v1.DeletePartitionsResponse()

    async def delete_segments(self, request: v1.DeleteSegmentsRequest, caller: Caller) -> v1.DeleteSegmentsResponse:
        command = core.encode_delete_segments(
            stream=identifier(request.stream, "stream"),
            topic=identifier(request.topic, "topic"),
            partition=request.partition_id,
            segments_count=request.segments_count,
        )
        await caller.execute(command)
        return v1.DeleteSegmentsResponse()

    # ---- consumer groups

    async def list_consumer_groups(
        self, request: v1.ListConsumerGroupsRequest, caller: Caller
    ) -> v1.ListConsumerGroupsResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        payload = await caller.execute(core.encode_get_consumer_groups(stream=stream, topic=topic))
        return v1.ListConsumerGroupsResponse(groups=map(group_summary, core.decode_consumer_groups(payload)))

    async def get_consumer_group(
        self, request: v1.GetConsumerGroupRequest, caller: Caller
    ) -> v1.GetConsumerGroupResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        name = identifier(request.group, "group")
        payload = await caller.find(core.encode_get_consumer_group(stream=stream, topic=topic, group=name))
        group = _found(core.decode_consumer_group(payload))
        members = [v1.ConsumerGroupMember(id=member.id, partition_ids=member.partitions) for member in group.members]
        return v1.GetConsumerGroupResponse(group=group_summary(group), members=members)

    async def create_consumer_group(
        self, request: v1.CreateConsumerGroupRequest, caller: Caller
    ) -> v1.CreateConsumerGroupResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        payload = await caller.execute(core.encode_create_consumer_group(stream=stream, topic=topic, name=request.name))
        return v1.CreateConsumerGroupResponse(group=group_summary(_found(core.decode_consumer_group(payload))))

    async def delete_consumer_group(
        self, request: v1.DeleteConsumerGroupRequest, caller: Caller
    ) -> v1.DeleteConsumerGroupResponse:
        stream, topic = identifier(request.stream, "stream"), identifier(request.topic, "topic")
        name = identifier(request.group, "group")
        await caller.execute(core.encode_delete_consumer_group(stream=stream, topic=topic, group=name))
        return v1.DeleteConsumerGroupResponse()


def _found(record: _Record | None) -> _Record:
    if record is None:
        raise Refused(Status.RESOURCE_NOT_FOUND, "the resource does not exist")
    return record


def _replication_factor(settings: v1.TopicSettings) -> int:
    if settings.replication_factor > REPLICATION_FACTOR_MAX:
        reason = (
            f"replication_factor is {settings.replication_factor}: 1 to {REPLICATION_FACTOR_MAX}, or 0 for the default"
        )
        raise Refused(Status.INVALID_REPLICATION_FACTOR, reason)
    return settings.replication_factor


def _answer(result: bytes | BaseException) -> bytes:
    if isinstance(result, BaseException):
        raise result
    return result
