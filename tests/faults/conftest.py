"""A data directory with many partitions of several segments; each test damages partitions in different ways."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import TWO_SHARDS
from tests.faults import segment_files
from tests.server_process import ServerProcess

SETTINGS = TWO_SHARDS | {
    "SYSTEM_SEGMENT_SIZE": "32 KiB",
    "SYSTEM_PARTITION_TAIL_CACHE_SIZE": "8 KiB",
    "MESSAGE_SAVER_SYNC_INTERVAL": "10 ms",
}
VICTIMS_COUNT = 48
NEIGHBOUR = VICTIMS_COUNT
"""Partition that no test damages."""
MESSAGES_COUNT = 140
"""Number of messages in each partition, in batches of ten: three sealed segments of 40 and an open one of 20."""
CONSUMER_OFFSET = 57

Answer = bytes | Status


def payload(partition: int, number: int) -> bytes:
    """Return a payload of 900 bytes, different for every message."""
    return (b"%d-%d " % (partition, number)).ljust(900, b"x")


@dataclass(frozen=True, slots=True)
class Victim:
    """A partition whose files a test may damage."""

    number: int
    directory: Path

    @property
    def sealed(self) -> Path:
        """Return the log of a sealed segment in the middle."""
        return segment_files.logs(self.directory)[1]

    @property
    def open_segment(self) -> Path:
        """Return the log of the open segment."""
        return segment_files.logs(self.directory)[-1]

    def expected(self, count: int = MESSAGES_COUNT) -> list[Answer]:
        """Return the expected result of `read_each` without damage."""
        return [payload(self.number, number) for number in range(count)]

    def read_each(self, connection: RawConnection, count: int = MESSAGES_COUNT) -> list[Answer]:
        """Poll each message separately; return its payload or the status of the failed poll."""
        answers: list[Answer] = []
        polls = [self.poll_request(Strategy.OFFSET, offset, 1) for offset in range(count)]
        for offset, reply in enumerate(connection.requests(Code.POLL_MESSAGES, polls)):
            if reply.status == Status.OK:
                found = int.from_bytes(reply.payload[16 + 24 : 16 + 32], "little")
                assert found == offset, f"asked for {offset}, got {found}"
                answers.append(reply.payload[16 + segment_files.HEADER_BYTES :])
            else:
                answers.append(Status(reply.status))
        return answers

    def poll_request(
        self, strategy: Strategy, value: int = 0, count: int = 1000, *, auto_commit: bool = False
    ) -> bytes:
        """Encode a poll request."""
        return frames.poll("s", "t", self.number, strategy, value, count, auto_commit=auto_commit)

    def assert_complete(self, connection: RawConnection, count: int = MESSAGES_COUNT) -> None:
        """Check that the first `count` messages are stored and that a new message is appended after them."""
        assert connection.poll("s", "t", self.number, Strategy.FIRST, count=1000).payloads == self.expected(count)
        connection.send("s", "t", self.number, payload(self.number, count))
        (last,) = connection.poll("s", "t", self.number, Strategy.LAST, count=1).messages
        assert (last.offset, last.payload) == (count, payload(self.number, count))


@dataclass(frozen=True, slots=True)
class Prepared:
    """A data directory with known messages in every partition of topic 0 of stream 0, and no running server."""

    server: ServerProcess
    was_killed: bool

    def victim(self, number: int) -> Victim:
        """Return a partition to damage."""
        return Victim(number, self.server.partition_directory(partition=number))

    def victims(self, count: int) -> list[Victim]:
        """Return the first `count` partitions to damage."""
        assert count <= VICTIMS_COUNT
        return [self.victim(number) for number in range(count)]

    def start(self) -> RawConnection:
        """Start the server on the directory in its current state."""
        self.server.start()
        return RawConnection.as_root(self.server.address)

    def restart(self, *, kill: bool = False) -> RawConnection:
        """Stop or kill the server and start it again."""
        self.server.restart(kill=kill)
        return RawConnection.as_root(self.server.address)

    def assert_the_rest_works(self, connection: RawConnection) -> None:
        """Check the undamaged neighbour, the catalog, and new objects."""
        self.victim(NEIGHBOUR).assert_complete(connection)
        assert connection.stored_offset("s", "t", NEIGHBOUR) == CONSUMER_OFFSET
        connection.ok(Code.GET_STATS)
        connection.ok(Code.GET_TOPIC, frames.ident("s") + frames.ident("t"))
        connection.create_topic("new", partitions=4)
        for partition in range(4):
            connection.send("new", "t", partition, b"m")
            assert connection.poll("new", "t", partition, Strategy.FIRST).payloads == [b"m"]

    def log_lines(self, *words: str) -> list[str]:
        """Return the lines of the server's log that contain all of these words."""
        lines = self.server.log.read_text(encoding="utf-8").splitlines()
        return [line for line in lines if all(word in line for word in words)]


def _fill(server: ServerProcess) -> None:
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s", partitions=VICTIMS_COUNT + 1)
        for partition in range(VICTIMS_COUNT + 1):
            for start in range(0, MESSAGES_COUNT, 10):
                batch = [payload(partition, number) for number in range(start, start + 10)]
                connection.send("s", "t", partition, *batch)
            store = frames.consumer_offset("s", "t", partition, CONSUMER_OFFSET)
            connection.ok(Code.STORE_CONSUMER_OFFSET, store)
        eventually("all of it is on the device", lambda: recorded_ends(server) == {MESSAGES_COUNT}, timeout_seconds=120)


def recorded_ends(server: ServerProcess) -> set[int]:
    """Return the ends of the partitions that their manifests state to be on the device."""
    manifests = (server.data / "streams").rglob("partition.json")
    return {(json.loads(manifest.read_bytes())["synced"] or [0, 0])[1] for manifest in manifests}


@pytest.fixture(scope="session", params=[pytest.param("stopped", marks=pytest.mark.long), "killed"])
def template(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, bool]:
    """Return the directory as left by a server that was stopped or killed."""
    was_killed = request.param == "killed"
    server = ServerProcess(tmp_path_factory.mktemp(request.param) / "data", SETTINGS).start()
    _fill(server)
    if was_killed:
        server.kill()
    else:
        server.stop()
    return server.data, was_killed


@pytest.fixture
def prepared(template: tuple[Path, bool], tmp_path: Path) -> Iterator[Prepared]:
    """Copy the directory for one test."""
    original, was_killed = template
    shutil.copytree(original, tmp_path / "data")
    server = ServerProcess(tmp_path / "data", SETTINGS)
    yield Prepared(server, was_killed)
    if server.is_running:
        assert server.stop() == 0
    if server.log.exists():
        assert "panicked at" not in server.log.read_text(encoding="utf-8")
