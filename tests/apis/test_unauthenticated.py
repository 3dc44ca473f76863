"""Access to every port of every process of a cluster: none without the secret, a ticket or a login (CTL-9, GW-8)."""

from __future__ import annotations

import http.client
import os
import random
import socket
import struct
import time
from collections.abc import Iterator
from contextlib import closing

import grpc
import psutil
import pytest

import headrace_core
from headrace_core import TicketKey
from headrace_proto.catalog.v1 import Topic
from headrace_proto.cluster_token import HEADER, authorization, metrics_authorization
from headrace_proto.commands import REGISTRY
from headrace_proto.errors import Status
from headrace_proto.gateway.v1 import (
    accounts_pb2,
    catalog_pb2,
    login_pb2,
    messages_pb2,
    pipelines_pb2,
    subscriptions_pb2,
    system_pb2,
)
from headrace_proto.metadata.v1 import service_pb2
from headrace_proto.partition.v1 import partition_pb2
from tests.cluster import NAME, Cluster
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import stream_details
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection
from tests.compatibility.protocol.websocket import WebSocketConnection
from tests.conftest import StartServer
from tests.server_process import ServerProcess
from tests.service_process import ServiceProcess

READ, WRITE = 1, 2
PUBLIC = {code for code, info in REGISTRY.items() if info.is_public}
"""Commands that need no login and reveal nothing about the contents."""
GATEWAY_FILES = (
    accounts_pb2,
    catalog_pb2,
    login_pb2,
    messages_pb2,
    pipelines_pb2,
    subscriptions_pb2,
    system_pb2,
)
NEED_NO_TOKEN = {"/headrace.gateway.v1.Login/Login", "/headrace.gateway.v1.Login/LoginWithAccessToken"}
HOUR_SECONDS = 3600


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    """One cluster for all tests of this file."""
    # The failure limit would refuse all later requests of this address.
    with Cluster(tmp_path_factory.mktemp("strangers"), gateway_settings={"login.failures_max": 0}) as cluster:
        yield cluster


@pytest.fixture(scope="module")
def prepared(cluster: Cluster) -> dict[str, Topic]:
    """Two streams, each with a topic of eight partitions and a message in each."""
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as root:
        ids = {}
        for name in ("ours", "theirs"):
            root.create_topic(name, partitions=8)
            for partition in range(8):
                root.send(name, "t", partition, b"secret")
            ids[name] = stream_details(root.ok(Code.GET_STREAM, frames.ident(name)))[0].id
    topics = {topic.stream_id: topic for topic in cluster.state().catalog.topics}
    return {name: topics[stream_id] for name, stream_id in ids.items()}


def listening(service: ServiceProcess) -> set[str]:
    """Addresses on which a process or a child of it listens."""
    process = psutil.Process(service.process.pid)
    return listening_of([process, *process.children(recursive=True)])


def listening_of(family: list[psutil.Process]) -> set[str]:
    return {
        # An IPv4 address may belong to a dual-stack socket.
        f"{connection.laddr.ip.removeprefix('::ffff:')}:{connection.laddr.port}"
        for member in family
        for connection in member.net_connections(kind="inet")
        if connection.status == psutil.CONN_LISTEN or connection.type == socket.SOCK_DGRAM
    }


def methods(*files: object) -> list[str]:
    """Paths of all methods of all services of these files."""
    services = [service for file in files for service in file.DESCRIPTOR.services_by_name.values()]
    return [f"/{service.full_name}/{method.name}" for service in services for method in service.methods]


def grpc_code(
    address: str, path: str, metadata: tuple[tuple[str, str], ...] = (), request: bytes = b""
) -> grpc.StatusCode:
    """Return the code of a call of any kind: unary and streaming calls are alike on the wire."""
    with grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)]) as channel:
        call = channel.stream_stream(path)(iter([request]), metadata=metadata, timeout=20)
        try:
            list(call)
        except grpc.RpcError as error:
            code: grpc.StatusCode = error.code()
            return code
        return grpc.StatusCode.OK


