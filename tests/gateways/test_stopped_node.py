"""A stopped partition node is reported by name in every API and in the metrics (GW-8, OPS)."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest

from headrace_core import Client, ServerError
from headrace_proto.gateway import v1
from tests.apis.grpc.caller import GrpcCaller, access_token
from tests.apis.http.api import Api, batch
from tests.cluster import Cluster, Settings
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.gateways.conftest import GATEWAY, NODE
from tests.server_process import PASSWORD, USERNAME

UNAVAILABLE = 20200
PARTITIONS = 8
SECONDS = 60.0
# Longer than a pause of the node that stays.
LEASE: Settings = {"node.lease": "10 s"}
WAITS: Settings = {"links.unsent_timeout": "2 s"}
OPEN_METRICS: Settings = {"http.metrics.login_required": False}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(
        tmp_path,
        replicas=1,
        nodes=2,
        gateways=1,
        node_settings={**NODE, **LEASE},
        gateway_settings={**GATEWAY, **WAITS, **OPEN_METRICS},
    ) as running:
        yield running


async def partitions(root: Api, topic: str) -> dict[int, tuple[str, str]]:
    """Node and state of each."""
    found = (await root.ok("GET", topic))["partitions"]
    return {partition["id"]: (partition["node"], partition["state"]) for partition in found}


async def eventually(what: str, holds: Any) -> None:
    deadline = time.monotonic() + SECONDS
    while not await holds():
        assert time.monotonic() < deadline, what
        await asyncio.sleep(0.05)


@pytest.mark.long
async def test_a_stopped_node_shows(cluster: Cluster, root: Api) -> None:
    listeners = cluster.gateways[0].listeners
    topic = await root.create_topic("shop", "orders", partitions=PARTITIONS)
    placed = await partitions(root, topic)
    assert {node for node, _ in placed.values()} == {"node-1", "node-2"}
    assert {state for _, state in placed.values()} == {"serving"}
    lost = [number for number, (node, _) in placed.items() if node == "node-2"]
    for number in placed:
        await root.ok("POST", f"{topic}/messages", batch(b"m", partition=number))
    await root.ok("POST", f"{topic}/consumer-groups", {"name": "billing"})
    with RawConnection.as_root(listeners.tcp) as connection:
        token = access_token(connection)

    cluster.nodes[1].kill()
    # A wait that is longer than the gateway's timeout for nodes ends with an error that names the node.
    number = lost[0]
    text = f'partition {number} of topic "orders" in stream "shop" is on node "node-2", which is not reached'
    answer = await root("GET", f"{topic}/messages?partition_id={number}&kind=next&wait_ms=30000")
    assert (answer.status, answer.code) == (503, UNAVAILABLE)
    assert answer.data["detail"].startswith(text)

    async def is_silent() -> bool:
        nodes = (await root.ok("GET", "/cluster"))["nodes"]
        return "silent" in {node["state"] for node in nodes}

    await eventually("the cluster notices", is_silent)
    health = await root("GET", "/health")
    said = f"ready; 1 of 2 partition nodes are not reached, with {len(lost)} partitions"
    assert (health.status, health.body.decode()) == (200, said)
    await check_metrics(root, len(lost))
    nodes = (await root.ok("GET", "/cluster"))["nodes"]
    # In the order of their registration.
    assert sorted((node["name"], node["state"], node["partitions_count"]) for node in nodes) == [
        ("node-1", "live", PARTITIONS - len(lost)),
        ("node-2", "silent", len(lost)),
    ]
    expected = {
        number: (node, "unreachable" if node == "node-2" else "serving") for number, (node, _) in placed.items()
    }
    assert await partitions(root, topic) == expected
    lag = await root.ok("GET", f"{topic}/consumer-groups/billing/lag")
    assert lag["lag_messages"] == PARTITIONS - len(lost)
    assert [it["partition_id"] for it in lag["partitions"] if it["lag_messages"] is None] == lost
    assert [it["lag_messages"] for it in await root.ok("GET", "/consumer-groups")] == [None]
    await asyncio.to_thread(check_others, cluster, token, number, f"{text}: the cluster does not hear from it")

    cluster.nodes[1].start()
    cluster.wait_for(cluster.nodes[1])

    async def is_back() -> bool:
        return await partitions(root, topic) == placed

    await eventually("everything is served again", is_back)
    assert (await root.ok("GET", f"{topic}/messages?partition_id={number}&kind=first"))["count"] == 1
    assert (await root("GET", "/health")).body == b"ready"


async def check_metrics(root: Api, lost_count: int) -> None:
    """The metrics name the node and the topic, but not without a token."""
    unavailable = (
        f'headrace_gateway_unavailable_partitions{{node="node-2",stream="shop",topic="orders"}} {lost_count}.0'
    )
    text = (await root("GET", "/metrics")).body.decode()
    assert unavailable in text
    assert 'headrace_gateway_node_heard{node="node-2"} 0.0' in text
    answer = await Api(root.session, root.url)("GET", "/metrics")
    assert answer.status == 200
    assert "headrace_gateway_ready 1.0" in answer.body.decode()
    assert not [name for name in ("shop", "node-2") if name in answer.body.decode()]


def check_others(cluster: Cluster, token: str, number: int, text: str) -> None:
    listeners = cluster.gateways[0].listeners
    with GrpcCaller(listeners.grpc, token) as caller:
        place = {"stream": v1.Identifier(name="shop"), "topic": v1.Identifier(name="orders")}
        with pytest.raises(grpc.RpcError) as refused:
            caller.messages.Poll(v1.PollRequest(**place, partition_id=number))
        assert (refused.value.code(), refused.value.details()) == (grpc.StatusCode.UNAVAILABLE, text)
        found = caller.catalog.GetTopic(v1.GetTopicRequest(**place)).partitions[number]
        assert (found.node, found.health) == ("node-2", v1.PARTITION_HEALTH_UNREACHABLE)
    # Clients of the Iggy protocol (0.8) get only the status.
    with RawConnection.as_root(listeners.tcp) as connection:
        request = frames.poll("shop", "orders", number, Strategy.FIRST)
        answer = connection.request(Code.POLL_MESSAGES, request)
        assert (answer.status, answer.payload) == (UNAVAILABLE, b"")
    client = Client.connect(listeners.tcp, 30.0)
    client.explain_refusals()
    client.login(USERNAME, PASSWORD)
    for ask in (
        lambda: client.poll("shop", "orders", number),
        lambda: client.wait("shop", "orders", number, maximum_wait_seconds=10.0),
        lambda: client.send("shop", "orders", [b"m"], partition=number),
    ):
        with pytest.raises(ServerError, match="is on node") as failed:
            ask()
        assert str(failed.value).endswith(text)
    client.close()
