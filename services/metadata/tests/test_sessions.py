"""Sessions over gRPC: a command is applied once, however often it is sent (CTL-1, CTL-2)."""

import asyncio
import secrets
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from grpc import aio
from metadata_commands import create_stream
from metadata_native import alone

from headrace_metadata.api import MetadataService
from headrace_metadata.config import ClusterSettings, TlsSettings
from headrace_metadata.errors import NotPrimaryError, OutcomeUnknownError, SessionEndedError
from headrace_metadata.metrics import Metrics
from headrace_metadata.replica import Replica
from headrace_metadata.server import serving
from headrace_metadata.session import Session
from headrace_metadata.status import ReplicaFacts
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    CloseSessionResponse,
    Command,
    OpenSessionRequest,
    OpenSessionResponse,
    ProposeRequest,
    ProposeResponse,
    Reply,
    SessionRequest,
)
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from headrace_settings import Address

ANY_PORT = Address.parse("127.0.0.1:0")
FACTS = ReplicaFacts(cluster_name="headrace", replica=0, members=("a:1",), release="1", started_at_micros=1)


@asynccontextmanager
async def served(folder):
    """The stub of a replica that is alone."""
    async with AsyncExitStack() as stack:
        replica = await stack.enter_async_context(await Replica.open(alone(folder)))
        await replica.wait_recovered()
        service = MetadataService(replica, FACTS, Metrics(replica.status))
        address = await stack.enter_async_context(serving(service, replica, ANY_PORT, ClusterSettings(), TlsSettings()))
        yield MetadataStub(await stack.enter_async_context(aio.insecure_channel(str(address))))


class Caller:
    """A session by hand."""

    def __init__(self, stub):
        self.stub = stub
        self.client = secrets.token_bytes(16)

    async def open(self):
        opened = await self.stub.OpenSession(OpenSessionRequest(client=self.client))
        self.session = opened.session
        return self

    def place(self, number):
        return SessionRequest(client=self.client, session=self.session, number=number)

    async def propose(self, number, command):
        return (await self.stub.Propose(ProposeRequest(command=command, session=self.place(number)))).reply


async def refused(call):
    with pytest.raises(aio.AioRpcError) as error:
        await call
    return error.value.code()


async def test_a_request_that_is_sent_again_has_the_same_reply(tmp_path):
    async with served(tmp_path) as stub:
        caller = await Caller(stub).open()
        first = await caller.propose(1, create_stream("a"))
        assert first.stream.name == "a"
        assert await caller.propose(1, create_stream("a")) == first
        copies = await asyncio.gather(*(caller.propose(2, create_stream("b")) for _ in range(4)))
        assert {(reply.status, reply.stream.id) for reply in copies} == {(0, 1)}
        assert (await caller.propose(3, create_stream("a"))).status == Status.STREAM_NAME_ALREADY_EXISTS
    # What was applied is known after a restart as well.
    async with served(tmp_path) as stub:
        caller.stub = stub
        assert (await caller.propose(3, create_stream("a"))).status == Status.STREAM_NAME_ALREADY_EXISTS
        assert (await caller.propose(9, create_stream("c"))).stream.id == 2


async def test_what_a_session_is_refused_for_is_told_by_the_status_of_the_call(tmp_path):
    async with served(tmp_path) as stub:
        caller = await Caller(stub).open()
        await caller.propose(5, create_stream("a"))
        assert await refused(caller.propose(5, create_stream("b"))) is grpc.StatusCode.ALREADY_EXISTS
        assert await refused(caller.propose(4, create_stream("b"))) is grpc.StatusCode.OUT_OF_RANGE
        assert await refused(caller.propose(0, create_stream("b"))) is grpc.StatusCode.INVALID_ARGUMENT
        for client in (b"", bytes(16), bytes(17)):
            assert await refused(stub.OpenSession(OpenSessionRequest(client=client))) is (
                grpc.StatusCode.INVALID_ARGUMENT
            )
        assert (await caller.propose(6, Command())).status == Status.INVALID_COMMAND
        assert await stub.CloseSession(caller.place(7)) == CloseSessionResponse()
        assert await refused(caller.propose(8, create_stream("b"))) is grpc.StatusCode.NOT_FOUND
        assert await refused(stub.CloseSession(caller.place(9))) is grpc.StatusCode.NOT_FOUND
        newer = await Caller(stub).open()
        fenced = SessionRequest(client=newer.client, session=newer.session, number=1)
        await newer.open()
        call = stub.Propose(ProposeRequest(command=create_stream("b"), session=fenced))
        assert await refused(call) is grpc.StatusCode.NOT_FOUND


