"""A gateway answers once its catalog contains the effect: commands, logins and revocations over gRPC (GW-8, CTL-1)."""

import asyncio

import grpc
import pytest
from grpc import aio

from headrace_gateway.catalog.follower import Catalog
from headrace_gateway.catalog.refresh import CatchingUp
from headrace_gateway.ports import NoAnswer
from headrace_gateway.service.remote_metadata import (
    ClusterRevocations,
    CommandFailed,
    RemoteCredentials,
    RemoteNewest,
    RemoteProposer,
    RemoteTransactions,
)
from headrace_metadata_client import Connections, SessionPool
from headrace_proto.catalog.v1 import Delta, RevokedLogin, Snapshot, Stream, Update
from headrace_proto.metadata.v1 import (
    Command,
    CreateStream,
    CredentialsRecord,
    OpenSessionResponse,
    ProposeResponse,
    ReadResponse,
    Reply,
    Transaction,
)


class Watch:
    """Delivers the events of a test."""

    def __init__(self):
        self.reported = asyncio.Queue()
        self.expected = []
        self.age_seconds = 0.0

    def expect(self, version):
        self.expected.append(version)

    async def events(self):
        while True:
            yield await self.reported.get()


class Shards:
    def __init__(self):
        self.version = None

    def publish_snapshot(self, snapshot):
        self.version = snapshot.version

    def publish_update(self, update):
        assert update.version == self.version + 1
        self.version = update.version


class Replica:
    """Applies commands; the test sets the outcome of calls."""

    def __init__(self):
        self.version = 5
        self.commands = []
        self.failure = None

    async def OpenSession(self, request, **_):  # noqa: N802
        return OpenSessionResponse(session=1)

    async def Propose(self, request, **_):  # noqa: N802
        if self.failure is not None:
            raise self.failure
        self.version += 1
        self.commands.append(request.command)
        return ProposeResponse(reply=Reply(), version=self.version)

    async def Read(self, request, **_):  # noqa: N802
        if self.failure is not None:
            raise self.failure
        if request.HasField("transaction"):
            return ReadResponse(
                version=self.version, transaction=Transaction(name=request.transaction.name, batch_id=7)
            )
        return ReadResponse(version=self.version, credentials=CredentialsRecord(user_id=7))


class Behind:
    """A gateway with one remote replica."""

    def __init__(self, reach_seconds=10.0):
        self.watch, self.shards, self.replica = Watch(), Shards(), Replica()
        self.catalog = Catalog(self.watch, reach_seconds=reach_seconds)
        self.connections = Connections(("replica:1",), (self.replica,), ())
        self.proposer = RemoteProposer(SessionPool(self.connections, timeout_seconds=0.3), self.catalog)

    def publish(self, version, *deltas):
        self.watch.reported.put_nowait(Update(version=version, deltas=deltas or [Delta(stream_put=Stream(id=1))]))


@pytest.fixture
async def behind():
    it = Behind()
    following = asyncio.create_task(it.catalog.follow(it.shards))
    it.watch.reported.put_nowait(Snapshot(version=5))
    await it.catalog.begun()
    yield it
    following.cancel()
    await asyncio.wait({following})


def create(name="s"):
    return Command(create_stream=CreateStream(name=name))


def failed(code):
    return aio.AioRpcError(code, aio.Metadata(), aio.Metadata())


async def settled(task):
    for _ in range(20):
        await asyncio.sleep(0)
    return task.done()


async def test_a_command_is_answered_when_the_shards_show_it(behind):
    proposing = asyncio.create_task(behind.proposer.propose(create()))
    assert not await settled(proposing)
    assert behind.watch.expected == [6], "the watch is notified of what is to come"
    behind.publish(6)
    assert (await proposing).status == 0
    assert behind.shards.version == 6


async def test_those_who_wait_are_woken_by_their_own_version(behind):
    waiting = [asyncio.create_task(behind.catalog.reach(version)) for version in (8, 6, 7, 6)]
    await settled(waiting[0])
    behind.publish(6)
    await asyncio.wait(waiting, timeout=0.05)
    assert [task.done() for task in waiting] == [False, True, False, True]
    # A cancelled waiter does not affect the others.
    waiting[2].cancel()
    behind.watch.reported.put_nowait(Snapshot(version=9))
    await asyncio.wait_for(waiting[0], 10)
    await behind.catalog.reach(9)


async def test_what_does_not_come_is_said_to_be_in_doubt():
    it = Behind(reach_seconds=0.05)
    with pytest.raises(CommandFailed, match="it was applied, but") as error:
        await it.proposer.propose(create())
    assert error.value.is_in_doubt
    with pytest.raises(NoAnswer):
        await it.catalog.reach(99)


