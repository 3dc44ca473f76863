"""Stored offsets: per partition and consumer, up to the last message, forwards and backwards (LOG-10)."""

from __future__ import annotations

import struct

import pytest

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection
from tests.server_process import ServerProcess


def test_store_get_delete(root: RawConnection, stream: str) -> None:
    """The response contains partition, last offset and stored offset; without a stored offset it is empty."""
    root.create_topic(stream, partitions=2)
    root.send(stream, "t", 1, *[b"m"] * 10)
    get = frames.consumer_offset(stream, "t", 1)
    assert root.ok(Code.GET_CONSUMER_OFFSET, get) == b""
    assert root.status(Code.DELETE_CONSUMER_OFFSET, get) == Status.CONSUMER_OFFSET_NOT_FOUND
    for offset in (0, 9, 4):
        assert root.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", 1, offset)) == b""
        assert root.ok(Code.GET_CONSUMER_OFFSET, get) == struct.pack("<IQQ", 1, 9, offset)
    assert root.poll(stream, "t", 1, Strategy.NEXT, count=1).offsets == [5]
    assert root.ok(Code.DELETE_CONSUMER_OFFSET, get) == b""
    assert root.ok(Code.GET_CONSUMER_OFFSET, get) == b""
    assert root.poll(stream, "t", 1, Strategy.NEXT, count=1).offsets == [0]


def test_beyond_the_last_message(root: RawConnection, stream: str) -> None:
    """An offset beyond the last message is refused with 4100 and changes nothing, also in an empty partition."""
    root.create_topic(stream, partitions=2)
    root.send(stream, "t", 0, b"a", b"b")
    for partition, offset in ((0, 2), (0, 2**64 - 1), (1, 0), (1, 7)):
        store = frames.consumer_offset(stream, "t", partition, offset)
        assert root.status(Code.STORE_CONSUMER_OFFSET, store) == Status.INVALID_OFFSET
        assert root.stored_offset(stream, "t", partition) is None


def test_consumers_and_partitions_are_kept_apart(root: RawConnection, stream: str) -> None:
    """Each consumer has an offset of its own in each partition."""
    root.create_topic(stream, partitions=2)
    whos = [frames.consumer(0), frames.consumer(1), frames.consumer(2**32 - 1), frames.consumer("by name")]
    for partition in range(2):
        root.send(stream, "t", partition, *[b"m"] * 20)
        for number, who in enumerate(whos):
            store = frames.consumer_offset(stream, "t", partition, 2 * number + partition, who=who)
            root.ok(Code.STORE_CONSUMER_OFFSET, store)
    for partition in range(2):
        for number, who in enumerate(whos):
            assert root.stored_offset(stream, "t", partition, who=who) == 2 * number + partition


def test_a_name_is_its_hash(root: RawConnection, stream: str) -> None:
    """`my-consumer` and the number 2115191887, its XXH32, identify the same consumer."""
    root.create_topic(stream)
    root.send(stream, "t", 0, *[b"m"] * 5)
    root.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", 0, 3, who=frames.consumer("my-consumer")))
    assert root.stored_offset(stream, "t", 0, who=frames.consumer(2_115_191_887)) == 3


def test_without_a_partition_it_is_the_first(root: RawConnection, stream: str) -> None:
    """Get, store and delete of a plain consumer use the first partition by default."""
    root.create_topic(stream, partitions=2)
    root.send(stream, "t", 0, b"a", b"b")
    root.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", None, 1))
    assert root.stored_offset(stream, "t", 0) == root.stored_offset(stream, "t", None) == 1
    root.ok(Code.DELETE_CONSUMER_OFFSET, frames.consumer_offset(stream, "t", None))
    assert root.stored_offset(stream, "t", 0) is None


def test_getting_never_fails_for_what_is_missing(root: RawConnection, stream: str) -> None:
    """Queries for unknown streams, topics, partitions and groups succeed with an empty response; store and delete fail
    with the status of the missing object.
    """
    root.create_topic(stream)
    root.send(stream, "t", 0, b"m")
    group = frames.consumer("g", group=True)
    for place, who, status in (
        (("nowhere", "t", 0), frames.consumer(1), Status.STREAM_NOT_FOUND),
        ((stream, "nothing", 0), frames.consumer(1), Status.TOPIC_NOT_FOUND),
        ((stream, "t", 9), frames.consumer(1), Status.PARTITION_NOT_FOUND),
        ((stream, "t", 1 << 20), frames.consumer(1), Status.PARTITION_NOT_FOUND),
        ((stream, "t", 0), group, Status.GROUP_NOT_FOUND),
    ):
        assert root.ok(Code.GET_CONSUMER_OFFSET, frames.consumer_offset(*place, who=who)) == b""
        assert root.status(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset(*place, 0, who=who)) == status
        assert root.status(Code.DELETE_CONSUMER_OFFSET, frames.consumer_offset(*place, who=who)) == status


@pytest.mark.parametrize("kill", [False, True], ids=["stopped", "killed"])
def test_they_survive_a_restart(server: ServerProcess, kill: bool) -> None:
    """LOG-10: stored, lowered and deleted offsets survive, whether the server stops or is killed."""
    whos = [frames.consumer(number) for number in range(50)]
    with RawConnection.as_root(server.address) as connection:
        connection.create_topic("s")
        connection.send("s", "t", 0, *[b"m"] * 100)
        for number, who in enumerate(whos):
            connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, 99, who=who))
            connection.ok(Code.STORE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, number, who=who))
        for who in whos[::2]:
            connection.ok(Code.DELETE_CONSUMER_OFFSET, frames.consumer_offset("s", "t", 0, who=who))
        connection.poll("s", "t", 0, Strategy.OFFSET, 70, 5, auto_commit=True, who=frames.consumer("polls"))
    server.restart(kill=kill)
    with RawConnection.as_root(server.address) as connection:
        for number, who in enumerate(whos):
            expected = number if number % 2 else None
            assert connection.stored_offset("s", "t", 0, who=who) == expected
        assert connection.stored_offset("s", "t", 0, who=frames.consumer("polls")) == 74
        assert connection.poll("s", "t", 0, Strategy.NEXT, count=1, who=frames.consumer("polls")).offsets == [75]
