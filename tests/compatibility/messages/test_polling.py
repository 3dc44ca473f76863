"""All five ways to poll, on partitions of one and of many segments, from memory and from disk (LOG-9, LOG-15)."""

from __future__ import annotations

import random
import struct
import time
import uuid
from bisect import bisect_left
from collections.abc import Iterator
from dataclasses import dataclass

import pytest
import xxhash

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Message
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.conftest import TWO_SHARDS
from tests.server_process import ServerProcess

SEGMENT_BYTES = 64 * 1024


@dataclass(frozen=True, slots=True)
class Filled:
    """A partition and the messages stored in it."""

    connection: RawConnection
    stream: str
    messages: list[Message]

    def poll(self, strategy: Strategy, value: int = 0, count: int = 100, **options: object) -> list[Message]:
        polled = self.connection.poll(self.stream, "t", 0, strategy, value, count, **options)  # type: ignore[arg-type]
        assert polled.partition == 0
        assert polled.current_offset == len(self.messages) - 1
        return list(polled.messages)


def fill(connection: RawConnection, stream: str, batches: int, *, seed: int) -> None:
    """Append batches of many sizes, so that they straddle index entries, segments and blocks."""
    random_source = random.Random(seed)
    connection.create_topic(stream)
    for _ in range(batches):
        connection.send(
            stream,
            "t",
            0,
            *[
                random_source.randbytes(random_source.choice((0, 1, 100, 5000)))
                for _ in range(random_source.choice((1, 2, 30)))
            ],
            headers=random_source.randbytes(random_source.choice((0, 50))),
        )


def read_all(connection: RawConnection, stream: str) -> list[Message]:
    messages: list[Message] = []
    while page := connection.poll(stream, "t", 0, Strategy.OFFSET, len(messages), 1000).messages:
        messages += page
    return messages


@pytest.fixture(scope="module", params=["one segment", "many segments", "after a restart"])
def filled(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Filled]:
    """The same messages in three layouts: in the tail cache, over sealed segments, and on disk only."""
    many = request.param != "one segment"
    settings = {"SYSTEM_SEGMENT_SIZE": str(SEGMENT_BYTES), "SYSTEM_PARTITION_TAIL_CACHE_SIZE": "16 KiB"} if many else {}
    with ServerProcess(tmp_path_factory.mktemp("polling") / "data", TWO_SHARDS | settings) as server:
        with RawConnection.as_root(server.address) as connection:
            fill(connection, "s", 120, seed=7)
        if request.param == "after a restart":
            server.restart()
        if many:
            assert len(list(server.partition_directory().glob("*.log"))) > 5
        with RawConnection.as_root(server.address) as connection:
            yield Filled(connection, "s", read_all(connection, "s"))


def test_messages_are_what_was_sent(filled: Filled) -> None:
    """LOG-1, LOG-3: dense offsets from 0, non-decreasing times, ids, and a checksum of the rest."""
    random_source = random.Random(7)
    expected: list[tuple[bytes, bytes]] = []
    for _ in range(120):
        payloads = [
            random_source.randbytes(random_source.choice((0, 1, 100, 5000)))
            for _ in range(random_source.choice((1, 2, 30)))
        ]
        headers = random_source.randbytes(random_source.choice((0, 50)))
        expected += [(payload, headers) for payload in payloads]
    assert [(message.payload, message.headers) for message in filled.messages] == expected
    assert [message.offset for message in filled.messages] == list(range(len(expected)))
    times = [message.timestamp for message in filled.messages]
    assert times == sorted(times)
    now = time.time_ns() // 1000
    assert now - 300_000_000 < times[0] <= times[-1] <= now
    assert len({message.message_id for message in filled.messages}) == len(expected)
    for message in filled.messages:
        raw = frames.message(message.payload, message.headers, message_id=message.message_id, offset=message.offset)
        stored = raw[8:32] + struct.pack("<Q", message.timestamp) + raw[40:]
        assert xxhash.xxh3_64_intdigest(stored) == message.checksum


def test_by_offset(filled: Filled) -> None:
    """Polls start at any offset with any count; none returns messages beyond the end."""
    total = len(filled.messages)
    random_source = random.Random(1)
    starts = [0, 1, total - 1, *(random_source.randrange(total) for _ in range(60))]
    for start in starts:
        count = random_source.choice((1, 2, 10, 300))
        assert filled.poll(Strategy.OFFSET, start, count) == filled.messages[start : start + count]
    for beyond in (total, total + 1, 2**63, 2**64 - 1):
        assert filled.poll(Strategy.OFFSET, beyond) == []


def test_first(filled: Filled) -> None:
    """`first` polls from the start and ignores the value."""
    assert filled.poll(Strategy.FIRST, 12345, 10) == filled.messages[:10]


def test_last(filled: Filled) -> None:
    """`last` returns the last messages in ascending order, or all if fewer exist."""
    total = len(filled.messages)
    for count in (1, 2, 77):
        assert filled.poll(Strategy.LAST, 0, count) == filled.messages[-count:]
    everything = filled.poll(Strategy.LAST, 0, total + 10)
    assert everything == filled.messages[: len(everything)]


