"""Sending and reading messages."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Final

from aiohttp import web
from msgspec import UNSET

import headrace_core as core
from headrace_gateway.http.call import Call, identifier
from headrace_gateway.http.models.messages import POLLED, SEND_BODY, BatchQuery, PollQuery
from headrace_gateway.http.polls import LARGE_BYTES, polled_answer, polled_in_turn
from headrace_gateway.http.routes import JSON, Nothing, Raw, Routes
from headrace_gateway.json_api.errors import Rejected
from headrace_gateway.json_api.memory import MESSAGE_BYTES

routes = Routes()

LINES: Final = "application/x-ndjson"
BYTES: Final = "application/octet-stream"
# A batch without its messages, with the longest names and key.
_EMPTY_BATCH_BYTES: Final = 1024
_KEY_HEADER: Final = "Idempotency-Key"


@routes.add(
    "POST",
    "/streams/{stream_id}/topics/{topic_id}/messages",
    tag="messages",
    query=BatchQuery,
    body=bytes,
    body_schemas={
        JSON: SEND_BODY,
        LINES: {"type": "string", "description": "Each line is JSON, and the payload of one message."},
        BYTES: {"type": "string", "format": "binary", "minLength": 1, "description": "The payload of one message."},
    },
    headers={
        _KEY_HEADER: {
            "type": "string",
            "pattern": "^[!-~]{1,255}$",
            "description": "Key of the batch; a batch with a remembered key is not appended again.",
        }
    },
    success=201,
    errors=(400, 403, 404, 409, 422),
)
async def send_messages(call: Call[BatchQuery, bytes]) -> web.Response:
    """Append a batch of messages to one partition.

    As JSON objects with all properties of a message; as lines of JSON, each of them the payload of a message; or as the
    bytes of one payload. `partition_id` and `key` are for the latter two.
    """
    path = f"{call.request.match_info['stream_id']}\0{call.request.match_info['topic_id']}"
    code, payload = await _encoded(call)

    async def append() -> None:
        await call.ask((code, payload))

    key = call.request.headers.get(_KEY_HEADER)
    if key is None:
        await append()
        return web.Response(status=201)
    if not 1 <= len(key) <= 255 or any(not "!" <= character <= "~" for character in key):
        raise Rejected(400, f"{_KEY_HEADER} has 1 to 255 visible characters.")
    # These determine the meaning of the body.
    media_type = call.request.content_type.encode(errors="surrogateescape")
    call.held.grow(len(call.body))
    batch = b"\0".join((media_type, call.request.query_string.encode(), call.body))
    repeated = await call.services.idempotency.once((call.user_id, path, key), batch, append)
    return web.Response(status=201, headers={"Idempotent-Replayed": "true"} if repeated else {})


@routes.add(
    "GET",
    "/streams/{stream_id}/topics/{topic_id}/messages",
    tag="messages",
    query=PollQuery,
    answer=Raw(JSON, POLLED),
    errors=(400, 403, 404),
)
async def poll_messages(call: Call[PollQuery, Nothing]) -> web.Response:
    """Read messages of one partition, as a single consumer.

    With `wait_ms` the request waits for messages if there are none, or less than `min_bytes` of them. The server limits
    the count and the size. `current_offset` is the offset of the last message in the partition, and 0 if there is none.
    `gap` names messages that retention has deleted before they could be read.
    """
    query = call.query
    consumer = identifier(query.consumer_id, "consumer_id")
    wait_micros = query.wait_ms * 1000

    def poll(wait_micros: int) -> tuple[int, bytes]:
        return core.encode_wait_messages(
            stream=call.stream,
            topic=call.topic,
            consumer=consumer,
            partition=query.partition_id,
            strategy=query.kind,
            value=query.value,
            count=min(query.count, call.services.config.max_poll_count),
            minimum_bytes=query.min_bytes,
            maximum_wait_micros=wait_micros,
            names_gap=True,
        )

    def commit(partition: int, offset: int) -> tuple[int, bytes]:
        return core.encode_store_consumer_offset(
            stream=call.stream, topic=call.topic, consumer=consumer, partition=partition, offset=offset
        )

    async def answer(ask: Callable[[tuple[int, bytes]], Awaitable[bytes]]) -> web.Response:
        as_text = query.numbers == "text"
        if query.auto_commit and query.kind == "next":
            place = call.user_id, consumer, query.partition_id
            return await polled_in_turn(
                call, ask, poll, place, wait_micros=wait_micros, commit=commit, numbers_as_text=as_text
            )
        return await polled_answer(
            call, ask, poll(wait_micros), commit=commit if query.auto_commit else None, numbers_as_text=as_text
        )

    if query.wait_ms == 0:
        return await answer(call.ask)
    waits = call.services.waits
    async with waits.session(call.user_id) as session:
        return await answer(lambda command: waits.ask(call.request, session, command, call.admit))


async def _flush(call: Call[Nothing, Nothing]) -> None:
    text = call.request.match_info["fsync"]
    fsync = text.removeprefix("fsync=")
    if fsync not in {"true", "false"}:
        raise Rejected(400, f"Invalid URL: the last part must be true or false, not {text[:64]!r}.")
    await call.ask(
        core.encode_flush_unsaved_buffer(
            stream=call.stream, topic=call.topic, partition=call.number("partition_id"), fsync=fsync == "true"
        )
    )


_FLUSH_PATH: Final = "/streams/{stream_id}/topics/{topic_id}/messages/flush/{partition_id}/{fsync}"


@routes.add("GET", _FLUSH_PATH, tag="messages", errors=(400, 403, 404))
async def flush_unsaved_buffer(call: Call[Nothing, Nothing]) -> None:
    """Write the buffered messages of a partition; `true` at the end of the path also syncs them to the device.

    For existing clients, which expect this method. `fsync=true` is the same as `true`.
    """
    await _flush(call)


@routes.add("POST", _FLUSH_PATH, tag="messages", errors=(400, 403, 404))
async def flush_unsaved_buffer_by_post(call: Call[Nothing, Nothing]) -> None:
    """Write the buffered messages of a partition; `true` at the end of the path also syncs them to the device."""
    await _flush(call)


async def _encoded(call: Call[BatchQuery, bytes]) -> tuple[int, bytes]:
    stream, topic, body = call.stream, call.topic, call.body
    size_bytes_max = _batch_bytes_max(call.services.config.max_request_size.bytes)
    now = call.services.clock()
    media_type = call.request.content_type
    is_large = len(body) >= LARGE_BYTES

    def estimate() -> int:
        return min(_estimated_bytes(body, media_type), size_bytes_max)

    def encode() -> tuple[int, bytes]:
        if media_type == JSON or media_type.endswith("+json"):
            return core.encode_send_messages_json(
                body, stream=stream, topic=topic, origin_timestamp_micros=now, size_bytes_max=size_bytes_max
            )
        partition = call.query.partition_id if call.query.partition_id is not UNSET else None
        key = call.query.key if call.query.key is not UNSET else None
        if partition is not None and key is not None:
            raise Rejected(400, "Invalid URL: partition_id and key exclude each other.")
        key_bytes = key.encode() if key is not None else None
        if media_type == LINES:
            return core.encode_send_messages_lines(
                body,
                stream=stream,
                topic=topic,
                partition=partition,
                key=key_bytes,
                origin_timestamp_micros=now,
                size_bytes_max=size_bytes_max,
            )
        return core.encode_send_messages(
            [(0, body, b"")],
            stream=stream,
            topic=topic,
            partition=partition,
            key=key_bytes,
            origin_timestamp_micros=now,
            size_bytes_max=size_bytes_max,
        )

    # Bodies of short lines become much larger batches, which are held until the partition has answered.
    call.held.resize(len(body) + (await asyncio.to_thread(estimate) if is_large else estimate()))
    code, payload = await asyncio.to_thread(encode) if is_large else encode()
    call.held.resize(len(body) + len(payload))
    return code, payload


def _estimated_bytes(body: bytes, media_type: str) -> int:
    """Return the size of a batch decoded from a body, or somewhat more."""
    if media_type == BYTES:
        count = 1
    elif media_type == LINES:
        count = body.count(b"\n") + 1
    else:
        # Each message is an object.
        count = body.count(b"{")
    return len(body) + count * MESSAGE_BYTES + _EMPTY_BATCH_BYTES


def _batch_bytes_max(body_bytes_max: int) -> int:
    """Return the maximum size of a batch decoded from a body.

    A line of one character becomes a message of 81 bytes, including its index entry in the batch.
    """
    return 64 * body_bytes_max
