"""Resources of a case: servers, the null listener, clients, a directory."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.cli.null_listener import null_listener
from headrace_core import Client
from tests.performance.loads.load import STREAM, TOPIC, Target
from tests.performance.loads.official_client import OfficialClient
from tests.performance.machine_limits import append_to_page_cache
from tests.performance.options import Scale
from tests.server_process import PASSWORD, USERNAME, ServerProcess

_EMPTY_BYTES = 1_000_000
_DELETED_WITHIN_SECONDS = 60.0


class FilesRemain(Exception):
    """Files of a deleted stream remain; their removal would slow down the next measurement."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """Resources shared by the cases of a run."""

    scale: Scale
    directory: Path
    official: OfficialClient | None
    kafka: bool
    """True to measure a Kafka broker, too."""
    connectors: tuple[str, ...]
    """Texts in the names of measurements of connectors; empty: all of them."""
    started: Callable[[str], None]
    """Called with a description of each step."""

    @contextmanager
    def server(self, name: str, **settings: str) -> Generator[ServerProcess]:
        """Run a server with default settings, except for those given, during a ``with`` block."""
        with ServerProcess(self.directory / name, settings) as server:
            yield server

    @contextmanager
    def null(self, message_size_bytes: int, messages_per_poll: int) -> Generator[Target]:
        """Run the listener that reads and discards, in a process of its own."""
        with null_listener(message_size_bytes=message_size_bytes, messages_per_poll=messages_per_poll) as (
            address,
            pid,
        ):
            yield Target(address, pid)

    def recycle(self, amount_bytes: int) -> None:
        """Prepare memory for the next candidate, which will write `amount_bytes`: write twice as much and delete it.

        A virtual machine returns free pages to its host within seconds, and the first touch of such a page costs up to
        ten times the write itself. Without this preparation the numbers depend on how recently the previous candidate
        deleted its files. The amount is doubled because the host keeps reclaiming pages during the write.
        """
        append_to_page_cache(self.directory, 2 * amount_bytes)


def target_of(server: ServerProcess) -> Target:
    """Return the server as the target of a load."""
    return Target(server.address, server.process.pid)


def connect(server: ServerProcess, address: str | None = None) -> Client:
    """Connect as root; `address` has the client's format and defaults to the binary protocol's."""
    client = Client.connect(address or server.address)
    client.login(USERNAME, PASSWORD)
    return client


@contextmanager
def topic(server: ServerProcess, partitions: int, address: str | None = None) -> Generator[Target]:
    """Create the topic of the loads for the duration of a ``with`` block; its files are deleted afterwards."""
    where = address or server.address
    with topic_of(where, server.data, partitions):
        yield Target(where, server.process.pid)


@contextmanager
def topic_of(address: str, data: Path, partitions: int) -> Generator[None]:
    """Do the same, given the address of the service that creates topics and the data directory of the server that
    stores them.
    """
    client = Client.connect(address)
    client.login(USERNAME, PASSWORD)
    client.create_stream(STREAM)
    client.create_topic(STREAM, TOPIC, partitions)
    client.close()
    yield
    client = Client.connect(address)
    client.login(USERNAME, PASSWORD)
    client.delete_stream(STREAM)
    client.close()
    deadline = time.monotonic() + _DELETED_WITHIN_SECONDS
    while stored_bytes(data) > _EMPTY_BYTES:
        if time.monotonic() > deadline:
            raise FilesRemain(f"{stored_bytes(data)} bytes in {data}")
        time.sleep(0.05)


def create_topic(server: ServerProcess, partitions: int, address: str | None = None) -> None:
    """Create the stream and topic of the loads."""
    client = connect(server, address)
    client.create_stream(STREAM)
    client.create_topic(STREAM, TOPIC, partitions)
    client.close()


def stop_and_evict(server: ServerProcess) -> None:
    """Stop the server and evict its files from the page cache, as after a reboot."""
    server.stop()
    for path in server.data.rglob("*"):
        if path.is_file():
            descriptor = os.open(path, os.O_RDONLY)
            try:
                # The kernel evicts only clean pages.
                os.fsync(descriptor)
                os.posix_fadvise(descriptor, 0, 0, os.POSIX_FADV_DONTNEED)
            finally:
                os.close(descriptor)


def stored_bytes(data: Path) -> int:
    """Return the disk usage of the streams in a data directory."""
    total = 0
    # `os.walk` skips files deleted during the walk; the size lookup must do so as well.
    for directory, _, names in os.walk(data / "streams"):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(directory, name).stat().st_blocks * 512
    return total
