"""Sessions of this process with a real node (GW-4, GW-6: every API has the permissions of the binary protocol)."""

import asyncio
import contextlib
import json
import socket
import struct

import pytest

import headrace_core
from headrace_node.connections.caller import CALLER, Caller
from headrace_node.connections.sessions import SessionLost, Sessions
from headrace_proto.catalog.v1 import GlobalPermissions, Permissions, Snapshot, User, UserStatus
from headrace_proto.errors import Status

PING, GET_CLUSTER_METADATA, GET_ME, GET_CLIENTS, GET_USERS = 1, 12, 20, 22, 32
ROOT, GUEST, ANONYMOUS = 0, 7, 8


@pytest.fixture(params=["auto", "poll"])
def node(request, tmp_path):
    settings = {"data_path": str(tmp_path), "tcp_address": None, "cpu_allocation": "2", "driver": request.param}
    node = headrace_core.Node(json.dumps(settings))
    everything = Permissions(**{"global": GlobalPermissions(manage_servers=True, manage_users=True)})
    active = UserStatus.USER_STATUS_ACTIVE
    node.publish_snapshot(
        Snapshot(
            version=1,
            users=[
                User(id=ROOT, username="root", status=active, permissions=everything),
                User(id=GUEST, username="guest", status=active),
            ],
        ).SerializeToString()
    )
    node.start()
    node.listen()
    yield node
    node.stop(5.0)


@pytest.fixture
async def sessions(node):
    def connect(user_id):
        return socket.socket(fileno=node.open_session(user_id))

    async with Sessions(connect) as sessions:
        yield sessions


async def test_a_session_has_the_rights_of_its_user(sessions):
    assert (await sessions.call(ROOT, GET_USERS)).status == Status.OK
    assert (await sessions.call(GUEST, GET_USERS)).status == Status.UNAUTHORIZED
    assert (await sessions.call(ANONYMOUS, GET_USERS)).status == Status.UNAUTHENTICATED
    status, payload = await sessions.call(GUEST, GET_CLUSTER_METADATA)
    assert status == Status.OK
    assert b"iggy-node" in payload


async def test_sessions_are_not_clients(sessions):
    """Sessions are neither listed nor counted as clients; each can query itself."""
    async with sessions.of(ROOT) as one, sessions.of(ROOT) as other:
        assert await one.call(GET_CLIENTS) == (Status.OK, b"")
        ids = {(await session.call(GET_ME)).payload[:4] for session in (one, other)}
    assert len(ids) == 2


async def test_a_session_is_used_again_by_its_user_only(node):
    opened = []

    def connect(user_id):
        opened.append(user_id)
        return socket.socket(fileno=node.open_session(user_id))

    async with Sessions(connect) as sessions:
        for user in (ROOT, GUEST, ROOT, GUEST):
            await sessions.call(user, PING)
        assert opened == [ROOT, GUEST]
        await asyncio.gather(*(sessions.call(ROOT, PING) for _ in range(20)))
        assert opened.count(ROOT) <= 20


async def test_who_does_not_come_back_makes_room_for_those_who_do(node):
    opened = []

    def connect(user_id):
        opened.append(user_id)
        return socket.socket(fileno=node.open_session(user_id))

    async with Sessions(connect, idle_max=2) as sessions:
        for user in (ROOT, GUEST, ANONYMOUS, GUEST, ANONYMOUS, ANONYMOUS, GUEST):
            await sessions.call(user, PING)
        assert opened == [ROOT, GUEST, ANONYMOUS]
        await sessions.call(ROOT, PING)
        await sessions.call(GUEST, PING)
        assert opened == [ROOT, GUEST, ANONYMOUS, ROOT]


async def test_a_cancelled_command_takes_its_session_with_it(sessions):
    """The answer of the cancelled command is still in flight: the next command must not take it for its own."""
    for _ in range(50):
        task = asyncio.ensure_future(sessions.call(ROOT, GET_CLUSTER_METADATA))
        await asyncio.sleep(0)
        task.cancel()
        with contextlib.suppress(asyncio.CancelledError):
            await task
        assert await sessions.call(ROOT, PING) == (Status.OK, b"")


async def test_a_node_that_stops_ends_its_sessions(node, sessions):
    async with sessions.of(ROOT) as session:
        await session.call(PING)
        assert await asyncio.to_thread(node.stop, 30.0)
        # Status 8 may precede the end, as for any client.
        with contextlib.suppress(SessionLost):
            assert (await session.call(PING)).status == Status.DISCONNECTED
            await session.call(PING)
            pytest.fail("it answers although the node has stopped")
    with pytest.raises(SessionLost, match="refused the session"):
        await sessions.call(ROOT, PING)


