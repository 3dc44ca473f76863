"""Lag of consumers and consumer groups."""

from __future__ import annotations

import headrace_core as core
from headrace_gateway.http.call import Call, ask
from headrace_gateway.http.models.groups import GroupLagAnswer, LagAnswer, group_lag_answer, lag_answer
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Missing, Refused
from headrace_gateway.observability.group_lags import lags_of_groups
from headrace_gateway.observability.lag import NotToBeSeen, lag_of_consumer, lag_of_group
from headrace_proto.errors import Status

routes = Routes()

_PATH = "/streams/{stream_id}/topics/{topic_id}"


@routes.add("GET", "/consumer-groups", tag="consumer groups", answer=list[GroupLagAnswer], errors=(403,))
async def get_all_consumer_groups(call: Call[Nothing, Nothing]) -> list[GroupLagAnswer]:
    """All consumer groups of all topics that the caller may read, with their lag.

    Needs the permission to list the streams. The lag of at most `http.metrics.lag_partitions` partitions is computed;
    that of further groups is null.
    """
    limit = call.services.config.metrics.lag_partitions
    async with call.services.sessions.of(call.user_id) as session:
        streams = core.decode_streams(await ask(session, core.encode_get_streams()))
        found = lags_of_groups(session, streams, partitions_max=limit, clock=call.services.clock)
        return [group_lag_answer(group, lag) async for group, lag in found]


@routes.add(
    "GET",
    _PATH + "/consumer-groups/{group_id}/lag",
    tag="consumer groups",
    answer=LagAnswer,
    errors=(400, 403, 404),
)
async def get_consumer_group_lag(call: Call[Nothing, Nothing]) -> LagAnswer:
    """Lag of a consumer group, in messages and in seconds.

    Computed from the stored offsets. Needs the permission to read the topic.
    """
    stream, topic, group = call.stream, call.topic, call.group
    async with call.services.sessions.of(call.user_id) as session:
        try:
            return lag_answer(await lag_of_group(session, stream, topic, group, now_micros=call.services.clock()))
        except NotToBeSeen as error:
            raise _refusal(error) from error


@routes.add("GET", _PATH + "/consumers/{consumer_id}/lag", tag="offsets", answer=LagAnswer, errors=(400, 403, 404))
async def get_consumer_lag(call: Call[Nothing, Nothing]) -> LagAnswer:
    """Lag of a single consumer, in messages and in seconds.

    Computed from its stored offsets: without a stored offset all messages of the partition count. Needs the permission
    to read the topic.
    """
    stream, topic, consumer = call.stream, call.topic, call.identifier("consumer_id")
    async with call.services.sessions.of(call.user_id) as session:
        try:
            return lag_answer(await lag_of_consumer(session, stream, topic, consumer, now_micros=call.services.clock()))
        except NotToBeSeen as error:
            raise _refusal(error) from error


def _refusal(error: NotToBeSeen) -> Missing | Refused:
    return Missing() if error.status == Status.RESOURCE_NOT_FOUND else Refused(error.status)
