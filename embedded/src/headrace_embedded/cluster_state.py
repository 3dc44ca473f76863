"""State of the cluster that an embedded server is: one node, one replica, one gateway."""

from __future__ import annotations

import time

from headrace_gateway.observability.cluster_state import ClusterState, NodeState, replica_state
from headrace_metadata.replica import Replica
from headrace_metadata.status import ReplicaFacts, replica_status
from headrace_node import Node


class OwnClusterState:
    """Reads the state of the parts of this process."""

    def __init__(self, replica: Replica, node: Node, *, cluster_name: str, node_name: str, release: str) -> None:
        self._replica = replica
        self._node = node
        self._cluster_name = cluster_name
        self._node_name = node_name
        self._facts = ReplicaFacts(
            cluster_name=cluster_name,
            replica=0,
            members=("",),
            release=release,
            started_at_micros=time.time_ns() // 1000,
        )

    async def read(self) -> ClusterState:
        """Return the current state."""
        status = replica_status(self._replica, self._facts)
        return ClusterState(
            name=self._cluster_name,
            kind="embedded",
            process_name=self._node_name,
            release=self._facts.release,
            unready=None,
            catalog_version=status.version,
            catalog_age_seconds=0.0,
            nodes=[
                NodeState(
                    name=self._node_name,
                    address=self._node.tcp_address,
                    state="live",
                    shards_count=self._node.shards_count,
                    partitions_count=self._replica.state.partitions_count(),
                )
            ],
            replicas=[replica_state("", status)],
        )
