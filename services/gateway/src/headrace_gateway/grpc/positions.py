"""Who reads, and where he begins."""

from __future__ import annotations

from typing import Literal, NamedTuple

from headrace_gateway.grpc.conversions import identifier
from headrace_proto.gateway import v1


class Consumer(NamedTuple):
    """Whose offsets are stored."""

    name: int | str
    is_group: bool


class Start(NamedTuple):
    """Where to begin to read: a strategy of the binary protocol, or the end, which that has no word for."""

    strategy: Literal["offset", "timestamp", "first", "last", "next", "end"]
    value: int
    """An offset, microseconds since the Unix epoch, or how many of the last ones."""


def consumer_of(consumer: v1.Consumer) -> Consumer:
    """Return who reads; consumer 0 if that is not said."""
    match consumer.WhichOneof("kind"):
        case "consumer":
            return Consumer(identifier(consumer.consumer, "consumer"), is_group=False)
        case "group":
            return Consumer(identifier(consumer.group, "group"), is_group=True)
        case None:
            return Consumer(0, is_group=False)


def start_of(start: v1.Start, last_count: int) -> Start:
    """Return where to begin; behind the stored offset if that is not said."""
    match start.WhichOneof("kind"):
        case "offset":
            return Start("offset", start.offset)
        case "timestamp_micros":
            return Start("timestamp", start.timestamp_micros)
        case "first":
            return Start("first", 0)
        case "last":
            return Start("last", last_count)
        case "end":
            return Start("end", 0)
        case "stored" | None:
            return Start("next", 0)
