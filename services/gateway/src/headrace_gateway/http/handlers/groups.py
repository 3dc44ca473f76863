"""Consumer groups."""

from __future__ import annotations

from aiohttp import web

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.lists import page
from headrace_gateway.http.models.catalog import Page
from headrace_gateway.http.models.groups import CreateGroupBody, GroupAnswer, GroupDetails, group, group_details
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Missing, Refused
from headrace_proto.errors import Status
from headrace_proto.limits import NAME_BYTES

routes = Routes()

_PATH = "/streams/{stream_id}/topics/{topic_id}/consumer-groups"


@routes.add(
    "GET", _PATH, tag="consumer groups", query=Page, answer=list[GroupAnswer], errors=(400, 403, 404), has_etag=True
)
async def get_consumer_groups(call: Call[Page, Nothing]) -> web.Response:
    """All consumer groups of a topic."""
    groups = core.decode_consumer_groups(
        await call.ask(core.encode_get_consumer_groups(stream=call.stream, topic=call.topic))
    )
    return page(call, [group(record) for record in groups], lambda found: found.id)


@routes.add(
    "POST",
    _PATH,
    tag="consumer groups",
    body=CreateGroupBody,
    answer=GroupDetails,
    success=201,
    errors=(400, 403, 404, 409),
)
async def create_consumer_group(call: Call[Nothing, CreateGroupBody]) -> GroupDetails:
    """Create a consumer group."""
    if len(call.body.name.encode()) not in NAME_BYTES:
        raise Refused(Status.INVALID_CONSUMER_GROUP_NAME)
    created = core.decode_consumer_group(
        await call.ask(core.encode_create_consumer_group(stream=call.stream, topic=call.topic, name=call.body.name))
    )
    if created is None:
        raise Missing
    return group_details(created)


@routes.add("GET", _PATH + "/{group_id}", tag="consumer groups", answer=GroupDetails, errors=(400, 403, 404))
async def get_consumer_group(call: Call[Nothing, Nothing]) -> GroupDetails:
    """One consumer group with its members, and the partitions that they own."""
    found = core.decode_consumer_group(
        await call.ask(core.encode_get_consumer_group(stream=call.stream, topic=call.topic, group=call.group))
    )
    if found is None:
        raise Missing
    return group_details(found)


@routes.add("DELETE", _PATH + "/{group_id}", tag="consumer groups", success=204, errors=(400, 403, 404))
async def delete_consumer_group(call: Call[Nothing, Nothing]) -> None:
    """Delete a consumer group with its stored offsets."""
    await call.ask(core.encode_delete_consumer_group(stream=call.stream, topic=call.topic, group=call.group))
