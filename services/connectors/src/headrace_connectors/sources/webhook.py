"""The source `webhook`: JSON that callers send over HTTP, answered when it is stored."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections import deque
from typing import Annotated, Any, ClassVar, Final, Self

import msgspec
from aiohttp import web
from pydantic import model_validator

from headrace_connectors.contract import Batch, ConnectorError, Opaque, Record, Settings, Source, stable_id
from headrace_proto.cluster_token import is_one_of
from headrace_settings import Address, Between, Secret, Size

_JSON_LINES: Final = "application/x-ndjson"
_RETRY_SECONDS: Final = 1
_STOP_SECONDS: Final = 5.0


class WebhookSettings(Settings):
    """`settings` of the source `webhook`."""

    address: Address = Address.parse("127.0.0.1:8121")
    """Address to listen on; port 0 picks a free port."""
    path: str = "/"
    """Path that accepts requests."""
    token: Secret | None = None
    """Bearer token of callers; needed beyond loopback."""
    max_body: Annotated[Size, Between(Size(1), Size.parse("64 MiB"))] = Size.parse("1 MiB")
    """Maximum size of a request."""
    max_waiting: Annotated[Size, Between(Size(1024), Size.parse("16 GiB"))] = Size.parse("64 MiB")
    """Maximum size of all requests that wait to be stored; further ones are answered 429."""
    batch_size: Annotated[int, Between(1, 100_000)] = 1000
    """Maximum number of requests in a batch."""

    @model_validator(mode="after")
    def _is_closed_beyond_loopback(self) -> Self:
        if not self.address.ip.is_loopback and self.token is None:
            raise ValueError(f"address = {self.address} is not loopback: token is needed")
        if not self.path.startswith("/"):
            raise ValueError(f"path = {self.path!r} does not start with /")
        return self


class _Request:
    __slots__ = ("answer", "records", "size_bytes")

    def __init__(self, records: list[Record], size_bytes: int) -> None:
        self.records = records
        self.size_bytes = size_bytes
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class Webhook(Source):
    """Accepts JSON: an object or array in a request, or one value per line (`application/x-ndjson`).

    An array is as many records as it has elements. A request is answered 200 when its records are stored, 503 if they
    could not be, and 429 if too much waits already. A repeated request with the same `Idempotency-Key` has the same
    message ids.
    """

    settings_type: ClassVar[type[Settings]] = WebhookSettings

    def __init__(self, settings: WebhookSettings) -> None:
        """Listen to nothing yet."""
        self._settings = settings
        self._waiting: deque[_Request] = deque()
        self._waiting_bytes = 0
        self._arrived = asyncio.Event()
        self._pending: list[_Request] = []
        self._runner: web.AppRunner | None = None
        self._is_closing = False
        self.address: Address | None = None
        """Address actually bound."""

    def mode(self) -> Opaque:
        """Callers keep what was not answered."""
        return Opaque()

    async def open(self, state: bytes | None) -> None:
        """Listen.

        Raises:
            ConnectorError: The address cannot be bound.
        """
        del state
        application = web.Application(client_max_size=self._settings.max_body.bytes)
        application.router.add_post(self._settings.path, self._receive)
        self._runner = web.AppRunner(
            application, access_log=None, shutdown_timeout=_STOP_SECONDS, handler_cancellation=True
        )
        await self._runner.setup()
        address = self._settings.address
        try:
            await web.TCPSite(self._runner, str(address.ip), address.port).start()
        except OSError as error:
            raise ConnectorError(f"cannot listen on {address}: {error.strerror}; set another address") from error
        self.address = address.with_port(self._runner.addresses[0][1])

    async def poll(self) -> Batch:
        """Wait for requests."""
        self._answer(503)
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        while self._waiting and len(self._pending) < self._settings.batch_size:
            request = self._waiting.popleft()
            self._waiting_bytes -= request.size_bytes
            self._pending.append(request)
        return Batch([record for request in self._pending for record in request.records])

    async def commit(self) -> None:
        """Answer the callers."""
        self._answer(200)

    async def close(self) -> None:
        """Refuse what waits, and stop listening."""
        self._is_closing = True
        self._pending += self._waiting
        self._waiting.clear()
        self._answer(503)
        if self._runner is not None:
            await self._runner.cleanup()

    def _answer(self, status: int) -> None:
        for request in self._pending:
            if not request.answer.done():
                request.answer.set_result(status)
        self._pending = []

    async def _receive(self, http: web.Request) -> web.Response:
        if not self._is_known(http):
            return _refusal(
                401, "the header Authorization has not the token of this webhook", {"WWW-Authenticate": "Bearer"}
            )
        again = {"Retry-After": str(_RETRY_SECONDS)}
        size_bytes = http.content_length or 0
        if self._waiting_bytes + size_bytes > self._settings.max_waiting.bytes:
            return _refusal(429, "too many requests wait to be stored", again)
        try:
            body = await http.read()
        except web.HTTPRequestEntityTooLarge:
            return _refusal(413, f"a request has at most {self._settings.max_body}")
        try:
            records = _records(body, http.content_type, http.headers.get("Idempotency-Key"))
        except msgspec.MsgspecError as error:
            return _refusal(400, f"the body is not JSON: {error}")
        if not records:
            return web.json_response({"stored": 0})
        request = _Request(records, len(body))
        if self._is_closing:
            return _refusal(503, "the webhook is stopping", again)
        if self._waiting_bytes + request.size_bytes > self._settings.max_waiting.bytes:
            return _refusal(429, "too many requests wait to be stored", again)
        self._waiting.append(request)
        self._waiting_bytes += request.size_bytes
        self._arrived.set()
        try:
            status = await request.answer
        except asyncio.CancelledError:
            # The caller has gone. What waits still may be stored: the caller has to send it again, and expect that.
            with contextlib.suppress(ValueError):
                self._waiting.remove(request)
                self._waiting_bytes -= request.size_bytes
            raise
        if status != 200:
            return _refusal(status, "the records could not be stored now", again)
        return web.json_response({"stored": len(records)})

    def _is_known(self, http: web.Request) -> bool:
        token = self._settings.token
        if token is None:
            return True
        return is_one_of(http.headers.get("Authorization", ""), (f"Bearer {token.reveal()}",))


def _records(body: bytes, content_type: str, request_id: str | None) -> list[Record]:
    if content_type == _JSON_LINES:
        values: list[Any] = [msgspec.json.decode(line) for line in body.splitlines() if line.strip()]
    else:
        decoded = msgspec.json.decode(body)
        values = decoded if isinstance(decoded, list) else [decoded]
    # Without a key of the caller, a request that is sent again is another request.
    base = request_id if request_id is not None else f"{time.time_ns()}/{id(body)}"
    return [Record(value, id=stable_id("webhook", base, number)) for number, value in enumerate(values)]


def _refusal(status: int, text: str, headers: dict[str, str] | None = None) -> web.Response:
    return web.json_response({"status": status, "detail": text}, status=status, headers=headers)
