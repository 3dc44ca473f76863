"""Partition nodes in their own processes."""

from __future__ import annotations

import json
import os
import time
import urllib.error
import urllib.request
from collections.abc import Mapping, Sequence
from pathlib import Path

from headrace_proto.cluster_token import metrics_authorization
from tests.metadata_replicas import NAME, SECRET
from tests.ports import free_port
from tests.service_process import ServiceProcess

_START_SECONDS = 120.0
_POLL_SECONDS = 0.02
_ANSWER_SECONDS = 60.0


class NodeProcess(ServiceProcess):
    """One node."""

    def __init__(
        self, directory: Path, name: str, metadata: Sequence[str], settings: Mapping[str, str] | None = None
    ) -> None:
        """Describe a node without starting it.

        Args:
            `directory`: Directory of data and log.
            name: Name in the cluster.
            metadata: Addresses of the metadata replicas.
            settings: Additional settings, by variable without the prefix.
        """
        super().__init__(name, "headrace_partition_node", log=directory / f"{name}.log", prefix="HEADRACE_NODE")
        self.data = directory / name
        self.binary_port, self.grpc_port, self.http_port = (free_port() for _ in range(3))
        self.reconfigure(
            {
                "CLUSTER_NAME": NAME,
                "CLUSTER_SECRET": SECRET,
                "CLUSTER_METADATA": ",".join(metadata),
                "NODE_NAME": name,
                "BINARY_ADDRESS": f"127.0.0.1:{self.binary_port}",
                "GRPC_ADDRESS": f"127.0.0.1:{self.grpc_port}",
                "HTTP_ADDRESS": f"127.0.0.1:{self.http_port}",
                "SYSTEM_PATH": str(self.data),
                "SYSTEM_MEMORY_POOL_SIZE": "128 MiB",
                "SYSTEM_MEMORY_POOL_SMALL": "true",
                "SYSTEM_SHARDING_CPU_ALLOCATION": "2",
                "LOGGING_FORMAT": "json",
            }
        )
        # The runtime driver is chosen once for the whole test run.
        if "HEADRACE_RUNTIME_DRIVER" in os.environ:
            self.reconfigure({"RUNTIME_DRIVER": os.environ["HEADRACE_RUNTIME_DRIVER"]})
        self.reconfigure(settings or {})

    def health(self) -> str:
        """Return its health: ``starting``, ``ok`` or ``stopping``; empty if the node does not answer."""
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{self.http_port}/live", timeout=_ANSWER_SECONDS) as response:
                return str(json.load(response)["status"])
        except (urllib.error.URLError, OSError):
            return ""

    def wait_ready(self) -> None:
        """Wait until the node serves its assigned partitions."""
        deadline = time.monotonic() + _START_SECONDS
        while self.health() != "ok":
            assert self.is_running, f"the node ended:\n{self.log_text()}"
            assert time.monotonic() < deadline, f"the node does not become ready:\n{self.log_text()}"
            time.sleep(_POLL_SECONDS)

    def metrics(self) -> dict[str, float]:
        """Fetch its metrics by name with labels."""
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.http_port}/metrics", headers={"Authorization": metrics_authorization(SECRET, NAME)}
        )
        with urllib.request.urlopen(request, timeout=_ANSWER_SECONDS) as response:
            lines = response.read().decode().splitlines()
        return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines if line[0] != "#")}

    def metric(self, name: str) -> float:
        """Fetch one metric with the prefix of nodes."""
        return self.metrics()[f"headrace_partition_node_{name}"]

    def wait_for(self, name: str, value: float) -> None:
        """Wait until a metric has this value."""
        deadline = time.monotonic() + _START_SECONDS
        while (found := self.metric(name)) != value:
            assert time.monotonic() < deadline, f"{name} is {found}, not {value}:\n{self.log_text()}"
            time.sleep(_POLL_SECONDS)

    def wait_ended(self) -> int:
        """Wait until the node has ended by itself and return its exit status."""
        return self.process.wait(_START_SECONDS)
