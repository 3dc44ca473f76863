"""Encoder and decoder of the protocol's extensions for long poll and notifications."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from tests.compatibility.protocol import frames
from tests.compatibility.protocol.answers import Polled, polled
from tests.compatibility.protocol.codes import Code, Status, Strategy
from tests.compatibility.protocol.raw import RawConnection, Reply

ENTRY_BYTES = 48


@dataclass(frozen=True, slots=True)
class Entry:
    """State of one partition in a notification."""

    status: int
    stream: int
    topic: int
    partition: int
    incarnation: int
    purge_epoch: int
    first_offset: int
    next_offset: int


def capabilities(connection: RawConnection) -> tuple[int, list[int], dict[int, int]]:
    """Return version, codes and limits of a server."""
    reply = connection.request(Code.CAPABILITIES)
    assert reply.status == Status.OK
    version, count = struct.unpack_from("<II", reply.payload)
    codes = struct.unpack_from(f"<{count}I", reply.payload, 8)
    (limits_count,) = struct.unpack_from("<I", reply.payload, 8 + 4 * count)
    limits = struct.iter_unpack("<IQ", reply.payload[12 + 4 * count :])
    found = dict(limits)
    assert len(found) == limits_count
    return version, list(codes), found


def wait(
    stream: int | str,
    partition: int | None = 0,
    *,
    seconds: float = 30.0,
    minimum_bytes: int = 1,
    strategy: Strategy = Strategy.NEXT,
    value: int = 0,
    count: int = 100,
    auto_commit: bool = True,
    who: bytes = frames.consumer(1),
) -> bytes:
    """Encode a long poll request."""
    poll = frames.poll(stream, "t", partition, strategy, value, count, auto_commit=auto_commit, who=who)
    return poll + struct.pack("<IQ", minimum_bytes, int(seconds * 1_000_000))


def begin(connection: RawConnection, payload: bytes) -> None:
    """Send a long poll request without waiting for its response."""
    connection.send_frame(Code.WAIT_MESSAGES, payload)


def answer(connection: RawConnection) -> Polled:
    """Receive the response to a long poll."""
    reply = connection.receive()
    assert reply.status == Status.OK
    return polled(reply.payload)


def watch(stream: int | str, partitions: list[int], *, topic: int | str = "t", remove: bool = False) -> bytes:
    """Encode a request to watch partitions of one topic."""
    path = frames.ident(stream) + frames.ident(topic)
    ids = struct.pack(f"<{len(partitions)}I", *partitions)
    return struct.pack("<BI", 2 if remove else 1, 1) + path + struct.pack("<I", len(partitions)) + ids


def entries(reply: Reply) -> list[Entry]:
    """Decode a notification."""
    assert reply.status == Status.OK
    assert reply.payload
    assert len(reply.payload) % ENTRY_BYTES == 0
    return [Entry(*fields) for fields in struct.iter_unpack("<IIIIQQQQ", reply.payload)]


def next_entries(connection: RawConnection, count: int) -> list[Entry]:
    """Receive notifications until they contain `count` entries."""
    found: list[Entry] = []
    while len(found) < count:
        found += entries(connection.receive())
    return found
