"""A gateway shows the state of a node alike wherever it shows one (GW-8, OPS)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.apis.http.api import Api
from tests.cluster import Cluster, Settings
from tests.gateways.conftest import GATEWAY, NODE
from tests.gateways.test_stopped_node import eventually, partitions

# The cluster believes a killed node to be alive for longer than the test takes.
LEASE: Settings = {"node.lease": "10 min"}


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[Cluster]:
    with Cluster(
        tmp_path,
        replicas=1,
        nodes=3,
        gateways=1,
        node_settings={**NODE, **LEASE},
        gateway_settings={**GATEWAY, "http.metrics.login_required": False},
    ) as running:
        yield running


async def states(root: Api) -> dict[str, str]:
    return {node["name"]: node["state"] for node in (await root.ok("GET", "/cluster"))["nodes"]}


@pytest.mark.long
async def test_lists_of_nodes_and_partitions_agree(cluster: Cluster, root: Api) -> None:
    """Regression: `cluster status` said `live` of a killed node until its lease had passed."""
    names = [node.name for node in cluster.nodes]

    async def are_live() -> bool:
        return await states(root) == dict.fromkeys(names, "live")

    # The gateway may have tried a node before it listened. No request needs a link to any of them yet.
    await eventually("all are reached", are_live)
    # A node without partitions counts as well.
    topic = await root.create_topic("shop", "orders")
    ((holder, state),) = (await partitions(root, topic)).values()
    assert state == "serving"
    idle = next(name for name in names if name != holder)
    others = {name: "live" for name in names if name not in {holder, idle}}
    for node in cluster.nodes:
        if node.name in {holder, idle}:
            node.kill()

    async def is_seen() -> bool:
        return await states(root) == {holder: "unreachable", idle: "unreachable", **others}

    await eventually("both are shown", is_seen)
    assert await partitions(root, topic) == {0: (holder, "unreachable")}
    health = await root("GET", "/health")
    assert health.body == b"ready; 2 of 3 partition nodes are not reached, with 1 partitions"
    metrics = (await root("GET", "/metrics")).body.decode()
    assert f'unavailable_partitions{{node="{holder}",stream="shop",topic="orders"}} 1.0' in metrics
    assert f'node_heard{{node="{holder}"}} 1.0' in metrics, "what the cluster hears is another fact"

    for node in cluster.nodes:
        if node.name in {holder, idle}:
            node.start()
            cluster.wait_for(node)

    await eventually("both are back", are_live)
    assert await partitions(root, topic) == {0: (holder, "serving")}
    assert (await root("GET", "/health")).body == b"ready"
