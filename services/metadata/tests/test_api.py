"""The gRPC service over one replica: commands, reads, watches, status, the secret and encryption (CTL-2, GW-6)."""

import asyncio
from contextlib import AsyncExitStack, asynccontextmanager

import grpc
import pytest
import trustme
from fake_native import FakeNative
from grpc import aio
from grpc_health.v1 import health_pb2, health_pb2_grpc
from grpc_reflection.v1alpha import reflection_pb2, reflection_pb2_grpc
from metadata_commands import create_stream, create_token, create_topic, create_user
from node_commands import pulse, register
from transaction_commands import commit

from headrace_chassis.errors import CertificateError, ListenError
from headrace_chassis.grpc.unauthenticated import PLACES
from headrace_metadata.api import MetadataService
from headrace_metadata.config import ClusterSettings, ReplicaTlsSettings
from headrace_metadata.expiry_ticker import proposing_the_time
from headrace_metadata.metrics import Metrics
from headrace_metadata.replica import Replica
from headrace_metadata.server import serving
from headrace_metadata.state_machine import StateMachine
from headrace_metadata.status import ReplicaFacts
from headrace_proto.catalog.v1 import NODE_STATUS_SILENT
from headrace_proto.cluster_token import HEADER, PRIMARY_METADATA, authorization
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import (
    CONSISTENCY_STALE,
    REPLICA_STATE_NORMAL,
    AccessTokenQuery,
    CatalogQuery,
    CredentialsQuery,
    GetSnapshotRequest,
    GetStatusRequest,
    NodesQuery,
    PlacementQuery,
    ProposeRequest,
    ReadLogRequest,
    ReadRequest,
    StateSnapshot,
    StreamQuery,
    TransactionQuery,
    VersionQuery,
    WatchRequest,
)
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from headrace_settings import Address, Duration, Secret

SECRET = "a secret of the cluster, of 32 bytes or more"
ANY_PORT = Address.parse("127.0.0.1:0")
FACTS = ReplicaFacts(cluster_name="headrace", replica=0, members=("a:1",), release="1", started_at_micros=1)


class Served:
    def __init__(self, native, replica, address, stub):
        self.native = native
        self.replica = replica
        self.address = address
        self.stub = stub

    async def propose(self, command):
        return (await self.stub.Propose(ProposeRequest(command=command))).reply


@asynccontextmanager
async def served(native=None, *, secret=None, tls=None, channel=None):
    native = native or FakeNative()
    cluster = ClusterSettings(secret=Secret(secret) if secret else None)
    async with AsyncExitStack() as stack:
        replica = await stack.enter_async_context(await Replica.open(native))
        service = MetadataService(replica, FACTS, Metrics(replica.status))
        serves = serving(service, replica, ANY_PORT, cluster, tls or ReplicaTlsSettings())
        address = (await stack.enter_async_context(serves)).address
        channel = await stack.enter_async_context(channel(address) if channel else aio.insecure_channel(str(address)))
        yield Served(native, replica, address, MetadataStub(channel))


async def refused(call):
    with pytest.raises(aio.AioRpcError) as error:
        await call
    return error.value


async def take(watch, count):
    return [await asyncio.wait_for(watch.read(), 60) for _ in range(count)]


async def test_a_command_is_committed_and_read_back():
    async with served() as it:
        response = await it.stub.Propose(ProposeRequest(command=create_stream("s")))
        assert (response.reply.status, response.reply.stream.name, response.version) == (0, "s", 1)
        assert (await it.propose(create_stream("s"))).status == Status.STREAM_NAME_ALREADY_EXISTS
        await it.propose(create_topic(0, "t", 2))
        for query in (StreamQuery(id=0), StreamQuery(name="s")):
            read = await it.stub.Read(ReadRequest(stream=query))
            assert read.version == 2
            assert (read.stream.stream.name, [topic.name for topic in read.stream.topics]) == ("s", ["t"])
        catalog = (await it.stub.Read(ReadRequest(catalog=CatalogQuery()))).catalog
        assert (catalog.version, len(catalog.streams), len(catalog.topics)) == (2, 1, 1)
        version = await it.stub.Read(ReadRequest(version=VersionQuery()))
        assert (version.version, version.HasField("result")) == (2, False)
        for query in (StreamQuery(id=7), StreamQuery(name="nobody"), StreamQuery()):
            assert not (await it.stub.Read(ReadRequest(stream=query))).HasField("result")


