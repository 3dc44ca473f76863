"""The services as plain processes on loopback: replicas of the metadata service, partition nodes, gateways."""

from __future__ import annotations

import http.client
import itertools
import json
import os
import secrets
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import closing
from pathlib import Path
from types import TracebackType
from typing import Final, Self

import grpc

from headrace_proto.cluster_token import HEADER, authorization
from headrace_proto.metadata.v1 import CONSISTENCY_LINEARIZABLE, GetSnapshotRequest, StateSnapshot
from headrace_proto.metadata.v1.service_pb2_grpc import MetadataStub
from tests.compatibility.protocol.raw import ConnectionClosed, RawConnection
from tests.journeys.deployment.place import Gateway, Place
from tests.metadata_replicas import CHANNEL_OPTIONS, ReplicaProcess
from tests.ports import free_port
from tests.server_process import PASSWORD, USERNAME
from tests.service_process import ServiceProcess

NAME: Final = "tests"
READY_SECONDS: Final = 180.0
"""Time after which a start has failed. An idle machine takes two seconds."""
_POLL_SECONDS: Final = 0.02
_SMALL: Final = {
    "system.sharding.cpu_allocation": "2",
    "system.memory_pool.size": "128 MiB",
    "system.memory_pool.small": True,
}
"""Settings of a small process: two shards, so that requests cross shards, and no more memory than tests need."""
_BAD_WORDS: Final = ("panicked at", "Traceback (most recent call last)")

Settings = Mapping[str, str | int | bool | Sequence[str]]
"""Settings by their dotted names."""


class NotReady(Exception):
    """A service ended or was not ready in time. The message holds the end of its log."""


class ConfiguredProcess(ServiceProcess):
    """A service whose settings are in a file."""

    def __init__(self, name: str, module: str, directory: Path, settings: Settings) -> None:
        self.settings = dict(settings)
        # The runtime driver is chosen once for the whole test run.
        if driver := os.environ.get("HEADRACE_RUNTIME_DRIVER"):
            self.settings["runtime.driver"] = driver
        self._file = directory / f"{name}.toml"
        super().__init__(name, module, log=directory / f"{name}.log", arguments=("--config", str(self._file)))

    def start(self) -> None:
        """Write the current settings to the file and start the process."""
        # A JSON list or string is valid TOML.
        lines = [f"{name} = {json.dumps(value)}\n" for name, value in self.settings.items()]
        self._file.write_text("".join(lines), encoding="utf-8")
        super().start()


class ClusterReplica(ReplicaProcess):
    """One replica of the metadata service."""

    def __init__(
        self,
        directory: Path,
        index: int,
        members: list[str],
        ports: tuple[int, int, int],
        secret: str,
        settings: Mapping[str, str],
    ) -> None:
        self.peers, self.metrics = members[index], f"127.0.0.1:{ports[2]}"
        own = {"CLUSTER_NAME": NAME, "CLUSTER_SECRET": secret, "METRICS_ADDRESS": self.metrics}
        super().__init__(directory, index, members, ports[:2], {**own, **settings})

    @property
    def addresses(self) -> set[str]:
        """Return all addresses of its listeners."""
        return {self.peers, self.address, self.metrics}

    def is_ready(self) -> bool:
        """Return whether the replica is the primary or follows one."""
        return answers(self.metrics, "/health")


class NodeProcess(ConfiguredProcess):
    """One partition node."""

    def __init__(self, directory: Path, number: int, cluster: Settings, settings: Settings) -> None:
        name = f"node-{number}"
        self.data = directory / name
        self.binary, self.grpc, self.http = (f"127.0.0.1:{free_port()}" for _ in range(3))
        own = {
            "node.name": name,
            "binary.address": self.binary,
            "grpc.address": self.grpc,
            "http.address": self.http,
            "system.path": str(self.data),
        }
        super().__init__(name, "headrace_partition_node", directory, {**cluster, **_SMALL, **own, **settings})

    def is_ready(self) -> bool:
        """Return whether the node serves its assigned partitions and the cluster has registered it."""
        return answers(self.http, "/health")


class GatewayProcess(ConfiguredProcess):
    """One gateway."""

    def __init__(self, directory: Path, number: int, cluster: Settings, settings: Settings) -> None:
        name = f"gateway-{number}"
        self.listeners = Gateway(*(f"127.0.0.1:{free_port()}" for _ in range(4)))
        own = {
            "gateway.name": name,
            "tcp.address": self.listeners.tcp,
            "websocket.address": self.listeners.websocket,
            "http.address": self.listeners.http,
            "grpc.address": self.listeners.grpc,
            "quic.enabled": False,
            "root.username": USERNAME,
            "root.password": PASSWORD,
        }
        super().__init__(name, "headrace_gateway", directory, {**cluster, **_SMALL, **own, **settings})

    def is_ready(self) -> bool:
        """Return whether root can log in."""
        try:
            RawConnection.as_root(self.listeners.tcp).close()
        except (OSError, ConnectionClosed, AssertionError):
            return False
        return True


