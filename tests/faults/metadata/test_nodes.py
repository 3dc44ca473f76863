"""The registry of partition nodes on three real replicas, across a fail-over (CTL-2)."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path

import pytest

from headrace_proto.catalog.v1 import COMPRESSION_ALGORITHM_NONE, NODE_STATUS_LIVE, NODE_STATUS_SILENT
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, CreateTopic, RegisterNode
from tests.faults.metadata.cluster import converged
from tests.faults.metadata.prepared import prepared

pytestmark = pytest.mark.timeout(300)

HOUR_MICROS = 3_600_000_000


def register(name: str, lease_micros: int) -> Command:
    return Command(
        register_node=RegisterNode(
            name=name,
            incarnation=1,
            binary_address=f"{name}:8100",
            grpc_address=f"{name}:8101",
            shards=2,
            lease_micros=lease_micros,
        )
    )


@pytest.mark.long
async def test_a_lease_runs_out_at_any_primary(tmp_path: Path) -> None:
    """Leases expire without a request, by the replicas' own clock. Placements are the same on all replicas."""
    async with prepared(tmp_path) as (cluster, client):
        for command in (
            register("a", HOUR_MICROS),
            register("b", HOUR_MICROS),
            register("c", 1_500_000),
            Command(
                create_topic=CreateTopic(
                    stream_id=0,
                    name="t",
                    partitions_count=30,
                    compression=COMPRESSION_ALGORITHM_NONE,
                    message_expiry_micros=1,
                    max_size_bytes=1,
                    replication_factor=2,
                )
            ),
        ):
            assert await client.propose(command) in {Status.OK, Status.TOPIC_NAME_ALREADY_EXISTS}
        victim = cluster.replicas[client.primary]
        victim.kill()
        # The lease expires while no replica, or another one, is the primary.
        assert await client.propose(register("d", HOUR_MICROS)) is Status.OK
        victim.start()

        expected = [NODE_STATUS_LIVE, NODE_STATUS_LIVE, NODE_STATUS_SILENT, NODE_STATUS_LIVE]
        deadline = time.monotonic() + 60
        while [node.status for node in (await converged(client.caller.stubs)).catalog.nodes] != expected:
            assert time.monotonic() < deadline
            await asyncio.sleep(0.1)
        catalog = (await converged(client.caller.stubs)).catalog
        assert [(node.id, node.name) for node in catalog.nodes] == [(1, "a"), (2, "b"), (3, "c"), (4, "d")]
        (placement,) = catalog.topic_placements
        holders = [set(partition.node_ids) for partition in placement.partitions]
        assert all(len(nodes) == 2 for nodes in holders)
        # A node that has joined later changes no placement.
        assert set().union(*holders) <= {1, 2, 3}
