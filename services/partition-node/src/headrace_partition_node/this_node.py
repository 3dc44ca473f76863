"""The components of a node, and its answers about the node as a whole."""

from __future__ import annotations

from dataclasses import dataclass

from headrace_chassis.grpc.memory import Pool
from headrace_chassis.grpc.status import Refused
from headrace_chassis.shares import Shares
from headrace_metadata_client import MetadataClientError
from headrace_node import Horizon, Node, Publications
from headrace_partition_node.catalog_follower import Catalog
from headrace_partition_node.metrics import Metrics
from headrace_partition_node.notices import Notices
from headrace_partition_node.placements import Placements
from headrace_partition_node.reconciler import Reconciler
from headrace_partition_node.registration import Proposer, Registration
from headrace_proto.errors import Status
from headrace_proto.metadata.v1 import Command, DrainNode
from headrace_proto.partition.v1 import GetStatisticsResponse, PartitionFailure
from headrace_proto.well_known import ROOT_USER_ID


@dataclass(frozen=True, slots=True, kw_only=True)
class ThisNode:
    """The node as the subject of calls and metrics."""

    name: str
    node: Node
    placements: Placements
    catalog: Catalog
    reconciler: Reconciler
    registration: Registration
    notices: Notices
    publications: Publications
    horizon: Horizon
    proposer: Proposer
    memory: Pool
    calls: Shares

    def metrics(self, *, is_ready: bool) -> Metrics:
        """Return the node's metrics."""
        state = self.reconciler.state
        return Metrics(
            is_ready=is_ready,
            is_registered=self.registration.node is not None,
            lease_age_seconds=self.registration.age_seconds,
            catalog_version=self.catalog.version,
            catalog_age_seconds=self.catalog.age_seconds,
            placed_partitions=state.placed_count,
            open_partitions=state.open_count,
            recovering_partitions=state.recovering_count,
            failed_partitions=len(state.failures),
            waiting_notices=self.notices.waiting_count,
            waiting_publications=self.publications.waiting_count,
            horizon_seconds=self.horizon.micros / 1_000_000,
            grpc_calls=self.calls.count,
            grpc_memory_bytes=self.memory.used_bytes,
        )

    def statistics(self) -> GetStatisticsResponse:
        """Return the node's statistics, without its partitions."""
        state = self.reconciler.look()
        registered, known = self.registration.node, self.placements.node
        return GetStatisticsResponse(
            node_name=self.name,
            node_id=registered.id if registered is not None else 0,
            incarnation=self.registration.incarnation,
            catalog_version=self.catalog.version,
            shards_count=self.node.shards_count,
            placed_count=state.placed_count,
            open_count=state.open_count,
            recovering_count=state.recovering_count,
            failures=[PartitionFailure(partition=partition, reason=reason) for partition, reason in state.failures],
            is_draining=known is not None and known.is_draining,
        )

    async def drain(self, *, is_draining: bool) -> None:
        """Exclude this node from new placements, or include it again.

        Raises:
            Refused: The cluster refuses the change.
        """
        registered = self.registration.node
        if registered is None:
            raise Refused(Status.PARTITION_UNAVAILABLE, "this node is not registered yet")
        command = DrainNode(node_id=registered.id, is_draining=is_draining)
        try:
            response = await self.proposer.propose(Command(actor_user_id=ROOT_USER_ID, drain_node=command))
        except MetadataClientError as error:
            raise Refused(error.code, str(error)) from error
        if response.reply.status != Status.OK:
            raise Refused(response.reply.status)
        self.catalog.known(response.version, response.timestamp_micros)
