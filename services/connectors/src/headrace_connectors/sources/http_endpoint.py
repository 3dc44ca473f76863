"""Base of sources that receive requests: these wait until their records are stored, and are answered then."""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import resource
from abc import abstractmethod
from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Annotated, Any, Final

import aiohttp
from aiohttp import hdrs, web

from headrace_chassis import admin_http
from headrace_chassis.errors import ListenError
from headrace_connectors.contract import Batch, ConnectorError, InFlight, Opaque, Record, Settings, Source
from headrace_connectors.guesses import TOO_MANY_GUESSES, Guesses
from headrace_settings import Address, Between, Duration, Size

_RETRY_SECONDS: Final = 1
_STOP_SECONDS: Final = 5.0
_FIRST_REQUEST_SECONDS: Final = 10.0
_SMALL_BYTES: Final = 16 * 1024
"""Requests up to this size are decoded at once. Larger ones would hold other callers up for milliseconds."""
_FILES_SHARE: Final = 8
"""A source has at most this part of the files of its process, in which other connectors, or the server, run."""
AGAIN: Final = {"Retry-After": str(_RETRY_SECONDS)}
"""Headers of an answer to a request that may be sent again."""


class EndpointSettings(Settings):
    """Settings of sources that receive requests."""

    max_body: Annotated[Size, Between(Size(1), Size.parse("64 MiB"))] = Size.parse("1 MiB")
    """Maximum size of a request."""
    max_waiting: Annotated[Size, Between(Size(1024), Size.parse("16 GiB"))] = Size.parse("64 MiB")
    """Maximum size of all requests that are received or wait to be stored; further ones are answered 429."""
    max_requests: Annotated[int, Between(1, 1_000_000)] = 2000
    """Maximum number of such requests."""
    max_connections: Annotated[int, Between(1, 1_000_000)] = 2000
    """Maximum number of open connections, and at most an eighth of the files that the process may open (`ulimit -n`); a
    further one is closed at once. A connection without a request is closed after 10 s.
    """
    max_body_time: Annotated[Duration, Between(Duration.parse("100 ms"), Duration.parse("1 h"))] = Duration.parse("1 m")
    """Time within which the body of a request has to arrive."""
    max_records: Annotated[int, Between(1, 1_000_000)] = 10_000
    """Maximum number of records of a request; a request with more is answered 413. A batch has at most as many, too."""
    batch_size: Annotated[int, Between(1, 100_000)] = 1000
    """Maximum number of requests in a batch."""


class RequestRefused(Exception):
    """A request cannot be accepted.

    Args:
        status: Status of the answer.
        text: The reason.
        headers: Further headers of the answer.
    """

    def __init__(self, status: int, text: str, headers: Mapping[str, str] | None = None) -> None:
        super().__init__(text)
        self.status = status
        self.headers = headers


def refuse_pages(http: web.Request) -> None:
    """Refuse a page in a browser: without credentials, any page could send to this machine.

    Browsers name the origin of a page with each request that may bring records; programs name none.

    Raises:
        RequestRefused: A page sends the request.
    """
    if hdrs.ORIGIN in http.headers:
        raise RequestRefused(403, "pages in browsers may not send without credentials: set the token of this source")


def _reason(error: ListenError) -> str:
    cause = error.__cause__
    return str((cause.strerror if isinstance(cause, OSError) else None) or error)


class _Request:
    __slots__ = ("answer", "records")

    def __init__(self, records: Sequence[Record]) -> None:
        self.records = records
        self.answer: asyncio.Future[int] = asyncio.get_running_loop().create_future()


