"""Quotas of users and topics."""

from __future__ import annotations

import headrace_core as core
from headrace_gateway.http.call import Call
from headrace_gateway.http.models.quotas import (
    Quotas,
    TopicQuota,
    TopicQuotaBody,
    UserQuota,
    UserQuotaBody,
    quotas,
    topic_quota,
    user_quota,
)
from headrace_gateway.http.routes import Nothing, Routes
from headrace_gateway.http.sizes import size_bytes
from headrace_gateway.json_api.errors import Missing, Refused, Rejected
from headrace_proto.errors import Status
from headrace_proto.limits import QUOTA_RATE_BYTES_MIN

routes = Routes()

_OF_USER = "/users/{user_id}/quota"
_OF_TOPIC = "/streams/{stream_id}/topics/{topic_id}/quota"


@routes.add("GET", "/quotas", tag="quotas", answer=Quotas)
async def get_quotas(call: Call[Nothing, Nothing]) -> Quotas:
    """All quotas of the users and topics that the caller may read. Users without a permission see their own."""
    return quotas(core.decode_quotas(await call.ask(core.encode_get_quotas())))


@routes.add("GET", _OF_USER, tag="quotas", answer=UserQuota, errors=(400, 403, 404))
async def get_user_quota(call: Call[Nothing, Nothing]) -> UserQuota:
    """The quota of a user. Users need no permission to see their own."""
    answer = await call.ask(core.encode_get_user_quota(user=call.identifier("user_id")))
    return user_quota(_found(core.decode_quota(answer)))


@routes.add("PUT", _OF_USER, tag="quotas", body=UserQuotaBody, success=204, errors=(400, 403, 404))
async def set_user_quota(call: Call[Nothing, UserQuotaBody]) -> None:
    """Replace the quota of a user. Root has none, and only others change the quota of a user."""
    body = call.body
    sent, read = _rates(body)
    await call.ask(
        core.encode_set_user_quota(
            user=call.identifier("user_id"),
            sent_bytes_per_second=sent,
            read_bytes_per_second=read,
            connections=body.connections,
        )
    )


@routes.add("DELETE", _OF_USER, tag="quotas", success=204, errors=(400, 403, 404))
async def delete_user_quota(call: Call[Nothing, Nothing]) -> None:
    """Remove the quota of a user, if there is one."""
    await call.ask(core.encode_set_user_quota(user=call.identifier("user_id")))


@routes.add("GET", _OF_TOPIC, tag="quotas", answer=TopicQuota, errors=(400, 403, 404))
async def get_topic_quota(call: Call[Nothing, Nothing]) -> TopicQuota:
    """The quota of a topic."""
    answer = await call.ask(core.encode_get_topic_quota(stream=call.stream, topic=call.topic))
    return topic_quota(_found(core.decode_quota(answer)))


@routes.add("PUT", _OF_TOPIC, tag="quotas", body=TopicQuotaBody, success=204, errors=(400, 403, 404))
async def set_topic_quota(call: Call[Nothing, TopicQuotaBody]) -> None:
    """Replace the quota of a topic, which all of its users share."""
    body = call.body
    sent, read = _rates(body)
    await call.ask(
        core.encode_set_topic_quota(
            stream=call.stream,
            topic=call.topic,
            sent_bytes_per_second=sent,
            read_bytes_per_second=read,
            held_bytes=_bytes(body.held_bytes, "held_bytes"),
        )
    )


@routes.add("DELETE", _OF_TOPIC, tag="quotas", success=204, errors=(400, 403, 404))
async def delete_topic_quota(call: Call[Nothing, Nothing]) -> None:
    """Remove the quota of a topic, if there is one."""
    await call.ask(core.encode_set_topic_quota(stream=call.stream, topic=call.topic))


def _found(quota: core.Quota | None) -> core.Quota:
    if quota is None:
        raise Missing
    return quota


def _rates(body: UserQuotaBody | TopicQuotaBody) -> tuple[int, int]:
    """Return the rates for sending and for reading."""
    sent = _bytes(body.sent_bytes_per_second, "sent_bytes_per_second")
    read = _bytes(body.read_bytes_per_second, "read_bytes_per_second")
    for field, rate in (("sent_bytes_per_second", sent), ("read_bytes_per_second", read)):
        if 0 < rate < QUOTA_RATE_BYTES_MIN:
            reason = f"A rate is 0 for no limit, or at least {QUOTA_RATE_BYTES_MIN}."
            raise Refused(Status.INVALID_COMMAND, reason, field=field)
    return sent, read


def _bytes(size: int | str, field: str) -> int:
    if isinstance(size, int):
        return size
    try:
        return size_bytes(size)
    except ValueError as error:
        # The end of a pattern is also before a last line break.
        raise Rejected(422, f"The body does not have the expected form: {error} - at `$.{field}`.") from error
