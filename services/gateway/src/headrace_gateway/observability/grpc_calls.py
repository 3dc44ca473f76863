"""gRPC calls: request id for the log, and spans."""

from __future__ import annotations

import inspect
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias, cast

import grpc
from grpc import aio

from headrace_chassis.correlation import REQUEST_ID, request_id_of
from headrace_node.tracing import Tracing

# The types of this library are not subscriptable at run time.
_Handler: TypeAlias = "grpc.RpcMethodHandler[Any, Any] | None"
_Continuation: TypeAlias = "Callable[[grpc.HandlerCallDetails], Awaitable[_Handler]]"


class ObservedCalls(aio.ServerInterceptor):
    """Interceptor of our services, whose calls are all served as streams."""

    def __init__(self, tracing: Tracing | None) -> None:
        """Create the interceptor.

        Args:
            tracing: Creates a span for each call, if enabled.
        """
        self._tracing = tracing

    async def intercept_service(
        self, continuation: _Continuation, handler_call_details: grpc.HandlerCallDetails
    ) -> _Handler:
        """Wrap the handler of the call with request id and span."""
        handler = await continuation(handler_call_details)
        # The library's own services, health and reflection, have other kinds of handlers.
        if handler is None or not inspect.iscoroutinefunction(handler.stream_stream):
            return handler
        service, _, method = handler_call_details.method.removeprefix("/").partition("/")
        metadata = handler_call_details.invocation_metadata
        carrier = {name: value for name, value in metadata if isinstance(value, str)}
        # The type stubs know only the blocking form.
        serve: Callable[[Any, Any], Awaitable[None]] = cast("Any", handler.stream_stream)

        async def observed(requests: Any, context: Any) -> None:
            request_id = request_id_of(carrier.get("x-request-id", ""))
            # Each call runs in a task of its own.
            REQUEST_ID.set(request_id)
            if self._tracing is None:
                await serve(requests, context)
                return
            attributes = {
                "rpc.system": "grpc",
                "rpc.service": service,
                "rpc.method": method,
                "headrace.request_id": request_id,
            }
            with self._tracing.request(f"{service}/{method}", carrier, attributes):
                await serve(requests, context)

        return grpc.stream_stream_rpc_method_handler(
            cast("Any", observed), handler.request_deserializer, handler.response_serializer
        )
