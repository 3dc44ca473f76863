"""Consumer groups: creation, membership, and the documented order of refusals (CTL-2)."""

from __future__ import annotations

import pytest

from tests.compatibility.conftest import Connect
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Group, Reader, group_details, groups
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.compatibility.test_system import clients, me, stats
from tests.server_process import PASSWORD, USERNAME, ServerProcess


def path(stream: str, group: int | str = "g", topic: str = "t") -> bytes:
    return frames.ident(stream) + frames.ident(topic) + frames.ident(group)


def create(connection: RawConnection, stream: str, name: str = "g") -> Group:
    group, members = group_details(
        connection.ok(Code.CREATE_CONSUMER_GROUP, frames.ident(stream) + frames.ident("t") + frames.name(name))
    )
    assert members == {}
    return group


def test_created_found_listed_deleted(root: RawConnection, stream: str) -> None:
    """Ids are small and reused, as those of topics; groups are found by id and by name."""
    root.create_topic(stream, partitions=3)
    topic = frames.ident(stream) + frames.ident("t")
    assert root.ok(Code.GET_CONSUMER_GROUPS, topic) == b""
    made = [create(root, stream, name) for name in ("one", "two", "7")]
    assert made == [Group(0, 3, 0, "one"), Group(1, 3, 0, "two"), Group(2, 3, 0, "7")]
    assert groups(root.ok(Code.GET_CONSUMER_GROUPS, topic)) == made
    for group in made:
        for identifier in (group.id, group.name):
            assert group_details(root.ok(Code.GET_CONSUMER_GROUP, path(stream, identifier))) == (group, {})
    assert root.ok(Code.GET_CONSUMER_GROUP, path(stream, 7)) == b""
    assert root.ok(Code.DELETE_CONSUMER_GROUP, path(stream, "one")) == b""
    assert root.ok(Code.GET_CONSUMER_GROUP, path(stream, 0)) == b""
    assert create(root, stream, "again") == Group(0, 3, 0, "again")
    assert [group.name for group in groups(root.ok(Code.GET_CONSUMER_GROUPS, topic))] == ["again", "two", "7"]


def test_partitions_that_come_and_go(root: RawConnection, stream: str) -> None:
    """The number of partitions follows the topic, and so do the assignments of members, down to zero."""
    root.create_topic(stream, partitions=2)
    create(root, stream)
    root.ok(Code.JOIN_CONSUMER_GROUP, path(stream))
    topic = frames.ident(stream) + frames.ident("t")
    for code, count, left in (
        (Code.CREATE_PARTITIONS, 3, 5),
        (Code.DELETE_PARTITIONS, 4, 1),
        (Code.DELETE_PARTITIONS, 1, 0),
        (Code.CREATE_PARTITIONS, 2, 2),
    ):
        root.ok(code, topic + frames.u32(count))
        group, members = group_details(root.ok(Code.GET_CONSUMER_GROUP, path(stream)))
        assert (group.partitions_count, members) == (left, {0: list(range(left))})


def test_what_is_gone_takes_its_groups_along(root: RawConnection, stream: str) -> None:
    """Recreated topics and streams of the same names start without groups."""
    root.create_topic(stream)
    before = stats(root)[1]["consumer_groups_count"]
    create(root, stream)
    root.ok(Code.JOIN_CONSUMER_GROUP, path(stream))
    assert stats(root)[1]["consumer_groups_count"] == before + 1
    root.ok(Code.DELETE_TOPIC, frames.ident(stream) + frames.ident("t"))
    root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "t"))
    assert root.ok(Code.GET_CONSUMER_GROUPS, frames.ident(stream) + frames.ident("t")) == b""
    create(root, stream)
    root.ok(Code.JOIN_CONSUMER_GROUP, path(stream))
    root.ok(Code.DELETE_STREAM, frames.ident(stream))
    root.create_topic(stream)
    assert root.ok(Code.GET_CONSUMER_GROUP, path(stream, 0)) == b""
    assert me(root).groups_count == 0
    assert stats(root)[1]["consumer_groups_count"] == before


def test_refusals(root: RawConnection, stream: str) -> None:
    """Checks run in the order stream, topic, group, membership; queries return an empty response instead."""
    root.create_topic(stream)
    create(root, stream)
    missing = (
        (path("nowhere"), Status.STREAM_NOT_FOUND),
        (path(stream, topic="nothing"), Status.TOPIC_NOT_FOUND),
        (path(stream, "h"), Status.GROUP_NOT_FOUND),
        (path(stream, 1), Status.GROUP_NOT_FOUND),
    )
    for payload, status in missing:
        assert root.ok(Code.GET_CONSUMER_GROUP, payload) == b""
        for code in (Code.JOIN_CONSUMER_GROUP, Code.LEAVE_CONSUMER_GROUP, Code.DELETE_CONSUMER_GROUP):
            assert root.status(code, payload) == status
    topic = frames.ident(stream) + frames.ident("t")
    assert root.status(Code.CREATE_CONSUMER_GROUP, topic + frames.name("g")) == Status.GROUP_NAME_ALREADY_EXISTS
    assert root.status(Code.CREATE_CONSUMER_GROUP, topic + b"\x00") == Status.INVALID_FORMAT
    for place, status in missing[:2]:
        assert root.status(Code.CREATE_CONSUMER_GROUP, place[: -len(frames.ident("g"))] + frames.name("g")) == status
    assert root.status(Code.LEAVE_CONSUMER_GROUP, path(stream)) == Status.GROUP_MEMBER_NOT_FOUND


