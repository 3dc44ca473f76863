"""Limits of unauthenticated gRPC calls, in number and time.

A caller without a token occupies a place while the server waits for the caller: for the request, or until the answer
was taken. There are few of these places, and when all are taken, a new caller gets the place of the oldest one: a
well-behaved caller needs a place only briefly. Unauthenticated callers can therefore block neither each other for long
nor authenticated ones, and never hold more calls than there are places.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any, Final, NoReturn, TypeAlias

import grpc
from google.protobuf.message import DecodeError
from grpc import aio

from headrace_chassis.grpc.status import Refused
from headrace_chassis.places import address_of, place_of
from headrace_chassis.starts import Starts
from headrace_proto.errors import Status

PLACES: Final = 32
"""Maximum number of unauthenticated calls that the server waits for at a time."""
REQUEST_BYTES_MAX: Final = 4096
"""Maximum size of an unauthenticated request: many times that of a login."""
_SECONDS: Final = 5.0

_Context = aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
Refuse: TypeAlias = Callable[[_Context, Exception], Awaitable[NoReturn]]
"""Ends a call because of an exception."""
_KINDS: Final = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


class UnauthenticatedCalls:
    """Unauthenticated calls that the server waits for."""

    def __init__(self, places: int = PLACES, seconds: float = _SECONDS) -> None:
        """Create an empty set of places.

        Args:
            places: Number of places.
            seconds: Maximum time that a call may occupy a place.
        """
        self._places = places
        self._seconds = seconds
        # In the order of their arrival.
        self._waited_for: dict[object, asyncio.Timeout] = {}

    @property
    def count(self) -> int:
        """Number of occupied places."""
        return len(self._waited_for)

    @asynccontextmanager
    async def waited_for(self, what: str) -> AsyncIterator[None]:
        """Occupy a place while the server waits for a caller.

        Args:
            what: Purpose of the wait, as the refusal names it.

        Raises:
            Refused: The wait took too long, or another caller took the place.
        """
        if len(self._waited_for) >= self._places:
            oldest = next(iter(self._waited_for))
            # Expire its timeout now.
            self._waited_for.pop(oldest).reschedule(0)
        place = object()
        try:
            async with asyncio.timeout(self._seconds) as deadline:
                self._waited_for[place] = deadline
                yield
        except TimeoutError:
            raise Refused(Status.INVALID_FORMAT, f"timed out waiting for {what}") from None
        finally:
            self._waited_for.pop(place, None)

    async def requests(self, encoded: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """Receive the requests of a call, each with a timeout.

        Raises:
            Refused: A request timed out or is too large, or there is none at all.
        """
        count = 0
        while True:
            async with self.waited_for("a request"):
                one = await anext(encoded, None)
            if one is None and count == 0:
                raise Refused(Status.INVALID_FORMAT, "the call carries no request")
            if one is None:
                return
            if len(one) > REQUEST_BYTES_MAX:
                raise Refused(Status.INVALID_FORMAT, f"a request without a token has {REQUEST_BYTES_MAX} bytes at most")
            count += 1
            yield one

    async def write(self, response: bytes, context: _Context) -> None:
        """Send an answer.

        Raises:
            Refused: The caller did not read the answer in time.
        """
        async with self.waited_for("capacity to send the response"):
            await context.write(response)


class UnauthenticatedInterceptor(aio.ServerInterceptor):
    """Limits unauthenticated calls of library services.

    The library calls their handlers only after the whole request was received, so this interceptor receives it.
    Watching the health is refused, as a watch lasts as long as its caller likes. Client libraries that watch by default
    treat an unimplemented watch as healthy.
    """

    def __init__(
        self, unauthenticated: UnauthenticatedCalls, services: tuple[str, ...], refuse: Refuse, starts: Starts
    ) -> None:
        """Limit the calls of `services` to the places in `unauthenticated`; `refuse` ends a refused call."""
        self._starts = starts
        self._unauthenticated = unauthenticated
        self._prefixes = tuple(f"/{service}/" for service in services)
        self._refuse = refuse

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler:
        """Pass the call to its handler, or to one that receives the request within the limits."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(self._prefixes):
            return handler
        if handler.response_streaming and not handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(_not_served)
        behaviour = getattr(handler, _KINDS[handler.request_streaming, handler.response_streaming])
        deserialize = handler.request_deserializer or bytes
        serialize: Callable[[Any], bytes] = handler.response_serializer or bytes

        async def understood(encoded: AsyncIterator[bytes]) -> AsyncIterator[Any]:
            async for one in self._unauthenticated.requests(encoded):
                try:
                    yield deserialize(one)
                except DecodeError as error:
                    raise Refused(Status.INVALID_FORMAT, "the request cannot be decoded") from error

        async def serve(encoded: AsyncIterator[bytes], context: _Context) -> None:
            try:
                await self._starts.take(place_of(address_of(context.peer())[0]))
                requests = understood(encoded)
                answer = behaviour(requests if handler.request_streaming else await anext(requests), context)
                if inspect.isasyncgen(answer):
                    async for response in answer:
                        await self._unauthenticated.write(serialize(response), context)
                elif (response := await answer) is not None:
                    await self._unauthenticated.write(serialize(response), context)
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this call only
                await self._refuse(context, error)

        return grpc.stream_stream_rpc_method_handler(serve)


async def _not_served(_requests: AsyncIterator[bytes], context: _Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "Watch is not supported; call Check")
