"""State of the cluster as a gateway sees it."""

from __future__ import annotations

from collections.abc import Callable

from headrace_gateway.catalog.follower import Catalog
from headrace_gateway.observability.cluster_state import ClusterState, known_age, node_state, replica_state
from headrace_gateway.service.nodes import NodeConditions
from headrace_metadata_client import Connections, Reads


class RemoteClusterState:
    """Reads the states of the nodes, and asks each replica of the metadata service."""

    def __init__(
        self,
        catalog: Catalog,
        connections: Connections,
        nodes: NodeConditions,
        *,
        cluster_name: str,
        gateway_name: str,
        release: str,
        unready: Callable[[], str | None],
    ) -> None:
        self._catalog = catalog
        self._connections = connections
        self._nodes = nodes
        self._cluster_name = cluster_name
        self._gateway_name = gateway_name
        self._release = release
        self._unready = unready

    async def read(self) -> ClusterState:
        """Return the current state. Waits a short time for replicas that do not answer."""
        statuses = await Reads(self._connections).statuses()
        view = self._catalog.view
        led = view.led_partitions()
        return ClusterState(
            name=self._cluster_name,
            kind="gateway",
            process_name=self._gateway_name,
            release=self._release,
            unready=self._unready(),
            catalog_version=view.version,
            catalog_age_seconds=known_age(self._catalog.age_seconds),
            nodes=[node_state(node, condition, led[node.id]) for node, condition in self._nodes.all()],
            replicas=[
                replica_state(address, status)
                for address, status in zip(self._connections.addresses, statuses, strict=True)
            ],
        )
