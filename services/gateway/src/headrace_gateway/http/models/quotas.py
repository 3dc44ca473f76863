"""Quotas of users and topics."""

from __future__ import annotations

from typing import Annotated

import msgspec
from msgspec import Meta
from msgspec.structs import asdict

import headrace_core as core
from headrace_gateway.json_api.numbers import U32, Body

_U64_SCHEMA = {"maximum": 2**64 - 1}
Rate = Annotated[
    int,
    Meta(ge=0, description="Bytes per second, at least 1024; 0 is no limit.", extra_json_schema=_U64_SCHEMA),
]
Held = Annotated[int, Meta(ge=0, description="Bytes; 0 is no limit.", extra_json_schema=_U64_SCHEMA)]
Connections = Annotated[U32, Meta(description="Connections at a time; 0 is no limit.")]


# A size as text, as for the maximum size of a topic.
SizeText = Annotated[str, Meta(pattern=r"^[0-9]{1,6}(\.[0-9]{1,3})?( ?([KMGT]i?)?B)?$")]
RateOrText = Annotated[
    Annotated[int, Meta(ge=0, extra_json_schema=_U64_SCHEMA)] | SizeText,
    Meta(description="Bytes per second, or a text such as `10 MiB`; at least 1 KiB, and 0 is no limit."),
]
HeldOrText = Annotated[
    Annotated[int, Meta(ge=0, extra_json_schema=_U64_SCHEMA)] | SizeText,
    Meta(description="Bytes, or a text such as `10 GiB`; 0 is no limit."),
]


class UserQuotaBody(Body, kw_only=True):
    """The whole quota of a user: what is left out has no limit."""

    sent_bytes_per_second: RateOrText = 0
    read_bytes_per_second: RateOrText = 0
    connections: Connections = 0


class TopicQuotaBody(Body, kw_only=True):
    """The whole quota of a topic: what is left out has no limit."""

    sent_bytes_per_second: RateOrText = 0
    read_bytes_per_second: RateOrText = 0
    held_bytes: HeldOrText = 0


class UserQuota(msgspec.Struct, kw_only=True):
    """Quota of a user, which all of its connections to a server share."""

    sent_bytes_per_second: Rate
    read_bytes_per_second: Rate
    connections: Connections


class TopicQuota(msgspec.Struct, kw_only=True):
    """Quota of a topic, which all of its users share."""

    sent_bytes_per_second: Rate
    read_bytes_per_second: Rate
    held_bytes: Held


class QuotaOfUser(UserQuota, kw_only=True):
    """Quota of a user, in the list of all."""

    user_id: U32
    username: str


class QuotaOfTopic(TopicQuota, kw_only=True):
    """Quota of a topic, in the list of all."""

    stream_id: U32
    stream: str
    topic_id: U32
    topic: str


class Quotas(msgspec.Struct, kw_only=True):
    """All quotas."""

    users: list[QuotaOfUser]
    topics: list[QuotaOfTopic]


def user_quota(quota: core.Quota) -> UserQuota:
    """Return the quota of a user."""
    return UserQuota(
        sent_bytes_per_second=quota.sent_bytes_per_second,
        read_bytes_per_second=quota.read_bytes_per_second,
        connections=quota.connections,
    )


def topic_quota(quota: core.Quota) -> TopicQuota:
    """Return the quota of a topic."""
    return TopicQuota(
        sent_bytes_per_second=quota.sent_bytes_per_second,
        read_bytes_per_second=quota.read_bytes_per_second,
        held_bytes=quota.held_bytes,
    )


def quotas(records: list[core.QuotaRecord]) -> Quotas:
    """Return all quotas, those of users apart from those of topics."""
    found = Quotas(users=[], topics=[])
    for record in records:
        if record.user_id is not None and record.username is not None:
            found.users.append(
                QuotaOfUser(**asdict(user_quota(record.quota)), user_id=record.user_id, username=record.username)
            )
        elif None not in (record.stream_id, record.topic_id):
            found.topics.append(
                QuotaOfTopic(
                    **asdict(topic_quota(record.quota)),
                    stream_id=record.stream_id or 0,
                    stream=record.stream or "",
                    topic_id=record.topic_id or 0,
                    topic=record.topic or "",
                )
            )
    return found
