"""Calls as spans of the traces that their callers are a part of."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc
from grpc import aio

from headrace_shards.tracing import Tracing

# Types of this library cannot be subscribed while it runs.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]"


class TracedCalls(aio.ServerInterceptor):
    """Stands in front of the service. Calls with one request and one answer get spans; those that last do not."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Put a span around what serves the call, if the call says that it is recorded."""
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
