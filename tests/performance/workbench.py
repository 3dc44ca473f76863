"""What a case works with: servers, the null listener, clients, a folder."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from headrace.cli.null_listener import null_listener
from headrace_core import Client
from tests.performance.load import STREAM, TOPIC, Target
from tests.performance.official_client import OfficialClient
from tests.performance.options import Scale
from tests.performance.yardsticks import append_to_page_cache
from tests.server_process import PASSWORD, USERNAME, ServerProcess

_EMPTY_BYTES = 1_000_000
_DELETED_WITHIN_SECONDS = 60.0


class FilesRemain(Exception):
    """A deleted stream still has files: what runs next would pay for its removal."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Workbench:
    """Shared by the cases of a run."""

    scale: Scale
    folder: Path
    official: OfficialClient | None
    kafka: bool
    """Whether a broker of Kafka is measured, too."""
    started: Callable[[str], None]
    """Told what begins."""

    @contextmanager
    def server(self, name: str, **settings: str) -> Generator[ServerProcess]:
        """A server with default settings but for those given, for the length of a ``with`` block."""
        with ServerProcess(self.folder / name, settings) as server:
            yield server

    @contextmanager
    def null(self, message_size_bytes: int, messages_per_poll: int) -> Generator[Target]:
        """The listener that reads and discards, in a process of its own."""
        with null_listener(message_size_bytes=message_size_bytes, messages_per_poll=messages_per_poll) as (
            address,
            pid,
        ):
            yield Target(address, pid)

    def recycle(self, amount_bytes: int) -> None:
        """Prepare memory for somebody who is about to write so many bytes: write more than that, and delete it.

        A virtual machine gives free pages back to its host within seconds, and the first touch of such a page costs
        up to ten times what the write itself does, whoever writes: without this, the figures say how long ago the
        last candidate deleted its files. Twice the amount, because the host goes on taking while it is written.
        """
        append_to_page_cache(self.folder, 2 * amount_bytes)


def target_of(server: ServerProcess) -> Target:
    """Where the loads go."""
    return Target(server.address, server.process.pid)


def connect(server: ServerProcess, address: str | None = None) -> Client:
    """A connection of root's; `address` is as the client takes it, that of the binary protocol if not given."""
    client = Client.connect(address or server.address)
    client.login(USERNAME, PASSWORD)
    return client


@contextmanager
def topic(server: ServerProcess, partitions: int, address: str | None = None) -> Generator[Target]:
    """The topic of the loads for the length of a ``with`` block; afterwards its files are gone."""
    where = address or server.address
    with topic_of(where, server.data, partitions):
        yield Target(where, server.process.pid)


@contextmanager
def topic_of(address: str, data: Path, partitions: int) -> Generator[None]:
    """The same, by the address of who makes topics and the folder of who holds them."""
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


def stored_bytes(data: Path) -> int:
    """What the streams in a data folder take on its device."""
    total = 0
    # A walk passes over what goes while it looks; so must the question for the size.
    for folder, _, names in os.walk(data / "streams"):
        for name in names:
            with suppress(FileNotFoundError):
                total += Path(folder, name).stat().st_blocks * 512
    return total
