"""Lag of consumers and consumer groups."""

from __future__ import annotations

from headrace_gateway.http.call import Call
from headrace_gateway.http.models.groups import LagAnswer, lag_answer
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.json_api.errors import Missing, Refused
from headrace_gateway.observability.lag import NotToBeSeen, lag_of_consumer, lag_of_group
from headrace_proto.errors import Status

routes = Routes()

_PATH = "/streams/{stream_id}/topics/{topic_id}"


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
