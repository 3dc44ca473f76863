"""Calls of gRPC that need no token: what those who make them may hold, and for how long.

A caller without a token holds a place as long as he lets the server wait: for his request, or until he has taken the
answer. There are few of these places, and who comes when all are taken gets that of the one who has had his the
longest: an honest caller needs his for a moment only. So strangers neither keep each other out for long nor those with
a token at all, and whatever they do they hold no more calls than there are places.
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

from headrace_proto.errors import Status
from headrace_shards.grpc_refusals import Refused

PLACES: Final = 32
"""How many strangers may let the server wait at a time."""
REQUEST_BYTES_MAX: Final = 4096
"""Of one of their requests: a login fits many times."""
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


class Strangers:
    """Those who let the server wait."""

    def __init__(self, places: int = PLACES, seconds: float = _SECONDS) -> None:
        """Begin with nobody.

        Args:
            places: How many there may be.
            seconds: For how long each.
        """
        self._places = places
        self._seconds = seconds
        # In the order in which they came.
        self._waited_for: dict[object, asyncio.Timeout] = {}

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self._waited_for)

    @asynccontextmanager
    async def waited_for(self, what: str) -> AsyncIterator[None]:
        """Let one of them have the server wait.

        Args:
            what: For what, as the refusal names it.

        Raises:
            Refused: It took too long, or somebody else needed the place.
        """
        if len(self._waited_for) >= self._places:
            oldest = next(iter(self._waited_for))
            # Its time is over now.
            self._waited_for.pop(oldest).reschedule(0)
        place = object()
        try:
            async with asyncio.timeout(self._seconds) as deadline:
                self._waited_for[place] = deadline
                yield
        except TimeoutError:
            raise Refused(Status.INVALID_FORMAT, f"{what} was waited for, in vain") from None
        finally:
            self._waited_for.pop(place, None)

    async def requests(self, encoded: AsyncIterator[bytes]) -> AsyncIterator[bytes]:
        """What they send, as long as it comes.

        Raises:
            Refused: One did not come in time or is too large, or there is none at all.
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
        """Answer one of them.

        Raises:
            Refused: He does not take the answer.
        """
        async with self.waited_for("the answer's way"):
            await context.write(response)


class Everybody(aio.ServerInterceptor):
    """Stands in front of services of libraries, whose handlers would be called with requests that were received whole.

    Health is not watched: a watch lasts as long as its caller likes. To libraries that do so by themselves, what is
    not implemented is healthy.
    """

    def __init__(self, strangers: Strangers, services: tuple[str, ...], refuse: Refuse) -> None:
        """Know the services.

        Args:
            strangers: Those who call.
            services: Their names.
            refuse: Ends a call.
        """
        self._strangers = strangers
        self._prefixes = tuple(f"/{service}/" for service in services)
        self._refuse = refuse

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler:
        """Let the call pass to its handler, or to one that receives the request for it."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(self._prefixes):
            return handler
        if handler.response_streaming and not handler.request_streaming:
            return grpc.stream_stream_rpc_method_handler(_not_served)
        behaviour = getattr(handler, _KINDS[handler.request_streaming, handler.response_streaming])
        deserialize = handler.request_deserializer or bytes
        serialize: Callable[[Any], bytes] = handler.response_serializer or bytes

        async def understood(encoded: AsyncIterator[bytes]) -> AsyncIterator[Any]:
            async for one in self._strangers.requests(encoded):
                try:
                    yield deserialize(one)
                except DecodeError as error:
                    raise Refused(Status.INVALID_FORMAT, "the request cannot be decoded") from error

        async def serve(encoded: AsyncIterator[bytes], context: _Context) -> None:
            try:
                requests = understood(encoded)
                answer = behaviour(requests if handler.request_streaming else await anext(requests), context)
                if inspect.isasyncgen(answer):
                    async for response in answer:
                        await self._strangers.write(serialize(response), context)
                elif (response := await answer) is not None:
                    await self._strangers.write(serialize(response), context)
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this call only
                await self._refuse(context, error)

        return grpc.stream_stream_rpc_method_handler(serve)


async def _not_served(_requests: AsyncIterator[bytes], context: _Context) -> None:
    await context.abort(grpc.StatusCode.UNIMPLEMENTED, "health is not watched; ask with Check")
