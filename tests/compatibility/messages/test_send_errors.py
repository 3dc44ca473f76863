"""Every check of a send request, its status, and the order of the checks (GW-9, LOG-3)."""

from __future__ import annotations

import struct
from collections.abc import Iterator

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess

ONE = frames.message(b"one")
TWO = frames.message(b"two more", b"headers")
AT_0 = frames.to_partition(0)

PAYLOAD_BYTES_MAX = 64_000_000
HEADERS_BYTES_MAX = 100_000


@pytest.fixture(scope="module")
def target(shared_server: ServerProcess) -> Iterator[RawConnection]:
    """Connection to a server with topic `t` of two partitions in stream `s`; no test appends to it."""
    with RawConnection.as_root(shared_server.address) as connection:
        connection.create_topic("s", "t", 2)
        connection.ok(Code.CREATE_TOPIC, frames.create_topic("s", "without partitions", 0))
        yield connection
        for partition in range(2):
            assert connection.poll("s", "t", partition, Strategy.FIRST).messages == ()


def index(*entries: tuple[int, int, int]) -> bytes:
    """Encode index entries of (offset, position, timestamp)."""
    return b"".join(struct.pack("<IIQ", *entry) for entry in entries)


def with_metadata(metadata: bytes, rest: bytes = b"", *, length: int | None = None) -> bytes:
    return frames.u32(len(metadata) if length is None else length) + metadata + rest


S, T = frames.ident("s"), frames.ident("t")
GOOD_REST = frames.indexes_of([ONE]) + ONE

