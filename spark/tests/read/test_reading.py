"""SPK-1: a task reads each message once, or fails with a precise error."""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from dataclasses import replace

import pyarrow as pa
import pytest
from place import Place
from proxy import Proxy
from tests.compatibility.protocol.raw import RawConnection
from tests.ports import free_port

from headrace_core import encode_delete_segments, encode_purge_topic
from headrace_proto.partition import v1
from pyspark_headrace.cluster.description import Description, Topic
from pyspark_headrace.cluster.gateway import Gateway, Issued
from pyspark_headrace.cluster.node import Chunk, chunk
from pyspark_headrace.errors import (
    AlteredError,
    DataLossError,
    IncompleteError,
    ServerRefusedError,
    TicketExpiredError,
    UnreachableError,
)
from pyspark_headrace.options.reading import ReadOptions, read_options
from pyspark_headrace.read import reading
from pyspark_headrace.read.leader import Holder
from pyspark_headrace.read.planning import Planner
from pyspark_headrace.read.reading import read_range
from pyspark_headrace.read.splits import Split

SCHEMA = pa.schema([pa.field("offset", pa.int64()), pa.field("value", pa.binary())])
SEGMENT = {"SYSTEM_SEGMENT_SIZE": "64 KiB"}


@pytest.fixture(scope="module")
def server_settings() -> Mapping[str, str]:
    """Small segments, so that old ones can be deleted."""
    return SEGMENT


def task(place: Place, **more: str) -> tuple[Split, ReadOptions]:
    """Plan all of partition 0 of the topic `a`, like the driver."""
    options = read_options(place.options(subscribe="a", **{"retry_intervalMs": "5"} | more))
    planner = Planner(options)
    described = planner.describe()
    partition = described.partitions["a", 0]
    (split,) = planner.splits({("a", 0): (partition.first_offset, partition.next_offset)}, described, is_batch=False)
    return split, options


def without_credentials(options: ReadOptions) -> ReadOptions:
    """Options of an executor that cannot log in, and depends on the driver's plan."""
    return replace(options, password_env="NOT_SET_ANYWHERE")


def spoilt(ticket: str) -> str:
    """Return a ticket that nodes refuse like an expired one."""
    return ticket[:-4] + "AAAA"


def offsets(batches: Iterator[pa.RecordBatch]) -> list[int]:
    return [offset for batch in batches for offset in batch.column("offset").to_pylist()]


def test_a_range_is_read_whole(place: Place) -> None:
    place.topic("a", 10_000)
    split, options = task(place, batchRows="999", fetchBytes="50k")
    batches = list(read_range(split, options, SCHEMA))
    assert offsets(iter(batches)) == list(range(10_000))
    assert [value for batch in batches for value in batch.column("value").to_pylist()] == [
        f"0:{number}".encode() for number in range(10_000)
    ]
    assert all(batch.schema.equals(SCHEMA) and batch.num_rows <= 999 for batch in batches)
    # Batches are large even if responses are small (pitfall 5.8).
    small = replace(options, fetch_bytes=1024, batch_rows=16384)
    assert [batch.num_rows for batch in read_range(split, small, SCHEMA)] == [10_000]
    part = replace(split, start=1234, end=1300)
    assert offsets(read_range(part, options, SCHEMA)) == list(range(1234, 1300))
    assert offsets(read_range(replace(split, start=7, end=7), options, SCHEMA)) == []


def test_a_range_is_cut_by_size(place: Place) -> None:
    """Check that tasks with large messages have fewer of them, according to the log's index."""
    place.topic("a", 0)
    for _ in range(20):
        place.send("a", 0, range(200))
    for _ in range(10):
        place.client.send(place.stream, "a", [b"x" * 1900] * 100, partition=0)
    options = read_options(place.options(subscribe="a", maxBytesPerPartition="300k", retry_intervalMs="5"))
    planner = Planner(options)
    described = planner.describe(with_sizes=True)
    splits = planner.splits({("a", 0): (0, 5000)}, described, is_batch=True)
    assert [offset for split in splits for offset in offsets(read_range(split, options, SCHEMA))] == list(range(5000))
    assert len(splits) >= 4
    assert splits[0].end - splits[0].start > 3 * (splits[-2].end - splits[-2].start)
    assert sum(split.size_bytes for split in splits) == pytest.approx(4000 * 67 + 1000 * 1964, rel=0.2)
    check_what_the_driver_looks_up(planner, described)


