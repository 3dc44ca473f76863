"""Streams and topics: create, query, change, purge, delete; ids, names and refusals (LOG-1, CTL-2)."""

from __future__ import annotations

import time
import urllib.request

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import (
    Partition,
    Reader,
    Stream,
    Topic,
    stream_details,
    topic_details,
)
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.frames import NEVER, UNLIMITED
from tests.compatibility.protocol.raw import RawConnection, Reply, eventually
from tests.server_process import ServerProcess

SEGMENT_BYTES = 1 << 30
MIB = 1 << 20


def streams(connection: RawConnection) -> list[Stream]:
    reader = Reader(connection.ok(Code.GET_STREAMS))
    found = []
    while not reader.is_at_end:
        found.append(Stream.read(reader))
    return found


def topics(connection: RawConnection, stream: int | str) -> list[Topic]:
    reader = Reader(connection.ok(Code.GET_TOPICS, frames.ident(stream)))
    found = []
    while not reader.is_at_end:
        found.append(Topic.read(reader))
    return found


def path(stream: int | str, topic: int | str) -> bytes:
    return frames.ident(stream) + frames.ident(topic)


def test_the_first_ids_are_zero(server: ServerProcess) -> None:
    """Ids on a new server are 0, 1, 2 in the order of creation, for streams, topics and partitions."""
    with RawConnection.as_root(server.address) as connection:
        assert streams(connection) == []
        for number in range(3):
            stream, below = stream_details(connection.ok(Code.CREATE_STREAM, frames.name(f"s{number}")))
            assert (stream.id, below) == (number, [])
            topic, partitions = topic_details(connection.ok(Code.CREATE_TOPIC, frames.create_topic(0, f"t{number}", 2)))
            assert topic.id == number
            assert [partition.id for partition in partitions] == [0, 1]
        # A free number may be reused, but is never assigned twice at the same time.
        connection.ok(Code.DELETE_STREAM, frames.ident(1))
        stream, _ = stream_details(connection.ok(Code.CREATE_STREAM, frames.name("again")))
        assert stream.id not in (0, 2)


def test_a_stream_from_creation_to_deletion(root: RawConnection, stream: str) -> None:
    """Responses of each command, and results of later queries."""
    before = time.time_ns() // 1000
    answer = root.ok(Code.CREATE_STREAM, frames.name(stream))
    created = Stream.read(Reader(answer))
    assert len(answer) == 33 + len(stream)
    assert (created.topics_count, created.size_bytes, created.messages_count, created.name) == (0, 0, 0, stream)
    assert before <= created.created_at <= time.time_ns() // 1000
    assert root.ok(Code.GET_STREAM, frames.ident(stream)) == answer
    assert root.ok(Code.GET_STREAM, frames.ident(created.id)) == answer
    assert created in streams(root)
    assert root.status(Code.CREATE_STREAM, frames.name(stream)) == Status.STREAM_NAME_ALREADY_EXISTS

    renamed = stream + "!"
    assert root.ok(Code.UPDATE_STREAM, frames.ident(stream) + frames.name(renamed)) == b""
    assert root.ok(Code.GET_STREAM, frames.ident(stream)) == b""
    assert Stream.read(Reader(root.ok(Code.GET_STREAM, frames.ident(renamed)))).id == created.id
    root.ok(Code.UPDATE_STREAM, frames.ident(renamed) + frames.name(renamed))

    assert root.ok(Code.DELETE_STREAM, frames.ident(created.id)) == b""
    assert root.ok(Code.GET_STREAM, frames.ident(renamed)) == b""
    assert root.status(Code.DELETE_STREAM, frames.ident(renamed)) == Status.STREAM_NOT_FOUND


def test_listings_are_in_ascending_order(root: RawConnection, stream: str) -> None:
    """Listings are sorted by id and contain no count."""
    for number in range(5):
        root.ok(Code.CREATE_STREAM, frames.name(f"{stream} {number}"))
    ids = [found.id for found in streams(root)]
    assert ids == sorted(set(ids))
    for number in range(5):
        root.ok(Code.CREATE_TOPIC, frames.create_topic(f"{stream} 0", f"topic {number}"))
    root.ok(Code.DELETE_TOPIC, path(f"{stream} 0", "topic 2"))
    root.ok(Code.CREATE_TOPIC, frames.create_topic(f"{stream} 0", "topic 5"))
    found_topics = topics(root, f"{stream} 0")
    assert [topic.id for topic in found_topics] == sorted({topic.id for topic in found_topics})
    details, below = stream_details(root.ok(Code.GET_STREAM, frames.ident(f"{stream} 0")))
    assert (details.topics_count, below) == (5, found_topics)