CASES: dict[str, tuple[Status, bytes]] = {
    # 2: metadata
    "no payload at all": (Status.INVALID_COMMAND, b""),
    "metadata longer than the payload": (
        Status.INVALID_COMMAND,
        with_metadata(S + T + AT_0 + frames.u32(1), length=100),
    ),
    "metadata longer than anything": (
        Status.INVALID_COMMAND,
        with_metadata(S + T + AT_0 + frames.u32(1), length=2**32 - 1),
    ),
    # 3: identifiers
    "stream identifier of an unknown kind": (
        Status.INVALID_IDENTIFIER,
        with_metadata(b"\x09\x04\0\0\0\0" + T + AT_0 + frames.u32(1), GOOD_REST),
    ),
    "stream identifier of the wrong length": (
        Status.INVALID_IDENTIFIER,
        with_metadata(b"\x01\x02\0\0" + T + AT_0 + frames.u32(1), GOOD_REST),
    ),
    "topic identifier without a name": (
        Status.INVALID_IDENTIFIER,
        with_metadata(S + b"\x02\x00" + AT_0 + frames.u32(1), GOOD_REST),
    ),
    "topic identifier that is not UTF-8": (
        Status.INVALID_IDENTIFIER,
        with_metadata(S + b"\x02\x01\xff" + AT_0 + frames.u32(1), GOOD_REST),
    ),
    # 4: partitioning
    "partitioning of an unknown kind": (
        Status.INVALID_COMMAND,
        frames.send("s", "t", b"\x04\x00", [ONE]),
    ),
    "partition id of 3 bytes": (Status.INVALID_COMMAND, frames.send("s", "t", b"\x02\x03\0\0\0", [ONE])),
    "balanced with a value": (Status.INVALID_COMMAND, frames.send("s", "t", b"\x01\x01\0", [ONE])),
    "key longer than the metadata": (
        Status.INVALID_COMMAND,
        with_metadata(S + T + b"\x03\xff" + frames.u32(1), b""),
    ),
    # 5: count and sizes
    "count missing": (Status.INVALID_COMMAND, with_metadata(S + T + AT_0)),
    "more index entries than bytes": (Status.INVALID_COMMAND, frames.send("s", "t", AT_0, [ONE], count=1000)),
    "as many messages as a number can say": (
        Status.INVALID_COMMAND,
        frames.send("s", "t", AT_0, [ONE], count=2**32 - 1),
    ),
    # 6
    "no messages": (Status.INVALID_MESSAGES_COUNT, frames.send("s", "t", AT_0, [], count=0)),
    "no messages, but bytes": (Status.INVALID_MESSAGES_COUNT, frames.send("s", "t", AT_0, [ONE], count=0)),
    # 7: per message
    "offset in an index entry": (
        Status.NON_ZERO_OFFSET,
        frames.send("s", "t", AT_0, [ONE], indexes=index((1, len(ONE), 0))),
    ),
    "timestamp in an index entry": (
        Status.NON_ZERO_TIMESTAMP,
        frames.send("s", "t", AT_0, [ONE], indexes=index((0, len(ONE), 1))),
    ),
    "position behind the messages": (
        Status.MISSING_INDEX,
        frames.send("s", "t", AT_0, [ONE, TWO], indexes=index((0, 9999, 0), (0, 10_005, 0))),
    ),
    "position inside a header": (
        Status.MISSING_INDEX,
        frames.send("s", "t", AT_0, [ONE, TWO], indexes=index((0, 63, 0), (0, len(ONE + TWO), 0))),
    ),
    "lengths beyond the slice": (
        Status.MISSING_INDEX,
        frames.send("s", "t", AT_0, [frames.message(b"short", payload_length=600)]),
    ),
    "header lengths beyond the slice": (
        Status.MISSING_INDEX,
        frames.send("s", "t", AT_0, [frames.message(b"short", headers_length=600)]),
    ),
    "lengths that overflow": (
        Status.MISSING_INDEX,
        frames.send("s", "t", AT_0, [frames.message(b"m", payload_length=2**32 - 1)]),
    ),
    "payload one byte too large": (
        Status.TOO_BIG_MESSAGE_PAYLOAD,
        frames.send("s", "t", AT_0, [frames.message(bytes(PAYLOAD_BYTES_MAX + 1))]),
    ),
    "headers one byte too large": (
        Status.TOO_BIG_USER_HEADERS,
        frames.send("s", "t", AT_0, [frames.message(b"m", bytes(HEADERS_BYTES_MAX + 1))]),
    ),
    "offsets in headers that decrease": (
        Status.INVALID_OFFSET,
        frames.send("s", "t", AT_0, [frames.message(b"a", offset=2), frames.message(b"b", offset=1)]),
    ),
    "last position before the one before": (
        Status.CANNOT_READ_INDEX_POSITION,
        frames.send("s", "t", AT_0, [ONE, TWO], indexes=index((0, len(ONE), 0), (0, 3, 0))),
    ),
    "reserved field": (Status.INVALID_RESERVED_FIELD, frames.send("s", "t", AT_0, [frames.message(b"m", reserved=1)])),
    # 8
    "bytes between messages": (
        Status.INVALID_MESSAGES_SIZE,
        frames.send(
            "s", "t", AT_0, [ONE + b"gap", TWO], indexes=index((0, len(ONE) + 3, 0), (0, len(ONE + TWO) + 3, 0))
        ),
    ),
    "bytes behind the last message": (
        Status.INVALID_MESSAGES_SIZE,
        frames.send("s", "t", AT_0, [ONE, TWO + b"more"], indexes=index((0, len(ONE), 0), (0, len(ONE + TWO), 0))),
    ),
    # 9 to 12: destination
    "unknown stream by id": (Status.STREAM_NOT_FOUND, frames.send(4000, "t", AT_0, [ONE])),
    "unknown stream by name": (Status.STREAM_NOT_FOUND, frames.send("nowhere", "t", AT_0, [ONE])),
    "unknown topic by id": (Status.TOPIC_NOT_FOUND, frames.send("s", 4000, AT_0, [ONE])),
    "unknown topic by name": (Status.TOPIC_NOT_FOUND, frames.send("s", "nothing", AT_0, [ONE])),
    "balanced without partitions": (
        Status.TOPIC_NOT_FOUND,
        frames.send("s", "without partitions", frames.BALANCED, [ONE]),
    ),
    "key without partitions": (
        Status.TOPIC_NOT_FOUND,
        frames.send("s", "without partitions", frames.by_key(b"k"), [ONE]),
    ),
    "partition id without partitions": (
        Status.PARTITION_NOT_FOUND,
        frames.send("s", "without partitions", AT_0, [ONE]),
    ),
    "unknown partition": (Status.PARTITION_NOT_FOUND, frames.send("s", "t", frames.to_partition(2), [ONE])),
    "partition beyond 20 bits is not cut to 20 bits (Q11)": (
        Status.PARTITION_NOT_FOUND,
        frames.send("s", "t", frames.to_partition(1 << 20), [ONE]),
    ),
}


