"""Members of a consumer group: assignment of partitions, and their transfer between members (CTL-8)."""

from __future__ import annotations

import socket
import struct
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from itertools import chain

import pytest

from tests.compatibility.groups.member import NOTHING, Group
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import StartServer
from tests.server_process import ServerProcess

SOON = {"CONSUMER_GROUP_REBALANCING_TIMEOUT": "10 s", "CONSUMER_GROUP_REBALANCING_CHECK_INTERVAL": "100 ms"}

MakeGroup = Callable[..., Group]


@pytest.fixture
def make_group() -> Iterator[MakeGroup]:
    """Create groups whose members are closed after the test."""
    with ExitStack() as stack:

        def make(connection: RawConnection, stream: str, *, partitions: int = 1) -> Group:
            group = Group(connection, stream, partitions=partitions)
            stack.callback(group.close)
            return group

        yield make


def test_one_after_the_other(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """Polls without a partition take the owned partitions in turn, including empty ones; the response names the
    partition.
    """
    group = make_group(root, stream, partitions=3)
    for partition in (0, 2):
        group.send(partition, b"a", b"b")
    member = group.join()
    polled = [member.poll(auto_commit=True, count=1) for _ in range(7)]
    assert [answer.partition for answer in polled] == [0, 1, 2, 0, 1, 2, 0]
    assert [answer.payloads for answer in polled] == [[b"a"], [], [b"a"], [b"b"], [], [b"b"], []]
    assert [group.stored_offset(partition) for partition in range(3)] == [1, None, 1]


def test_offsets_without_a_partition(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """Offsets without a partition apply to the partition polled last (Q10: the reference takes the one to be polled
    next).
    """
    group = make_group(root, stream, partitions=3)
    for partition in range(3):
        group.send(partition, b"a", b"b")
    member = group.join()
    assert [member.poll().partition for _ in range(2)] == [0, 1]
    assert member.store(None, 1) == Status.OK
    assert [group.stored_offset(partition) for partition in range(3)] == [None, 1, None]
    assert member.store(2, 0) == Status.OK
    assert member.delete_offset(None) == Status.OK
    assert [group.stored_offset(partition) for partition in range(3)] == [None, None, 0]
    assert member.delete_offset(None) == Status.CONSUMER_OFFSET_NOT_FOUND


def test_partitions_without_readers_move_at_once(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """A joining member has its fair share of idle partitions when the join is acknowledged, as do all others if there
    are enough partitions.
    """
    group = make_group(root, stream, partitions=6)
    members = []
    for counts in ([6], [3, 3], [2, 2, 2], [2, 2, 1, 1], [2, 1, 1, 1, 1], [1] * 6, [1] * 6 + [0]):
        members.append(group.join())
        owned = group.owned()
        assert sorted((len(partitions) for partitions in owned.values()), reverse=True) == counts
        assert sorted(chain.from_iterable(owned.values())) == list(range(6))
    assert members[-1].poll() == NOTHING
    members[0].leave()
    assert [len(partitions) for partitions in group.owned().values()] == [1] * 6


def test_what_is_not_owned(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """A poll of a partition owned by another member returns nothing, and its offsets cannot be changed."""
    group = make_group(root, stream, partitions=2)
    group.send(0, b"a")
    group.send(1, b"b")
    first, second = group.join(), group.join()
    assert group.owned() == {0: [0], 1: [1]}
    assert (first.poll().payloads, second.poll().payloads) == ([b"a"], [b"b"])
    assert second.poll(0) == second.poll(9) == NOTHING
    assert second.poll(0, auto_commit=True, strategy=Strategy.FIRST) == NOTHING
    for partition in (0, 9):
        assert second.store(partition, 0) == Status.NOT_RESOLVED_CONSUMER
        assert second.delete_offset(partition) == Status.NOT_RESOLVED_CONSUMER
    assert group.stored_offset(0) is None
    third = group.join()
    assert third.store(None, 0) == Status.NOT_RESOLVED_CONSUMER, "it owns none"


def test_a_partition_in_use_moves_when_all_is_processed(
    make_group: MakeGroup, root: RawConnection, stream: str
) -> None:
    """A partition in use moves once all delivered messages are processed. Until then its owner keeps it but polls
    without a partition skip it; no message is read twice.
    """
    group = make_group(root, stream, partitions=2)
    for partition in range(2):
        group.send(partition, *[b"%d" % number for number in range(10)])
    first = group.join()
    for partition in range(2):
        assert first.poll(partition, count=4).offsets == [0, 1, 2, 3]
    second = group.join()
    assert group.owned() == {0: [0, 1], 1: []}
    assert second.poll() == second.poll(1) == NOTHING
    assert {first.poll(count=1).partition for _ in range(4)} == {0}
    assert first.store(1, 1) == Status.OK
    assert first.poll(1, count=4).offsets == [2, 3, 4, 5], "what it asks for by its number it gets"
    assert first.store(1, 4) == Status.OK
    time.sleep(0.2)
    assert group.owned() == {0: [0, 1], 1: []}
    assert first.store(1, 5) == Status.OK
    eventually("the partition moves", lambda: group.owned() == {0: [0], 1: [1]})
    assert first.poll(1) == NOTHING
    assert first.store(1, 9) == Status.NOT_RESOLVED_CONSUMER
    assert second.poll(count=2).offsets == [6, 7]


def test_members_learn_what_they_own(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """The answer lists the partitions of a member, and marks those that it is about to lose."""
    group = make_group(root, stream, partitions=3)
    group.send(2, *[b"m"] * 4)
    first = group.join()
    assert first.membership() == (0, [(0, False), (1, False), (2, False)])
    assert first.poll(2, count=2).offsets == [0, 1]
    second = group.join()
    assert first.membership() == (0, [(0, False), (1, False), (2, True)])
    assert second.membership() == (1, [])
    assert {first.poll().partition for _ in range(4)} == {0, 1}, "in turn, without the one that is leaving"
    assert first.store(2, 1) == Status.OK
    eventually("the partition moves", lambda: second.membership() == (1, [(2, False)]))
    assert first.membership() == (0, [(0, False), (1, False)])
    first.leave()
    assert second.membership() == (1, [(0, False), (1, False), (2, False)])
    assert first.connection.status(Code.GET_MEMBERSHIP, group.path) == Status.GROUP_MEMBER_NOT_FOUND
    unknown = group.topic + frames.ident("unknown")
    assert first.connection.status(Code.GET_MEMBERSHIP, unknown) == Status.GROUP_NOT_FOUND


def test_auto_commit_lets_a_partition_move(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """Auto-commit lets a partition move at once: the delivered messages are already stored."""
    group = make_group(root, stream, partitions=2)
    group.send(1, *[b"m"] * 5)
    first = group.join()
    assert first.poll(1, count=3, auto_commit=True).offsets == [0, 1, 2]
    second = group.join()
    assert group.owned() == {0: [0], 1: [1]}
    assert second.poll().offsets == [3, 4]


@pytest.mark.long
def test_a_partition_that_is_not_given_up_is_taken(make_group: MakeGroup, start_server: StartServer) -> None:
    """A partition not released by its owner moves at the deadline; the new owner reads unstored messages again."""
    with RawConnection.as_root(start_server(SOON).address) as connection:
        group = make_group(connection, "s", partitions=2)
        group.send(1, *[b"m"] * 5)
        first = group.join()
        assert first.poll(1, count=3).offsets == [0, 1, 2]
        second = group.join()
        assert second.poll() == NOTHING
        eventually("the partition is taken", lambda: group.owned() == {0: [0], 1: [1]})
        assert first.store(1, 2) == Status.NOT_RESOLVED_CONSUMER
        assert second.poll().offsets == [0, 1, 2, 3, 4]


def test_what_a_leaver_owned_goes_to_the_others(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """Partitions of a leaving member move at once and continue from the last stored offset; other assignments stay."""
    group = make_group(root, stream, partitions=4)
    group.send(0, *[b"m"] * 6)
    first = group.join()
    assert first.poll(0, count=4).offsets == [0, 1, 2, 3]
    assert first.store(0, 1) == Status.OK
    second, third = group.join(), group.join()
    before = group.owned()
    assert 0 in before[0]
    first.leave()
    after = group.owned()
    assert [len(partitions) for partitions in after.values()] == [2, 2]
    assert all(set(before[member]) <= set(after[member]) for member in (1, 2))
    heir = second if 0 in after[1] else third
    assert heir.poll(0).offsets == [2, 3, 4, 5]
    poll = frames.poll(stream, "t", 0, Strategy.NEXT, who=first.who)
    assert first.connection.status(Code.POLL_MESSAGES, poll) == Status.GROUP_MEMBER_NOT_FOUND


def test_closing_is_leaving(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """A closed or reset connection, even in the middle of joining, soon loses its partitions to other members."""
    group = make_group(root, stream, partitions=3)
    stays = group.join()
    closed, reset, hasty = group.join(), group.join(), group.join()
    assert len(group.owned()) == 4
    closed.close()
    reset.connection.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    reset.close()
    hasty.leave()
    hasty.connection.send_frame(Code.JOIN_CONSUMER_GROUP, group.path)
    hasty.close()
    eventually("they have left", lambda: group.owned() == {0: [0, 1, 2]})
    group.send(2, b"m")
    # The closed connection may still be joining, and owns a partition until the server has noticed its end.
    eventually("the rest is read", lambda: stays.poll(2).payloads == [b"m"])
    eventually("all have left", lambda: group.owned() == {0: [0, 1, 2]})


def test_many_that_join_and_close_leave_no_member_behind(
    make_group: MakeGroup, root: RawConnection, stream: str
) -> None:
    """A hundred connections closed at random moments of joining leave no member behind."""
    group = make_group(root, stream, partitions=5)
    for number in range(100):
        member = group.join() if number % 3 else None
        if member is None:
            host, port = root.socket.getpeername()
            connection = RawConnection.as_root(f"{host}:{port}")
            connection.send_frame(Code.JOIN_CONSUMER_GROUP, group.path)
            time.sleep(number / 50_000)
            connection.close()
        else:
            member.close()
    eventually("they have left", lambda: group.owned() == {})


@pytest.mark.long
def test_silent_members_are_lost(make_group: MakeGroup, start_server: StartServer) -> None:
    """A client without heartbeats leaves its groups. Its connection stays open, stale until it joins again. A member
    that asks for its partitions needs no other heartbeat.
    """
    server = start_server({"HEARTBEAT_ENABLED": "true", "HEARTBEAT_INTERVAL": "8 s"})
    with RawConnection.as_root(server.address) as connection:
        group = make_group(connection, "s", partitions=2)
        silent = group.join()
        alive = group.join()

        def is_alone() -> bool:
            assert connection.is_alive()
            assert alive.membership()[0] == 1
            return list(group.owned()) == [1]

        eventually("the silent one is lost", is_alone)
        assert group.owned() == {1: [0, 1]}
        poll = frames.poll("s", "t", None, Strategy.NEXT, who=silent.who)
        assert silent.connection.status(Code.POLL_MESSAGES, poll) == Status.STALE_CLIENT
        assert silent.connection.status(Code.GET_MEMBERSHIP, group.path) == Status.STALE_CLIENT
        silent.connection.send("s", "t", 0, b"still logged in")
        silent.connection.ok(Code.JOIN_CONSUMER_GROUP, group.path)
        assert len(group.owned()) == 2
        assert silent.connection.status(Code.POLL_MESSAGES, poll) == Status.OK


def test_a_deleted_user_s_members_are_lost(make_group: MakeGroup, server: ServerProcess) -> None:
    """The connection of a deleted user can do nothing more; its partitions go to others."""
    with RawConnection.as_root(server.address) as connection:
        group = make_group(connection, "s")
        rights = frames.permissions(["read_streams"])
        connection.ok(Code.CREATE_USER, frames.create_user("ann", "secret", rights))
        with RawConnection.as_user(server.address, "ann", "secret") as ann:
            ann.ok(Code.JOIN_CONSUMER_GROUP, group.path)
            assert group.owned() == {0: [0]}
            connection.ok(Code.DELETE_USER, frames.ident("ann"))
            assert group.owned() == {}
            assert ann.status(Code.JOIN_CONSUMER_GROUP, group.path) == Status.UNAUTHENTICATED


def test_a_moved_connection_stays_a_member(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """Connections follow their partitions from shard to shard (SHARD-6); memberships belong to the session."""
    group = make_group(root, stream, partitions=8)
    for partition in range(8):
        group.send(partition, b"m")
    member = group.join()
    for partition in range(8):
        for _ in range(80):
            assert member.poll(partition).payloads == [b"m"]
    assert group.owned() == {0: list(range(8))}
    member.close()
    eventually("it has left", lambda: group.owned() == {})


def test_a_new_group_does_not_inherit_offsets(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """A new group has no offsets, even if it reuses the number and the name of a deleted group."""
    group = make_group(root, stream)
    group.send(0, *[b"m"] * 5)
    member = group.join()
    assert member.poll(auto_commit=True).offsets == [0, 1, 2, 3, 4]
    assert group.stored_offset(0) == 4
    root.ok(Code.DELETE_CONSUMER_GROUP, group.path)
    root.ok(Code.CREATE_CONSUMER_GROUP, group.topic + frames.name("g"))
    assert group.stored_offset(0) is None
    poll = frames.poll(stream, "t", None, Strategy.NEXT, who=member.who)
    assert member.connection.status(Code.POLL_MESSAGES, poll) == Status.GROUP_MEMBER_NOT_FOUND
    member.connection.ok(Code.JOIN_CONSUMER_GROUP, group.path)
    assert member.poll().offsets == [0, 1, 2, 3, 4]


def test_a_purge_starts_anew(make_group: MakeGroup, root: RawConnection, stream: str) -> None:
    """A purge deletes the offsets of groups with the messages; members stay, and partitions can still move."""
    group = make_group(root, stream, partitions=2)
    for partition in range(2):
        group.send(partition, *[b"m"] * 5)
    first = group.join()
    for partition in range(2):
        assert first.poll(partition).offsets == [0, 1, 2, 3, 4]
    assert first.store(0, 4) == Status.OK
    root.ok(Code.PURGE_TOPIC, group.topic)
    assert group.stored_offset(0) is None
    group.send(0, b"new")
    assert first.poll(0, auto_commit=True).payloads == [b"new"]
    group.join()
    assert group.owned() == {0: [0], 1: [1]}
