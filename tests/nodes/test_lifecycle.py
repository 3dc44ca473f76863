"""Lifecycle of nodes in a cluster: joining, restarting, and leaving."""

import asyncio
import time
import urllib.error
import urllib.request

import pytest

from headrace_proto.catalog.v1 import NODE_STATUS_LIVE, NODE_STATUS_SILENT, NodeStatus
from headrace_proto.metadata.v1 import DrainNode, RemoveNode
from tests.metadata_replicas import ReplicaProcess
from tests.nodes.conftest import Catalog, MakeNode
from tests.partition_nodes import NodeProcess
from tests.ports import free_port


async def record(catalog: Catalog, name: str):
    """Record of a node in the metadata service."""
    return next(found for found in await catalog.reads.nodes() if found.node.name == name)


async def has_status(catalog: Catalog, name: str, status: NodeStatus) -> None:
    """Wait until a node has this status. A node that is paused for longer than its lease is silent until it goes on."""
    async with asyncio.timeout(120):
        while (await record(catalog, name)).node.status != status:
            await asyncio.sleep(0.05)


async def ready(*nodes: NodeProcess) -> None:
    for node in nodes:
        if not node.is_running:
            node.start()
    for node in nodes:
        await asyncio.to_thread(node.wait_ready)


def page(node: NodeProcess, name: str, **headers: str) -> int:
    """The status of a page."""
    request = urllib.request.Request(f"http://127.0.0.1:{node.http_port}/{name}", headers=headers)
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return int(response.status)
    except urllib.error.HTTPError as error:
        return error.code


@pytest.mark.long
async def test_a_node_registers_and_comes_back_as_the_same(catalog: Catalog, make_node: MakeNode) -> None:
    node = make_node("registers", NODE_LEASE="3 s")
    await ready(node)
    first = (await record(catalog, "registers")).node
    assert (first.binary_address, first.grpc_address) == (
        f"127.0.0.1:{node.binary_port}",
        f"127.0.0.1:{node.grpc_port}",
    )
    assert (first.shards, first.is_draining) == (2, False)
    await has_status(catalog, "registers", NODE_STATUS_LIVE)

    topic = await catalog.topic("registers", 8)
    await asyncio.to_thread(node.wait_for, "open_partitions", 8)
    assert node.metric("placed_partitions") == 8
    placed = await catalog.reads.placement(topic.stream_id, topic.id)

    assert node.stop() == 0
    await has_status(catalog, "registers", NODE_STATUS_SILENT)
    # A restart moves nothing.
    assert await catalog.reads.placement(topic.stream_id, topic.id) == placed
    await ready(node)
    second = (await record(catalog, "registers")).node
    assert second.id == first.id
    assert second.incarnation != first.incarnation
    await has_status(catalog, "registers", NODE_STATUS_LIVE)
    await asyncio.to_thread(node.wait_for, "open_partitions", 8)
    assert node.metric("placed_partitions") == 8
    assert await catalog.reads.placement(topic.stream_id, topic.id) == placed

    node.kill()
    await ready(node)
    assert (await record(catalog, "registers")).node.id == first.id
    await asyncio.to_thread(node.wait_for, "open_partitions", 8)
    # The node keeps renewing its lease: without other commits, only renewals advance its time.
    async with asyncio.timeout(120):
        while (begun := node.metric("horizon_seconds")) == 0:
            await asyncio.sleep(0.05)
        while node.metric("horizon_seconds") < begun + 4:
            await asyncio.sleep(0.05)
    await has_status(catalog, "registers", NODE_STATUS_LIVE)
    await catalog.propose(drain_node=DrainNode(node_id=first.id, is_draining=True))


async def test_partitions_of_two_nodes_are_each_on_one(catalog: Catalog, make_node: MakeNode) -> None:
    nodes = [make_node("left"), make_node("right")]
    await ready(*nodes)
    topic = await catalog.topic("two-nodes", 32)
    placed = [(await record(catalog, node.name)).primaries_count for node in nodes]
    assert sum(placed) == 32
    assert min(placed) > 0
    for node, count in zip(nodes, placed, strict=True):
        await asyncio.to_thread(node.wait_for, "open_partitions", count)
        assert node.metric("placed_partitions") == count
    directories = [
        {path.name for path in node.data.glob(f"streams/{topic.stream_id}/topics/*/partitions/*")} for node in nodes
    ]
    assert [len(found) for found in directories] == placed
    assert not directories[0] & directories[1]
    for node in nodes:
        node_id = (await record(catalog, node.name)).node.id
        await catalog.propose(drain_node=DrainNode(node_id=node_id, is_draining=True))


async def test_a_draining_node_goes_on_draining_after_a_restart(catalog: Catalog, make_node: MakeNode) -> None:
    node = make_node("drains")
    await ready(node)
    node_id = (await record(catalog, "drains")).node.id
    await catalog.propose(drain_node=DrainNode(node_id=node_id, is_draining=True))
    assert node.stop() == 0
    await ready(node)
    assert (await record(catalog, "drains")).node.is_draining


