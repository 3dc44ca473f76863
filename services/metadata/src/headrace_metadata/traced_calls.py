"""Spans of calls, as part of the traces of their callers."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc
from grpc import aio

from headrace_node.tracing import Tracing

# The types of this library are not subscriptable at run time.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]"


class TracedCalls(aio.ServerInterceptor):
    """Interceptor of the service. Unary calls get spans; streaming calls do not."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Wrap the handler in a span if the caller's trace is sampled."""
        handler = await continuation(handler_call_details)
        if handler is None or handler.unary_unary is None:
            return handler
        carrier = {name: value for name, value in handler_call_details.invocation_metadata if isinstance(value, str)}
        if "traceparent" not in carrier:
            return handler
        service, _, method = handler_call_details.method.removeprefix("/").partition("/")
        serve: Callable[[Any, Any], Awaitable[Any]] = cast("Any", handler.unary_unary)

        async def traced(request: Any, context: Any) -> Any:
            attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
            with self._tracing.request(f"{service}/{method}", carrier, attributes):
                return await serve(request, context)

        return grpc.unary_unary_rpc_method_handler(
            cast("Any", traced), handler.request_deserializer, handler.response_serializer
        )
