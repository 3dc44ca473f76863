"""The endpoint `/ws`: admission checks, and all connections."""

from __future__ import annotations

import asyncio
import logging
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final, NoReturn

from aiohttp import hdrs, web

from headrace_chassis.places import place_of
from headrace_gateway.access.logins import Logins
from headrace_gateway.access.tokens import Tokens
from headrace_gateway.audit.events import recordable
from headrace_gateway.json_api.errors import Rejected
from headrace_gateway.ports import Clock
from headrace_gateway.push.config import PushConfig
from headrace_gateway.push.connections.connection import ACTION, TOO_MANY, Connection
from headrace_gateway.push.connections.identities import Identities
from headrace_gateway.push.connections.limits import Counted
from headrace_gateway.push.connections.origins import Origins
from headrace_gateway.push.connections.received import Limits
from headrace_gateway.push.connections.socket import Close, Socket
from headrace_gateway.push.connections.upgrade import Upgraded, accepted
from headrace_gateway.push.frames import BINARY, JSON
from headrace_gateway.push.metrics import PushMetrics
from headrace_gateway.push.services import Services
from headrace_node.connections.sessions import Sessions

_log = logging.getLogger(__name__)

PATH: Final = "/ws"
_PROTOCOLS: Final = (JSON, BINARY)
# Result in the audit trail for upgrades from pages of another origin.
_FOREIGN_ORIGIN: Final = "ForeignOrigin"
# Interval of connection checks; shorter if the configured intervals are short.
_LOOK_SECONDS: Final = 1.0


class Push:
    """Serves browsers, while `running` is active."""

    def __init__(
        self,
        config: PushConfig,
        *,
        sessions: Sessions,
        tokens: Tokens,
        logins: Logins,
        clock: Clock,
    ) -> None:
        self.metrics = PushMetrics()
        self._config = config
        self._services = Services(
            config,
            sessions=sessions,
            identities=Identities(tokens, logins),
            metrics=self.metrics,
            clock=clock,
        )
        self._origins = Origins(config.allowed_origins)
        self._all = Counted(config.max_connections)
        self._by_address = Counted(config.max_connections_per_address)
        self._connections: set[Connection] = set()

    @asynccontextmanager
    async def running(self) -> AsyncIterator[None]:
        """Maintain connections and topics for the duration of an ``async with`` block."""
        tasks = {asyncio.create_task(self._look_after()), asyncio.create_task(self._services.topics.run())}
        try:
            yield
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.wait(tasks)

    async def serve(self, request: web.Request, upgraded: Upgraded, address: str) -> web.StreamResponse:
        """Serve one browser, from the upgrade to the close.

        Args:
            request: Upgrade request.
            upgraded: Its answer.
            address: Address of the client.

        Raises:
            ConnectionError: The client has disconnected.
        """
        socket = await Socket.open(request, upgraded, Limits(message_bytes=self._config.max_message_size.bytes))
        connection = Connection(self._services, socket, address, is_binary=upgraded.subprotocol == BINARY)
        place = place_of(address)
        counted = [
            (owners, owner) for owners, owner in ((self._all, ""), (self._by_address, place)) if owners.take(owner)
        ]
        self._connections.add(connection)
        self.metrics.connections.inc()
        try:
            if len(counted) < 2:
                await self._record_refusal(TOO_MANY)
                connection.socket.end(Close.TOO_MANY, "too many connections")
            else:
                await connection.serve()
        except Exception:  # noqa: BLE001 - whatever it is, the client is told
            _log.exception("a connection failed")
            connection.socket.end(Close.FAILED, "the server failed")
        finally:
            await connection.socket.ended()
            for owners, owner in counted:
                owners.give_back(owner)
            self._connections.discard(connection)
            self.metrics.connections.dec()
            self.metrics.closed(connection.socket.close_code or 1006)
        return upgraded

    async def answer(self, request: web.Request) -> Upgraded:
        """Return the answer to an upgrade request.

        Raises:
            Rejected: The client may not connect, or wants another protocol or subprotocol.
        """
        if not self._origins.allow(request):
            origin = recordable(", ".join(request.headers.getall(hdrs.ORIGIN)))
            await self._record_refusal(_FOREIGN_ORIGIN, origin=origin)
            raise Rejected(403, "Pages of this origin may not connect; see push.allowed_origins.")
        offered = [
            name.strip()
            for value in request.headers.getall(hdrs.SEC_WEBSOCKET_PROTOCOL, [])
            for name in value.split(",")
        ]
        if offered and not set(offered) & set(_PROTOCOLS):
            raise Rejected(400, f"The subprotocols are {JSON} and {BINARY}.")
        upgraded = accepted(request, protocols=_PROTOCOLS, compression=self._config.compression)
        if upgraded is None:
            raise Rejected(400, "This endpoint accepts only WebSocket connections, version 13.")
        return upgraded

    async def _record_refusal(self, result: str, **subject: object) -> None:
        audit = self._services.identities.audit
        if audit is not None:
            await audit.refused(ACTION, result, user_id=None, subject=subject)

    def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            connection.socket.end(Close.GOING_AWAY, "the server stops")

    async def _look_after(self) -> NoReturn:
        shortest = min(self._config.heartbeat_interval.seconds, self._config.login_timeout.seconds)
        while True:
            await asyncio.sleep(min(_LOOK_SECONDS, shortest / 4))
            now = time.monotonic()
            for connection in list(self._connections):
                try:
                    await connection.look_after(now)
                except Exception:  # noqa: BLE001 - the others are looked after all the same
                    _log.exception("a connection failed")
                    connection.socket.end(Close.FAILED, "the server failed")