def check_what_the_driver_looks_up(planner: Planner, described: Description) -> None:
    """Check that the driver replaces a stale address and a refused ticket, also in the tasks that it plans."""
    (topic,) = described.topics.values()
    (partition,) = topic.partitions
    away = replace(partition, address=f"127.0.0.1:{free_port()}")
    ((key, (ticket, until)),) = planner._tickets.items()
    planner._tickets[key] = (spoilt(ticket), until)
    stale = Description({"a": replace(topic, partitions=(away,))})
    splits = planner.splits({("a", 0): (0, 5000)}, stale, is_batch=True)
    assert len(splits) >= 4
    assert {split.address for split in splits} == {partition.address}
    options = without_credentials(planner.options)
    assert [offset for split in splits for offset in offsets(read_range(split, options, SCHEMA))] == list(range(5000))
    planner._tickets[key] = (spoilt(ticket), until)
    assert planner.offsets_of_times(stale)({("a", 0): 1}) == {("a", 0): 0}
    before_a_purge = Description({"a": replace(topic, partitions=(replace(away, purge_epoch=99),))})
    with pytest.raises(DataLossError, match="partition 0: it was purged"):
        planner.splits({("a", 0): (0, 5000)}, before_a_purge, is_batch=True)


def test_cut_streams(place: Place) -> None:
    """Check that each retry continues at the break: no message twice, none missing."""
    place.topic("a", 20_000)
    split, options = task(place, fetchBytes="20k", retry_max="3")
    with Proxy(split.address) as proxy:
        proxy.cut_after = 200_000
        read = offsets(read_range(replace(split, address=proxy.address), without_credentials(options), SCHEMA))
        assert proxy.cuts >= 5
    assert read == list(range(20_000))


def test_a_server_that_says_nothing(place: Place) -> None:
    place.topic("a", 2000)
    split, options = task(place, fetchTimeoutMs="300", retry_max="1")
    with Proxy(split.address) as proxy:
        proxy.may_forward.clear()
        threading.Timer(0.8, proxy.may_forward.set).start()
        patient = replace(without_credentials(options), retry_max=20)
        assert offsets(read_range(replace(split, address=proxy.address), patient, SCHEMA)) == list(range(2000))


