"""A Kafka broker on this machine, which is its own controller."""

from __future__ import annotations

import base64
import socket
import subprocess
import time
import uuid
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.ports import free_port

_STARTS_WITHIN_SECONDS = 60.0


class KafkaUnavailable(Exception):
    """The artifacts could not be downloaded, or the broker does not start."""


@dataclass(frozen=True, slots=True)
class Broker:
    """A running broker."""

    address: str
    pid: int
    data: Path


@contextmanager
def broker(directory: Path, class_path: str) -> Generator[Broker]:
    """Run a broker during a ``with`` block.

    Args:
        directory: Directory of the broker, which does not exist yet.
        class_path: Artifacts of the broker and of its dependencies.

    Raises:
        KafkaUnavailable: The broker does not start.
    """
    directory.mkdir()
    port, controller = free_port(), free_port()
    settings = directory / "server.properties"
    settings.write_text(
        "\n".join(
            f"{name}={value}"
            for name, value in {
                "process.roles": "broker,controller",
                "node.id": 1,
                "controller.quorum.voters": f"1@127.0.0.1:{controller}",
                "listeners": f"PLAINTEXT://127.0.0.1:{port},CONTROLLER://127.0.0.1:{controller}",
                "advertised.listeners": f"PLAINTEXT://127.0.0.1:{port}",
                "controller.listener.names": "CONTROLLER",
                "log.dirs": directory / "data",
                "offsets.topic.replication.factor": 1,
                "transaction.state.log.replication.factor": 1,
                "transaction.state.log.min.isr": 1,
                "num.partitions": 2,
                "log.segment.bytes": 1 << 30,
                # Files of a deleted topic are in the way of the next measurement.
                "log.segment.delete.delay.ms": 100,
            }.items()
        ),
        encoding="utf-8",
    )
    java = ["java", "-Xmx1g", "-cp", class_path]
    with (directory / "broker.log").open("wb") as log:
        format_command = [*java, "kafka.tools.StorageTool", "format", "-t", _cluster_id(), "-c", str(settings)]
        if subprocess.run(format_command, check=False, stdout=log, stderr=subprocess.STDOUT).returncode:
            raise KafkaUnavailable(f"the broker cannot format its directory: {_end(directory / 'broker.log')}")
        process = subprocess.Popen([*java, "kafka.Kafka", str(settings)], stdout=log, stderr=subprocess.STDOUT)
    try:
        _wait_for(port, process, directory / "broker.log")
        yield Broker(f"127.0.0.1:{port}", process.pid, directory / "data")
    finally:
        process.terminate()
        process.wait()


def _cluster_id() -> str:
    return base64.urlsafe_b64encode(uuid.uuid4().bytes).rstrip(b"=").decode()


def _wait_for(port: int, process: subprocess.Popen[bytes], log: Path) -> None:
    deadline = time.monotonic() + _STARTS_WITHIN_SECONDS
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1.0).close()
        except OSError:
            if process.poll() is not None or time.monotonic() > deadline:
                raise KafkaUnavailable(f"the broker does not start: {_end(log)}") from None
            time.sleep(0.1)
        else:
            return


def _end(log: Path) -> str:
    return log.read_text(errors="replace")[-2000:]
