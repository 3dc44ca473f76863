"""Permissions of a second user: every command against every right, both those that permit it and those that do not
(CTL-9).
"""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.guarded import guarded
from tests.compatibility.protocol.raw import RawConnection
from tests.rights import ALL_RIGHTS
from tests.server_process import ServerProcess

S, T = frames.ident("s"), frames.ident("t")


GUARDED = guarded("s", "t")
# Commands with side effects are only tried without any right.
DESTRUCTIVE = (
    (Code.DELETE_STREAM, S),
    (Code.PURGE_STREAM, S),
    (Code.DELETE_TOPIC, S + T),
    (Code.PURGE_TOPIC, S + T),
    (Code.CREATE_PARTITIONS, S + T + frames.u32(1)),
    (Code.CREATE_CONSUMER_GROUP, S + T + frames.name("g")),
)
# Requests for objects that do not exist, and the status for users who hold the right on all streams, topics and users.
MISSING = (
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
    (Code.GET_USER, frames.ident(4_000_000), Status.OK),
    (Code.DELETE_USER, frames.ident("missing"), Status.RESOURCE_NOT_FOUND),
)


@pytest.fixture(scope="module")
def admin(shared_server: ServerProcess) -> Iterator[RawConnection]:
    """Root's connection, with stream `s`, topic `t` and user `limited` created."""
    with RawConnection.as_root(shared_server.address) as connection:
        connection.create_topic("s", "t", 2)
        connection.create_topic("other", "t", 2)
        connection.ok(Code.CREATE_CONSUMER_GROUP, S + T + frames.name("g"))
        connection.send("s", "t", 0, b"m")
        connection.ok(Code.CREATE_USER, frames.create_user("limited", "secret"))
        yield connection


@pytest.fixture
def limited(shared_server: ServerProcess, admin: RawConnection) -> Iterator[RawConnection]:
    """Connection of a user without any rights."""
    admin.ok(Code.UPDATE_PERMISSIONS, frames.ident("limited") + b"\x00")
    with RawConnection.as_user(shared_server.address, "limited", "secret") as connection:
        yield connection


def grant(admin: RawConnection, right: str, *, stream: int = 0, topic: int = 0) -> None:
    """Grant `limited` this right only; the change applies to its open connections at once."""
    scope, _, name = right.rpartition(":")
    record = {
        "": lambda: frames.permissions([name]),
        "S": lambda: frames.permissions(streams={stream: [name]}),
        "T": lambda: frames.permissions(topics={(stream, topic): [name]}),
    }[scope]()
    admin.ok(Code.UPDATE_PERMISSIONS, frames.ident("limited") + frames.opt_permissions(record))


@pytest.mark.parametrize("right", ALL_RIGHTS)
def test_what_a_right_grants(admin: RawConnection, limited: RawConnection, right: str) -> None:
    """A right permits exactly the commands that the protocol's predicates name, also on open connections."""
    grant(admin, right)
    granted = {command.code: limited.status(command.code, command.payload) for command in GUARDED}
    expected = {
        command.code: command.permitted_status if right in command.granted_by else Status.UNAUTHORIZED
        for command in GUARDED
    }
    assert granted == expected


@pytest.mark.parametrize("right", [right for right in ALL_RIGHTS if ":" in right])
def test_a_right_ends_at_its_stream_and_topic(admin: RawConnection, limited: RawConnection, right: str) -> None:
    """A right on another stream or topic permits nothing here."""
    for place in ({"stream": 1}, {"stream": 0, "topic": 1} if right.startswith("T:") else {"stream": 4000}):
        grant(admin, right, **place)
        statuses = {command.code: limited.status(command.code, command.payload) for command in GUARDED}
        assert set(statuses.values()) == {Status.UNAUTHORIZED}, statuses


def test_without_any_right(limited: RawConnection) -> None:
    """Commands that need a right are refused; those that need only a login are not."""
    for code, payload in DESTRUCTIVE:
        assert limited.status(code, payload) == Status.UNAUTHORIZED, code
    for command in GUARDED:
        assert limited.status(command.code, command.payload) == Status.UNAUTHORIZED, command.code
    for code in (Code.GET_ME, Code.GET_CLUSTER_METADATA, Code.GET_PERSONAL_ACCESS_TOKENS, Code.PING):
        limited.ok(code)
    assert limited.ok(Code.GET_USER, frames.ident("limited"))


@pytest.mark.parametrize(("code", "payload", "status"), MISSING, ids=[f"{c.name}-{s.name}" for c, _, s in MISSING])
def test_what_is_missing_shows_to_those_with_the_right(
    admin: RawConnection, limited: RawConnection, code: Code, payload: bytes, status: Status
) -> None:
    """Users with the right learn that an object is missing; all others get the same refusal as if it existed."""
    assert limited.status(code, payload) == Status.UNAUTHORIZED
    admin.ok(
        Code.UPDATE_PERMISSIONS,
        frames.ident("limited") + frames.opt_permissions(frames.permissions(["manage_streams", "manage_users"])),
    )
    assert limited.status(code, payload) == status
    assert admin.status(code, payload) == status


def test_rights_can_be_taken_away(admin: RawConnection, limited: RawConnection) -> None:
    """A revoked right is lost at once, between two sends of the same connection."""
    send = frames.send("s", "t", frames.to_partition(1), [frames.message(b"m")])
    grant(admin, "T:send_messages")
    assert limited.status(Code.SEND_MESSAGES, send) == Status.OK
    admin.ok(Code.UPDATE_PERMISSIONS, frames.ident("limited") + b"\x00")
    assert limited.status(Code.SEND_MESSAGES, send) == Status.UNAUTHORIZED
    assert admin.poll("s", "t", 1, Strategy.FIRST).payloads == [b"m"]