def test_by_timestamp(filled: Filled) -> None:
    """A poll by timestamp returns exactly the messages of that time and later, from the first of them (Q8 is not
    copied).
    """
    times = [message.timestamp for message in filled.messages]
    distinct = sorted(set(times))
    assert len(distinct) > 50
    for moment in distinct[:: max(1, len(distinct) // 40)]:
        for asked in (moment - 1, moment, moment + 1):
            start = bisect_left(times, asked)
            assert filled.poll(Strategy.TIMESTAMP, asked, 7) == filled.messages[start : start + 7]
    assert filled.poll(Strategy.TIMESTAMP, 0, 3) == filled.messages[:3]
    assert filled.poll(Strategy.TIMESTAMP, times[-1] + 1) == []
    assert filled.poll(Strategy.TIMESTAMP, 2**64 - 1) == []


def test_next_does_not_advance_by_itself(filled: Filled) -> None:
    """Without a stored offset, `next` starts at the beginning; repeated polls return the same messages."""
    who = frames.consumer(101)
    for _ in range(2):
        assert filled.poll(Strategy.NEXT, 0, 5, who=who) == filled.messages[:5]
    filled.connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, 17, who=who))
    for _ in range(2):
        assert filled.poll(Strategy.NEXT, 0, 5, who=who) == filled.messages[18:23]
    store = frames.consumer_offset("s", "t", 0, len(filled.messages) - 1, who=who)
    filled.connection.ok(Code.STORE_CONSUMER_OFFSET, store)
    assert filled.poll(Strategy.NEXT, 0, 5, who=who) == []


def test_next_with_auto_commit_reads_everything_once(filled: Filled) -> None:
    """Each poll stores the offset of its last message before it responds."""
    who = frames.consumer("a reader")
    seen: list[Message] = []
    while page := filled.poll(Strategy.NEXT, 0, 93, auto_commit=True, who=who):
        seen += page
        assert filled.connection.stored_offset("s", "t", 0, who=who) == seen[-1].offset
    assert seen == filled.messages


@pytest.mark.parametrize("strategy", [Strategy.OFFSET, Strategy.FIRST, Strategy.LAST, Strategy.TIMESTAMP])
def test_auto_commit_with_every_strategy(filled: Filled, strategy: Strategy) -> None:
    """Auto-commit overwrites the stored offset, forwards and backwards; a poll without messages stores nothing."""
    who = frames.consumer(200 + strategy)
    value = {Strategy.OFFSET: 40, Strategy.TIMESTAMP: filled.messages[60].timestamp}.get(strategy, 0)
    last_offset = len(filled.messages) - 1
    for before in (0, last_offset):
        filled.connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, before, who=who))
        messages = filled.poll(strategy, value, 3, auto_commit=True, who=who)
        assert filled.connection.stored_offset("s", "t", 0, who=who) == messages[-1].offset
    filled.poll(Strategy.OFFSET, last_offset + 1, 3, auto_commit=True, who=who)
    assert filled.connection.stored_offset("s", "t", 0, who=who) == messages[-1].offset


def test_a_count_of_zero(filled: Filled) -> None:
    """The response has no messages, but the partition's last offset."""
    for strategy in Strategy:
        assert filled.poll(strategy, 0, 0) == []


def test_an_enormous_count(filled: Filled) -> None:
    """The response is limited in size and starts with the first message, in order."""
    messages = filled.poll(Strategy.FIRST, 0, 2**32 - 1)
    assert messages == filled.messages[: len(messages)]
    assert messages


# ---- on the shared server


def test_an_empty_partition(root: RawConnection, stream: str) -> None:
    """The response has no messages, the partition's number and an offset of 0."""
    root.create_topic(stream, partitions=2)
    for strategy in Strategy:
        polled = root.poll(stream, "t", 1, strategy)
        assert (polled.partition, polled.current_offset, polled.messages) == (1, 0, ())


def test_without_a_partition_it_is_the_first(root: RawConnection, stream: str) -> None:
    """Polls of a plain consumer use the first partition by default."""
    root.create_topic(stream, partitions=2)
    root.send(stream, "t", 0, b"in 0")
    root.send(stream, "t", 1, b"in 1")
    assert root.poll(stream, "t", None, Strategy.FIRST).payloads == [b"in 0"]


def test_what_clients_set(root: RawConnection, stream: str) -> None:
    """Ids and origin timestamps set by the client are kept; the server assigns missing ids."""
    root.create_topic(stream)
    sent = [
        frames.message(b"own id", message_id=2**128 - 1, origin=1234567),
        frames.message(b"no id", message_id=0, origin=2**64 - 1),
    ]
    root.ok(Code.SEND_MESSAGES, frames.send(stream, "t", frames.to_partition(0), sent))
    own, made = root.poll(stream, "t", 0, Strategy.FIRST).messages
    assert (own.message_id, own.origin) == (2**128 - 1, 1234567)
    assert made.origin == 2**64 - 1
    assert uuid.UUID(bytes=made.message_id.to_bytes(16, "little")).version == 4
    assert own.timestamp == made.timestamp, "one moment for all messages of the batch"
    assert own.reserved == made.reserved == 0


REFUSED = {
    "unknown stream": (frames.poll("nowhere", "t", 0, Strategy.FIRST), Status.STREAM_NOT_FOUND),
    "unknown topic": (frames.poll("refusals", "nothing", 0, Strategy.FIRST), Status.TOPIC_NOT_FOUND),
    "unknown partition": (frames.poll("refusals", "t", 1, Strategy.FIRST), Status.PARTITION_NOT_FOUND),
    "partition beyond 20 bits": (frames.poll("refusals", "t", 1 << 20, Strategy.FIRST), Status.PARTITION_NOT_FOUND),
    "unknown group": (
        frames.poll("refusals", "t", 0, Strategy.FIRST, who=frames.consumer(1, group=True)),
        Status.GROUP_NOT_FOUND,
    ),
}


@pytest.mark.parametrize(("payload", "status"), REFUSED.values(), ids=REFUSED)
def test_refused(root: RawConnection, payload: bytes, status: Status) -> None:
    """The documented status."""
    if not root.ok(Code.GET_STREAM, frames.ident("refusals")):
        root.create_topic("refusals")
    assert root.status(Code.POLL_MESSAGES, payload) == status
    assert root.is_alive()
