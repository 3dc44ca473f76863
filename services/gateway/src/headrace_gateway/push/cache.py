"""What was read last, of all partitions, within a number of bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from headrace_gateway.push.batches import Batch

if TYPE_CHECKING:
    from headrace_gateway.push.feeds import Feed


class Cache:
    """Batches in the order in which they were read; the oldest is forgotten first."""

    def __init__(self, bytes_max: int) -> None:
        """Hold nothing yet.

        Args:
            bytes_max: Of the batches as they were read; what is made of them for clients comes on top.
        """
        self._bytes_max = bytes_max
        self._bytes = 0
        self._owners: OrderedDict[Batch, Feed] = OrderedDict()

    def keep(self, batch: Batch, feed: Feed) -> None:
        """Hold a batch for a feed, which is told when it is forgotten."""
        self._owners[batch] = feed
        self._bytes += batch.size_bytes
        while self._bytes > self._bytes_max:
            oldest, owner = self._owners.popitem(last=False)
            self._bytes -= oldest.size_bytes
            owner.forget(oldest)

    def drop(self, batch: Batch) -> None:
        """Forget a batch, of which nobody has to be told."""
        if self._owners.pop(batch, None) is not None:
            self._bytes -= batch.size_bytes
