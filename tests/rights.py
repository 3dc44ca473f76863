"""Reference model of permissions, as plain as the protocol's description: decisions are compared with it.

A right is a text: ``read_topics`` for a global right, ``S:read_stream`` for a right on a stream, ``T:read_topic`` for a
right on a topic. Any one of the rights listed beside an action grants the action; nothing revokes a right.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from headrace_proto.commands import REGISTRY, CommandCode

GLOBAL_RIGHTS: Final = (
    "manage_servers",
    "read_servers",
    "manage_users",
    "read_users",
    "manage_streams",
    "read_streams",
    "manage_topics",
    "read_topics",
    "poll_messages",
    "send_messages",
)
STREAM_RIGHTS: Final = (
    "manage_stream",
    "read_stream",
    "manage_topics",
    "read_topics",
    "poll_messages",
    "send_messages",
)
TOPIC_RIGHTS: Final = ("manage_topic", "read_topic", "poll_messages", "send_messages")
ALL_RIGHTS: Final = (
    *GLOBAL_RIGHTS,
    *(f"S:{right}" for right in STREAM_RIGHTS),
    *(f"T:{right}" for right in TOPIC_RIGHTS),
)

SERVER: Final = {"manage_servers", "read_servers"}
SERVER_MANAGE: Final = {"manage_servers"}
USERS_READ: Final = {"manage_users", "read_users"}
USERS_MANAGE: Final = {"manage_users"}
STREAMS_LIST: Final = {"manage_streams", "read_streams"}
STREAM_READ: Final = STREAMS_LIST | {"S:manage_stream", "S:read_stream"}
STREAM_CREATE: Final = {"manage_streams"}
STREAM_MANAGE: Final = {"manage_streams", "S:manage_stream"}
TOPICS_LIST: Final = STREAM_READ | {"manage_topics", "read_topics"} | {"S:manage_topics", "S:read_topics"}
TOPIC_READ: Final = TOPICS_LIST | {"T:manage_topic", "T:read_topic"}
TOPIC_CREATE: Final = {"manage_streams", "manage_topics", "S:manage_stream", "S:manage_topics"}
TOPIC_MANAGE: Final = TOPIC_CREATE | {"T:manage_topic"}
POLL: Final = TOPIC_READ | {"poll_messages", "S:poll_messages", "T:poll_messages"}
SEND: Final = (
    {"send_messages", "manage_streams", "manage_topics"}
    | {"S:send_messages", "S:manage_stream", "S:manage_topics"}
    | {"T:manage_topic", "T:send_messages"}
)
ACTIONS: Final = {
    "server": SERVER,
    "users read": USERS_READ,
    "users manage": USERS_MANAGE,
    "streams list": STREAMS_LIST,
    "stream read": STREAM_READ,
    "stream create": STREAM_CREATE,
    "stream manage": STREAM_MANAGE,
    "topics list": TOPICS_LIST,
    "topic read": TOPIC_READ,
    "topic create": TOPIC_CREATE,
    "topic manage": TOPIC_MANAGE,
    "poll": POLL,
    "send": SEND,
}

PERMISSIONS: Final = ACTIONS | {
    "server manage": SERVER_MANAGE,
    "users read or oneself": USERS_READ,
    "users manage or oneself": USERS_MANAGE,
    "topic manage or owner": TOPIC_MANAGE,
    "login": set[str](),
    "none": set[str](),
}
"""Rights behind the permissions that `proto/commands.toml` names."""


def rights_for(code: CommandCode) -> set[str]:
    """Return the rights any of which permits a command; none if a login is enough."""
    return PERMISSIONS[REGISTRY[code].permission]


class Rights:
    """Rights of one user.

    Attributes:
        everywhere: Global rights.
        streams: Rights by stream id.
        topics: Rights by stream and topic id.
    """

    def __init__(
        self,
        everywhere: Iterable[str] = (),
        streams: dict[int, Iterable[str]] | None = None,
        topics: dict[tuple[int, int], Iterable[str]] | None = None,
    ) -> None:
        self.everywhere = set(everywhere)
        self.streams = {stream: set(rights) for stream, rights in (streams or {}).items()}
        self.topics = {place: set(rights) for place, rights in (topics or {}).items()}

    def at(self, stream: int, topic: int) -> set[str]:
        """All rights that apply to a topic of a stream."""
        return (
            self.everywhere
            | {f"S:{right}" for right in self.streams.get(stream, ())}
            | {f"T:{right}" for right in self.topics.get((stream, topic), ())}
        )

    def allow(self, granted_by: set[str], stream: int, topic: int) -> bool:
        """Return whether the user has any right that grants an action."""
        return bool(granted_by & self.at(stream, topic))

    def forget_stream(self, stream: int) -> None:
        """Remove the rights on a deleted stream: its id is reused, its rights are not."""
        self.streams.pop(stream, None)
        self.topics = {place: rights for place, rights in self.topics.items() if place[0] != stream}

    def forget_topic(self, stream: int, topic: int) -> None:
        """Remove the rights on a deleted topic."""
        self.topics.pop((stream, topic), None)

    def __repr__(self) -> str:
        return f"Rights({self.everywhere}, {self.streams}, {self.topics})"
