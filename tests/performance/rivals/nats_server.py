"""A NATS server with JetStream on this machine."""

from __future__ import annotations

import socket
import subprocess
import time
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

from tests.performance.rivals.programs import NatsUnavailable
from tests.ports import free_port

_STARTS_WITHIN_SECONDS = 30.0


@contextmanager
def nats(directory: Path, program: Path) -> Generator[str]:
    """Run a server with its defaults during a ``with`` block; the value is its address.

    Args:
        directory: Directory of the server, which does not exist yet.
        program: The server's program.

    Raises:
        NatsUnavailable: The server does not start.
    """
    directory.mkdir()
    port, log = free_port(), directory / "server.log"
    command = [program, "-a", "127.0.0.1", "-p", str(port), "-js", "-sd", directory / "data"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
    try:
        deadline = time.monotonic() + _STARTS_WITHIN_SECONDS
        while not _listens(port):
            if process.poll() is not None or time.monotonic() > deadline:
                raise NatsUnavailable(f"the server does not start: {log.read_text(errors='replace')[-2000:]}")
            time.sleep(0.05)
        yield f"127.0.0.1:{port}"
    finally:
        process.terminate()
        process.wait()


def _listens(port: int) -> bool:
    try:
        socket.create_connection(("127.0.0.1", port), 1.0).close()
    except OSError:
        return False
    return True