def test_what_arrives_is_what_was_sent(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check the node's digest of a call. Its match is checked by every test that reads."""
    place.topic("a", 1000)
    split, options = task(place, fetchBytes="4k")
    last: list[Chunk] = []

    def altered(response: bytes) -> Chunk:
        found = chunk(response)
        if found.is_last:
            last.append(found)
        return found._replace(digest=found.digest ^ 1) if found.digest else found

    monkeypatch.setattr(reading, "chunk", altered)
    with pytest.raises(AlteredError, match=r"/a, partition 0, .* digest"):
        offsets(read_range(split, options, SCHEMA))
    (reported,) = last
    assert reported.digest
    assert offsets(read_range(split, replace(options, verify_checksums=False), SCHEMA)) == list(range(1000))


def test_no_server(place: Place) -> None:
    place.topic("a", 10)
    split, options = task(place, retry_max="2")
    gone = f"127.0.0.1:{free_port()}"
    with pytest.raises(UnreachableError, match=r"as often as retry\.max allows"):
        offsets(read_range(replace(split, address=gone), without_credentials(options), SCHEMA))
    # With credentials, a task can look the partition up at a gateway.
    assert offsets(read_range(replace(split, address=gone), options, SCHEMA)) == list(range(10))


def test_a_topic_that_was_deleted_or_made_anew(place: Place) -> None:
    place.topic("a", 10)
    split, options = task(place)
    place.client.delete_topic(place.stream, "a")
    with pytest.raises(DataLossError):
        offsets(read_range(split, options, SCHEMA))
    place.topic("a", 20)
    with pytest.raises(DataLossError, match="no longer exists"):
        offsets(read_range(split, options, SCHEMA))
    with pytest.raises(ServerRefusedError, match="deleted partition"):
        offsets(read_range(split, without_credentials(options), SCHEMA))


def test_a_topic_that_was_purged(place: Place) -> None:
    """Check a purge: offsets start again at 0, so current messages are not the planned ones."""
    place.topic("a", 10)
    split, options = task(place)
    with RawConnection.as_root(place.server.address) as connection:
        connection.ok(*encode_purge_topic(stream=place.stream, topic="a"))
    place.send("a", 0, range(20, 40))
    with pytest.raises(DataLossError, match="purged or created again"):
        offsets(read_range(split, options, SCHEMA))


def test_messages_that_are_gone(place: Place) -> None:
    place.topic("a", 0)
    for begin in range(0, 3000, 200):
        place.send("a", 0, range(begin, begin + 200))
    split, options = task(place, batchRows="100")
    with RawConnection.as_root(place.server.address) as connection:
        connection.ok(*encode_delete_segments(stream=place.stream, topic="a", partition=0, segments_count=1))
    left = task(place)[0].start
    assert 0 < left < 3000
    with pytest.raises(DataLossError, match=f"the next message after -1 is {left}"):
        offsets(read_range(split, options, SCHEMA))
    tolerant = replace(options, fail_on_data_loss=False)
    assert offsets(read_range(split, tolerant, SCHEMA)) == list(range(left, 3000))
    # All messages of the task are gone.
    early = replace(split, end=left)
    assert offsets(read_range(early, tolerant, SCHEMA)) == []
    with pytest.raises(DataLossError):
        offsets(read_range(early, options, SCHEMA))


def test_a_log_that_ends_too_soon(place: Place) -> None:
    """Check a log truncated by a crash without fsync: the task waits for missing messages, but not forever."""
    place.topic("a", 10)
    split, options = task(place, fetchTimeoutMs="200")
    longer = replace(split, end=15)
    with pytest.raises(DataLossError, match="the log ends at 10"):
        offsets(read_range(longer, options, SCHEMA))
    assert offsets(read_range(longer, replace(options, fail_on_data_loss=False), SCHEMA)) == list(range(10))


def test_a_ticket_that_is_over(place: Place) -> None:
    place.topic("a", 10)
    split, options = task(place)
    late = replace(split, ticket=spoilt(split.ticket))
    assert offsets(read_range(late, options, SCHEMA)) == list(range(10))
    # The first gateway is down.
    more = replace(options, servers=("127.0.0.1:1", *options.servers))
    assert offsets(read_range(late, more, SCHEMA)) == list(range(10))
    with pytest.raises(TicketExpiredError, match="tasks get another one only where"):
        offsets(read_range(late, without_credentials(options), SCHEMA))


def test_a_ticket_that_is_over_again(place: Place, monkeypatch: pytest.MonkeyPatch) -> None:
    """Check a task that outlasts several tickets, one of them while no gateway answers."""
    place.topic("a", 10)
    split, options = task(place)
    holder = Holder(split, options)
    for _ in range(2):
        holder._ticket = spoilt(split.ticket)
        assert holder.bounds().next_offset == 10
    failures = [UnreachableError("no server answers")]
    issue = Gateway.ticket

    def fails_once(gateway: Gateway, topic: Topic, access: str) -> Issued:
        if failures:
            raise failures.pop()
        return issue(gateway, topic, access)

    monkeypatch.setattr(Gateway, "ticket", fails_once)
    holder._ticket = spoilt(split.ticket)
    assert holder.bounds().next_offset == 10
    assert not failures
    # Refused again at once: another ticket would be no better.
    monkeypatch.setattr(Gateway, "ticket", lambda *_: Issued(spoilt(split.ticket), 60.0))
    holder._ticket = spoilt(split.ticket)
    with pytest.raises(ServerRefusedError, match="UNAUTHENTICATED"):
        holder.bounds()


def test_who_stops_early_ends_the_call(place: Place) -> None:
    place.topic("a", 20_000)
    split, options = task(place, batchRows="10", fetchBytes="1k", prefetchChunks="1")
    before = threading.active_count()
    for _ in range(5):
        batches = read_range(split, options, SCHEMA)
        assert next(batches).num_rows == 10
        batches.close()
    assert not [thread for thread in threading.enumerate() if thread.name == "headrace-read-ahead"]
    assert threading.active_count() <= before + 3


def test_responses_are_taken_apart_as_protobuf_does() -> None:
    for reported in ((b"", 0, False, 0), (b"x" * 300, 2**63 - 1, True, 2**64 - 1), (b"\x00", 1, True, 7)):
        polled, following, done, digest = reported
        response = v1.FetchResponse(polled=polled, next_offset=following, done=done, digest=digest)
        found = chunk(response.SerializeToString())
        assert (bytes(found.polled), found.next_offset, found.is_last, found.digest) == reported
    # Unknown fields of later servers are ignored.
    more = v1.FetchResponse(polled=b"abc", next_offset=5).SerializeToString()
    assert bytes(chunk(more + b"\x51" + bytes(8) + b"\x5a\x02zz" + b"\x65" + bytes(4)).polled) == b"abc"
    for cut in range(1, 5):
        with pytest.raises(IncompleteError):
            chunk(more[:cut])