async def test_a_catalog_has_an_identity_from_its_first_user_on():
    """Two clusters of one name have different identities, and nothing that is done later changes one."""
    found = []
    for commands_before in range(2):
        async with served() as it:
            for number in range(commands_before):
                await it.propose(create_stream(f"before-{number}"))

            async def identity(it=it):
                return (await it.stub.Read(ReadRequest(version=VersionQuery()))).catalog_identity

            assert not await identity()
            await it.propose(create_user("root"))
            found.append(await identity())
            await it.propose(create_user("other"))
            await it.propose(create_stream("s"))
            assert await identity() == found[-1]
    assert [len(identity) for identity in found] == [32, 32]
    assert found[0] != found[1]


async def test_credentials_are_read_for_logins_elsewhere():
    async with served() as it:
        await it.propose(create_user("alice"))
        await it.propose(create_token(0, "token", b"digest", 99))
        for query in (CredentialsQuery(user_id=0), CredentialsQuery(username="alice")):
            credentials = (await it.stub.Read(ReadRequest(credentials=query))).credentials
            assert (credentials.username, credentials.password_hash) == ("alice", "hash of alice")
            assert credentials.is_active
        token = (await it.stub.Read(ReadRequest(access_token=AccessTokenQuery(digest=b"digest")))).access_token
        assert (token.user_id, token.expires_at_micros, token.is_active) == (0, 99, True)
        missing = await it.stub.Read(ReadRequest(access_token=AccessTokenQuery(digest=b"other")))
        assert not missing.HasField("access_token")


async def test_nodes_and_placements_are_read_and_watched():
    async with served() as it:
        watch = it.stub.Watch(WatchRequest())
        await take(watch, 1)
        for command in (register("a"), register("b"), create_stream("s"), create_topic(0, "t", 3)):
            await it.propose(command)
        nodes = (await it.stub.Read(ReadRequest(nodes=NodesQuery()))).nodes.nodes
        assert [(record.node.id, record.node.name) for record in nodes] == [(1, "a"), (2, "b")]
        assert sum(record.replicas_count for record in nodes) == 3
        query = PlacementQuery(stream_id=0, topic_id=0)
        placement = (await it.stub.Read(ReadRequest(placement=query))).placement
        assert [len(partition.node_ids) for partition in placement.partitions] == [1, 1, 1]
        missing = await it.stub.Read(ReadRequest(placement=PlacementQuery(stream_id=9)))
        assert not missing.HasField("result")
        first, *_, last = await take(watch, 4)
        assert first.update.deltas[0].node_put == nodes[0].node
        assert last.update.deltas[1].topic_placement_put == placement


async def test_what_was_committed_is_read():
    async with served() as it:
        await it.propose(create_stream("s"))
        await it.propose(commit(7))
        found = (await it.stub.Read(ReadRequest(transaction=TransactionQuery(name="t")))).transaction
        assert (found.query_id, found.batch_id) == ("q", 7)
        for query in (TransactionQuery(name="u"), TransactionQuery(stream_id=1, name="t"), TransactionQuery()):
            assert not (await it.stub.Read(ReadRequest(transaction=query))).HasField("result")


async def test_a_reply_names_the_time_up_to_which_its_version_has_every_change():
    async with served() as it:
        first = await it.stub.Propose(ProposeRequest(command=create_stream("s")))
        # Also for a command without effect, and for a refused one.
        second = await it.stub.Propose(ProposeRequest(command=pulse()))
        third = await it.stub.Propose(ProposeRequest(command=create_stream("s")))
        assert (first.version, second.version, third.version) == (1, 1, 1)
        assert 0 < first.timestamp_micros < second.timestamp_micros < third.timestamp_micros
        assert third.timestamp_micros == it.replica.state.timestamp_micros


async def test_time_passes_without_requests():
    async with served() as it, proposing_the_time(it.replica, check_seconds=0.01):
        await it.propose(register("a", lease_micros=1))
        watch = it.stub.Watch(WatchRequest(after_version=1))
        (event,) = await take(watch, 1)
        assert event.update.deltas[0].node_put.status == NODE_STATUS_SILENT


