"""Spans of calls of gRPC."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc
from grpc import aio

from headrace_gateway.observability.tracing import Tracing

# Types of this library cannot be subscribed while it runs.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]"


class TracedCalls(aio.ServerInterceptor):
    """Makes each call a span. All calls of this door are served as streams."""

    def __init__(self, tracing: Tracing) -> None:
        self._tracing = tracing

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Put the span around what serves the call."""
        handler = await continuation(handler_call_details)
        # Those of this library, health and reflection, are of other kinds.
        if handler is None or not inspect.iscoroutinefunction(handler.stream_stream):
            return handler
        service, _, method = handler_call_details.method.removeprefix("/").partition("/")
        metadata = handler_call_details.invocation_metadata
        carrier = {name: value for name, value in metadata if isinstance(value, str)}
        # The stubs know the blocking form of it only.
        serve: Callable[[Any, Any], Awaitable[None]] = cast("Any", handler.stream_stream)

        async def traced(requests: Any, context: Any) -> None:
            attributes = {"rpc.system": "grpc", "rpc.service": service, "rpc.method": method}
            with self._tracing.request(f"{service}/{method}", carrier, attributes):
                await serve(requests, context)

        return grpc.stream_stream_rpc_method_handler(
            cast("Any", traced), handler.request_deserializer, handler.response_serializer
        )