@pytest.mark.parametrize("group", ["g", 0], ids=["by name", "by id"])
def test_who_is_no_member(root: RawConnection, stream: str, group: int | str) -> None:
    """Polls, stores and deletes of offsets need a membership; a query of an offset does not."""
    root.create_topic(stream)
    root.send(stream, "t", 0, b"m")
    create(root, stream)
    for who, status in (
        (frames.consumer(group, group=True), Status.GROUP_MEMBER_NOT_FOUND),
        (frames.consumer("h", group=True), Status.GROUP_NOT_FOUND),
    ):
        offset = frames.consumer_offset(stream, "t", 0, who=who)
        assert root.status(Code.POLL_MESSAGES, frames.poll(stream, "t", 0, Strategy.NEXT, who=who)) == status
        assert root.status(Code.STORE_CONSUMER_OFFSET, offset + frames.u64(0)) == status
        assert root.status(Code.DELETE_CONSUMER_OFFSET, offset) == status
        assert root.ok(Code.GET_CONSUMER_OFFSET, offset) == b""
    who = frames.consumer(group, group=True)
    root.ok(Code.JOIN_CONSUMER_GROUP, path(stream, group))
    root.poll(stream, "t", 0, Strategy.NEXT, who=who, auto_commit=True)
    root.ok(Code.LEAVE_CONSUMER_GROUP, path(stream, group))
    assert root.stored_offset(stream, "t", None, who=who) == 0


def test_permissions(root: RawConnection, connect: Connect, stream: str) -> None:
    """The right to read the topic is needed. Callers without it get the same status whether stream, topic and group
    exist or not.
    """
    root.create_topic(stream)
    create(root, stream)
    root.ok(Code.CREATE_USER, frames.create_user("reads nothing", "secret"))
    stream_id = Reader(root.ok(Code.GET_STREAM, frames.ident(stream))).number("I")
    rights = frames.permissions(topics={(stream_id, 0): ["read_topic"]})
    root.ok(Code.CREATE_USER, frames.create_user("reads it", "secret", rights))
    unauthenticated, reader = connect(), connect()
    unauthenticated.ok(Code.LOGIN_USER, frames.login("reads nothing", "secret"))
    reader.ok(Code.LOGIN_USER, frames.login("reads it", "secret"))
    for place in (path(stream), path(stream, "h"), path(stream, topic="nothing"), path("nowhere")):
        for code in (
            Code.GET_CONSUMER_GROUP,
            Code.JOIN_CONSUMER_GROUP,
            Code.LEAVE_CONSUMER_GROUP,
            Code.DELETE_CONSUMER_GROUP,
        ):
            assert unauthenticated.status(code, place) == Status.UNAUTHORIZED, (code, place)
    for topic in (frames.ident(stream) + frames.ident("t"), frames.ident(stream) + frames.ident("nothing")):
        assert unauthenticated.status(Code.GET_CONSUMER_GROUPS, topic) == Status.UNAUTHORIZED
        assert unauthenticated.status(Code.CREATE_CONSUMER_GROUP, topic + frames.name("g")) == Status.UNAUTHORIZED
    poll = frames.poll(stream, "t", None, Strategy.NEXT, who=frames.consumer("h", group=True))
    assert unauthenticated.status(Code.POLL_MESSAGES, poll) == Status.UNAUTHORIZED
    create(reader, stream, "mine")
    for code in (
        Code.GET_CONSUMER_GROUP,
        Code.JOIN_CONSUMER_GROUP,
        Code.LEAVE_CONSUMER_GROUP,
        Code.DELETE_CONSUMER_GROUP,
    ):
        reader.ok(code, path(stream, "mine"))


def test_memberships_are_listed(root: RawConnection, connect: Connect, stream: str) -> None:
    """Client listings contain one entry per membership; joining twice creates one membership."""
    root.create_topic(stream)
    first, second = create(root, stream, "one"), create(root, stream, "two")
    member = connect()
    member.ok(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))
    stream_id = Reader(root.ok(Code.GET_STREAM, frames.ident(stream))).number("I")
    for name in ("two", "one", "one"):
        member.ok(Code.JOIN_CONSUMER_GROUP, path(stream, name))
    header = frames_of_me = member.ok(Code.GET_ME)
    reader = Reader(header)
    reader.take("IIB")
    reader.str32()
    assert reader.number("I") == 2
    assert [reader.numbers("III") for _ in range(2)] == [(stream_id, 0, first.id), (stream_id, 0, second.id)]
    assert reader.is_at_end
    client_id = Reader(frames_of_me).number("I")
    assert root.ok(Code.GET_CLIENT, frames.u32(client_id)) == frames_of_me
    assert clients(root)[client_id].groups_count == 2
    member.ok(Code.LEAVE_CONSUMER_GROUP, path(stream, "one"))
    member.ok(Code.LOGOUT_USER)
    assert clients(root)[client_id].groups_count == 1, "a logout ends no membership"
    member.close()


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_groups_survive_a_restart_and_memberships_do_not(server: ServerProcess, kill: bool) -> None:
    """Groups and their offsets are durable; connections, and with them members, are not."""
    who = frames.consumer("g", group=True)
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", partitions=2)
        connection.send("s", "t", 1, *[b"m"] * 5)
        create(connection, "s")
        connection.ok(Code.JOIN_CONSUMER_GROUP, path("s"))
        connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 1, 3, who=who))
        server.restart(kill=kill)
    with RawConnection.as_root(server.address) as connection:
        assert group_details(connection.ok(Code.GET_CONSUMER_GROUP, path("s"))) == (Group(0, 2, 0, "g"), {})
        poll = frames.poll("s", "t", 1, Strategy.NEXT, who=who)
        assert connection.status(Code.POLL_MESSAGES, poll) == Status.GROUP_MEMBER_NOT_FOUND
        connection.ok(Code.JOIN_CONSUMER_GROUP, path("s"))
        assert connection.poll("s", "t", 1, Strategy.NEXT, who=who).offsets == [4]