async def test_a_backup_names_the_primary_and_answers_stale_reads():
    async with served(FakeNative(primary=2)) as it:
        it.native.commit([(0, create_stream("s").SerializeToString())])
        error = await refused(it.stub.Propose(ProposeRequest(command=create_stream("t"))))
        assert error.code() is grpc.StatusCode.FAILED_PRECONDITION
        assert dict(error.trailing_metadata())[PRIMARY_METADATA] == "2"
        assert (await refused(it.stub.Read(ReadRequest(stream=StreamQuery(id=0))))).code() is (
            grpc.StatusCode.FAILED_PRECONDITION
        )
        read = await it.stub.Read(ReadRequest(consistency=CONSISTENCY_STALE, stream=StreamQuery(id=0)))
        assert read.stream.stream.name == "s"


async def test_what_became_of_a_proposal_is_reported_by_the_status_of_the_call():
    expected = {
        "busy": grpc.StatusCode.RESOURCE_EXHAUSTED,
        "storage": grpc.StatusCode.RESOURCE_EXHAUSTED,
        "unknown": grpc.StatusCode.ABORTED,
    }
    async with served(FakeNative(commit_at_once=False)) as it:
        for reason, code in expected.items():
            tickets = it.native.tickets
            call = asyncio.ensure_future(it.stub.Propose(ProposeRequest(command=create_stream("s"))))
            while it.native.tickets == tickets:
                await asyncio.sleep(0.001)
            it.native.emit("refused", it.native.tickets, reason, -1)
            assert (await refused(call)).code() is code
        it.native.emit("stopped", "the disk is gone")
        error = await refused(it.stub.Propose(ProposeRequest(command=create_stream("s"))))
        assert (error.code(), "the disk is gone" in error.details()) == (grpc.StatusCode.INTERNAL, True)


async def test_one_command_after_the_other_in_a_stream():
    async with served() as it:
        call = it.stub.ProposeStream()
        for version, name in enumerate(("a", "b", "c"), start=1):
            await call.write(ProposeRequest(command=create_stream(name)))
            outcome = await call.read()
            assert (outcome.response.reply.stream.name, outcome.response.version) == (name, version)
        # Concurrent requests are answered in their order.
        for name in ("a", "d"):
            await call.write(ProposeRequest(command=create_stream(name)))
        statuses = [(await call.read()).response.reply.status for _ in range(2)]
        assert statuses == [Status.STREAM_NAME_ALREADY_EXISTS, Status.OK]
        it.native.primary = 2
        await call.write(ProposeRequest(command=create_stream("e")))
        assert (await call.read()).not_taken.primary == 2
        it.native.primary, it.native.commit_at_once = 0, False
        for reason in ("busy", "storage", "unknown"):
            tickets = it.native.tickets
            await call.write(ProposeRequest(command=create_stream("e")))
            while it.native.tickets == tickets:
                await asyncio.sleep(0.001)
            it.native.emit("refused", it.native.tickets, reason, -1)
            if reason != "unknown":
                assert (await call.read()).not_taken.reason
        assert (await refused(call.read())).code() is grpc.StatusCode.ABORTED


async def test_requests_that_this_release_does_not_know_are_refused():
    async with served() as it:
        assert (await refused(it.stub.Read(ReadRequest()))).code() is grpc.StatusCode.INVALID_ARGUMENT
        unknown = ReadRequest(consistency=9, catalog=CatalogQuery())
        assert (await refused(it.stub.Read(unknown))).code() is grpc.StatusCode.INVALID_ARGUMENT


async def test_a_watch_begins_with_the_catalog_and_has_no_gap():
    async with served() as it:
        await it.propose(create_stream("before"))
        watch = it.stub.Watch(WatchRequest())
        (first,) = await take(watch, 1)
        assert first.snapshot.version == 1
        for number in range(200):
            await it.propose(create_stream(f"s{number}"))
        events = await take(watch, 200)
        assert [event.update.version for event in events] == list(range(2, 202))
        watch.cancel()


async def test_a_watch_goes_on_where_another_ended():
    async with served() as it:
        for number in range(10):
            await it.propose(create_stream(f"s{number}"))
        history = it.replica.state
        assert history.version == 10
        watch = it.stub.Watch(WatchRequest(after_version=10))
        await it.propose(create_stream("new"))
        assert [event.update.version for event in await take(watch, 1)] == [11]
        ahead = it.stub.Watch(WatchRequest(after_version=12))
        await it.propose(create_stream("twelve"))
        await it.propose(create_stream("thirteen"))
        assert [event.update.version for event in await take(ahead, 1)] == [13]
        again = it.stub.Watch(WatchRequest(after_version=3))
        assert [event.update.version for event in await take(again, 10)] == list(range(4, 14))