def http_status(address: str, path: str, **headers: str) -> int:
    with closing(http.client.HTTPConnection(address, timeout=20)) as connection:
        connection.request("GET", path, headers=headers)
        return connection.getresponse().status


def test_there_are_no_other_ports(cluster: Cluster) -> None:
    """The tests below cover all ports."""
    for replica in cluster.replicas:
        assert listening(replica) == replica.addresses
    for node in cluster.nodes:
        assert listening(node) == {node.binary, node.grpc, node.http}
    for gateway in cluster.gateways:
        listeners = gateway.listeners
        assert listening(gateway) == {listeners.tcp, listeners.websocket, listeners.http, listeners.grpc}


def test_binary_ports(cluster: Cluster) -> None:
    """No command of an unauthenticated client is executed, at gateways or at nodes."""
    connections = [RawConnection(gateway.listeners.tcp) for gateway in cluster.gateways]
    connections += [WebSocketConnection(gateway.listeners.websocket) for gateway in cluster.gateways]
    connections += [RawConnection(node.binary) for node in cluster.nodes]
    codes = set(Code) - PUBLIC
    for connection in connections:
        with connection:
            for code in sorted(codes):
                for payload in (b"", frames.ident(0) + frames.ident(0)):
                    status = connection.status(code, payload)
                    assert status in {Status.UNAUTHENTICATED, Status.INVALID_COMMAND, Status.INVALID_FORMAT}, code


def test_grpc_ports(cluster: Cluster) -> None:
    """Call every method of every service without credentials, and with the credential of another service."""
    ours = authorization(cluster.secret, NAME)
    other = authorization("another secret of a cluster", NAME)
    other_cluster = authorization(cluster.secret, "another")
    metrics = metrics_authorization(cluster.secret, NAME)
    refused = {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}
    for replica in cluster.replicas:
        for path in methods(service_pb2):
            for shown in ((), ((HEADER, other),), ((HEADER, other_cluster),), ((HEADER, metrics),)):
                assert grpc_code(replica.address, path, shown) in refused, path
    for node in cluster.nodes:
        for path in methods(partition_pb2):
            for shown in ((), ((HEADER, ours),), (("headrace-ticket", "made up"),)):
                assert grpc_code(node.grpc, path, shown) in refused, path
    for gateway in cluster.gateways:
        for path in methods(*GATEWAY_FILES):
            if path not in NEED_NO_TOKEN:
                for shown in ((), ((HEADER, ours),), ((HEADER, "Bearer made up"),)):
                    assert grpc_code(gateway.listeners.grpc, path, shown) in refused, path


def test_http_ports(cluster: Cluster) -> None:
    """Health is public and reveals nothing else; metrics require authentication."""
    metrics = metrics_authorization(cluster.secret, NAME)
    for address in (*(node.http for node in cluster.nodes), *(replica.metrics for replica in cluster.replicas)):
        assert http_status(address, "/health") == http.HTTPStatus.OK
        for shown in ({}, {HEADER: "Bearer made up"}, {HEADER: authorization(cluster.secret, NAME)}):
            assert http_status(address, "/metrics", **shown) == http.HTTPStatus.UNAUTHORIZED
        assert http_status(address, "/metrics", **{HEADER: metrics}) == http.HTTPStatus.OK
    for gateway in cluster.gateways:
        for path in ("/streams", "/users", "/clients", "/stats", "/settings", "/logs", "/cluster/metadata"):
            for shown in ({}, {HEADER: "Bearer made up"}, {HEADER: authorization(cluster.secret, NAME)}):
                assert http_status(gateway.listeners.http, path, **shown) == http.HTTPStatus.UNAUTHORIZED


