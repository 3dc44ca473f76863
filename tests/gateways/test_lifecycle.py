"""Gateways and metadata replicas stop and start (GW-8, CTL-8, USE-2)."""

from __future__ import annotations

import asyncio
import signal
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import aiohttp
import grpc
import pytest

from headrace_proto.errors import Status as ErrorStatus
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token, status_of
from tests.apis.http.api import Api
from tests.cluster import NAME, Cluster, answers
from tests.compatibility.groups.member import Group, Member
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection, eventually
from tests.gateways.conftest import GATEWAY, NODE

SECONDS = 60.0
_NOT_FOLLOWED = "catalog watch at"


def join_at(group: Group, address: str) -> Member:
    """A member that is connected elsewhere."""
    connection = group.connection
    with RawConnection.as_root(address) as other:
        group.connection = other
        member = Member(group)
    group.connection = connection
    group.members.append(member)
    eventually("the group", lambda: member.connection.request(Code.JOIN_CONSUMER_GROUP, group.path).status == Status.OK)
    return member


@pytest.mark.long
def test_members_of_a_gateway_that_dies_are_replaced(cluster: Cluster) -> None:
    one, other = cluster.gateways
    with RawConnection.as_root(other.listeners.tcp) as connection:
        group = Group(connection, "shared", partitions=4)
        here = join_at(group, other.listeners.tcp)
        there = join_at(group, one.listeners.tcp)
        with closing(group):
            eventually("two halves", lambda: sorted(map(len, group.owned().values())) == [2, 2])
            one.kill()
            eventually(
                "all partitions", lambda: sorted(map(len, group.owned().values())) == [4], timeout_seconds=SECONDS
            )
            for partition in range(4):
                group.send(partition, b"m")
            polled = set()

            def reads_all() -> bool:
                polled.add(here.poll(auto_commit=True).partition)
                return polled == {0, 1, 2, 3}

            eventually("a poll of each", reads_all)
            with pytest.raises(ConnectionClosed):
                there.connection.request(Code.PING)
            before = dict(one.settings)
            one.settings |= {"consumer_group.gateway_timeout": "1 h"}
            one.start()
            cluster.wait_for(one)
            again = join_at(group, one.listeners.tcp)
            eventually("two halves", lambda: sorted(map(len, group.owned().values())) == [2, 2])
            # A gateway that shuts down removes its members itself, long before the session timeout; the other one
            # learns of it from the metadata service.
            one.process.terminate()
            assert one.process.wait(SECONDS) == 0
            eventually("all partitions", lambda: sorted(map(len, group.owned().values())) == [4])
            assert again.connection.status(Code.PING) == Status.DISCONNECTED, "the disconnection"
            one.settings = before
            one.start()
            cluster.wait_for(one)


@pytest.mark.long
def test_pipelines_are_not_notified_of_partitions_that_cannot_be_reached(cluster: Cluster) -> None:
    """Partitions of an unavailable node are not described as empty; they are described again when the node is back."""
    listeners, node = cluster.gateways[0].listeners, cluster.nodes[0]
    with RawConnection.as_root(listeners.tcp) as connection:
        connection.create_topic("away", partitions=8)
        for partition in range(8):
            connection.send("away", "t", partition, b"m")
        token = access_token(connection, "away")
    request = v1.DescribeTopicsRequest(stream=v1.Identifier(name="away"))
    with GrpcCaller(listeners.grpc, token) as caller:

        def ends() -> list[int]:
            (topic,) = caller.pipelines.DescribeTopics(request, timeout=SECONDS).topics
            return [partition.next_offset for partition in topic.partitions]

        assert ends() == [1] * 8
        node.kill()
        with pytest.raises(grpc.RpcError) as raised:
            ends()
        assert status_of(raised.value) == (grpc.StatusCode.UNAVAILABLE, ErrorStatus.PARTITION_UNAVAILABLE)
        assert "of topic 't' in stream 'away' is on node 'node-1', which is not reached" in raised.value.details()
        node.start()
        cluster.wait_for(node)

        def is_described() -> bool:
            try:
                return ends() == [1] * 8
            except grpc.RpcError:
                return False

        eventually("the node", is_described)


def test_a_request_that_waits_is_answered_when_the_gateway_stops(cluster: Cluster) -> None:
    one = cluster.gateways[0]
    with RawConnection.as_root(one.listeners.tcp) as connection:
        connection.create_topic("waits")
        connection.send("waits", "t", 0, b"m")
        payload = frames.poll("waits", "t", 0, Strategy.FIRST, 0, 10)
        answered = []
        for _ in range(200):
            connection.send_frame(Code.POLL_MESSAGES, payload)
        one.process.terminate()
        try:
            while True:
                answered.append(connection.receive().status)
        except ConnectionClosed:
            pass
        # All requests that were read are answered; bytes left in the socket when the listeners closed are discarded.
        assert answered.count(Status.OK) + answered.count(Status.DISCONNECTED) == len(answered) > 0
        assert one.process.wait(SECONDS) == 0
    one.start()
    cluster.wait_for(one)


