"""Stored offsets of single consumers."""

from __future__ import annotations

from typing import Final

import headrace_core as core
from headrace_gateway.http.call import Call, identifier
from headrace_gateway.http.models.messages import (
    ConsumerBody,
    OffsetAnswer,
    OffsetOfPathQuery,
    OffsetQuery,
    StoreOffsetBody,
)
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Missing, Refused
from headrace_proto.errors import Status

routes = Routes()

_NUMBER_BYTES: Final = 4
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
    await call.ask(
        core.encode_store_consumer_offset(
            stream=call.stream,
            topic=call.topic,
            consumer=_consumer(body),
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


def _consumer(body: StoreOffsetBody) -> int | str:
    if not isinstance(body.consumer, ConsumerBody):
        if isinstance(body.consumer_id, str):
            return identifier(body.consumer_id, "consumer_id")
        return body.consumer_id if isinstance(body.consumer_id, int) else 1
    if isinstance(body.consumer_id, int | str):
        raise _refused("consumer_id", "The consumer is named twice: give `consumer` or `consumer_id`.")
    if body.consumer.type == "consumer_group":
        raise _refused("consumer.type", "Offsets of a group are stored by its members.")
    value = body.consumer.id.value
    if body.consumer.id.kind == "string":
        return identifier(value.decode(errors="replace"), "consumer.id.value")
    if len(value) != _NUMBER_BYTES:
        raise _refused("consumer.id.value", f"A number has {_NUMBER_BYTES} bytes, not {len(value)}.")
    return int.from_bytes(value, "little")


def _refused(field: str, reason: str) -> Refused:
    return Refused(Status.INVALID_IDENTIFIER, reason, field=field)
