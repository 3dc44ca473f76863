"""Positions at which clients that connect again continue."""

from __future__ import annotations

import asyncio
from struct import pack
from types import SimpleNamespace
from typing import Any

import pytest

from headrace_gateway.push.forms import Position
from headrace_gateway.push.frames import Epoch, Place
from headrace_gateway.push.subscriptions.starts import resumed
from headrace_proto.errors import Status

EPOCH = Epoch(3, 0)


class Node:
    """A session with a node whose log ends at an offset."""

    def __init__(self, next_offset: int) -> None:
        self._next_offset = next_offset
        self.calls = 0

    async def call(self, _code: int, request: bytes) -> Any:
        self.calls += 1
        # Strategy "offset" and its value stand before the count and the flag of the poll.
        wanted = int.from_bytes(request[-13:-5], "little")
        message = pack("<24xQ16xII8x", wanted, 0, 1) + b"m" if wanted < self._next_offset else b""
        polled = pack("<IQI", 0, self._next_offset - 1, bool(message)) + message
        return SimpleNamespace(status=Status.OK, payload=polled)


@pytest.mark.parametrize(
    ("position", "epoch", "written", "expected"),
    [
        (98, "3.0", 98, (98, False, 0)),
        # The feed was not notified yet of messages that the client has read.
        (108, "3.0", 108, (108, False, 1)),
        (108, "3.0", 200, (108, False, 1)),
        # A crash has lost messages.
        (108, "3.0", 98, (98, True, 1)),
        (108, "3.0", 107, (98, True, 1)),
        (108, "2.0", 200, (7, True, 0)),
    ],
)
def test_a_position_is_reset_if_its_messages_are_not_there(
    position: int, epoch: str, written: int, expected: tuple[int, bool, int]
) -> None:
    feed: Any = SimpleNamespace(place=Place(1, 2, 0), epoch=EPOCH, first_offset=7, next_offset=98)
    node: Any = Node(written)
    found = asyncio.run(resumed(feed, Position(partition_id=0, offset=position, epoch=epoch), node))
    assert (found.offset, found.is_reset, node.calls) == expected
    assert found.epoch == EPOCH
