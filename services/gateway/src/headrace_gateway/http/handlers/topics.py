"""Topics."""

from __future__ import annotations

import asyncio

from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.lists import page
from headrace_gateway.http.models.catalog import (
    CreateTopicBody,
    PageWithSizes,
    TopicAnswer,
    TopicDetails,
    UpdateTopicBody,
    topic,
    topic_details,
)
from headrace_gateway.http.models.system import SizesOnly
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.http.sizes import size_bytes
from headrace_gateway.json_api.errors import Missing, Refused, Rejected
from headrace_gateway.json_api.numbers import U64_MAX
from headrace_proto.errors import Status
from headrace_proto.limits import NAME_BYTES, PARTITIONS_PER_COMMAND_MAX, REPLICATION_FACTOR_MAX

routes = Routes()


@routes.add(
    "GET",
    "/streams/{stream_id}/topics",
    tag="topics",
    query=PageWithSizes,
    answer=list[TopicAnswer],
    errors=(400, 403, 404),
    has_etag=True,
)
async def get_topics(call: Call[PageWithSizes, Nothing]) -> web.Response:
    """All topics of a stream."""
    topics = core.decode_topics(await call.ask(core.encode_get_topics(stream=call.stream)))
    return page(call, [topic(record, call.size) for record in topics], lambda found: found.id)


@routes.add(
    "POST",
    "/streams/{stream_id}/topics",
    tag="topics",
    body=CreateTopicBody,
    answer=TopicDetails,
    errors=(400, 403, 404, 409),
)
async def create_topic(call: Call[Nothing, CreateTopicBody]) -> TopicDetails:
    """Create a topic."""
    stream, body = call.stream, call.body
    _check(body)
    if body.partitions_count > PARTITIONS_PER_COMMAND_MAX:
        raise Refused(Status.TOO_MANY_PARTITIONS)
    created = core.decode_topic(
        await call.ask(
            core.encode_create_topic(
                stream=stream,
                name=body.name,
                partitions_count=body.partitions_count,
                compression=body.compression_algorithm,
                message_expiry_micros=_expiry_micros(body.message_expiry),
                max_size_bytes=_size_bytes(body.max_topic_size),
                replication_factor=body.replication_factor or 0,
            )
        )
    )
    if created is None:
        raise Missing
    return topic_details(created, call.size)


@routes.add(
    "GET",
    "/streams/{stream_id}/topics/{topic_id}",
    tag="topics",
    query=SizesOnly,
    answer=TopicDetails,
    errors=(400, 403, 404),
    has_etag=True,
)
async def get_topic(call: Call[SizesOnly, Nothing]) -> TopicDetails:
    """One topic with its partitions."""
    # Run concurrently: each of them waits briefly for an unreachable node.
    details, described = await asyncio.gather(
        call.ask(core.encode_get_topic(stream=call.stream, topic=call.topic)),
        call.ask(core.encode_describe_partitions(stream=call.stream, topic=call.topic)),
        return_exceptions=True,
    )
    found = core.decode_topic(_answer(details))
    if found is None:
        raise Missing
    return topic_details(found, call.size, core.decode_partition_descriptions(_answer(described)))


@routes.add(
    "PUT",
    "/streams/{stream_id}/topics/{topic_id}",
    tag="topics",
    body=UpdateTopicBody,
    success=204,
    errors=(400, 403, 404, 409),
)
async def update_topic(call: Call[Nothing, UpdateTopicBody]) -> None:
    """Replace all settings of a topic."""
    stream, topic_id, body = call.stream, call.topic, call.body
    _check(body)
    await call.ask(
        core.encode_update_topic(
            stream=stream,
            topic=topic_id,
            name=body.name,
            compression=body.compression_algorithm,
            message_expiry_micros=_expiry_micros(body.message_expiry),
            max_size_bytes=_size_bytes(body.max_topic_size),
            replication_factor=body.replication_factor or 0,
        )
    )


@routes.add("DELETE", "/streams/{stream_id}/topics/{topic_id}", tag="topics", success=204, errors=(400, 403, 404))
async def delete_topic(call: Call[Nothing, Nothing]) -> None:
    """Delete a topic with its messages."""
    await call.ask(core.encode_delete_topic(stream=call.stream, topic=call.topic))


@routes.add("DELETE", "/streams/{stream_id}/topics/{topic_id}/purge", tag="topics", success=204, errors=(400, 403, 404))
async def purge_topic(call: Call[Nothing, Nothing]) -> None:
    """Drop the messages and stored offsets of a topic."""
    await call.ask(core.encode_purge_topic(stream=call.stream, topic=call.topic))


def _answer(result: bytes | BaseException) -> bytes:
    if isinstance(result, BaseException):
        raise result
    return result


def _check(body: UpdateTopicBody) -> None:
    if len(body.name.encode()) not in NAME_BYTES:
        raise Refused(Status.INVALID_TOPIC_NAME)
    if body.replication_factor is not None and not 1 <= body.replication_factor <= REPLICATION_FACTOR_MAX:
        raise Refused(Status.INVALID_REPLICATION_FACTOR)


def _size_bytes(size: str | int) -> int:
    if isinstance(size, int):
        return size
    try:
        return size_bytes(size)
    except ValueError as error:
        # The end of a pattern is also before a last line break.
        raise Rejected(422, f"The body does not have the expected form: {error} - at `$.max_topic_size`.") from error


def _expiry_micros(expiry: int | str) -> int:
    # JavaScript cannot write the number.
    return expiry if isinstance(expiry, int) else U64_MAX
