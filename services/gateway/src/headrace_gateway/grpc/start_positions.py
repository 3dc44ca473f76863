"""Consumers and start positions."""

from __future__ import annotations

from typing import Literal, NamedTuple

from headrace_gateway.grpc.conversions import identifier
from headrace_proto.gateway import v1


class Consumer(NamedTuple):
    """Owner of stored offsets."""

    name: int | str
    is_group: bool


class Start(NamedTuple):
    """Start position: a polling strategy of the binary protocol, or the end, which the protocol cannot express."""

    strategy: Literal["offset", "timestamp", "first", "last", "next", "end"]
    value: int
    """An offset, microseconds since the Unix epoch, or the number of last messages."""


def consumer_of(consumer: v1.Consumer) -> Consumer:
    """Return the consumer; consumer 0 if unspecified."""
    match consumer.WhichOneof("kind"):
        case "consumer":
            return Consumer(identifier(consumer.consumer, "consumer"), is_group=False)
        case "group":
            return Consumer(identifier(consumer.group, "group"), is_group=True)
        case None:
            return Consumer(0, is_group=False)


def start_of(start: v1.Start, last_count: int) -> Start:
    """Return the start position; after the stored offset if unspecified."""
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
