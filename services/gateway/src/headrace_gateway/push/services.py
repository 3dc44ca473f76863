"""Services shared by all push connections of a server."""

from __future__ import annotations

from headrace_chassis.shares import Shares
from headrace_gateway.ports import Clock
from headrace_gateway.push.config import PushConfig
from headrace_gateway.push.connections.identities import Identities
from headrace_gateway.push.feeds.cache import Cache
from headrace_gateway.push.feeds.partition_feeds import Reads
from headrace_gateway.push.feeds.topics import Topics
from headrace_gateway.push.feeds.watch import Watch
from headrace_gateway.push.metrics import PushMetrics
from headrace_node.connections.sessions import Sessions


class Services:
    """The shared services."""

    def __init__(
        self, config: PushConfig, *, sessions: Sessions, identities: Identities, metrics: PushMetrics, clock: Clock
    ) -> None:
        self.config = config
        self.sessions = sessions
        self.identities = identities
        self.metrics = metrics
        self.clock = clock
        self.topics = Topics(sessions, interval_seconds=config.partitions_interval.seconds)
        self._reads = Reads(sessions, Cache(config.cache_size.bytes), batch_bytes=config.batch_size.bytes)
        self._by_user = Shares(config.max_connections, each_max=config.max_connections_per_user)
        self._watches: dict[int, Watch] = {}

    def joined(self, user_id: int) -> Watch | None:
        """Count a new connection of a user; return the user's watch, or None if a limit is reached."""
        if not self._by_user.take(user_id):
            return None
        watch = self._watches.get(user_id)
        if watch is None:
            watch = self._watches[user_id] = Watch(user_id, self._reads)
        return watch

    async def left(self, user_id: int) -> None:
        """Count a closed connection of a user."""
        self._by_user.give_back(user_id)
        if not self._by_user.holds(user_id):
            await self._watches.pop(user_id).close()
