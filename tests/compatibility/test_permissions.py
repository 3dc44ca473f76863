"""A second user: every command against every right that permits it, and nothing else that does (CTL-9)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import pytest

from tests.compatibility import frames
from tests.compatibility.codes import Code, Status, Strategy
from tests.compatibility.frames import GLOBAL_RIGHTS, STREAM_RIGHTS, TOPIC_RIGHTS
from tests.compatibility.raw import RawConnection
from tests.server_process import ServerProcess

# Which rights grant what: global ones, those of the stream (S:), those of the topic (T:).
SERVER = {"manage_servers", "read_servers"}
USERS_READ = {"manage_users", "read_users"}
USERS_MANAGE = {"manage_users"}
STREAMS_LIST = {"manage_streams", "read_streams"}
STREAM_READ = STREAMS_LIST | {"S:manage_stream", "S:read_stream"}
STREAM_CREATE = {"manage_streams"}
STREAM_MANAGE = {"manage_streams", "S:manage_stream"}
TOPICS_LIST = STREAM_READ | {"manage_topics", "read_topics"} | {"S:manage_topics", "S:read_topics"}
TOPIC_READ = TOPICS_LIST | {"T:manage_topic", "T:read_topic"}
TOPIC_CREATE = {"manage_streams", "manage_topics", "S:manage_stream", "S:manage_topics"}
TOPIC_MANAGE = TOPIC_CREATE | {"T:manage_topic"}
POLL = TOPIC_READ | {"poll_messages", "S:poll_messages", "T:poll_messages"}
SEND = (
    {"send_messages", "manage_streams", "manage_topics"}
    | {"S:send_messages", "S:manage_stream", "S:manage_topics"}
    | {"T:manage_topic", "T:send_messages"}
)
ALL_RIGHTS = (
    *GLOBAL_RIGHTS,
    *(f"S:{right}" for right in STREAM_RIGHTS),
    *(f"T:{right}" for right in TOPIC_RIGHTS),
)

S, T = frames.ident("s"), frames.ident("t")


@dataclass(frozen=True, slots=True)
class Guarded:
    """A command that needs a right, as a request that fails harmlessly once it is permitted, or changes nothing."""

    code: Code
    payload: bytes
    granted_by: set[str]
    permitted_status: Status = Status.OK


GUARDED = (
    Guarded(Code.GET_STATS, b"", SERVER),
    Guarded(Code.GET_CLIENTS, b"", SERVER),
    Guarded(Code.GET_CLIENT, frames.u32(1), SERVER),
    Guarded(Code.GET_SNAPSHOT, b"\x01\x01\x04", SERVER),
    Guarded(Code.GET_USER, frames.ident("iggy"), USERS_READ),
    Guarded(Code.GET_USERS, b"", USERS_READ),
    Guarded(Code.CREATE_USER, frames.create_user("iggy", "secret"), USERS_MANAGE, Status.USER_ALREADY_EXISTS),
    Guarded(Code.DELETE_USER, frames.ident("nobody"), USERS_MANAGE, Status.RESOURCE_NOT_FOUND),
    Guarded(Code.UPDATE_USER, frames.ident("nobody") + b"\x00\x00", USERS_MANAGE, Status.RESOURCE_NOT_FOUND),
    Guarded(Code.UPDATE_PERMISSIONS, frames.ident("nobody") + b"\x00", USERS_MANAGE, Status.RESOURCE_NOT_FOUND),
    Guarded(Code.GET_STREAMS, b"", STREAMS_LIST),
    Guarded(Code.GET_STREAM, S, STREAM_READ),
    Guarded(Code.CREATE_STREAM, frames.name("s"), STREAM_CREATE, Status.STREAM_NAME_ALREADY_EXISTS),
    Guarded(Code.UPDATE_STREAM, S + frames.name("s"), STREAM_MANAGE),
    Guarded(Code.GET_TOPICS, S, TOPICS_LIST),
    Guarded(Code.GET_TOPIC, S + T, TOPIC_READ),
    Guarded(Code.CREATE_TOPIC, frames.create_topic("s", "t"), TOPIC_CREATE, Status.TOPIC_NAME_ALREADY_EXISTS),
    Guarded(Code.UPDATE_TOPIC, frames.update_topic("s", "t", "t"), TOPIC_MANAGE),
    Guarded(Code.DELETE_PARTITIONS, S + T + frames.u32(999), TOPIC_MANAGE, Status.INVALID_PARTITIONS_COUNT),
    Guarded(Code.DELETE_SEGMENTS, S + T + frames.u32(0) + frames.u32(1), TOPIC_MANAGE),
    Guarded(Code.POLL_MESSAGES, frames.poll("s", "t", 0, Strategy.FIRST), POLL),
    Guarded(Code.GET_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0), POLL),
    Guarded(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, 99), POLL, Status.INVALID_OFFSET),
    Guarded(Code.DELETE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0), POLL, Status.CONSUMER_OFFSET_NOT_FOUND),
    Guarded(
        Code.SEND_MESSAGES,
        frames.send("s", "t", frames.to_partition(99), [frames.message(b"m")]),
        SEND,
        Status.PARTITION_NOT_FOUND,
    ),
    Guarded(Code.FLUSH_UNSAVED_BUFFER, S + T + frames.u32(0) + b"\x00", SEND),
    Guarded(Code.GET_GROUPS, S + T, TOPIC_READ),
)
# What would really change something is only asked without any right.
DESTRUCTIVE = (
    (Code.DELETE_STREAM, S),
    (Code.PURGE_STREAM, S),
    (Code.DELETE_TOPIC, S + T),
    (Code.PURGE_TOPIC, S + T),
    (Code.CREATE_PARTITIONS, S + T + frames.u32(1)),
    (Code.CREATE_GROUP, S + T + frames.name("g")),
)
# Existence shows before permission is asked for (Q23).
MISSING_FIRST = (
    (Code.DELETE_STREAM, frames.ident("missing"), Status.STREAM_NOT_FOUND),
    (Code.PURGE_STREAM, frames.ident("missing"), Status.STREAM_NOT_FOUND),
    (Code.CREATE_TOPIC, frames.create_topic("missing", "t"), Status.STREAM_NOT_FOUND),
    (Code.DELETE_TOPIC, S + frames.ident("missing"), Status.TOPIC_NOT_FOUND),
    (Code.PURGE_TOPIC, S + frames.ident("missing"), Status.TOPIC_NOT_FOUND),
    (Code.CREATE_PARTITIONS, S + frames.ident("missing") + frames.u32(1), Status.TOPIC_NOT_FOUND),
    (Code.DELETE_SEGMENTS, S + T + frames.u32(99) + frames.u32(1), Status.PARTITION_NOT_FOUND),
    (Code.POLL_MESSAGES, frames.poll("missing", "t", 0, Strategy.FIRST), Status.STREAM_NOT_FOUND),
    (Code.GET_STREAM, frames.ident("missing"), Status.OK),
    (Code.GET_TOPIC, S + frames.ident("missing"), Status.OK),
    (Code.GET_TOPICS, frames.ident("missing"), Status.OK),
    (Code.GET_USER, frames.ident("missing"), Status.OK),
    # The exception: by number, permission is asked for first.
    (Code.GET_USER, frames.ident(4_000_000), Status.UNAUTHORIZED),
    # And users' commands always do.
    (Code.DELETE_USER, frames.ident("missing"), Status.UNAUTHORIZED),
)


@pytest.fixture(scope="module")
def admin(shared_server: ServerProcess) -> Iterator[RawConnection]:
    """Root, with stream `s`, topic `t` and the user `limited` made."""
    with RawConnection.as_root(shared_server.address) as connection:
        connection.create_topic("s", "t", 2)
        connection.create_topic("other", "t", 2)
        connection.send("s", "t", 0, b"m")
        connection.ok(Code.CREATE_USER, frames.create_user("limited", "secret"))
        yield connection


@pytest.fixture
def limited(shared_server: ServerProcess, admin: RawConnection) -> Iterator[RawConnection]:
    """A user without any rights."""
    admin.ok(Code.UPDATE_PERMISSIONS, frames.ident("limited") + b"\x00")
    with RawConnection.as_user(shared_server.address, "limited", "secret") as connection:
        yield connection


def grant(admin: RawConnection, right: str, *, stream: int = 0, topic: int = 0) -> None:
    """Give `limited` this right and no other; its open connections have it at once."""
    scope, _, name = right.rpartition(":")
    record = {
        "": lambda: frames.permissions([name]),
        "S": lambda: frames.permissions(streams={stream: [name]}),
        "T": lambda: frames.permissions(topics={(stream, topic): [name]}),
    }[scope]()
    admin.ok(Code.UPDATE_PERMISSIONS, frames.ident("limited") + frames.opt_permissions(record))


@pytest.mark.parametrize("right", ALL_RIGHTS)
def test_what_a_right_grants(admin: RawConnection, limited: RawConnection, right: str) -> None:
    """Exactly the commands that the protocol's predicates name, on connections that are open already."""
    grant(admin, right)
    granted = {guarded.code: limited.status(guarded.code, guarded.payload) for guarded in GUARDED}
    expected = {
        guarded.code: guarded.permitted_status if right in guarded.granted_by else Status.UNAUTHORIZED
        for guarded in GUARDED
    }
    assert granted == expected


