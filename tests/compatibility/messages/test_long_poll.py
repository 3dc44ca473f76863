"""GW-7: long poll and notifications over real sockets; clients without these extensions are not affected."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest

from tests.compatibility.conftest import Connect
from tests.compatibility.groups.member import NOTHING, Group
from tests.compatibility.protocol import frames, long_poll
from tests.compatibility.protocol.codes import ANNOUNCED_EXTENSIONS, Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, Reply
from tests.conftest import TWO_SHARDS
from tests.server_process import ServerProcess

TOO_MANY_WAITS = 20001


@pytest.fixture
def waiter(shared_server: ServerProcess) -> Iterator[RawConnection]:
    """Another connection of the root user."""
    with RawConnection.as_root(shared_server.address) as connection:
        yield connection


@pytest.fixture
def group(root: RawConnection, stream: str) -> Iterator[Group]:
    """A group without members on a topic of four partitions."""
    group = Group(root, stream, partitions=4)
    yield group
    group.close()


def test_what_the_server_offers(connect: Connect) -> None:
    """The request needs no login, and the response matches the documentation."""
    version, codes, limits = long_poll.capabilities(connect())
    assert version == 1
    assert codes == list(ANNOUNCED_EXTENSIONS)
    assert sorted(limits) == [1, 2, 3, 4, 5]
    assert limits[4] == 60_000_000


@pytest.mark.parametrize("code", [9999, 10013, 10500, 10999])
def test_other_codes_are_unknown_as_ever(root: RawConnection, code: int) -> None:
    assert root.status(code, b"anything") == Status.INVALID_COMMAND
    assert root.is_alive()


def test_a_login_is_needed(connect: Connect) -> None:
    connection = connect()
    assert connection.status(Code.WAIT_MESSAGES, long_poll.wait("s")) == Status.UNAUTHENTICATED
    assert connection.status(Code.WATCH_PARTITIONS, long_poll.watch("s", [0])) == Status.UNAUTHENTICATED
    assert connection.is_alive()


@pytest.mark.parametrize("partition", range(4))
def test_an_append_wakes_waiting_clients(
    root: RawConnection, waiter: RawConnection, stream: str, partition: int
) -> None:
    """An append wakes waiting connections, whichever shards own the partition and the connections."""
    root.create_topic(stream, partitions=4)
    for number in range(3):
        long_poll.begin(waiter, long_poll.wait(stream, partition))
        time.sleep(0.05)
        begin = time.monotonic()
        root.send(stream, "t", partition, b"%d" % number)
        assert long_poll.answer(waiter).payloads == [b"%d" % number]
        # Well before the timeout of the wait.
        assert time.monotonic() - begin < 25
    assert waiter.stored_offset(stream, "t", partition) == 2


def test_what_is_there_is_answered_at_once(root: RawConnection, waiter: RawConnection, stream: str) -> None:
    root.create_topic(stream)
    root.send(stream, "t", 0, b"a", b"b")
    begin = time.monotonic()
    for strategy, value in [(Strategy.NEXT, 0), (Strategy.FIRST, 0), (Strategy.OFFSET, 1), (Strategy.TIMESTAMP, 1)]:
        payload = long_poll.wait(stream, strategy=strategy, value=value, seconds=30, auto_commit=False)
        long_poll.begin(waiter, payload)
        assert long_poll.answer(waiter).payloads == [b"a", b"b"][value if strategy is Strategy.OFFSET else 0 :]
    long_poll.begin(waiter, long_poll.wait(stream, strategy=Strategy.LAST, count=1, seconds=30, auto_commit=False))
    assert long_poll.answer(waiter).payloads == [b"b"]
    assert time.monotonic() - begin < 25


def test_a_member_waits_for_everything_it_owns(group: Group) -> None:
    """A wait covers all owned partitions, and each message is delivered to one member."""
    one = group.join()
    payload = long_poll.wait(group.stream, None, who=one.who, seconds=30)
    for partition in (3, 0, 2, 1, 3):
        long_poll.begin(one.connection, payload)
        time.sleep(0.02)
        group.send(partition, b"%d" % partition)
        answer = long_poll.answer(one.connection)
        assert (answer.partition, answer.payloads) == (partition, [b"%d" % partition])
    long_poll.begin(one.connection, long_poll.wait(group.stream, None, who=one.who, seconds=0.2))
    assert long_poll.answer(one.connection) == NOTHING


def test_two_members_share_every_message_once(group: Group) -> None:
    members = [group.join(), group.join()]
    seen: list[bytes] = []
    lock = threading.Lock()

    def read(index: int) -> None:
        member = members[index]
        until = time.monotonic() + 60
        payloads = []
        # After every message was seen, poll until none is left.
        while (payloads or len(seen) < 200) and time.monotonic() < until:
            long_poll.begin(member.connection, long_poll.wait(group.stream, None, who=member.who, seconds=1, count=3))
            payloads = long_poll.answer(member.connection).payloads
            with lock:
                seen.extend(payloads)

    readers = [threading.Thread(target=read, args=(index,)) for index in range(2)]
    for reader in readers:
        reader.start()
    for number in range(200):
        group.send(number % 4, b"%d" % number)
    for reader in readers:
        reader.join(90)
    assert sorted(map(int, seen)) == list(range(200))


def test_notifications(root: RawConnection, waiter: RawConnection, stream: str) -> None:
    """A watcher is notified at once, of every change, and when the partition is replaced or deleted."""
    root.create_topic(stream, partitions=4)
    root.send(stream, "t", 1, b"a", b"b")
    assert waiter.ok(Code.WATCH_PARTITIONS, long_poll.watch(stream, [0, 1, 3])) == b""
    first = {entry.partition: entry for entry in long_poll.next_entries(waiter, 3)}
    assert {partition: entry.next_offset for partition, entry in first.items()} == {0: 0, 1: 2, 3: 0}
    assert waiter.is_alive()
    assert waiter.status(Code.GET_ME) == Status.INVALID_COMMAND
    root.send(stream, "t", 2, b"not watched")
    root.send(stream, "t", 3, b"c")
    (entry,) = long_poll.next_entries(waiter, 1)
    assert (entry.status, entry.partition, entry.first_offset, entry.next_offset) == (0, 3, 0, 1)
    root.ok(Code.PURGE_TOPIC, frames.ident(stream) + frames.ident("t"))
    purged = long_poll.next_entries(waiter, 3)
    assert {(entry.purge_epoch, entry.next_offset) for entry in purged} == {(1, 0)}
    waiter.send_frame(Code.WATCH_PARTITIONS, long_poll.watch(stream, [0, 3], remove=True))
    assert waiter.receive() == Reply(Status.OK)
    root.send(stream, "t", 3, b"not watched any more")
    root.send(stream, "t", 1, b"d")
    (entry,) = long_poll.next_entries(waiter, 1)
    assert (entry.partition, entry.next_offset) == (1, 1)
    root.ok(Code.DELETE_STREAM, frames.ident(stream))
    (entry,) = long_poll.next_entries(waiter, 1)
    assert (entry.status, entry.partition) == (Status.STREAM_NOT_FOUND, 1)
    assert waiter.ok(Code.GET_ME)


def test_watching_needs_the_right_to_poll(root: RawConnection, shared_server: ServerProcess, stream: str) -> None:
    root.create_topic(stream)
    name = "watcher-of-topics"
    root.ok(Code.CREATE_USER, frames.create_user(name, "secret"))
    with RawConnection.as_user(shared_server.address, name, "secret") as user:
        assert user.status(Code.WATCH_PARTITIONS, long_poll.watch(stream, [0])) == Status.UNAUTHORIZED
        assert user.status(Code.WAIT_MESSAGES, long_poll.wait(stream)) == Status.UNAUTHORIZED
    root.ok(Code.DELETE_USER, frames.ident(name))


def test_the_bound_is_kept(tmp_path: Path) -> None:
    settings = {"WAIT_MAX_PARTITIONS": "4", "SYSTEM_SHARDING_CPU_ALLOCATION": "1"}
    with ServerProcess(tmp_path / "data", settings) as server, ExitStack() as stack:
        root, *others = (stack.enter_context(RawConnection.as_root(server.address)) for _ in range(4))
        root.create_topic("s")
        for connection in others[:2]:
            long_poll.begin(connection, long_poll.wait("s", auto_commit=False))
        time.sleep(0.1)
        refused = others[2].status(Code.WAIT_MESSAGES, long_poll.wait("s"))
        assert refused == TOO_MANY_WAITS
        assert others[2].status(Code.WATCH_PARTITIONS, long_poll.watch("s", [0])) == TOO_MANY_WAITS
        root.send("s", "t", 0, b"x")
        for connection in others[:2]:
            assert long_poll.answer(connection).payloads == [b"x"]


def test_a_server_that_stops_answers_all_clients(tmp_path: Path) -> None:
    with ServerProcess(tmp_path / "data", TWO_SHARDS) as server, ExitStack() as stack:
        root, *others = (stack.enter_context(RawConnection.as_root(server.address)) for _ in range(4))
        root.create_topic("s", partitions=4)
        for partition, connection in enumerate(others):
            long_poll.begin(connection, long_poll.wait("s", partition, seconds=50))
        time.sleep(0.1)
        begin = time.monotonic()
        server.stop()
        # Well before the timeout of the waits.
        assert time.monotonic() - begin < 30
        for connection in others:
            assert long_poll.answer(connection).messages == ()
            assert connection.receive().status == Status.DISCONNECTED


@pytest.mark.long
def test_who_waits_counts_as_alive(tmp_path: Path) -> None:
    settings = {"HEARTBEAT_ENABLED": "true", "HEARTBEAT_INTERVAL": "500 ms"}
    with ServerProcess(tmp_path / "data", settings) as server, RawConnection.as_root(server.address) as root:
        root.create_topic("s")
        long_poll.begin(root, long_poll.wait("s", seconds=3))
        assert long_poll.answer(root).messages == ()
        assert root.is_alive()