async def test_a_stream_of_proposals_may_belong_to_a_session(tmp_path):
    async with served(tmp_path) as stub:
        caller = await Caller(stub).open()
        requests = [
            ProposeRequest(command=create_stream(name), session=caller.place(number))
            for number, name in [(1, "a"), (1, "a"), (2, "b")]
        ]
        outcomes = [outcome async for outcome in stub.ProposeStream(iter(requests))]
        assert [outcome.response.reply.stream.id for outcome in outcomes] == [0, 0, 1]


def fails(code, primary=None):
    trailing = aio.Metadata(*([("headrace-primary", str(primary))] if primary is not None else []))
    return aio.AioRpcError(code, aio.Metadata(), trailing)


class Scripted:
    """A replica that does what it is told, once each; afterwards it applies what it is given."""

    def __init__(self, *script):
        self.script = list(script)
        self.asked = []
        self.sessions = 0

    async def OpenSession(self, request, **_):  # noqa: N802
        self.sessions += 1
        return OpenSessionResponse(session=self.sessions)

    async def Propose(self, request, **_):  # noqa: N802
        self.asked.append((request.session.session, request.session.number))
        if self.script:
            raise self.script.pop(0)
        return ProposeResponse(reply=Reply())


async def test_a_command_in_doubt_keeps_its_number():
    replica = Scripted(fails(grpc.StatusCode.ABORTED), fails(grpc.StatusCode.UNAVAILABLE))
    session = Session([replica])
    await session.propose(create_stream("a"))
    await session.propose(create_stream("b"))
    assert replica.asked == [(1, 1), (1, 1), (1, 1), (1, 2)]
    assert session.repeats == 1


async def test_a_session_that_ended_is_opened_anew_only_when_nothing_is_in_doubt():
    ended = fails(grpc.StatusCode.NOT_FOUND)
    replica = Scripted(fails(grpc.StatusCode.RESOURCE_EXHAUSTED), ended)
    session = Session([replica])
    await session.propose(create_stream("a"))
    assert replica.asked == [(1, 1), (1, 1), (2, 1)]

    replica.script = [fails(grpc.StatusCode.DEADLINE_EXCEEDED), ended]
    with pytest.raises(SessionEndedError):
        await session.propose(create_stream("b"))
    await session.propose(create_stream("c"))
    assert replica.asked[3:] == [(2, 2), (2, 2), (3, 1)]


async def test_out_of_time_says_whether_the_command_may_be_applied():
    session = Session([Scripted(*[fails(grpc.StatusCode.FAILED_PRECONDITION, 0)] * 100_000)])
    with pytest.raises(NotPrimaryError):
        await session.propose(create_stream("a"), timeout_seconds=0.1)
    session = Session([Scripted(*[fails(grpc.StatusCode.UNAVAILABLE)] * 100_000)])
    with pytest.raises(OutcomeUnknownError):
        await session.propose(create_stream("a"), timeout_seconds=0.1)


async def test_the_primary_that_is_named_is_asked_next():
    backups = [Scripted(*[fails(grpc.StatusCode.FAILED_PRECONDITION, 2)] * 9) for _ in range(2)]
    primary = Scripted()
    session = Session([*backups, primary])
    for name in "abc":
        await session.propose(create_stream(name))
    assert len(primary.asked) == 3
    assert sum(len(backup.asked) for backup in backups) <= 1


async def test_replicas_that_name_each_other_are_not_asked_without_a_pause(monkeypatch):
    pauses = []

    async def pause(seconds):
        pauses.append(seconds)

    monkeypatch.setattr(asyncio, "sleep", pause)
    replicas = [Scripted(*[fails(grpc.StatusCode.FAILED_PRECONDITION, other)] * 10) for other in (1, 0)]
    await Session(replicas).propose(create_stream("a"))
    asked = sum(len(replica.asked) for replica in replicas)
    assert asked > 10
    assert len(pauses) == (asked - 1) // 2


async def test_a_caller_that_is_not_let_in_learns_it():
    session = Session([Scripted(fails(grpc.StatusCode.UNAUTHENTICATED))])
    with pytest.raises(aio.AioRpcError):
        await session.propose(create_stream("a"))
