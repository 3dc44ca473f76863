"""Documents that commands print for programs, made from the server's answers.

docs/schemas has the JSON schemas, which are generated from the types here. A field is never removed or renamed. No
number stands for what is not there: that is null. Times are in microseconds since the epoch, with RFC 3339 beside them.
"""

from __future__ import annotations

from typing import Any, Literal, NotRequired, TypedDict

from headrace.cli.output import U64_MAX, optional_timestamp, timestamp
from headrace_core import (
    AccessToken,
    Connection,
    ConsumerGroup,
    Partition,
    PartitionDescription,
    Permissions,
    Quota,
    Stream,
    Topic,
    User,
)


class StreamDocument(TypedDict):
    """A stream: `stream create`, `stream list`."""

    id: int
    name: str
    created_at_micros: int
    created_at: str
    topics_count: int
    size_bytes: int
    messages_count: int


class TopicDocument(TypedDict):
    """A topic: `topic create`, `topic list STREAM`."""

    id: int
    name: str
    created_at_micros: int
    created_at: str
    partitions_count: int
    message_expiry_micros: int | None
    """None: never, or the default of the server."""
    message_expiry: str
    """`never`, `default` or a duration, in the form of `--message-expiry`."""
    max_size_bytes: int | None
    """None: unlimited, or the default of the server."""
    max_size: str
    """`unlimited`, `default` or a size."""
    size_bytes: int
    messages_count: int


class ListedTopicDocument(TopicDocument):
    """A topic with its stream: `topic list`."""

    stream_id: int
    stream: str


class PartitionDocument(TypedDict):
    """A partition of `topic show`."""

    id: int
    created_at_micros: int
    created_at: str
    segments_count: int
    current_offset: int
    """Offset of the last message; 0 also if there has never been one: see last_offset."""
    last_offset: int | None
    size_bytes: int
    messages_count: int
    first_offset: int
    next_deletion_at_micros: int | None
    """None: nothing is to be deleted for its age."""
    next_deletion_at: str | None
    node: str | None
    """None: in the process of the server, or placed nowhere."""
    state: str


class ShownTopicDocument(TopicDocument):
    """A topic with its partitions: `topic show`."""

    partitions: list[PartitionDocument]


class GroupDocument(TypedDict):
    """A consumer group: `group create`."""

    id: int
    name: str
    partitions_count: int
    members_count: int


class ListedGroupDocument(GroupDocument):
    """A consumer group with its topic and lag: `group list`."""

    stream: str
    topic: str
    lag_messages: int
    """Lag in all partitions whose node is reached."""
    unreached_count: int
    """Number of the other partitions."""


class MemberDocument(TypedDict):
    """A member of a group."""

    id: int
    partitions: list[int]


class ProgressDocument(TypedDict):
    """Progress of a group in a partition."""

    id: int
    member: int | None
    stored_offset: int | None
    last_offset: int | None
    lag_messages: int | None
    """None if the node of the partition is not reached."""


class ShownGroupDocument(GroupDocument):
    """A group with its progress: `group show`."""

    members: list[MemberDocument]
    partitions: list[ProgressDocument]


class ResetDocument(TypedDict):
    """A partition of `group reset`: stored offsets; null: none, so that reading begins with the first message."""

    partition: int
    old_offset: int | None
    new_offset: int | None


class GrantDocument(TypedDict):
    """A set of permissions, everywhere, on a stream or on a topic (ids)."""

    stream_id: int | None
    topic_id: int | None
    permissions: list[str]


class UserDocument(TypedDict):
    """A user: `user list`, `user create`."""

    id: int
    name: str
    status: Literal["active", "inactive"]
    created_at_micros: int
    created_at: str


class ShownUserDocument(UserDocument):
    """A user with permissions: `user show`."""

    grants: list[GrantDocument]


class QuotaDocument(TypedDict):
    """A quota of a user or of a topic: `quota list`, `quota show`. A limit of None is no limit."""

    user_id: int | None
    """None for a topic."""
    user: str | None
    stream: str | None
    """None for a user."""
    topic_id: int | None
    topic: str | None
    sent_bytes_per_second: int | None
    read_bytes_per_second: int | None
    held_bytes: int | None
    """None for a user."""
    connections: int | None
    """None for a topic."""


class TokenDocument(TypedDict):
    """An access token: `token list`; with the secret: `token create`."""

    name: str
    expires_at_micros: int | None
    expires_at: str | None
    token: NotRequired[str]


class ClientDocument(TypedDict):
    """A client connection: `client list`."""

    client_id: int
    user_id: int | None
    transport: str
    address: str
    consumer_groups_count: int


class ContextDocument(TypedDict):
    """A context: `context list`. Never contains a secret."""

    name: str
    is_current: bool
    server: str
    username: str | None
    secret_kind: Literal["password", "token"] | None
    secret_in: Literal["keyring", "file"] | None
    description: str


class HeaderDocument(TypedDict):
    """A header of a message whose value is not text."""

    kind: str
    value_base64: str


class MessageDocument(TypedDict):
    """A message: `poll --output json`, `export`. Either payload or payload_base64 is there."""

    partition: int
    offset: int
    timestamp_micros: int
    origin_timestamp_micros: int
    id: int
    payload: NotRequired[str]
    payload_base64: NotRequired[str]
    key: NotRequired[str]
    key_base64: NotRequired[str]
    headers: NotRequired[dict[str, str | int | float | bool | HeaderDocument]]
    user_headers: NotRequired[str]