async def test_a_watch_that_missed_too_much_begins_again():
    ahead = StateMachine()
    for number in range(1, 6):
        ahead.apply(number, number * 10, create_stream(f"s{number}"))
    async with served() as it:
        await it.propose(create_stream("old"))
        watch = it.stub.Watch(WatchRequest(after_version=0))
        assert [event.update.version for event in await take(watch, 1)] == [1]
        it.native.op = 9
        it.native.emit("restore", 9, ahead.snapshot().SerializeToString())
        (event,) = await take(watch, 1)
        assert (event.snapshot.version, len(event.snapshot.streams)) == (5, 5)
        await it.propose(create_stream("new"))
        assert [event.update.version for event in await take(watch, 1)] == [6]


async def test_status_log_and_snapshot():
    async with served() as it:
        await it.propose(create_user("alice"))
        await it.propose(create_topic(3, "t"))
        status = await it.stub.GetStatus(GetStatusRequest())
        assert (status.cluster_name, status.replica, status.primary) == ("headrace", 0, 0)
        assert (status.state, status.op, status.version) == (REPLICA_STATE_NORMAL, 2, 1)
        assert [(member.address, member.connected) for member in status.members] == [("a:1", True)]
        entries = (await it.stub.ReadLog(ReadLogRequest())).entries
        assert [(entry.number, entry.operation, entry.status) for entry in entries] == [
            (1, "create_user", 0),
            (2, "create_topic", Status.STREAM_ID_NOT_FOUND),
        ]
        assert [entry.number for entry in (await it.stub.ReadLog(ReadLogRequest(count_max=1))).entries] == [2]
        chunks = [chunk.contents async for chunk in it.stub.GetSnapshot(GetSnapshotRequest())]
        snapshot = StateSnapshot.FromString(b"".join(chunks))
        assert [user.username for user in snapshot.catalog.users] == ["alice"]


async def test_without_the_secret_only_health_is_reported():
    def knowing(secret, cluster="headrace"):
        return ((HEADER, authorization(secret, cluster)),)

    async with served(secret=SECRET) as it:
        request = ProposeRequest(command=create_stream("s"))
        wrong = [None, knowing("another secret, wrong"), knowing(SECRET, "other"), knowing(SECRET) * 2]
        for metadata in wrong:
            assert (await refused(it.stub.Propose(request, metadata=metadata))).code() is (
                grpc.StatusCode.UNAUTHENTICATED
            )
            watch = it.stub.Watch(WatchRequest(), metadata=metadata)
            assert (await refused(watch.read())).code() is grpc.StatusCode.UNAUTHENTICATED
            async with aio.insecure_channel(str(it.address)) as channel:
                lasting = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest(), metadata=metadata)
                assert (await refused(lasting.read())).code() is grpc.StatusCode.UNAUTHENTICATED
        assert it.replica.state.op == 0
        assert (await it.stub.Propose(request, metadata=knowing(SECRET))).reply.status == 0
        async with aio.insecure_channel(str(it.address)) as channel:
            health = health_pb2_grpc.HealthStub(channel)
            response = await health.Check(health_pb2.HealthCheckRequest(service="headrace.metadata.v1.Metadata"))
            assert response.status == health_pb2.HealthCheckResponse.SERVING


async def test_calls_without_the_secret_hold_nothing_for_long():
    """A health check is not received as long as its caller likes, nor whatever its size."""

    async def never():
        await asyncio.Event().wait()
        yield b""

    async with served(secret=SECRET) as it, aio.insecure_channel(str(it.address)) as channel:
        await channel.channel_ready()
        check = channel.stream_stream("/grpc.health.v1.Health/Check")
        held = [check(never()) for _ in range(PLACES + 8)]
        # The first ones gave their places to others.
        for call in held[:8]:
            assert await call.code() is grpc.StatusCode.INVALID_ARGUMENT
        request = health_pb2.HealthCheckRequest(service="headrace.metadata.v1.Metadata")
        assert (await health_pb2_grpc.HealthStub(channel).Check(request)).status == (
            health_pb2.HealthCheckResponse.SERVING
        )
        large = health_pb2.HealthCheckRequest(service="x" * 100_000)
        call = health_pb2_grpc.HealthStub(channel).Check(large)
        assert (await refused(call)).code() is grpc.StatusCode.INVALID_ARGUMENT
        for call in held:
            call.cancel()


