"""Conversion of a client's messages to the append command."""

from __future__ import annotations

import asyncio
import base64
from typing import Final

import msgspec

import headrace_core as core
from headrace_core import CodecError
from headrace_gateway.json_api.errors import Refused
from headrace_gateway.push.forms import Partitioning, Produce
from headrace_proto.errors import Status

SEND_MESSAGES: Final = 101
"""Code of the append command, whose payload a binary frame contains."""
# Below this size, a thread costs more than it saves.
_LARGE_BYTES: Final = 64 * 1024


async def encoded(request: Produce, *, now_micros: int, size_bytes_max: int) -> tuple[int, bytes]:
    """Return code and payload of the command.

    Args:
        request: Request of the client.
        now_micros: Timestamp of the messages.
        size_bytes_max: Maximum size of the command.

    Raises:
        Refused: Native code rejects the messages.
    """
    # The JSON form of the HTTP API, which native code decodes.
    body = msgspec.json.encode(
        {
            "partitioning": _partitioning(request.partitioning),
            "messages": [
                {"payload": message.payload, "id": message.id, "user_headers": message.headers}
                for message in request.messages
            ],
        }
    )

    def encode() -> tuple[int, bytes]:
        return core.encode_send_messages_json(
            body,
            stream=request.stream,
            topic=request.topic,
            origin_timestamp_micros=now_micros,
            size_bytes_max=size_bytes_max,
        )

    try:
        return encode() if len(body) < _LARGE_BYTES else await asyncio.to_thread(encode)
    except CodecError as error:
        field = error.field.replace("user_headers", "headers") if error.field is not None else None
        status = error.code if error.defect == "value" else Status.INVALID_COMMAND
        raise Refused(status, f"{error}.", field=field) from error


def _partitioning(partitioning: Partitioning) -> dict[str, str]:
    match partitioning.value:
        case int() as partition:
            value = partition.to_bytes(4, "little")
        case str() as key:
            value = key.encode()
        case None:
            value = b""
    return {"kind": partitioning.kind, "value": base64.b64encode(value).decode()}


def messages_count(payload: bytes) -> int:
    """Return the number of messages in an accepted command."""
    # The count is the last field of the metadata, which begin with their length.
    metadata_bytes = int.from_bytes(payload[:4], "little")
    return int.from_bytes(payload[metadata_bytes : 4 + metadata_bytes], "little")