@pytest.mark.parametrize("name", ["x", "ÿ" * 127, "7", " blank ", "a/b\\c", "n" * 255, "日本語"])
def test_names(root: RawConnection, name: str) -> None:
    """Names have 1 to 255 bytes of UTF-8 without control characters, compared by bytes; digits are a valid name."""
    created = Stream.read(Reader(root.ok(Code.CREATE_STREAM, frames.name(name))))
    root.ok(Code.CREATE_TOPIC, frames.create_topic(name, name))
    root.send(name, name, 0, b"m")
    assert root.poll(created.id, name, 0, Strategy.FIRST).payloads == [b"m"]
    assert Stream.read(Reader(root.ok(Code.GET_STREAM, frames.ident(name)))).name == name
    assert root.ok(Code.GET_STREAM, frames.ident(name[1:] + "?")) == b""


def test_a_topic_from_creation_to_deletion(root: RawConnection, stream: str) -> None:
    """Responses of each command, and results of later queries."""
    root.ok(Code.CREATE_STREAM, frames.name(stream))
    answer = root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "t", 3))
    created, partitions = topic_details(answer)
    assert len(answer) == 51 + 1 + 3 * 40
    assert (created.partitions_count, created.compression, created.replication, created.name) == (3, 1, 1, "t")
    assert (created.expiry, created.max_size) == (NEVER, UNLIMITED), "defaults are resolved"
    assert (created.size_bytes, created.messages_count) == (0, 0)
    # The response precedes the opening of partitions; later queries show the one segment that always exists.
    assert partitions == [Partition(number, created.created_at, 0, 0, 0, 0) for number in range(3)]
    found, partitions = topic_details(root.ok(Code.GET_TOPIC, path(stream, "t")))
    assert found == created
    assert partitions == [Partition(number, created.created_at, 1, 0, 0, 0) for number in range(3)]
    assert topics(root, stream) == [created]
    assert root.status(Code.CREATE_TOPIC, frames.create_topic(stream, "t")) == Status.TOPIC_NAME_ALREADY_EXISTS

    root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "taken"))
    update = frames.update_topic(
        stream, "t", "renamed", compression=2, expiry=5_000_000, size=SEGMENT_BYTES, replication=3
    )
    assert root.ok(Code.UPDATE_TOPIC, update) == b""
    changed, partitions = topic_details(root.ok(Code.GET_TOPIC, path(stream, created.id)))
    assert (changed.name, changed.compression, changed.expiry) == ("renamed", 2, 5_000_000)
    assert (changed.max_size, changed.replication, changed.id) == (SEGMENT_BYTES, 3, created.id)
    assert len(partitions) == 3
    taken = frames.update_topic(stream, "renamed", "taken")
    assert root.status(Code.UPDATE_TOPIC, taken) == Status.TOPIC_NAME_ALREADY_EXISTS
    root.ok(Code.UPDATE_TOPIC, frames.update_topic(stream, "renamed", "renamed"))
    (reset,) = (topic for topic in topics(root, stream) if topic.name == "renamed")
    assert (reset.expiry, reset.max_size) == (0, 0), "an update to the server default is answered with it (Q5)"

    assert root.ok(Code.DELETE_TOPIC, path(stream, "renamed")) == b""
    assert root.ok(Code.GET_TOPIC, path(stream, "renamed")) == b""
    assert [topic.name for topic in topics(root, stream)] == ["taken"]


def test_settings_of_a_topic_come_back(root: RawConnection, stream: str) -> None:
    """Queries return the settings as they were given."""
    root.ok(Code.CREATE_STREAM, frames.name(stream))
    request = frames.create_topic(
        stream, "t", 0, compression=2, expiry=60_000_000, size=2 * SEGMENT_BYTES, replication=3
    )
    topic, partitions = topic_details(root.ok(Code.CREATE_TOPIC, request))
    assert partitions == []
    assert (topic.compression, topic.expiry, topic.max_size, topic.replication) == (2, 60_000_000, 2 * SEGMENT_BYTES, 3)
    request = frames.create_topic(stream, "without limits", expiry=NEVER, size=UNLIMITED)
    topic, _ = topic_details(root.ok(Code.CREATE_TOPIC, request))
    assert (topic.expiry, topic.max_size) == (NEVER, UNLIMITED)