class StatsDocument(TypedDict):
    """Statistics of a server: `stats`. server_version is the release of Iggy whose protocol the server speaks."""

    process_id: int
    cpu_usage_percent: float
    total_cpu_usage_percent: float
    memory_usage_bytes: int
    total_memory_bytes: int
    available_memory_bytes: int
    run_time_micros: int
    start_time_micros: int
    start_time: str
    read_bytes: int
    written_bytes: int
    messages_size_bytes: int
    streams_count: int
    topics_count: int
    partitions_count: int
    segments_count: int
    messages_count: int
    clients_count: int
    consumer_groups_count: int
    hostname: str
    os_name: str
    os_version: str
    kernel_version: str
    server_version: str
    threads_count: int
    free_disk_space_bytes: int
    total_disk_space_bytes: int


class CheckDocument(TypedDict):
    """A check: `doctor`."""

    check: str
    verdict: Literal["ok", "warn", "fail"]
    found: str
    advice: str


def _bound(value: int) -> int | None:
    return None if value in {0, U64_MAX} else value


def stream_document(stream: Stream) -> StreamDocument:
    """Return the document of a stream."""
    return {
        "id": stream.id,
        "name": stream.name,
        "created_at_micros": stream.created_at_micros,
        "created_at": timestamp(stream.created_at_micros),
        "topics_count": stream.topics_count,
        "size_bytes": stream.size_bytes,
        "messages_count": stream.messages_count,
    }


def topic_document(topic: Topic) -> TopicDocument:
    """Return the document of a topic."""
    from headrace_settings import Expiry, SizeLimit  # noqa: PLC0415 - slow to import

    return {
        "id": topic.id,
        "name": topic.name,
        "created_at_micros": topic.created_at_micros,
        "created_at": timestamp(topic.created_at_micros),
        "partitions_count": topic.partitions_count,
        "message_expiry_micros": _bound(topic.message_expiry_micros),
        "message_expiry": str(Expiry(topic.message_expiry_micros)) if topic.message_expiry_micros else "default",
        "max_size_bytes": _bound(topic.max_size_bytes),
        "max_size": str(SizeLimit(topic.max_size_bytes)) if topic.max_size_bytes else "default",
        "size_bytes": topic.size_bytes,
        "messages_count": topic.messages_count,
    }


def partition_document(partition: Partition, description: PartitionDescription) -> PartitionDocument:
    """Return the document of a partition, from the two answers about it."""
    # The server counts from the first offset that is kept, which is one after the last if nothing is.
    was_written = partition.messages_count or description.first_offset or partition.current_offset
    return {
        "id": partition.id,
        "created_at_micros": partition.created_at_micros,
        "created_at": timestamp(partition.created_at_micros),
        "segments_count": partition.segments_count,
        "current_offset": partition.current_offset,
        "last_offset": partition.current_offset if was_written else None,
        "size_bytes": partition.size_bytes,
        "messages_count": partition.messages_count,
        "first_offset": description.first_offset,
        "next_deletion_at_micros": description.next_deletion_at_micros or None,
        "next_deletion_at": optional_timestamp(description.next_deletion_at_micros or None),
        "node": description.node or None,
        "state": description.state,
    }


def group_document(group: ConsumerGroup) -> GroupDocument:
    """Return the document of a consumer group."""
    return {
        "id": group.id,
        "name": group.name,
        "partitions_count": group.partitions_count,
        "members_count": group.members_count,
    }


def user_document(user: User) -> UserDocument:
    """Return the document of a user."""
    return {
        "id": user.id,
        "name": user.username,
        "status": user.status,
        "created_at_micros": user.created_at_micros,
        "created_at": timestamp(user.created_at_micros),
    }


def quota_document(
    quota: Quota,
    *,
    user_id: int | None = None,
    user: str | None = None,
    stream: str | None = None,
    topic_id: int | None = None,
    topic: str | None = None,
) -> QuotaDocument:
    """Return the document of a quota of a user, or of a topic."""
    return {
        "user_id": user_id,
        "user": user,
        "stream": stream,
        "topic_id": topic_id,
        "topic": topic,
        "sent_bytes_per_second": quota.sent_bytes_per_second or None,
        "read_bytes_per_second": quota.read_bytes_per_second or None,
        "held_bytes": quota.held_bytes or None,
        "connections": quota.connections or None,
    }


def token_document(token: AccessToken) -> TokenDocument:
    """Return the document of an access token."""
    return {
        "name": token.name,
        "expires_at_micros": token.expires_at_micros,
        "expires_at": optional_timestamp(token.expires_at_micros),
    }


def client_document(client: Connection) -> ClientDocument:
    """Return the document of a client connection."""
    return {
        "client_id": client.client_id,
        "user_id": client.user_id,
        "transport": client.transport,
        "address": client.address,
        "consumer_groups_count": client.groups_count,
    }


GLOBAL_RIGHTS = (
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
STREAM_RIGHTS = ("manage_stream", "read_stream", "manage_topics", "read_topics", "poll_messages", "send_messages")
TOPIC_RIGHTS = ("manage_topic", "read_topic", "poll_messages", "send_messages")


def grant_documents(permissions: Permissions | None) -> list[GrantDocument]:
    """Return the permissions of a user, the widest first; sets without a permission are left out."""
    if permissions is None:
        return []
    grants = [_grant(None, None, permissions.everywhere, GLOBAL_RIGHTS)]
    for stream_id, on_stream in sorted(permissions.streams.items()):
        grants.append(_grant(stream_id, None, on_stream, STREAM_RIGHTS))
        grants += [
            _grant(stream_id, topic_id, on_topic, TOPIC_RIGHTS)
            for topic_id, on_topic in sorted(on_stream.topics.items())
        ]
    return [grant for grant in grants if grant["permissions"]]


def _grant(stream_id: int | None, topic_id: int | None, rights: Any, names: tuple[str, ...]) -> GrantDocument:
    return {
        "stream_id": stream_id,
        "topic_id": topic_id,
        "permissions": [name for name in names if getattr(rights, name)],
    }
