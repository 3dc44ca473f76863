"""Server-sent events of a partition that loses its last messages with the power of its node."""

import struct
from types import SimpleNamespace

import pytest
from tests.compatibility.protocol import frames

from headrace_gateway.http.config import HttpConfig
from headrace_gateway.http.handlers import events
from headrace_gateway.http.handlers.events import _Events
from headrace_gateway.http.models.messages import EventsQuery
from headrace_gateway.json_api.memory import Budget

# Offset of the timestamp in a message, after checksum, id and offset.
TIMESTAMP_AT = 32


class Partition:
    """Answers polls like a node."""

    def __init__(self, monkeypatch):
        self.timestamps = []
        self.is_stopping = False
        # The commands are not encoded, to be read below.
        for name in ("encode_poll_messages", "encode_wait_messages"):
            monkeypatch.setattr(events.core, name, lambda **command: command)

    async def ask(self, _request, _session, command, _admit):
        strategy, value, count = command["strategy"], command.get("value", 0), command["count"]
        end = len(self.timestamps)
        start = {"offset": value, "last": max(0, end - count), "first": 0}.get(strategy)
        if start is None:
            start = next((offset for offset, stamp in enumerate(self.timestamps) if stamp >= value), end)
        found = range(start, min(end, start + count))
        messages = b"".join(self._message(offset) for offset in found)
        head = struct.pack("<IQI", 0, max(0, end - 1), len(found))
        if self.is_stopping:
            head, messages = bytes(len(head)), b""
        return (bytes(16) if command.get("names_gap") else b"") + head + messages

    def _message(self, offset):
        raw = bytearray(frames.message(b"m", b"", message_id=offset + 1, offset=offset))
        struct.pack_into("<Q", raw, TIMESTAMP_AT, self.timestamps[offset])
        return bytes(raw)


@pytest.fixture
def partition(monkeypatch):
    partition = Partition(monkeypatch)
    # Two messages per microsecond.
    partition.timestamps = [offset // 2 for offset in range(1000)]
    return partition


def reading(partition, offset=None, **query):
    services = SimpleNamespace(waits=partition, config=HttpConfig())
    call = SimpleNamespace(
        query=EventsQuery(**query, count=10_000),
        services=services,
        request=None,
        stream="s",
        topic="t",
        held=Budget(2**30).held_by(1),
        admit=None,
    )
    return _Events(call, offset)


def offsets(text):
    return [int(line[4:]) for line in text.decode().splitlines() if line.startswith("id: ")]


@pytest.mark.parametrize("kind", ["first", "end"])
async def test_messages_with_the_offsets_of_lost_ones_are_sent(partition, kind):
    """Regression: reading waited for the lost offset, and passed over all messages before it."""
    read = reading(partition, kind=kind)
    await read.first(None)
    partition.timestamps[900:] = [2000] * 50
    # This answer shows the loss.
    assert not await read.following(None)
    assert offsets(await read.following(None)) == list(range(900, 950))
    partition.timestamps += [2001] * 55
    assert offsets(await read.following(None)) == list(range(950, 1005))


async def test_messages_after_a_loss_may_be_still_to_come(partition):
    read = reading(partition, kind="first")
    await read.first(None)
    del partition.timestamps[900:]
    assert not await read.following(None)
    assert not await read.following(None)
    partition.timestamps += [2000] * 5
    assert offsets(await read.following(None)) == list(range(900, 905))


async def test_a_reader_that_comes_back_after_a_loss_continues_at_the_end(partition):
    """Regression: reading waited for the offset after the lost message."""
    del partition.timestamps[900:]
    read = reading(partition, 1000)
    assert not await read.first(None)
    partition.timestamps += [2000] * 5
    assert offsets(await read.following(None)) == list(range(900, 905))


async def test_a_chosen_offset_beyond_the_end_is_waited_for(partition):
    read = reading(partition, kind="offset", value=1002)
    assert not await read.first(None)
    del partition.timestamps[900:]
    assert not await read.following(None)
    partition.timestamps += [2000] * 105
    assert offsets(await read.following(None)) == [1002, 1003, 1004]


async def test_the_answer_of_a_node_that_stops_is_no_loss(partition):
    """All its fields are 0."""
    # The last message that was read and the next one have the same time.
    partition.timestamps = [7] * 1000
    read = reading(partition, kind="first")
    await read.first(None)
    partition.is_stopping = True
    assert not await read.following(None)
    partition.is_stopping = False
    partition.timestamps += [7]
    assert offsets(await read.following(None)) == [1000]
