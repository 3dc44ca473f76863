"""The cluster of `compose/`, under a name and on ports of its own."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from tests.journeys.deployment.place import Gateway
from tests.ports import free_port

COMPOSE: Final = Path(__file__).resolve().parents[2] / "compose"
PROJECT: Final = "headrace-test"

METADATA: Final = ("metadata-0", "metadata-1", "metadata-2")
NODES: Final = ("node-0", "node-1")
GATEWAYS: Final = ("gateway-0", "gateway-1")
SERVICES: Final = (*METADATA, *NODES, *GATEWAYS)
OTHERS: Final = ("balancer", "postgres", "prometheus")
CONNECTORS: Final = ("connectors-0", "connectors-1")

HEALTHY_SECONDS: Final = 120.0
_BAD_WORDS: Final = ("panicked at", "Traceback (most recent call last)")


class Containers:
    """The containers of one cluster."""

    def __init__(self) -> None:
        names = ("TCP", "WEBSOCKET", "HTTP", "GRPC", "PROMETHEUS")
        self.ports = {name: free_port() for name in names}
        self._environment = {f"HEADRACE_{name}_PORT": str(port) for name, port in self.ports.items()} | {
            "HEADRACE_PROJECT": PROJECT
        }
        self._settings: Mapping[str, str] | None = None

    @property
    def listeners(self) -> Gateway:
        """Addresses of the balancer."""
        return Gateway(*(f"127.0.0.1:{self.ports[name]}" for name in ("TCP", "WEBSOCKET", "HTTP", "GRPC")))

    def up(self, settings: Mapping[str, str] | None = None) -> None:
        """Have everything up and healthy, with the images that are there and these settings.

        Args:
            settings: Variables of `compose.yaml`.
        """
        wanted = settings or {}
        if self._settings != wanted:
            self._settings = wanted
            self.compose("up", "--detach", "--remove-orphans", seconds=300)
        self.wait_healthy()

    def destroy(self) -> None:
        """Remove everything, data and secrets included."""
        self._cluster("destroy", seconds=180)

    def compose(self, *arguments: str, seconds: float = 120.0) -> str:
        """Another command of Compose; returns what it printed."""
        return self._cluster("compose", *arguments, seconds=seconds)

    def password(self) -> str:
        """Root's password."""
        return self._cluster("password").strip()

    def container(self, service: str) -> str:
        """The id of a service's container."""
        labels = {"project": PROJECT, "service": service}
        filters = [f"--filter=label=com.docker.compose.{label}={value}" for label, value in labels.items()]
        return docker("ps", "--all", "--quiet", *filters).strip()

    def inspect(self, service: str) -> Mapping[str, Any]:
        """Container state as the engine reports it."""
        described: list[dict[str, Any]] = json.loads(docker("inspect", self.container(service)))
        return described[0]

    def inside(self, service: str, command: str) -> str:
        """Run a command of the shell in its container; returns what it printed."""
        return docker("exec", self.container(service), "bash", "-c", command)

    def address(self, service: str) -> str:
        """Address of the container on this machine, bypassing the balancer."""
        networks = self.inspect(service)["NetworkSettings"]["Networks"]
        return str(next(network["IPAddress"] for network in networks.values() if network["IPAddress"]))

    def kill(self, service: str) -> None:
        """Kill all processes of the container; the engine restarts it."""
        # The first process is the engine's own and cannot be killed from within: it ends with the service.
        subprocess.run(
            ["docker", "exec", self.container(service), "bash", "-c", "kill -KILL -1"], check=False, timeout=60
        )

    def restart(self, service: str) -> None:
        """Ask it to stop, and start it again."""
        docker("restart", "--time", "30", self.container(service), seconds=90)

    def starts(self, service: str) -> str:
        """Identifier of the current start."""
        return str(self.inspect(service)["State"]["StartedAt"])

    def wait_healthy(self, *services: str, seconds: float = HEALTHY_SECONDS) -> float:
        """Wait until these services, or all, are healthy; returns how long it took."""
        began = time.monotonic()
        containers = [self.container(service) for service in services or (*SERVICES, *OTHERS, *CONNECTORS)]

        def sick() -> list[str]:
            answer = docker("inspect", "--format", "{{.Name}} {{.State.Health.Status}}", *containers)
            return [line for line in answer.splitlines() if not line.endswith(" healthy")]

        wait_until(lambda: not sick(), seconds, lambda: f"not healthy: {sick()}\n{self.logs()}")
        return time.monotonic() - began

    def logs(self, *services: str, lines: int = 40) -> str:
        """The last log lines."""
        return self.compose("logs", "--no-color", "--tail", str(lines), *services)

    def assert_quiet(self) -> None:
        """Neither a panic nor a traceback has gone unnoticed."""
        for service in (*SERVICES, *CONNECTORS):
            log = self.compose("logs", "--no-color", service)
            for word in _BAD_WORDS:
                assert word not in log, log[-5000:]

    def _cluster(self, *arguments: str, seconds: float = 60.0) -> str:
        result = subprocess.run(
            [str(COMPOSE / "cluster"), *arguments],
            env=os.environ | self._environment | (self._settings or {}),
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
        assert result.returncode == 0, f"{' '.join(arguments)}: {result.stdout[-2000:]}{result.stderr[-4000:]}"
        return result.stdout


def docker(*arguments: str, seconds: float = 60.0) -> str:
    """Run a command of the engine and return its output."""
    result = subprocess.run(["docker", *arguments], capture_output=True, text=True, timeout=seconds, check=False)
    assert result.returncode == 0, f"docker {' '.join(arguments)}: {result.stderr}"
    return result.stdout


def wait_until(holds: Callable[[], bool], seconds: float, why: Callable[[], str]) -> None:
    """Look until it holds."""
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, why()
        time.sleep(0.2)


def variables(file: str) -> dict[str, str]:
    """A file of settings of `compose/`."""
    lines: Sequence[str] = (COMPOSE / file).read_text(encoding="utf-8").splitlines()
    return dict(line.split("=", 1) for line in lines if line and not line.startswith("#"))
