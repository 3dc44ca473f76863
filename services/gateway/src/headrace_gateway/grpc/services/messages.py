"""Appending and polling of messages."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import suppress
from typing import Final

import headrace_core as core
from headrace_chassis.grpc.status import Refused
from headrace_gateway.grpc.calls import SMALL_BYTES, Caller
from headrace_gateway.grpc.conversions import encoded_headers, gap_of, identifier, message
from headrace_gateway.grpc.start_positions import consumer_of, start_of
from headrace_gateway.grpc.streams import Streams
from headrace_node.connections.sessions import Session
from headrace_proto.errors import Status
from headrace_proto.gateway import v1

_COUNT_BY_DEFAULT: Final = 1000
# Maximum number of batches of one stream in flight.
_IN_FLIGHT_MAX: Final = 16
_ID_BYTES: Final = 16


class Messages:
    """``headrace.gateway.v1.Messages``."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    async def produce(self, request: v1.ProduceRequest, caller: Caller) -> v1.ProduceResponse:
        await caller.execute(await _encoded(request))
        return v1.ProduceResponse()

    async def produce_stream(
        self, requests: AsyncIterator[v1.ProduceRequest], caller: Caller
    ) -> AsyncIterator[v1.ProduceResponse]:
        async with self._streams.place(caller.user_id), self._streams.session(caller.user_id) as session:
            in_flight: asyncio.Queue[Exception | None] = asyncio.Queue(_IN_FLIGHT_MAX)
            sending = asyncio.create_task(_send_all(requests, session, in_flight), name="grpc-produce")
            try:
                while (sent := await in_flight.get()) is None:
                    response = await session.receive()
                    if response.status != Status.OK:
                        raise Refused(response.status, response.explanation)
                    yield v1.ProduceResponse()
                if not isinstance(sent, _EndOfStream):
                    raise sent
            finally:
                sending.cancel()
                with suppress(asyncio.CancelledError):
                    await sending

    async def poll(self, request: v1.PollRequest, caller: Caller) -> v1.PollResponse:
        count = request.count or _COUNT_BY_DEFAULT
        consumer, start = consumer_of(request.consumer), start_of(request.start, count)
        if start.strategy == "end":
            raise Refused(
                Status.INVALID_COMMAND, "start: no messages follow the newest one; subscribe to wait for new messages"
            )
        command = core.encode_wait_messages(
            stream=identifier(request.stream, "stream"),
            topic=identifier(request.topic, "topic"),
            consumer=consumer.name,
            is_group=consumer.is_group,
            partition=request.partition_id,
            strategy=start.strategy,
            value=start.value,
            count=count,
            auto_commit=request.auto_commit,
            maximum_wait_micros=0,
            names_gap=True,
        )
        payload = await caller.execute(command)
        if len(payload) <= SMALL_BYTES:
            return _polled(payload)
        return await asyncio.to_thread(_polled, payload)

    async def get_offset(self, request: v1.GetOffsetRequest, caller: Caller) -> v1.GetOffsetResponse:
        consumer = consumer_of(request.consumer)
        command = core.encode_get_consumer_offset(
            stream=identifier(request.stream, "stream"),
            topic=identifier(request.topic, "topic"),
            consumer=consumer.name,
            is_group=consumer.is_group,
            partition=request.partition_id,
        )
        found = core.decode_consumer_offset(await caller.find(command))
        if found is None:
            raise Refused(Status.CONSUMER_OFFSET_NOT_FOUND)
        return v1.GetOffsetResponse(
            partition_id=found.partition_id, current_offset=found.current_offset, stored_offset=found.stored_offset
        )

    async def store_offset(self, request: v1.StoreOffsetRequest, caller: Caller) -> v1.StoreOffsetResponse:
        consumer = consumer_of(request.consumer)
        command = core.encode_store_consumer_offset(
            stream=identifier(request.stream, "stream"),
            topic=identifier(request.topic, "topic"),
            offset=request.offset,
            consumer=consumer.name,
            is_group=consumer.is_group,
            partition=request.partition_id,
        )
        await caller.execute(command)
        return v1.StoreOffsetResponse()

    async def delete_offset(self, request: v1.DeleteOffsetRequest, caller: Caller) -> v1.DeleteOffsetResponse:
        consumer = consumer_of(request.consumer)
        command = core.encode_delete_consumer_offset(
            stream=identifier(request.stream, "stream"),
            topic=identifier(request.topic, "topic"),
            consumer=consumer.name,
            is_group=consumer.is_group,
            partition=request.partition_id,
        )
        await caller.execute(command)
        return v1.DeleteOffsetResponse()

    async def flush(self, request: v1.FlushRequest, caller: Caller) -> v1.FlushResponse:
        command = core.encode_flush_unsaved_buffer(
            stream=identifier(request.stream, "stream"),
            topic=identifier(request.topic, "topic"),
            partition=request.partition_id,
            fsync=request.sync,
        )
        await caller.execute(command)
        return v1.FlushResponse()


class _EndOfStream(Exception):
    """End of the request stream."""


async def _send_all(
    requests: AsyncIterator[v1.ProduceRequest], session: Session, in_flight: asyncio.Queue[Exception | None]
) -> None:
    """Send all requests; put None into the queue for each one, and finally the exception that ended the loop."""
    end: Exception = _EndOfStream()
    try:
        async for request in requests:
            await session.send(*await _encoded(request))
            await in_flight.put(None)
    except Exception as error:  # noqa: BLE001 - it is raised where the answers before it have been received
        end = error
    await in_flight.put(end)


async def _encoded(request: v1.ProduceRequest) -> tuple[int, bytes]:
    if request.ByteSize() <= SMALL_BYTES:
        return _send_messages(request)
    return await asyncio.to_thread(_send_messages, request)


def _send_messages(request: v1.ProduceRequest) -> tuple[int, bytes]:
    partitioning = request.partitioning
    kind = partitioning.WhichOneof("kind")
    return core.encode_send_messages(
        [
            (_message_id(new.id), new.payload, encoded_headers(new.headers) if new.headers else b"")
            for new in request.messages
        ],
        stream=identifier(request.stream, "stream"),
        topic=identifier(request.topic, "topic"),
        partition=partitioning.partition_id if kind == "partition_id" else None,
        key=partitioning.key if kind == "key" else None,
        origin_timestamp_micros=request.origin_timestamp_micros,
    )


def _polled(payload: bytes) -> v1.PollResponse:
    polled = core.decode_polled(payload, names_gap=True)
    return v1.PollResponse(
        partition_id=polled.partition_id,
        current_offset=polled.current_offset,
        messages=map(message, polled),
        gap=gap_of(polled),
    )


def _message_id(encoded: bytes) -> int:
    if len(encoded) not in {0, _ID_BYTES}:
        raise Refused(Status.INVALID_FORMAT, f"an id has 0 or {_ID_BYTES} bytes, not {len(encoded)}")
    return int.from_bytes(encoded, "little")
