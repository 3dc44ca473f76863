"""Users, permissions, logins, access tokens."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

import headrace_core as core
from headrace_gateway.json_api.numbers import U64, Body, Micros, length
from headrace_proto.rights import GLOBAL_RIGHTS, STREAM_RIGHTS, TOPIC_RIGHTS, flags

UserStatus = Literal["active", "inactive"]
Username = Annotated[str, length(3, 50)]
Password = Annotated[str, length(3, 100)]
# Ids as JSON object keys are text.
IdText = Annotated[str, Meta(pattern="^(0|[1-9][0-9]{0,8})$")]


class LoginBody(Body):
    """Username and password."""

    username: str
    password: str
    version: str | None = None
    context: str | None = None


class TokenBody(Body):
    """A token."""

    token: str


class AccessToken(msgspec.Struct):
    """Token for the other requests."""

    token: str
    expiry: Annotated[int, Meta(description="Unix seconds.")]


class IdentityInfo(msgspec.Struct):
    """The logged-in user."""

    user_id: int
    access_token: AccessToken


class TopicRights(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rights on one topic."""

    manage_topic: bool
    read_topic: bool
    poll_messages: bool
    send_messages: bool


class StreamRights(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rights on one stream, and on topics of it."""

    manage_stream: bool
    read_stream: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool
    topics: dict[IdText, TopicRights] | None = None


class GlobalRights(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """Rights everywhere."""

    manage_servers: bool
    """Includes `read_servers`: also disconnect clients, and change connectors, which act with their own permissions."""
    read_servers: bool
    """See what servers know about themselves and their users: settings, logs, the whole audit trail with names and
    addresses, diagnostics, connections, and metrics with names of streams and topics. A right for operators.
    """
    manage_users: bool
    read_users: bool
    manage_streams: bool
    read_streams: bool
    manage_topics: bool
    read_topics: bool
    poll_messages: bool
    send_messages: bool


class Permissions(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """All permissions of a user; streams and topics by their ids."""

    everywhere: GlobalRights = msgspec.field(name="global")
    streams: dict[IdText, StreamRights] | None = None


class CreateUserBody(Body):
    """A new user."""

    username: Username
    password: Password
    status: UserStatus = "active"
    permissions: Permissions | None = None


class UpdateUserBody(Body):
    """Changed properties of a user."""

    username: Username | None = None
    status: UserStatus | None = None
    user_status: Annotated[UserStatus | None, Meta(description="Another name of `status`.")] = None


class PermissionsBody(Body):
    """New permissions of a user."""

    permissions: Permissions | None = None


class PasswordBody(Body):
    """Current and new password."""

    current_password: Password
    new_password: Password


class UserAnswer(msgspec.Struct, kw_only=True):
    """A user."""

    id: int
    created_at: Micros
    status: UserStatus
    username: str


class UserDetails(UserAnswer, kw_only=True):
    """A user with its permissions."""

    permissions: Permissions | None


class CreateTokenBody(Body):
    """A new access token."""

    name: Annotated[str, length(3, 30)]
    expiry: Annotated[U64 | None, Meta(description="Microseconds from now; null, 0 and 2^64-1 mean never.")] = 0


class RawToken(msgspec.Struct):
    """The text of an access token, which is returned only once."""

    token: str


class TokenAnswer(msgspec.Struct):
    """An access token without its text."""

    name: str
    expiry_at: int | None


def user(record: core.User) -> UserAnswer:
    """Return a user of a listing."""
    return UserAnswer(id=record.id, created_at=record.created_at_micros, status=record.status, username=record.username)


def user_details(record: core.User) -> UserDetails:
    """Return a single user."""
    return UserDetails(
        id=record.id,
        created_at=record.created_at_micros,
        status=record.status,
        username=record.username,
        permissions=_permissions(record.permissions) if record.permissions is not None else None,
    )


def native_permissions(permissions: Permissions | None) -> core.Permissions | None:
    """Return the permissions in the form of the binary protocol."""
    if permissions is None:
        return None
    return core.Permissions(
        everywhere=core.GlobalPermissions(**flags(permissions.everywhere, GLOBAL_RIGHTS)),
        streams={int(stream_id): _native_stream(rights) for stream_id, rights in (permissions.streams or {}).items()},
    )


def _native_stream(rights: StreamRights) -> core.StreamPermissions:
    return core.StreamPermissions(
        **flags(rights, STREAM_RIGHTS),
        topics={
            int(topic_id): core.TopicPermissions(**flags(topic, TOPIC_RIGHTS))
            for topic_id, topic in (rights.topics or {}).items()
        },
    )


def _permissions(permissions: core.Permissions) -> Permissions:
    return Permissions(
        everywhere=GlobalRights(**flags(permissions.everywhere, GLOBAL_RIGHTS)),
        streams={str(stream_id): _stream(rights) for stream_id, rights in permissions.streams.items()} or None,
    )


def _stream(rights: core.StreamPermissions) -> StreamRights:
    return StreamRights(
        **flags(rights, STREAM_RIGHTS),
        topics={str(topic_id): TopicRights(**flags(topic, TOPIC_RIGHTS)) for topic_id, topic in rights.topics.items()}
        or None,
    )