REFUSED = {
    "topic in no stream": (Code.CREATE_TOPIC, frames.create_topic("nowhere", "t"), Status.STREAM_NOT_FOUND),
    "too many partitions": (Code.CREATE_TOPIC, frames.create_topic("nowhere", "t", 1001), Status.TOO_MANY_PARTITIONS),
    "rename no stream": (Code.UPDATE_STREAM, frames.ident("nowhere") + frames.name("n"), Status.STREAM_NOT_FOUND),
    "purge no stream": (Code.PURGE_STREAM, frames.ident(4000), Status.STREAM_NOT_FOUND),
    "delete no stream": (Code.DELETE_STREAM, frames.ident(4000), Status.STREAM_NOT_FOUND),
    "update topic of no stream": (Code.UPDATE_TOPIC, frames.update_topic("nowhere", "t", "n"), Status.STREAM_NOT_FOUND),
    "delete topic of no stream": (Code.DELETE_TOPIC, path("nowhere", "t"), Status.STREAM_NOT_FOUND),
    "purge topic of no stream": (Code.PURGE_TOPIC, path("nowhere", "t"), Status.STREAM_NOT_FOUND),
}


@pytest.mark.parametrize(("code", "payload", "status"), REFUSED.values(), ids=REFUSED)
def test_refused(root: RawConnection, code: Code, payload: bytes, status: Status) -> None:
    """The documented status."""
    assert root.request(code, payload) == Reply(status)
    assert root.is_alive()


def test_refused_within_a_stream(root: RawConnection, stream: str) -> None:
    """The documented statuses if the stream exists and the topic does not."""
    root.create_topic(stream)
    missing = path(stream, "missing")
    for code, payload, status in (
        (Code.UPDATE_TOPIC, frames.update_topic(stream, "missing", "n"), Status.TOPIC_NOT_FOUND),
        (Code.DELETE_TOPIC, missing, Status.TOPIC_NOT_FOUND),
        (Code.PURGE_TOPIC, missing, Status.TOPIC_NOT_FOUND),
        (Code.CREATE_TOPIC, frames.create_topic(stream, "small", size=SEGMENT_BYTES - 1), Status.INVALID_TOPIC_SIZE),
        (Code.CREATE_TOPIC, frames.create_topic(stream, "t"), Status.TOPIC_NAME_ALREADY_EXISTS),
    ):
        assert root.status(code, payload) == status, code
    assert root.ok(Code.GET_TOPIC, missing) == b""
    assert root.ok(Code.GET_TOPIC, path("nowhere", "t")) == b""
    assert topics(root, "nowhere") == []


def test_a_topic_with_a_thousand_partitions(root: RawConnection, stream: str) -> None:
    """The maximum of one command; each partition accepts messages."""
    root.create_topic(stream, partitions=1000)
    for partition in (0, 499, 999):
        root.send(stream, "t", partition, b"m")
        assert root.poll(stream, "t", partition, Strategy.FIRST).payloads == [b"m"]
    details, _ = topic_details(root.ok(Code.GET_TOPIC, path(stream, "t")))
    assert (details.partitions_count, details.messages_count) == (1000, 3)
    root.ok(Code.DELETE_STREAM, frames.ident(stream))


def fill(connection: RawConnection, stream: str, topic: str) -> None:
    """Append messages to both partitions and store an offset in each."""
    for partition in range(2):
        connection.send(stream, topic, partition, b"a", b"b", b"c")
        connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, topic, partition, 1))


def assert_empty(connection: RawConnection, stream: str, topic: str) -> None:
    """Check for no messages, no stored offsets, one segment, and next offset 0."""
    details, partitions = topic_details(connection.ok(Code.GET_TOPIC, path(stream, topic)))
    assert (details.size_bytes, details.messages_count) == (0, 0)
    for partition in partitions:
        assert (partition.segments_count, partition.current_offset, partition.size_bytes) == (1, 0, 0)
        assert connection.poll(stream, topic, partition.id, Strategy.FIRST).messages == ()
        assert connection.stored_offset(stream, topic, partition.id) is None
        store = frames.consumer_offset(stream, topic, partition.id, 0)
        assert connection.status(Code.STORE_CONSUMER_OFFSET, store) == Status.INVALID_OFFSET
        connection.send(stream, topic, partition.id, b"first again")
        (message,) = connection.poll(stream, topic, partition.id, Strategy.FIRST).messages
        assert (message.offset, message.payload) == (0, b"first again")


def test_purging_a_topic(root: RawConnection, stream: str) -> None:
    """A purge deletes messages and stored offsets of this topic only; offsets start at 0 again, also after a second
    purge.
    """
    root.create_topic(stream, "t", 2)
    root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "other", 2))
    fill(root, stream, "t")
    fill(root, stream, "other")
    assert root.ok(Code.PURGE_TOPIC, path(stream, "t")) == b""
    assert_empty(root, stream, "t")
    root.ok(Code.PURGE_TOPIC, path(stream, "t"))
    assert_empty(root, stream, "t")
    assert root.poll(stream, "other", 1, Strategy.NEXT).payloads == [b"c"]