@pytest.mark.long
async def test_a_gateway_says_that_it_goes_before_it_goes(cluster: Cluster, apis: list[Api]) -> None:
    """A draining gateway first becomes unready, so a balancer sends no new clients and connected clients are
    unaffected.
    """
    one, api = cluster.gateways[0], apis[0]
    one.process.terminate()
    assert one.process.wait(SECONDS) == 0
    before = dict(one.settings)
    one.settings |= {"gateway.drain_time": "8 s", "gateway.advertised_address": "192.0.2.7:8090"}
    one.start()
    cluster.wait_for(one)
    root = await api.login()
    (node,) = (await root.ok("GET", "/cluster/metadata"))["nodes"]
    assert (node["name"], node["ip"], node["endpoints"]["tcp"]) == ("gateway-1", "192.0.2.7", 8090)
    one.process.terminate()
    end = time.monotonic() + SECONDS
    while (await api("GET", "/health")).status != 503:
        assert time.monotonic() < end
    await root.ok("POST", "/streams", {"name": "still-served"})
    assert (await api("GET", "/live")).status == 200
    assert await asyncio.to_thread(one.process.wait, SECONDS) == 0
    one.settings = before
    one.start()
    cluster.wait_for(one)


async def test_the_primary_of_the_metadata_service_may_die(cluster: Cluster, roots: list[Api]) -> None:
    for number, replica in enumerate(cluster.replicas):
        replica.kill()
        for index, root in enumerate(roots):
            name = f"without-{number}-{index}"
            await root.ok("POST", "/streams", {"name": name})
            assert (await root.ok("GET", f"/streams/{name}"))["name"] == name
            await root.login()
            assert (await root("GET", "/health")).status == 200
        replica.start()
        # The next replica is stopped when all three are running.
        await asyncio.to_thread(cluster.wait_for, replica)


@pytest.mark.long
async def test_without_the_metadata_service_messages_go_on_and_nothing_else(cluster: Cluster, roots: list[Api]) -> None:
    root = roots[0]
    topic = await root.create_topic("goes-on")
    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as connection:
        for replica in cluster.replicas:
            replica.kill()
        started = time.monotonic()
        refused = await root("POST", "/streams", {"name": "nowhere"})
        assert refused.status == 503
        assert time.monotonic() - started < 30
        assert (await root("POST", "/users/login", {"username": "iggy", "password": "iggy"})).status == 503
        connection.send("goes-on", "t", 0, b"still")
        assert len(connection.poll("goes-on", "t", 0, Strategy.FIRST).messages) == 1
        assert (await root.ok("GET", topic))["messages_count"] == 1

        async def health(status: int) -> None:
            end = time.monotonic() + SECONDS
            while (await root("GET", "/health")).status != status:
                assert time.monotonic() < end
                await asyncio.sleep(0.1)

        await health(503)
        assert (await root("GET", "/live")).status == 200
        for replica in cluster.replicas:
            replica.start()
        await health(200)
        await root.ok("POST", "/streams", {"name": "somewhere"})
        connection.send("goes-on", "t", 0, b"and again")


def test_a_gateway_that_the_cluster_does_not_know_says_so(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "gateway.toml"
    addresses = ", ".join(f'"{replica.address}"' for replica in cluster.replicas)
    file.write_text(
        f'[cluster]\nname = "{NAME}"\nsecret = "the secret of another cluster than this"\nmetadata = [{addresses}]\n'
        '[tcp]\naddress = "127.0.0.1:0"\n[http]\naddress = "127.0.0.1:0"\n[grpc]\nenabled = false\n'
        "[quic]\nenabled = false\n[websocket]\nenabled = false\n"
    )
    done = subprocess.run(
        [sys.executable, "-m", "headrace_gateway", "--config", str(file)],
        check=False,
        capture_output=True,
        text=True,
        timeout=SECONDS,
    )
    assert done.returncode == 1
    assert "the token is missing or is not that of this cluster" in done.stderr
    assert "Traceback" not in done.stderr


async def test_the_audit_trail_outlasts_the_gateway(tmp_path: Path) -> None:
    settings = {**GATEWAY, "audit.directory": str(tmp_path / "trail")}
    with Cluster(tmp_path, replicas=1, nodes=1, gateways=1, node_settings=NODE, gateway_settings=settings) as cluster:
        gateway = cluster.gateways[0]
        url = f"http://{gateway.listeners.http}"
        async with aiohttp.ClientSession() as session:
            await (await Api(session, url).login()).ok("POST", "/streams", {"name": "remembered"})
        assert gateway.stop() == 0
        gateway.start()
        cluster.wait_for(gateway)
        async with aiohttp.ClientSession() as session:
            trail = await (await Api(session, url).login())("GET", "/audit?event=change")
        assert (trail.status, b'"remembered"' in trail.body) == (200, True)
        assert "set audit.directory" not in gateway.log_text()


@pytest.mark.long
def test_a_gateway_waits_for_the_metadata_service_and_can_be_stopped_meanwhile(tmp_path: Path) -> None:
    cluster = Cluster(tmp_path, replicas=1, nodes=1, gateways=1, node_settings=NODE, gateway_settings=GATEWAY)
    gateway = cluster.gateways[0]
    try:
        for signalled in (signal.SIGTERM, signal.SIGINT):
            gateway.start()
            attempts = gateway.log_text().count(_NOT_FOLLOWED)
            eventually(
                "an attempt",
                lambda before=attempts: gateway.log_text().count(_NOT_FOLLOWED) > before,
                timeout_seconds=SECONDS,
            )
            assert not answers(gateway.listeners.http, "/live")
            gateway.process.send_signal(signalled)
            assert gateway.process.wait(SECONDS) == 0
        assert "Traceback" not in gateway.log_text()
        assert "set audit.directory" in gateway.log_text()
    finally:
        cluster.kill()
