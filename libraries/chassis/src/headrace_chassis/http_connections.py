"""Connections of an HTTP server: limit of their number, and timeout of the first request.

The library closes a connection that is idle after a request, but waits forever for the first one; an unauthenticated
client could hold any number of connections by sending a request head byte by byte, or nothing at all.

While all places are taken, a further connection takes the place of one without a login: the oldest one of the address
that has most of these. So a host that opens connections without end mostly displaces its own.
"""

from __future__ import annotations

import asyncio
import logging
from collections import Counter, OrderedDict
from collections.abc import Callable, Hashable
from typing import Final, cast

from headrace_chassis.places import place_of

_log = logging.getLogger(__name__)

# Minimum interval between log lines about refusals; a line contains their number.
_LOG_SECONDS: Final = 10.0

Library = Callable[[], asyncio.Protocol]
"""Factory of the protocol object that serves one connection."""


class Connections:
    """All open connections."""

    def __init__(self, library: Library, *, count_max: int, first_request_seconds: float, limit: str) -> None:
        """Set the limits.

        Args:
            library: Factory of the protocol object that serves a connection.
            count_max: Maximum number of open connections; one user keeps at most half of them.
            first_request_seconds: Time within which the head of the first request has to arrive.
            limit: Name of the maximum in the log.
        """
        self._library = library
        self._count_max = count_max
        self._limit = limit
        self._first_request_seconds = first_request_seconds
        self._waiting: dict[asyncio.BaseTransport, asyncio.TimerHandle] = {}
        # The owner of each open connection: its address, or the user.
        self._owners: dict[asyncio.BaseTransport, Hashable] = {}
        # Connections without a login, by address, each from the oldest to the newest.
        self._unknown: dict[Hashable, OrderedDict[asyncio.BaseTransport, None]] = {}
        self._known: Counter[Hashable] = Counter()
        self._turned_away = 0
        self._logged_at = -_LOG_SECONDS

    def __call__(self) -> asyncio.Protocol:
        """Return the protocol of a new connection, for ``loop.create_server``."""
        return _Connection(self, self._library())

    def has_asked(self, transport: asyncio.BaseTransport | None) -> None:
        """Record that a request arrived on this connection."""
        if transport is not None and (timer := self._waiting.pop(transport, None)) is not None:
            timer.cancel()

    def has_logged_in(self, transport: asyncio.BaseTransport | None, user: Hashable) -> None:
        """Record that a request of a user arrived: the connection keeps its place, unless the user has half of all."""
        if transport is None or transport not in self._owners or self._owners[transport] == ("user", user):
            return
        owner = ("user", user)
        if self._known.get(owner, 0) < max(self._count_max // 2, 1):
            self._release(transport)
            self._owners[transport] = owner
            self._known[owner] += 1

    def opened(self, transport: asyncio.BaseTransport) -> bool:
        """Count a connection; return whether the limit permits it."""
        if len(self._owners) >= self._count_max and not self._displaces_one():
            return False
        peer = transport.get_extra_info("peername")
        owner = ("address", place_of(peer[0]) if isinstance(peer, tuple) else "")
        self._owners[transport] = owner
        self._unknown.setdefault(owner, OrderedDict())[transport] = None
        loop = asyncio.get_running_loop()
        self._waiting[transport] = loop.call_later(self._first_request_seconds, self._give_up, transport)
        return True

    def closed(self, transport: asyncio.BaseTransport) -> None:
        """Remove a counted connection."""
        self.has_asked(transport)
        if transport in self._owners:
            self._release(transport)
            del self._owners[transport]

    def _displaces_one(self) -> bool:
        self._log_full()
        if not self._unknown:
            return False
        most = max(self._unknown.values(), key=len)
        oldest = next(iter(most))
        self.closed(oldest)
        cast("asyncio.Transport", oldest).abort()
        return True

    def _release(self, transport: asyncio.BaseTransport) -> None:
        owner = self._owners[transport]
        unknown = self._unknown.get(owner)
        if unknown is not None:
            del unknown[transport]
            if not unknown:
                del self._unknown[owner]
            return
        self._known[owner] -= 1
        if self._known[owner] <= 0:
            del self._known[owner]

    def _give_up(self, transport: asyncio.BaseTransport) -> None:
        self._waiting.pop(transport, None)
        # Without a request, the client expects no answer.
        cast("asyncio.Transport", transport).abort()

    def _log_full(self) -> None:
        self._turned_away += 1
        now = asyncio.get_running_loop().time()
        if now - self._logged_at >= _LOG_SECONDS:
            _log.warning("%s = %d are open: %d refused or displaced", self._limit, self._count_max, self._turned_away)
            self._logged_at, self._turned_away = now, 0


class _Connection(asyncio.Protocol):
    """Filter between the transport and the library, which never sees a refused connection."""

    def __init__(self, connections: Connections, served: asyncio.Protocol) -> None:
        self._connections = connections
        self._served = served
        self._transport: asyncio.BaseTransport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        if not self._connections.opened(transport):
            cast("asyncio.Transport", transport).abort()
            return
        self._transport = transport
        self._served.connection_made(transport)

    def connection_lost(self, exc: Exception | None) -> None:
        if self._transport is not None:
            self._connections.closed(self._transport)
            self._served.connection_lost(exc)

    def data_received(self, data: bytes) -> None:
        if self._transport is not None:
            self._served.data_received(data)

    def eof_received(self) -> bool | None:
        return self._served.eof_received() if self._transport is not None else None

    def pause_writing(self) -> None:
        self._served.pause_writing()

    def resume_writing(self) -> None:
        self._served.resume_writing()
