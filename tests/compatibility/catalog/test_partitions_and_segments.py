"""Partitioning of every kind, creation and deletion of partitions, roll and deletion of segments."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from pathlib import Path
from typing import get_args

import pytest
import xxhash

from headrace_node.config import Durability
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Partition, stream_details, topic_details
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import TWO_SHARDS
from tests.server_process import ServerProcess

SEGMENT_BYTES = 64 * 1024


def path(stream: int | str, topic: int | str) -> bytes:
    return frames.ident(stream) + frames.ident(topic)


def partitions(connection: RawConnection, stream: int | str, topic: int | str = "t") -> list[Partition]:
    return topic_details(connection.ok(Code.GET_TOPIC, path(stream, topic)))[1]


# ---- partitioning


def test_balanced_goes_round(root: RawConnection, stream: str) -> None:
    """Balanced partitioning starts at partition 0 and assigns each batch to the next; connections share the counter."""
    root.create_topic(stream, partitions=3)
    for number in range(7):
        root.send(stream, "t", frames.BALANCED, b"a%d" % number, b"b%d" % number)
    for partition in range(3):
        expected = [b"%b%d" % (letter, number) for number in range(partition, 7, 3) for letter in (b"a", b"b")]
        assert root.poll(stream, "t", partition, Strategy.FIRST).payloads == expected


def test_balanced_over_a_changing_number_of_partitions(root: RawConnection, stream: str) -> None:
    """Every existing partition gets its share, and deleted partitions get nothing."""
    root.create_topic(stream, partitions=2)
    for change in (Code.CREATE_PARTITIONS, Code.DELETE_PARTITIONS):
        root.ok(change, path(stream, "t") + frames.u32(1))
        before = [partition.messages_count for partition in partitions(root, stream)]
        for _ in range(2 * len(before)):
            root.send(stream, "t", frames.BALANCED, b"m")
        after = [partition.messages_count for partition in partitions(root, stream)]
        assert [new - old for old, new in zip(before, after, strict=True)] == [2] * len(before)


def test_a_key_chooses_by_its_hash(root: RawConnection, stream: str) -> None:
    """The partition is the XXH32 of the key modulo the number of partitions at the time of the request."""
    root.create_topic(stream, partitions=3)
    assert xxhash.xxh32_intdigest(b"user-123") == 0x0CC9EC8C
    keys = [b"user-123", b"\0", b"k" * 255, (7).to_bytes(4, "little"), (2**128 - 1).to_bytes(16, "little")]
    keys += [b"key %d" % number for number in range(50)]
    for key in keys:
        root.send(stream, "t", frames.by_key(key), key)
    for partition in range(3):
        expected = [key for key in keys if xxhash.xxh32_intdigest(key) % 3 == partition]
        assert root.poll(stream, "t", partition, Strategy.FIRST).payloads == expected
    root.ok(Code.CREATE_PARTITIONS, path(stream, "t") + frames.u32(2))
    root.send(stream, "t", frames.by_key(b"user-123"), b"later")
    assert root.poll(stream, "t", 0x0CC9EC8C % 5, Strategy.LAST, count=1).payloads == [b"later"]


# ---- partitions


def test_partitions_come_and_go_at_the_top(root: RawConnection, stream: str) -> None:
    """New partitions are appended; deletion removes the highest ones, with their messages and offsets."""
    root.create_topic(stream, partitions=1)
    root.ok(Code.CREATE_PARTITIONS, path(stream, "t") + frames.u32(3))
    assert [partition.id for partition in partitions(root, stream)] == [0, 1, 2, 3]
    for partition in range(4):
        root.send(stream, "t", partition, b"m")
        root.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", partition, 0))
    root.ok(Code.DELETE_PARTITIONS, path(stream, "t") + frames.u32(2))
    assert [partition.messages_count for partition in partitions(root, stream)] == [1, 1]
    send = frames.send(stream, "t", frames.to_partition(2), [frames.message(b"m")])
    assert root.status(Code.SEND_MESSAGES, send) == Status.PARTITION_NOT_FOUND
    root.ok(Code.CREATE_PARTITIONS, path(stream, "t") + frames.u32(1))
    assert root.poll(stream, "t", 2, Strategy.FIRST).messages == ()
    assert root.stored_offset(stream, "t", 2) is None
    assert root.stored_offset(stream, "t", 1) == 0
    root.ok(Code.DELETE_PARTITIONS, path(stream, "t") + frames.u32(3))
    assert partitions(root, stream) == []


def test_refused_counts_of_partitions(root: RawConnection, stream: str) -> None:
    """The documented statuses; the count is checked before stream and topic."""
    root.create_topic(stream, partitions=2)
    for code, place, count, status in (
        (Code.CREATE_PARTITIONS, path(stream, "t"), 0, Status.TOO_MANY_PARTITIONS),
        (Code.CREATE_PARTITIONS, path(stream, "t"), 1001, Status.TOO_MANY_PARTITIONS),
        (Code.CREATE_PARTITIONS, path("nowhere", "t"), 1001, Status.TOO_MANY_PARTITIONS),
        (Code.CREATE_PARTITIONS, path("nowhere", "t"), 1, Status.STREAM_NOT_FOUND),
        (Code.CREATE_PARTITIONS, path(stream, "nothing"), 1, Status.TOPIC_NOT_FOUND),
        (Code.DELETE_PARTITIONS, path(stream, "t"), 0, Status.TOO_MANY_PARTITIONS),
        (Code.DELETE_PARTITIONS, path(stream, "t"), 3, Status.INVALID_PARTITIONS_COUNT),
        (Code.DELETE_PARTITIONS, path("nowhere", "t"), 1, Status.STREAM_NOT_FOUND),
        (Code.DELETE_PARTITIONS, path(stream, "nothing"), 1, Status.TOPIC_NOT_FOUND),
    ):
        assert root.status(code, place + frames.u32(count)) == status, (code, count)
    assert len(partitions(root, stream)) == 2


# ---- segments


@pytest.fixture(scope="module")
def small_segments(tmp_path_factory: pytest.TempPathFactory) -> Iterator[ServerProcess]:
    """A server that seals a segment at 64 KiB."""
    settings = TWO_SHARDS | {"SYSTEM_SEGMENT_SIZE": str(SEGMENT_BYTES)}
    with ServerProcess(tmp_path_factory.mktemp("segments") / "data", settings) as server:
        yield server


@pytest.fixture
def connection(small_segments: ServerProcess) -> Iterator[RawConnection]:
    with RawConnection.as_root(small_segments.address) as connection:
        yield connection


def directory(server: ServerProcess, connection: RawConnection, stream: str) -> Path:
    details, _ = stream_details(connection.ok(Code.GET_STREAM, frames.ident(stream)))
    return server.partition_directory(details.id)


def logs(at: Path) -> list[tuple[int, int]]:
    """Return start offset and size of every segment."""
    return sorted((int(file.stem), file.stat().st_size) for file in at.glob("*.log"))


def fill(connection: RawConnection, stream: str, batches: int, *, partition: int = 0) -> None:
    """Append batches of ten messages, 10,640 bytes each: seven of them fill a segment."""
    for _ in range(batches):
        connection.send(stream, "t", partition, *[bytes(1000)] * 10)


BATCH_BYTES = 10 * 1064
BATCHES_PER_SEGMENT = -(-SEGMENT_BYTES // BATCH_BYTES)


def test_segments_roll(small_segments: ServerProcess, connection: RawConnection, stream: str) -> None:
    """LOG-2: the append that finds a segment full seals it; a batch is never split; segments are named by their first
    offset.
    """
    connection.create_topic(stream)
    fill(connection, stream, 3 * BATCHES_PER_SEGMENT + 1)
    at = directory(small_segments, connection, stream)
    messages = 10 * BATCHES_PER_SEGMENT
    sealed = BATCHES_PER_SEGMENT * BATCH_BYTES
    assert sealed >= SEGMENT_BYTES > sealed - BATCH_BYTES
    assert logs(at) == [(0, sealed), (messages, sealed), (2 * messages, sealed), (3 * messages, BATCH_BYTES)]
    assert all(len(file.stem) == 20 for file in at.glob("*.log"))
    (partition,) = partitions(connection, stream)
    assert (partition.segments_count, partition.messages_count) == (4, 3 * messages + 10)
    # The format on disk equals the wire format (LOG-3).
    first = (at / f"{0:020}.log").read_bytes()
    poll = frames.poll(stream, "t", 0, Strategy.FIRST, count=messages)
    assert connection.ok(Code.POLL_MESSAGES, poll)[16:] == first


def test_deleting_segments(small_segments: ServerProcess, connection: RawConnection, stream: str) -> None:
    """Deletion removes the oldest sealed segments, never the open one; offsets are kept and the start offset grows."""
    connection.create_topic(stream)
    fill(connection, stream, 3 * BATCHES_PER_SEGMENT + 1)
    at = directory(small_segments, connection, stream)
    total, per_segment = 10 * (3 * BATCHES_PER_SEGMENT + 1), 10 * BATCHES_PER_SEGMENT
    delete = path(stream, "t") + frames.u32(0)
    for removed, asked in enumerate((1, 1, 99), 1):
        assert connection.ok(Code.DELETE_SEGMENTS, delete + frames.u32(asked)) == b""
        start = removed * per_segment
        assert logs(at)[0][0] == start
        assert connection.poll(stream, "t", 0, Strategy.FIRST, count=1).offsets == [start]
        assert connection.poll(stream, "t", 0, Strategy.OFFSET, 0, count=1).offsets == [start]
        assert connection.poll(stream, "t", 0, Strategy.NEXT, count=1).offsets == [start]
        assert connection.poll(stream, "t", 0, Strategy.TIMESTAMP, 0, count=1).offsets == [start]
        assert connection.poll(stream, "t", 0, Strategy.LAST, count=10_000).offsets[0] == start
        (partition,) = partitions(connection, stream)
        assert (partition.current_offset, partition.messages_count) == (total - 1, total - start)
        assert partition.size_bytes == sum(size for _, size in logs(at))
    assert len(logs(at)) == 1
    connection.ok(Code.DELETE_SEGMENTS, delete + frames.u32(1))
    assert len(logs(at)) == 1
    connection.send(stream, "t", 0, b"goes on")
    assert connection.poll(stream, "t", 0, Strategy.LAST, count=1).offsets == [total]


def test_deleting_segments_waits_for_consumers(
    small_segments: ServerProcess, connection: RawConnection, stream: str
) -> None:
    """A segment stays while a stored offset is below its last message."""
    connection.create_topic(stream)
    fill(connection, stream, 3 * BATCHES_PER_SEGMENT + 1)
    at = directory(small_segments, connection, stream)
    per_segment = 10 * BATCHES_PER_SEGMENT
    delete = path(stream, "t") + frames.u32(0) + frames.u32(9)
    for offset, kept in ((per_segment - 2, 4), (per_segment - 1, 3), (3 * per_segment - 1, 1)):
        connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", 0, offset))
        connection.ok(Code.DELETE_SEGMENTS, delete)
        assert len(logs(at)) == kept


def test_refused_deletions_of_segments(connection: RawConnection, stream: str) -> None:
    """The documented statuses."""
    connection.create_topic(stream)
    for place, partition, status in (
        (path("nowhere", "t"), 0, Status.STREAM_NOT_FOUND),
        (path(stream, "nothing"), 0, Status.TOPIC_NOT_FOUND),
        (path(stream, "t"), 1, Status.PARTITION_NOT_FOUND),
    ):
        payload = place + frames.u32(partition) + frames.u32(1)
        assert connection.status(Code.DELETE_SEGMENTS, payload) == status
    assert connection.ok(Code.DELETE_SEGMENTS, path(stream, "t") + frames.u32(0) + frames.u32(0)) == b""


def test_it_is_all_there_after_a_restart(small_segments: ServerProcess, stream: str) -> None:
    """Rolled, partly deleted and purged partitions have the same messages at the same offsets after a restart."""
    with RawConnection.as_root(small_segments.address) as before:
        before.create_topic(stream, partitions=3)
        for partition in range(3):
            fill(before, stream, 2 * BATCHES_PER_SEGMENT + 2, partition=partition)
        before.ok(Code.DELETE_SEGMENTS, path(stream, "t") + frames.u32(1) + frames.u32(1))
        before.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "purged"))
        before.send(stream, "purged", 0, b"m")
        before.ok(Code.PURGE_TOPIC, path(stream, "purged"))
        expected = [before.poll(stream, "t", partition, Strategy.FIRST, count=1000) for partition in range(3)]
        listed = partitions(before, stream)
    small_segments.restart()
    with RawConnection.as_root(small_segments.address) as after:
        found = [after.poll(stream, "t", partition, Strategy.FIRST, count=1000) for partition in range(3)]
        assert found == expected
        assert partitions(after, stream) == listed
        assert after.poll(stream, "purged", 0, Strategy.FIRST).messages == ()
        after.send(stream, "purged", 0, b"first")
        assert after.poll(stream, "purged", 0, Strategy.FIRST).offsets == [0]


@pytest.mark.parametrize("fsync", [0, 1])
def test_flush(small_segments: ServerProcess, connection: RawConnection, stream: str, fsync: int) -> None:
    """A flush writes all sent messages to the file; it succeeds also without unwritten messages."""
    connection.create_topic(stream)
    flush = path(stream, "t") + frames.u32(0) + frames.u8(fsync)
    assert connection.ok(Code.FLUSH_UNSAVED_BUFFER, flush) == b""
    connection.send(stream, "t", 0, b"m")
    assert connection.ok(Code.FLUSH_UNSAVED_BUFFER, flush) == b""
    assert logs(directory(small_segments, connection, stream)) == [(0, 65)]
    for place, status in (
        (path("nowhere", "t") + frames.u32(0), Status.STREAM_NOT_FOUND),
        (path(stream, "nothing") + frames.u32(0), Status.TOPIC_NOT_FOUND),
        (path(stream, "t") + frames.u32(1), Status.PARTITION_NOT_FOUND),
    ):
        assert connection.status(Code.FLUSH_UNSAVED_BUFFER, place + b"\x00") == status


@pytest.mark.long(but=1)
@pytest.mark.parametrize("durability", get_args(Durability))
def test_every_durability(tmp_path: Path, durability: str) -> None:
    """Acknowledged messages are readable at once and kept after a stop; with `os` and `fsync` also after a kill."""
    settings = TWO_SHARDS | {"DURABILITY": durability, "SYSTEM_SEGMENT_SIZE": str(SEGMENT_BYTES)}
    with ServerProcess(tmp_path / "data", settings) as server:
        for kill in (False,) if durability == "memory" else (True, False, True):
            with RawConnection.as_root(server.address) as connection:
                if not connection.ok(Code.GET_STREAM, frames.ident("s")):
                    connection.create_topic("s")
                before = connection.poll("s", "t", 0, Strategy.LAST, count=1).offsets or [-1]
                for number in itertools.islice(itertools.count(before[0] + 1), 100):
                    connection.send("s", "t", 0, b"%d" % number * 500)
                    assert connection.poll("s", "t", 0, Strategy.LAST, count=1).offsets == [number]
            server.restart(kill=kill)
            with RawConnection.as_root(server.address) as connection:
                assert connection.poll("s", "t", 0, Strategy.LAST, count=1).offsets == [number]