@pytest.mark.parametrize(("status", "payload"), CASES.values(), ids=CASES)
def test_refused(target: RawConnection, status: Status, payload: bytes) -> None:
    """The documented status; the frame is consumed and the connection stays open."""
    assert target.status(Code.SEND_MESSAGES, payload) == status
    assert target.is_alive()


ORDER = {
    "login before everything": (Status.UNAUTHENTICATED, b""),
    "identifiers before partitioning": (
        Status.INVALID_IDENTIFIER,
        with_metadata(b"\x09\x04\0\0\0\0" + T + b"\x07\x00" + frames.u32(0)),
    ),
    "partitioning before count": (Status.INVALID_COMMAND, with_metadata(S + T + b"\x07\x00" + frames.u32(0))),
    "count before messages": (
        Status.INVALID_MESSAGES_COUNT,
        frames.send("s", "t", AT_0, [frames.message(b"m", reserved=1)], count=0),
    ),
    "messages before the stream": (
        Status.NON_ZERO_OFFSET,
        frames.send("nowhere", "t", AT_0, [ONE], indexes=index((1, len(ONE), 0))),
    ),
    "stream before topic": (Status.STREAM_NOT_FOUND, frames.send("nowhere", "nothing", AT_0, [ONE])),
    "topic before partition": (Status.TOPIC_NOT_FOUND, frames.send("s", "nothing", frames.to_partition(9), [ONE])),
}


@pytest.mark.parametrize(("status", "payload"), ORDER.values(), ids=ORDER)
def test_the_first_thing_that_is_wrong_is_reported(
    shared_server: ServerProcess, target: RawConnection, status: Status, payload: bytes
) -> None:
    """The checks run in the documented order."""
    if status == Status.UNAUTHENTICATED:
        with RawConnection(shared_server.address) as connection:
            assert connection.status(Code.SEND_MESSAGES, payload) == status
    else:
        assert target.status(Code.SEND_MESSAGES, payload) == status


def test_a_batch_with_one_bad_message_is_refused_whole(target: RawConnection) -> None:
    """A batch with one invalid message is refused completely (`target` checks that the partition stays empty)."""
    messages = [ONE, TWO, frames.message(b"m", reserved=1)]
    assert target.status(Code.SEND_MESSAGES, frames.send("s", "t", AT_0, messages)) == Status.INVALID_RESERVED_FIELD


def test_what_is_just_allowed(root: RawConnection, stream: str) -> None:
    """Limits are accepted: an empty payload, the largest payload, the largest headers, the longest key."""
    root.create_topic(stream, partitions=2)
    root.socket.settimeout(60)
    root.send(stream, "t", 0, b"")
    root.send(stream, "t", 0, b"m", headers=bytes(HEADERS_BYTES_MAX))
    root.send(stream, "t", frames.by_key(b"k" * 255), b"by a long key")
    root.send(stream, "t", 0, bytes(PAYLOAD_BYTES_MAX))
    polled = root.poll(stream, "t", 0, Strategy.OFFSET, 0, count=2)
    assert [len(message.payload) for message in polled.messages] == [0, 1]
    assert polled.messages[1].headers == bytes(HEADERS_BYTES_MAX)
    largest = [
        message
        for offset in range(4)
        for message in root.poll(stream, "t", 0, Strategy.OFFSET, offset, count=1).messages
        if len(message.payload) == PAYLOAD_BYTES_MAX
    ]
    assert len(largest) == 1
    assert largest[0].payload == bytes(PAYLOAD_BYTES_MAX)


def test_a_key_without_bytes_is_accepted(root: RawConnection, stream: str) -> None:
    """An empty key is accepted, as by the reference server: XXH32 of no bytes is 0x02cc5d05."""
    root.create_topic(stream, partitions=3)
    root.send(stream, "t", frames.by_key(b""), b"m")
    assert root.poll(stream, "t", 0x02CC5D05 % 3, Strategy.FIRST).payloads == [b"m"]
