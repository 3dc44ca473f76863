"""Partitions and their segments."""

from __future__ import annotations

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.models.catalog import PartitionsBody, PartitionsQuery, SegmentsQuery
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Refused
from headrace_proto.errors import Status
from headrace_proto.limits import PARTITIONS_PER_COMMAND_MAX

routes = Routes()


@routes.add(
    "POST",
    "/streams/{stream_id}/topics/{topic_id}/partitions",
    tag="partitions",
    body=PartitionsBody,
    success=201,
    errors=(400, 403, 404),
)
async def create_partitions(call: Call[Nothing, PartitionsBody]) -> None:
    """Append partitions to a topic."""
    await call.ask(
        core.encode_create_partitions(
            stream=call.stream, topic=call.topic, partitions_count=_checked(call.body.partitions_count)
        )
    )


@routes.add(
    "DELETE",
    "/streams/{stream_id}/topics/{topic_id}/partitions",
    tag="partitions",
    query=PartitionsQuery,
    success=204,
    errors=(400, 403, 404),
)
async def delete_partitions(call: Call[PartitionsQuery, Nothing]) -> None:
    """Delete the partitions of a topic with the highest ids, and their messages."""
    await call.ask(
        core.encode_delete_partitions(
            stream=call.stream, topic=call.topic, partitions_count=_checked(call.query.partitions_count)
        )
    )


@routes.add(
    "DELETE",
    "/streams/{stream_id}/topics/{topic_id}/partitions/{partition_id}",
    tag="partitions",
    query=SegmentsQuery,
    success=204,
    errors=(400, 403, 404),
)
async def delete_segments(call: Call[SegmentsQuery, Nothing]) -> None:
    """Delete the oldest sealed segments of a partition.

    Segments that a consumer with a stored offset has not read yet are kept, and so is the active segment.
    """
    await call.ask(
        core.encode_delete_segments(
            stream=call.stream,
            topic=call.topic,
            partition=call.number("partition_id"),
            segments_count=call.query.segments_count,
        )
    )


def _checked(partitions_count: int) -> int:
    if not 1 <= partitions_count <= PARTITIONS_PER_COMMAND_MAX:
        raise Refused(Status.TOO_MANY_PARTITIONS)
    return partitions_count
