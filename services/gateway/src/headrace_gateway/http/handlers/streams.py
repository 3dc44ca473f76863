"""Streams."""

from __future__ import annotations

from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.lists import page
from headrace_gateway.http.models.catalog import (
    CreateStreamBody,
    NameBody,
    PageWithSizes,
    StreamAnswer,
    StreamDetails,
    stream,
    stream_details,
)
from headrace_gateway.http.models.system import SizesOnly
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Missing, Refused
from headrace_proto.errors import Status
from headrace_proto.limits import NAME_BYTES

routes = Routes()


@routes.add(
    "GET", "/streams", tag="streams", query=PageWithSizes, answer=list[StreamAnswer], errors=(403,), has_etag=True
)
async def get_streams(call: Call[PageWithSizes, Nothing]) -> web.Response:
    """All streams."""
    streams = core.decode_streams(await call.ask(core.encode_get_streams()))
    return page(call, [stream(record, call.size) for record in streams], lambda found: found.id)


@routes.add("POST", "/streams", tag="streams", body=CreateStreamBody, answer=StreamDetails, errors=(400, 403, 409))
async def create_stream(call: Call[Nothing, CreateStreamBody]) -> StreamDetails:
    """Create a stream."""
    _check_name(call.body.name)
    created = core.decode_stream(await call.ask(core.encode_create_stream(name=call.body.name)))
    if created is None:
        raise Missing
    return stream_details(created, call.size)


@routes.add(
    "GET",
    "/streams/{stream_id}",
    tag="streams",
    query=SizesOnly,
    answer=StreamDetails,
    errors=(400, 403, 404),
    has_etag=True,
)
async def get_stream(call: Call[SizesOnly, Nothing]) -> StreamDetails:
    """One stream with its topics."""
    found = core.decode_stream(await call.ask(core.encode_get_stream(stream=call.stream)))
    if found is None:
        raise Missing
    return stream_details(found, call.size)


@routes.add("PUT", "/streams/{stream_id}", tag="streams", body=NameBody, success=204, errors=(400, 403, 404, 409))
async def update_stream(call: Call[Nothing, NameBody]) -> None:
    """Rename a stream."""
    stream_id = call.stream
    _check_name(call.body.name)
    await call.ask(core.encode_update_stream(stream=stream_id, name=call.body.name))


@routes.add("DELETE", "/streams/{stream_id}", tag="streams", success=204, errors=(400, 403, 404))
async def delete_stream(call: Call[Nothing, Nothing]) -> None:
    """Delete a stream with everything in it."""
    await call.ask(core.encode_delete_stream(stream=call.stream))


@routes.add("DELETE", "/streams/{stream_id}/purge", tag="streams", success=204, errors=(400, 403, 404))
async def purge_stream(call: Call[Nothing, Nothing]) -> None:
    """Drop the messages and stored offsets of every topic of a stream."""
    await call.ask(core.encode_purge_stream(stream=call.stream))


def _check_name(name: str) -> None:
    if len(name.encode()) not in NAME_BYTES:
        raise Refused(Status.INVALID_STREAM_NAME)
