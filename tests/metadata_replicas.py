"""Replicas of the metadata service in processes of their own, and how they are called."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from headrace_proto.cluster_token import HEADER, authorization

NAME = "tests"
SECRET = "the secret of a test cluster"
METADATA = ((HEADER, authorization(SECRET, NAME)),)
"""What every call carries."""

CHANNEL_OPTIONS = (
    ("grpc.initial_reconnect_backoff_ms", 50),
    ("grpc.min_reconnect_backoff_ms", 50),
    ("grpc.max_reconnect_backoff_ms", 200),
    # Each client has connections of its own.
    ("grpc.use_local_subchannel_pool", 1),
)

_STOP_SECONDS = 30.0


class ReplicaProcess:
    """One replica; it can be killed, paused and started again on its folder and ports."""

    def __init__(
        self, folder: Path, index: int, members: list[str], ports: tuple[int, int], settings: Mapping[str, str]
    ) -> None:
        self.index = index
        self.data = folder / f"replica-{index}"
        self.log = folder / f"replica-{index}.log"
        self.grpc_port = ports[1]
        self._environment = {
            "CLUSTER_NAME": NAME,
            "CLUSTER_SECRET": SECRET,
            "CLUSTER_MEMBERS": ",".join(members),
            "CLUSTER_REPLICA": str(index),
            "CLUSTER_LISTEN": f"127.0.0.1:{ports[0]}",
            "GRPC_ADDRESS": f"127.0.0.1:{ports[1]}",
            "SYSTEM_PATH": str(self.data),
            **settings,
        }
        self._process: subprocess.Popen[bytes] | None = None
        self.is_paused = False

    @property
    def is_running(self) -> bool:
        """Whether the process lives, paused or not."""
        return self._process is not None and self._process.poll() is None

    @property
    def address(self) -> str:
        """Of its gRPC service."""
        return f"127.0.0.1:{self.grpc_port}"

    @property
    def process(self) -> subprocess.Popen[bytes]:
        """The running process."""
        assert self._process is not None, "the replica was not started"
        return self._process

    def reconfigure(self, settings: Mapping[str, str]) -> None:
        """Change settings, by variable without the prefix, from the next start on."""
        self._environment |= settings

    def start(self) -> None:
        """Start the process; it takes a while until it answers."""
        assert not self.is_running, "the replica runs already"
        inherited = {name: value for name, value in os.environ.items() if not name.startswith(("HEADRACE_", "IGGY_"))}
        ours = {f"HEADRACE_METADATA_{name}": value for name, value in self._environment.items()}
        with self.log.open("ab") as log:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "headrace_metadata"],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
                env=inherited | ours,
                process_group=0,
            )
        self.is_paused = False

    def kill(self) -> None:
        """End it at once (SIGKILL)."""
        if self.is_running:
            self.process.kill()
            self.process.wait()
        self.is_paused = False

    def pause(self) -> None:
        """Stop its clock (SIGSTOP)."""
        self.process.send_signal(signal.SIGSTOP)
        self.is_paused = True

    def resume(self) -> None:
        """Let it go on (SIGCONT)."""
        self.process.send_signal(signal.SIGCONT)
        self.is_paused = False

    def stop(self) -> int:
        """Ask it to stop (SIGTERM) and return its exit status."""
        self.process.terminate()
        return self.process.wait(_STOP_SECONDS)

    def log_text(self) -> str:
        """Everything that it wrote."""
        return self.log.read_text(encoding="utf-8", errors="replace") if self.log.exists() else ""
