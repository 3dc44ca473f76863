"""Services of libraries that need no token: what strangers send them is received a little at a time, too."""

from __future__ import annotations

import inspect
from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any, Final, TypeAlias

import grpc
from grpc import aio

from headrace_gateway.grpc.calls import Calls
from headrace_gateway.grpc.refused import refuse

_Context = aio.ServicerContext[Any, Any]
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
_KINDS: Final = {
    (False, False): "unary_unary",
    (False, True): "unary_stream",
    (True, False): "stream_unary",
    (True, True): "stream_stream",
}


class Everybody(aio.ServerInterceptor):
    """Stands in front of services whose handlers would be called with requests that were received whole."""

    def __init__(self, calls: Calls, services: tuple[str, ...]) -> None:
        self._calls = calls
        self._prefixes = tuple(f"/{service}/" for service in services)

    async def intercept_service(
        self,
        continuation: Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]],
        handler_call_details: grpc.HandlerCallDetails,
    ) -> _Handler:
        """Let the call pass to its handler, or to one that receives the request for it."""
        handler = await continuation(handler_call_details)
        if handler is None or not handler_call_details.method.startswith(self._prefixes):
            return handler
        behaviour = getattr(handler, _KINDS[handler.request_streaming, handler.response_streaming])
        deserialize = handler.request_deserializer or bytes

        async def serve(encoded: AsyncIterator[bytes], context: _Context) -> None:
            try:
                requests = (deserialize(one) async for one in self._calls.of_strangers(encoded))
                answer = behaviour(requests if handler.request_streaming else await anext(requests), context)
                if inspect.isasyncgen(answer):
                    async for response in answer:
                        await context.write(response)
                elif (response := await answer) is not None:
                    await context.write(response)
            except Exception as error:  # noqa: BLE001 - whatever it is, it ends this call only
                await refuse(context, error)

        return grpc.stream_stream_rpc_method_handler(serve, None, handler.response_serializer)