@pytest.mark.parametrize("right", [right for right in ALL_RIGHTS if ":" in right])
def test_a_right_ends_at_its_stream_and_topic(admin: RawConnection, limited: RawConnection, right: str) -> None:
    """What is granted for another stream, or another topic, grants nothing here."""
    for place in ({"stream": 1}, {"stream": 0, "topic": 1} if right.startswith("T:") else {"stream": 4000}):
        grant(admin, right, **place)
        statuses = {guarded.code: limited.status(guarded.code, guarded.payload) for guarded in GUARDED}
        assert set(statuses.values()) == {Status.UNAUTHORIZED}, statuses


def test_without_any_right(limited: RawConnection) -> None:
    """Everything that needs one is refused; what needs only a login is not."""
    for code, payload in DESTRUCTIVE:
        assert limited.status(code, payload) == Status.UNAUTHORIZED, code
    for guarded in GUARDED:
        assert limited.status(guarded.code, guarded.payload) == Status.UNAUTHORIZED, guarded.code
    for code in (Code.GET_ME, Code.GET_CLUSTER_METADATA, Code.GET_TOKENS, Code.PING):
        limited.ok(code)
    assert limited.ok(Code.GET_USER, frames.ident("limited"))


@pytest.mark.parametrize(
    ("code", "payload", "status"), MISSING_FIRST, ids=[f"{c.name}-{s.name}" for c, _, s in MISSING_FIRST]
)
def test_what_is_missing_shows_without_a_right(
    limited: RawConnection, code: Code, payload: bytes, status: Status
) -> None:
    """Existence is looked up first, as clients expect."""
    assert limited.status(code, payload) == status


def test_rights_can_be_taken_away(admin: RawConnection, limited: RawConnection) -> None:
    """At once, between two sends of the same connection."""
    send = frames.send("s", "t", frames.to_partition(1), [frames.message(b"m")])
    grant(admin, "T:send_messages")
    assert limited.status(Code.SEND_MESSAGES, send) == Status.OK
    admin.ok(Code.UPDATE_PERMISSIONS, frames.ident("limited") + b"\x00")
    assert limited.status(Code.SEND_MESSAGES, send) == Status.UNAUTHORIZED
    assert admin.poll("s", "t", 1, Strategy.FIRST).payloads == [b"m"]
