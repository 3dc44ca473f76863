"""Read positions of consumers over gRPC that are not members of a group."""

import struct
from types import SimpleNamespace

import pytest
from tests.compatibility.protocol import frames

from headrace_gateway.grpc.delivery.reading import Partitions, Reader, Subscription
from headrace_gateway.grpc.start_positions import Consumer, Start
from headrace_node.connections.sessions import Response
from headrace_proto.errors import Status


def polled(*offsets):
    messages = [frames.message(b"old", b"", message_id=offset + 1, offset=offset, origin=5) for offset in offsets]
    no_gap = bytes(16)
    return no_gap + struct.pack("<IQI", 0, 9, len(messages)) + b"".join(messages)


def state(next_offset, *, first_offset=0, purge_epoch=0, openings=()):
    return SimpleNamespace(
        purge_epoch=purge_epoch, first_offset=first_offset, next_offset=next_offset, openings=list(openings)
    )


class NotedSession:
    """The answer to a poll is on its way while a change is noted."""

    def __init__(self, payload, noted):
        self.payload = payload
        self.noted = noted

    async def call(self, code, payload):
        self.noted()
        return Response(Status.OK, self.payload)


@pytest.mark.parametrize("offsets", [(), (4, 5, 6, 7, 8, 9)])
async def test_an_answer_from_before_a_purge_does_not_move_the_new_position(offsets):
    """Regression: the position was that of the end before the purge, and new messages were passed over."""
    partitions = Partitions([0], Start("offset", 4), {})
    partition = partitions._all[0]
    partition.notified(state(10))

    def note_purge():
        partition.notified(state(3, purge_epoch=1))

    subscription = Subscription("s", "t", Consumer("c", is_group=False), auto_commit=False)
    reader = Reader(NotedSession(polled(*offsets), note_purge), subscription, partitions, 100)
    assert await reader._poll(partition, 16) is None
    assert partition.position == 0
    assert partitions.next_readable() is partition


async def test_an_answer_without_messages_moves_the_position_to_the_known_end():
    partitions = Partitions([0], Start("offset", 4), {})
    partition = partitions._all[0]
    partition.notified(state(10))
    subscription = Subscription("s", "t", Consumer("c", is_group=False), auto_commit=False)
    reader = Reader(NotedSession(polled(), lambda: None), subscription, partitions, 100)
    assert await reader._poll(partition, 16) is None
    assert partition.position == 10
    assert partitions.next_readable() is None


@pytest.mark.parametrize(
    ("first_offset", "next_offset", "expected"),
    [(0, 10, 7), (8, 10, 8), (0, 2, 0)],
    ids=["enough", "removed by retention", "too few"],
)
def test_the_last_messages_begin_with_the_oldest_one_at_most(first_offset, next_offset, expected):
    partitions = Partitions([0], Start("last", 3), {})
    partition = partitions._all[0]
    partition.notified(state(next_offset, first_offset=first_offset))
    assert partition.position == expected


@pytest.mark.parametrize(
    ("position", "expected"),
    [
        (1000, 900),
        (950, 900),
        (900, 900),
        (850, 850),
        # The caller waits for a message that has never existed.
        (1001, 1001),
    ],
)
def test_a_partition_that_lost_its_last_messages_is_read_from_there(position, expected):
    """Regression: new messages got the offsets of the lost ones, and were passed over."""
    partitions = Partitions([0], Start("offset", position), {})
    partition = partitions._all[0]
    partition.notified(state(1000))
    partition.notified(state(900))
    assert partition.position == expected
    partition.notified(state(905))
    assert partition.position == expected
    assert partition.is_readable == (expected < 905)


@pytest.mark.parametrize(
    ("position", "expected"), [(1000, 900), (900, 900), (1001, 1001)], ids=["read", "before", "chosen by the caller"]
)
def test_a_partition_that_has_grown_beyond_its_loss_is_read_from_there(position, expected):
    """Only a smaller end was a sign of a loss, and new messages with the offsets of lost ones were passed over."""
    partitions = Partitions([0], Start("offset", position), {})
    partition = partitions._all[0]
    partition.notified(state(1000, openings=[(3, 0)]))
    partition.notified(state(1200, openings=[(3, 0), (5, 900)]))
    assert partition.position == expected
    partition.notified(state(1300, openings=[(3, 0), (5, 900), (6, 1250)]))
    assert partition.position == expected


def test_what_was_read_before_it_was_announced_may_be_lost():
    partitions = Partitions([0], Start("offset", 0), {})
    partition = partitions._all[0]
    partition.notified(state(990))
    partition.read_up_to(1000)
    partition.notified(state(1000))
    partition.read_up_to(1010)
    partition.notified(state(900))
    assert partition.position == 900
    partition.read_up_to(905)
    partition.notified(state(905))
    partition.notified(state(890))
    assert partition.position == 890


@pytest.mark.parametrize("offsets", [(), (950, 951)])
async def test_an_answer_from_before_a_loss_does_not_move_the_position(offsets):
    partitions = Partitions([0], Start("offset", 950), {})
    partition = partitions._all[0]
    partition.notified(state(1000))
    subscription = Subscription("s", "t", Consumer("c", is_group=False), auto_commit=False)
    session = NotedSession(polled(*offsets), lambda: partition.notified(state(900)))
    assert await Reader(session, subscription, partitions, 100)._poll(partition, 16) is None
    assert partition.position == 900
    assert partitions.next_readable() is None
    partition.notified(state(905))
    assert partitions.next_readable() is partition
