"""Sessions over gRPC: a command is applied once, even if it is sent repeatedly (CTL-1, CTL-2)."""

import asyncio
import secrets
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
from grpc import aio
from metadata_commands import create_stream
from metadata_native import alone

from headrace_metadata.api import MetadataService
from headrace_metadata.config import ClusterSettings, ReplicaTlsSettings
from headrace_metadata.metrics import Metrics
from headrace_metadata.replica import Replica
from headrace_metadata.server import serving
from headrace_metadata.status import ReplicaFacts
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    CloseSessionResponse,
    Command,
    OpenSessionRequest,
    ProposeRequest,
    SessionRequest,
)
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from headrace_settings import Address

ANY_PORT = Address.parse("127.0.0.1:0")
FACTS = ReplicaFacts(cluster_name="headrace", replica=0, members=("a:1",), release="1", started_at_micros=1)


@asynccontextmanager
async def served(directory):
    """Yield the stub of a single replica."""
    async with AsyncExitStack() as stack:
        replica = await stack.enter_async_context(await Replica.open(alone(directory)))
        await replica.wait_recovered()
        service = MetadataService(replica, FACTS, Metrics(replica.status))
        serves = serving(service, replica, ANY_PORT, ClusterSettings(), ReplicaTlsSettings())
        address = (await stack.enter_async_context(serves)).address
        yield MetadataStub(await stack.enter_async_context(aio.insecure_channel(str(address))))


class Caller:
    """A session driven manually."""

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
    # Applied requests are known after a restart as well.
    async with served(tmp_path) as stub:
        caller.stub = stub
        assert (await caller.propose(3, create_stream("a"))).status == Status.STREAM_NAME_ALREADY_EXISTS
        assert (await caller.propose(9, create_stream("c"))).stream.id == 2


async def test_what_a_session_is_refused_for_is_reported_by_the_status_of_the_call(tmp_path):
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
