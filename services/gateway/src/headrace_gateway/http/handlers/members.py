"""Consuming as a member of a group, without a connection.

A member joins, polls, stores offsets and leaves; after a time without requests it is removed. Its name in the path is a
secret of the user who joined.
"""

from __future__ import annotations

from aiohttp import web
from msgspec import UNSET

import headrace_core as core
from headrace_gateway.http.call import Call, ask
from headrace_gateway.http.models.groups import GroupOffsetBody, GroupPollQuery, Joined
from headrace_gateway.http.models.messages import POLLED
from headrace_gateway.http.polls import polled_answer
from headrace_gateway.http.routes import JSON, Nothing, Raw, Routes

routes = Routes()

_PATH = "/streams/{stream_id}/topics/{topic_id}/consumer-groups/{group_id}/members"


@routes.add("POST", _PATH, tag="group members", answer=Joined, success=201, errors=(400, 403, 404, 429))
async def join_consumer_group(call: Call[Nothing, Nothing]) -> Joined:
    """Join a consumer group."""
    encoded = core.encode_join_consumer_group(stream=call.stream, topic=call.topic, group=call.group)
    name = await call.services.members.join(call.user_id, _group(call), encoded)
    return Joined(name, call.services.config.consumer_group.member_timeout.seconds)


@routes.add(
    "GET",
    _PATH + "/{member}/messages",
    tag="group members",
    query=GroupPollQuery,
    answer=Raw(JSON, POLLED),
    errors=(400, 403, 404),
)
async def poll_consumer_group(call: Call[GroupPollQuery, Nothing]) -> web.Response:
    """Read messages after the stored offset of a partition that the member owns.

    With `wait_ms` the request waits for messages if there are none. Without `partition_id` the partitions of the member
    take turns. An answer of all zeros means that the member owns no partition. A member that disconnects while it waits
    leaves the group.
    """
    query = call.query
    count = min(query.count, call.services.config.max_poll_count)
    encoded = core.encode_wait_messages(
        stream=call.stream,
        topic=call.topic,
        consumer=call.group,
        is_group=True,
        partition=query.partition_id if query.partition_id is not UNSET else None,
        count=count,
        maximum_wait_micros=query.wait_ms * 1000,
        names_gap=True,
    )

    def commit(partition: int, offset: int) -> tuple[int, bytes]:
        return core.encode_store_consumer_offset(
            stream=call.stream,
            topic=call.topic,
            consumer=call.group,
            is_group=True,
            partition=partition,
            offset=offset,
        )

    async with call.services.members.of(call.user_id, _group(call), call.request.match_info["member"]) as session:
        waits = call.services.waits
        return await polled_answer(
            call,
            lambda command: waits.ask(call.request, session, command, call.admit),
            encoded,
            commit=commit if query.auto_commit else None,
            numbers_as_text=query.numbers == "text",
        )


@routes.add(
    "PUT", _PATH + "/{member}/offsets", tag="group members", body=GroupOffsetBody, success=204, errors=(400, 403, 404)
)
async def store_group_offset(call: Call[Nothing, GroupOffsetBody]) -> None:
    """Store the offset of the last message of a partition that the member has processed."""
    encoded = core.encode_store_consumer_offset(
        stream=call.stream,
        topic=call.topic,
        consumer=call.group,
        is_group=True,
        partition=call.body.partition_id,
        offset=call.body.offset,
    )
    async with call.services.members.of(call.user_id, _group(call), call.request.match_info["member"]) as session:
        await ask(session, encoded)


@routes.add(
    "DELETE", _PATH + "/{member}/offsets/{partition_id}", tag="group members", success=204, errors=(400, 403, 404)
)
async def delete_group_offset(call: Call[Nothing, Nothing]) -> None:
    """Delete the stored offset of a partition of the member: the group starts again with its first message."""
    encoded = core.encode_delete_consumer_offset(
        stream=call.stream,
        topic=call.topic,
        consumer=call.group,
        is_group=True,
        partition=call.number("partition_id"),
    )
    async with call.services.members.of(call.user_id, _group(call), call.request.match_info["member"]) as session:
        await ask(session, encoded)


@routes.add("DELETE", _PATH + "/{member}", tag="group members", success=204, errors=(400, 403, 404))
async def leave_consumer_group(call: Call[Nothing, Nothing]) -> None:
    """Leave a consumer group."""
    encoded = core.encode_leave_consumer_group(stream=call.stream, topic=call.topic, group=call.group)
    await call.services.members.leave(call.user_id, _group(call), call.request.match_info["member"], encoded)


def _group(call: Call[Nothing, Nothing] | Call[GroupPollQuery, Nothing] | Call[Nothing, GroupOffsetBody]) -> str:
    return "\0".join(str(part) for part in (call.stream, call.topic, call.group))
