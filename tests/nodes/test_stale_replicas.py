"""CTL-2: a node never reverts a change it has applied, however stale the catalog of a replica is."""

import asyncio
import random
from pathlib import Path

import pytest

from headrace_metadata_client import MetadataTarget, connected
from tests.faults.metadata.cluster import running_cluster
from tests.metadata_replicas import NAME, SECRET
from tests.nodes.conftest import Catalog
from tests.partition_nodes import NodeProcess

ROUNDS = 4
SEED = 20_260


@pytest.mark.long
@pytest.mark.timeout(600)
async def test_partitions_stay_although_a_replica_has_never_heard_of_them(tmp_path: Path) -> None:
    chance = random.Random(SEED)
    async with running_cluster(tmp_path) as cluster:
        addresses = tuple(replica.address for replica in cluster.replicas)
        node = NodeProcess(tmp_path, "node-1", addresses)
        try:
            async with connected(
                MetadataTarget(addresses=addresses, cluster=NAME, secret=SECRET, authority=None)
            ) as connections:
                catalog = Catalog(connections)
                node.start()
                await asyncio.to_thread(node.wait_ready)
                # From now on one replica receives nothing, and keeps reporting its state.
                for link in cluster.links_of(2):
                    link.cut()
                total = 0
                for number in range(ROUNDS):
                    count = chance.randint(1, 5)
                    await catalog.topic(f"topic-{number}", count)
                    total += count
                    await asyncio.to_thread(node.wait_for, "open_partitions", total)
                    directories = set(node.data.glob("streams/*/topics/*/partitions/*"))
                    assert len(directories) == total
                    if chance.random() < 0.5:
                        node.kill()
                    else:
                        assert node.stop() == 0
                    node.start()
                    await asyncio.to_thread(node.wait_ready)
                    await asyncio.to_thread(node.wait_for, "open_partitions", total)
                    assert set(node.data.glob("streams/*/topics/*/partitions/*")) == directories

                # Only the replica that has missed everything is left: the node waits for it to catch up.
                node.kill()
                for replica in cluster.replicas[:2]:
                    replica.kill()
                node.start()
                async with asyncio.timeout(120):
                    while node.health() != "starting":
                        await asyncio.sleep(0.02)
                await asyncio.sleep(2)
                assert node.health() == "starting"
                assert set(node.data.glob("streams/*/topics/*/partitions/*")) == directories
                cluster.heal()
                await asyncio.to_thread(node.wait_ready)
                await asyncio.to_thread(node.wait_for, "open_partitions", total)
        finally:
            node.kill()
