"""Replicas of the metadata service in their own processes, and clients of them."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from headrace_proto.cluster_token import HEADER, authorization
from tests.service_process import ServiceProcess

NAME = "tests"
SECRET = "the secret of a test cluster, of 32 bytes"
METADATA = ((HEADER, authorization(SECRET, NAME)),)
"""Metadata of every call."""

CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    # Each client has its own connections.
    ("grpc.use_local_subchannel_pool", 1),
)


class ReplicaProcess(ServiceProcess):
    """One replica."""

    def __init__(
        self,
        directory: Path,
        index: int,
        members: list[str],
        ports: tuple[int, int],
        settings: Mapping[str, str],
        *,
        log: Path | None = None,
    ) -> None:
        super().__init__(
            f"metadata replica {index}",
            "headrace_metadata",
            log=(log or directory) / f"replica-{index}.log",
            prefix="HEADRACE_METADATA",
            settings={
                "CLUSTER_NAME": NAME,
                "CLUSTER_SECRET": SECRET,
                "CLUSTER_MEMBERS": ",".join(members),
                "CLUSTER_REPLICA": str(index),
                "CLUSTER_LISTEN": f"127.0.0.1:{ports[0]}",
                "GRPC_ADDRESS": f"127.0.0.1:{ports[1]}",
                "SYSTEM_PATH": str(directory / f"replica-{index}"),
                **settings,
            },
        )
        self.index = index
        self.data = directory / f"replica-{index}"
        self.grpc_port = ports[1]

    @property
    def address(self) -> str:
        """Address of its gRPC service."""
        return f"127.0.0.1:{self.grpc_port}"