@pytest.mark.parametrize(
    ("code", "is_in_doubt"),
    [
        (grpc.StatusCode.FAILED_PRECONDITION, False),
        (grpc.StatusCode.UNAVAILABLE, True),
        (grpc.StatusCode.UNAUTHENTICATED, False),
        (grpc.StatusCode.INVALID_ARGUMENT, False),
    ],
)
async def test_an_unknown_outcome_is_distinguished_from_what_was_not_done(behind, code, is_in_doubt):
    behind.replica.failure = failed(code)
    with pytest.raises(CommandFailed) as error:
        await behind.proposer.propose(create())
    assert error.value.is_in_doubt is is_in_doubt
    with pytest.raises(NoAnswer):
        await ClusterRevocations(behind.proposer, behind.catalog).add("t", 1, expired_before=0)


async def test_a_query_without_an_answer_is_reported(behind):
    behind.replica.failure = failed(grpc.StatusCode.UNAUTHENTICATED)
    with pytest.raises(NoAnswer):
        await RemoteCredentials(behind.connections, behind.catalog).credentials_of(7)


async def test_what_was_committed_is_asked_for(behind):
    found = await RemoteTransactions(behind.connections).transaction(1, "t")
    assert found.batch_id == 7
    behind.replica.failure = failed(grpc.StatusCode.UNAUTHENTICATED)
    with pytest.raises(NoAnswer):
        await RemoteTransactions(behind.connections).transaction(1, "t")


async def test_credentials_are_given_when_the_catalog_is_not_older(behind):
    behind.replica.version = 7
    asking = asyncio.create_task(RemoteCredentials(behind.connections, behind.catalog).credentials_named("ann"))
    assert not await settled(asking)
    behind.publish(6)
    assert not await settled(asking)
    behind.publish(7)
    assert (await asking).user_id == 7


async def test_a_login_that_is_taken_back_is_over_from_the_call_on_and_everywhere(behind):
    revocations = ClusterRevocations(behind.proposer, behind.catalog)
    adding = asyncio.create_task(revocations.add("the token", 1000, expired_before=0))
    await settled(adding)
    assert revocations.holds("the token")
    assert not revocations.holds("another")
    revoke = behind.replica.commands[0].revoke_login
    assert revoke.expires_at_micros > 1000 * 1_000_000
    # Another gateway learns of the revocation from the catalog.
    elsewhere = Behind()
    elsewhere.catalog.view.replace(Snapshot(version=5))
    there = ClusterRevocations(elsewhere.proposer, elsewhere.catalog)
    assert not there.holds("the token")
    delta = Delta(revoked_login_put=RevokedLogin(digest=revoke.digest, expires_at_micros=revoke.expires_at_micros))
    elsewhere.catalog.view.update(Update(version=6, deltas=[delta]))
    assert there.holds("the token")
    behind.publish(6, delta)
    await adding
    assert revocations.holds("the token")
    behind.publish(7, Delta(revoked_login_deleted=revoke.digest))
    await behind.catalog.reach(7)
    assert not revocations.holds("the token")


async def test_what_another_gateway_has_made_has_come_when_one_has_caught_up(behind):
    behind.replica.version = 7
    catching_up = asyncio.create_task(CatchingUp(RemoteNewest(behind.connections, behind.catalog).reach).catch_up())
    assert not await settled(catching_up)
    behind.publish(6)
    assert not await settled(catching_up)
    behind.publish(7)
    await catching_up
    assert behind.shards.version == 7


async def test_a_question_serves_those_who_came_before_it():
    questions = []

    async def ask():
        questions.append(asyncio.get_running_loop().create_future())
        await questions[-1]

    catching_up = CatchingUp(ask)
    early = [asyncio.create_task(catching_up.catch_up()) for _ in range(3)]
    await settled(early[0])
    assert len(questions) == 1, "they came at once"
    late = [asyncio.create_task(catching_up.catch_up()) for _ in range(3)]
    await settled(late[0])
    assert len(questions) == 1, "one at a time"
    # A cancelled waiter does not affect the others.
    early[0].cancel()
    late[0].cancel()
    questions[0].set_result(None)
    await asyncio.gather(*early[1:])
    assert not await settled(late[1]), "the first question may have been answered before they came"
    assert len(questions) == 2
    questions[1].set_result(None)
    await asyncio.gather(*late[1:])
    third = asyncio.create_task(catching_up.catch_up())
    assert not await settled(third)
    questions[2].set_result(None)
    await third


async def test_a_refusal_does_not_wait_for_long(behind, caplog):
    behind.replica.failure = failed(grpc.StatusCode.UNAUTHENTICATED)
    await CatchingUp(RemoteNewest(behind.connections, behind.catalog).reach).catch_up()
    assert "refusals are unconfirmed" in caplog.text
    silent = CatchingUp(asyncio.Event().wait, timeout_seconds=0.05)
    await asyncio.wait_for(asyncio.gather(silent.catch_up(), silent.catch_up()), 10)
