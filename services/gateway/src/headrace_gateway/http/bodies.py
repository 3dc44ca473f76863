"""Request bodies: received up to a limit, and decoded without blocking other requests.

An unauthenticated client sends only a login, so its body limit is small: its use of memory and of the event loop is
bounded before authentication.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Hashable
from contextlib import asynccontextmanager
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from headrace_gateway.http.routes import JSON, NOTHING, Nothing, Route
from headrace_gateway.json_api.errors import Rejected
from headrace_gateway.json_api.numbers import with_whole_numbers

UNAUTHENTICATED_BYTES_MAX: Final = 4096
"""Maximum body size of routes without a token; a login is much smaller."""
_BODY_SECONDS: Final = 60.0
_UNAUTHENTICATED_SECONDS: Final = 10.0
# One user may hold 1/2 of the memory of all requests.
_SHARE: Final = 2

Reader = Callable[[web.Request, Hashable], Awaitable[Any]]
"""Function that reads the body of a request of a given user."""


class Bodies:
    """Memory budget of all bodies that are being received."""

    def __init__(self, bytes_max: int) -> None:
        """Start with an empty budget.

        Args:
            bytes_max: Maximum size of all bodies together; one user may use half of it.
        """
        self._bytes_max = bytes_max
        self._bytes = 0
        self._bytes_of: Counter[Hashable] = Counter()

    def reader(self, route: Route) -> Reader:
        """Return the function that reads the bodies of a route."""
        if route.body is Nothing:
            return _nothing
        read = _read_unauthenticated if route.is_public else self._read
        if route.body is bytes:
            media_types = tuple(route.body_schemas)

            async def whole(request: web.Request, user: Hashable) -> bytes:
                _check_type(request, media_types)
                return await read(request, user)

            return whole
        decoder = msgspec.json.Decoder(route.body)

        async def decoded(request: web.Request, user: Hashable) -> Any:
            _check_type(request, (JSON,))
            body = await read(request, user)
            try:
                return _decoded(body, decoder)
            except msgspec.ValidationError as error:
                raise Rejected(422, f"The body does not have the expected form: {error}.") from error
            except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
                raise Rejected(400, f"The body is not JSON: {error}.") from error

        return decoded

    async def _read(self, request: web.Request, user: Hashable) -> bytes:
        announced = request.content_length
        if (announced or 0) > request.client_max_size:
            raise _too_large()
        async with self._held(user, request.client_max_size if announced is None else announced):
            return await _in_time(request.read(), _BODY_SECONDS)

    @asynccontextmanager
    async def _held(self, user: Hashable, size_bytes: int) -> AsyncIterator[None]:
        mine = self._bytes_of[user] + size_bytes
        is_alone = mine == size_bytes
        if self._bytes + size_bytes > self._bytes_max or (mine > self._bytes_max // _SHARE and not is_alone):
            raise Rejected(503, "Too many bodies are being received; see http.max_bodies_size.")
        self._bytes += size_bytes
        self._bytes_of[user] = mine
        try:
            yield
        finally:
            self._bytes -= size_bytes
            self._bytes_of[user] -= size_bytes
            if not self._bytes_of[user]:
                del self._bytes_of[user]


def _decoded(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    try:
        return decoder.decode(body)
    except msgspec.ValidationError:
        # The body may only need the conversion of numbers such as 1.0. That is slow and blocks other requests, so it is
        # limited to small bodies.
        if len(body) > UNAUTHENTICATED_BYTES_MAX:
            raise
        return _converted(body, decoder)


def _converted(body: bytes, decoder: msgspec.json.Decoder[Any]) -> Any:
    return msgspec.convert(with_whole_numbers(msgspec.json.decode(body)), decoder.type)


async def _nothing(_request: web.Request, _user: Hashable) -> Nothing:
    return NOTHING


async def _read_unauthenticated(request: web.Request, _user: Hashable) -> bytes:
    if (request.content_length or 0) > UNAUTHENTICATED_BYTES_MAX:
        raise _too_large()
    return await _in_time(_few_bytes(request), _UNAUTHENTICATED_SECONDS)


async def _few_bytes(request: web.Request) -> bytes:
    body = b""
    while piece := await request.content.readany():
        body += piece
        if len(body) > UNAUTHENTICATED_BYTES_MAX:
            raise _too_large()
    return body


async def _in_time(reading: Awaitable[bytes], seconds: float) -> bytes:
    try:
        async with asyncio.timeout(seconds):
            return await reading
    except TimeoutError:
        raise Rejected(408, "The body did not arrive in time.") from None
    except ConnectionError:
        # The client is no longer reading; this is not a server error.
        raise Rejected(400, "The body did not arrive.") from None


def _check_type(request: web.Request, media_types: tuple[str, ...]) -> None:
    if request.headers.get(hdrs.CONTENT_ENCODING, "identity").lower() != "identity":
        # A few compressed bytes could expand to many.
        raise Rejected(415, "Content-Encoding is not supported: send the body uncompressed.")
    found = request.content_type if hdrs.CONTENT_TYPE in request.headers else ""
    if found not in media_types and not (found.endswith("+json") and found.startswith("application/")):
        raise Rejected(415, f"The Content-Type of the body must be {' or '.join(media_types)}.")


def _too_large() -> Rejected:
    return Rejected(413, "The body exceeds the limit of this server.")