class Cluster:
    """A cluster of three metadata replicas, two partition nodes and two gateways by default."""

    def __init__(
        self,
        directory: Path,
        *,
        replicas: int = 3,
        nodes: int = 2,
        gateways: int = 2,
        replica_settings: Mapping[str, str] | None = None,
        node_settings: Settings | None = None,
        gateway_settings: Settings | None = None,
    ) -> None:
        """Describe a cluster.

        Args:
            `directory`: Directory of data, settings and logs.
            replicas: Number of metadata replicas: one, three or five.
            nodes: Number of partition nodes, at least one.
            gateways: Number of gateways, at least one.
            replica_settings: Additional settings of every replica, as parts of variables: `TRACING_ENABLED`.
            node_settings: Additional settings of every node.
            gateway_settings: Additional settings of every gateway.
        """
        self.secret = secrets.token_hex(32)
        ports = [(free_port(), free_port(), free_port()) for _ in range(replicas)]
        members = [f"127.0.0.1:{port}" for port, _, _ in ports]
        self.replicas = [
            ClusterReplica(directory, index, members, given, self.secret, replica_settings or {})
            for index, given in enumerate(ports)
        ]
        shared: Settings = {
            "cluster.name": NAME,
            "cluster.secret": self.secret,
            "cluster.metadata": [replica.address for replica in self.replicas],
        }
        self.nodes = [NodeProcess(directory, number, shared, node_settings or {}) for number in range(1, nodes + 1)]
        self.gateways = [
            GatewayProcess(directory, number, shared, gateway_settings or {}) for number in range(1, gateways + 1)
        ]

    @property
    def services(self) -> list[ServiceProcess]:
        """All services in the order of their start."""
        return [*self.replicas, *self.nodes, *self.gateways]

    @property
    def place(self) -> Place:
        """The cluster as a place that journeys run against."""
        return Place([gateway.listeners for gateway in self.gateways], restart=self.restart, logs=self.logs)

    def state(self) -> StateSnapshot:
        """Fetch the complete metadata state from the replica that can confirm that its state is current."""
        request = GetSnapshotRequest(consistency=CONSISTENCY_LINEARIZABLE)
        shown = ((HEADER, authorization(self.secret, NAME)),)
        deadline = time.monotonic() + READY_SECONDS
        for replica in itertools.cycle(self.replicas):
            with grpc.insecure_channel(replica.address, CHANNEL_OPTIONS) as channel:
                try:
                    chunks = MetadataStub(channel).GetSnapshot(request, metadata=shown, timeout=5.0)
                    return StateSnapshot.FromString(b"".join(chunk.contents for chunk in chunks))
                except grpc.RpcError:
                    # The replica is a backup or unavailable: try the next one.
                    if time.monotonic() > deadline:
                        raise
            time.sleep(_POLL_SECONDS)
        raise AssertionError("a cycle has no end")

    def logs(self) -> dict[str, str]:
        """The last log lines of every service."""
        return {service.name: service.log_tail() for service in self.services}

    def start(self) -> Self:
        """Start all services that are not running, in parallel, and wait until all are ready.

        Raises:
            NotReady: A service ended or took too long.
        """
        for service in self.services:
            if not service.is_running:
                service.start()
        self.wait_ready()
        return self

    def wait_ready(self) -> None:
        """Wait until the nodes serve their assigned partitions and root can log in at every gateway.

        Raises:
            NotReady: A service ended or took too long.
        """
        for service in (*self.nodes, *self.gateways):
            self.wait_for(service)

    def wait_for(self, service: ClusterReplica | NodeProcess | GatewayProcess) -> None:
        """Wait until one service is ready.

        Raises:
            NotReady: The service ended or took too long.
        """
        eventually_ready(service, service.is_ready)

    def restart(self) -> None:
        """Stop all services in order and start them again."""
        self.stop()
        self.start()

    def stop(self) -> None:
        """Stop all services, front ends first: their clients still need answers from the services behind them."""
        for services in (self.gateways, self.nodes, self.replicas):
            ended(services)

    def kill(self) -> None:
        """Kill all services at once."""
        for service in self.services:
            service.kill()

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                self.stop()
                for service in self.services:
                    text = service.log_text()
                    assert not any(word in text for word in _BAD_WORDS), f"{service.name}:\n{service.log_tail()}"
        finally:
            self.kill()


def ended(services: Iterable[ServiceProcess]) -> None:
    """Stop these services in parallel; each must exit with status 0."""
    running = [service for service in services if service.is_running]
    for service in running:
        service.process.terminate()
    for service in running:
        status = service.process.wait(READY_SECONDS)
        assert status == 0, f"{service.name} ended with status {status}\n{service.log_tail()}"


def eventually_ready(service: ServiceProcess, is_ready: Callable[[], bool]) -> None:
    """Wait until a started service is ready.

    Raises:
        NotReady: The service ended or took too long.
    """
    deadline = time.monotonic() + READY_SECONDS
    while not is_ready():
        if not service.is_running:
            raise NotReady(f"{service.name} ended with {service.process.returncode}\n{service.log_tail()}")
        if time.monotonic() > deadline:
            raise NotReady(f"{service.name} is not ready after {READY_SECONDS} s\n{service.log_tail()}")
        time.sleep(_POLL_SECONDS)


def answers(address: str, path: str, *, secret: str | None = None) -> bool:
    """Return whether a service answers an HTTP request with 200."""
    headers = {} if secret is None else {HEADER: authorization(secret, NAME)}
    with closing(http.client.HTTPConnection(address, timeout=5.0)) as connection:
        try:
            connection.request("GET", path, headers=headers)
            return connection.getresponse().status == http.HTTPStatus.OK
        except OSError:
            return False