def test_purging_a_stream(root: RawConnection, stream: str) -> None:
    """A purge of a stream equals purges of all its topics."""
    root.create_topic(stream, "t", 2)
    root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "u", 2))
    for topic in ("t", "u"):
        fill(root, stream, topic)
    assert root.ok(Code.PURGE_STREAM, frames.ident(stream)) == b""
    for topic in ("t", "u"):
        assert_empty(root, stream, topic)


def test_counters(root: RawConnection, stream: str) -> None:
    """Sizes count complete messages including headers; totals cover all partitions; the last offset is reported."""
    root.create_topic(stream, "t", 2)
    root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "u"))
    root.send(stream, "t", 0, b"12345")
    root.send(stream, "t", 1, b"", b"1", headers=b"1234567")
    root.send(stream, "u", 0, b"m")
    details, partitions = topic_details(root.ok(Code.GET_TOPIC, path(stream, "t")))
    sizes = [64 + 5, 64 + 7 + 64 + 1 + 7]
    assert [partition.size_bytes for partition in partitions] == sizes
    assert [partition.messages_count for partition in partitions] == [1, 2]
    assert [partition.current_offset for partition in partitions] == [0, 1]
    assert (details.size_bytes, details.messages_count) == (sum(sizes), 3)
    whole, _ = stream_details(root.ok(Code.GET_STREAM, frames.ident(stream)))
    assert (whole.size_bytes, whole.messages_count, whole.topics_count) == (sum(sizes) + 65, 4, 2)


def test_what_is_deleted_does_not_come_back(root: RawConnection, stream: str) -> None:
    """A successor with the same name and number starts empty: no messages, no offsets, no counters."""
    for _ in range(3):
        root.create_topic(stream, "t", 2)
        assert_empty(root, stream, "t")
        fill(root, stream, "t")
        root.ok(Code.DELETE_TOPIC, path(stream, "t"))
        root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "t", 2))
        assert_empty(root, stream, "t")
        fill(root, stream, "t")
        root.ok(Code.DELETE_STREAM, frames.ident(stream))


def test_appends_in_flight_over_a_deleted_topic(shared_server: ServerProcess, root: RawConnection, stream: str) -> None:
    """Each append in flight is answered, in order: stored before the deletion, or refused because the topic does not
    exist. The deletion leaves no memory, no directory, and nothing in the topic's successor (GW-9, LOG-6).
    """
    batches, payload = 40, b"x" * 50_000
    pool = memory_in_use(shared_server)
    for _ in range(3):
        root.create_topic(stream, partitions=2)
        details, _ = stream_details(root.ok(Code.GET_STREAM, frames.ident(stream)))
        with (
            RawConnection.as_root(shared_server.address) as one,
            RawConnection.as_root(shared_server.address) as other,
        ):
            batch = [
                frames.send(stream, "t", frames.to_partition(partition), [frames.message(payload)])
                for partition in range(2)
            ]
            for number in range(batches):
                one.send_frame(Code.SEND_MESSAGES, batch[0])
                other.send_frame(Code.SEND_MESSAGES, batch[1])
                if number == batches // 2:
                    root.send_frame(Code.DELETE_TOPIC, path(stream, "t"))
            assert root.receive().status == Status.OK
            for producer, last in zip((one, other), batch, strict=True):
                producer.send_frame(Code.SEND_MESSAGES, last)
                statuses = [producer.receive().status for _ in range(batches + 1)]
                # A request that resolved the topic before its deletion fails with the partition's status.
                order = [Status.OK, Status.PARTITION_NOT_FOUND, Status.TOPIC_NOT_FOUND]
                assert statuses == sorted(statuses, key=order.index)
                assert statuses[-1] == Status.TOPIC_NOT_FOUND
                assert producer.is_alive()
        root.ok(Code.CREATE_TOPIC, frames.create_topic(stream, "t", 2))
        assert_empty(root, stream, "t")
        root.ok(Code.DELETE_STREAM, frames.ident(stream))
    eventually("all memory is back", lambda: memory_in_use(shared_server) <= pool + 2 * MIB)
    partitions = shared_server.data / f"streams/{details.id}/topics/0/partitions"
    eventually("all directories are gone", lambda: not list(partitions.glob("*/*")))


def memory_in_use(server: ServerProcess) -> float:
    """Return the memory held by the buffers of all shards, in bytes."""
    with urllib.request.urlopen(f"{server.http_url}/metrics") as answer:
        text = answer.read().decode()
    (line,) = [line for line in text.splitlines() if line.startswith("headrace_node_pool_in_use_bytes ")]
    return float(line.split()[1])