class OtherEnd:
    """A node whose answers a test controls, and which may send unsolicited data."""

    def __init__(self):
        self.ends = []

    def connect(self, user_id):
        here, there = socket.socketpair()
        self.ends.append(there)
        return here

    def say(self, number, status):
        self.ends[number].sendall(struct.pack("<II", status, 0))


@pytest.fixture
def other_end():
    end = OtherEnd()
    yield end
    for there in end.ends:
        there.close()


async def test_a_disconnection_answers_no_request(other_end):
    """A disconnect notice that arrives while the session is idle ends it; so does one in place of an answer."""
    async with Sessions(other_end.connect) as sessions:
        other_end_of_call = asyncio.ensure_future(sessions.call(ROOT, PING))
        while not other_end.ends:
            await asyncio.sleep(0)
        other_end.say(0, Status.OK)
        assert (await other_end_of_call).status == Status.OK
        other_end.say(0, Status.DISCONNECTED)
        await asyncio.sleep(0.05)
        for number, status in ((1, Status.DISCONNECTED), (2, Status.OK), (2, Status.OK)):
            call = asyncio.ensure_future(sessions.call(ROOT, PING))
            while len(other_end.ends) <= number:
                await asyncio.sleep(0)
            other_end.say(number, status)
            assert (await call).status == status
        assert len(other_end.ends) == 3


async def test_what_is_given_back_after_the_end_is_closed(other_end):
    async with Sessions(other_end.connect) as sessions:
        used = sessions.of(ROOT)
        session = await used.__aenter__()
    await used.__aexit__(None, None, None)
    assert not session.is_reusable
    assert await asyncio.to_thread(other_end.ends[0].recv, 1) == b""


async def test_no_more_sessions_at_a_time_than_allowed(node):
    opened = []

    def connect(user_id):
        opened.append(user_id)
        return socket.socket(fileno=node.open_session(user_id))

    async with Sessions(connect, open_max=3) as sessions:
        answers = await asyncio.gather(*(sessions.call(ROOT, PING) for _ in range(30)))
    assert all(answer.status == Status.OK for answer in answers)
    assert len(opened) <= 3


async def test_who_waits_too_long_for_a_session_gets_an_answer(other_end):
    """Regression: commands for an unreachable node kept those of all users waiting."""
    CALLER.set(Caller("127.0.0.1:1", "http"))
    async with Sessions(other_end.connect, open_max=1, wait_seconds_max=0.05) as sessions, asyncio.timeout(30):
        stuck = asyncio.ensure_future(sessions.call(ROOT, PING))
        while not other_end.ends:
            await asyncio.sleep(0)
        # A change has a session of its own.
        for command in ((PING, b""), headrace_core.encode_create_stream(name="s")):
            with pytest.raises(SessionLost, match="too many requests") as lost:
                await sessions.call(GUEST, *command)
            assert not lost.value.is_in_doubt
        other_end.say(0, Status.OK)
        assert (await stuck).status == Status.OK
        call = asyncio.ensure_future(sessions.call(GUEST, PING))
        while len(other_end.ends) < 2:
            await asyncio.sleep(0)
        other_end.say(1, Status.OK)
        assert (await call).status == Status.OK


async def test_who_waits_for_answers_leaves_places_to_others(other_end):
    """Regression: calls of one user that waited, for a node or for a quota, held every place."""
    async with Sessions(other_end.connect, open_max=8, wait_seconds_max=60) as sessions, asyncio.timeout(30):
        stuck = [asyncio.ensure_future(sessions.call(GUEST, PING)) for _ in range(20)]
        while len(other_end.ends) < 4:
            await asyncio.sleep(0)
        for _ in range(100):
            await asyncio.sleep(0)
        assert len(other_end.ends) == 4
        call = asyncio.ensure_future(sessions.call(ROOT, PING))
        while len(other_end.ends) < 5:
            await asyncio.sleep(0)
        other_end.say(4, Status.OK)
        assert (await call).status == Status.OK
        # Callers that have waited go on in order, and one that gives up leaves no place taken.
        stuck[4].cancel()
        other_end.say(0, Status.OK)
        assert (await stuck[0]).status == Status.OK
        for task in stuck[1:]:
            task.cancel()
        await asyncio.gather(*stuck, return_exceptions=True)
        call = asyncio.ensure_future(sessions.call(GUEST, PING))
        count = len(other_end.ends)
        while len(other_end.ends) == count:
            await asyncio.sleep(0)
        other_end.say(count, Status.OK)
        assert (await call).status == Status.OK
