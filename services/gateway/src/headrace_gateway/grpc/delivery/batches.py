"""Conversion of polled messages to batches of limited size."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import headrace_core as core
from headrace_gateway.grpc.conversions import gap_of, message
from headrace_proto.gateway import v1

BATCH_BYTES: Final = 1024 * 1024
"""Target size of a batch; a single larger message still forms a batch."""
_COUNT_AT_FIRST: Final = 16


@dataclass(frozen=True, slots=True)
class Part:
    """A batch to send."""

    batch: v1.Batch
    count: int
    size_bytes: int
    """Size of payloads and headers."""
    last_offset: int


class Pace:
    """Estimate of the message count that yields about one batch of bytes."""

    def __init__(self, count_max: int) -> None:
        self._count_max = count_max
        self._count = min(count_max, _COUNT_AT_FIRST)

    @property
    def count(self) -> int:
        """Number of messages to ask for."""
        return self._count

    def seen(self, count: int, size_bytes: int) -> None:
        """Update the estimate with the size of received messages."""
        fitting = BATCH_BYTES * count // max(1, size_bytes)
        # Growth is limited to a factor of 4: the next messages may be larger.
        self._count = max(1, min(self._count_max, fitting, 4 * self._count))


def parts(polled: core.MessageBatch) -> Iterator[Part]:
    """Split polled messages into batches lazily."""
    batch, count, size_bytes, last_offset = _empty(polled), 0, 0, 0
    if (gap := gap_of(polled)) is not None:
        batch.gap.CopyFrom(gap)
    for one in polled:
        size = len(one.payload) + len(one.user_headers)
        if count and size_bytes + size > BATCH_BYTES:
            yield Part(batch, count, size_bytes, last_offset)
            batch, count, size_bytes = _empty(polled), 0, 0
        batch.messages.append(message(one))
        count, size_bytes, last_offset = count + 1, size_bytes + size, one.offset
    if count:
        yield Part(batch, count, size_bytes, last_offset)


def _empty(polled: core.MessageBatch) -> v1.Batch:
    return v1.Batch(partition_id=polled.partition_id, current_offset=polled.current_offset)
