"""Stored offsets of single consumers."""

from __future__ import annotations

import headrace_core as core
from headrace_gateway.http.call import Call, identifier
from headrace_gateway.http.models.messages import OffsetAnswer, OffsetOfPathQuery, OffsetQuery, StoreOffsetBody
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Missing

routes = Routes()

_PATH = "/streams/{stream_id}/topics/{topic_id}/consumer-offsets"


@routes.add("GET", _PATH, tag="offsets", query=OffsetQuery, answer=OffsetAnswer, errors=(400, 403, 404))
async def get_consumer_offset(call: Call[OffsetQuery, Nothing]) -> OffsetAnswer:
    """The stored offset of a consumer."""
    offset = core.decode_consumer_offset(
        await call.ask(
            core.encode_get_consumer_offset(
                stream=call.stream,
                topic=call.topic,
                consumer=identifier(call.query.consumer_id, "consumer_id"),
                partition=call.query.partition_id,
            )
        )
    )
    if offset is None:
        raise Missing
    return OffsetAnswer(offset.partition_id, offset.current_offset, offset.stored_offset)


@routes.add("PUT", _PATH, tag="offsets", body=StoreOffsetBody, success=204, errors=(400, 403, 404))
async def store_consumer_offset(call: Call[Nothing, StoreOffsetBody]) -> None:
    """Store the offset of the last message that a consumer has processed."""
    body = call.body
    consumer = body.consumer_id if isinstance(body.consumer_id, int) else identifier(body.consumer_id, "consumer_id")
    await call.ask(
        core.encode_store_consumer_offset(
            stream=call.stream,
            topic=call.topic,
            consumer=consumer,
            partition=body.partition_id or 0,
            offset=body.offset,
        )
    )


@routes.add(
    "DELETE", _PATH + "/{consumer_id}", tag="offsets", query=OffsetOfPathQuery, success=204, errors=(400, 403, 404)
)
async def delete_consumer_offset(call: Call[OffsetOfPathQuery, Nothing]) -> None:
    """Delete the stored offset of a consumer."""
    await call.ask(
        core.encode_delete_consumer_offset(
            stream=call.stream,
            topic=call.topic,
            consumer=call.identifier("consumer_id"),
            partition=call.query.partition_id,
        )
    )
