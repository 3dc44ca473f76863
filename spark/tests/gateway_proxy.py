"""gRPC proxy in front of a gateway, which drops responses of some calls or refuses them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, Self

import grpc


def _as_it_is(message: bytes) -> bytes:
    return message


class GatewayProxy(grpc.GenericRpcHandler):
    """Forwards unary calls."""

    def __init__(self, address: str) -> None:
        self._channel = grpc.insecure_channel(address, [("grpc.use_local_subchannel_pool", 1)])
        self._server = grpc.server(ThreadPoolExecutor(8))
        self._server.add_generic_rpc_handlers((self,))
        self.address = f"127.0.0.1:{self._server.add_insecure_port('127.0.0.1:0')}"
        self.calls: Counter[str] = Counter()
        """Number of calls answered by the gateway, by name."""
        self.losing: dict[str, int] = {}
        """Number of responses still to be dropped, by name of the call."""
        self.refusing: set[str] = set()
        """Calls that are refused."""
        self.before: dict[str, Callable[[], object]] = {}
        """Functions to run before a call is forwarded, by name."""

    def __enter__(self) -> Self:
        self._server.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._server.stop(None)
        self._channel.close()

    def service(self, handler_call_details: Any) -> Any:
        path = handler_call_details.method
        forward = self._channel.unary_unary(path, request_serializer=_as_it_is, response_deserializer=_as_it_is)
        name = path.rpartition("/")[2]
        return grpc.unary_unary_rpc_method_handler(
            lambda request, context: self._forward(name, forward, request, context),
            request_deserializer=_as_it_is,
            response_serializer=_as_it_is,
        )

    def _forward(
        self, name: str, forward: Callable[..., bytes], request: bytes, context: grpc.ServicerContext
    ) -> bytes:
        if name in self.refusing:
            context.abort(grpc.StatusCode.PERMISSION_DENIED, "not through here")
        if name in self.before:
            self.before[name]()
        shown = [(key, value) for key, value in context.invocation_metadata() if key == "authorization"]
        try:
            answer = forward(request, metadata=shown, timeout=30)
        except grpc.RpcError as error:
            context.set_trailing_metadata(
                [(key, value) for key, value in error.trailing_metadata() or () if key.startswith("headrace-")]
            )
            context.abort(error.code(), error.details() or "")
        self.calls[name] += 1
        if self.losing.get(name, 0) > 0:
            self.losing[name] -= 1
            context.abort(grpc.StatusCode.UNAVAILABLE, "the answer is lost")
        return answer
