"""A minimal cluster on this machine, and the routes to its partitions."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace_core import Client, ServerError, TicketKey
from tests.cluster import NAME, Cluster, Settings
from tests.encryption.links import LinkFiles
from tests.performance.loads.load import STREAM, TOPIC, Target
from tests.performance.workbench import topic_of

_TICKET_SECONDS = 24 * 3600
_KNOWN_WITHIN_SECONDS = 30.0
_AS_BY_DEFAULT: Settings = {
    "system.sharding.cpu_allocation": "all",
    "system.memory_pool.size": "4 GiB",
    "system.memory_pool.small": False,
}
"""Product defaults for settings that other tests reduce."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One gateway, one partition node, one replica of the metadata service."""

    cluster: Cluster
    authority: Path | None = None
    """Certificate authority of the node; none without TLS."""

    @property
    def data(self) -> Path:
        """Return the node's data directory."""
        return self.cluster.nodes[0].data

    @property
    def grpc(self) -> str:
        """Return the node's gRPC address."""
        return self.cluster.nodes[0].grpc

    @property
    def ticket(self) -> str:
        """Return a ticket with all rights that outlasts any measurement."""
        key = TicketKey(self.cluster.secret, NAME)
        return key.sign("measurement", not_after=int(time.time()) + _TICKET_SECONDS)

    @property
    def through_gateway(self) -> Target:
        """Return the route of clients that know only the gateway."""
        return Target(self._gateway, self.cluster.gateways[0].process.pid, others=(self.node_pid,))

    @property
    def direct(self) -> Target:
        """Return the route of clients that connect to the node with a ticket."""
        return Target(self._node, self.node_pid, ticket=self.ticket, catalog_address=self._gateway)

    @property
    def node_pid(self) -> int:
        """Return the node's process id."""
        return self.cluster.nodes[0].process.pid

    @property
    def _node(self) -> str:
        address = self.cluster.nodes[0].binary
        return address if self.authority is None else f"tls://{address}?ca={self.authority}"

    @property
    def _gateway(self) -> str:
        return self.cluster.gateways[0].listeners.tcp

    @contextmanager
    def topic(self, partitions: int) -> Generator[None]:
        """Create the topic of the loads for the duration of a ``with`` block; its files are deleted afterwards."""
        with topic_of(self._gateway, self.data, partitions):
            self._wait_until_known(partitions)
            yield

    def _wait_until_known(self, partitions: int) -> None:
        """Wait until the node knows the topic; earlier requests are refused."""
        client = Client.connect(self._node)
        client.login_with_ticket(self.ticket)
        deadline = time.monotonic() + _KNOWN_WITHIN_SECONDS
        for partition in range(partitions):
            while not _is_known(client, partition):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"the node does not know partition {partition}")
                time.sleep(0.01)
        client.close()


def _is_known(client: Client, partition: int) -> bool:
    try:
        client.poll(STREAM, TOPIC, partition, strategy="first", count=1)
    except ServerError:
        return False
    return True


@contextmanager
def deployed(directory: Path, *, is_encrypted: bool = False) -> Generator[Deployment]:
    """Start a deployment and stop it.

    Args:
        directory: Directory of the deployment.
        is_encrypted: True to use TLS towards the node.
    """
    directory.mkdir()
    files = LinkFiles(directory / "certificates") if is_encrypted else None
    node_settings, gateway_settings = dict(_AS_BY_DEFAULT), dict(_AS_BY_DEFAULT)
    if files is not None:
        # The client that waits for the node's catalog has a ticket, and no certificate.
        node_settings |= {**files.node_settings, "binary.tls.client_certificates": "none"}
        gateway_settings |= files.gateway_settings
    with Cluster(
        directory, replicas=1, nodes=1, gateways=1, node_settings=node_settings, gateway_settings=gateway_settings
    ) as cluster:
        yield Deployment(cluster, files.node.authority_file if files is not None else None)