def test_ports_of_peers(cluster: Cluster) -> None:
    """The replication port reveals nothing to a peer without the secret."""
    choice = random.Random(7)
    for replica in cluster.replicas:
        for said in (b"GET / HTTP/1.1\r\n\r\n", choice.randbytes(16), choice.randbytes(4096), bytes(300)):
            with socket.create_connection(replica.peers.split(":"), 20) as unauthenticated:
                unauthenticated.sendall(said)
                unauthenticated.shutdown(socket.SHUT_WR)
                heard = b""
                try:
                    while more := unauthenticated.recv(4096):
                        heard += more
                except ConnectionResetError:
                    pass
                assert len(heard) <= HANDSHAKE_BYTES_MAX, heard
    for node in cluster.nodes:
        assert node.is_ready()


HANDSHAKE_BYTES_MAX = 128
"""Maximum size of the handshake: a nonce that must be answered with a proof."""


class TicketConnection(RawConnection):
    """A connection to a node."""

    def log_in(self, ticket: str) -> int:
        return self.status(Code.LOGIN_WITH_TICKET, frames.str32(ticket))

    def open_link(self, ticket: str, node_id: int) -> int:
        """Return the status of a refusal, or 0 if the link is open."""
        payload = struct.pack("<HIHQQ", 1, node_id, 0, 1, 0) + frames.str32(ticket)
        self.send_frame(Code.OPEN_LINK, payload)
        # A response begins with the status, a frame of a link with its length.
        first, second = struct.unpack("<II", self._read(8))
        return first if second == 0 else 0


def for_topic(key: TicketKey, topic: Topic, not_after: int, *, read: bool = False, write: bool = False) -> str:
    return key.sign(
        "a test",
        not_after=not_after,
        stream_id=topic.stream_id,
        topic_id=topic.id,
        incarnation=topic.incarnation,
        read=read,
        write=write,
    )


def in_an_hour() -> int:
    return int(time.time()) + HOUR_SECONDS


def test_tickets_that_open_nothing(cluster: Cluster, prepared: dict[str, Topic]) -> None:
    """Tickets that are expired, of another cluster or secret, changed in one character, or made up are refused."""
    key = TicketKey(cluster.secret, NAME)
    topic = prepared["ours"]
    stream = topic.stream_id
    good = for_topic(key, topic, in_an_hour(), read=True)
    whole = key.sign("a test", not_after=in_an_hour())
    changed = good[:-1] + ("A" if good[-1] != "A" else "B")
    bad = [
        for_topic(key, topic, int(time.time()) - 2, read=True),
        key.sign("a test", not_after=int(time.time()) - 2),
        TicketKey(cluster.secret, "another").sign("a test", not_after=in_an_hour()),
        TicketKey("another secret of a cluster", NAME).sign("a test", not_after=in_an_hour()),
        changed,
        "",
        "made up",
        os.urandom(60).hex(),
    ]
    for node_id, node in enumerate(cluster.nodes, 1):
        for ticket in bad:
            with TicketConnection(node.binary) as connection:
                assert connection.log_in(ticket) in {Status.INVALID_TICKET, Status.INVALID_FORMAT}
                assert connection.status(Code.POLL_MESSAGES, poll(stream, 0)) == Status.UNAUTHENTICATED
            with TicketConnection(node.binary) as connection:
                assert connection.open_link(ticket, node_id) in {Status.INVALID_TICKET, Status.INVALID_FORMAT}
            for path in methods(partition_pb2):
                code = grpc_code(node.grpc, path, (("headrace-ticket", ticket),))
                assert code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}, (path, ticket)
        # A ticket for a topic is not valid for a gateway link, and gateways accept no tickets.
        with TicketConnection(node.binary) as connection:
            assert connection.open_link(good, node_id) == Status.INVALID_TICKET
    for gateway in cluster.gateways:
        with TicketConnection(gateway.listeners.tcp) as connection:
            assert connection.log_in(whole) != Status.OK
            assert connection.status(Code.POLL_MESSAGES, poll(stream, 0)) == Status.UNAUTHENTICATED
        with TicketConnection(gateway.listeners.tcp) as connection:
            assert connection.open_link(whole, 1) != Status.OK


