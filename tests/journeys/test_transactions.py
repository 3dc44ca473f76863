"""Staged batches become visible to all readers exactly once, on commit (GW-8)."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import NamedTuple

import headrace_core as core
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Status
from tests.compatibility.protocol.raw import RawConnection
from tests.journeys.conftest import At
from tests.journeys.deployment.api_clients import SECONDS_MAX, BinaryApi, Sent
from tests.journeys.deployment.place import Place

PARTITIONS = (0, 1, 3)
TRANSACTION_FENCED, STAGE_EXPIRED, STAGE_ABORTED = 20300, 20301, 20302
STAGE_NOT_FOUND, INVALID_STAGE_CHUNK = 20304, 20305


class PartitionAt(NamedTuple):
    """Ids and incarnation of a partition."""

    topic_id: int
    partition_id: int
    incarnation: int


class Writer:
    """Stages and commits at one gateway."""

    def __init__(self, connection: RawConnection, stream: str, places: dict[int, PartitionAt]) -> None:
        self.connection = connection
        self.stream = stream
        self.places = places

    def chunk(self, partition: int, payloads: list[bytes], **more: int) -> tuple[int, bytes]:
        """Send one chunk and return status and response."""
        batch = frames.send(0, 0, b"", [frames.message(payload) for payload in payloads])
        # Skip the metadata of the send command.
        head = len(frames.u32(0) + frames.ident(0) + frames.ident(0) + frames.u32(0))
        code, encoded = core.encode_stage_messages(
            stream=self.stream,
            topic="t",
            partition=partition,
            messages_count=len(payloads),
            batch=batch[head:],
            **more,
        )
        reply = self.connection.request(code, encoded)
        return reply.status, reply.payload

    def stage(self, partition: int, *chunks: list[bytes], lifetime_seconds: int = 0) -> tuple[int, int, int, int]:
        """Stage a batch and return its reference for the commit."""
        stage = 0
        for number, payloads in enumerate(chunks):
            status, answer = self.chunk(
                partition,
                payloads,
                stage=stage,
                chunk=number,
                is_last=number + 1 == len(chunks),
                lifetime_seconds=lifetime_seconds,
            )
            assert status == Status.OK
            stage = core.decode_staged_messages(answer).stage
        return (*self.places[partition], stage)

    def commit(
        self, batch_id: int, stages: list[tuple[int, int, int, int]], *, query_id: str = "q", fence: bool = False
    ):
        """Commit, and return the status and whether the batch was committed before."""
        code, encoded = core.encode_commit_transaction(
            stream=self.stream, transaction="t", query_id=query_id, batch_id=batch_id, stages=stages, fence=fence
        )
        reply = self.connection.request(code, encoded)
        already = reply.status == Status.OK and core.decode_transaction_result(reply.payload).already_committed
        return reply.status, already


def places_of(connection: RawConnection, stream: str) -> dict[int, PartitionAt]:
    """Partitions with their incarnations, from a watch."""
    connection.ok(*core.encode_watch_partitions(topics=[(stream, "t", list(range(4)))]))
    found: dict[int, PartitionAt] = {}
    while len(found) < 4:
        for it in core.decode_watched_partitions(connection.receive().payload):
            found[it.partition_id] = PartitionAt(it.topic_id, it.partition_id, it.incarnation)
    return found


def eventually(found: Callable[[], object], expected: object) -> None:
    """Wait for messages that are appended soon after a commit."""
    deadline = time.monotonic() + SECONDS_MAX
    while (now := found()) != expected:
        assert time.monotonic() < deadline, now
        time.sleep(0.02)


def test_a_transaction_over_partitions(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """Messages of a transaction become visible together at every gateway, neither before the commit nor twice."""
    places = places_of(at(BinaryApi, place.here).connection, stream)
    writer = Writer(root.connection, stream, places)
    reader = at(BinaryApi, place.there)

    def read(partition: int) -> list[bytes]:
        return [sent.payload for sent in reader.read(stream, 1000, partition=partition)]

    for partition in PARTITIONS:
        root.send(stream, Sent(b"before"), partition=partition)
    stages = [
        writer.stage(partition, [b"%d a" % partition, b"%d b" % partition], [b"%d c" % partition * 30_000], [])
        for partition in PARTITIONS
    ]
    staged = {
        partition: [b"%d a" % partition, b"%d b" % partition, b"%d c" % partition * 30_000] for partition in PARTITIONS
    }
    for partition in PARTITIONS:
        assert read(partition) == [b"before"]
    assert writer.commit(1, stages) == (Status.OK, False)
    for partition in PARTITIONS:
        eventually(lambda partition=partition: read(partition), [b"before", *staged[partition]])
    # A repeated commit, or one of an earlier batch id, has no effect even with other stages.
    assert writer.commit(1, stages) == (Status.OK, True)
    again = [writer.stage(0, [b"again"])]
    assert writer.commit(1, again) == (Status.OK, True)
    code, asked = core.encode_get_transaction(stream=stream, transaction="t")
    last = core.decode_transaction(reader.connection.ok(code, asked))
    assert last is not None
    assert (last.query_id, last.batch_id) == ("q", 1)
    root.send(stream, Sent(b"after"))
    assert read(0) == [b"before", *staged[0], b"after"]


def test_what_cannot_be_committed(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """Transactions of another user, discarded stages and expired stages are refused."""
    places = places_of(at(BinaryApi, place.here).connection, stream)
    writer = Writer(root.connection, stream, places)
    assert writer.commit(7, [writer.stage(0, [b"one"])]) == (Status.OK, False)
    stage = writer.stage(0, [b"two"])
    assert writer.commit(1, [stage], query_id="other") == (TRANSACTION_FENCED, False)
    assert writer.commit(1, [stage], query_id="other", fence=True) == (Status.OK, False)
    assert writer.commit(8, [writer.stage(0, [b"three"])]) == (TRANSACTION_FENCED, False)
    given_up = writer.stage(0, [b"four"])
    code, asked = core.encode_abort_transaction(
        stream=stream, transaction="t", query_id="other", batch_id=2, stages=[given_up]
    )
    assert not core.decode_transaction_result(root.connection.ok(code, asked)).already_committed
    assert writer.commit(2, [given_up], query_id="other") == (STAGE_ABORTED, False)
    short = writer.stage(0, [b"five"], lifetime_seconds=1)
    # The expiry uses the timestamp written with messages, which may lag.
    time.sleep(2.5)
    assert writer.commit(2, [short], query_id="other") == (STAGE_EXPIRED, False)
    eventually(lambda: [sent.payload for sent in root.read(stream, 10)], [b"one", b"two"])


def test_chunks_of_a_stage(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """A repeated chunk is acknowledged again; a missing chunk is an error."""
    writer = Writer(root.connection, stream, places_of(at(BinaryApi, place.here).connection, stream))
    status, answer = writer.chunk(1, [b"a"])
    first = core.decode_staged_messages(answer)
    assert (status, first.messages) == (Status.OK, 1)
    assert writer.chunk(1, [b"c"], stage=first.stage, chunk=2)[0] == INVALID_STAGE_CHUNK
    for _ in range(2):
        status, answer = writer.chunk(1, [b"b"], stage=first.stage, chunk=1, is_last=True)
        assert (status, core.decode_staged_messages(answer).messages) == (Status.OK, 2)
    assert writer.chunk(1, [b"a"], stage=first.stage + 1, chunk=1)[0] == STAGE_NOT_FOUND
    assert writer.chunk(1, [])[0] == Status.INVALID_MESSAGES_COUNT
    assert writer.commit(1, [(*writer.places[1], first.stage)]) == (Status.OK, False)
    eventually(lambda: [sent.payload for sent in root.read(stream, 10, partition=1)], [b"a", b"b"])


def test_what_is_kept_for_readers(place: Place, root: BinaryApi, at: At, stream: str) -> None:
    """The first one decides, whichever gateway the others ask."""
    there = at(BinaryApi, place.there).connection

    def pin(connection: RawConnection, value: bytes) -> tuple[bool, bytes]:
        code, asked = core.encode_pin_reader(stream=stream, reader="r", value=value)
        pinned = core.decode_pinned_reader(connection.ok(code, asked))
        return pinned.was_there, pinned.value

    assert pin(root.connection, b"first") == (False, b"first")
    assert pin(there, b"second") == (True, b"first")
    there.ok(*core.encode_unpin_reader(stream=stream, reader="r"))
    assert pin(root.connection, b"third") == (False, b"third")
    code, asked = core.encode_get_transaction(stream=stream, transaction="none")
    assert core.decode_transaction(there.ok(code, asked)) is None
    there.ok(*core.encode_delete_transaction(stream=stream, transaction="none"))
