"""LOG-6: retention deletes expired messages and nothing else; the cleaner runs unless it is switched off."""

from __future__ import annotations

import struct
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Partition, topic_details
from tests.compatibility.protocol.codes import Code, Strategy
from tests.compatibility.protocol.raw import RawConnection, eventually
from tests.conftest import TWO_SHARDS, ended_well
from tests.server_process import ServerProcess

SEGMENT_BYTES = 64 * 1024
BATCH_BYTES = 10 * 1064
SECOND_MICROS = 1_000_000
LIMIT_BYTES = 200_000

SMALL_SEGMENTS = TWO_SHARDS | {"SYSTEM_SEGMENT_SIZE": str(SEGMENT_BYTES)}
EVERY_SECOND = SMALL_SEGMENTS | {"DATA_MAINTENANCE_MESSAGES_INTERVAL": "1 s"}


@pytest.fixture(scope="module")
def cleaned(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server whose cleaner runs every second."""
    server = ServerProcess(tmp_path_factory.mktemp("cleaned") / "data", EVERY_SECOND)
    with server:
        yield server
    ended_well(server)


@pytest.fixture
def connection(cleaned: ServerProcess) -> Iterator[RawConnection]:
    with RawConnection.as_root(cleaned.address) as connection:
        yield connection


def create(connection: RawConnection, stream: str, partitions: int, *, expiry: int = 0, max_size: int = 0) -> None:
    connection.ok(Code.CREATE_STREAM, frames.name(stream))
    connection.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "t", partitions, expiry=expiry, size=max_size))


def fill(connection: RawConnection, stream: str, batches: int, *, partition: int = 0) -> None:
    """Append batches of ten messages, 10,640 bytes each: seven of them fill a segment."""
    for _ in range(batches):
        connection.send(stream, "t", partition, *[bytes(1000)] * 10)


def offset_of_next(connection: RawConnection, stream: str) -> int:
    """Append one message to partition 0 and return its offset, which no expiry can overtake."""
    connection.ok(Code.REPORT_OFFSETS)
    message = frames.send(stream, "t", frames.to_partition(0), [frames.message(b"goes on")])
    _, offset = struct.unpack("<IQ", connection.ok(Code.SEND_MESSAGES, message))
    return int(offset)


def partitions(connection: RawConnection, stream: str) -> list[Partition]:
    path = frames.ident(stream) + frames.ident("t")
    return topic_details(connection.ok(Code.GET_TOPIC, path))[1]


def first_offset(connection: RawConnection, stream: str, partition: int = 0) -> int | None:
    return next(iter(connection.poll(stream, "t", partition, Strategy.FIRST, count=1).offsets), None)


@pytest.mark.long
def test_messages_go_when_their_age_has_come(connection: RawConnection, stream: str) -> None:
    """Messages of sealed and open segments expire, even in a topic without new messages; offsets continue."""
    create(connection, stream, 2, expiry=3 * SECOND_MICROS)
    began = time.monotonic()
    fill(connection, stream, 20)
    connection.send(stream, "t", 1, b"alone")
    assert first_offset(connection, stream) == 0 or time.monotonic() - began > 3
    eventually(
        "everything has gone",
        lambda: [(each.messages_count, each.size_bytes) for each in partitions(connection, stream)] == [(0, 0)] * 2,
    )
    assert time.monotonic() - began > 3
    assert offset_of_next(connection, stream) == 200


@pytest.mark.long
def test_a_topic_does_not_grow_beyond_its_maximum(connection: RawConnection, stream: str) -> None:
    """The size limit applies to all partitions together; each keeps its newest messages, without gaps."""
    create(connection, stream, 3, max_size=LIMIT_BYTES)
    for partition, batches in enumerate((60, 5, 30)):
        fill(connection, stream, batches, partition=partition)

    def size() -> int:
        return sum(each.size_bytes for each in partitions(connection, stream))

    eventually("the topic is within its maximum", lambda: size() <= LIMIT_BYTES)
    # Only the required number of whole segments is deleted.
    assert size() > LIMIT_BYTES - 2 * SEGMENT_BYTES
    for partition, batches in enumerate((60, 5, 30)):
        first = first_offset(connection, stream, partition)
        polled = connection.poll(stream, "t", partition, Strategy.FIRST, count=10_000)
        assert first is not None
        assert polled.offsets == list(range(first, batches * 10))
        # A poll of a deleted offset returns the first message that is kept.
        assert connection.poll(stream, "t", partition, Strategy.OFFSET, 0, count=1).offsets == [first]


@pytest.mark.long
def test_what_was_there_before_the_start_goes_too(tmp_path: Path, stream: str) -> None:
    """After a kill, expiry uses timestamps read from the files. The cleaner can be switched off."""
    off = SMALL_SEGMENTS | {"DATA_MAINTENANCE_MESSAGES_CLEANER_ENABLED": "false"}
    server = ServerProcess(tmp_path / "data", off)
    with server:
        with RawConnection.as_root(server.address) as connection:
            create(connection, stream, 1, expiry=2 * SECOND_MICROS, max_size=LIMIT_BYTES)
            fill(connection, stream, 40)
            sent = time.monotonic()
            eventually("its time has come", lambda: time.monotonic() - sent > 2.5)
            assert first_offset(connection, stream) == 0
        server.kill()
        server.settings = EVERY_SECOND
        server.start()
        with RawConnection.as_root(server.address) as connection:
            eventually("it has gone", lambda: partitions(connection, stream)[0].messages_count == 0)
            assert offset_of_next(connection, stream) == 400
    ended_well(server)


@pytest.mark.long
def test_unread_messages_are_kept_where_that_is_set(tmp_path: Path, stream: str) -> None:
    """The slowest consumer decides, however large the topic gets."""
    server = ServerProcess(tmp_path / "data", EVERY_SECOND | {"DATA_MAINTENANCE_MESSAGES_KEEP_UNREAD": "true"})
    with server, RawConnection.as_root(server.address) as connection:
        create(connection, stream, 1)
        connection.send(stream, "t", 0, *[bytes(1000)] * 10)
        # Before there is a consumer, nothing is unread: the limits come after it.
        connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", 0, 0))
        limits = frames.update_topic(stream, "t", "t", expiry=1 * SECOND_MICROS, size=LIMIT_BYTES)
        connection.ok(Code.UPDATE_TOPIC, limits)
        fill(connection, stream, 40)
        sent = time.monotonic()
        eventually("the cleaner has looked", lambda: time.monotonic() - sent > 3)
        assert first_offset(connection, stream) == 0
        connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", 0, 409))
        eventually("it has gone", lambda: partitions(connection, stream)[0].messages_count == 0)
    ended_well(server)