def poll(stream: int, partition: int) -> bytes:
    return frames.poll(stream, 0, partition, Strategy.FIRST)


def statuses(connection: RawConnection, code: int, payloads: list[bytes]) -> set[int]:
    return {connection.status(code, payload) for payload in payloads}


def test_a_ticket_opens_what_it_names(cluster: Cluster, prepared: dict[str, Topic]) -> None:
    """A ticket to read a topic, to write a topic, or for one partition grants only that, for partitions on the node."""
    key = TicketKey(cluster.secret, NAME)
    topic = prepared["ours"]
    ours, theirs = topic.stream_id, prepared["theirs"].stream_id
    message = [frames.message(b"m")]

    def sends(stream: int) -> list[bytes]:
        return [frames.send(stream, 0, frames.to_partition(partition), message) for partition in range(8)]

    here_or_elsewhere = {Status.OK, Status.PARTITION_ELSEWHERE}
    no_right = {Status.UNAUTHORIZED}
    read_without_login = set()
    for node in cluster.nodes:
        with TicketConnection(node.binary) as reader:
            ticket = for_topic(key, topic, in_an_hour(), read=True)
            assert reader.log_in(ticket) == Status.OK
            found = {partition: reader.status(Code.POLL_MESSAGES, poll(ours, partition)) for partition in range(8)}
            assert set(found.values()) <= here_or_elsewhere
            read_without_login |= {partition for partition, status in found.items() if status == Status.OK}
            assert statuses(reader, Code.POLL_MESSAGES, [poll(theirs, number) for number in range(8)]) == no_right
            assert statuses(reader, Code.SEND_MESSAGES, sends(ours)) == no_right
            for code in (Code.GET_STREAMS, Code.GET_USERS, Code.CREATE_STREAM, Code.GET_CLIENTS, Code.DELETE_STREAM):
                assert reader.status(code, frames.ident(ours)) != Status.OK
        with TicketConnection(node.binary) as writer:
            ticket = for_topic(key, topic, in_an_hour(), write=True)
            assert writer.log_in(ticket) == Status.OK
            assert statuses(writer, Code.SEND_MESSAGES, sends(ours)) <= here_or_elsewhere
            assert statuses(writer, Code.SEND_MESSAGES, sends(theirs)) == no_right
            assert statuses(writer, Code.POLL_MESSAGES, [poll(ours, number) for number in range(8)]) == no_right
        for path in ("GetStatistics", "Drain"):
            shown = (("headrace-ticket", for_topic(key, topic, in_an_hour(), read=True, write=True)),)
            code = grpc_code(node.grpc, f"/headrace.partition.v1.Partition/{path}", shown)
            assert code in {grpc.StatusCode.UNAUTHENTICATED, grpc.StatusCode.PERMISSION_DENIED}, path
        with TicketConnection(node.binary) as late:
            # A topic that had these ids before.
            earlier = Topic(stream_id=ours, id=topic.id, incarnation=topic.incarnation - 1)
            assert late.log_in(for_topic(key, earlier, in_an_hour(), read=True)) == Status.OK
            assert statuses(late, Code.POLL_MESSAGES, [poll(ours, number) for number in range(8)]) == no_right
        here = min(partition for partition, status in found.items() if status == Status.OK)
        with TicketConnection(node.binary) as narrow:
            ticket = key.sign(
                "a test",
                not_after=in_an_hour(),
                stream_id=ours,
                topic_id=topic.id,
                partition_id=here,
                incarnation=topic.partitions[here].incarnation,
                read=True,
            )
            assert narrow.log_in(ticket) == Status.OK
            for partition in range(8):
                expected = Status.OK if partition == here else Status.UNAUTHORIZED
                assert narrow.status(Code.POLL_MESSAGES, poll(ours, partition)) == expected
    assert read_without_login == set(range(8)), "each partition is on one of the nodes"
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as root:
        for partition in range(8):
            assert len(root.poll("theirs", "t", partition, Strategy.FIRST).messages) == 1
            assert len(root.poll("ours", "t", partition, Strategy.FIRST).messages) == 2


