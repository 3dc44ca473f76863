"""A cluster on this machine, of as few processes as it can be, and the ways to its partitions."""

from __future__ import annotations

import time
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from headrace_core import Client, ServerError, TicketKey
from tests.cluster import NAME, Cluster, Settings
from tests.encryption.links import LinkFiles
from tests.performance.load import STREAM, TOPIC, Target
from tests.performance.workbench import topic_of

_TICKET_SECONDS = 24 * 3600
_KNOWN_WITHIN_SECONDS = 30.0
_AS_BY_DEFAULT: Settings = {
    "system.sharding.cpu_allocation": "all",
    "system.memory_pool.size": "4 GiB",
    "system.memory_pool.small": False,
}
"""Other tests make do with less."""


@dataclass(frozen=True, slots=True)
class Deployment:
    """One gateway, one partition node, one replica of the metadata service."""

    cluster: Cluster
    authority: Path | None = None
    """Of the node's certificate, where it has one."""

    @property
    def data(self) -> Path:
        """Where messages are stored."""
        return self.cluster.nodes[0].data

    @property
    def grpc(self) -> str:
        """The node's address of gRPC."""
        return self.cluster.nodes[0].grpc

    @property
    def ticket(self) -> str:
        """For everything, and for as long as a measurement may last."""
        key = TicketKey(self.cluster.secret, NAME)
        return key.sign("measurement", not_after=int(time.time()) + _TICKET_SECONDS)

    @property
    def through_gateway(self) -> Target:
        """Clients know the gateway alone."""
        return Target(self._gateway, self.cluster.gateways[0].process.pid, others=(self.node_pid,))

    @property
    def direct(self) -> Target:
        """Clients have a ticket for the node."""
        return Target(self._node, self.node_pid, ticket=self.ticket, catalog_address=self._gateway)

    @property
    def node_pid(self) -> int:
        """The node's process."""
        return self.cluster.nodes[0].process.pid

    @property
    def _node(self) -> str:
        address = self.cluster.nodes[0].binary
        return address if self.authority is None else f"tls://{address}?ca={self.authority}"

    @property
    def _gateway(self) -> str:
        return self.cluster.gateways[0].doors.tcp

    @contextmanager
    def topic(self, partitions: int) -> Generator[None]:
        """The topic of the loads for the length of a ``with`` block; afterwards its files are gone."""
        with topic_of(self._gateway, self.data, partitions):
            self._wait_until_known(partitions)
            yield

    def _wait_until_known(self, partitions: int) -> None:
        """The node hears of a topic in its own time, and refuses who comes before."""
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
def deployed(folder: Path, *, is_encrypted: bool = False) -> Generator[Deployment]:
    """Start one, and stop it.

    Args:
        folder: Of its own.
        is_encrypted: What goes to the node goes through TLS.
    """
    folder.mkdir()
    files = LinkFiles(folder / "certificates") if is_encrypted else None
    node_settings, gateway_settings = dict(_AS_BY_DEFAULT), dict(_AS_BY_DEFAULT)
    if files is not None:
        # Whoever waits for the node's catalogue has a ticket, and no certificate.
        node_settings |= {**files.node_settings, "binary.tls.client_certificates": "none"}
        gateway_settings |= files.gateway_settings
    with Cluster(
        folder, replicas=1, nodes=1, gateways=1, node_settings=node_settings, gateway_settings=gateway_settings
    ) as cluster:
        yield Deployment(cluster, files.node.authority_file if files is not None else None)
