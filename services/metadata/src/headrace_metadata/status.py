"""Status report of a replica."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from headrace_metadata.replica import Replica
from headrace_proto.metadata.v1 import (
    REPLICA_STATE_HALTED,
    REPLICA_STATE_NORMAL,
    REPLICA_STATE_RECOVERING,
    REPLICA_STATE_VIEW_CHANGE,
    Member,
    ReplicaState,
    ReplicaStatus,
)

_STATES: Final[dict[str, ReplicaState.ValueType]] = {
    "primary": REPLICA_STATE_NORMAL,
    "backup": REPLICA_STATE_NORMAL,
    "view_change": REPLICA_STATE_VIEW_CHANGE,
    "recovering": REPLICA_STATE_RECOVERING,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class ReplicaFacts:
    """Properties that are constant while the process runs."""

    cluster_name: str
    replica: int
    members: tuple[str, ...]
    release: str
    started_at_micros: int


def replica_status(replica: Replica, facts: ReplicaFacts) -> ReplicaStatus:
    """Return the status of this replica and its view of the others."""
    native = replica.status()
    connected = {peer["replica"] for peer in native["peers"] if peer["connected"]} | {facts.replica}
    return ReplicaStatus(
        cluster_name=facts.cluster_name,
        cluster_id=native["cluster_id"],
        replica=facts.replica,
        members=(
            Member(replica=index, address=address, connected=index in connected)
            for index, address in enumerate(facts.members)
        ),
        state=_STATES.get(native["role"], REPLICA_STATE_HALTED),
        view=native["view"],
        primary=native["primary"] if native["primary"] >= 0 else None,
        op=native["op"],
        commit=native["commit"],
        applied=native["applied"],
        checkpoint=native["checkpoint_op"],
        version=replica.state.version,
        release=facts.release,
        started_at_micros=facts.started_at_micros,
        storage_full=native["storage_full"],
    )