def issued(connection: RawConnection, stream: int | str, access: int) -> str:
    """Request a ticket as the user logged in on the connection."""
    asked = frames.ident(stream) + frames.ident("t") + frames.u8(access) + frames.u32(60)
    return headrace_core.decode_issued_ticket(connection.ok(Code.ISSUE_TICKET, asked)).ticket


def test_a_ticket_that_a_user_asks_for(cluster: Cluster, prepared: dict[str, Topic]) -> None:
    """The ticket is valid for one topic at the nodes, and not at the gateways."""
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as root:
        ticket = issued(root, "ours", READ)
    said = TicketKey(cluster.secret, NAME).verify(ticket, now=int(time.time()))
    assert (said.read, said.write, said.incarnation) == (True, False, prepared["ours"].incarnation)
    ours, theirs = (prepared[name].stream_id for name in ("ours", "theirs"))
    found = set()
    for node in cluster.nodes:
        with TicketConnection(node.binary) as reader:
            assert reader.log_in(ticket) == Status.OK
            found |= statuses(reader, Code.POLL_MESSAGES, [poll(ours, number) for number in range(8)])
            assert reader.status(Code.POLL_MESSAGES, poll(theirs, 0)) == Status.UNAUTHORIZED
            asked = frames.ident(ours) + frames.ident("t") + frames.u8(READ) + frames.u32(60)
            assert reader.status(Code.ISSUE_TICKET, asked) == Status.UNAUTHORIZED
    assert found == {Status.OK, Status.PARTITION_ELSEWHERE}
    for gateway in cluster.gateways:
        with TicketConnection(gateway.listeners.tcp) as connection:
            assert connection.log_in(ticket) == Status.INVALID_TICKET


def test_the_embedded_server_takes_no_ticket(shared_server: ServerProcess) -> None:
    """The embedded server refuses even tickets that it has signed."""
    with RawConnection.as_root(shared_server.address) as root:
        root.create_topic("tickets")
        ticket = issued(root, "tickets", READ | WRITE)
    with TicketConnection(shared_server.address) as connection:
        assert connection.log_in(ticket) == Status.INVALID_TICKET
    with TicketConnection(shared_server.address) as connection:
        assert connection.open_link(ticket, 1) == Status.INVALID_TICKET


def test_unauthenticated_clients_do_no_harm(cluster: Cluster) -> None:
    """Garbage bytes close the connection at most."""
    choice = random.Random(11)
    for address in (*(node.binary for node in cluster.nodes), *(gateway.listeners.tcp for gateway in cluster.gateways)):
        for _ in range(20):
            with RawConnection(address) as unauthenticated:
                unauthenticated.write(choice.randbytes(choice.randrange(1, 2000)))
                unauthenticated.socket.shutdown(socket.SHUT_WR)
                try:
                    while unauthenticated.receive().status != Status.OK:
                        pass
                except (ConnectionClosed, AssertionError):
                    pass
    cluster.wait_ready()
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as root:
        root.ok(Code.GET_STREAMS)


def test_the_embedded_server_has_no_other_ports(start_server: StartServer) -> None:
    """The server listens only on the addresses of its settings, which are loopback."""
    server = start_server()
    process = psutil.Process(server.process.pid)
    assert listening_of([process]) == {
        server.address,
        server.websocket_address,
        server.http_address,
        server.grpc_address,
        server.pipelines_address,
        server.quic_address,
    }
