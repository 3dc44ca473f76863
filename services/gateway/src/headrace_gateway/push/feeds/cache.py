"""Cache of recently read batches of all partitions, limited in bytes."""

from __future__ import annotations

from collections import OrderedDict
from typing import TYPE_CHECKING

from headrace_gateway.push.feeds.batches import Batch

if TYPE_CHECKING:
    from headrace_gateway.push.feeds.partition_feeds import Feed


class Cache:
    """Batches in the order of their reading; evicted in FIFO order."""

    def __init__(self, bytes_max: int) -> None:
        """Create an empty cache.

        Args:
            bytes_max: Maximum size of the raw batches; decoded forms come on top.
        """
        self._bytes_max = bytes_max
        self._bytes = 0
        self._owners: OrderedDict[Batch, Feed] = OrderedDict()

    def keep(self, batch: Batch, feed: Feed) -> None:
        """Cache a batch for a feed; the feed is notified of the eviction."""
        self._owners[batch] = feed
        self._bytes += batch.size_bytes
        while self._bytes > self._bytes_max:
            oldest, owner = self._owners.popitem(last=False)
            self._bytes -= oldest.size_bytes
            owner.forget(oldest)

    def drop(self, batch: Batch) -> None:
        """Remove a batch without a notification."""
        if self._owners.pop(batch, None) is not None:
            self._bytes -= batch.size_bytes
