"""One client connection from the upgrade to the close: login, requests, heartbeats."""

from __future__ import annotations

import asyncio
import time
from typing import Final

import headrace_core as core
from headrace_gateway.json_api.errors import Refused
from headrace_gateway.ports import NoAnswer
from headrace_gateway.push import forms, frames
from headrace_gateway.push.client import Client
from headrace_gateway.push.connections.identities import Identity
from headrace_gateway.push.connections.limits import Pace
from headrace_gateway.push.connections.socket import Close, Socket
from headrace_gateway.push.forms import AnyRequest, Login, Malformed, NotUnderstood
from headrace_gateway.push.services import Services
from headrace_node.connections.sessions import SessionLost
from headrace_proto.errors import Status

ACTION: Final = "GET /ws"
"""Action in the audit trail for refused upgrades and for requests before the login."""
TOO_MANY: Final = "TooManyConnections"
"""Result in the audit trail for refusals by a connection limit."""


class Connection:
    """Executes the requests of a client in order, one at a time."""

    def __init__(self, services: Services, socket: Socket, address: str, *, is_binary: bool) -> None:
        self.socket = socket
        self._address = address
        self._services = services
        self._config = services.config
        self._is_binary = is_binary
        self._pace = Pace(services.config.max_messages_per_second, time.monotonic)
        self._identity: Identity | None = None
        self._client: Client | None = None
        self._pinged_at = self._opened_at = time.monotonic()
        self._is_executing = False

    async def serve(self) -> None:
        """Receive and execute requests until either side closes."""
        try:
            while not self.socket.is_ending and (message := await self.socket.receive()) is not None:
                if not self._pace.take():
                    self.socket.end(Close.TOO_MANY, "too many messages")
                    break
                self._is_executing = True
                try:
                    if isinstance(message, str):
                        await self._text(message)
                    else:
                        await self._binary(message)
                finally:
                    # Nothing was received during the execution.
                    self._is_executing = False
                    self.socket.heard_at = time.monotonic()
        finally:
            if self._client is not None:
                await self._client.close()
                await self._services.left(self._client.user_id)

    async def look_after(self, now: float) -> None:
        """Send a heartbeat if due, and close the connection if it timed out.

        Args:
            now: Monotonic seconds.
        """
        socket, interval = self.socket, self._config.heartbeat_interval.seconds
        if socket.is_ending:
            return
        socket.look_after(now)
        if self._identity is None and now - self._opened_at >= self._config.login_timeout.seconds:
            socket.end(Close.LOGIN_TIMEOUT, "no login was received in time")
        elif self._identity is not None and not self._services.identities.is_good(self._identity):
            socket.end(Close.NOT_LOGGED_IN, "the token is no longer valid")
        elif now - socket.heard_at >= 2 * interval and (socket.is_full or not self._is_executing):
            socket.end(Close.SILENT, "silent for too long")
        elif not socket.is_full:
            if now - socket.sent_at >= interval:
                await socket.send_text(forms.encode("heartbeat"))
            if now - max(socket.heard_at, self._pinged_at) >= interval:
                self._pinged_at = now
                await socket.ping()

    async def _text(self, text: str) -> None:
        try:
            request = await self._decoded(text)
        except NotUnderstood as error:
            self.socket.end(Close.NOT_UNDERSTOOD, str(error))
        except Malformed as error:
            if self._client is None:
                await self._refuse_unauthenticated(error.request_id)
            else:
                await self._client.refuse(error.request_id, error.refused)
        else:
            await self._execute(request)

    async def _decoded(self, text: str) -> AnyRequest:
        if len(text) <= forms.DECODED_AT_ONCE_MAX:
            return forms.decode(text)
        if self._client is None:
            # Check again after decompression.
            raise NotUnderstood("the message is too long for a login")
        return await asyncio.to_thread(forms.decode, text)

    async def _binary(self, frame: bytes) -> None:
        if not self._is_binary:
            self.socket.end(Close.UNSUPPORTED, "this subprotocol has no binary messages")
            return
        try:
            request_id, payload = frames.decode_produce(frame)
        except ValueError as error:
            self.socket.end(Close.NOT_UNDERSTOOD, str(error))
            return
        if self._client is None:
            await self._refuse_unauthenticated(request_id)
        else:
            await self._client.append(request_id, payload)

    async def _execute(self, request: AnyRequest) -> None:
        if isinstance(request, Login):
            try:
                await self._login(request)
            except Refused as error:
                await self._turn_away(request.id, error)
            except (SessionLost, NoAnswer):
                await self._turn_away(request.id, Refused(Status.DISCONNECTED))
        elif self._client is None:
            await self._refuse_unauthenticated(getattr(request, "id", None))
        else:
            await self._client.execute(request)

    async def _login(self, request: Login) -> None:
        identity = await self._services.identities.of(request.token, self._address)
        if self._client is not None and identity.user_id != self._client.user_id:
            await self._services.identities.record(identity, Status.INVALID_ACCESS_TOKEN)
            raise Refused(Status.INVALID_ACCESS_TOKEN, "The token belongs to another user.")
        if self._client is None:
            watch = self._services.joined(identity.user_id)
            if watch is None:
                self.socket.end(Close.TOO_MANY, "too many connections of this user")
                await self._services.identities.record(identity, TOO_MANY)
                return
            self._client = Client(identity.user_id, self._services, watch, self.socket, is_binary=self._is_binary)
            await self._services.identities.record(identity, Status.OK)
        self._identity = identity
        config = self._config
        await self.socket.send_text(
            forms.encode(
                "ok",
                id=request.id,
                user_id=identity.user_id,
                username=await self._username(identity.user_id),
                expires_at=identity.expires_at,
                heartbeat_ms=round(config.heartbeat_interval.seconds * 1000),
                limits={
                    "subscriptions": config.max_subscriptions,
                    "partitions": config.max_partitions,
                    "credit_messages": config.max_credit_messages,
                    "credit_bytes": config.max_credit_size.bytes,
                    "message_bytes": config.max_message_size.bytes,
                },
            )
        )

    async def _username(self, user_id: int) -> str:
        answer = await self._services.sessions.call(user_id, *core.encode_get_user(user=user_id))
        user = core.decode_user(answer.payload) if answer.status == Status.OK else None
        if user is None:
            raise Refused(Status.UNAUTHENTICATED)
        return user.username

    async def _refuse_unauthenticated(self, request_id: int | None) -> None:
        """Refuse a request before the login, and close the connection."""
        if self._services.identities.audit is not None:
            await self._services.identities.audit.refused(ACTION, Status.UNAUTHENTICATED, user_id=None)
        await self._turn_away(request_id, Refused(Status.UNAUTHENTICATED))

    async def _turn_away(self, request_id: int | None, refused: Refused) -> None:
        if request_id is not None:
            await self.socket.send_text(forms.encode_error(request_id, refused))
        self.socket.end(Close.NOT_LOGGED_IN, "not logged in")