class HttpEndpoint(Source):
    """Receives requests. Each is answered when its records are stored, or could not be."""

    def __init__(self, address: Address, limits: EndpointSettings) -> None:
        """Listen to nothing yet."""
        self._configured_address = address
        self._limits = limits
        self._waiting: deque[_Request] = deque()
        # Of all requests from their headers until their answers, also while their bodies arrive.
        self._held_bytes = 0
        self._held_requests = 0
        self._arrived = asyncio.Event()
        self._flight = InFlight[list[_Request]]()
        # Requests of the next batch, fewer after a failure.
        self._batch_requests = limits.batch_size
        self._listening = contextlib.AsyncExitStack()
        self._is_closing = False
        self._closing: asyncio.Task[None] | None = None
        self._guesses = Guesses()
        self.address: Address | None = None
        """Address actually bound."""

    @abstractmethod
    def routes(self) -> Sequence[web.RouteDef]:
        """Return the routes; `receive` is the handler of those that bring records."""

    @abstractmethod
    def authorize(self, http: web.Request) -> None:
        """Check who sends a request.

        Raises:
            RequestRefused: The caller is not known.
        """

    def require(self, http: web.Request, *, is_given: bool, is_right: bool, refusal: RequestRefused) -> None:
        """Refuse a request without the right credentials, and any from an address with too many wrong ones.

        Args:
            http: The request.
            is_given: True if it has credentials.
            is_right: True if these are the right ones.
            refusal: Refusal of wrong ones, and of none.

        Raises:
            RequestRefused: The caller is not known.
        """
        seconds = self._guesses.refused_for_seconds(http.remote, is_given=is_given, is_right=is_right)
        if seconds > 0:
            raise RequestRefused(429, TOO_MANY_GUESSES, {"Retry-After": str(math.ceil(seconds))})
        if not is_right:
            raise refusal

    @abstractmethod
    def records(self, http: web.Request, body: bytes) -> Iterator[Record]:
        """Return the records of a request, one after the other. This may run in any thread.

        Raises:
            RequestRefused: The body, or something else of the request, is not valid.
        """

    @abstractmethod
    def stored(self, count: int) -> web.Response:
        """Return the answer to a request whose records are stored."""

    @abstractmethod
    def refusal(self, http: web.Request, refused: RequestRefused) -> web.Response:
        """Return the answer to a request that is refused."""

    def mode(self) -> Opaque:
        """Callers keep what was not answered."""
        return Opaque()

    async def open(self, state: bytes | None) -> None:
        """Listen.

        Raises:
            ConnectorError: The address cannot be bound.
        """
        del state
        application = web.Application(client_max_size=self._limits.max_body.bytes)
        application.router.add_routes(self.routes())
        address = self._configured_address
        limits = admin_http.Limits(
            connections=self._connections_max(),
            first_request_seconds=_FIRST_REQUEST_SECONDS,
            body_seconds=self._limits.max_body_time.seconds,
            stop_seconds=_STOP_SECONDS,
        )
        try:
            self.address = await self._listening.enter_async_context(
                admin_http.listening(application, address, limits=limits, cancels_handlers=True)
            )
        except ListenError as error:
            raise ConnectorError(f"cannot listen on {address}: {_reason(error)}; set another address") from error

    def _connections_max(self) -> int:
        files_max = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
        configured = self._limits.max_connections
        return configured if files_max < 0 else min(configured, max(1, files_max // _FILES_SHARE))

    async def poll(self) -> Batch:
        """Wait for requests, after refusing those of the last poll."""
        await self.rewind()
        return await self.poll_ahead()

    @classmethod
    def pipelining_refusal(cls, settings: Any) -> str | None:
        """Return None: requests are independent of each other."""
        del settings
        return None

    async def poll_ahead(self) -> Batch:
        """Wait for requests."""
        while not self._waiting:
            self._arrived.clear()
            await self._arrived.wait()
        taken: list[_Request] = []
        count = 0
        while self._waiting and len(taken) < self._batch_requests:
            count += len(self._waiting[0].records)
            if taken and count > self._limits.max_records:
                break
            taken.append(self._waiting.popleft())
        batch = Batch([record for request in taken for record in request.records])
        self._flight.add(batch, taken)
        return batch

    async def commit(self) -> None:
        """Answer the callers."""
        self._stored_all(self._flight.clear())

    async def commit_batch(self, batch: Batch) -> None:
        """Answer the callers of a batch, and of those before it."""
        self._stored_all(self._flight.committed(batch))

    async def rewind(self) -> None:
        """Refuse what could not be stored: its callers send it again."""
        refused = self._flight.clear()
        if refused:
            # One request may be the reason, and must not hold up others for ever: the next one is alone. If that is
            # refused, too, it may be the server, and all that wait are not to be refused one by one.
            is_one = sum(map(len, refused)) == 1
            self._batch_requests = self._limits.batch_size if is_one else 1
        self._answer(503, refused)

    async def close(self) -> None:
        """Refuse what waits, and stop listening."""
        self._is_closing = True
        self._answer(503, [*self._flight.clear(), self._waiting])
        self._waiting.clear()
        # A close that is cancelled goes on: callers would send to its connections for ever, and be refused.
        if self._closing is None:
            self._closing = asyncio.create_task(self._listening.aclose(), name="http-endpoint-close")
        await asyncio.shield(self._closing)

    def _stored_all(self, batches: Sequence[Sequence[_Request]]) -> None:
        if batches:
            self._batch_requests = min(2 * self._batch_requests, self._limits.batch_size)
        self._answer(200, batches)

    def _answer(self, status: int, batches: Iterable[Iterable[_Request]]) -> None:
        for batch in batches:
            for request in batch:
                if not request.answer.done():
                    request.answer.set_result(status)

    async def receive(self, http: web.Request) -> web.Response:
        """Answer a request that brings records, when these are stored."""
        try:
            return self.stored(await self._received(http))
        except RequestRefused as refused:
            return self.refusal(http, refused)

    async def _received(self, http: web.Request) -> int:
        """Return the number of records that are stored."""
        self.authorize(http)
        # Without a length, the body may have the maximum.
        size_bytes = self._limits.max_body.bytes if http.content_length is None else http.content_length
        if size_bytes > self._limits.max_body.bytes:
            raise RequestRefused(413, f"a request has at most {self._limits.max_body}")
        with self._held(size_bytes, 1):
            body = await self._body(http)
            # A body that was compressed has grown.
            with self._held(max(0, len(body) - size_bytes), 0):
                return await self._stored(http, body)

    async def _body(self, http: web.Request) -> bytes:
        try:
            return await http.read()
        except web.HTTPRequestEntityTooLarge:
            raise RequestRefused(413, f"a request has at most {self._limits.max_body}") from None
        except TimeoutError:
            raise RequestRefused(408, f"the body did not arrive within {self._limits.max_body_time}") from None
        except (aiohttp.ClientPayloadError, web.RequestPayloadError) as error:
            raise RequestRefused(400, f"the body cannot be read: {error}") from error

    async def _stored(self, http: web.Request, body: bytes) -> int:
        records = await self._records(http, body)
        if not records:
            return 0
        request = _Request(records)
        if self._is_closing:
            raise RequestRefused(503, "the source is stopping", AGAIN)
        self._waiting.append(request)
        self._arrived.set()
        try:
            status = await request.answer
        except asyncio.CancelledError:
            # The caller has gone. What waits still may be stored: the caller has to send it again, and expect that.
            with contextlib.suppress(ValueError):
                self._waiting.remove(request)
            raise
        if status != 200:
            raise RequestRefused(status, "the records could not be stored now", AGAIN)
        return len(records)

    async def _records(self, http: web.Request, body: bytes) -> Sequence[Record]:
        def taken() -> Sequence[Record]:
            records = list(itertools.islice(self.records(http, body), self._limits.max_records + 1))
            if len(records) > self._limits.max_records:
                raise RequestRefused(413, f"a request has at most {self._limits.max_records} records: send several")
            return records

        return taken() if len(body) <= _SMALL_BYTES else await asyncio.to_thread(taken)

    @contextlib.contextmanager
    def _held(self, size_bytes: int, requests_count: int) -> Iterator[None]:
        """Count a request during a ``with`` block.

        Raises:
            RequestRefused: There are too many already.
        """
        limits = self._limits
        is_full = self._held_requests + requests_count > limits.max_requests
        # A request that is alone is never too large.
        others = self._held_requests - (0 if requests_count else 1)
        if is_full or (others and self._held_bytes + size_bytes > limits.max_waiting.bytes):
            raise RequestRefused(429, "too many requests wait to be stored", AGAIN)
        self._held_bytes += size_bytes
        self._held_requests += requests_count
        try:
            yield
        finally:
            self._held_bytes -= size_bytes
            self._held_requests -= requests_count