async def test_a_later_run_replaces_an_earlier_one(catalog: Catalog, make_node: MakeNode, tmp_path) -> None:
    earlier, later = make_node("twice", NODE_LEASE="1 s"), make_node("twice", directory=tmp_path / "elsewhere")
    later.log.parent.mkdir()
    await ready(earlier)
    node_id = (await record(catalog, "twice")).node.id
    await catalog.propose(drain_node=DrainNode(node_id=node_id, is_draining=True))
    await ready(later)
    assert await asyncio.to_thread(earlier.wait_ended) == 1
    assert "error: a later run of node 'twice' has registered; this one stops" in earlier.log_text()
    assert later.health() == "ok"
    # The directory of the earlier node is not the one that the cluster has seen last.
    assert later.stop() == 0
    earlier.start()
    assert await asyncio.to_thread(earlier.wait_ended) == 1
    assert "node 'twice' has run with another data directory since" in earlier.log_text()


async def test_a_node_that_was_removed_stops(catalog: Catalog, make_node: MakeNode) -> None:
    node = make_node("removed", NODE_LEASE="1 s")
    await ready(node)
    node_id = (await record(catalog, "removed")).node.id
    await catalog.propose(remove_node=RemoveNode(node_id=node_id, with_replicas=True))
    assert await asyncio.to_thread(node.wait_ended) == 1
    assert f"node 'removed' (id {node_id}) was removed from the cluster" in node.log_text()
    # The node's data must not meet a catalog in which the node does not exist.
    node.start()
    assert await asyncio.to_thread(node.wait_ended) == 1
    assert "which the cluster no longer knows" in node.log_text()


async def test_a_node_whose_directory_is_gone_does_not_offer_empty_partitions(
    catalog: Catalog, make_node: MakeNode, tmp_path
) -> None:
    node = make_node("forgetful")
    await ready(node)
    node_id = (await record(catalog, "forgetful")).node.id
    await catalog.topic("forgetful", 2)
    assert node.stop() == 0
    node.data.rename(tmp_path / "away")

    node.start()
    assert await asyncio.to_thread(node.wait_ended) == 1
    assert "the cluster expects 2 partitions on node 'forgetful'" in node.log_text()
    node.reconfigure({"NODE_EXPECT_LOSS": "true"})
    await ready(node)
    await asyncio.to_thread(node.wait_for, "open_partitions", 2)
    await catalog.propose(drain_node=DrainNode(node_id=node_id, is_draining=True))


async def test_another_clusters_directory_is_refused(
    catalog: Catalog, make_node: MakeNode, tmp_path, tmp_path_factory
) -> None:
    node = make_node("abroad")
    await ready(node)
    assert node.stop() == 0
    await catalog.propose(drain_node=DrainNode(node_id=(await record(catalog, "abroad")).node.id, is_draining=True))
    # Another node with the same name.
    ports = (free_port(), free_port())
    other = ReplicaProcess(tmp_path_factory.mktemp("other"), 0, [f"127.0.0.1:{ports[0]}"], ports, {})
    other.start()
    try:
        node.reconfigure({"CLUSTER_METADATA": other.address})
        node.start()
        assert await asyncio.to_thread(node.wait_ended) == 1
        assert "it is another cluster of the same name, or it has lost its data" in node.log_text()
    finally:
        other.kill()


async def test_a_wrong_secret_is_reported(make_node: MakeNode, catalog: Catalog) -> None:
    node = make_node("stranger", CLUSTER_SECRET="not the secret of that cluster, but as long")
    node.start()
    assert await asyncio.to_thread(node.wait_ended) == 1
    assert "the token is missing or is not that of this cluster" in node.log_text()


async def test_a_node_waits_for_the_metadata_service_and_can_be_stopped_meanwhile(make_node: MakeNode) -> None:
    node = make_node("patient", CLUSTER_METADATA=f"127.0.0.1:{free_port()}")
    node.start()
    async with asyncio.timeout(120):
        while node.health() != "starting":
            await asyncio.sleep(0.02)
    assert page(node, "health") == 503
    assert node.stop() == 0
    assert "shutdown requested during startup" in node.log_text()


async def test_a_node_knows_up_to_when_it_has_every_commit(catalog: Catalog, make_node: MakeNode) -> None:
    """The time advances without other commits: each renewal of the node's lease is an operation."""
    node = make_node("knowing", NODE_LEASE="1 s")
    await ready(node)
    horizon = "headrace_partition_node_horizon_seconds"
    async with asyncio.timeout(60):
        while (first := node.metrics()[horizon]) == 0:
            await asyncio.sleep(0.05)
        assert first <= time.time()
        while not first < (later := node.metrics()[horizon]) <= time.time():
            await asyncio.sleep(0.05)
    # A commit in between is not skipped: the reported time belongs to a version that the shards have applied.
    topic = await catalog.topic("known", 1)
    async with asyncio.timeout(60):
        while node.metrics()[horizon] * 1_000_000 < topic.created_at_micros:
            await asyncio.sleep(0.05)
    assert later < node.metrics()[horizon]
    assert node.metrics()["headrace_partition_node_waiting_publications"] == 0
    await catalog.propose(drain_node=DrainNode(node_id=(await record(catalog, "knowing")).node.id, is_draining=True))


async def test_metrics_want_the_clusters_token(make_node: MakeNode, catalog: Catalog) -> None:
    node = make_node("measured")
    await ready(node)
    assert page(node, "health") == 200
    assert page(node, "metrics") == page(node, "metrics", Authorization="Bearer x") == 401
    metrics = node.metrics()
    assert metrics["headrace_partition_node_is_ready"] == 1
    assert metrics["headrace_partition_node_is_registered"] == 1
    assert any(name.startswith("headrace_shard_") for name in metrics)
    await catalog.propose(drain_node=DrainNode(node_id=(await record(catalog, "measured")).node.id, is_draining=True))
