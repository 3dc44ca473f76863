"""State of the cluster."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from headrace_gateway.observability.cluster_state import ClusterState, NodeCondition, ReplicaCondition


class NodeAnswer(msgspec.Struct, kw_only=True):
    """A partition node."""

    name: str
    address: Annotated[str, Meta(description="Its listener for the binary protocol; empty if it has none.")]
    state: Annotated[
        NodeCondition,
        Meta(
            description="`silent`: the cluster receives no heartbeats; `unreachable`: this gateway has no connection."
        ),
    ]
    shards_count: int
    partitions_count: Annotated[int, Meta(description="Number of partitions that the node leads.")]


class MetadataReplicaAnswer(msgspec.Struct, kw_only=True):
    """A replica of the metadata service. Numbers are null if it did not answer."""

    address: Annotated[str, Meta(description="Empty if the replica is in this process.")]
    state: ReplicaCondition
    view: int | None
    commit: Annotated[int | None, Meta(description="Newest operation that the replica knows to be committed.")]
    applied: Annotated[int | None, Meta(description="Newest operation that the replica has applied.")]
    release: str | None
    is_storage_full: bool


class ClusterStateAnswer(msgspec.Struct, kw_only=True):
    """The cluster, as this process sees it."""

    name: str
    kind: Annotated[Literal["embedded", "gateway"], Meta(description="Kind of this process.")]
    process_name: Annotated[str, Meta(description="Name of this process in the cluster.")]
    release: Annotated[str, Meta(description="Version of Headrace that this process runs.")]
    unready: Annotated[str | None, Meta(description="Reason why clients should use another gateway; null: ready.")]
    catalog_version: int
    catalog_age_seconds: Annotated[
        float | None, Meta(description="Time since the catalog was last known to be current; null: never.")
    ]
    nodes: list[NodeAnswer]
    replicas: list[MetadataReplicaAnswer]


def cluster_state(state: ClusterState) -> ClusterStateAnswer:
    """Return the state of the cluster."""
    return msgspec.convert(state, ClusterStateAnswer, from_attributes=True)
