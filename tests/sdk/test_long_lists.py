"""Long lists are converted once as they are sent, and not again for each part of them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

import headrace
from headrace import Outgoing
from headrace_core import Deliveries

COUNT = 20_000
Push = Callable[[list[Any], int], tuple[int, Deliveries]]


@pytest.fixture
def blocking(url: str, stream: str) -> Iterator[headrace.Client]:
    with headrace.connect(url) as client:
        client.create_stream(stream)
        client.create_topic(stream, "t", partitions=2)
        yield client
        client.delete_stream(stream)


def conversions(push: Push, messages: list[Any], converted_max: int) -> int:
    """Send all messages in parts; return how many were converted, at most, over all parts.

    Nothing but the part that is next can be converted: an element outside of it would be refused.
    """
    start = converted = 0
    while start < len(messages):
        end = min(len(messages), start + converted_max)
        part = [None] * start + messages[start:end] + [None] * (len(messages) - end)
        taken, deliveries = push(part, start)
        assert 0 < taken <= converted_max
        deliveries.result(30)
        converted += min(taken + 1, end - start)
        start += taken
    return converted


def stored(client: headrace.Client, stream: str) -> list[bytes]:
    """Payloads of the first partition: as many as were sent, and those that follow soon, which should not be there."""
    read: list[bytes] = []
    with client.consumer(stream, "t", partitions=[0]) as consumer:
        while (batch := consumer.poll(60 if len(read) < COUNT else 0.5)) is not None:
            read += batch.payloads()
    return read


@pytest.mark.parametrize("with_properties", [False, True])
def test_a_direct_producer_converts_what_its_batch_has_room_for(
    blocking: headrace.Client, stream: str, with_properties: bool
) -> None:
    payloads = [b"%06d" % number for number in range(COUNT)]
    with blocking.direct_producer(batch_bytes=70 * 500) as producer:
        # The cost of one part is not visible from outside.
        native = producer._steps.native
        place: dict[str, Any] = {"partitions_count": 2, "turn": 0}
        if with_properties:
            messages: list[Any] = [Outgoing(payload, partition=0) for payload in payloads]
            found = conversions(lambda part, start: native.push_each(stream, "t", part, start, **place), messages, 501)
        else:
            found = conversions(
                lambda part, start: native.push_many(stream, "t", part, start, partition=0, **place), payloads, 501
            )
    assert COUNT <= found <= COUNT + COUNT // 500
    assert stored(blocking, stream) == payloads


def test_a_producer_converts_little_more_than_it_has_room_for(blocking: headrace.Client, stream: str) -> None:
    payloads = [b"%06d" % number for number in range(COUNT)]
    with blocking.producer(stream, "t", buffer_bytes=70 * 500, linger=0) as producer:
        native = producer._native
        found = conversions(lambda part, start: native.push_many(part, start, partition=0), payloads, 4096)
        assert found >= COUNT
    assert stored(blocking, stream) == payloads
