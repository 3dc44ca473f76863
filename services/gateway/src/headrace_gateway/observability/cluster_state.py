"""State of the cluster as one process sees it: itself, the partition nodes, the replicas of the metadata service."""

from __future__ import annotations

import math
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Literal

from headrace_proto.catalog.v1 import Node
from headrace_proto.metadata.v1 import ReplicaState, ReplicaStatus

NodeCondition = Literal["live", "draining", "unreachable", "silent"]
ReplicaCondition = Literal["primary", "backup", "view change", "recovering", "halted", "no answer", "unknown"]

_CONDITIONS: Final[Mapping[str, ReplicaCondition]] = {
    "REPLICA_STATE_VIEW_CHANGE": "view change",
    "REPLICA_STATE_RECOVERING": "recovering",
    "REPLICA_STATE_HALTED": "halted",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeState:
    """A partition node."""

    name: str
    address: str
    """host:port of the binary protocol; empty if it is not served."""
    state: NodeCondition
    shards_count: int
    partitions_count: int
    """Number of partitions that the node leads."""


@dataclass(frozen=True, slots=True, kw_only=True)
class MetadataReplicaState:
    """A replica of the metadata service. Numbers are None if it did not answer."""

    address: str
    """host:port; empty if the replica is in this process."""
    state: ReplicaCondition
    view: int | None = None
    commit: int | None = None
    applied: int | None = None
    release: str | None = None
    is_storage_full: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterState:
    """The cluster, as this process sees it."""

    name: str
    kind: Literal["embedded", "gateway"]
    process_name: str
    """Name of this process in the cluster."""
    release: str
    """Version of Headrace that this process runs."""
    unready: str | None
    """Reason why clients should use another gateway; None: ready."""
    catalog_version: int
    catalog_age_seconds: float | None
    """Time since the catalog was last known to be current; None: never."""
    nodes: Sequence[NodeState]
    replicas: Sequence[MetadataReplicaState]


ReadClusterState = Callable[[], Awaitable[ClusterState]]


def node_state(node: Node, state: NodeCondition, partitions_count: int) -> NodeState:
    """Return the state of a registered node."""
    return NodeState(
        name=node.name,
        address=node.binary_address,
        state=state,
        shards_count=node.shards,
        partitions_count=partitions_count,
    )


def replica_state(address: str, status: ReplicaStatus | None) -> MetadataReplicaState:
    """Return the state of a replica; None: it did not answer."""
    if status is None:
        return MetadataReplicaState(address=address, state="no answer")
    name = ReplicaState.Name(status.state)
    if name == "REPLICA_STATE_NORMAL":
        is_primary = status.HasField("primary") and status.primary == status.replica
        state: ReplicaCondition = "primary" if is_primary else "backup"
    else:
        state = _CONDITIONS.get(name, "unknown")
    return MetadataReplicaState(
        address=address,
        state=state,
        view=status.view,
        commit=status.commit,
        applied=status.applied,
        release=status.release,
        is_storage_full=status.storage_full,
    )


def known_age(age_seconds: float) -> float | None:
    """Return an age; None if it is infinite."""
    return age_seconds if math.isfinite(age_seconds) else None