async def test_health_follows_the_role():
    async with served() as it, aio.insecure_channel(str(it.address)) as channel:
        watch = health_pb2_grpc.HealthStub(channel).Watch(health_pb2.HealthCheckRequest())
        seen = [(await watch.read()).status]
        while seen[-1] != health_pb2.HealthCheckResponse.SERVING:
            seen.append((await watch.read()).status)
        it.native.emit("role", "view_change", 2, -1)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.NOT_SERVING
        it.native.emit("role", "backup", 2, 1)
        assert (await watch.read()).status == health_pb2.HealthCheckResponse.SERVING


async def test_the_service_describes_itself():
    async with served() as it, aio.insecure_channel(str(it.address)) as channel:
        stub = reflection_pb2_grpc.ServerReflectionStub(channel)
        call = stub.ServerReflectionInfo(iter([reflection_pb2.ServerReflectionRequest(list_services="")]))
        names = [service.name for service in (await call.read()).list_services_response.service]
        assert "headrace.metadata.v1.Metadata" in names
        assert "grpc.health.v1.Health" in names


async def test_calls_can_be_encrypted(tmp_path):
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost")
    files = {name: tmp_path / f"{name}.pem" for name in ("cert_file", "key_file", "authority")}
    files["cert_file"].write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))
    certificate.private_key_pem.write_to_path(files["key_file"])
    authority.cert_pem.write_to_path(files["authority"])
    tls = ReplicaTlsSettings(**{name: str(path) for name, path in files.items()})

    def encrypted(address):
        credentials = grpc.ssl_channel_credentials(files["authority"].read_bytes())
        return aio.secure_channel(f"localhost:{address.port}", credentials)

    async with served(tls=tls, channel=encrypted) as it:
        assert (await it.propose(create_stream("s"))).status == 0
        async with aio.insecure_channel(str(it.address)) as plain:
            call = MetadataStub(plain).GetStatus(GetStatusRequest(), timeout=30)
            assert (await refused(call)).code() is grpc.StatusCode.UNAVAILABLE

    with pytest.raises(CertificateError, match=r"tls: .*missing\.pem"):
        async with served(tls=ReplicaTlsSettings(cert_file=str(tmp_path / "missing.pem"), key_file="k", authority="a")):
            pass


async def test_a_new_certificate_is_shown_without_a_restart(tmp_path):
    """New connections get the new certificate; a broken one is ignored."""
    files = {name: tmp_path / f"{name}.pem" for name in ("cert_file", "key_file", "authority")}

    def replace_files(authority):
        certificate = authority.issue_cert("localhost")
        certificate.private_key_pem.write_to_path(files["key_file"])
        files["cert_file"].write_bytes(b"".join(blob.bytes() for blob in certificate.cert_chain_pems))

    async def answers(address, authority):
        credentials = grpc.ssl_channel_credentials(authority.cert_pem.bytes())
        options = [("grpc.use_local_subchannel_pool", 1)]
        async with aio.secure_channel(f"localhost:{address.port}", credentials, options) as channel:
            try:
                return bool(await MetadataStub(channel).GetStatus(GetStatusRequest(), timeout=30))
            except aio.AioRpcError:
                return False

    old, new = trustme.CA(), trustme.CA()
    replace_files(old)
    old.cert_pem.write_to_path(files["authority"])
    paths = {name: str(path) for name, path in files.items()}
    tls = ReplicaTlsSettings(**paths, certificate_check_interval=Duration.parse("10 ms"))

    def trusting(address):
        return aio.secure_channel(f"localhost:{address.port}", grpc.ssl_channel_credentials(old.cert_pem.bytes()))

    async with served(tls=tls, channel=trusting) as it:
        assert (await it.propose(create_stream("s"))).status == 0
        files["cert_file"].write_bytes(b"broken")
        assert await answers(it.address, old)
        replace_files(new)
        async with asyncio.timeout(60):
            while not await answers(it.address, new):
                pass
        assert not await answers(it.address, old)
        assert (await it.propose(create_stream("t"))).status == 0, "a connection that is there stays"


async def test_a_taken_address_is_refused():
    async with served() as it:
        with pytest.raises(ListenError, match=str(it.address.port)):
            async with serving(
                MetadataService(it.replica, FACTS, Metrics(it.replica.status)),
                it.replica,
                it.address,
                ClusterSettings(),
                ReplicaTlsSettings(),
            ):
                pass
