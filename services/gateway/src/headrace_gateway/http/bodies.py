"""Request bodies: received up to a limit, and decoded without blocking other requests.

An unauthenticated client sends only a login, so its body limit is small: its use of memory and of the event loop is
bounded before authentication.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any, Final

import msgspec
from aiohttp import hdrs, web

from headrace_gateway.http.routes import JSON, NOTHING, Nothing, Route
from headrace_gateway.json_api.errors import Rejected
from headrace_gateway.json_api.memory import Held
from headrace_gateway.json_api.numbers import with_whole_numbers

UNAUTHENTICATED_BYTES_MAX: Final = 4096
"""Maximum body size of routes without a token; a login is much smaller."""
_BODY_SECONDS: Final = 60.0
_UNAUTHENTICATED_SECONDS: Final = 10.0

Reader = Callable[[web.Request, Held], Awaitable[Any]]
"""Function that reads the body of a request, which holds memory for it."""


def reader_of(route: Route) -> Reader:
    """Return the function that reads the bodies of a route."""
    if route.body is Nothing:
        return _nothing
    read = _read_unauthenticated if route.is_public else _read
    if route.body is bytes:
        media_types = tuple(route.body_schemas)

        async def whole(request: web.Request, held: Held) -> bytes:
            _check_type(request, media_types)
            return await read(request, held)

        return whole
    decoder = msgspec.json.Decoder(route.body)

    async def decoded(request: web.Request, held: Held) -> Any:
        _check_type(request, (JSON,))
        body = await read(request, held)
        try:
            return _decoded(body, decoder)
        except msgspec.ValidationError as error:
            raise Rejected(422, f"The body does not have the expected form: {error}.") from error
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Rejected(400, f"The body is not JSON: {error}.") from error

    return decoded


async def _read(request: web.Request, held: Held) -> bytes:
    announced = request.content_length
    if (announced or 0) > request.client_max_size:
        raise _too_large()
    held.resize(request.client_max_size if announced is None else announced)
    body = await _in_time(request.read(), _BODY_SECONDS)
    # The library keeps the body as long as the request.
    held.resize(len(body))
    return body


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


async def _nothing(_request: web.Request, _held: Held) -> Nothing:
    return NOTHING


async def _read_unauthenticated(request: web.Request, _held: Held) -> bytes:
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
