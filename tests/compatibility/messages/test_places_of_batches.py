"""Answers to batches with partition and offset (`ReportOffsets`); clients that do not ask for them are not affected."""

from __future__ import annotations

import struct

import pytest

from tests.compatibility.conftest import Connect
from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, Reply
from tests.server_process import PASSWORD, USERNAME

PARTITIONS = 4
pytestmark = pytest.mark.parametrize("transport", ["tcp", "websocket"], indirect=True)


def sending(stream: str, partitioning: bytes, *payloads: bytes) -> bytes:
    return frames.send(stream, "t", partitioning, [frames.message(payload) for payload in payloads])


def test_a_batch_is_found_where_its_answer_says(connect: Connect, root: RawConnection, stream: str) -> None:
    """The partition is chosen by the server or the client; the connection moves to the shard of its traffic."""
    asks = connect()
    asks.ok(Code.REPORT_OFFSETS)
    asks.ok(Code.LOGIN_USER, frames.login(USERNAME, PASSWORD))
    root.create_topic(stream, partitions=PARTITIONS)
    balanced = [frames.BALANCED] * (2 * PARTITIONS)
    named = [frames.to_partition(partition) for partition in range(PARTITIONS) for _ in range(40)]
    for number, partitioning in enumerate([*balanced, frames.by_key(b"user-123"), *named]):
        payload = b"batch %d" % number
        answer = asks.ok(Code.SEND_MESSAGES, sending(stream, partitioning, payload, b"second"))
        partition, offset = struct.unpack("<IQ", answer)
        found = root.poll(stream, "t", partition, Strategy.OFFSET, offset, 2)
        assert (found.payloads, found.offsets) == ([payload, b"second"], [offset, offset + 1])


def test_batches_in_flight_are_answered_one_by_one(root: RawConnection, stream: str) -> None:
    root.create_topic(stream)
    root.ok(Code.REPORT_OFFSETS)
    batches = [sending(stream, frames.to_partition(0), *[b"m"] * count) for count in (1, 3, 2)]
    wrong = sending(stream, frames.to_partition(9), b"m")
    replies = root.requests(Code.SEND_MESSAGES, [*batches, wrong, batches[0]])
    places = [struct.pack("<IQ", 0, offset) for offset in (0, 1, 4, 6)]
    assert [reply.payload for reply in replies if reply.status == Status.OK] == places
    assert replies[3] == Reply(Status.PARTITION_NOT_FOUND)


def test_only_those_who_ask_get_a_payload(connect: Connect, root: RawConnection, stream: str) -> None:
    """The request belongs to its connection; it has no answer but an empty one."""
    root.create_topic(stream)
    asks, batch = connect(), sending(stream, frames.to_partition(0), b"m")
    assert asks.request(Code.REPORT_OFFSETS) == Reply(Status.OK)
    assert asks.request(Code.SEND_MESSAGES, batch) == Reply(Status.UNAUTHENTICATED)
    assert root.request(Code.SEND_MESSAGES, batch) == Reply(Status.OK)
