"""A real server for tests: `headrace up` in its own process."""

from __future__ import annotations

import atexit
import os
import signal
import socket
import subprocess
import time
import tomllib
import weakref
from collections.abc import Mapping
from pathlib import Path
from types import TracebackType
from typing import Any, ClassVar, Self

from tests.forked_process import ForkedProcess
from tests.ports import free_port

USERNAME = PASSWORD = "iggy"
"""Root's credentials on every server started here."""

_PASSED_THROUGH = ("HEADRACE_RUNTIME_DRIVER",)
"""The only setting that a test run may set from its environment."""
_READY_POLL_SECONDS = 0.01


class ServerDidNotStart(Exception):
    """The server ended or was not ready in time. The message holds the end of its log."""


class ServerProcess:
    """One server on one data directory; it can be stopped, killed and restarted on the same port."""

    _alive: ClassVar[weakref.WeakSet[ServerProcess]] = weakref.WeakSet()

    def __init__(
        self,
        data: Path,
        settings: Mapping[str, str] | None = None,
        *,
        address: str | None = None,
        log: Path | None = None,
    ) -> None:
        """Describe a server.

        Args:
            data: Data directory.
            settings: Settings by variable without the prefix: ``{"SYSTEM_SEGMENT_SIZE": "64 KiB"}``.
            address: Address of its binary listener. The default is a free port, reused by later starts like those
                of the other listeners.
            log: Log file; the default is beside the data directory.
        """
        self.data = data
        self.settings = dict(settings or {})
        self.address = address or _loopback()
        self.http_address = _loopback()
        self.grpc_address = _loopback()
        self.pipelines_address = _loopback()
        self.websocket_address = _loopback()
        self.quic_address = _loopback(socket.SOCK_DGRAM)
        self.log = log or data.with_name(data.name + ".log")
        self._process: ForkedProcess | None = None

    @property
    def host(self) -> str:
        """Host part of the address."""
        return self.address.rpartition(":")[0]

    @property
    def port(self) -> int:
        """Port part of the address."""
        return int(self.address.rpartition(":")[2])

    @property
    def http_url(self) -> str:
        """URL of its HTTP interface."""
        return f"http://{self.http_address}"

    @property
    def process(self) -> ForkedProcess:
        """The running process."""
        assert self._process is not None, "the server was not started"
        return self._process

    @property
    def is_running(self) -> bool:
        """Return whether the process is running."""
        return self._process is not None and self._process.poll() is None

    def start(self, *, timeout_seconds: float = 60.0) -> Self:
        """Start the process and wait until clients can connect.

        Raises:
            ServerDidNotStart: The server ended or took too long.
        """
        self.spawn()
        deadline = time.monotonic() + timeout_seconds
        while not (config := self.current_config()):
            if self._process is None or self._process.poll() is not None:
                raise ServerDidNotStart(f"status {self.process.returncode}\n{self.log_tail()}")
            if time.monotonic() > deadline:
                self.kill()
                raise ServerDidNotStart(f"not ready after {timeout_seconds} s\n{self.log_tail()}")
            time.sleep(_READY_POLL_SECONDS)
        self.address = config["tcp"]["address"]
        self.http_address = config["http"]["address"]
        self.grpc_address = config["grpc"]["address"]
        self.pipelines_address = config["pipelines"]["address"]
        self.websocket_address = config["websocket"]["address"]
        self.quic_address = config["quic"]["address"]
        return self

    def spawn(self) -> ForkedProcess:
        """Start the process without waiting for readiness."""
        assert not self.is_running, "the server runs already"
        # A file of an earlier run would look like readiness.
        self._config_file.unlink(missing_ok=True)
        with self.log.open("ab") as log:
            self._process = ForkedProcess(
                "headrace",
                ["up", "--data", str(self.data), "--address", self.address],
                environment=self._environment(),
                output=log.fileno(),
            )
        self._alive.add(self)
        return self._process

    def stop(self, number: signal.Signals = signal.SIGTERM, *, timeout_seconds: float = 60.0) -> int:
        """Send a signal to stop, wait for the end, and return the exit status."""
        if self.is_running:
            self.process.send_signal(number)
        return self.wait(timeout_seconds)

    def kill(self) -> None:
        """Kill the process (SIGKILL)."""
        if self.is_running:
            self.process.kill()
        self.wait()

    def wait(self, timeout_seconds: float = 60.0) -> int:
        """Wait for the end and return the exit status."""
        try:
            return self.process.wait(timeout_seconds)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()
            raise

    def restart(self, *, kill: bool = False) -> Self:
        """Stop or kill the server and start it on the same directory and port."""
        if kill:
            self.kill()
        else:
            self.stop()
        return self.start()

    def partition_directory(self, stream: int = 0, topic: int = 0, partition: int = 0) -> Path:
        """Directory of the files of a partition."""
        return self.data / f"streams/{stream}/topics/{topic}/partitions/{partition}"

    def current_config(self) -> dict[str, Any] | None:
        """The published settings in effect, with the ports that are bound; `None` until clients can connect."""
        try:
            return tomllib.loads(self._config_file.read_text(encoding="utf-8"))
        except FileNotFoundError:
            return None

    def log_tail(self, lines: int = 60) -> str:
        """The last lines of its log."""
        if not self.log.exists():
            return "(no log)"
        return "\n".join(self.log.read_text(encoding="utf-8", errors="replace").splitlines()[-lines:])

    def memory_bytes(self) -> int:
        """Resident memory of the process."""
        status = Path(f"/proc/{self.process.pid}/status").read_text(encoding="ascii")
        line = next(line for line in status.splitlines() if line.startswith("VmRSS:"))
        return int(line.split()[1]) * 1024

    def cpu_seconds(self) -> float:
        """CPU time of all threads of the process so far."""
        # Skip the program name, which may contain anything: fields 14 and 15 of proc(5).
        fields = Path(f"/proc/{self.process.pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    @property
    def _config_file(self) -> Path:
        return self.data / "runtime/current_config.toml"

    def _environment(self) -> dict[str, str]:
        ours = ("HEADRACE_", "IGGY_")
        environment = {
            name: value for name, value in os.environ.items() if not name.startswith(ours) or name in _PASSED_THROUGH
        }
        environment |= {"HEADRACE_ROOT_USERNAME": USERNAME, "HEADRACE_ROOT_PASSWORD": PASSWORD}
        environment["HEADRACE_HTTP_ADDRESS"] = self.http_address
        environment["HEADRACE_GRPC_ADDRESS"] = self.grpc_address
        environment["HEADRACE_PIPELINES_ADDRESS"] = self.pipelines_address
        environment["HEADRACE_WEBSOCKET_ADDRESS"] = self.websocket_address
        environment["HEADRACE_QUIC_ADDRESS"] = self.quic_address
        return environment | {f"HEADRACE_{name}": value for name, value in self.settings.items()}

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.is_running:
            self.stop()


def _loopback(kind: socket.SocketKind = socket.SOCK_STREAM) -> str:
    return f"127.0.0.1:{free_port(kind)}"


@atexit.register
def _end_all() -> None:
    for server in list(ServerProcess._alive):
        if server.is_running:
            server.process.kill()
            server.process.wait()
