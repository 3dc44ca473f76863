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


class PurgedSession:
    """The answer to a poll is on its way while the purge is noted."""

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
    partition.notified(SimpleNamespace(purge_epoch=0, first_offset=0, next_offset=10))

    def note_purge():
        partition.notified(SimpleNamespace(purge_epoch=1, first_offset=0, next_offset=3))

    subscription = Subscription("s", "t", Consumer("c", is_group=False), auto_commit=False)
    reader = Reader(PurgedSession(polled(*offsets), note_purge), subscription, partitions, 100)
    assert await reader._poll(partition, 16) is None
    assert partition.position == 0
    assert partitions.next_readable() is partition


async def test_an_answer_without_messages_moves_the_position_to_the_known_end():
    partitions = Partitions([0], Start("offset", 4), {})
    partition = partitions._all[0]
    partition.notified(SimpleNamespace(purge_epoch=0, first_offset=0, next_offset=10))
    subscription = Subscription("s", "t", Consumer("c", is_group=False), auto_commit=False)
    reader = Reader(PurgedSession(polled(), lambda: None), subscription, partitions, 100)
    assert await reader._poll(partition, 16) is None
    assert partition.position == 10
    assert partitions.next_readable() is None
