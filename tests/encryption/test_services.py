"""TLS between the services of a cluster: replicas of the metadata service, and those who call them (CTL-6)."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Sequence
from pathlib import Path

import pytest
import trustme

from tests.cluster import Cluster
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.encryption.certificates import ServerFiles
from tests.service_process import ServiceProcess

SMALL = {"system.sharding.cpu_allocation": "1", "system.memory_pool.size": "64 MiB", "system.memory_pool.small": True}
PEERS = "tls: replica certificate replaced"
CALLERS = "tls: certificate replaced"
TRUSTED = "cluster authority replaced"


@pytest.fixture
def files(tmp_path: Path) -> ServerFiles:
    files = ServerFiles(tmp_path, trustme.CA())
    files.write("127.0.0.1")
    return files


@pytest.fixture
def cluster(tmp_path: Path, files: ServerFiles) -> Iterator[Cluster]:
    """Three replicas that show certificates, to each other and to a node and a gateway."""
    authority = {"cluster.authority": str(files.authority_file)}
    with Cluster(
        tmp_path,
        nodes=1,
        gateways=1,
        replica_settings={
            "TLS_CERTIFICATE": str(files.certificate),
            "TLS_KEY": str(files.key),
            "TLS_AUTHORITY": str(files.authority_file),
            "TLS_CERTIFICATE_CHECK_INTERVAL": "100 ms",
        },
        node_settings=SMALL | authority,
        gateway_settings=SMALL | authority,
    ) as running:
        yield running


def logged(services: Sequence[ServiceProcess], text: str, since: dict[str, int]) -> None:
    """Wait until each has logged this behind what it had logged before."""
    for service in services:
        begin = since[service.name]
        eventually(
            f"{text!r} of {service.name}", lambda service=service, begin=begin: text in service.log_text()[begin:]
        )


def test_the_authority_of_a_cluster_is_replaced_while_it_runs(cluster: Cluster, files: ServerFiles) -> None:
    """All trust both, replicas show certificates of the new one, all trust that alone. Nothing restarts for it; what
    starts afterwards makes connections with the new authority only, in both directions."""
    callers = [*cluster.nodes, *cluster.gateways]
    next_authority = trustme.CA()
    old, new = (authority.cert_pem.bytes() for authority in (files.authority, next_authority))

    def marks() -> dict[str, int]:
        return {service.name: len(service.log_text()) for service in cluster.services}

    def trust(pem: bytes) -> None:
        since = marks()
        unfinished = files.authority_file.with_suffix(".unfinished")
        unfinished.write_bytes(pem)
        unfinished.rename(files.authority_file)
        for caller in callers:
            caller.process.send_signal(signal.SIGUSR1)
        logged(cluster.replicas, PEERS, since)
        logged(callers, TRUSTED, since)

    with RawConnection.as_root(cluster.gateways[0].listeners.tcp) as connection:
        connection.create_topic("before")
        trust(old + new)
        since = marks()
        files.place(next_authority.issue_cert("127.0.0.1"))
        logged(cluster.replicas, PEERS, since)
        logged(cluster.replicas, CALLERS, since)
        trust(new)
        connection.create_topic("after")
        for number, replica in enumerate(cluster.replicas):
            replica.kill()
            replica.start()
            cluster.wait_for(replica)
            connection.create_topic(f"without-{number}")
            connection.send(f"without-{number}", "t", 0, b"m")
    # A gateway that starts now knows the new authority alone.
    gateway = cluster.gateways[0]
    assert gateway.stop() == 0
    gateway.start()
    cluster.wait_for(gateway)
